"""Writes the manual page msgq(1), made from the table of commands, to standard output.

python manual.py DATE    DATE: of the page, as 2026-12-31
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

from msgqueue import __version__
from msgqueue.cli import arguments, exits


def quoted(text: str) -> str:
    """Returns a text for roff."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in safe.splitlines())


def command(each: arguments.Command) -> list[str]:
    """Returns the section of one command."""
    top = arguments.parser(each)
    places = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    parser = places.choices[each.name]
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    lines = [f".SS {each.name}", quoted(f"{each.help[0].upper()}{each.help[1:]}."), ".PP", f".B {quoted(usage)}"]
    if each.text:
        lines += [".PP", quoted(each.text)]
    if each.needs_owner:
        lines += [".PP", quoted(f"Needs a program that has the queue open: {each.needs_owner}.")]
    for action in parser._actions:
        if action.help and not isinstance(action, argparse._HelpAction):
            name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            value = f" {action.metavar}" if action.option_strings and action.metavar else ""
            lines += [".TP", f".B {quoted(name + value)}", quoted(action.help % {"default": action.default})]
    return [*lines, ".PP", ".nf", *(quoted(f"    {example}") for example in each.examples), ".fi"]


def main() -> int:
    """Writes the page."""
    lines = [
        f'.TH MSGQ 1 "{sys.argv[1]}" "msgqueue {__version__}"',
        ".SH NAME",
        "msgq \\- look into a message queue and change it",
        ".SH SYNOPSIS",
        ".B msgq COMMAND STORE [OPTION ...]",
        ".SH DESCRIPTION",
        "A command speaks to the program that has the store open, if that serves a control socket. When no program has",
        "the store open, the command opens it: for reading only if it only reads. Such an opening prunes, forgets,",
        "expires, discards and sends nothing that was not asked for. Which of the two it was is",
        "written to standard error. While a program has the store open without a control socket, the command waits",
        "for that, at most 2 seconds (\\-\\-wait).",
        ".SH COMMANDS",
    ]
    for each in arguments.COMMANDS:
        lines += command(each)
    lines.append(".SH EXIT STATUS")
    for code, text in exits.TEXTS.items():
        lines += [".TP", f".B {code}", quoted(text)]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        ".B NO_COLOR",
        "Without colours, if it is set.",
        ".TP",
        ".B MSGQUEUE_LIBRARY",
        "The path of libmsgqueue.so.",
        ".SH SEE ALSO",
        ".BR msgqueue (3)",
    ]
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
