"""The programs of Sources/Documentation/Frameworks.md: they run as they stand there, and their processes are killed.

What was acknowledged arrives, once and in the order of its conversation.
"""

from __future__ import annotations

import http.client
import http.server
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "Sources" / "Documentation" / "Frameworks.md"
BIN = Path(sys.executable).parent


def wait_until(condition: Callable[[], object], what: str, timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited {timeout:g} s for {what}"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def written(folder: Path, *names: str) -> None:
    """Writes programs of the page to files; the first line of each is its name."""
    blocks = re.findall(r"^```py\n# (\S+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    programs = dict(blocks)
    assert len(programs) == len(blocks)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(programs[name])


class Receiver:
    """A server that notes the ids and bodies that it gets."""

    def __init__(self) -> None:
        received: list[tuple[str, str, float]] = []
        self.received = received

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                received.append((self.headers["Idempotency-Key"].strip('"'), body, time.monotonic()))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/in"

    @property
    def ids(self) -> list[str]:
        return [id for id, _, _ in list(self.received)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


class Program:
    """A program in a folder, with its children in a process group of its own."""

    def __init__(self, folder: Path, *command: str, **more: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'bindings/python/src'}", "PYTHONUNBUFFERED": "1", **more}
        self.has_ended = False
        self.log = folder / f"{Path(command[0]).name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def children(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(each) for each in path.read_text().split()]

    def handles(self, which: signal.Signals) -> bool:
        """Whether a thread blocks the signal. One that waits for it does not, as long as it waits."""
        for status in Path(f"/proc/{self.process.pid}/task").glob("*/status"):
            with suppress(OSError):  # the thread has ended
                lines = status.read_text().splitlines()
                blocked = next(line.split()[1] for line in lines if line.startswith("SigBlk:"))
                if int(blocked, 16) >> (which - 1) & 1:
                    return True
        return False

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.has_ended = True
        if self.process.poll() is None:
            if how is signal.SIGKILL:
                os.killpg(self.process.pid, how)
            else:
                self.process.send_signal(how)
        return self.process.wait(timeout=30)


@contextmanager
def running(folder: Path, *command: str, **more: str) -> Iterator[Program]:
    program = Program(folder, *command, **more)
    try:
        yield program
        assert program.has_ended or program.process.poll() is None
    except BaseException:
        print(program.log.read_text()[-3000:])
        raise
    finally:
        program.end(signal.SIGKILL)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def post(port: int, id: str, conversation: str, body: str) -> int:
    """Posts a message. Returns the status; 0: there was no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", f"/{conversation}", body, {"Idempotency-Key": id, "Content-Type": "text/plain"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


class Users:
    """Clients that post messages, each its own conversation, and repeat each until it is acknowledged."""

    def __init__(self, port: int, count: int, messages: int) -> None:
        self.messages, self.users = messages, count
        self.acknowledged: list[str] = []
        self.repeated = 0
        self.threads = [threading.Thread(target=self._work, args=(port, user), daemon=True) for user in range(count)]
        for thread in self.threads:
            thread.start()

    def _work(self, port: int, user: int) -> None:
        for number in range(self.messages):
            id = f"{user}-{number}"
            end = time.monotonic() + 60
            while (status := post(port, id, f"user{user}", id)) != 202:
                assert status in (0, 503), status
                assert time.monotonic() < end
                self.repeated += 1
                time.sleep(0.05)
            self.acknowledged.append(id)

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.acknowledged) >= count, f"{count} acknowledgements")

    def join(self) -> None:
        for thread in self.threads:
            thread.join(90)
        assert len(self.acknowledged) == self.users * self.messages

    def check(self, receiver: Receiver, copies: int = 0) -> None:
        """Everything arrived, in order; at most so many twice, which were on their way when a sender was killed."""
        wait_until(lambda: set(receiver.ids) == set(self.acknowledged), "the messages")
        again = [id for id, count in Counter(receiver.ids).items() if count > 1]
        assert len(again) <= copies, again
        for user in range(self.users):
            first = list(dict.fromkeys(id for id in receiver.ids if id.startswith(f"{user}-")))
            assert first == [f"{user}-{number}" for number in range(self.messages)]


def test_B2_gunicorn_workers_and_their_owner_are_killed(tmp_path: Path, receiver: Receiver) -> None:
    written(tmp_path, "owner.py", "web.py")
    port = free_port()
    owner = Program(tmp_path, sys.executable, "owner.py", OUTBOX_URL=receiver.url)
    arguments = ("--workers", "3", "--threads", "4", "--bind", f"127.0.0.1:{port}", "--no-control-socket", "web:app")
    try:
        with running(tmp_path, str(BIN / "gunicorn"), *arguments) as gunicorn:
            wait_until(lambda: is_listening(port) and len(gunicorn.children()) == 3, "gunicorn")
            users = Users(port, 6, 60)
            for turn in range(3):
                users.wait_for(60 * turn + 30)
                victim = gunicorn.children()[turn % 3]
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda victim=victim: victim not in gunicorn.children(), "the end of a worker")  # type: ignore[misc]
            users.wait_for(240)
            owner.end(signal.SIGKILL)
            time.sleep(0.5)
            owner = Program(tmp_path, sys.executable, "owner.py", OUTBOX_URL=receiver.url)
            users.join()
            # What was on its way when the owner was killed is sent again under its id.
            users.check(receiver, copies=8)
            assert users.repeated > 0
        # On a slow machine all may have arrived before the restart, and the new owner still imports its modules.
        wait_until(lambda: owner.handles(signal.SIGTERM), "the owner")
        assert owner.end(signal.SIGTERM) == 0, owner.log.read_text()
    finally:
        owner.end(signal.SIGKILL)


SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["outbox.apps.OutboxConfig"]
ROOT_URLCONF = "project.urls"
ALLOWED_HOSTS = ["127.0.0.1"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
MIDDLEWARE = []
"""
URLS = """
from django.urls import path
from outbox.views import send
urlpatterns = [path("<str:conversation>", send)]
"""
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
execute_from_command_line(sys.argv)
"""
WSGI = """
import os
from django.core.wsgi import get_wsgi_application
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
application = get_wsgi_application()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    written(tmp_path, "outbox/apps.py", "outbox/views.py")
    (tmp_path / "project").mkdir()
    files = {"project/settings.py": SETTINGS, "project/urls.py": URLS, "project/wsgi.py": WSGI, "manage.py": MANAGE}
    for name, text in {**files, "project/__init__.py": "", "outbox/__init__.py": ""}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_B2_django_in_gunicorn_is_killed(project: Path, receiver: Receiver) -> None:
    port = free_port()
    arguments = (
        "--workers",
        "1",
        "--threads",
        "8",
        "--bind",
        f"127.0.0.1:{port}",
        "--no-control-socket",
        "project.wsgi",
    )
    with running(project, str(BIN / "gunicorn"), *arguments, OUTBOX_URL=receiver.url) as gunicorn:
        wait_until(lambda: is_listening(port) and gunicorn.children(), "gunicorn")
        users = Users(port, 4, 40)
        kills = 0
        # Twice at least, and until a request was under way.
        while kills < 2 or (users.repeated == 0 and kills < 7):
            users.wait_for(20 * kills + 20)
            (victim,) = gunicorn.children()
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda victim=victim: gunicorn.children() not in ([], [victim]), "another worker")  # type: ignore[misc]
            kills += 1
        users.join()
        users.check(receiver, copies=8 * kills)
        assert users.repeated > 0
        assert gunicorn.end(signal.SIGTERM) == 0
    count = len(receiver.ids)
    with running(project, str(BIN / "gunicorn"), *arguments, OUTBOX_URL=receiver.url):
        wait_until(lambda: post(port, "last", "user0", "last") == 202, "an answer")
        wait_until(lambda: "last" in receiver.ids, "the last message")
    # A clean end leaves nothing behind that would be sent again.
    assert len(receiver.ids) == count + 1


@pytest.mark.parametrize("reload", [True, False], ids=["reload", "noreload"])
def test_B2_django_runserver_owns_the_store_once(project: Path, receiver: Receiver, reload: bool) -> None:
    """Also while commands of manage.py run: they, and the parent that watches the files, leave the store alone."""
    port = free_port()
    command = [sys.executable, "manage.py", "runserver", *([] if reload else ["--noreload"]), f"127.0.0.1:{port}"]
    with running(project, *command, OUTBOX_URL=receiver.url):
        wait_until(lambda: is_listening(port), "runserver")
        check = [sys.executable, "manage.py", "check"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'bindings/python/src'}"}
        subprocess.run(check, cwd=project, env=environment, check=True, capture_output=True)
        users = Users(port, 2, 10)
        users.join()
        users.check(receiver)
        assert users.repeated == 0


def test_B2_fastapi_is_killed(tmp_path: Path, receiver: Receiver) -> None:
    written(tmp_path, "service.py")
    port = free_port()

    def start() -> Program:
        command = (str(BIN / "uvicorn"), "--port", str(port), "service:app")
        return Program(tmp_path, *command, OUTBOX_URL=receiver.url)

    program = start()
    try:
        wait_until(lambda: is_listening(port), "uvicorn")
        users = Users(port, 4, 40)
        for turn, how in enumerate((signal.SIGKILL, signal.SIGTERM)):
            users.wait_for(40 * turn + 20)
            program.end(how)
            program = start()
        users.join()
        users.check(receiver, copies=8)
        assert users.repeated > 0
        assert post(port, "0-0", "user0", "0-0") == 202
        assert program.end(signal.SIGTERM) in (0, -signal.SIGTERM), program.log.read_text()
    finally:
        program.end(signal.SIGKILL)


def test_B5_celery_gets_what_was_stored_while_its_broker_was_away(tmp_path: Path) -> None:
    if not any(Path(folder, "redis-server").exists() for folder in os.get_exec_path()):
        pytest.skip("redis-server is not installed")
    written(tmp_path, "tasks.py", "orders.py")
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
    orders = Program(tmp_path, sys.executable, "orders.py", CELERY_BROKER=url)
    others: list[Program] = []
    billed = tmp_path / "billed"

    def lines() -> list[Any]:
        return [each.split() for each in billed.read_text().splitlines()] if billed.exists() else []

    try:
        assert orders.process.stdin is not None
        for number in range(20):
            orders.process.stdin.write(f"order{number}\n".encode())
        orders.process.stdin.flush()
        # All are stored: their ids are printed.
        wait_until(lambda: len(re.findall(r"^[0-9a-f-]{36}$", orders.log.read_text(), re.MULTILINE)) == 20, "the ids")
        others.append(Program(tmp_path, "redis-server", *options))
        others.append(
            Program(tmp_path, str(BIN / "celery"), "--app", "tasks", "worker", "--pool", "solo", CELERY_BROKER=url)
        )
        wait_until(lambda: len({id for id, _ in lines()}) == 20, "the tasks")
        first = list(dict.fromkeys(order for _, order in lines()))
        assert first == [f"order{number}" for number in range(20)]
        ids = re.findall(r"^[0-9a-f-]{36}$", orders.log.read_text(), re.MULTILINE)
        assert list(dict.fromkeys(id for id, _ in lines())) == ids
        orders.process.stdin.close()
        assert orders.process.wait(timeout=30) == 0
    except BaseException:
        for each in (orders, *others):
            print(each.log.read_text()[-2000:])
        raise
    finally:
        for each in (orders, *others):
            each.end(signal.SIGKILL)
