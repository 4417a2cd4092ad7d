"""A12: the recipes, run as programs, and their options; the Swift tests run these options in virtual time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from msgqueue import Connectivity, EventKind, Exhausted, FailureKind, Mode, NotFoundError, Outcome, Status
from receiver import Receiver
from recipes import FIXTURE, NAMES, recipes, written
from sender import HttpTransport
from support import Events, wait_until

# Where a test waits for options in seconds, they are divided by this.
FASTER = 100


def options(name: str, tmp_path: Path) -> dict[str, Any]:
    """Returns the options that the program gives to its queue."""
    directory = tmp_path / "recipe"
    directory.mkdir()
    _, given = recipes()[name].run(directory)
    return given


def faster(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the same options with shorter delays."""
    retry = given["retry"]
    if retry.ladder is None:
        retry = replace(retry, base=retry.base / FASTER, cap=retry.cap / FASTER)
    else:
        retry = replace(retry, ladder=[delay / FASTER for delay in retry.ladder])
    timer = {"trigger_interval": given["trigger_interval"] / FASTER} if "trigger_interval" in given else {}
    return {**given, "retry": retry, **timer}


@pytest.mark.parametrize("name", NAMES)
def test_A12_a_recipe_prints_its_output(name: str, tmp_path: Path) -> None:
    recipe = recipes()[name]
    printed, _ = recipe.run(tmp_path)
    assert printed == recipe.expected


def test_A12_the_fixture_has_the_options_of_the_page() -> None:
    """`python tests/recipes.py` writes the fixture."""
    assert FIXTURE.read_text() == written()


def test_A12_the_recipes_have_the_promised_numbers(tmp_path: Path) -> None:
    def of(name: str) -> dict[str, Any]:
        directory = tmp_path / name
        directory.mkdir()
        return options(name, directory)

    offline = {"initial_connectivity": Connectivity.OFFLINE}
    assert of("manual") == {"mode": Mode.MANUAL, **offline}
    assert of("ask") == {"mode": Mode.ASK, "prompt_timeout": 10, **offline}
    assert of("retry") == {"mode": Mode.MANUAL, "on_demand_timeout": 3}
    assert of("history") == {"keep_sent": None, "keep_sent_for": None}
    background = of("background")
    policy = background["retry"]
    assert (policy.ladder, policy.exhausted) == ((5, 30, 120), Exhausted.DISCARD)
    assert (background["drain_batch"], background["trigger_interval"], background["keep_sent"]) == (5, 5, 0)
    assert background["strict_order"] is False
    assert of("automatic")["retry"].retries == 5


def test_A12_retry_with_a_failure_of_kind_offline(
    opened: Opener, http: HttpTransport, receiver: Receiver, tmp_path: Path
) -> None:
    events = Events()
    queue = opened(
        transport=lambda _: Outcome.retry(FailureKind.OFFLINE), on_event=events, **options("retry", tmp_path)
    )
    id = queue.enqueue("hello", conversation="ana")
    failure = events.wait_for_status(id, Status.FAILED).failure
    assert failure is not None
    assert (failure.kind, failure.retryable) == (FailureKind.OFFLINE, True)
    assert failure.sentence == "No internet connection. Your message is saved and you can retry later."
    queue.retry(id)
    wait_until(lambda: events.statuses(id).count(Status.FAILED) == 2)
    queue.set_transport(http)
    queue.retry(id)
    events.wait_for_status(id, Status.SENT)
    assert receiver.ids == [id]


def test_A12_history_keeps_more_than_the_default(opened: Opener, tmp_path: Path) -> None:
    given = options("history", tmp_path)
    queue = opened(transport=lambda _: Outcome.sent(), **given)
    count = 10_050
    queue.enqueue_batch({"body": "hello", "conversation": "ana"} for _ in range(count))
    wait_until(lambda: queue.counts().sent == count)
    queue.close()
    assert opened(**given).counts().sent == count


def test_A12_background_discards_a_message_after_four_failures_and_delays_no_other(
    opened: Opener, http: HttpTransport, receiver: Receiver, tmp_path: Path
) -> None:
    events = Events()
    given = faster(options("background", tmp_path))
    receiver.answer_by(lambda request: {"bad": 503, "refused": 401}.get(request.text, 200))
    queue = opened(transport=http, on_event=events, **given)
    queue.set_connectivity(Connectivity.ONLINE)
    texts = ["bad", "refused", *(str(number) for number in range(10))]
    ids = [queue.enqueue(text) for text in texts]
    wait_until(lambda: len(events.all(EventKind.DISCARDED)) == 2)
    gone = {event.id: event.failure for event in events.all(EventKind.DISCARDED)}
    assert {id: (each.code, each.attempts) for id, each in gone.items() if each} == {ids[0]: (503, 4), ids[1]: (401, 1)}
    assert receiver.texts.count("bad") == 4
    assert receiver.texts[-1] == "bad"
    assert sorted(receiver.texts) == sorted(["bad"] * 3 + texts)
    wait_until(lambda: not queue.list(status=Status))
    for id in ids:
        with pytest.raises(NotFoundError):
            queue.get(id)


def test_A12_background_twelve_messages_answered_503(
    opened: Opener, http: HttpTransport, receiver: Receiver, tmp_path: Path
) -> None:
    events = Events()
    receiver.answer_by(lambda _: 503)
    queue = opened(transport=http, on_event=events, **faster(options("background", tmp_path)))
    queue.set_connectivity(Connectivity.ONLINE)
    ids = [queue.enqueue(str(number), conversation="notes") for number in range(12)]
    wait_until(lambda: len(events.all(EventKind.DISCARDED)) == len(ids))
    assert sorted(receiver.ids) == sorted(ids * 4)
    assert queue.list(status=Status) == []


def test_A12_automatic_fails_after_five_retries(
    opened: Opener, http: HttpTransport, receiver: Receiver, tmp_path: Path
) -> None:
    events = Events()

    receiver.answer_by(lambda request: 503 if request.text == "bad" else 200)
    queue = opened(transport=http, on_event=events, **faster(options("automatic", tmp_path)))
    bad = queue.enqueue("bad", conversation="ana")
    behind = queue.enqueue("behind", conversation="ana")
    other = queue.enqueue("other", conversation="ben")
    failure = events.wait_for_status(bad, Status.FAILED).failure
    assert failure is not None
    assert failure.attempts == 6
    events.wait_for_status(behind, Status.SENT)
    assert receiver.ids.count(bad) == 6
    assert receiver.ids[-1] == behind
    assert receiver.ids.index(other) < receiver.ids.index(behind)
