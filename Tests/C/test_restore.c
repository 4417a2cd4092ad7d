/* Backup, copy, restore and downgrade, as the README describes them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "stores.h"
#include "stub.h"

TEST(X12_D17_a_backup_of_an_open_queue_is_a_store) {
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
  struct file_copy before = file_read(backup);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_backup(scene.queue, backup));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_backup(scene.queue, scene.path));
  CHECK(file_is(backup, &before));
  file_copy_free(&before);
  REQUIRE(rename(backup, restored.path) == 0);
  CHECK_NUMBER(1, directory_entries(restored.directory));
  scene_open(&restored); /* while the original is open */
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
  CHECK_NUMBER(1, directory_entries(scene.directory)); /* no log, no file "-tail" */
  file_copy_to(scene.path, copy.path);
  REQUIRE(chmod(copy.path, 0600) == 0);
  scene_open(&copy);
  check_numbered(&copy, 1, 5);
  CHECK_NUMBER(0, journal_count(&copy.journal, MSGQ_EVENT_STORAGE));
  scene_end(&copy);
  scene_end(&scene);
}

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

/* Closes or crashes the store, moves all its files away, copies the backup to its path and opens it. */
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
  /* The store that was moved away opens, too. */
  REQUIRE_OK(msgq_open(scene_file(&scene, "away.db"), &scene.options, &scene.queue));
  check_numbered(&scene, 1, 9);
  scene_end(&scene);
}

TEST(D17_restore_after_closing) { restore(false); }
TEST(D17_restore_after_a_crash) { restore(true); }

TEST(D17_restore_sends_messages_sent_since_the_backup_again_with_the_same_id) {
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

TEST(D17_a_store_without_its_database_file_is_refused_until_it_is_back) {
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

/* The store has the next layout, so that this library is the older one. */
TEST(D17_downgrade_is_refused_and_the_earlier_copy_opens) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  file_copy_to(scene.path, scene_file(&scene, "before.db"));
  sql_run(scene.path, "ALTER TABLE message ADD COLUMN later INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = 5");
  check_refused(&scene, MSGQ_TOO_NEW, "has layout 5; this library supports layouts up to 4");
  file_copy_to(scene_file(&scene, "before.db"), scene.path);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST(D17_a_closed_store_can_be_read_with_sqlite_and_opens_afterwards) {
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

/* Makes the new store `to`: a copy of the open queue, a salvage of the closed store `from`, or an empty store. */
enum maker { by_backup, by_salvage, by_open };

static msgq_result make(enum maker maker, struct scene *from, const char *to) {
  if (maker == by_backup) return msgq_backup(from->queue, to);
  if (maker == by_salvage) return msgq_salvage(from->path, to, NULL);
  msgq_queue *queue = NULL;
  msgq_result result = msgq_open(to, &from->options, &queue);
  if (queue != NULL) msgq_close(queue, 1000);
  return result;
}

/* Each write, flush and removal in the directory of the new store fails once. */
static void fail_every_change(enum maker maker) {
  struct scene from, to;
  scene_begin(&from);
  scene_begin(&to);
  close_after(&from, 1, 5);
  if (maker == by_backup) scene_open(&from);
  int number = 1, failures = 0;
  for (bool failed = true; failed && number < 50; number++) {
    fault_error(to.directory, number, 1, EIO);
    msgq_result result = make(maker, &from, to.path);
    failed = fault_errors() > 0;
    fault_error("", 0, 0, 0);
    failures += result != MSGQ_OK;
    if (result != MSGQ_OK) {
      if (!CHECK_NUMBER(0, directory_entries(to.directory))) fprintf(stderr, "  after a failure of change %d\n", number);
      if (!CHECK_RESULT(MSGQ_OK, make(maker, &from, to.path))) fprintf(stderr, "  after a failure of change %d\n", number);
    }
    scene_open(&to);
    if (maker != by_open) check_numbered(&to, 1, 5);
    scene_close(&to);
    REQUIRE(unlink(to.path) == 0);
  }
  CHECK(failures >= 2 && number < 50); /* at least the flush of the file and that of the directory */
  scene_end(&to);
  scene_end(&from);
}

/* From each change on, every one fails, also the removal of the new file. */
static void fail_from_every_change(enum maker maker) {
  struct scene from, to;
  scene_begin(&from);
  scene_begin(&to);
  close_after(&from, 1, 5);
  if (maker == by_backup) scene_open(&from);
  int number = 1, left = 0;
  for (bool failed = true; failed && number < 50; number++) {
    fault_error(to.directory, number, 1000, EIO);
    msgq_result result = make(maker, &from, to.path);
    const char *detail = msgq_error_detail();
    failed = fault_errors() > 0;
    fault_error("", 0, 0, 0);
    CHECK_RESULT(failed ? MSGQ_STORAGE : MSGQ_OK, result);
    if (failed && file_exists(to.path)) {
      left++;
      CHECK(strstr(detail, to.path) != NULL && strstr(detail, "could not be removed") != NULL);
      CHECK_RESULT(MSGQ_CONFLICT, make(maker, &from, to.path));
    }
    directory_remove(to.directory);
    REQUIRE(mkdir(to.directory, 0700) == 0);
  }
  CHECK(left >= 1 && number < 50);
  /* What another program or an earlier copy left is not a store. */
  file_write(to.path, "", 0);
  REQUIRE(chmod(to.path, 0600) == 0);
  CHECK_RESULT(MSGQ_CONFLICT, make(maker, &from, to.path));
  CHECK(strstr(msgq_error_detail(), "it is empty") != NULL);
  scene_end(&to);
  scene_end(&from);
}

TEST_ALONE(X12_a_failed_backup_that_cannot_remove_the_new_file_says_so) { fail_from_every_change(by_backup); }
TEST_ALONE(D15_a_failed_salvage_that_cannot_remove_the_new_file_says_so) { fail_from_every_change(by_salvage); }

TEST_ALONE(X12_after_a_failed_backup_there_is_no_new_file) { fail_every_change(by_backup); }
TEST_ALONE(D15_after_a_failed_salvage_there_is_no_new_file) { fail_every_change(by_salvage); }
TEST_ALONE(D5_after_a_failed_open_of_a_new_store_there_is_no_file) { fail_every_change(by_open); }
