"""The command line `msgq`: looks into a queue and changes it, while its program runs or not."""

from __future__ import annotations

from .program import main

__all__ = ["main"]
