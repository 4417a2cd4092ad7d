"""What the relays to brokers have in common: the connection and its state, time limits, order and outcomes."""

from __future__ import annotations

import importlib
import logging
import socket
import ssl
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar, Union

from .. import _arguments, _failures
from ..enums import Connectivity, FailureKind, Verdict
from ..errors import ConflictError, Error, InvalidError
from ..models import Delivery
from ..outcome import Outcome
from ..queue import MessageQueue

logger: logging.Logger = logging.getLogger("msgqueue")

Connection = TypeVar("Connection")
Form = TypeVar("Form")
Target = Union[str, Callable[[Delivery], str]]
RelayType = TypeVar("RelayType", bound="Relay[Any, Any]")

# The names of a message's own headers begin with this; metadata must not.
RESERVED = "msgq-"
ID = "msgq-id"
CONVERSATION = "msgq-conversation"

# Seconds between two looks at an open connection, and the longest time between two attempts to open one.
_LOOK = 1.0
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 2.0

# The client connects by itself, and could not: nothing was sent.
_NOBODY = (ConnectionRefusedError, socket.gaierror)


class RejectedError(ValueError):
    """The broker never accepts this message: the outcome is final."""


class UnauthorizedError(Exception):
    """The broker refuses the credentials: the outcome is final, and pauses a queue with `pause_on_unauthorized`."""


class UnreachableError(Exception):
    """There is no connection, and nothing was sent: the outcome is `Outcome.offline`."""


class RetryableError(Exception):
    """A retryable failure."""

    def __init__(self, kind: FailureKind, text: str, *, not_sent: bool = False) -> None:
        """Makes it; `not_sent` says that the broker certainly does not have the message."""
        super().__init__(text)
        self.kind = kind
        self.not_sent = not_sent


class SkippedError(Exception):
    """An earlier message of the conversation failed, so this one was not tried."""


class Relay(ABC, Generic[Connection, Form]):
    """A transport to a broker. A subclass says how to open a connection and how to send.

    An object is a transport: `relay(delivery)` sends one message. `relay.batch(deliveries)` sends several and returns
    one outcome for each. Messages of different conversations are sent together; the next message of a conversation is
    sent when the broker has acknowledged the one before. After the first failure the rest of that conversation is
    skipped.

    The connection is opened by the first message, or by `attach`. It is closed and opened again after a time-out and
    after a failure of the connection. The client's own resending is off: a message whose acknowledgement did not arrive
    is reported as perhaps arrived, and the queue sends it again under the same id.

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
            timeout: Seconds that connecting and the acknowledgement of a batch may take together, at most the timeout
                of the attempt.

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
        # Each queue, and what was reported to it last: the connectivity, and the reason for being offline.
        self._queues: weakref.WeakKeyDictionary[MessageQueue, tuple[Connectivity, str]] = weakref.WeakKeyDictionary()
        self._look = threading.Event()
        self._watcher: threading.Thread | None = None
        self._client = _imported(self.library, self.extra)

    def __call__(self, delivery: Delivery) -> Outcome:
        """Sends one message and returns the outcome."""
        return self.batch([delivery])[0]

    def batch(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Sends messages and returns one outcome for each, in their order."""
        if not deliveries:
            return []
        deadline = time.monotonic() + min([self._timeout, *(delivery.timeout for delivery in deliveries)])
        outcomes = [Outcome.skipped()] * len(deliveries)
        failed: set[str] = set()
        for number, wave in enumerate(self._waves(deliveries)):
            indexes = [index for index in wave if deliveries[index].conversation not in failed]
            if not indexes or (number > 0 and time.monotonic() >= deadline):
                break
            for index, outcome in zip(indexes, self._send_wave([deliveries[index] for index in indexes], deadline)):
                outcomes[index] = outcome
                if outcome.verdict is not Verdict.SENT:
                    failed.add(deliveries[index].conversation)
        return outcomes

    def attach(self, queue: MessageQueue) -> None:
        """Reports the state of the connection to a queue from now on, by `set_connectivity`.

        The relay connects, and connects again after the connection is lost: the queue is offline until then, and sends
        when it is back; `state().offline_reason` says why. A broker that answers but refuses the connection counts as
        online: the messages show why. Must not be used beside `start_monitor`. The queue is not kept alive.

        Args:
            queue: One whose transport is this relay; several queues may use one relay.

        Raises:
            ConflictError: A monitor reports the connectivity of the queue.
        """
        with self._state:
            self._queues[queue] = (Connectivity.UNKNOWN, "")
            if self._watcher is None and not self._is_closed:
                self._watcher = threading.Thread(
                    target=_watch, args=(weakref.ref(self), self._look), name="msgqueue-relay", daemon=True
                )
                self._watcher.start()
        self._look.set()

    def close(self) -> None:
        """Closes the connection. Messages that come later are answered with `Outcome.offline`."""
        with self._state:
            self._is_closed = True
            connection, self._connection = self._connection, None
            watcher, self._watcher = self._watcher, None
            self._queues.clear()
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
        """Returns the message as the client needs it. RejectedError or another ValueError: it is rejected."""

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

    def _is_alive(self, connection: Connection) -> bool:
        """Whether the connection is still usable. Called every second, and after a failure."""
        return not self._has_ended(connection)

    def _translate(self, problem: BaseException) -> BaseException:
        """Returns an exception of the client's library as one of this module, or as it is."""
        return problem

    def _finish(self) -> None:
        """Ends what the relay started beside its connection."""

    # ---------------------------------------------------------------- sending

    def _waves(self, deliveries: Sequence[Delivery]) -> Iterator[list[int]]:
        """Yields the first messages of all conversations, then the second ones, and so on."""
        if self.keeps_order:
            yield list(range(len(deliveries)))
            return
        waves: list[list[int]] = []
        seen: dict[str, int] = {}
        for index, delivery in enumerate(deliveries):
            place = seen.get(delivery.conversation, 0)
            seen[delivery.conversation] = place + 1
            if place == len(waves):
                waves.append([])
            waves[place].append(index)
        yield from waves

    def _send_wave(self, deliveries: Sequence[Delivery], deadline: float) -> list[Outcome]:
        outcomes: list[Outcome | None] = [None] * len(deliveries)
        connection: Connection | None = None
        try:
            connection = self._connected(deadline)
            forms = self._formed(connection, deliveries, outcomes)
            left = max(0.01, deadline - time.monotonic())
            answers = self._send(connection, [form for _, form in forms], left) if forms else ()
            for (index, _), answer in zip(forms, answers):
                outcomes[index] = Outcome.sent() if answer is None else self._outcome(answer, connection)
        except Exception as problem:  # noqa: BLE001 - a client may raise anything; the outcome says what
            outcome = self._outcome(problem, connection, not_sent=connection is None)
            outcomes = [each or outcome for each in outcomes]
            if connection is None and _is_offline(outcome):
                self._is_refused = False
                self._report(Connectivity.OFFLINE, outcome.text)
                self._look.set()
            if connection is not None:
                self._lost(connection)
                connection = None
        final = [outcome or Outcome.retry(text="the relay reported no outcome") for outcome in outcomes]
        if connection is not None:
            self._note(connection, final)
        return final

    def _formed(
        self, connection: Connection, deliveries: Sequence[Delivery], outcomes: list[Outcome | None]
    ) -> list[tuple[int, Form]]:
        """Returns the messages as the client needs them. One that is refused, and what follows it, is left out."""
        forms: list[tuple[int, Form]] = []
        failed: set[str] = set()
        for index, delivery in enumerate(deliveries):
            if delivery.conversation in failed:
                outcomes[index] = Outcome.skipped()
                continue
            try:
                forms.append((index, self._form(connection, delivery)))
            except (TypeError, ValueError) as problem:
                outcomes[index] = Outcome.reject(text=_failures.described(problem))
                failed.add(delivery.conversation)
            except Exception as problem:  # noqa: BLE001 - the function that names a topic may raise anything
                outcomes[index] = Outcome.retry(text=_failures.described(problem), not_sent=True)
                failed.add(delivery.conversation)
        return forms

    def _note(self, connection: Connection, outcomes: Sequence[Outcome]) -> None:
        """Draws conclusions for the connection from what happened to messages."""
        offline = next((outcome for outcome in outcomes if outcome.verdict is Verdict.OFFLINE), None)
        if offline is not None:
            self._report(Connectivity.OFFLINE, offline.text)
            self._look.set()
        if any(outcome.verdict is not Verdict.SENT for outcome in outcomes):
            is_late = any(outcome.kind is FailureKind.TIMEOUT for outcome in outcomes)
            if is_late or not self._is_alive(connection):
                self._lost(connection)

    def _outcome(
        self, problem: BaseException, connection: Connection | None = None, *, not_sent: bool = False
    ) -> Outcome:
        """Returns the outcome of an attempt that failed with this exception, on this connection."""
        text = _failures.described(problem)
        try:
            problem = self._translate(problem)
        except Exception:
            # Another version of the client's library may lack what a relay looks for.
            logger.error("a failure of the relay could not be classified", exc_info=True)
        if isinstance(problem, SkippedError):
            return Outcome.skipped()
        if isinstance(problem, UnauthorizedError):
            return Outcome.reject(FailureKind.UNAUTHORIZED, text=text)
        if isinstance(problem, UnreachableError):
            return Outcome.offline(text=text)
        if isinstance(problem, RetryableError):
            return Outcome.retry(problem.kind, text=text, not_sent=not_sent or problem.not_sent)
        if isinstance(problem, RejectedError):
            return Outcome.reject(text=text)
        if isinstance(problem, _NOBODY) or (not_sent and _is_away(problem)):
            return Outcome.offline(text=text)
        found = _failures.outcome_of(problem)
        if found.kind is FailureKind.UNKNOWN and connection is not None and self._connection is not connection:
            # Another thread closed the connection under the client, which may raise anything then.
            return Outcome.retry(FailureKind.NETWORK, text=f"the connection was lost: {text}")
        return Outcome.retry(found.kind, text=text, not_sent=not_sent or found.not_sent)

    # ---------------------------------------------------------------- the connection

    def _connected(self, deadline: float) -> Connection:
        """Returns the connection; opens one if there is none."""
        if not self._opening.acquire(timeout=max(0.01, deadline - time.monotonic())):
            raise RetryableError(FailureKind.TIMEOUT, "no connection in time", not_sent=True)
        try:
            if self._is_closed:
                raise UnreachableError("the relay is closed")
            connection = self._connection
            if connection is not None and self._has_ended(connection):
                self._lost(connection)
                connection = None
            if connection is None:
                connection = self._open(max(0.01, deadline - time.monotonic()))
                with self._state:
                    self._connection = None if self._is_closed else connection
                if self._connection is None:
                    self._shut(connection)
                    raise UnreachableError("the relay is closed")
            self._is_refused = False
            return connection
        finally:
            self._opening.release()

    def _lost(self, connection: Connection) -> None:
        """Forgets a connection that failed. Also called by callbacks of the client, on any thread."""
        with self._state:
            if self._connection is not connection:
                return
            self._connection = None
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
                # A broker that answers is online: the messages find out what is wrong with it.
                outcome = self._outcome(problem, not_sent=True)
                is_away = _is_offline(outcome)
                self._is_refused = not is_away
                self._report(Connectivity.OFFLINE if is_away else Connectivity.ONLINE, outcome.text)
                return not is_away
            # The queue learns that there was an outage, also if it was short.
            self._report(Connectivity.OFFLINE, only_if_online=True)
        self._report(Connectivity.ONLINE)
        return True

    def _report(self, connectivity: Connectivity, reason: str = "", *, only_if_online: bool = False) -> None:
        state = (connectivity, _presentable(reason) if connectivity is Connectivity.OFFLINE else "")
        with self._state:
            queues = list(self._queues.items())
        for queue, known in queues:
            if known == state or (only_if_online and known[0] is not Connectivity.ONLINE):
                continue
            try:
                queue.set_connectivity(connectivity, reason=state[1])
            except ConflictError:
                logger.warning("a monitor reports the connectivity of %s: its relay does not", queue.path)
                is_told = False
            except Error:
                # The queue is closed.
                is_told = False
            else:
                is_told = True
            with self._state:
                if not is_told:
                    self._queues.pop(queue, None)
                elif queue in self._queues:
                    self._queues[queue] = state


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


def text_of(target: Target, delivery: Delivery) -> str:
    """Returns a topic, stream or queue for a message."""
    name = target if isinstance(target, str) else target(delivery)
    if not isinstance(name, str):
        raise RejectedError(f"the name must be str, not {type(name).__name__}")
    return name


def checked_target(name: str, target: Target, check: Callable[[str], None] | None = None) -> Target:
    """Returns the argument of a relay that names a topic, or the function that makes it."""
    if isinstance(target, str):
        if not target:
            raise InvalidError(f"{name} must not be empty")
        if check is not None:
            check(target)
        return target
    if not callable(target):
        raise TypeError(f"{name} must be str or a function of the delivery, not {type(target).__name__}")
    return target


def headers_of(delivery: Delivery) -> list[tuple[str, str]]:
    """Returns the id, the conversation and the metadata as headers."""
    for name in delivery.metadata:
        if name.startswith(RESERVED):
            raise RejectedError(f"metadata must not begin with {RESERVED!r}: {name!r}")
    conversation = [(CONVERSATION, delivery.conversation)] if delivery.conversation else []
    return [(ID, delivery.id), *conversation, *delivery.metadata.items()]


def _imported(library: str, extra: str) -> Any:  # noqa: ANN401 - a client's library, which need not be installed
    try:
        return importlib.import_module(library)
    except ImportError as problem:
        package = library.partition(".")[0]
        raise ImportError(f"{package} is not installed; pip install 'msgqueue[{extra}]' installs it") from problem


def _presentable(text: str) -> str:
    """Returns a text that may come from an exception as one that C accepts."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def _is_away(problem: BaseException) -> bool:
    """Whether a connection could not be made because nobody is there."""
    return isinstance(problem, OSError) and not isinstance(problem, (ssl.SSLError, TimeoutError, socket.timeout))


def _is_offline(outcome: Outcome) -> bool:
    """Whether an attempt to connect ended without an answer of the broker. Networks may drop what is sent to it."""
    return outcome.verdict is Verdict.OFFLINE or outcome.kind is FailureKind.TIMEOUT
