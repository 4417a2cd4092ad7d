"""Opens the review page in the browser of the desktop."""

from __future__ import annotations

import html
import logging
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

from .._escaping import escaped

logger = logging.getLogger("msgqueue")

_FILE: Final = "open.html"


class Redirect:
    """A file that leads a browser to an address, and that only this user may read.

    The arguments of a program are visible to all users of the machine. The address has a token, so it may not be one.
    """

    def __init__(self, address: str) -> None:
        """Writes the file.

        Raises:
            OSError: There is no place for temporary files.
        """
        self._directory = tempfile.TemporaryDirectory(prefix="msgqueue-")
        self._path = Path(self._directory.name) / _FILE
        to = html.escape(address)
        text = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>msgqueue</title>'
            f'<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url={to}">'
            f'<p><a href="{to}">Review page</a>\n'
        )
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError:
            self.remove()
            raise

    @property
    def address(self) -> str:
        """The address of the file."""
        return self._path.as_uri()

    def remove(self) -> None:
        """Removes the file. A second call does nothing."""
        try:
            self._directory.cleanup()
        except OSError as problem:
            logger.warning("review page: %s", escaped(f"{self._path} could not be removed: {problem}"))


def has_desktop() -> bool:
    """Whether a browser has a place to be shown. Without one, it would be started in the terminal."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def start_browser(address: str) -> None:
    """Starts the browser of the desktop, without our terminal, where it would write.

    Raises:
        OSError: No process can be started.
    """
    # The module webbrowser lets some browsers write where this process writes: it runs in a process of its own.
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "webbrowser", address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=process.wait, name="msgqueue console browser", daemon=True).start()
