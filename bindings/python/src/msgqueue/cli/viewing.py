"""The commands that look into a queue."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from .. import control
from ..errors import ClosedError, InternalError
from . import exits, tables, values
from .session import Session
from .terminal import cut, escaped, is_terminal, note, styled

_PAGE = 1000
# Columns of the text of a failed message in a list, before its failure.
_BEGINNING = 32


def messages(
    session: Session, arguments: Namespace, *, bodies: bool = False, page: int = _PAGE, more: int = 0
) -> Iterator[dict[str, Any]]:
    """Yields the messages that the arguments of `list` choose, and so many more, and asks for page after page."""
    left = None if arguments.all else arguments.limit + more
    after = arguments.after
    # An owner of an earlier version knows no order.
    order, after_time = "time" if arguments.order == "time" else None, arguments.after_time
    seen = {after}
    while left is None or left > 0:
        result = session.call(
            "list",
            conversation=arguments.conversation,
            statuses=values.statuses(arguments.status),
            after=after,
            limit=page if left is None else min(left, page),
            newest_first=arguments.newest,
            bodies=bodies,
            order=order,
            after_time_ms=after_time,
            kind=arguments.kind,
            code=arguments.code,
        )
        found = result["messages"]
        yield from found
        left = None if left is None else left - len(found)
        after = result["next"]
        if after is None:
            return
        _check_advance(after, seen)
        if order:
            after_time = result["next_time_ms"]


def _check_advance(place: int, seen: set[int]) -> None:
    """Refuses a page that was listed already, with which a listing would never end."""
    if place in seen:
        raise InternalError("the owner continues a listing where it was before")
    seen.add(place)


def list_(session: Session, arguments: Namespace) -> int:
    """Lists messages, each as it arrives, so that any number of them takes little memory."""
    count, last, last_time, has_more = 0, 0, 0, False

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count, last, last_time, has_more
        for message in messages(session, arguments, bodies=arguments.bodies, more=1):
            if not arguments.all and count == arguments.limit:
                has_more = True
                return
            yield message
            count, last, last_time = count + 1, message["sequence"], message["time_ms"]

    if arguments.json:
        tables.objects(counted())
    else:
        tables.table(
            ("id", "status", "conversation", "time", "attempts", "text"),
            (
                (
                    row["id"],
                    row["status"],
                    row["conversation"] or "-",
                    tables.instant(row["time_ms"]),
                    str(row["attempts"]),
                    _text(row),
                )
                for row in counted()
            ),
            tables.STATUS_STYLES.get,
        )
    if has_more and not arguments.quiet:
        further = f"--after {last}" + (f" --after-time {last_time}" if arguments.order == "time" else "")
        note(f"the first {tables.plural(count, 'message')}; {further} continues, --all lists all")
    return exits.DONE


def groups(session: Session, arguments: Namespace) -> int:
    """Counts failed messages by what they failed with, and queued ones by what they wait for."""
    found = session.call("failures", limit=arguments.limit)["groups"]
    if arguments.json:
        tables.objects(found)
        return exits.DONE
    tables.table(
        ("messages", "kind", "code", "first", "last", "text"),
        (
            (
                str(group["count"]),
                group["kind"],
                str(group["code"] or "-"),
                tables.instant(group["first_ms"]),
                tables.instant(group["last_ms"]),
                group["text"],
            )
            for group in found
        ),
    )
    waiting = session.call("waiting")
    if waiting["queued"] and not arguments.quiet:
        note(_waiting(waiting))
    return exits.DONE


def _waiting(waiting: dict[str, Any]) -> str:
    times = {"scheduled": "next_scheduled_ms", "retrying": "next_retry_ms"}
    parts = [f"{tables.plural(waiting['queued'], 'message')} queued"]
    for name in ("paused", "scheduled", "retrying"):
        if count := waiting[name]:
            first = f" (the first at {tables.instant(waiting[times[name]])})" if name in times else ""
            parts.append(f"{count} {name}{first}")
    return ", ".join(parts)


def _text(row: dict[str, Any]) -> str:
    """Returns the text of a message; of a failed one its beginning, and why it failed."""
    if row["status"] != "failed" or not row["failure"]:
        return str(row["preview"])
    return f"{cut(str(row['preview']), _BEGINNING) or '(no text)'}: {row['failure']['sentence']}"


def show(session: Session, arguments: Namespace) -> int:
    """Shows one message with its body."""
    message = session.call("get", message=arguments.message)
    body = control.body_of(message) or b""
    if arguments.body:
        if is_terminal(sys.stdout):
            tables.write(escaped(body.decode("utf-8", "backslashreplace"), lines=True) + "\n")
        else:
            sys.stdout.buffer.write(body)
        return exits.DONE
    if arguments.json:
        tables.objects((message,))
        return exits.DONE
    tables.pairs(
        (
            ("id", message["id"]),
            ("conversation", message["conversation"]),
            ("status", message["status"]),
            ("sender", message["sender"] or ""),
            ("failure", _words(message["failure"])),
            ("failed before", _words(message.get("failure_before"))),
            ("enqueued", tables.instant(message["created_ms"])),
            ("time", tables.instant(message["time_ms"]) if message["time_ms"] != message["created_ms"] else ""),
            ("edited", _edited(message["edited_ms"])),
            ("not before", tables.instant(message["not_before_ms"])),
            ("expires", tables.instant(message["expires_at_ms"])),
            ("last attempt", tables.instant(message["last_attempt_ms"])),
            ("next attempt", tables.instant(message["next_attempt_ms"])),
            ("sent", tables.instant(message["sent_ms"])),
            ("delivered", tables.instant(message["delivered_ms"])),
            ("read", tables.instant(message["read_ms"])),
            ("attempts", f"{message['attempts']}, {message['retries_used']} of them retries"),
            ("priority", str(message["priority"] or "")),
            ("unmetered only", "yes" if message["unmetered_only"] else ""),
            ("sequence", str(message["sequence"])),
            *((f"metadata {escaped(key)}", value) for key, value in message["metadata"].items()),
            ("body", tables.size(len(body))),
        )
    )
    tables.write("\n" + escaped(body.decode("utf-8", "backslashreplace"), lines=True) + "\n")
    return exits.DONE


def _edited(milliseconds: int) -> str:
    # With the number for `edit --if-edited`, which needs every millisecond.
    return f"{tables.instant(milliseconds)} ({milliseconds})" if milliseconds else ""


def _words(failure: dict[str, Any] | None) -> str:
    return f"{failure['sentence']} {_details(failure)}" if failure else ""


def _details(failure: dict[str, Any]) -> str:
    code = f", code {failure['code']}" if failure.get("code") else ""
    text = f": {failure['text']}" if failure.get("text") else ""
    return f"({failure['kind']}{code}{text})" if failure else ""


def explain(session: Session, arguments: Namespace) -> int:
    """Says why a message is not sent yet."""
    answer = session.call("explain", message=arguments.message)
    if arguments.json:
        tables.objects((answer,))
    else:
        if not session.has_owner and answer["reason"] == "no_transport":
            tables.write("No program has the store open.\n")
            return exits.DONE
        behind = f" Before it: {answer['behind']}." if answer["behind"] else ""
        tables.write(escaped(f"{answer['text']}{behind}") + "\n")
    return exits.DONE


def attempts(session: Session, arguments: Namespace) -> int:
    """Lists the attempts of a message."""
    rows = session.call("attempts", message=arguments.message)["attempts"]
    if arguments.json:
        tables.objects(rows)
        return exits.DONE
    tables.table(
        ("number", "outcome", "started", "took", "kind", "code", "arrived", "text"),
        [
            (
                str(row["number"]),
                row["outcome"],
                tables.instant(row["started_ms"]),
                tables.duration(row["duration_ms"]),
                "-" if row["kind"] == "none" else row["kind"],
                str(row["code"] or "-"),
                row["arrival"],
                row["text"],
            )
            for row in rows
        ],
        lambda outcome: "green" if outcome == "sent" else "red",
    )
    return exits.DONE


def conversations(session: Session, arguments: Namespace) -> int:
    """Lists conversations, the one with the newest message first, or by time."""
    rows = _conversations(session, arguments)
    if arguments.json:
        tables.objects(rows)
        return exits.DONE
    counted = ("queued", "sending", "failed", "sent", "delivered", "read", "unread")
    tables.table(
        ("conversation", "title", *counted, "newest", "text"),
        (
            (
                row["name"] or "-",
                row["title"] or "-",
                *(str(row["counts"][name] or "-") for name in counted),
                tables.instant(row["last"]["time_ms"]),
                row["last"]["preview"],
            )
            for row in rows
        ),
    )
    return exits.DONE


def _conversations(session: Session, arguments: Namespace) -> Iterator[dict[str, Any]]:
    left = None if arguments.all else arguments.limit
    before = 0
    before_time, order = None, "time" if arguments.order == "time" else None
    seen = {before}
    while before is not None and (left is None or left > 0):
        limit = _PAGE if left is None else min(left, _PAGE)
        result = session.call("conversations", before=before, limit=limit, order=order, before_time_ms=before_time)
        found = result["conversations"]
        yield from found
        left = None if left is None else left - len(found)
        before = result["next"]
        if before is not None:
            _check_advance(before, seen)
            if order:
                before_time = result["next_time_ms"]


def titles(session: Session) -> dict[str, str]:
    """Returns the titles of the conversations that have messages."""
    every = Namespace(all=True, limit=0, order="sequence")
    return {row["name"]: row["title"] for row in _conversations(session, every) if row["title"]}


def stats(session: Session, arguments: Namespace) -> int:
    """Shows counts, state and statistics."""
    if arguments.prometheus and arguments.json:
        raise exits.UsageError("--prometheus and --json exclude each other")
    if arguments.prometheus:
        text = str(session.call("stats_text")["text"])
        # The path of the store is in it. A program gets it unchanged.
        tables.write(escaped(text, lines=True) if is_terminal(sys.stdout) else text)
        return exits.DONE
    counts, state, statistics = session.call("counts"), session.call("state"), session.call("stats")
    if arguments.json:
        tables.objects(({"counts": counts, "state": state, "statistics": statistics},))
        return exits.DONE
    rows = [(name.replace("_", " "), f"{counts[name]:,}") for name in counts if name != "unsent_bytes"]
    rows += [("unsent bodies", tables.size(counts["unsent_bytes"])), ("file", tables.size(statistics["file_bytes"]))]
    if session.has_owner:
        rows += [
            ("connectivity", state["connectivity"]),
            ("mode", state["mode"]),
            ("since", tables.instant(statistics["opened_ms"])),
            ("attempts", f"{statistics['attempts']:,}"),
            ("retried", f"{statistics['retried']:,}"),
            ("sent per minute", f"{statistics['sent_per_minute']:,}"),
        ]
        rows += [(f"failures: {kind}", f"{count:,}") for kind, count in statistics["failures"].items() if count]
    tables.pairs([*rows, ("now", state["text"])])
    return exits.DONE


def watch(session: Session, arguments: Namespace) -> int:
    """Prints events as they happen, until the owner ends, or so many."""
    kinds = [word for each in arguments.events or [] for word in each.split(",")]
    left = arguments.count
    with session.events(*kinds) as events:
        for event in events:
            if arguments.json:
                tables.objects((event,))
            else:
                tables.write(_event_line(event) + "\n")
            sys.stdout.flush()
            left = None if left is None else left - 1
            if left == 0:
                return exits.DONE
    seen = "" if left is None else f", after {arguments.count - left} of {tables.plural(arguments.count, 'event')}"
    raise exits.LostError(f"the program that has {session.store} open (process {session.pid}) ended first{seen}")


def changes(session: Session, arguments: Namespace) -> int:
    """Prints the changes of messages that the queue keeps."""
    left = arguments.count
    for change in _changes(session, arguments):
        if arguments.json:
            tables.objects((change,))
        else:
            tables.write(_change_line(change) + "\n")
        if arguments.follow:
            sys.stdout.flush()
        left = None if left is None else left - 1
        if left == 0:
            return exits.DONE
    if arguments.follow and session.has_owner:
        raise exits.LostError(f"the program that has {session.store} open (process {session.pid}) ended first")
    return exits.DONE


def _changes(session: Session, arguments: Namespace) -> Iterator[dict[str, Any]]:
    after = arguments.after
    with ExitStack() as stack:
        # Before the first page, so that no change is missed.
        waits = arguments.follow and session.has_owner
        news = iter(stack.enter_context(session.events("summary"))) if waits else iter(())
        while True:
            try:
                page = session.call("changes", after=after, limit=1000)
            except ClosedError:
                if not waits:
                    raise
                # The owner is closing the queue.
                return
            yield from page["changes"]
            after = page["next"]
            if not page["changes"] and next(news, None) is None:
                return


def _change_line(change: dict[str, Any]) -> str:
    kind, status = str(change["kind"]), str(change["status"])
    word = styled(escaped(status), tables.STATUS_STYLES.get(status, "")) if kind == "status" else escaped(kind)
    words = [escaped(str(change[name])) for name in ("id", "conversation") if change[name]]
    if change["failure_kind"] != "none":
        words.append(escaped(f"{change['failure_kind']}" + (f" {change['code']}" if change["code"] else "")))
    return "  ".join([styled(tables.instant(change["at_ms"]), "dim"), word, *words, styled(change["token"], "dim")])


def _event_line(event: dict[str, Any]) -> str:
    kind = str(event["event"])
    time = tables.instant(event.get("at_ms"))
    words = [escaped(str(event[name])) for name in ("id", "conversation") if event.get(name)]
    if kind == "status":
        to = str(event["to"])
        words.append(
            f"{escaped(str(event['from'] or 'new'))} → {styled(escaped(to), tables.STATUS_STYLES.get(to, ''))}"
        )
        if event.get("failure"):
            words.append(escaped(str(event["failure"]["sentence"])))
    else:
        hidden = ("event", "at_ms", "id", "conversation")
        words += [escaped(f"{name}={_short(value)}") for name, value in event.items() if name not in hidden and value]
    return "  ".join([styled(time, "dim"), escaped(kind), *words])


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={_short(each)}" for name, each in value.items() if each)
    return cut(str(value), 200)


def backup(session: Session, arguments: Namespace) -> int:
    """Copies the store to a new file."""
    session.call("backup", path=os.path.abspath(arguments.target))  # noqa: PTH100 - Path would resolve links
    if not arguments.quiet:
        note(f"copied to {arguments.target}")
    return exits.DONE
