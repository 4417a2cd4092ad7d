"""Where a message goes, and what goes with it: the same for every broker."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, Union
from urllib.parse import SplitResult, urlsplit

from ..errors import InvalidError
from ..models import Delivery
from .problems import RejectedError, UnavailableError

Target = Union[str, Callable[[Delivery], str]]

# The names of a message's own headers begin with this; metadata must not.
RESERVED = "msgq-"
ID = "msgq-id"
CONVERSATION = "msgq-conversation"


def split_url(url: str) -> SplitResult:
    """Returns the parts of a URL, of which the port is a number. No text contains any of it: it may have a password.

    Raises:
        InvalidError: The URL is not valid.
    """
    if not isinstance(url, str):
        raise TypeError(f"the URL must be str, not {type(url).__name__}")
    is_valid = True
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        is_valid = False
    # What is behind a "/" of a password would be a path, and what is before it a host.
    if not is_valid or "@" in parts.path + parts.query + parts.fragment:
        raise InvalidError(
            "the URL is not valid; characters such as / ? # : @ must be percent-encoded in a user name, a password and "
            "a path"
        )
    return parts


def check_options(options: Collection[str], *, own: Collection[str], known: Collection[str]) -> None:
    """Checks the names of options for a client. `own`: those that a relay sets itself; `known`: those of the client.

    Raises:
        InvalidError: The relay sets one itself, or the client does not know it.
    """
    for names, what in (
        (sorted(set(options) & set(own)), "the relay itself sets"),
        (sorted(set(options) - set(known) - set(own)), "the client has no option"),
    ):
        if names:
            raise InvalidError(f"{what} {', '.join(names)}")


def address_of(url: str, ports: Mapping[str, int]) -> tuple[SplitResult, str, int]:
    """Returns the parts of a broker's URL, its host and its port. `ports`: that of each scheme.

    Raises:
        InvalidError: The URL is not valid.
    """
    parts = split_url(url)
    port = parts.port or ports.get(parts.scheme, 0)
    if parts.scheme not in ports or not parts.hostname:
        raise InvalidError(f"the URL must be {' or '.join(f'{scheme}://host' for scheme in ports)}")
    return parts, parts.hostname, port


def text_of(target: Target, delivery: Delivery) -> str:
    """Returns a topic, stream or queue for a message."""
    name = target if isinstance(target, str) else target(delivery)
    if not isinstance(name, str):
        raise RejectedError(f"the name must be str, not {type(name).__name__}")
    return name


def checked_target(name: str, target: Target, check: Callable[[str], None] | None = None) -> Target:
    """Returns the argument of a relay that names a topic, or the function that makes it."""
    if isinstance(target, str):
        if not target:
            raise InvalidError(f"{name} must not be empty")
        if check is not None:
            check(target)
        return target
    if not callable(target):
        raise TypeError(f"{name} must be str or a function of the delivery, not {type(target).__name__}")
    return target


def headers_of(delivery: Delivery) -> list[tuple[str, str]]:
    """Returns the id, the conversation and the metadata as headers."""
    for name in delivery.metadata:
        if name.startswith(RESERVED):
            raise RejectedError(f"metadata must not begin with {RESERVED!r}: {name!r}")
    conversation = [(CONVERSATION, delivery.conversation)] if delivery.conversation else []
    return [(ID, delivery.id), *conversation, *delivery.metadata.items()]


def imported(library: str, extra: str) -> Any:  # noqa: ANN401 - a client's library, which need not be installed
    """Returns the library of a client, which need not be installed."""
    try:
        return importlib.import_module(library)
    except ImportError as problem:
        package = library.partition(".")[0]
        raise ImportError(f"{package} is not installed; pip install 'msgqueue[{extra}]' installs it") from problem


def for_target(target: Target, text: str, otherwise: BaseException) -> BaseException:
    """Returns a refusal of a topic: it is a fault of the broker if all messages have it, else `otherwise`."""
    return UnavailableError(text) if isinstance(target, str) else otherwise
