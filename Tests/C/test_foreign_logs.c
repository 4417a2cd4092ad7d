/* A write-ahead log belongs to one state of one database: backups, older copies and logs of other stores are refused. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "stores.h"

/* Makes "backup.db", a backup of the open queue, and "older.db", a copy of the closed store; both with m1 to m3. The store then gets m4 to
   m6, and its owner is killed with m7 to m9 in the log. */
static void begin_restoring(struct scene *scene) {
  scene_begin_open(scene);
  put_numbered(scene, 1, 3);
  REQUIRE_OK(msgq_backup(scene->queue, scene_file(scene, "backup.db")));
  scene_close(scene);
  file_copy_to(scene->path, scene_file(scene, "older.db"));
  close_after(scene, 4, 6);
  crash_after(scene, 7, 9);
}

/* Checks that the open is refused with the names of the files and a remedy, and that the copy opens when the log is moved away. */
static void check_log_refused_and_movable(struct scene *scene) {
  check_refused(scene, MSGQ_CORRUPT, "does not belong");
  CHECK(strstr(msgq_error_detail(), log_of(scene)) != NULL);
  CHECK(strstr(msgq_error_detail(), tail_of(scene)) != NULL);
  CHECK(strstr(msgq_error_detail(), "move ") != NULL);
  check_refused(scene, MSGQ_CORRUPT, NULL);
  REQUIRE(rename(log_of(scene), scene_file(scene, "log.kept")) == 0);
  REQUIRE(rename(tail_of(scene), scene_file(scene, "tail.kept")) == 0);
  scene_open(scene);
  check_numbered(scene, 1, 3);
  CHECK_NUMBER(0, journal_count(&scene->journal, MSGQ_EVENT_STORAGE));
  put_numbered(scene, 4, 4);
  check_numbered(scene, 1, 4);
  scene_end(scene);
}

static void restore_over_a_crash(const char *copy, bool by_moving) {
  struct scene scene;
  begin_restoring(&scene);
  const char *from = scene_file(&scene, copy);
  if (by_moving) REQUIRE(rename(from, scene.path) == 0);
  else file_copy_to(from, scene.path);
  check_log_refused_and_movable(&scene);
}

TEST(D3_a_backup_copied_over_a_crashed_store_is_refused) { restore_over_a_crash("backup.db", false); }
TEST(D3_a_backup_moved_over_a_crashed_store_is_refused) { restore_over_a_crash("backup.db", true); }
TEST(D3_an_older_closed_copy_copied_over_a_crashed_store_is_refused) { restore_over_a_crash("older.db", false); }
TEST(D3_an_older_closed_copy_moved_over_a_crashed_store_is_refused) { restore_over_a_crash("older.db", true); }

TEST(D3_a_log_opens_with_its_own_database) {
  struct scene scene;
  begin_restoring(&scene);
  file_copy_to(scene.path, scene_file(&scene, "right.db"));
  file_copy_to(scene_file(&scene, "backup.db"), scene.path);
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  REQUIRE(rename(scene_file(&scene, "right.db"), scene.path) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 9);
  scene_end(&scene);
}

TEST(D3_a_log_of_another_store_is_refused_with_and_without_its_tail_file) {
  struct scene scene, other;
  scene_begin(&scene);
  scene_begin(&other);
  crash_after(&scene, 1, 4);
  crash_after(&other, 11, 14);
  file_copy_to(log_of(&other), log_of(&scene));
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  file_copy_to(tail_of(&other), tail_of(&scene));
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  scene_end(&scene);
  scene_end(&other);
}

TEST(D3_a_log_of_another_store_beside_a_closed_store_is_refused) {
  struct scene scene, other;
  scene_begin(&scene);
  scene_begin(&other);
  close_after(&scene, 1, 4);
  crash_after(&other, 11, 14);
  file_copy_to(log_of(&other), log_of(&scene));
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  CHECK(unlink(log_of(&scene)) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 4);
  scene_end(&scene);
  scene_end(&other);
}

TEST(D3_a_log_of_an_older_state_is_refused) {
  struct scene scene;
  scene_begin(&scene);
  crash_after(&scene, 1, 4);
  file_copy_to(log_of(&scene), scene_file(&scene, "log.1"));
  scene_open(&scene); /* the close copies m1 to m4 to the database */
  scene_close(&scene);
  file_copy_to(scene.path, scene_file(&scene, "closed.db"));
  /* Beside the closed store. */
  file_copy_to(scene_file(&scene, "log.1"), log_of(&scene));
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  CHECK(unlink(log_of(&scene)) == 0);
  /* In place of a later log. */
  crash_after(&scene, 5, 8);
  file_copy_to(log_of(&scene), scene_file(&scene, "log.2"));
  file_copy_to(scene_file(&scene, "log.1"), log_of(&scene));
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  file_copy_to(scene_file(&scene, "log.2"), log_of(&scene));
  scene_open(&scene);
  check_numbered(&scene, 1, 8);
  scene_end(&scene);
}

/* Replaces the file of an open store: the queue stops with an error, and the new file stays unchanged. */
static void replace_open_store(bool by_moving) {
  struct scene scene;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  scene_begin_open(&scene);
  put_numbered(&scene, 1, 3);
  REQUIRE_OK(msgq_backup(scene.queue, scene_file(&scene, "backup.db")));
  put_numbered(&scene, 4, 6);
  struct file_copy backup = file_read(scene_file(&scene, "backup.db"));
  if (by_moving) REQUIRE(rename(scene_file(&scene, "backup.db"), scene.path) == 0);
  else file_copy_to(scene_file(&scene, "backup.db"), scene.path);
  msgq_result result = msgq_enqueue(scene.queue, &draft, NULL);
  CHECK(result == MSGQ_UNKNOWN || result == MSGQ_STORAGE);
  CHECK(strstr(msgq_error_detail(), by_moving ? "replaced" : "modified from outside") != NULL);
  CHECK_RESULT(MSGQ_STORAGE, msgq_enqueue(scene.queue, &draft, NULL));
  CHECK(file_is(scene.path, &backup));
  msgq_close(scene.queue, 1000);
  scene.queue = NULL;
  CHECK(file_is(scene.path, &backup));
  file_copy_free(&backup);
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  CHECK(unlink(log_of(&scene)) == 0 && unlink(tail_of(&scene)) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST(D3_a_file_moved_over_an_open_store_stops_the_queue_and_stays_unchanged) { replace_open_store(true); }
TEST_LONG(D3_a_file_copied_over_an_open_store_stops_the_queue_and_stays_unchanged) { replace_open_store(false); }

TEST(D3_removing_the_log_of_an_open_store_stops_the_queue) {
  struct scene scene;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  scene_begin_open(&scene);
  put_numbered(&scene, 1, 3);
  CHECK(unlink(log_of(&scene)) == 0);
  msgq_result result = msgq_enqueue(scene.queue, &draft, NULL);
  CHECK(result == MSGQ_UNKNOWN || result == MSGQ_STORAGE);
  CHECK_RESULT(MSGQ_STORAGE, msgq_enqueue(scene.queue, &draft, NULL));
  msgq_close(scene.queue, 1000);
  scene.queue = NULL;
  scene_end(&scene);
}

/* A file of the store is removed or renamed at once before the close, which writes to no file then. */
static void lose_file_before_close(const char *suffix, bool renamed, bool noticed) {
  struct scene scene;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  char file[128];
  scene_begin_open(&scene);
  put_numbered(&scene, 1, 3);
  snprintf(file, sizeof file, "%s%s", scene.path, suffix);
  if (renamed) REQUIRE(rename(file, scene_file(&scene, "elsewhere")) == 0);
  else REQUIRE(unlink(file) == 0);
  if (noticed) CHECK_RESULT(MSGQ_UNKNOWN, msgq_enqueue(scene.queue, &draft, NULL));
  struct snapshot before;
  snapshot_take(&before, scene.directory);
  CHECK_RESULT(MSGQ_UNKNOWN, msgq_close(scene.queue, 1000));
  CHECK(strstr(msgq_error_detail(), "was removed or replaced") != NULL);
  CHECK(strstr(msgq_error_detail(), file) != NULL);
  scene.queue = NULL;
  CHECK(snapshot_holds(&before, scene.directory));
  snapshot_free(&before);
  scene_end(&scene);
}

TEST(D3_close_reports_that_the_log_was_removed) { lose_file_before_close("-wal", false, false); }
TEST(D3_close_reports_that_the_log_was_renamed) { lose_file_before_close("-wal", true, false); }
TEST(D3_close_reports_that_the_database_was_removed) { lose_file_before_close("", false, false); }
TEST(D3_close_reports_that_the_database_was_renamed) { lose_file_before_close("", true, false); }

TEST(D3_close_reports_that_the_log_was_removed_also_after_a_call_has_noticed_it) { lose_file_before_close("-wal", false, true); }

struct async_close {
  atomic_int calls;
  msgq_result result;
  char detail[512];
};

static void note_close(void *context, msgq_result result) {
  struct async_close *closed = context;
  closed->result = result;
  snprintf(closed->detail, sizeof closed->detail, "%s", msgq_error_detail());
  atomic_fetch_add(&closed->calls, 1);
}

/* Also of a polled queue, whose msgq_poll ends the close. */
static void lose_log_before_async_close(msgq_callbacks callbacks) {
  struct scene scene;
  struct async_close closed = { 0 };
  scene_begin(&scene);
  scene.options.callbacks = callbacks;
  scene_open(&scene);
  put_numbered(&scene, 1, 3);
  REQUIRE(unlink(log_of(&scene)) == 0);
  struct snapshot before;
  snapshot_take(&before, scene.directory);
  CHECK_RESULT(MSGQ_OK, msgq_close_async(scene.queue, 1000, note_close, &closed));
  for (int64_t end = steady_ms() + check_timeout_ms(); atomic_load(&closed.calls) == 0 && steady_ms() < end;) {
    if (callbacks == MSGQ_CALLBACKS_POLL) msgq_poll(scene.queue, 10, NULL);
    else pause_ms(1);
  }
  CHECK_NUMBER(1, atomic_load(&closed.calls));
  CHECK_RESULT(MSGQ_UNKNOWN, closed.result);
  CHECK(strstr(closed.detail, "was removed or replaced") != NULL);
  CHECK(strstr(closed.detail, log_of(&scene)) != NULL);
  scene.queue = NULL;
  CHECK(snapshot_holds(&before, scene.directory));
  snapshot_free(&before);
  scene_end(&scene);
}

TEST(D3_close_async_reports_that_the_log_was_removed) { lose_log_before_async_close(MSGQ_CALLBACKS_THREAD); }
TEST(D3_close_async_of_a_polled_queue_reports_that_the_log_was_removed) { lose_log_before_async_close(MSGQ_CALLBACKS_POLL); }

/* Nothing was changed in this session: no message can be lost. */
TEST(D3_close_of_an_unchanged_queue_without_its_log_is_complete) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  scene_open(&scene);
  unlink(log_of(&scene));
  CHECK_RESULT(MSGQ_OK, msgq_close(scene.queue, 1000));
  scene.queue = NULL;
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

/* The log has a valid header and no valid frame. It is neither applied nor removed. */
TEST(D2_a_damaged_log_beside_a_closed_store_is_refused_untouched) {
  struct scene scene;
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  file_copy_to(scene.path, scene_file(&scene, "closed.db"));
  crash_after(&scene, 4, 6);
  file_copy_to(scene_file(&scene, "closed.db"), scene.path);
  file_flip(log_of(&scene), 32 + 24 + 100); /* in the first frame */
  check_refused(&scene, MSGQ_CORRUPT, "has no complete transaction");
  CHECK(strstr(msgq_error_detail(), "move it away") != NULL);
  REQUIRE_OK(msgq_salvage(scene.path, scene_file(&scene, "salvaged.db"), &report));
  CHECK_NUMBER(3, report.whole);
  REQUIRE(unlink(log_of(&scene)) == 0 && unlink(tail_of(&scene)) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST(D12_the_error_detail_says_that_a_file_is_not_a_message_store) {
  static const char *const texts[] = { "This text is not a database. It is longer than the header of a database file, which has 100 bytes.", "short" };
  struct scene scene;
  scene_begin(&scene);
  for (size_t index = 0; index < 2; index++) {
    file_write(scene.path, texts[index], strlen(texts[index]));
    check_refused(&scene, MSGQ_CORRUPT, "is not a message store");
  }
  unlink(scene.path);
  sql_run(scene.path, "CREATE TABLE notes(text)");
  check_refused(&scene, MSGQ_CORRUPT, "not a message store");
  scene_end(&scene);
}
