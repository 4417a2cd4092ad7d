"""Generates the table in Sources/Documentation/Options.md from the behaviour and the defaults of the library.

python tests/defaults.py    writes the table into the page; MSGQUEUE_LIBRARY names the library
"""

from __future__ import annotations

import sys
import tempfile
from datetime import timedelta
from enum import IntEnum
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parents[2] / "Sources" / "Documentation" / "Options.md"
if __name__ == "__main__":
    sys.path[:0] = [str(TESTS.parent / "src")]

from msgqueue import (  # noqa: E402 - needs the path from above
    Connectivity,
    Delivery,
    Event,
    EventKind,
    Exhausted,
    FailureKind,
    MessageQueue,
    Mode,
    Outcome,
    Reason,
    Status,
    _options,
)

BEGIN, END = "<!-- defaults: written by bindings/python/tests/defaults.py -->\n\n", "\n<!-- end of the defaults -->\n"
_UNITS = ((86_400_000, "days"), (60_000, "min"), (1000, "s"), (1, "ms"))


class _Bench:
    """A polled queue with the defaults of a mode; callbacks run on this thread."""

    def __init__(self, directory: str, mode: Mode) -> None:
        self.answer = Outcome.sent()
        self.events: list[Event] = []
        # Without a delay, so that the table does not depend on time.
        self.queue = MessageQueue(
            Path(directory) / f"{mode.name}.db",
            self._send,
            mode=mode,
            on_event=self.events.append,
            online_debounce=0,
            polled=True,
        )

    def _send(self, _: Delivery) -> Outcome:
        return self.answer

    def run_callbacks(self) -> None:
        """Runs every callback that is due."""
        while self.queue.poll(0):
            pass

    def who_starts(self) -> str:
        """Returns who starts sending a backlog."""
        self.queue.set_connectivity(Connectivity.OFFLINE)
        id = self.queue.enqueue("hello", conversation="backlog")
        self.queue.set_connectivity(Connectivity.ONLINE)
        self.run_callbacks()
        if self.queue.get(id).status is Status.SENT:
            return "the engine"
        assert self.queue.explain(id).code is Reason.PERSON
        asked = any(event.kind is EventKind.PROMPT for event in self.events)
        return "the person, after a prompt" if asked else "the person, by `drain` or `send_now`"

    def sends_direct(self) -> str:
        """Returns whether a message enqueued while online, with none before it, is sent at once."""
        id = self.queue.enqueue("hello", conversation="direct")
        self.run_callbacks()
        return "yes" if self.queue.get(id).status is Status.SENT else "no"

    def ladder(self) -> list[int]:
        """Returns the delays before retries in milliseconds, cut to seconds."""
        self.answer = Outcome.retry(FailureKind.SERVER, code=503)
        id = self.queue.enqueue("hello", conversation="ladder")
        self.queue.send_now(id)
        delays: list[int] = []
        while True:
            self.run_callbacks()
            message = self.queue.get(id)
            if message.status is Status.FAILED:
                assert message.retries_used == len(delays) == message.attempts - 1
                return delays
            assert message.next_attempt is not None
            assert message.last_attempt is not None
            delays.append((message.next_attempt - message.last_attempt) // timedelta(seconds=1) * 1000)
            self.queue.send_now(id)


def _duration(milliseconds: int) -> str:
    unit, name = next((unit, name) for unit, name in _UNITS if milliseconds % unit == 0)
    return f"{milliseconds // unit} {name}"


def _limit(number: int) -> str:
    return f"{number:,}" if number else "none"


def _value(value: object) -> str:
    """Formats a default of the options table; options in seconds are floats."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return _duration(round(value * 1000))
    if isinstance(value, IntEnum):
        return value.name.lower().replace("_", " ")
    return _limit(int(str(value)))


# Options in the table whose default is the same in every mode.
_LISTED = [
    "max_in_flight",
    "attempt_timeout",
    "on_demand_timeout",
    "prompt_timeout",
    "online_debounce",
    "drain_batch",
    "keep_sent",
    "keep_sent_for",
    "remember_ids",
    "expiry",
    "limit_messages",
]


def _common_rows() -> list[tuple[str, str]]:
    """Returns names and defaults of the options whose default is the same in every mode."""
    options, values = _options.library_defaults(), _options.defaults()
    assert options.limit_bytes == options.limit_messages == options.limit_file_bytes
    names = {"limit_messages": "`limit_messages`, `limit_bytes`, `limit_file_bytes`"}
    rows = [(names.get(name, f"`{name}`"), _value(values[name])) for name in _LISTED]
    rows[rows.index(("`drain_batch`", "none"))] = ("`drain_batch`", "all")
    return [
        ("`max_retries`, with delays of your own", str(options.max_retries)),
        *rows,
        ("`exhausted`", _value(Exhausted(options.exhausted))),
        *((f"`{name}`", _value(values[name])) for name in ("on_full", "refused", "final_failure")),
    ]


def table() -> str:
    """Returns the table in Markdown."""
    columns: list[list[str]] = []
    for mode in Mode:
        with tempfile.TemporaryDirectory() as directory:
            bench = _Bench(directory, mode)
            starts, direct, ladder = bench.who_starts(), bench.sends_direct(), bench.ladder()
            bench.queue.close()
        delays = ", ".join(_duration(delay) for delay in ladder) or "none"
        columns.append([f"`{mode.name}`", starts, direct, delays, f"{len(ladder) + 1}"])
    names = [
        "",
        "who starts sending a backlog",
        "a message enqueued while online is sent at once (`direct`)",
        "delays before retries",
        "attempts until `failed`",
    ]
    rows = [list(row) for row in zip(names, *columns)]
    rows.insert(1, ["---"] * (len(columns) + 1))
    rows += [[name, *[value] * len(columns)] for name, value in _common_rows()]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows).replace("| --- ", "|---").replace("--- |", "---|")


def written() -> str:
    """Returns the table of the page."""
    _, _, rest = PAGE.read_text().partition(BEGIN)
    found, _, _ = rest.partition(END)
    return found


if __name__ == "__main__":
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit("the page has no place for the table")
    PAGE.write_text(before + begin + table() + end + after)
