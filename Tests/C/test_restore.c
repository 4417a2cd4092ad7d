/* Backup, copy, restore and downgrade: each step that the README describes. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "stores.h"
#include "stub.h"

/* msgq_backup while messages are enqueued: a closed store of its own, in one file. */
TEST(D17_backup_while_the_queue_runs_is_a_store_of_its_own) {
  struct scene scene, restored;
  struct stat status;
  scene_begin_open(&scene);
  scene_begin(&restored);
  put_numbered(&scene, 1, 20);
  const char *backup = scene_file(&scene, "backup.db");
  REQUIRE_OK(msgq_backup(scene.queue, backup));
  put_numbered(&scene, 21, 22);
  REQUIRE(lstat(backup, &status) == 0);
  CHECK_NUMBER(0600, status.st_mode & 07777);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_backup(scene.queue, backup));
  REQUIRE(rename(backup, restored.path) == 0);
  CHECK_NUMBER(1, directory_entries(restored.directory));
  scene_open(&restored); /* beside the original, which still runs */
  check_numbered(&restored, 1, 20);
  put_numbered(&restored, 21, 21);
  check_numbered(&scene, 1, 22);
  scene_end(&restored);
  scene_end(&scene);
}

TEST(D17_copy_of_a_closed_store_is_one_file) {
  struct scene scene, copy;
  scene_begin(&scene);
  scene_begin(&copy);
  close_after(&scene, 1, 5);
  CHECK_NUMBER(1, directory_entries(scene.directory)); /* no log, no side record */
  file_copy_to(scene.path, copy.path);
  REQUIRE(chmod(copy.path, 0600) == 0);
  scene_open(&copy);
  check_numbered(&copy, 1, 5);
  CHECK_NUMBER(0, journal_count(&copy.journal, MSGQ_EVENT_STORAGE));
  scene_end(&copy);
  scene_end(&scene);
}

/* After a crash all three files belong together. */
TEST(D17_copy_of_a_crashed_store_takes_all_three_files) {
  struct scene scene, copy;
  scene_begin(&scene);
  scene_begin(&copy);
  close_after(&scene, 1, 3);
  crash_after(&scene, 4, 9);
  file_copy_to(scene.path, copy.path);
  file_copy_to(log_of(&scene), log_of(&copy));
  file_copy_to(tail_of(&scene), tail_of(&copy));
  REQUIRE(chmod(copy.path, 0600) == 0 && chmod(log_of(&copy), 0600) == 0 && chmod(tail_of(&copy), 0600) == 0);
  copy.options.refuse_lost_tail = true;
  scene_open(&copy);
  check_numbered(&copy, 1, 9);
  scene_end(&copy);
  scene_end(&scene);
}

/* Close (or find it crashed), move all three files away, copy the backup to the name, open. */
static void restore(bool crashed) {
  struct scene scene;
  scene_begin_open(&scene);
  put_numbered(&scene, 1, 5);
  REQUIRE_OK(msgq_backup(scene.queue, scene_file(&scene, "backup.db")));
  scene_close(&scene);
  if (crashed) crash_after(&scene, 6, 9);
  else close_after(&scene, 6, 9);
  REQUIRE(rename(scene.path, scene_file(&scene, "away.db")) == 0);
  if (crashed) {
    REQUIRE(rename(log_of(&scene), scene_file(&scene, "away.db-wal")) == 0);
    REQUIRE(rename(tail_of(&scene), scene_file(&scene, "away.db-tail")) == 0);
  }
  file_copy_to(scene_file(&scene, "backup.db"), scene.path);
  REQUIRE(chmod(scene.path, 0600) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 5);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  scene_close(&scene);
  /* What was moved away is whole, too. */
  REQUIRE_OK(msgq_open(scene_file(&scene, "away.db"), &scene.options, &scene.queue));
  check_numbered(&scene, 1, 9);
  scene_end(&scene);
}

TEST(D17_restore_after_closing) { restore(false); }
TEST(D17_restore_after_a_crash) { restore(true); }

/* What was sent after the backup is queued in it: it is sent again under the same id. */
TEST(D17_restore_sends_again_what_was_sent_since_the_backup_under_the_same_id) {
  struct scene scene;
  struct stub stub;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  REQUIRE_OK(msgq_backup(scene.queue, scene_file(&scene, "backup.db")));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(3, drain(&scene).sent);
  scene_close(&scene);
  REQUIRE(rename(scene_file(&scene, "backup.db"), scene.path) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(3, drain(&scene).sent);
  CHECK_NUMBER(6, atomic_load(&stub.calls));
  scene_end(&scene);
}

TEST(D17_a_store_without_its_database_is_refused_and_found_again) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  crash_after(&scene, 4, 6);
  REQUIRE(rename(scene.path, scene_file(&scene, "away.db")) == 0);
  check_refused(&scene, MSGQ_CORRUPT, "restore the database");
  REQUIRE(rename(log_of(&scene), scene_file(&scene, "away.log")) == 0);
  check_refused(&scene, MSGQ_CORRUPT, "restore the database");
  REQUIRE(rename(scene_file(&scene, "away.log"), log_of(&scene)) == 0);
  REQUIRE(rename(scene_file(&scene, "away.db"), scene.path) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 6);
  scene_end(&scene);
}

/* This library stands for an older one: a store of the next layout. */
TEST(D17_downgrade_is_refused_and_the_copy_from_before_opens) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  file_copy_to(scene.path, scene_file(&scene, "before.db"));
  sql_run(scene.path, "ALTER TABLE message ADD COLUMN later INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = 3");
  check_refused(&scene, MSGQ_TOO_NEW, "has layout 3; this library supports layouts up to 2");
  file_copy_to(scene_file(&scene, "before.db"), scene.path);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

/* Anybody may read a closed store with the sqlite3 shell. */
TEST(D17_a_closed_store_is_readable_by_sqlite_and_takes_no_harm) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  CHECK_NUMBER(3, sql_number(scene.path, "SELECT count(*) FROM message WHERE status = 0"));
  sql_run(scene.path, "SELECT count(*) FROM message; PRAGMA integrity_check");
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  scene_end(&scene);
}
