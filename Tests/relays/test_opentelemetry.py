"""B8: the spans of OpenTelemetry for messages, over a real store and an HTTP server that sees the same trace."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from checks import TRACE, delivery
from http_servers import OK, Server, in_turn
from msgqueue import (
    Connectivity,
    Delivery,
    DuplicateError,
    InvalidError,
    MessageQueue,
    Mode,
    Outcome,
    RetryPolicy,
    Status,
    aio,
)
from msgqueue.opentelemetry import Tracing
from msgqueue.relays import AsyncHttp, Http
from servers import Client

# The library need not be installed where the types are checked.
sdk: Client = pytest.importorskip("opentelemetry.sdk.trace")
export: Client = importlib.import_module("opentelemetry.sdk.trace.export")
memory: Client = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
trace: Client = importlib.import_module("opentelemetry.trace")

SERVER_ERROR = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


class Spans:
    """A tracer provider and what it exported."""

    def __init__(self) -> None:
        self.provider = sdk.TracerProvider()
        self.exporter = memory.InMemorySpanExporter()
        self.provider.add_span_processor(export.SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing("orders", tracer_provider=self.provider)

    def named(self, name: str) -> list[Client]:
        return [span for span in self.exporter.get_finished_spans() if span.name == f"{name} orders"]


@pytest.fixture
def spans() -> Spans:
    return Spans()


def opened(path: Path, **options: Client) -> MessageQueue:
    queue = MessageQueue(path, mode=Mode.MANUAL, direct=False, retry=RetryPolicy(ladder=[0, 0, 0]), **options)
    queue.set_connectivity(Connectivity.ONLINE)
    return queue


def traceparent(context: Client, of: Client = None) -> str:
    return f"00-{context.trace_id:032x}-{(of or context).span_id:016x}-{int(context.trace_flags):02x}"


def test_B8_one_trace_from_the_enqueue_to_the_receiver_also_after_a_restart(spans: Spans, tmp_path: Path) -> None:
    tracer = spans.provider.get_tracer("program")
    with opened(tmp_path / "a.db") as queue, tracer.start_as_current_span("program") as program:
        id = spans.tracing.enqueue(queue, "héllo", conversation="ana", metadata={"name": "x"})
    (enqueue,) = spans.named("enqueue")
    assert enqueue.parent.span_id == program.get_span_context().span_id
    assert enqueue.kind is trace.SpanKind.PRODUCER
    assert dict(enqueue.attributes) == {
        "messaging.system": "msgqueue",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "create",
        "messaging.destination.name": "orders",
        "messaging.message.id": id,
        "messaging.message.conversation_id": "ana",
        "messaging.message.body.size": 6,
    }

    # Another process, some time later.
    later = Spans()
    with Server(in_turn(SERVER_ERROR, OK)) as server, Http(server.url) as relay:
        queue = opened(tmp_path / "a.db", transport=later.tracing.transport(relay))
        metadata = queue.get(id).metadata
        assert metadata == {"name": "x", "traceparent": traceparent(enqueue.context)}
        assert queue.drain().sent == 1
        queue.close()
    (wait,), (first, second) = later.named("wait"), later.named("send")
    for span in (wait, first, second):
        assert span.context.trace_id == enqueue.context.trace_id
        assert span.parent.span_id == enqueue.context.span_id
        assert span.attributes["messaging.message.id"] == id
    assert wait.kind is trace.SpanKind.INTERNAL
    assert abs(wait.start_time - enqueue.start_time) < 5e9
    assert wait.start_time <= wait.end_time <= first.end_time
    for span, number in ((first, 1), (second, 2)):
        assert span.kind is trace.SpanKind.CLIENT
        (link,) = span.links
        assert link.context.span_id == enqueue.context.span_id
        assert span.attributes["msgqueue.attempt"] == number
        assert span.attributes["messaging.operation.type"] == "send"
    assert first.status.status_code is trace.StatusCode.ERROR
    assert first.status.description == "503 Busy"
    assert (first.attributes["error.type"], first.attributes["http.response.status_code"]) == ("503", 503)
    assert second.status.status_code is trace.StatusCode.UNSET
    assert second.attributes["http.response.status_code"] == 200
    # The receiver sees the attempt, in the same trace.
    seen = [request.headers["traceparent"] for request in server.requests]
    assert seen == [traceparent(enqueue.context, span.context) for span in (first, second)]


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_B8_asyncio(spans: Spans, tmp_path: Path, client: str) -> None:
    async def main(url: str) -> None:
        relay = AsyncHttp(url, client=client)
        path = tmp_path / "b.db"
        queue = aio.MessageQueue(path, spans.tracing.transport(relay), mode=Mode.MANUAL, direct=False)
        async with relay, queue:
            await queue.set_connectivity(Connectivity.ONLINE)
            tracer = spans.provider.get_tracer("program")
            with tracer.start_as_current_span("one"):
                one = await spans.tracing.enqueue(queue, "1", conversation="a")
            with tracer.start_as_current_span("two"):
                two = (await spans.tracing.enqueue_batch(queue, [{"body": "2", "conversation": "b"}]))[0]
            assert (await queue.drain()).sent == 2
            with pytest.raises(DuplicateError):
                await spans.tracing.enqueue(queue, "1", id=one)
            assert (await queue.get(two)).status is Status.SENT

    with Server(lambda *_: OK) as server:
        asyncio.run(main(server.url))
    first, second, refused = spans.named("enqueue")
    assert first.context.trace_id != second.context.trace_id
    assert refused.attributes["error.type"] == "DuplicateError"
    sent = {span.context.trace_id: span for span in spans.named("send")}
    assert {first.context.trace_id, second.context.trace_id} == set(sent)
    assert len(spans.named("wait")) == 2
    seen = [request.headers["traceparent"] for request in server.requests]
    wanted = [traceparent(span.context, sent[span.context.trace_id].context) for span in (first, second)]
    assert seen == wanted


def test_B8_a_batch_has_a_span_for_each_message(spans: Spans, tmp_path: Path) -> None:
    received: list[dict[str, str]] = []

    def send(deliveries: list[Client]) -> list[Outcome]:
        received.extend(each.metadata for each in deliveries)
        return [Outcome.sent() if each.text != "2" else Outcome.reject(text="no") for each in deliveries]

    with opened(tmp_path / "c.db", batch_transport=spans.tracing.batch_transport(send)) as queue:
        spans.tracing.enqueue_batch(queue, [{"body": str(number), "conversation": str(number)} for number in range(4)])
        queue.drain()
        assert (queue.counts().sent, queue.counts().failed) == (3, 1)
    attempts, creations = spans.named("send"), spans.named("enqueue")
    assert len({span.context.trace_id for span in attempts}) == 4
    assert {span.context.trace_id for span in attempts} == {span.context.trace_id for span in creations}
    assert [span.attributes["messaging.batch.message_count"] for span in attempts] == [4] * 4
    assert [span.status.is_ok for span in attempts] == [True, True, False, True]
    assert attempts[2].attributes["error.type"] == attempts[2].attributes["msgqueue.failure_kind"] == "rejected"
    assert [metadata["traceparent"] for metadata in received] == [traceparent(span.context) for span in attempts]


def test_B8_a_context_in_the_metadata_is_the_parent(spans: Spans, tmp_path: Path) -> None:
    with opened(tmp_path / "d.db") as queue:
        first = spans.tracing.enqueue(queue, "1", metadata=TRACE)
        wrong = spans.tracing.enqueue(queue, "2", metadata={**TRACE, "traceparent": "00-0-0-00"})
        one, two = queue.get(first).metadata, queue.get(wrong).metadata
    parent, root = spans.named("enqueue")
    assert f"{parent.context.trace_id:032x}" == TRACE["traceparent"][3:35]
    assert f"{parent.parent.span_id:016x}" == TRACE["traceparent"][36:52]
    assert one["traceparent"] == traceparent(parent.context)
    assert one["tracestate"] == TRACE["tracestate"]
    assert root.parent is None
    # Of the context that was not valid, nothing is left.
    assert two == {"traceparent": traceparent(root.context)}


def test_B8_an_attempt_that_was_not_tried_is_no_end_of_the_wait(spans: Spans) -> None:
    outcomes = [Outcome.offline(text="away"), Outcome.skipped(), Outcome.pending()]

    def send(_: Delivery) -> Outcome:
        return outcomes.pop(0)

    transport = spans.tracing.transport(send)
    message = delivery(metadata=dict(TRACE))
    for _ in range(3):
        assert isinstance(transport(message), Outcome)
    assert [span.attributes["msgqueue.outcome"] for span in spans.named("send")] == ["offline", "skipped", "pending"]
    assert [span.status.is_ok for span in spans.named("send")] == [False, True, True]
    assert len(spans.named("wait")) == 1


def test_B8_exceptions_pass_through(spans: Spans, tmp_path: Path) -> None:
    def fail(_: object) -> Outcome:
        raise ConnectionRefusedError("nobody")

    with pytest.raises(ConnectionRefusedError):
        spans.tracing.transport(fail)(delivery())
    (span,) = spans.named("send")
    assert span.attributes["error.type"] == "ConnectionRefusedError"
    assert [event.name for event in span.events] == ["exception"]
    # A message that was not traced begins a trace of its own, and has no wait that could belong to it.
    assert span.parent is None
    assert span.links == ()
    assert not spans.named("wait")
    with opened(tmp_path / "e.db") as queue:
        for wrong in ({"body": 5}, {"body": "x", "metadata": ["a"]}, {"body": "x", "metadata": {"a": 5}}):
            with pytest.raises(TypeError):
                spans.tracing.enqueue(queue, **wrong)
        with pytest.raises(InvalidError):
            spans.tracing.enqueue(queue, "x", metadata={"a": "\0"})
        assert queue.counts().queued == 0
    assert len(spans.named("enqueue")) == 4
    assert not any(span.status.is_ok for span in spans.named("enqueue"))
    with pytest.raises(InvalidError):
        Tracing("")
    with pytest.raises(TypeError):
        Tracing(None)  # type: ignore[arg-type]


def test_B8_without_an_sdk_nothing_is_added(tmp_path: Path) -> None:
    tracing = Tracing("orders", tracer_provider=trace.NoOpTracerProvider())
    seen: list[dict[str, str]] = []

    def send(each: Client) -> Outcome:
        seen.append(each.metadata)
        return Outcome.sent()

    with opened(tmp_path / "f.db", transport=tracing.transport(send)) as queue:
        tracing.enqueue(queue, "1")
        tracing.enqueue(queue, "2", metadata={"a": "b"})
        queue.drain()
    assert seen == [{}, {"a": "b"}]


def test_B8_the_module_does_not_hide_the_package_and_is_imported_when_asked_for() -> None:
    code = """
import json, sys
import msgqueue, msgqueue.aio, msgqueue.relays
before = "opentelemetry" in sys.modules or "msgqueue.opentelemetry" in sys.modules
import msgqueue.opentelemetry
import opentelemetry.trace
print(json.dumps([before, opentelemetry.__name__, msgqueue.opentelemetry.__name__]))
for name in [each for each in sys.modules if each.startswith("opentelemetry")]:
    sys.modules[name] = None
try:
    msgqueue.opentelemetry.Tracing("x")
except ImportError as problem:
    assert "pip install 'msgqueue[opentelemetry]'" in str(problem), problem
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [False, "opentelemetry", "msgqueue.opentelemetry"]
