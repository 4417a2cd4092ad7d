"""Text from outside on a terminal: names, messages and texts of other programs must not control it."""

from __future__ import annotations

import logging
import unicodedata

# The general categories that could move the cursor, change the direction of the text, or show nothing.
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str, *, lines: bool = False) -> str:
    r"""Returns the text without characters that could control a terminal: \n, \x1b, \u202e in their place.

    Args:
        text: Any text.
        lines: Line feeds stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if unicodedata.category(character) not in _UNSAFE or (lines and character == "\n")
        else _code(character)
        for character in text
    )


class EscapingFormatter(logging.Formatter):
    """Formats a record in escaped lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the text of the record; a traceback keeps its lines."""
        return escaped(super().format(record), lines=record.exc_info is not None)


def escape_log() -> None:
    """Escapes what `logging` writes to standard error when the program has not configured it."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(EscapingFormatter())


def _code(character: str) -> str:
    number = ord(character)
    named = _NAMED.get(character)
    if named is not None:
        return named
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
