"""Runs `msgq` as a program, on a store that is closed, or open in a program in Python or in C."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgqueue import Connectivity, Delivery, MessageQueue, Mode, Outcome, _library
from support import HEADER, environment

# What the store of most tests contains: id, and status.
STANDARD = {"f1": "failed", "f2": "failed", "s1": "sent", "q1": "queued", "q2": "queued", "r1": "delivered"}
HOSTILE = "hello \x1b[2J\u202e\n漢字"

C_HOST = r"""
#include <stdio.h>
#include <string.h>

#include "msgqueue.h"

static msgq_verdict send_one(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  int fails = delivery->body_size >= 4 && memcmp(delivery->body, "fail", 4) == 0;
  out->verdict = fails ? MSGQ_VERDICT_REJECT : MSGQ_VERDICT_SENT;
  out->kind = fails ? MSGQ_FAILURE_REJECTED : MSGQ_FAILURE_NONE;
  return out->verdict;
}

static int failed(const char *call) {
  fprintf(stderr, "%s: %s\n", call, msgq_error_detail());
  return 1;
}

int main(int count, char **arguments) {
  msgq_options options = MSGQ_OPTIONS_INIT;
  msgq_queue *queue = NULL;
  if (count < 2) return 2;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  if (msgq_open(arguments[1], &options, &queue) != MSGQ_OK) return failed("msgq_open");
  if (msgq_set_transport(queue, send_one, NULL, NULL) != MSGQ_OK) return failed("msgq_set_transport");
  if (msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_OTHER, false) != MSGQ_OK)
    return failed("msgq_set_connectivity");
  if (count < 3 && msgq_control_start(queue, NULL) != MSGQ_OK) return failed("msgq_control_start");
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) continue;
  return msgq_close(queue, -1) == MSGQ_OK ? 0 : failed("msgq_close");
}
"""


@dataclass(frozen=True)
class Done:
    """What a run of msgq left."""

    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The output of --json."""
        return [json.loads(line) for line in self.lines]


def command(*arguments: object) -> list[str | bytes]:
    return [
        sys.executable,
        "-W",
        "error",
        "-m",
        "msgqueue",
        *(each if isinstance(each, bytes) else str(each) for each in arguments),
    ]


def msgq(*arguments: object, input: bytes = b"", fails: int = 0, **variables: str) -> Done:
    """Runs msgq, which must end with the code `fails`."""
    done = subprocess.run(
        command(*arguments),
        input=input,
        capture_output=True,
        timeout=120,
        check=False,
        env={**environment(), **variables},
    )
    result = Done(done.returncode, done.stdout, done.stderr.decode("utf-8", "backslashreplace"))
    assert result.code == fails, (arguments, result)
    return result


def send(delivery: Delivery) -> Outcome:
    return Outcome.reject() if delivery.text.startswith("fail") else Outcome.sent()


def fill(store: Path) -> None:
    """Makes the store of most tests, and closes it."""
    with MessageQueue(store, mode=Mode.MANUAL, direct=False, transport=send) as queue:
        queue.set_connectivity(Connectivity.ONLINE)
        queue.enqueue("fail 1", conversation="ana", id="f1")
        queue.enqueue("fail 2", conversation="ben", id="f2")
        queue.enqueue("sent", conversation="ben", id="s1")
        queue.drain()
        queue.enqueue(HOSTILE, conversation="ana", id="q1", metadata={"kind": "ü"}, priority=3)
        queue.enqueue(b"\xff\x00", id="q2")
        queue.record("hi", sender="Ana", conversation="ana", id="r1")


def library_directory(directory: Path) -> Path:
    """Returns a directory with the library of this test under its soname."""
    # The directory of the checkout may be named libmsgqueue, too.
    mapped = (Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines())
    found = next(path for path in mapped if path.name.startswith("libmsgqueue.so"))
    for name in ("libmsgqueue.so", "libmsgqueue.so.0"):
        if not (directory / name).exists():
            (directory / name).symlink_to(found)
    return directory


_built: dict[str, Path] = {}


def c_host() -> Path:
    """Returns the host in C, which is compiled once."""
    if "host" not in _built:
        _library.library()
        place = Path(tempfile.mkdtemp(prefix="msgq-host-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        libraries = library_directory(place)
        (place / "host.c").write_text(C_HOST)
        subprocess.run(
            [
                "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}", place / "host.c",
                "-o", place / "host", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lmsgqueue",
            ],
            check=True,
        )  # fmt: skip
        _built["host"] = place / "host"
    return _built["host"]


@contextmanager
def hosted(kind: str, store: Path, *, has_socket: bool = True) -> Iterator[None]:
    """Runs a program that has the store open: "python" or "c"; "closed": none."""
    if kind == "closed":
        yield
    elif kind == "python":
        with MessageQueue(store, mode=Mode.MANUAL, direct=False, transport=send) as queue:
            queue.set_connectivity(Connectivity.ONLINE)
            if has_socket:
                queue.start_control()
            yield
    else:
        words = [c_host(), store, *(() if has_socket else ("quietly",))]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
            assert host.stdout is not None
            assert host.stdin is not None
            assert host.stdout.readline() == b"ready\n"
            try:
                yield
            finally:
                host.stdin.close()
                assert host.wait(60) == 0


def statuses(store: Path) -> dict[str, str]:
    """Returns the status of every message, as msgq lists it."""
    return {row["id"]: row["status"] for row in msgq("list", store, "--status", "all", "--json").rows}
