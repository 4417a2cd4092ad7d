"""The program: reads the arguments, performs the command, and turns what happened into an exit code."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING

from .._escaping import escape_log
from ..errors import Error
from . import arguments, exits
from .arguments import Command
from .terminal import discard, note, replace_closed_streams

if TYPE_CHECKING:
    from ..models import Delivery
    from ..outcome import Outcome
    from .session import Way

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def main(given: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    Args:
        given: The arguments; None: those of the process.
    """
    replace_closed_streams()
    escape_log()
    try:
        return _main(list(sys.argv[1:] if given is None else given))
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # The reader of standard output has ended.
        discard(sys.stdout)
        return exits.BROKEN_PIPE


def _main(given: list[str]) -> int:
    command = arguments.find(given[0]) if given else None
    try:
        parsed = arguments.parser(command).parse_args(given)
    except SystemExit as end:
        return _ended(int(end.code or 0))
    except BrokenPipeError:
        raise
    except OSError as problem:
        # Help that is not buffered.
        return _output_failed(problem)
    command = command or arguments.find(parsed.command)
    assert command is not None, "argparse accepts only known commands"
    for number in _ENDING:
        signal.signal(number, _end)
    try:
        code = _perform(command, parsed)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except _PROBLEMS as problem:
        with suppress(BrokenPipeError):
            _ended(exits.FAILED)
        note(exits.text_of(problem))
        return exits.code_of(problem)
    return _ended(code)


_PROBLEMS = (Error, OSError, ImportError, exits.NoStoreError, exits.NeedsOwnerError, exits.LostError, exits.UsageError)


def _perform(command: Command, parsed: Namespace) -> int:
    if not command.is_connected:
        return _function(command.function)(parsed)
    if command.name == "check":
        return _check(command, parsed)
    if command.name == "drain":
        return _drain(command, parsed)
    from .session import connected, create, require_store

    if command.prepare is not None:
        # A person or a pipe may take any time, in which the store must not be locked.
        if not getattr(parsed, "create", False):
            require_store(parsed.store)
        _function(command.prepare)(parsed)
    if getattr(parsed, "create", False):
        create(parsed.store)
    with connected(way(command, parsed)) as session:
        return _function(command.function)(session, parsed)


def way(command: Command, parsed: Namespace) -> Way:
    """Returns how the arguments of a command say that its store is reached."""
    from .session import Way

    return Way(
        parsed.store,
        writes=command.writes,
        changes=command.writes or command.changes,
        socket=parsed.socket,
        quiet=parsed.quiet,
        wait=parsed.wait,
        needs_owner=command.needs_owner,
        hold_interrupted=getattr(parsed, "hold_interrupted", False),
    )


def _drain(command: Command, parsed: Namespace) -> int:
    """Drains by the owner, or to a URL."""
    from .session import connected

    if parsed.to is None:
        for given in ("header", "header_file", "header_env"):
            if getattr(parsed, given):
                raise exits.UsageError(f"--{given.replace('_', '-')} needs --to")
        needs = "no URL is given: start the program of the queue, or give --to URL"
        with connected(replace(way(command, parsed), needs_owner=needs)) as session:
            return _function(command.function)(session, parsed)
    from ..relays import Http
    from . import values

    answers: list[str] = []

    def send(delivery: Delivery) -> Outcome:
        outcome = relay(delivery)
        if not 200 <= outcome.code < 300:
            answers[:] = [outcome.text]
        return outcome

    with (
        Http(parsed.to, headers=values.headers(parsed.header, parsed.header_file, parsed.header_env)) as relay,
        connected(replace(way(command, parsed), transport=send)) as session,
    ):
        if session.has_owner:
            raise exits.NeedsOwnerError("--to is not possible while the program of the queue runs: its transport sends")
        code = _function(command.function)(session, parsed)
    if code != exits.DONE and answers:
        note(f"the last failed attempt: {answers[0]}")
    return code


def _check(command: Command, parsed: Namespace) -> int:
    """Checks with the connection of the owner; without one also a store that is too damaged to be opened."""
    from .session import connected, require_store

    require_store(parsed.store)
    try:
        with connected(replace(way(command, parsed), needs_owner="it is checked without one")) as session:
            return _function(command.function)(session, parsed)
    except exits.NeedsOwnerError:
        if parsed.socket is not None:
            raise
    return _function("stores:check_closed")(parsed)


def _function(name: str) -> Callable[..., int]:
    module, _, function = name.partition(":")
    found: Callable[..., int] = getattr(import_module(f".{module}", __package__), function)
    return found


def _end(number: int, _: FrameType | None) -> None:
    """Ends the program after its files were removed."""
    raise SystemExit(128 + number)


def _ended(code: int) -> int:
    """Writes what waits for standard output. Returns the exit code, which is another one if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as problem:
        failed = _output_failed(problem)
        return code or failed
    return code


def _output_failed(problem: OSError) -> int:
    discard(sys.stdout)
    note(f"standard output: {problem.strerror}")
    return exits.FAILED
