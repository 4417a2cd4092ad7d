"""The files of the page, which are part of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOLDER: Final = Path(__file__).with_name("static")


class Files:
    """The content and the type of each file, by the path in its address. They are read once."""

    def __init__(self) -> None:
        self._files = {
            f"/{path.name}": (path.read_bytes(), _TYPES[path.suffix])
            for path in sorted(_FOLDER.iterdir())
            if path.suffix in _TYPES
        }

    def get(self, path: str) -> tuple[bytes, str] | None:
        """Returns content and type of a file, or None."""
        return self._files.get("/index.html" if path == "/" else path)
