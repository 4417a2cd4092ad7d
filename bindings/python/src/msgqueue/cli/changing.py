"""The commands that change a queue."""

from __future__ import annotations

import threading
from argparse import Namespace
from contextlib import suppress
from typing import Any

from .. import control
from ..errors import Error
from . import exits, tables, values
from .exits import UsageError
from .session import Session, Way, connected
from .terminal import Progress, confirmed, note


def _say(arguments: Namespace, text: str) -> None:
    if not arguments.quiet:
        note(text)


def drain(session: Session, arguments: Namespace) -> int:
    """Sends what is queued, and waits until that has ended."""
    progress = Progress(arguments.quiet)
    ended = threading.Event()
    latest: dict[str, Any] = {}
    with session.events("drain_progress") as events:
        watcher = threading.Thread(target=_show_progress, args=(events, progress, ended, latest), daemon=True)
        watcher.start()
        try:
            report = session.call(
                "drain",
                conversation=arguments.conversation,
                batch=arguments.batch,
                timeout_ms=None if arguments.timeout is None else arguments.timeout * 1000,
                **({"include_failed": True} if arguments.failed else {}),
            )
        except control.NotRunningError:
            # Its last events may not have been read yet.
            watcher.join(1)
            progress.end()
            if latest:
                note(f"the last that is known: {_counts(latest)}")
            raise
        finally:
            ended.set()
            events.close()
            watcher.join()
            progress.end()
    if arguments.json:
        tables.objects((report,))
    else:
        tables.line(_sentence(report) + _why_offline(session, report))
    if report["stop"] == "closed":
        note(f"the program that has {session.store} open (process {session.pid}) closed the queue first")
        return exits.LOST
    return exits.DONE if report["failed"] == 0 and report["remaining"] == 0 else exits.FAILED


def _show_progress(events: control.Events, progress: Progress, ended: threading.Event, latest: dict[str, Any]) -> None:
    # What is wrong with the connection is the problem of the call, which reports it.
    with suppress(Error, AttributeError, TypeError, ValueError):
        for event in events:
            if ended.is_set():
                return
            report = event.get("report") or {}
            progress.show(_counts(report))
            latest.update(report)


def _counts(report: dict[str, Any]) -> str:
    return "{:,} sent, {:,} failed, {:,} left".format(
        *(report.get(name, 0) for name in ("sent", "failed", "remaining"))
    )


def _sentence(report: dict[str, Any]) -> str:
    parts = [f"{report['sent']:,} sent", f"{report['failed']:,} failed", f"{report['remaining']:,} left"]
    if report["discarded"]:
        parts.append(f"{report['discarded']:,} discarded")
    if report.get("put_back"):
        parts.append(f"{report['put_back']:,} had failed before")
    return f"{', '.join(parts)}; ended: {report['stop']}"


def _why_offline(session: Session, report: dict[str, Any]) -> str:
    """Returns the reason for a drain that ended for want of a connection, if it is known."""
    if report["stop"] != "offline":
        return ""
    # A program with an older library gives none.
    reason = session.call("state").get("offline_reason")
    return f" ({reason})" if reason else ""


def _each(session: Session, call: str, ids: list[str]) -> None:
    """Performs a call for each message. It stops at an error, and says for which it was performed before."""
    for place, id in enumerate(ids):
        try:
            session.call(call, message=id)
        except Error:
            if place:
                note(f"{call.replace('_', '-')} was done for {', '.join(ids[:place])}; it stopped at {id}")
            raise


def retry(session: Session, arguments: Namespace) -> int:
    """Retries failed messages."""
    _each(session, "retry", arguments.message)
    if not session.has_owner:
        _say(arguments, "queued again; the program of the queue sends it when it runs")
    return exits.DONE


def _selected(arguments: Namespace) -> dict[str, object]:
    return {"conversation": arguments.conversation, "kind": arguments.kind, "code": arguments.code}


def retry_all(session: Session, arguments: Namespace) -> int:
    """Retries every failed message."""
    result = session.call("retry_all", **_selected(arguments))
    if arguments.json:
        tables.objects((result,))
    else:
        verb = "retried" if session.has_owner else "queued again"
        tables.write(f"{tables.plural(result['count'], 'message')} {verb}\n")
    return exits.DONE


def send_now(session: Session, arguments: Namespace) -> int:
    """Sends queued messages before all others."""
    _each(session, "send_now", arguments.message)
    return exits.DONE


def read_body(arguments: Namespace) -> int:
    """Reads the body of `edit` and `enqueue`."""
    arguments.content = values.body(arguments.body, arguments.file)
    return exits.DONE


def edit(session: Session, arguments: Namespace) -> int:
    """Replaces the body of a message, and its metadata if they are given."""
    session.call(
        "edit",
        message=arguments.message,
        metadata=values.metadata(arguments.metadata),
        if_edited_ms=arguments.if_edited,
        **control.body_fields(arguments.content),
    )
    return exits.DONE


def ask_to_delete(arguments: Namespace) -> int:
    """Asks before `delete`."""
    _require_consent(arguments, f"Delete {tables.plural(len(arguments.message), 'message')} of {arguments.store}?")
    return exits.DONE


def delete(session: Session, arguments: Namespace) -> int:
    """Deletes messages."""
    _each(session, "delete", arguments.message)
    return exits.DONE


def ask_to_clear(arguments: Namespace) -> int:
    """Asks before `clear`, with the number of messages of this moment, as far as it is known without counting."""
    if arguments.kind is not None or arguments.code is not None:
        return _ask_to_clear_some(arguments)
    where = arguments.store if arguments.conversation is None else f"conversation {arguments.conversation}"
    kind = "failed message" if arguments.failed else "unsent message"
    return _ask_with_count(arguments, ("failed",) if arguments.failed else _UNSENT, f"the {{}} of {where}", kind)


def _ask_to_clear_some(arguments: Namespace) -> int:
    if not arguments.failed:
        raise UsageError("--kind and --code need --failed: only failed messages have a failure")
    where = arguments.store if arguments.conversation is None else f"conversation {arguments.conversation}"
    words = [] if arguments.kind is None else [f"kind {arguments.kind}"]
    words += [] if arguments.code is None else [f"code {arguments.code}"]
    _require_consent(arguments, f"Delete the failed messages of {where} with {' and '.join(words)}?")
    return exits.DONE


def ask_to_delete_conversation(arguments: Namespace) -> int:
    """Asks before `delete-conversation`, with the number of messages of this moment."""
    return _ask_with_count(arguments, _ANY, f"the {{}} of conversation {arguments.conversation}", "message")


def _ask_with_count(arguments: Namespace, statuses: tuple[str, ...], what: str, kind: str) -> int:
    if arguments.yes:
        return exits.DONE
    with connected(Way(arguments.store, socket=arguments.socket, quiet=True, wait=arguments.wait)) as session:
        count = _count(session, arguments, statuses)
    _require_consent(arguments, f"Delete {what.format(tables.plural(count, kind))}?")
    return exits.DONE


_UNSENT = ("queued", "sending", "failed")
_ANY = (*_UNSENT, "sent", "delivered", "read", "received")


def _count(session: Session, arguments: Namespace, statuses: tuple[str, ...]) -> int:
    counts = session.call("counts", conversation=arguments.conversation)
    return int(sum(counts[status] for status in statuses))


def clear(session: Session, arguments: Namespace) -> int:
    """Deletes every unsent message, or every failed one."""
    sending = 0
    if arguments.failed:
        count = session.call("clear_failed", **_selected(arguments))["count"]
    else:
        counts = session.call("counts", conversation=arguments.conversation)
        session.call("clear", conversation=arguments.conversation)
        count, sending = int(counts["queued"] + counts["failed"]), int(counts["sending"])
    _say(arguments, f"deleted {tables.plural(count, 'message')}{_until_sent(sending)}")
    return exits.DONE


def _until_sent(count: int) -> str:
    """Says what becomes of messages that are being sent while they are cleared."""
    if not count:
        return ""
    return f"; {count:,} {'is' if count == 1 else 'are'} being sent, and deleted unless that succeeds"


def delete_conversation(session: Session, arguments: Namespace) -> int:
    """Deletes every message of a conversation."""
    count = session.call("delete_conversation", conversation=arguments.conversation)["count"]
    _say(arguments, f"deleted {tables.plural(count, 'message')}")
    return exits.DONE


def _require_consent(arguments: Namespace, question: str) -> None:
    if arguments.yes:
        return
    answer = confirmed(question)
    if answer is None:
        raise UsageError("nothing was deleted: there is no terminal to ask on; give --yes")
    if not answer:
        raise UsageError("nothing was deleted")


def pause(session: Session, arguments: Namespace) -> int:
    """Pauses sending."""
    session.call("pause", conversation=arguments.conversation)
    return exits.DONE


def resume(session: Session, arguments: Namespace) -> int:
    """Ends a pause."""
    session.call("resume", conversation=arguments.conversation)
    return exits.DONE


def collect(session: Session, _: Namespace) -> int:
    """Asks the owner to take over what waits in its own places."""
    session.call("request_collect")
    return exits.DONE


def title(session: Session, arguments: Namespace) -> int:
    """Gives a conversation a title, or removes it."""
    session.call("set_title", conversation=arguments.conversation, title=arguments.title)
    return exits.DONE


def enqueue(session: Session, arguments: Namespace) -> int:
    """Adds a message."""
    result = session.call(
        "enqueue",
        message=arguments.id,
        conversation=arguments.conversation,
        metadata=values.metadata(arguments.metadata),
        **values.start_and_expiry(arguments.not_before, arguments.expires),
        unmetered_only=arguments.unmetered_only or None,
        priority=arguments.priority,
        replace_key=arguments.replace_key,
        time_ms=values.instant(arguments.time, "--time"),
        **control.body_fields(arguments.content),
    )
    if arguments.json:
        tables.objects((result,))
    else:
        tables.line(result["message"])
    return exits.DONE
