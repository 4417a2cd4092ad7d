"""The command `console`: the review page, which is a package of its own."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from ..errors import PermissionDeniedError
from . import exits, tables
from .session import Way, connected


def serve(arguments: Namespace) -> int:
    """Serves the page until it is interrupted."""
    page = import_module("msgqueue.console")

    def say(address: str) -> None:
        if arguments.json:
            tables.objects(({"url": address},))
        else:
            tables.write(f"{address}\n")
        sys.stdout.flush()

    way = Way(arguments.store, writes=True, socket=arguments.socket, quiet=arguments.quiet, wait=arguments.wait)
    with ExitStack() as stack:
        try:
            session = stack.enter_context(connected(way))
        except PermissionDeniedError:
            # On a disk that is read-only the page only shows.
            session = stack.enter_context(connected(replace(way, writes=False)))
        owner = session.pid if session.has_owner else None
        store = page.Store(str(Path(session.store).absolute()), session.socket)
        # The page has connections of its own.
        session.close()
        page._serve_session(
            page.Session(store, owner),
            port=arguments.port,
            open_browser=not arguments.no_browser,
            drives_lifecycle=arguments.drives_lifecycle,
            say=say,
        )
    return exits.DONE
