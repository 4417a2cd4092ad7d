"""The demo program; bindings/demo builds the library and starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from msgqueue import (
    Connectivity,
    Delivery,
    Event,
    EventKind,
    FailureKind,
    Link,
    MessageQueue,
    Mode,
    Outcome,
    RetryPolicy,
    Status,
)

# Id, conversation, text: in the order in which they are written.
MESSAGES = [
    ("ana-1", "ana", "Are we still on for lunch?"),
    ("ben-1", "ben", "The report is attached."),
    ("ana-2", "ana", "I'll be at the corner table."),
    ("cem-1", "cem", "Your parcel is with the neighbours."),
    ("ben-2", "ben", "Please read page 3 first."),
    ("cem-2", "cem", "The green door, second floor."),
    ("ana-3", "ana", "Bring an umbrella!"),
    ("cem-3", "cem", "They are home until six."),
]
SERVER_ERROR_ONCE = "ben-1"  # answered with 503 once, then accepted
NOT_FOUND_AT_FIRST = "cem-2"  # answered with 404 until the receiver is fixed
# The order of arrival. A message that failed for good does not block: those behind it are sent first.
PROMISED = {
    "ana": ["ana-1", "ana-2", "ana-3"],
    "ben": ["ben-1", "ben-2"],
    "cem": ["cem-1", "cem-3", "cem-2"],
}
TIMEOUT = 20.0  # seconds; each step takes far less
LATENCY = 0.04  # seconds before each answer, as of a network; it also keeps the output in order


class Screen:
    """Writes the output, in colour on a terminal unless NO_COLOR is set."""

    COLOURS: ClassVar = {"QUEUED": "33", "SENDING": "36", "SENT": "32", "FAILED": "31", "title": "1", "quiet": "2"}

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.colourful = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def paint(self, word: str, text: str | None = None) -> str:
        text = word.lower() if text is None else text
        return f"\033[{self.COLOURS[word]}m{text}\033[0m" if self.colourful and word in self.COLOURS else text

    def chapter(self, text: str) -> None:
        self.write(f"\n{self.paint('title', text)}")

    def line(self, text: str) -> None:
        self.write(f"  {self.paint('quiet', f'{time.monotonic() - self.start:5.2f} s')}  {text}")

    def write(self, text: str) -> None:
        # In one call, because several threads write.
        print(f"{text}\n", end="", flush=True)


class Receiver(ThreadingHTTPServer):
    """A real HTTP server on loopback that keeps the messages it accepts."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(("127.0.0.1", 0), ReceiverHandler)
        self.screen = screen
        self.requests: list[str] = []
        self.accepted: list[tuple[str, str, str]] = []
        self.fixed = False
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def status_for(self, key: str) -> int:
        if key == SERVER_ERROR_ONCE and self.requests.count(key) == 1:
            return 503
        if key == NOT_FOUND_AT_FIRST and not self.fixed:
            return 404
        return 200


class ReceiverHandler(BaseHTTPRequestHandler):
    """One request: a message with its id as Idempotency-Key."""

    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        key, conversation = self.headers["Idempotency-Key"], self.headers["Conversation"]
        self.server.requests.append(key)
        status = self.server.status_for(key)
        time.sleep(LATENCY)
        if status == 200:
            self.server.accepted.append((key, conversation, body))
        self.server.screen.line(f"      receiver: {key} → HTTP {status}")
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing; do_POST writes to the screen."""


class Sender:
    """The transport of the queue, and the handler of its events."""

    def __init__(self, screen: Screen, port: int) -> None:
        self.screen = screen
        self.port = port
        self.statuses: dict[str, Status] = {}
        self.prompted = threading.Event()
        self.changed = threading.Condition()

    def send(self, delivery: Delivery) -> Outcome:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=delivery.timeout)
        try:
            headers = {"Idempotency-Key": delivery.id, "Conversation": delivery.conversation}
            connection.request("POST", "/messages", delivery.body, headers)
            response = connection.getresponse()
            return Outcome.http(response.status, response.headers, text=f"HTTP {response.status} {response.reason}")
        except OSError as problem:
            return Outcome.retry(FailureKind.NETWORK, text=str(problem))
        finally:
            connection.close()

    def on_event(self, event: Event) -> None:
        if event.kind is EventKind.STATUS and event.id is not None and event.to_status is not None:
            before = self.screen.paint(event.from_status.name) if event.from_status is not None else "new"
            reason = f"  ({event.failure.text})" if event.failure is not None else ""
            self.screen.line(f"{event.id}  {before} → {self.screen.paint(event.to_status.name)}{reason}")
            with self.changed:
                self.statuses[event.id] = event.to_status
                self.changed.notify_all()
        elif event.kind is EventKind.PROMPT and event.prompt is not None:
            asked = event.prompt
            self.screen.line(
                f"Connected. Send {asked.messages} queued messages now? "
                f"({asked.bytes} bytes, {asked.conversations} conversations)"
            )
            self.prompted.set()
        elif event.kind is EventKind.PROMPT_WITHDRAWN:
            self.prompted.clear()

    def wait_for(self, message_id: str, status: Status) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: self.statuses.get(message_id) is status, TIMEOUT):
                raise SystemExit(f"{message_id} did not become {status.name} within {TIMEOUT:g} s")


def compose(path: str) -> None:
    """Runs in the child process: enqueues every message while offline, and is killed before it closes the queue."""
    queue = MessageQueue(path, initial_connectivity=Connectivity.OFFLINE)
    for message_id, conversation, text in MESSAGES:
        queue.enqueue(text, conversation=conversation, id=message_id)
        print(message_id, flush=True)
    print("done", flush=True)
    signal.pause()


def compose_and_kill(screen: Screen, path: Path) -> None:
    child = subprocess.Popen([sys.executable, __file__, "--compose", str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if line.strip() == "done":
                break
            screen.line(f"{line.strip()}  enqueued while offline, on disk")
        else:
            raise SystemExit("the child process ended by itself")
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    screen.line(f"kill -9 {child.pid}: the queue was not closed")


def send_everything(screen: Screen, sender: Sender, queue: MessageQueue, receiver: Receiver) -> None:
    screen.chapter("3. The connection returns, and the queue asks before it sends")
    queue.set_connectivity(Connectivity.ONLINE, Link.WIFI)
    if not sender.prompted.wait(TIMEOUT):
        raise SystemExit("there was no prompt")
    screen.line("Yes.")
    report = queue.drain()
    deadline = time.monotonic() + TIMEOUT
    while report.remaining:
        if time.monotonic() > deadline:
            raise SystemExit(f"{report.remaining} messages are still queued after {TIMEOUT:g} s")
        waiting = [message.next_attempt for message in queue.list(status=Status.QUEUED) if message.next_attempt]
        pause = max(0.0, min(moment.timestamp() for moment in waiting) - time.time()) if waiting else 0.1
        screen.line(f"{report.remaining} queued until a retry that is due in {pause:.1f} s")
        time.sleep(pause + 0.01)
        report = queue.drain()

    screen.chapter("4. One message was refused for good: it is kept with its reason until a person retries it")
    for message in queue.list(status=Status.FAILED):
        failure = message.failure
        assert failure is not None
        screen.line(f"{message.id}  {screen.paint('FAILED')}: {failure.kind.name}, {failure.text}: {message.preview!r}")
        receiver.fixed = True
        screen.line("The receiver is fixed; retry.")
        queue.retry(message.id)
        sender.wait_for(message.id, Status.SENT)


def broken_promises(receiver: Receiver, queue: MessageQueue) -> list[str]:
    """Compares what arrived with what was promised."""
    problems = []
    arrivals = Counter(key for key, _, _ in receiver.accepted)
    for message_id, conversation, text in MESSAGES:
        if arrivals[message_id] != 1:
            problems.append(f"{message_id} arrived {arrivals[message_id]} times")
        elif (message_id, conversation, text) not in receiver.accepted:
            problems.append(f"{message_id} arrived with other content")
    for conversation, promised in PROMISED.items():
        order = [key for key, name, _ in receiver.accepted if name == conversation]
        if order != promised:
            problems.append(f"{conversation}: {' '.join(order)} arrived, {' '.join(promised)} was promised")
    attempts = Counter(receiver.requests)
    expected = Counter(message_id for message_id, _, _ in MESSAGES) + Counter([SERVER_ERROR_ONCE, NOT_FOUND_AT_FIRST])
    if attempts != expected:
        problems.append(f"attempts: {dict(attempts)}, expected {dict(expected)}")
    counts = queue.counts()
    if (counts.queued, counts.sending, counts.failed, counts.sent) != (0, 0, 0, len(MESSAGES)):
        problems.append(f"final counts: {counts}")
    return problems


def run(directory: Path) -> int:
    screen = Screen()
    store = directory / "outbox.db"
    screen.chapter(f"1. Offline: another process enqueues {len(MESSAGES)} messages and is killed")
    compose_and_kill(screen, store)

    screen.chapter("2. Opened again: every message is there")
    receiver = Receiver(screen)
    sender = Sender(screen, receiver.server_address[1])
    with MessageQueue(
        store,
        mode=Mode.ASK,
        retry=RetryPolicy(ladder=[0.5, 1]),
        online_debounce=0.2,
        initial_connectivity=Connectivity.OFFLINE,
    ) as queue:
        queue.set_event_handler(sender.on_event)
        queue.set_transport(sender.send)
        for message in queue.list():
            screen.line(f"{message.id}  {screen.paint(message.status.name)}  {message.preview!r}")
        found = [message.id for message in queue.list()]
        if found != [message_id for message_id, _, _ in MESSAGES]:
            print(f"\nNot as promised: found {found} after the kill.")
            return 1
        send_everything(screen, sender, queue, receiver)
        problems = broken_promises(receiver, queue)
    receiver.shutdown()
    receiver.server_close()

    screen.chapter("5. Messages at the receiver")
    for conversation in PROMISED:
        screen.line(f"{conversation}: " + ", ".join(key for key, name, _ in receiver.accepted if name == conversation))
    if problems:
        print("\nNot as promised:\n" + "\n".join(f"  {problem}" for problem in problems))
        return 1
    print(f"\nAll {len(MESSAGES)} messages arrived exactly once, and in order, except the one that had to be retried.")
    return 0


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "--compose":
        compose(sys.argv[2])
        return 0
    with tempfile.TemporaryDirectory(prefix="msgq-demo-") as directory:
        return run(Path(directory))


if __name__ == "__main__":
    sys.exit(main())
