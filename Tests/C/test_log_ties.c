/* A log belongs to one database in one state: backups, older copies and other stores' logs. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "stores.h"

/* "backup.db" and "older.db": a backup while the queue ran, and a copy of the closed store; both with m1 to m3. Then the store grows to
   m6 and its owner is killed with m7 to m9 in the log. */
static void begin_restoring(struct scene *scene) {
  scene_begin_open(scene);
  put_numbered(scene, 1, 3);
  REQUIRE_OK(msgq_backup(scene->queue, scene_file(scene, "backup.db")));
  scene_close(scene);
  file_copy_to(scene->path, scene_file(scene, "older.db"));
  close_after(scene, 4, 6);
  crash_after(scene, 7, 9);
}

/* Refused with the files' names and what to do; with the log moved away it opens as the copy was. */
static void check_kept_apart(struct scene *scene) {
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
  check_kept_apart(&scene);
}

TEST(D3_a_backup_copied_over_a_crashed_store_is_refused) { restore_over_a_crash("backup.db", false); }
TEST(D3_a_backup_moved_over_a_crashed_store_is_refused) { restore_over_a_crash("backup.db", true); }
TEST(D3_an_older_closed_copy_over_a_crashed_store_is_refused) { restore_over_a_crash("older.db", false); }
TEST(D3_an_older_closed_copy_moved_over_a_crashed_store_is_refused) { restore_over_a_crash("older.db", true); }

/* Whoever puts the right database back has everything again. */
TEST(D3_the_database_that_the_log_was_written_for_opens_with_everything) {
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

TEST(D3_a_log_of_another_store_is_refused_with_and_without_its_side_record) {
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

TEST(D3_a_log_of_another_store_beside_a_closed_one_is_refused) {
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
  scene_open(&scene); /* m1 to m4 are in the database now */
  scene_close(&scene);
  file_copy_to(scene.path, scene_file(&scene, "closed.db"));
  /* Beside the closed store ... */
  file_copy_to(scene_file(&scene, "log.1"), log_of(&scene));
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  CHECK(unlink(log_of(&scene)) == 0);
  /* ... and in the place of a later log. */
  crash_after(&scene, 5, 8);
  file_copy_to(log_of(&scene), scene_file(&scene, "log.2"));
  file_copy_to(scene_file(&scene, "log.1"), log_of(&scene));
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  file_copy_to(scene_file(&scene, "log.2"), log_of(&scene));
  scene_open(&scene);
  check_numbered(&scene, 1, 8);
  scene_end(&scene);
}

/* The running queue stops with an error, and what was put in the file's place stays as it is. */
static void replace_under_a_queue(bool by_moving) {
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

TEST(D3_a_file_moved_over_a_running_store_stops_it_and_is_not_harmed) { replace_under_a_queue(true); }
TEST(D3_a_file_copied_over_a_running_store_stops_it_and_is_not_harmed) { replace_under_a_queue(false); }

TEST(D3_a_log_that_is_removed_under_a_running_queue_stops_it) {
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

/* It begins like a log, and nothing in it is whole: it is neither applied nor taken away. */
TEST(D2_a_damaged_log_beside_a_closed_store_is_refused_untouched) {
  struct scene scene;
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  file_copy_to(scene.path, scene_file(&scene, "closed.db"));
  crash_after(&scene, 4, 6);
  file_copy_to(scene_file(&scene, "closed.db"), scene.path);
  file_flip(log_of(&scene), 32 + 24 + 100); /* in its first frame */
  check_refused(&scene, MSGQ_CORRUPT, "has no complete transaction");
  CHECK(strstr(msgq_error_detail(), "move it away") != NULL);
  REQUIRE_OK(msgq_salvage(scene.path, scene_file(&scene, "salvaged.db"), &report));
  CHECK_NUMBER(3, report.whole);
  REQUIRE(unlink(log_of(&scene)) == 0 && unlink(tail_of(&scene)) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST(D12_a_file_that_is_no_database_is_said_to_be_no_message_store) {
  static const char *const texts[] = { "Dear diary, this is a text that is longer than the header of a database file would be, and means nothing at all to it.", "short" };
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
