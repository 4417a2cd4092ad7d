"""Why a relay cannot send, in words. The engine logs each change of the reason once."""

from __future__ import annotations

import errno
import logging
import socket

from .. import _failures
from .problems import ProblemError

logger: logging.Logger = logging.getLogger("msgqueue")


def seconds(duration: float) -> str:
    """Returns a duration for a text, with two digits."""
    if duration < 0.1:
        return f"{max(1, round(duration * 1000))} ms"
    return f"{duration:.2g} s" if duration < 10 else f"{duration:.0f} s"


def text_of_problem(problem: BaseException) -> str:
    """Returns the text of an outcome."""
    return str(problem) if isinstance(problem, ProblemError) else _failures.described(problem)


def reason_of(problem: BaseException, place: str) -> str:
    """Returns why there is no connection to a broker."""
    # Some clients raise classes of their own.
    if isinstance(problem, ConnectionRefusedError) or getattr(problem, "errno", None) == errno.ECONNREFUSED:
        return f"connection refused by {place}"
    if isinstance(problem, socket.gaierror):
        return f"the name of {place} was not found"
    if isinstance(problem, ConnectionError):
        # Whether it was closed or reset depends on chance.
        return f"{place} ended the connection"
    text = str(problem) if isinstance(problem, (TimeoutError, socket.timeout)) else ""
    return f"{place}: {text or text_of_problem(problem)}"
