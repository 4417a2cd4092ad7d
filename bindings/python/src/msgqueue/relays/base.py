"""What the relays to brokers have in common: the connection and its state, time limits, order and outcomes."""

from __future__ import annotations

import socket
import ssl
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from .. import _arguments, _failures, _threads
from .._copying import NotCopied
from ..enums import Connectivity, FailureKind, Verdict
from ..errors import InvalidError
from ..models import Delivery
from ..outcome import Outcome
from ..queue import MessageQueue
from .problems import (
    RejectedError,
    RetryableError,
    SkippedError,
    TogetherError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    UnusableError,
)
from .reasons import logger, reason_of, text_of_problem
from .reports import Reports
from .results import NOT_TRIED, SENT, WITHOUT_ANSWER, Result
from .targets import imported
from .turns import Suspects, Turn, Turns

Connection = TypeVar("Connection")
Form = TypeVar("Form")
RelayType = TypeVar("RelayType", bound="Relay[Any, Any]")

# Seconds between two looks at an open connection, and the longest time between two attempts to open one.
_LOOK = 1.0
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 2.0

# Seconds of the time-out of an attempt that are left for its outcome, at most; never more than a quarter of it.
_MOST_MARGIN = 1.0

_NO_ANSWER = "no answer while connecting"
# A broker that refused a connection is not asked again for so long.
_REFUSED_FOR = 1.0
# The client connects by itself, and could not: nothing was sent.
_NOBODY = (ConnectionRefusedError, socket.gaierror)


class Relay(NotCopied, ABC, Generic[Connection, Form]):
    """A transport to a broker. A subclass says how to open a connection and how to send.

    An object is a transport: `relay(delivery)` sends one message. `relay.batch(deliveries)` sends several and returns
    one outcome for each. Messages of different conversations are sent together; the next message of a conversation is
    sent when the broker has acknowledged the one before. After the first failure the rest of that conversation is
    skipped.

    The connection is opened by the first message, or by `attach`. It is closed and opened again after a time-out and
    after a failure of the connection. The client's own resending is off: a message whose acknowledgement did not arrive
    is reported as perhaps arrived, and the queue sends it again under the same id.

    If the connection ends during a call of several messages, or time is up, one of them may be the reason. Those
    without an answer are sent again one at a time, and are alone in their calls until they are answered.

    Any thread may call any method. `close` ends the calls in progress, with an unknown outcome.
    """

    #: The client's library, as it is imported, and the extra of this package that installs it.
    library = ""
    extra = ""
    #: Whether `_send` keeps the order of a conversation itself: it then receives a whole batch.
    keeps_order = False

    def __init__(self, *, timeout: float = 10.0) -> None:
        """Makes the relay; connects nowhere yet.

        Args:
            timeout: Seconds that connecting and the acknowledgement of a batch may take together; at most the timeout
                of the attempt, and half of it for a batch, or beside other calls. Messages without an answer are then
                sent again one at a time, for as long again.

        Raises:
            InvalidError: An argument is out of range.
            ImportError: The client's library is not installed.
        """
        if _arguments.finite("timeout", timeout) <= 0:
            raise InvalidError(f"timeout must be more than 0 seconds, got {timeout}")
        self._timeout = timeout
        self._opening = threading.Lock()
        self._state = threading.Lock()
        self._connection: Connection | None = None
        self._is_closed = False
        # The broker refused the watcher, which leaves further attempts to the messages.
        self._is_refused = False
        self._reports = Reports()
        self._look = threading.Event()
        self._watcher: threading.Thread | None = None
        self._turns = Turns()
        self._suspects = Suspects()
        # Whether the broker has accepted a message on this connection, and nothing has ended that since.
        self._is_proven = False
        # Why the broker refused the last connection, and until when (monotonic) that is the answer.
        self._last_refusal: tuple[str, float] | None = None
        self._client = imported(self.library, self.extra)

    def __call__(self, delivery: Delivery) -> Outcome:
        """Sends one message and returns the outcome."""
        return self.batch([delivery])[0]

    def batch(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Sends messages and returns one outcome for each, in their order."""
        if not deliveries:
            return []
        deadline, last = self._limits(deliveries)
        results = [NOT_TRIED] * len(deliveries)
        failed: set[str] = set()
        for number, (part, is_alone) in enumerate(self._parts(deliveries)):
            indexes = [index for index in part if deliveries[index].conversation not in failed]
            if not indexes:
                continue
            if number > 0 and time.monotonic() >= deadline:
                break
            if self._send_part(deliveries, indexes, results, deadline, is_alone=is_alone):
                continue
            unclear = [index for index in indexes if results[index].is_unclear]
            self._send_singly(deliveries, unclear, results, last)
            failed.update(deliveries[index].conversation for index in indexes if not results[index].is_sent)
            if any(results[index].is_away for index in indexes):
                # No other message fares better.
                break
        return [result.outcome for result in results]

    def attach(self, queue: MessageQueue) -> None:
        """Reports the state of the connection to a queue from now on, by `set_connectivity`.

        The relay connects, and connects again after the connection is lost: the queue is offline until then, and sends
        when it is back; `state().offline_reason` says why. A broker that answers but refuses the connection, or
        messages, counts as online: the queue tries a message every 5 s until it is accepted. Must not be used beside
        `start_monitor`. The queue is not kept alive.

        Args:
            queue: One whose transport is this relay; several queues may use one relay.

        Raises:
            ConflictError: A monitor reports the connectivity of the queue.
        """
        self._reports.add(queue)
        with self._state:
            if self._watcher is None and not self._is_closed:
                watcher = threading.Thread(
                    target=_watch, args=(weakref.ref(self), self._look), name="msgqueue-relay", daemon=True
                )
                _threads.start(watcher)
                self._watcher = watcher
        self._look.set()

    def close(self) -> None:
        """Closes the connection. Messages that come later are answered with `Outcome.offline`."""
        with self._state:
            self._is_closed = True
            connection, self._connection = self._connection, None
            watcher, self._watcher = self._watcher, None
        self._reports.clear()
        self._look.set()
        if connection is not None:
            self._shut(connection)
        if watcher is not None and watcher is not threading.current_thread():
            watcher.join(self._timeout)
        self._finish()

    def __enter__(self: RelayType) -> RelayType:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---------------------------------------------------------------- what a relay defines

    @abstractmethod
    def _form(self, connection: Connection, delivery: Delivery) -> Form:
        """Returns the message as the client needs it.

        RejectedError or another ValueError: it is rejected. PreparationError: it fails with the kind LOCAL.
        """

    @abstractmethod
    def _open(self, timeout: float) -> Connection:
        """Connects, within this many seconds, and returns the connection."""

    @abstractmethod
    def _send(self, connection: Connection, messages: Sequence[Form], timeout: float) -> Sequence[BaseException | None]:
        """Sends messages and waits for their acknowledgements.

        Returns for each message None, or why it was not acknowledged. An exception that is raised counts for all.
        """

    @abstractmethod
    def _shut(self, connection: Connection) -> None:
        """Closes a connection that may be broken. Must not wait, and must not raise."""

    def _has_ended(self, connection: Connection) -> bool:
        """Whether the client knows that the connection has ended. Must not wait. Called before every batch."""
        return False

    def _arrived(self, connection: Connection, deliveries: Sequence[Delivery]) -> Sequence[bool] | None:
        """Whether the broker has messages that were sent on an earlier connection. None: it cannot tell."""
        return None

    def _is_alive(self, connection: Connection) -> bool:
        """Whether the connection is still usable. Called every second, and after a failure."""
        return not self._has_ended(connection)

    def _translate(self, problem: BaseException) -> BaseException:
        """Returns an exception of the client's library as one of this module, or as it is."""
        return problem

    @property
    def _place(self) -> str:
        """The broker's host and port, for texts; without a password."""
        return "the broker"

    def _finish(self) -> None:
        """Ends what the relay started beside its connection."""

    # ---------------------------------------------------------------- sending

    def _parts(self, deliveries: Sequence[Delivery]) -> Iterator[tuple[list[int], bool]]:
        """Yields which messages are sent together, one part after the other, and whether a part must be alone."""
        first = 0
        if not self._is_proven and len(deliveries) > 1 and not self._suspects.has(deliveries[0]):
            # If the broker accepts nothing at present, only one message finds out.
            yield [0], False
            first = 1
        if not self._suspects:
            for wave in self._waves(deliveries, first, is_ordered=self.keeps_order):
                yield wave, False
            return
        for wave in self._waves(deliveries, first, is_ordered=False):
            suspects = [index for index in wave if self._suspects.has(deliveries[index])]
            others = [index for index in wave if index not in suspects]
            if others:
                yield others, False
            for index in suspects:
                yield [index], True

    @staticmethod
    def _waves(deliveries: Sequence[Delivery], first: int, *, is_ordered: bool) -> Iterator[list[int]]:
        """Yields the first messages of all conversations, then the second ones, and so on; or all of them at once."""
        if is_ordered:
            yield list(range(first, len(deliveries)))
            return
        waves: list[list[int]] = []
        seen: dict[str, int] = {}
        for index, delivery in enumerate(deliveries[first:], first):
            place = seen.get(delivery.conversation, 0)
            seen[delivery.conversation] = place + 1
            if place == len(waves):
                waves.append([])
            waves[place].append(index)
        yield from waves

    def _limits(self, deliveries: Sequence[Delivery]) -> tuple[float, float]:
        """Returns until when messages are sent together, and until when those without an answer are sent singly."""
        begin = time.monotonic()
        allowed = min(delivery.timeout for delivery in deliveries)
        # The queue learns of the outcomes before it ends the attempts itself.
        allowed -= min(allowed / 4, _MOST_MARGIN)
        if len(deliveries) == 1 and not self._turns.is_busy:
            deadline = begin + min(self._timeout, allowed)
            return deadline, deadline
        return begin + min(self._timeout, allowed / 2), begin + min(2 * self._timeout, allowed)

    def _send_singly(
        self, deliveries: Sequence[Delivery], unclear: Sequence[int], results: list[Result], deadline: float
    ) -> None:
        """Sends messages again that may have failed because of another one, each alone, in their order."""
        if not unclear:
            return
        self._suspects.add([deliveries[index] for index in unclear])
        if time.monotonic() < deadline:
            logger.info("%d messages that were not answered are sent again, one at a time", len(unclear))
        failed: set[str] = set()
        behind: list[int] = []
        for place, index in enumerate(unclear):
            conversation, before = deliveries[index].conversation, results[index]
            if conversation in failed:
                behind.append(index)
                continue
            now = time.monotonic()
            # Without an answer in time there is no time left for another attempt.
            if now >= deadline:
                return
            # The one that is the reason may get no answer: the others have half of the time that is left.
            limit = deadline if place + 1 == len(unclear) else now + (deadline - now) / 2
            self._send_part(deliveries, [index], results, limit, is_alone=True)
            if results[index].is_unclear:
                # No other message was the reason, but the connection, which is another one now.
                self._send_part(deliveries, [index], results, limit, is_alone=True)
            after = results[index]
            if before.outcome.verdict is Verdict.RETRY and not before.outcome.not_sent and after.is_not_sent:
                # That the message was not sent this time does not say so of the first time.
                results[index] = before._replace(is_away=after.is_away)
            if not after.is_sent:
                failed.add(conversation)
            if after.is_away:
                return
        self._look_up(deliveries, behind, results, deadline)

    def _look_up(
        self, deliveries: Sequence[Delivery], indexes: Sequence[int], results: list[Result], deadline: float
    ) -> None:
        """Asks the broker whether it has messages, which must not be sent again before an earlier one."""
        if not indexes or time.monotonic() >= deadline:
            return
        try:
            found = self._arrived(self._connected(deadline), [deliveries[index] for index in indexes])
        except Exception as problem:  # noqa: BLE001 - a client may raise anything; the results stay as they are
            logger.debug("the broker could not be asked for messages: %s", text_of_problem(problem))
            return
        for index, has_arrived in zip(indexes, found or ()):
            results[index] = SENT if has_arrived else NOT_TRIED

    def _send_part(
        self,
        deliveries: Sequence[Delivery],
        indexes: Sequence[int],
        results: list[Result],
        deadline: float,
        *,
        is_alone: bool,
    ) -> bool:
        """Sends messages together, and notes the results. Returns whether the broker has all of them."""
        turn = self._turns.take(deadline, is_alone=is_alone)
        if turn is None:
            return False
        part = [deliveries[index] for index in indexes]
        try:
            found = self._send_in_turn(part, deadline, turn)
        finally:
            self._turns.give_back(turn)
        for index, result in zip(indexes, found):
            results[index] = result
        if self._suspects:
            for delivery, result in zip(part, found):
                if result.is_answer:
                    self._suspects.clear(delivery)
        return _are_sent(found)

    def _send_in_turn(self, deliveries: Sequence[Delivery], deadline: float, turn: Turn) -> list[Result]:
        try:
            connection = self._connected(deadline)
        except Exception as problem:  # noqa: BLE001 - a client may raise anything
            # Whatever it is, it is no fault of a message.
            return [self._unconnected(problem)] * len(deliveries)
        results: list[Result | None] = [None] * len(deliveries)
        forms = self._formed(connection, deliveries, results)
        left = deadline - time.monotonic()
        if not forms or left <= 0:
            return [each or NOT_TRIED for each in results]
        try:
            answers = self._send(connection, [form for _, form in forms], left)
        except Exception as problem:  # noqa: BLE001 - a client may raise anything; the outcome says what
            has_company = _has_company(forms, turn)
            result = self._judged(problem, connection, has_company=has_company)
            # It may be about one message, and counts for all.
            result = result._replace(is_unclear=result.is_unclear or (has_company and not result.is_away))
            results = [each or result for each in results]
            is_broken = not result.is_away
        else:
            if len(forms) == len(answers) == len(deliveries) and all(answer is None for answer in answers):
                self._is_proven = True
                return [SENT] * len(deliveries)
            has_company = _has_company(forms, turn)
            for (index, _), answer in zip(forms, answers):
                results[index] = SENT if answer is None else self._judged(answer, connection, has_company=has_company)
            is_broken = any(isinstance(answer, UnusableError) for answer in answers)
        final = [each or Result(Outcome.retry(text="the relay reported no outcome")) for each in results]
        self._note(connection, final, is_broken=is_broken)
        return final

    def _formed(
        self, connection: Connection, deliveries: Sequence[Delivery], results: list[Result | None]
    ) -> list[tuple[int, Form]]:
        """Returns the messages as the client needs them. One that is refused, and what follows it, is left out."""
        forms: list[tuple[int, Form]] = []
        failed: set[str] = set()
        for index, delivery in enumerate(deliveries):
            if delivery.conversation in failed:
                results[index] = NOT_TRIED
                continue
            try:
                forms.append((index, self._form(connection, delivery)))
            except Exception as problem:  # noqa: BLE001 - the function that names a topic may raise anything
                results[index] = Result(_failures.outcome_of_forming(problem))
                failed.add(delivery.conversation)
        return forms

    def _note(self, connection: Connection, results: Sequence[Result], *, is_broken: bool) -> None:
        """Draws conclusions for the connection from what happened to messages."""
        if any(result.is_sent for result in results):
            self._is_proven = True
        if any(result.is_away for result in results):
            self._is_proven = False
        if is_broken:
            self._lost(connection)
        elif not all(result.is_sent for result in results):
            is_late = any(result.outcome.kind is FailureKind.TIMEOUT for result in results)
            if is_late or not self._is_alive(connection):
                self._lost(connection)

    def _unconnected(self, problem: BaseException) -> Result:
        """Returns what becomes of messages because there is no connection, and reports it."""
        is_away, reason = self._why(problem)
        if is_away:
            self._is_refused = False
            self._reports.report(Connectivity.OFFLINE, reason)
            self._look.set()
        return Result(Outcome.offline(text=reason), is_away=True)

    def _why(self, problem: BaseException) -> tuple[bool, str]:
        """Returns whether there is no connection because nobody answered, and the reason in words."""
        problem = self._translated(problem)
        return _is_away(problem), reason_of(problem, self._place)

    def _translated(self, problem: BaseException) -> BaseException:
        try:
            return self._translate(problem)
        except Exception:  # noqa: BLE001 - of the client
            # Another version of the client's library may lack what a relay looks for.
            logger.error("a failure of the relay could not be classified", exc_info=True)
            return problem

    def _judged(self, problem: BaseException, connection: Connection, *, has_company: bool) -> Result:
        """Returns the result of an attempt that failed with this exception, on this connection.

        `has_company`: other messages were sent at the same time.
        """
        problem = self._translated(problem)
        text = text_of_problem(problem)
        if isinstance(problem, SkippedError):
            return NOT_TRIED
        if isinstance(problem, (UnavailableError, UnreachableError, *_NOBODY)):
            return Result(Outcome.offline(text=reason_of(problem, self._place)), is_away=True)
        if isinstance(problem, TogetherError):
            return Result(Outcome.skipped(), is_unclear=True) if has_company else Result(Outcome.reject(text=text))
        if isinstance(problem, UnusableError):
            return Result(Outcome.retry(FailureKind.NETWORK, text=text), is_unclear=True)
        if isinstance(problem, UnauthorizedError):
            return Result(Outcome.reject(FailureKind.UNAUTHORIZED, text=text))
        if isinstance(problem, RejectedError):
            return Result(Outcome.reject(text=text))
        if isinstance(problem, RetryableError):
            outcome = Outcome.retry(problem.kind, text=text, not_sent=problem.not_sent)
        else:
            found = _failures.outcome_of(problem)
            if found.verdict is Verdict.REJECT:
                # PreparationError.
                return Result(found)
            outcome = Outcome.retry(found.kind, text=text, not_sent=found.not_sent)
            if found.kind is FailureKind.UNKNOWN and self._connection is not connection:
                # Another thread closed the connection under the client, which may raise anything then.
                outcome = Outcome.retry(FailureKind.NETWORK, text=f"the connection was lost: {text}")
        is_without_answer = not outcome.not_sent and outcome.kind in WITHOUT_ANSWER
        return Result(outcome, is_unclear=has_company and is_without_answer)

    # ---------------------------------------------------------------- the connection

    def _connected(self, deadline: float) -> Connection:
        """Returns the connection; opens one if there is none."""
        if not self._opening.acquire(timeout=max(0.01, deadline - time.monotonic())):
            raise TimeoutError(_NO_ANSWER)
        try:
            if self._is_closed:
                raise UnreachableError("the relay is closed")
            connection = self._connection
            if connection is not None and self._has_ended(connection):
                self._lost(connection)
                connection = None
            if connection is None:
                connection = self._opened(deadline)
                with self._state:
                    self._connection = None if self._is_closed else connection
                if self._connection is None:
                    self._shut(connection)
                    raise UnreachableError("the relay is closed")
            self._is_refused = False
            return connection
        finally:
            self._opening.release()

    def _opened(self, deadline: float) -> Connection:
        """Opens a connection. A broker that has just refused one is not asked again at once."""
        if self._last_refusal is not None and time.monotonic() < self._last_refusal[1]:
            raise UnavailableError(self._last_refusal[0])
        try:
            connection = self._open(max(0.01, deadline - time.monotonic()))
        except Exception as problem:  # noqa: BLE001 - a client may raise anything
            found = self._translated(problem)
            if not _is_away(found):
                self._last_refusal = (text_of_problem(found), time.monotonic() + _REFUSED_FOR)
            elif isinstance(found, (TimeoutError, socket.timeout)):
                found = TimeoutError(_NO_ANSWER)
            try:
                raise found from None
            finally:
                # Its traceback has this frame, and the frame would have it.
                del found
        self._last_refusal = None
        return connection

    def _lost(self, connection: Connection) -> None:
        """Forgets a connection that failed. Also called by callbacks of the client, on any thread."""
        with self._state:
            if self._connection is not connection:
                return
            self._connection = None
        self._is_proven = False
        self._shut(connection)
        self._look.set()

    def _watch(self) -> bool:
        """Looks at the connection once, opens it if there is none, and reports. Returns whether it is open."""
        connection = self._connection
        if connection is not None and not self._is_alive(connection):
            self._lost(connection)
            connection = None
        if connection is None:
            if self._is_closed:
                return False
            if self._is_refused:
                return True
            try:
                self._connected(time.monotonic() + self._timeout)
            except Exception as problem:  # noqa: BLE001 - a client may raise anything
                # A broker that answers is online: the messages find out when it accepts them.
                is_away, reason = self._why(problem)
                self._is_refused = not is_away
                if is_away:
                    self._reports.report(Connectivity.OFFLINE, reason)
                else:
                    self._reports.report(Connectivity.ONLINE, only_after=Connectivity.OFFLINE)
                return not is_away
            # The queue learns that there was an outage, also if it was short.
            self._reports.report(Connectivity.OFFLINE, only_after=Connectivity.ONLINE)
        self._reports.report(Connectivity.ONLINE)
        return True


def _watch(relay: weakref.ref[Relay[Any, Any]], look: threading.Event) -> None:
    """Watches a relay until it is closed or gone."""
    wait = _FIRST_WAIT
    while True:
        target = relay()
        if target is None or target._is_closed:
            return
        is_open = target._watch()
        del target
        wait = _FIRST_WAIT if is_open else min(wait * 2, _LONGEST_WAIT)
        if look.wait(_LOOK if is_open else wait):
            look.clear()
            if not is_open:
                # What failed just now is not tried again without a pause.
                time.sleep(_FIRST_WAIT)


def _are_sent(results: Sequence[Result]) -> bool:
    """Whether the broker has all of these messages."""
    return all(result is SENT or result.is_sent for result in results)


def _has_company(forms: Sequence[object], turn: Turn) -> bool:
    """Whether a message of a call that has ended was not alone on its connection: other calls may have begun later."""
    return len(forms) > 1 or turn.is_shared


def _is_away(problem: BaseException) -> bool:
    """Whether a connection could not be made because nobody answered. Networks may drop what is sent to a broker."""
    if isinstance(problem, (UnreachableError, TimeoutError, socket.timeout)):
        return True
    return isinstance(problem, OSError) and not isinstance(problem, ssl.SSLError)
