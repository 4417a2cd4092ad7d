/* Opening and closing, and the file of the store. */
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "every_call.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

TEST(lifecycle_open_makes_one_private_file) {
  struct scene scene;
  struct stat status;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  REQUIRE(stat(scene.path, &status) == 0);
  CHECK_NUMBER(0600, status.st_mode & 07777);
  CHECK(file_exists(scene_file(&scene, "outbox.db-wal")));
  scene_close(&scene);
  CHECK(!file_exists(scene_file(&scene, "outbox.db-wal")));
  CHECK_NUMBER(1, directory_entries(scene.directory));
  scene_end(&scene);
}

TEST(lifecycle_open_with_null_options_uses_the_defaults) {
  struct scene scene;
  scene_begin(&scene);
  REQUIRE_OK(msgq_open(scene.path, NULL, &scene.queue));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(Q3_messages_survive_a_restart) {
  struct scene scene;
  struct stub stub;
  char unsent[256];
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub.kind = MSGQ_FAILURE_REJECTED;
  stub.code = 422;
  put(&scene, "failed", "ana", "one");
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(1, drain(&scene).failed);
  put(&scene, "first", "ana", "two");
  put(&scene, "second", "ben", "three");
  scene_close(&scene);
  scene_open(&scene);
  unsent_of(&scene, unsent, sizeof unsent);
  CHECK_TEXT("failed first second", unsent);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "failed"));
  CHECK_NUMBER(MSGQ_FAILURE_REJECTED, failure_of(&scene, "failed"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "first"));
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(lifecycle_a_closed_handle_stays_closed) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "id", "ana", "hello");
  msgq_queue *queue = scene.queue;
  CHECK_RESULT(MSGQ_OK, msgq_close(NULL, 0));
  scene_close(&scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_close(queue, 0));
  every_call_answers(queue, MSGQ_CLOSED);
  /* Handles are not reused: the old one stays closed while a new one is open. */
  scene_open(&scene);
  CHECK(scene.queue != queue);
  every_call_answers(queue, MSGQ_CLOSED);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "id"));
  scene_end(&scene);
}

TEST(lifecycle_a_transport_can_be_removed) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, NULL, NULL, NULL));
  AWAIT(atomic_load(&stub.released) == 1);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_NO_TRANSPORT, msgq_drain(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_NO_TRANSPORT, msgq_send_now(scene.queue, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  scene_end(&scene);
}

/* Returns whether a column of any table has exactly this value. */
static bool store_holds(sqlite3 *store, const char *text) {
  sqlite3_stmt *tables = NULL;
  bool found = false;
  REQUIRE(sqlite3_prepare_v2(store, "SELECT name FROM sqlite_schema WHERE type = 'table'", -1, &tables, NULL) == SQLITE_OK);
  while (!found && sqlite3_step(tables) == SQLITE_ROW) {
    char query[256];
    sqlite3_stmt *rows = NULL;
    snprintf(query, sizeof query, "SELECT * FROM \"%s\"", (const char *)sqlite3_column_text(tables, 0));
    REQUIRE(sqlite3_prepare_v2(store, query, -1, &rows, NULL) == SQLITE_OK);
    while (!found && sqlite3_step(rows) == SQLITE_ROW) {
      for (int column = 0; column < sqlite3_column_count(rows); column++) {
        const void *bytes = sqlite3_column_blob(rows, column);
        found = found || (bytes != NULL && sqlite3_column_bytes(rows, column) == (int)strlen(text) && memcmp(bytes, text, strlen(text)) == 0);
      }
    }
    sqlite3_finalize(rows);
  }
  sqlite3_finalize(tables);
  return found;
}

TEST(X12_the_store_is_an_ordinary_sqlite_file) {
  struct scene scene;
  sqlite3 *store = NULL;
  sqlite3_stmt *check = NULL;
  scene_begin_open(&scene);
  put(&scene, "readable-id", "ana", "a body for everybody");
  scene_close(&scene);
  REQUIRE(sqlite3_open_v2(scene.path, &store, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
  REQUIRE(sqlite3_prepare_v2(store, "PRAGMA integrity_check", -1, &check, NULL) == SQLITE_OK);
  REQUIRE(sqlite3_step(check) == SQLITE_ROW);
  CHECK_TEXT("ok", (const char *)sqlite3_column_text(check, 0));
  sqlite3_finalize(check);
  CHECK(store_holds(store, "readable-id"));
  CHECK(store_holds(store, "a body for everybody"));
  CHECK(sqlite3_close(store) == SQLITE_OK);
  scene_end(&scene);
}
