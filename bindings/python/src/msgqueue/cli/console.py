"""The command `console`: the review page, which is a package of its own."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module

from .session import require_store


def serve(arguments: Namespace) -> int:
    """Serves the page until it is interrupted."""
    require_store(arguments.store)
    run = import_module("msgqueue.console").run
    code: int = run(
        arguments.store,
        port=arguments.port,
        open_browser=not arguments.no_browser,
        drives_lifecycle=arguments.drives_lifecycle,
    )
    return code
