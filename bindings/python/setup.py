"""Gives the wheel its tag and its bill of materials. Everything else about the package is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

# The backend puts the library here, in a copy of this directory.
LIBRARY = Path(__file__).resolve().parent / "src" / "msgqueue" / "libmsgqueue.so.0"
# And this, which says what is linked into the library.
MATERIALS = Path(__file__).resolve().parent / "msgqueue.cdx.json"


class WithLibrary(Distribution):
    """A distribution with a library for one platform."""

    def has_ext_modules(self) -> bool:
        """Makes setuptools put the package where packages for one platform belong."""
        return LIBRARY.exists()


class Wheel(bdist_wheel):
    """A wheel for every Python 3, because ctypes loads the library."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tags of Python, its ABI, and the platform."""
        return "py3", "none", super().get_tag()[2]

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Adds the bill of materials to the metadata, where PEP 770 has it."""
        super().egg2dist(egginfo_path, distinfo_path)
        if MATERIALS.exists():
            directory = Path(distinfo_path) / "sboms"
            directory.mkdir()
            shutil.copy(MATERIALS, directory)


setup(distclass=WithLibrary, cmdclass={"bdist_wheel": Wheel})
