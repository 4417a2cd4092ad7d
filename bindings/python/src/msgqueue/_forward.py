"""Methods that an object hands to one of its parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

R = TypeVar("R")


def forward(part: str, method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Returns a method of `MessageQueue` that calls a method of one of its parts.

    It has the documentation and the signature of that method.

    Args:
        part: The attribute with the part.
        method: The function in the part's class.
    """
    # The interpreter names the function in the TypeError for arguments that do not fit.
    method.__qualname__ = f"MessageQueue.{method.__name__}"

    @wraps(method)
    def call(self: object, /, *arguments: P.args, **named: P.kwargs) -> R:
        return method(getattr(self, part), *arguments, **named)

    call.__module__ = "msgqueue.queue"
    return call
