"""B2, B5: the programs of Relays.md that open a queue run as they stand there, with other addresses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import Redis
from http_servers import OK, Server
from servers import started

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "Sources" / "Documentation" / "Relays.md"
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "MessageQueue(" in block]
# The program ends when the queue is empty.
WAIT = """
    import time
    end = time.monotonic() + 30
    while queue.counts().queued + queue.counts().sending and time.monotonic() < end:
        time.sleep(0.02)
    import json, msgqueue
    print(json.dumps([status.name for status in msgqueue.Status for _ in queue.list(status=status)]))
"""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    pytest.importorskip("redis")
    broker = started(Redis, tmp_path / "server")
    assert isinstance(broker, Redis)
    yield broker
    broker.kill()


def statuses(folder: Path, program: str) -> object:
    """Runs a program until its queue is empty. Returns the statuses of its messages."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python/src")}
    command = [sys.executable, "-W", "error", "-c", program + WAIT]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_B2_B5_every_program_of_the_page_is_tested_here() -> None:
    kinds = [re.findall(r"^relay = (\w+)\(", program, re.MULTILINE) for program in PROGRAMS]
    assert kinds == [["RedisStream"], ["Http"], ["RedisStream"]]
    for program in PROGRAMS:
        assert "retry=retry" in program
        assert "pause_on_unauthorized=True" in program
        # Batches, where they are faster.
        assert ("relay.batch" in program) is ("RedisStream" in program)


@pytest.mark.parametrize("program", [each for each in PROGRAMS if "RedisStream" in each], ids=["relay", "tracing"])
def test_B5_the_programs_with_redis(redis: Redis, tmp_path: Path, program: str) -> None:
    if "opentelemetry" in program:
        pytest.importorskip("opentelemetry.sdk.trace")
    assert program.count("127.0.0.1:6379") == 1
    assert statuses(tmp_path, program.replace("127.0.0.1:6379", f"127.0.0.1:{redis.port}")) == ["SENT"]
    assert [each.body for each in redis.received("orders", 1)] == [b"hello"]


def test_B2_the_program_with_http(tmp_path: Path) -> None:
    (program,) = (each for each in PROGRAMS if "Http(" in each)
    with Server(lambda *_: OK) as server:
        assert program.count("https://example.org/messages") == 1
        assert statuses(tmp_path, program.replace("https://example.org/messages", server.url)) == ["SENT"]
    (request,) = server.requests
    assert request.body == b"hello"
    assert request.headers["authorization"] == "Bearer token-of-the-service"
    assert request.headers["webhook-signature"].startswith("v1,")
