"""The commands that need no queue: `check` of a closed store, `salvage`."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from . import exits, tables
from .session import Session, opened, require_store, when_unlocked
from .terminal import escaped, note


def check_owned(session: Session, arguments: Namespace) -> int:
    """Checks a store that its owner has open."""
    return _shown(session.call("check"), arguments)


def check_closed(arguments: Namespace) -> int:
    """Checks a store that nobody has open, also a damaged one."""
    from ..checking import check

    report = when_unlocked(lambda: check(arguments.store), arguments.wait)
    _say_opened(arguments)
    return _shown(asdict(report), arguments)


def salvage(arguments: Namespace) -> int:
    """Writes the whole messages of a store to a new one."""
    from ..checking import salvage as salvage_store

    require_store(arguments.store)
    advice = "salvage needs a store that no program has open: end it; if it ends soon, give --wait SECONDS"
    report = when_unlocked(lambda: salvage_store(arguments.store, arguments.target), arguments.wait, advice)
    _say_opened(arguments)
    _shown(asdict(report), arguments)
    return exits.DONE


def _say_opened(arguments: Namespace) -> None:
    if not arguments.quiet:
        note(opened(arguments.store))


def _shown(report: dict[str, object], arguments: Namespace) -> int:
    if arguments.json:
        tables.objects((report,))
    else:
        tables.write(escaped(str(report["text"]), lines=True) + "\n")
    return exits.DONE if report["sound"] else exits.FAILED
