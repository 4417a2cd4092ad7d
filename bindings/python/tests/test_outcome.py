"""Outcomes, without a queue."""

from __future__ import annotations

import email.message
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msgqueue import FailureKind, InvalidError, Outcome, Status, Verdict, _abi
from msgqueue.outcome import _array_for_c


def written(outcome: Outcome) -> Any:
    """Returns the structure for C, written over other content."""
    target = _abi.sized(_abi.Outcome, 99, 99, 99, 99, True, True, b"9" * 63, b"9" * 511, 99)
    outcome._write(target)
    return target


def test_each_method_has_its_verdict() -> None:
    assert Outcome.sent().verdict is Verdict.SENT
    assert Outcome.retry().verdict is Verdict.RETRY
    assert Outcome.reject().verdict is Verdict.REJECT
    assert Outcome.offline().verdict is Verdict.OFFLINE
    assert Outcome.pending().verdict is Verdict.PENDING
    assert Outcome.http(200).verdict is Verdict.HTTP


def test_an_outcome_fills_the_whole_structure() -> None:
    plain = written(Outcome.sent())
    assert (plain.verdict, plain.kind, plain.code, plain.retry_after_ms) == (Verdict.SENT, 0, 0, -1)
    assert (plain.retry_after_queue, plain.retry_after, plain.text, plain.receipt) == (False, b"", b"", 0)
    full = written(Outcome.retry(FailureKind.SERVER, code=-7, text="grüße", retry_after=1.5, retry_after_queue=True))
    assert full.retry_after_queue
    assert (full.verdict, full.kind, full.code, full.retry_after_ms) == (Verdict.RETRY, FailureKind.SERVER, -7, 1500)
    assert full.text.decode() == "grüße"


def test_A13_a_receipt_is_delivered_or_read() -> None:
    assert written(Outcome.sent(receipt=Status.DELIVERED)).receipt == Status.DELIVERED
    assert written(Outcome.sent(code=7, receipt=Status.READ)).receipt == Status.READ
    assert Outcome.sent() == Outcome.sent(receipt=None)
    for status in set(Status) - {Status.DELIVERED, Status.READ}:
        with pytest.raises(InvalidError, match="receipt must be DELIVERED, READ or None"):
            Outcome.sent(receipt=status)
    wrong: Any
    for wrong in (3, True, "read", Verdict.PENDING):
        with pytest.raises(TypeError, match="receipt"):
            Outcome.sent(receipt=wrong)


@pytest.mark.parametrize("headers", [{"retry-AFTER": " 120 "}, {"X": "1", "Retry-After": "120"}, {"retry-after": 120}])
def test_the_name_of_retry_after_may_have_any_case(headers: Any) -> None:
    assert written(Outcome.http(503, headers)).retry_after == b"120"


def test_headers_of_the_standard_library_are_accepted() -> None:
    headers = email.message.Message()
    headers["RETRY-after"] = "Wed, 21 Oct 2015 07:28:00 GMT"
    assert written(Outcome.http(429, headers)).retry_after == b"Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize("value", ["x" * 64, "\x00", "12\n0", "später", ""])
def test_an_invalid_retry_after_is_ignored(value: str) -> None:
    assert written(Outcome.http(503, {"Retry-After": value})).retry_after == b""
    assert written(Outcome.http(503)).retry_after == b""


@given(st.text(alphabet=st.characters(), max_size=700) | st.text(alphabet="\0\ud800é\U0001f355", max_size=700))
def test_any_text_is_cut_to_valid_utf8(text: str) -> None:
    data = written(Outcome.reject(text=text)).text
    assert len(data) <= 511
    kept = data.decode()
    whole = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "backslashreplace").decode()
    assert whole.startswith(kept)
    assert kept == whole or len(data) > 511 - 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: Outcome.http(99),
        lambda: Outcome.http(1000),
        lambda: Outcome.http(-1),
        lambda: Outcome.retry(FailureKind.NONE),
        lambda: Outcome.reject(FailureKind.NONE),
        lambda: Outcome.retry(retry_after=-1),
        lambda: Outcome.retry(retry_after=math.nan),
        lambda: Outcome.retry(retry_after=math.inf),
        lambda: Outcome.retry(code=2**31),
        lambda: Outcome(Verdict.HTTP, retry_after_header="x" * 64),
        lambda: Outcome(Verdict.HTTP, retry_after_header="1\x002"),
    ],
)
def test_a_wrong_value_is_an_invalid_error(make: Any) -> None:
    with pytest.raises(InvalidError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Outcome.http("200"),  # type: ignore[arg-type]
        lambda: Outcome.http(True),
        lambda: Outcome.retry("server"),  # type: ignore[arg-type]
        lambda: Outcome.retry(4),  # type: ignore[arg-type]
        lambda: Outcome.reject(text=b"no"),  # type: ignore[arg-type]
        lambda: Outcome.sent(code="0"),  # type: ignore[arg-type]
        lambda: Outcome.retry(retry_after="120"),  # type: ignore[arg-type]
        lambda: Outcome(1),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_type_is_a_type_error(make: Any) -> None:
    with pytest.raises(TypeError):
        make()


def test_F10_plain_successes_are_copied_whole_for_c(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Outcome.sent()] * 15 + [Outcome.retry(FailureKind.SERVER, code=7, text="busy")] + [Outcome.sent()]
    expected = [bytes(answer._for_c()) for answer in answers]
    # The structure of a plain success is made once.
    _array_for_c(answers[:1])
    write, calls = Outcome._write, []

    def counted(outcome: Outcome, target: _abi.Outcome) -> None:
        calls.append(outcome)
        write(outcome, target)

    monkeypatch.setattr(Outcome, "_write", counted)
    assert [bytes(each) for each in _array_for_c(answers)] == expected
    assert calls == [answers[15]]
    assert len(_array_for_c([])) == 0
