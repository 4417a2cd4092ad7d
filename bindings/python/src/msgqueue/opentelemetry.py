"""Spans of OpenTelemetry for messages: enqueue, wait, and each attempt.

    from msgqueue import MessageQueue
    from msgqueue.opentelemetry import Tracing
    from msgqueue.relays import Http

    tracing = Tracing("orders")
    relay = Http("https://example.org/messages")
    with relay, MessageQueue("outbox.db", transport=tracing.transport(relay)) as queue:
        tracing.enqueue(queue, "hello", conversation="ana")

`pip install 'msgqueue[opentelemetry]'` installs the interface of OpenTelemetry. `import msgqueue` does not import it.
"""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ._arguments import Body
from ._drafts import _draft
from ._failures import described
from .enums import Verdict
from .errors import InvalidError
from .models import Delivery, Draft
from .outcome import Outcome
from .queue import MessageQueue

if TYPE_CHECKING:
    from . import aio

__all__ = ["Tracing"]

Send = TypeVar("Send", bound=Callable[..., object])
Span = Any

# The headers of W3C Trace Context, as metadata carries them.
_CONTEXT = ("traceparent", "tracestate")
# Not tried: the message goes back to its place, and the same attempt is made again.
_NOT_TRIED = frozenset((Verdict.OFFLINE, Verdict.SKIPPED))


class Tracing:
    """Makes spans for the messages of queues.

    - `enqueue` makes a span of kind PRODUCER and writes its context to the metadata `traceparent` and `tracestate`,
      which survive a restart.
    - A transport made by `transport` gets a span of kind CLIENT for each attempt, a child of that context with a link
      to it, also after days and in another process. The metadata of the delivery has the context of the attempt, so
      that a receiver continues the trace there. The status of the span is ERROR when the attempt failed.
    - The first attempt also makes a span for the wait, from the time of the enqueue to the begin of the attempt.

    Names and attributes follow the conventions of OpenTelemetry for messaging (`messaging.…`); `msgqueue.attempt`,
    `msgqueue.outcome` and `msgqueue.failure_kind` are added. Bodies are never recorded. Threads: any.
    """

    def __init__(self, destination: str, *, tracer_provider: object = None) -> None:
        """Makes it.

        Args:
            destination: Where the messages go, for the names of spans; one of few, because names are grouped by it.
            tracer_provider: One of OpenTelemetry; None: the global one.

        Raises:
            ImportError: OpenTelemetry is not installed.
        """
        if not isinstance(destination, str):
            raise TypeError(f"destination must be str, not {type(destination).__name__}")
        if not destination:
            raise InvalidError("destination must not be empty")
        self._trace: Any = _imported("opentelemetry.trace")
        propagation: Any = _imported("opentelemetry.trace.propagation.tracecontext")
        self._propagator = propagation.TraceContextTextMapPropagator()
        self._tracer = self._trace.get_tracer("msgqueue", tracer_provider=tracer_provider)
        self._destination = destination

    # ---------------------------------------------------------------- enqueue

    @overload
    def enqueue(self, queue: MessageQueue, body: Body, **arguments: Any) -> str: ...  # noqa: ANN401
    @overload
    def enqueue(self, queue: aio.MessageQueue, body: Body, **arguments: Any) -> Awaitable[str]: ...  # noqa: ANN401
    def enqueue(
        self,
        queue: MessageQueue | aio.MessageQueue,
        body: Body,
        **arguments: Any,
    ) -> str | Awaitable[str]:
        """Calls `queue.enqueue` in a span; for `aio.MessageQueue` with `await`.

        Args:
            queue: The queue.
            body: As for `MessageQueue.enqueue`.
            **arguments: As for `MessageQueue.enqueue`. A `traceparent` in the metadata is the parent of the span, in
                place of the current one.

        Returns:
            The id.

        Raises:
            Error: As `MessageQueue.enqueue`.
        """
        span, metadata = self._producer(body, arguments.get("conversation"), arguments.get("metadata"))
        try:
            answer = queue.enqueue(body, **{**arguments, "metadata": metadata})
        except BaseException as problem:
            self._fail(span, problem)
            raise
        if isinstance(answer, str):
            self._enqueued([span], [answer])
            return answer
        return self._awaiting([span], answer, lambda id: [id])

    @overload
    def enqueue_batch(self, queue: MessageQueue, drafts: Iterable[Draft | Mapping[str, Any]]) -> list[str]: ...
    @overload
    def enqueue_batch(
        self, queue: aio.MessageQueue, drafts: Iterable[Draft | Mapping[str, Any]]
    ) -> Awaitable[list[str]]: ...
    def enqueue_batch(
        self, queue: MessageQueue | aio.MessageQueue, drafts: Iterable[Draft | Mapping[str, Any]]
    ) -> list[str] | Awaitable[list[str]]:
        """Calls `queue.enqueue_batch` with a span for each message; for `aio.MessageQueue` with `await`.

        Args:
            queue: The queue.
            drafts: As for `MessageQueue.enqueue_batch`.

        Returns:
            The ids.

        Raises:
            Error: As `MessageQueue.enqueue_batch`.
        """
        given = [_draft(draft) for draft in drafts]
        pairs = [self._producer(draft.body, draft.conversation, draft.metadata) for draft in given]
        spans = [span for span, _ in pairs]
        try:
            answer = queue.enqueue_batch(
                [replace(draft, metadata=metadata) for draft, (_, metadata) in zip(given, pairs)]
            )
        except BaseException as problem:
            for span in spans:
                self._fail(span, problem)
            raise
        if isinstance(answer, list):
            self._enqueued(spans, answer)
            return answer
        return self._awaiting(spans, answer, lambda ids: ids)

    # ---------------------------------------------------------------- attempts

    def transport(self, transport: Send) -> Send:
        """Returns a transport that makes a span for each attempt of the given one, also of an `async def`.

        Args:
            transport: For `MessageQueue`, `aio.MessageQueue` or `set_transport`.
        """

        def traced(delivery: Delivery) -> object:
            (attempt,) = attempts = [self._attempt(delivery)]
            return self._call(lambda: transport(attempt.delivery), attempts, lambda answer: [answer], attempt.span)

        # It takes and returns what the given one does.
        return traced  # type: ignore[return-value]

    def batch_transport(self, transport: Send) -> Send:
        """Returns a batch transport that makes a span for each message of a batch.

        Args:
            transport: For `MessageQueue`, `aio.MessageQueue` or `set_batch_transport`.
        """

        def traced(deliveries: Sequence[Delivery]) -> object:
            attempts = [self._attempt(delivery, len(deliveries)) for delivery in deliveries]
            return self._call(lambda: transport([each.delivery for each in attempts]), attempts, _listed, None)

        return traced  # type: ignore[return-value]

    # ---------------------------------------------------------------- spans

    def _producer(self, body: object, conversation: object, metadata: object) -> tuple[Span, Any]:
        """Begins the span of an enqueue. Returns it and the metadata with its context; wrong metadata as it is."""
        given = dict(metadata) if isinstance(metadata, Mapping) else {}
        attributes = self._attributes("enqueue", "create")
        if isinstance(body, (str, bytes)):
            data = body if isinstance(body, bytes) else body.encode(errors="replace")
            attributes["messaging.message.body.size"] = len(data)
        if isinstance(conversation, str) and conversation:
            attributes["messaging.message.conversation_id"] = conversation
        span = self._tracer.start_span(
            f"enqueue {self._destination}",
            context=self._extracted(given),
            kind=self._trace.SpanKind.PRODUCER,
            attributes=attributes,
        )
        return span, (self._injected(given, span) if metadata is None or isinstance(metadata, Mapping) else metadata)

    def _enqueued(self, spans: Sequence[Span], ids: Sequence[str]) -> None:
        for span, id in zip(spans, ids):
            span.set_attribute("messaging.message.id", id)
            span.end()

    async def _awaiting(
        self, spans: Sequence[Span], answer: Awaitable[Any], ids: Callable[[Any], Sequence[str]]
    ) -> Any:  # noqa: ANN401 - what the queue returns
        try:
            result = await answer
        except BaseException as problem:
            for span in spans:
                self._fail(span, problem)
            raise
        self._enqueued(spans, ids(result))
        return result

    def _attempt(self, delivery: Delivery, batch: int = 0) -> _Attempt:
        context = self._extracted(delivery.metadata)
        creation = self._trace.get_current_span(context).get_span_context() if context is not None else None
        attributes = {**self._attributes("send", "send"), **_of_delivery(delivery)}
        if batch:
            attributes["messaging.batch.message_count"] = batch
        span = self._tracer.start_span(
            f"send {self._destination}",
            # Without a context the attempt begins a trace; what runs on this thread is another work.
            context=self._trace.set_span_in_context(self._trace.INVALID_SPAN) if context is None else context,
            kind=self._trace.SpanKind.CLIENT,
            links=[] if creation is None else [self._trace.Link(creation)],
            attributes=attributes,
        )
        traced = replace(delivery, metadata=self._injected(dict(delivery.metadata), span))
        return _Attempt(span, traced, context, time.time_ns())

    def _call(
        self,
        send: Callable[[], object],
        attempts: Sequence[_Attempt],
        outcomes: Callable[[object], Sequence[object]],
        current: Span | None,
    ) -> object:
        try:
            with self._trace.use_span(
                current or self._trace.INVALID_SPAN, record_exception=False, set_status_on_exception=False
            ):
                answer = send()
        except BaseException as problem:
            self._raised(attempts, problem)
            raise
        if inspect.isawaitable(answer):
            return self._finish_later(answer, attempts, outcomes, current)
        self._finish(attempts, outcomes(answer))
        return answer

    async def _finish_later(
        self,
        answer: Awaitable[object],
        attempts: Sequence[_Attempt],
        outcomes: Callable[[object], Sequence[object]],
        current: Span | None,
    ) -> object:
        try:
            with self._trace.use_span(
                current or self._trace.INVALID_SPAN, record_exception=False, set_status_on_exception=False
            ):
                result = await answer
        except BaseException as problem:
            self._raised(attempts, problem)
            raise
        self._finish(attempts, outcomes(result))
        return result

    def _finish(self, attempts: Sequence[_Attempt], outcomes: Sequence[object]) -> None:
        found = [*outcomes, *[None] * len(attempts)]
        for attempt, outcome in zip(attempts, found):
            if not isinstance(outcome, Outcome) or outcome.verdict not in _NOT_TRIED:
                self._wait(attempt)
            self._describe(attempt.span, outcome)
            attempt.span.end()

    def _raised(self, attempts: Sequence[_Attempt], problem: BaseException) -> None:
        for attempt in attempts:
            self._wait(attempt)
            self._fail(attempt.span, problem)

    def _wait(self, attempt: _Attempt) -> None:
        """Makes the span of the time before the first attempt. An attempt that was not tried keeps its number."""
        delivery = attempt.delivery
        if delivery.attempt != 1 or attempt.context is None:
            return
        begin = min(int(delivery.created.timestamp() * 1_000_000) * 1000, attempt.begin)
        attributes = {**self._attributes("wait", None), **_of_delivery(delivery)}
        span = self._tracer.start_span(
            f"wait {self._destination}", context=attempt.context, start_time=begin, attributes=attributes
        )
        span.end(end_time=attempt.begin)

    def _describe(self, span: Span, outcome: object) -> None:
        if not isinstance(outcome, Outcome):
            # The queue says what is wrong with it.
            self._set_error(span, "invalid", f"the transport returned {type(outcome).__name__}")
            return
        span.set_attribute("msgqueue.outcome", outcome.verdict.name.lower())
        is_sent = outcome.verdict in (Verdict.SENT, Verdict.PENDING, Verdict.SKIPPED)
        if outcome.verdict is Verdict.HTTP:
            span.set_attribute("http.response.status_code", outcome.code)
            is_sent = 200 <= outcome.code < 300
        if is_sent:
            return
        kind = outcome.kind.name.lower()
        if outcome.verdict is Verdict.HTTP:
            kind = str(outcome.code)
        else:
            span.set_attribute("msgqueue.failure_kind", kind)
        self._set_error(span, kind, outcome.text)

    def _fail(self, span: Span, problem: BaseException) -> None:
        span.record_exception(problem)
        self._set_error(span, type(problem).__qualname__, described(problem))
        span.end()

    def _set_error(self, span: Span, kind: str, text: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, text or None))

    def _attributes(self, operation: str, kind: str | None) -> dict[str, Any]:
        attributes = {
            "messaging.system": "msgqueue",
            "messaging.operation.name": operation,
            "messaging.destination.name": self._destination,
        }
        return attributes if kind is None else {**attributes, "messaging.operation.type": kind}

    def _extracted(self, metadata: Mapping[str, str]) -> Any:  # noqa: ANN401 - a context of OpenTelemetry
        """Returns the context in the metadata; None: there is none, or it is not valid."""
        carrier = {name: metadata[name] for name in _CONTEXT if isinstance(metadata.get(name), str)}
        empty = self._trace.set_span_in_context(self._trace.INVALID_SPAN)
        context = self._propagator.extract(carrier, context=empty)
        return context if self._trace.get_current_span(context).get_span_context().is_valid else None

    def _injected(self, metadata: dict[str, str], span: Span) -> dict[str, str]:
        """Returns the metadata with the context of a span. Without an SDK there is none, and they stay as they are."""
        if not span.get_span_context().is_valid:
            return metadata
        kept = {name: value for name, value in metadata.items() if name not in _CONTEXT}
        self._propagator.inject(kept, context=self._trace.set_span_in_context(span))
        return kept


class _Attempt:
    """An attempt in progress."""

    def __init__(self, span: Span, delivery: Delivery, context: object, begin: int) -> None:
        self.span = span
        self.delivery = delivery
        self.context = context
        """Of the enqueue; None: it was not traced."""
        self.begin = begin


def _of_delivery(delivery: Delivery) -> dict[str, Any]:
    attributes = {
        "messaging.message.id": delivery.id,
        "messaging.message.body.size": len(delivery.body),
        "msgqueue.attempt": delivery.attempt,
    }
    if delivery.conversation:
        attributes["messaging.message.conversation_id"] = delivery.conversation
    return attributes


def _listed(answer: object) -> Sequence[object]:
    return list(answer) if isinstance(answer, Sequence) and not isinstance(answer, (str, bytes)) else []


def _imported(name: str) -> Any:  # noqa: ANN401 - a library that need not be installed
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        raise ImportError(
            "opentelemetry is not installed; pip install 'msgqueue[opentelemetry]' installs it"
        ) from problem
