"""The README's table of defaults, made from what the library does and says.

python tests/defaults.py    writes it into the README; MSGQUEUE_LIBRARY names the library
"""

from __future__ import annotations

import sys
import tempfile
from datetime import timedelta
from enum import IntEnum
from pathlib import Path

TESTS = Path(__file__).resolve().parent
README = TESTS.parents[2] / "README.md"
if __name__ == "__main__":
    sys.path[:0] = [str(TESTS.parent / "src")]

from msgqueue import (  # noqa: E402 - where it is, was just told
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
    """A queue with the defaults of a mode, which does everything on this thread."""

    def __init__(self, directory: str, mode: Mode) -> None:
        self.answer = Outcome.sent()
        self.events: list[Event] = []
        # What is shown here does not wait for the connection to prove itself.
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

    def settle(self) -> None:
        """Everything that is to happen now has happened."""
        while self.queue.poll(0):
            pass

    def starts(self) -> str:
        """Who sends what was written offline."""
        self.queue.set_connectivity(Connectivity.OFFLINE)
        id = self.queue.enqueue("hello", conversation="backlog")
        self.queue.set_connectivity(Connectivity.ONLINE)
        self.settle()
        if self.queue.get(id).status is Status.SENT:
            return "the engine"
        assert self.queue.explain(id).code is Reason.PERSON
        asked = any(event.kind is EventKind.PROMPT for event in self.events)
        return "the person, after a prompt" if asked else "the person, by `drain` or `send_now`"

    def goes_direct(self) -> str:
        """Whether what is enqueued online, with nothing before it, is sent at once."""
        id = self.queue.enqueue("hello", conversation="direct")
        self.settle()
        return "yes" if self.queue.get(id).status is Status.SENT else "no"

    def ladder(self) -> list[int]:
        """The delays after failures that may pass, in milliseconds, cut to seconds."""
        self.answer = Outcome.retry(FailureKind.SERVER, code=503)
        id = self.queue.enqueue("hello", conversation="ladder")
        self.queue.send_now(id)
        delays: list[int] = []
        while True:
            self.settle()
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
    """A default of the options table; options in seconds are floats."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return _duration(round(value * 1000))
    if isinstance(value, IntEnum):
        return value.name.lower().replace("_", " ")
    return _limit(int(str(value)))


# The options of the table that the README tells, which are the same in every mode.
_TOLD = [
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


def _same() -> list[tuple[str, str]]:
    """The defaults that are the same in every mode, as the library has them."""
    options, values = _options.library_defaults(), _options.defaults()
    assert options.limit_bytes == options.limit_messages
    names = {"limit_messages": "`limit_messages`, `limit_bytes`"}
    rows = [(names.get(name, f"`{name}`"), _value(values[name])) for name in _TOLD]
    rows[rows.index(("`drain_batch`", "none"))] = ("`drain_batch`", "all")
    return [
        ("`max_retries`, for delays of your own", str(options.max_retries)),
        *rows,
        ("`exhausted`", _value(Exhausted(options.exhausted))),
        *((f"`{name}`", _value(values[name])) for name in ("refused", "final_failure")),
    ]


def table() -> str:
    """The table in Markdown."""
    columns: list[list[str]] = []
    for mode in Mode:
        with tempfile.TemporaryDirectory() as directory:
            bench = _Bench(directory, mode)
            starts, direct, ladder = bench.starts(), bench.goes_direct(), bench.ladder()
            bench.queue.close()
        delays = ", ".join(_duration(delay) for delay in ladder) or "none"
        columns.append([f"`{mode.name}`", starts, direct, delays, f"{len(ladder) + 1}"])
    names = [
        "",
        "starts sending what was written offline",
        "a message enqueued online goes out at once (`direct`)",
        "delays after failures that may pass",
        "attempts, then `failed`",
    ]
    rows = [list(row) for row in zip(names, *columns)]
    rows.insert(1, ["---"] * (len(columns) + 1))
    rows += [[name, *[value] * len(columns)] for name, value in _same()]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows).replace("| --- ", "|---").replace("--- |", "---|")


def written() -> str:
    """The table as it stands in the README."""
    _, _, rest = README.read_text().partition(BEGIN)
    found, _, _ = rest.partition(END)
    return found


if __name__ == "__main__":
    text = README.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit("the README has no place for the table")
    README.write_text(before + begin + table() + end + after)
