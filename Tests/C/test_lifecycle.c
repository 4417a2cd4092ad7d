/* Opening, closing, owning. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "every_call.h"
#include "files.h"
#include "scene.h"
#include "sender.h"
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

TEST(lifecycle_open_without_options_takes_the_defaults) {
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

TEST(lifecycle_close_twice_answers_closed) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_queue *queue = scene.queue;
  CHECK_RESULT(MSGQ_OK, msgq_close(NULL, 0));
  scene_close(&scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_close(queue, 0));
  every_call_answers(queue, MSGQ_CLOSED);
  /* A handle is never given out twice: the old one stays closed while a new one is open. */
  scene_open(&scene);
  CHECK(scene.queue != queue);
  every_call_answers(queue, MSGQ_CLOSED);
  scene_end(&scene);
}

struct closers {
  msgq_queue *queue;
  atomic_int ok;
  atomic_int closed;
};

static void *close_it(void *context) {
  struct closers *closers = context;
  msgq_result result = msgq_close(closers->queue, -1);
  if (result == MSGQ_OK) atomic_fetch_add(&closers->ok, 1);
  if (result == MSGQ_CLOSED) atomic_fetch_add(&closers->closed, 1);
  return NULL;
}

TEST(lifecycle_close_from_several_threads_closes_once) {
  struct scene scene;
  struct closers closers = { 0 };
  pthread_t threads[4];
  scene_begin_open(&scene);
  closers.queue = scene.queue;
  for (int index = 0; index < 4; index++) REQUIRE(pthread_create(&threads[index], NULL, close_it, &closers) == 0);
  for (int index = 0; index < 4; index++) pthread_join(threads[index], NULL);
  CHECK_NUMBER(1, atomic_load(&closers.ok));
  CHECK_NUMBER(3, atomic_load(&closers.closed));
  scene.queue = NULL;
  scene_end(&scene);
}

TEST(lifecycle_second_opener_is_locked_out) {
  struct scene scene;
  msgq_queue *second = NULL;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, NULL, &second));
  CHECK(second == NULL);
  /* The refused attempt took nothing from the owner, its file locks least of all. */
  put(&scene, "b", "ana", "hello");
  CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, NULL, &second));
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(lifecycle_another_process_is_named_as_the_owner) {
  struct scene scene;
  char line[64], owner[32];
  scene_begin(&scene);
  struct child child = child_start("hold", scene.path, "");
  child_line(&child, line, sizeof line);
  CHECK_TEXT("open", line);
  CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, &scene.options, &scene.queue));
  CHECK(scene.queue == NULL);
  snprintf(owner, sizeof owner, "%ld", (long)child.pid);
  CHECK(strstr(msgq_error_detail(), owner) != NULL);
  child_kill(&child);
  scene_open(&scene); /* a lock dies with its process */
  scene_end(&scene);
}

TEST(lifecycle_forked_child_is_refused_and_the_parent_goes_on) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    every_call_answers(scene.queue, MSGQ_FORKED);
    CHECK_RESULT(MSGQ_FORKED, msgq_close(scene.queue, 0));
    /* Ends as another program: valgrind would take what the parent's threads hold for lost, as they are not here. */
    execl(child_program, child_program, "--child", "end", check_failures() == 0 ? "0" : "1", "", (char *)NULL);
    _exit(127);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK_NUMBER(0, status);
  put(&scene, "b", "ana", "still here");
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(lifecycle_transport_and_handler_are_released_once) {
  struct scene scene;
  struct stub first, second;
  scene_begin_open(&scene);
  stub_begin(&first, MSGQ_VERDICT_SENT);
  stub_begin(&second, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &first, stub_release));
  CHECK_NUMBER(0, atomic_load(&first.released));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &second, stub_release));
  AWAIT(atomic_load(&first.released) == 1);
  scene_close(&scene);
  CHECK_NUMBER(1, atomic_load(&first.released));
  CHECK_NUMBER(1, atomic_load(&second.released));
  CHECK_NUMBER(1, atomic_load(&scene.journal.released));
  scene_end(&scene);
}

TEST(lifecycle_a_transport_can_be_taken_away) {
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

/* Whether any column of any table of the store holds the text. */
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

TEST(X12_a_backup_is_a_store_while_the_queue_goes_on) {
  struct scene scene;
  struct stat status;
  msgq_queue *copy = NULL;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  scene_begin_open(&scene);
  const char *path = scene_file(&scene, "copy.db");
  put(&scene, "a", "ana", "one");
  put(&scene, "b", "ben", "two");
  REQUIRE_OK(msgq_backup(scene.queue, path));
  put(&scene, "c", "ana", "after the copy");
  REQUIRE(stat(path, &status) == 0);
  CHECK_NUMBER(0600, status.st_mode & 07777);
  struct file_copy before = file_read(path);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_backup(scene.queue, path));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_backup(scene.queue, scene.path));
  CHECK(file_is(path, &before));
  file_copy_free(&before);
  REQUIRE_OK(msgq_open(path, &scene.options, &copy));
  CHECK_RESULT(MSGQ_OK, msgq_count(copy, NULL, &counts));
  CHECK_NUMBER(2, counts.queued);
  CHECK_RESULT(MSGQ_OK, msgq_close(copy, -1));
  CHECK_NUMBER(3, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}
