"""The commands that need no queue: `check` of a closed store, `salvage`."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from ..models import CheckReport
from . import exits, tables
from .session import Session, require_store
from .terminal import escaped


def check_owned(session: Session, arguments: Namespace) -> int:
    """Checks a store that its owner has open."""
    return _shown(session.call("check"), arguments)


def check_closed(arguments: Namespace) -> int:
    """Checks a store that nobody has open, also a damaged one."""
    from ..checking import check

    return _shown(asdict(check(arguments.store)), arguments)


def salvage(arguments: Namespace) -> int:
    """Writes the whole messages of a store to a new one."""
    from ..checking import salvage as salvage_store

    require_store(arguments.store)
    report: CheckReport = salvage_store(arguments.store, arguments.target)
    _shown(asdict(report), arguments)
    return exits.DONE


def _shown(report: dict[str, object], arguments: Namespace) -> int:
    if arguments.json:
        tables.objects((report,))
    else:
        tables.write(escaped(str(report["text"]), lines=True) + "\n")
    return exits.DONE if report["sound"] else exits.FAILED
