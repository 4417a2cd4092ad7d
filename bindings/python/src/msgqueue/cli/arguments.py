"""The commands and their arguments: one table, from which the parser, the help and the completion are made."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import exits, values
from .exits import UsageError
from .terminal import escaped, write_error


class Parser(argparse.ArgumentParser):
    """A parser whose errors cannot control the terminal."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2."""
        super().error(escaped(message))

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ANN401 - as argparse
        # Whether argparse ignores the error of a stream depends on the version of Python.
        if file is sys.stdout:
            file.write(message)
        else:
            write_error(message)


@dataclass(frozen=True)
class Command:
    """One command."""

    name: str
    help: str
    function: str
    """The module and the function that performs it, "module:function"."""
    examples: tuple[str, ...]
    add: tuple[Callable[[Parser], Any], ...] = ()
    """Add the arguments beside the store."""
    writes: bool = False
    """Without an owner the store is opened for writing."""
    changes: bool = False
    """It changes something, as those that write do."""
    prepare: str | None = None
    """The function that reads and asks what the command needs, before the store is opened."""
    needs_owner: str | None = None
    """Why it is not possible without an owner."""
    has_store: bool = True
    is_connected: bool = True
    """The store is reached before the function is called, which receives the session."""
    text: str = field(default="")
    """What else the help says."""


def _number(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            return values.number(text, least, most)
        except UsageError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return convert


def _argument(*names: str, **options: Any) -> Callable[[Parser], Any]:  # noqa: ANN401 - those of argparse
    return lambda parser: parser.add_argument(*names, **options)


_message = _argument("message", metavar="ID", help="the id of the message")
_messages = _argument("message", metavar="ID", nargs="+", help="the ids of the messages")
_conversation = _argument("-c", "--conversation", metavar="NAME", help="only this conversation")
_failure = (
    _argument(
        "--kind", metavar="KIND", choices=values.KINDS,
        help="only failed messages with this kind of failure: " + ", ".join(values.KINDS),
    ),
    _argument(
        "--code", metavar="N", type=_number(-(2**31), 2**31 - 1),
        help="only failed messages with this code of failure, such as an HTTP status; 0: without one",
    ),
)  # fmt: skip
_yes = _argument("-y", "--yes", action="store_true", help="do not ask")
_status = _argument(
    "-s", "--status", metavar="WORD", action="append",
    help=f"{', '.join(values.STATUSES)}, all, unsent, history; several with commas",
)  # fmt: skip
_body = (
    _argument("body", metavar="BODY", nargs="?", help="the body; - reads it from standard input"),
    _argument("--file", metavar="FILE", help="reads the body from a file"),
)
_hold = _argument(
    "--hold-interrupted", action="store_true",
    help="without an owner: a message whose attempt a crash interrupted becomes failed instead of queued "
    "(the option hold_interrupted of the queue)",
)  # fmt: skip
_create = _argument("--create", action="store_true", help="makes the store if there is none")
_page = (
    _argument("-n", "--limit", metavar="N", type=_number(1), default=50, help="at most so many (default: 50)"),
    _argument("--all", action="store_true", help="without a limit"),
)
_order = _argument(
    "--order", choices=("sequence", "time"), default="sequence",
    help="sequence: the order of sending (default); time: the messages' own times",
)  # fmt: skip

COMMANDS = (
    Command(
        "list", "list messages, in the order in which they were enqueued or by time", "viewing:list_",
        (
            "msgq list outbox.db", "msgq list outbox.db --status failed --json", "msgq list outbox.db -c ana --newest",
            "msgq list outbox.db --kind server --code 503",
        ),
        (
            _conversation, _status, *_failure, *_page,
            _argument("--after", metavar="SEQUENCE", type=_number(0), default=0, help="continues behind this one"),
            _argument("--after-time", metavar="MS", type=_number(1), help="with --order time: its time"), _order,
            _argument("--newest", action="store_true", help="the newest first"),
            _argument("--bodies", action="store_true", help="with --json: whole bodies"),
        ),
        text="Without --status: the unsent messages (queued, sending, failed).",
    ),
    Command(
        "show", "show one message with its body", "viewing:show",
        ("msgq show outbox.db 01932c5a-8f00-7abc-8000-000000400000", "msgq show outbox.db ID --body > body.bin"),
        (_message, _argument("--body", action="store_true", help="only the body, its bytes unchanged")),
    ),
    Command(
        "explain", "say why a message is not sent yet", "viewing:explain", ("msgq explain outbox.db ID",), (_message,)
    ),
    Command(
        "attempts", "list the attempts of a message", "viewing:attempts", ("msgq attempts outbox.db ID",), (_message,)
    ),
    Command(
        "conversations", "list conversations with their counts", "viewing:conversations",
        ("msgq conversations outbox.db", "msgq conversations outbox.db --all --json"), (*_page, _order),
    ),
    Command(
        "groups", "count failed messages by what they failed with, and queued ones by what they wait for",
        "viewing:groups", ("msgq groups outbox.db", "msgq groups outbox.db --json"),
        (
            _argument(
                "-n", "--limit", metavar="N", type=_number(1, 1000), default=50, help="at most so many (default: 50)"
            ),
        ),
        text="With --json: an object for each group of failed messages.",
    ),
    Command(
        "title", "give a conversation a title", "changing:title", ("msgq title outbox.db ana 'Ana Maria'",),
        (
            _argument("conversation", metavar="NAME", help="the conversation"),
            _argument("title", metavar="TITLE", help="the title; '' removes it"),
            _hold,
        ),
        writes=True,
    ),
    Command(
        "stats", "show counts, state and statistics", "viewing:stats",
        ("msgq stats outbox.db", "msgq stats outbox.db --prometheus"),
        (_argument("--prometheus", action="store_true", help="in the Prometheus text format"),),
    ),
    Command(
        "watch", "print events as they happen", "viewing:watch",
        ("msgq watch outbox.db", "msgq watch outbox.db --events status,drain_finished --json"),
        (
            _argument("--events", metavar="KIND", action="append", help="only these kinds; several with commas"),
            _argument("-n", "--count", metavar="N", type=_number(1), help="ends after so many"),
        ),
        needs_owner="without one nothing happens",
    ),
    Command(
        "changes", "print the changes of messages that the queue keeps (keep_changes)", "viewing:changes",
        ("msgq changes outbox.db --json", "msgq changes outbox.db --after TOKEN --follow --json"),
        (
            _argument("--after", metavar="TOKEN", help="those after this place (default: all that are kept)"),
            _argument("--follow", action="store_true", help="waits for new ones, until the owner ends"),
            _argument("-n", "--count", metavar="N", type=_number(1), help="ends after so many"),
        ),
        text="With --json: an object for each change. Its token is the place after it: store the last one, and go on "
        "from it. Only changes that survive a power cut are printed. Without an owner --follow ends after the last "
        "change. A token that is older than what is kept, or of another history of the store, is a CONFLICT.",
    ),
    Command(
        "drain", "send what is queued", "changing:drain",
        (
            "msgq drain outbox.db",
            "msgq drain outbox.db --to https://example.org/messages --header-file headers.txt",
        ),
        (
            _conversation,
            _argument("--failed", action="store_true", help="sends the failed ones, too"),
            _argument("--batch", metavar="N", type=_number(0, 2**31 - 1), help="at most so many attempts (0: all)"),
            _argument("--timeout", metavar="SECONDS", type=_number(0, 10**9), help="ends after so long"),
            _argument("--to", metavar="URL", help="without an owner: posts each message to this URL (http or https)"),
            _argument(
                "--header-file", metavar="FILE", action="append",
                help="with --to: headers that are sent with every message, one per line: NAME: VALUE",
            ),
            _argument(
                "--header-env", metavar="VARIABLE", action="append",
                help="with --to: the same from an environment variable",
            ),
            # Other users can read the arguments of a process: it works, but is not offered.
            _argument("--header", action="append", help=argparse.SUPPRESS),
            _hold,
        ),
        writes=True,
        text="With an owner, its transport sends; without one, --to is needed. Exit code 1: some failed, or are left.\n"
        "Ctrl-C ends it at once; a message whose attempt has not ended by then is sent again, with the same key.",
    ),
    Command(
        "retry", "put failed messages back in their places", "changing:retry", ("msgq retry outbox.db ID",),
        (_messages, _hold), writes=True, text="With an owner they are sent at once, otherwise when its program runs.",
    ),
    Command(
        "retry-all", "put failed messages back in their places, all or some", "changing:retry_all",
        (
            "msgq retry-all outbox.db", "msgq retry-all outbox.db -c ana",
            "msgq retry-all outbox.db --kind server --code 503",
        ),
        (_conversation, *_failure, _hold), writes=True,
        text="With an owner they are sent at once, otherwise when its program runs.",
    ),
    Command(
        "send-now", "send queued messages before all others", "changing:send_now", ("msgq send-now outbox.db ID",),
        (_messages,), changes=True, needs_owner="send-now needs one, because its transport sends; use drain --to URL",
    ),
    Command(
        "edit", "replace the body of a queued or failed message", "changing:edit",
        (
            "msgq edit outbox.db ID 'new text'", "msgq edit outbox.db ID - < body.txt",
            "msgq edit outbox.db ID 'new text' --if-edited 0",
        ),
        (
            _message, *_body,
            _argument(
                "--metadata", metavar="KEY=VALUE", action="append", help="in place of all metadata; may be repeated"
            ),
            _argument(
                "--if-edited", metavar="MS", type=_number(0),
                help="only if it was edited last at this time: edited_ms of show --json; 0: never",
            ),
            _hold,
        ),
        writes=True, prepare="changing:read_body",
        text="With --if-edited, nothing changes when the message was edited meanwhile.",
    ),
    Command(
        "delete", "delete messages", "changing:delete", ("msgq delete outbox.db ID --yes",), (_messages, _yes, _hold),
        writes=True, prepare="changing:ask_to_delete",
    ),
    Command(
        "clear", "delete every unsent message", "changing:clear",
        (
            "msgq clear outbox.db -c ana --yes", "msgq clear outbox.db --failed",
            "msgq clear outbox.db --failed --kind rejected",
        ),
        (
            _conversation, _argument("--failed", action="store_true", help="only failed messages"), *_failure,
            _yes, _hold,
        ),
        writes=True, prepare="changing:ask_to_clear",
    ),
    Command(
        "delete-conversation", "delete every message of a conversation", "changing:delete_conversation",
        ("msgq delete-conversation outbox.db ana --yes",),
        (_argument("conversation", metavar="NAME", help="the name of the conversation"), _yes, _hold),
        writes=True, prepare="changing:ask_to_delete_conversation",
        text="Also its history and the received messages. It fails while one of them is being sent.",
    ),
    Command(
        "pause", "start no attempts until resume", "changing:pause",
        ("msgq pause outbox.db", "msgq pause outbox.db -c ana"), (_conversation,),
        changes=True, needs_owner="a pause ends with the program that has the queue open",
    ),
    Command(
        "resume", "end a pause", "changing:resume", ("msgq resume outbox.db",), (_conversation,),
        changes=True, needs_owner="a pause ends with the program that has the queue open",
    ),
    Command(
        "collect", "ask the owner to take over what waits in its outbox", "changing:collect",
        ("msgq collect outbox.db",), (),
        changes=True, needs_owner="only the program that has the queue open can collect",
    ),
    Command(
        "enqueue", "add a message", "changing:enqueue",
        ("msgq enqueue outbox.db 'hello' -c ana", "date | msgq enqueue outbox.db - --metadata kind=time"),
        (
            *_body,
            _argument("-c", "--conversation", metavar="NAME", help="the conversation (default: the empty one)"),
            _argument("--id", metavar="ID", help="the id (default: a new one)"),
            _argument("--metadata", metavar="KEY=VALUE", action="append", help="may be repeated"),
            _argument("--not-before", metavar="TIME", help="+10m (s, m, h, d), or 2026-12-31T09:00"),
            _argument("--expires", metavar="TIME", help="likewise"),
            _argument("--unmetered-only", action="store_true", help="waits for an unmetered link"),
            _argument("--priority", metavar="N", type=_number(-100, 100), help="-100 to 100 (default: 0)"),
            _argument("--replace-key", metavar="KEY", help="replaces the queued message with this key"),
            _argument("--time", metavar="TIME", help="when it was composed (default: now)"),
            _create, _hold,
        ),
        writes=True, prepare="changing:read_body", text="Prints the id.",
    ),
    Command(
        "export", "write messages as lines of JSON", "transfer:export",
        ("msgq export outbox.db > messages.jsonl", "msgq export outbox.db --kind server --code 503"),
        (_conversation, _status, *_failure),
        text="Without --status: all. Attempts are not among them. The store is open until all was written.",
    ),
    Command(
        "import", "add the messages of an export", "transfer:import_",
        ("msgq import outbox.db messages.jsonl", "msgq export old.db | msgq import new.db -"),
        (_argument("source", metavar="FILE", help="the lines; - reads standard input"), _create, _hold),
        writes=True, is_connected=False,
        text="Messages whose id is there already are left as they are. Unsent messages become queued, in the order of\n"
        "the lines, received ones are recorded, sent ones are skipped. Wrong lines are reported, the others imported.\n"
        "A line of more than 512 MiB ends the import. Without an owner the store is open only while lines are\n"
        "written, not while the command waits for a pipe.",
    ),
    Command(
        "backup", "copy the store to a new file", "viewing:backup", ("msgq backup outbox.db copy.db",),
        (_argument("target", metavar="FILE", help="the new file"),),
    ),
    Command(
        "check", "look for damage", "stores:check_owned", ("msgq check outbox.db",),
        text="Exit code 1: there is damage.",
    ),
    Command(
        "salvage", "write the whole messages of a damaged store to a new one", "stores:salvage",
        ("msgq salvage outbox.db rescued.db",), (_argument("target", metavar="FILE", help="the new store"),),
        is_connected=False, text="Not while a program has the store open.",
    ),
    Command(
        "console", "serve the review page for a browser", "console:serve",
        ("msgq console outbox.db", "msgq console outbox.db --port 8080 --no-browser"),
        (
            _argument("--port", metavar="N", type=_number(0, 65535), default=0, help="0: a free one (default)"),
            _argument("--no-browser", action="store_true", help="only print the address"),
            _argument("--drives-lifecycle", action="store_true", help="without a visible page: background"),
        ),
        is_connected=False,
        text="Ends with Ctrl-C, SIGTERM or SIGHUP; the exit code is then 0. With --json the address is {\"url\": ...}.",
    ),
    Command(
        "completion", "print a completion script for a shell", "completion:script",
        ("msgq completion bash > ~/.local/share/bash-completion/completions/msgq", "msgq completion zsh"),
        (_argument("shell", choices=("bash", "zsh", "fish")),), has_store=False, is_connected=False,
    ),
)  # fmt: skip


def find(name: str) -> Command | None:
    """Returns the command of this name."""
    return next((command for command in COMMANDS if command.name == name), None)


class _Version(argparse.Action):
    """Prints the versions, which no other command needs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from .. import LibraryError, __version__, library_version, sqlite_version

        try:
            library = f"libmsgqueue {library_version()}, SQLite {sqlite_version()}"
        except LibraryError:
            library = "without libmsgqueue"
        parser._print_message(f"msgq {__version__} ({library})\n", sys.stdout)
        parser.exit()


def parser(only: Command | None = None) -> Parser:
    """Returns the parser.

    Args:
        only: Just this command is wanted, which takes less time.
    """
    codes = "\n".join(f"  {code:<4} {text}" for code, text in exits.TEXTS.items())
    top = Parser(
        prog="msgq",
        description="Looks into a message queue and changes it, while its program runs or not.",
        epilog="A command speaks to the program that has the store open, if that serves a control socket\n"
        "(start_control); when no program has it open, the command opens it. While a program has it open without a\n"
        f"control socket, the command waits for that, at most 2 seconds (--wait).\n\nexit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show the versions of the package and its libraries")
    places = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS if only is None else (only,):
        _add(places, command)
    return top


def _add(places: Any, command: Command) -> None:  # noqa: ANN401 - argparse does not name its type
    text = f"\n\n{command.text}" if command.text else ""
    owner = f"\n\nNeeds a program that has the queue open: {command.needs_owner}." if command.needs_owner else ""
    sub: Parser = places.add_parser(
        command.name,
        help=command.help,
        description=f"{command.help[0].upper()}{command.help[1:]}.{text}{owner}",
        epilog="examples:\n" + "\n".join(f"  {example}" for example in command.examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if command.has_store:
        sub.add_argument("store", metavar="STORE", help="the store's file")
    for add in command.add:
        add(sub)
    if command.has_store:
        sub.add_argument("--json", action="store_true", help="one object of JSON per line")
    sub.add_argument("-q", "--quiet", action="store_true", help="no notes on standard error")
    if command.has_store:
        sub.add_argument("--socket", metavar="PATH", help="the owner's control socket (default: STORE-control)")
        sub.add_argument(
            "--wait", metavar="SECONDS", type=_number(0, 10**6), default=2,
            help="how long to wait while another program has the store open without a control socket (default: 2)",
        )  # fmt: skip
