"""An outbox that a program in C and one in Python share: each collects what the other has put."""

from __future__ import annotations

import sqlite3
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest

from command_line import library_directory
from conftest import Opener
from msgqueue import Message, MessageQueue, Mode, Outbox, _library
from support import HEADER

C = Path(__file__).resolve().parents[2] / "c"
PROGRAM = """
#include <outbox.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **arguments) {
  sqlite3 *database = NULL;
  msgq_result result = MSGQ_INVALID;
  if (sqlite3_open(arguments[1], &database) != SQLITE_OK) return 9;
  if (strcmp(arguments[2], "put") == 0) {
    const msgq_pair pairs[] = { { "k\\u00e9y", "value" }, { "empty", "" } };
    msgq_draft draft = MSGQ_DRAFT_INIT;
    if (sqlite3_exec(database, msgq_outbox_schema(), NULL, NULL, NULL) != SQLITE_OK) return 8;
    draft.id = "shared";
    draft.conversation = "\\u65e5";
    draft.body = "\\0\\377";
    draft.body_size = 2;
    draft.metadata = pairs;
    draft.metadata_count = 2;
    draft.not_before_ms = 4102444800000;
    draft.expires_at_ms = 4102444900000;
    draft.unmetered_only = true;
    draft.priority = -7;
    draft.time_ms = 1700000000000;
    result = msgq_outbox_put(database, &draft, NULL);
  } else {
    msgq_queue *queue = NULL;
    msgq_options options = MSGQ_OPTIONS_INIT;
    size_t moved = 0;
    options.mode = MSGQ_MODE_MANUAL;
    if (msgq_open(arguments[3], &options, &queue) != MSGQ_OK) return 7;
    result = msgq_outbox_collect(database, queue, 10, &moved);
    if (msgq_close(queue, 1000) != MSGQ_OK) return 6;
    printf("%zu", moved);
  }
  if (result != MSGQ_OK) fprintf(stderr, "%s", msgq_outbox_error_detail());
  return sqlite3_close(database) == SQLITE_OK ? (int)result : 5;
}
"""
MOMENT = datetime(2100, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _library.library()
    place = tmp_path_factory.mktemp("c")
    (place / "shop.c").write_text(PROGRAM, encoding="utf-8")
    libraries = library_directory(place)
    subprocess.run(
        [
            "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", f"-I{C}", f"-I{HEADER.parent}",
            place / "shop.c", C / "outbox.c", "-o", place / "shop", f"-L{libraries}", f"-Wl,-rpath,{libraries}",
            "-lmsgqueue", "-lsqlite3",
        ],
        check=True,
    )  # fmt: skip
    return place / "shop"


def check(message: Message) -> None:
    assert (message.conversation, message.body, message.priority) == ("\u65e5", b"\0\xff", -7)
    assert message.metadata == {"k\u00e9y": "value", "empty": ""}
    assert message.not_before == MOMENT
    assert message.expires_at is not None
    assert (message.expires_at - MOMENT).total_seconds() == 100
    assert message.unmetered_only
    assert message.time.timestamp() == 1_700_000_000


def test_T1_python_collects_what_c_has_put(program: Path, tmp_path: Path, opened: Opener) -> None:
    subprocess.run([program, tmp_path / "shop.db", "put"], check=True)
    connection = sqlite3.connect(tmp_path / "shop.db")
    queue = opened(mode=Mode.MANUAL)
    assert Outbox(connection).collect(queue) == 1
    check(queue.get("shared"))
    connection.close()


def test_T1_c_collects_what_python_has_put(program: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    outbox = Outbox(connection)
    outbox.create()
    outbox.put(
        b"\0\xff", id="shared", conversation="\u65e5", metadata={"k\u00e9y": "value", "empty": ""}, not_before=MOMENT,
        expires_at=MOMENT.timestamp() + 100, unmetered_only=True, priority=-7, time=1_700_000_000.0,
    )  # fmt: skip
    connection.commit()
    command: list[str | Path] = [program, tmp_path / "shop.db", "collect", tmp_path / "queue.db"]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == b"1"
    with MessageQueue(tmp_path / "queue.db", mode=Mode.MANUAL) as queue:
        check(queue.get("shared"))
    assert connection.execute("SELECT count(*) FROM msgq_outbox").fetchone() == (0,)
    connection.close()


def test_T1_the_tables_of_both_are_the_same(program: Path, tmp_path: Path) -> None:
    subprocess.run([program, tmp_path / "c.db", "put"], check=True)
    tables = []
    for name in ("c.db", "python.db"):
        connection = sqlite3.connect(tmp_path / name)
        if name == "python.db":
            Outbox(connection).create()
        tables.append(
            [
                sorted(row[1:] for row in connection.execute(f"PRAGMA table_info({table})"))
                for table in ("msgq_outbox", "msgq_outbox_store")
            ]
        )
        connection.close()
    assert tables[0] == tables[1]
