/* Stores of earlier layouts, written by their library (Tests/fixtures): an upgrade keeps everything, also when it is interrupted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
#include "stores.h"
#include "stub.h"

static void unpack(const char *fixture, const char *target) {
  char command[512];
  snprintf(command, sizeof command, "gzip -dc '%.*s/../fixtures/%s.gz' > '%s'", (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__, fixture,
           target);
  REQUIRE(system(command) == 0);
  REQUIRE(chmod(target, 0600) == 0);
}

static void begin_layout1(struct scene *scene, bool crashed) {
  scene_begin(scene);
  scene->options.keep_sent_ms = -1; /* so that the old messages of the fixture are not pruned */
  unpack(crashed ? "layout1-crashed.db" : "layout1-closed.db", scene->path);
  if (crashed) unpack("layout1-crashed.db-wal", log_of(scene));
}

struct expected {
  const char *id, *conversation, *body;
  msgq_status status;
  size_t body_size;
  uint32_t attempts;
  msgq_failure_kind failure;
};

/* The messages of the fixtures in order. The last one is only in the log of the crashed store. */
static const struct expected messages[] = {
  { "sent-1", "ana", "first", MSGQ_STATUS_SENT, 5, 1, MSGQ_FAILURE_NONE },
  { "delivered-1", "ana", "second", MSGQ_STATUS_DELIVERED, 6, 1, MSGQ_FAILURE_NONE },
  { "read-1", "ana", "third", MSGQ_STATUS_READ, 5, 1, MSGQ_FAILURE_NONE },
  { "failed-1", "ben", "refused", MSGQ_STATUS_FAILED, 7, 1, MSGQ_FAILURE_REJECTED },
  { "retry-1", "cem", "later", MSGQ_STATUS_QUEUED, 5, 1, MSGQ_FAILURE_SERVER },
  { "heard-1", "eva", "hello there", MSGQ_STATUS_DELIVERED, 11, 0, MSGQ_FAILURE_NONE },
  { "heard-2", "eva", "hello again", MSGQ_STATUS_READ, 11, 0, MSGQ_FAILURE_NONE },
  { "queued-1", "ana", "fourth", MSGQ_STATUS_QUEUED, 6, 0, MSGQ_FAILURE_NONE },
  { "queued-2", "ana", "fifth", MSGQ_STATUS_QUEUED, 5, 0, MSGQ_FAILURE_NONE },
  { "queued-3", "ben", "xxxxx", MSGQ_STATUS_QUEUED, 3000, 0, MSGQ_FAILURE_NONE },
  { "edited-1", "ben", "after", MSGQ_STATUS_QUEUED, 5, 0, MSGQ_FAILURE_NONE },
  { "queued-4", "fay", "only in the log", MSGQ_STATUS_QUEUED, 15, 0, MSGQ_FAILURE_NONE },
};

static void check_message(const struct expected *expected, const msgq_message *message, bool was_cut) {
  CHECK_TEXT(expected->id, message->id);
  CHECK_TEXT(expected->conversation, message->conversation);
  CHECK_NUMBER(expected->status, message->status);
  CHECK_NUMBER(expected->body_size, message->body_size);
  CHECK(memcmp(message->body, expected->body, strlen(expected->body)) == 0);
  CHECK_NUMBER(expected->attempts + was_cut, message->attempts);
  CHECK_NUMBER(was_cut ? MSGQ_FAILURE_UNKNOWN : expected->failure, message->failure != NULL ? message->failure->kind : MSGQ_FAILURE_NONE);
  if (strcmp(message->id, "queued-1") == 0) {
    CHECK_NUMBER(2, message->metadata_count);
    CHECK_TEXT("zwei", message->metadata[1].value);
  }
  if (strcmp(message->id, "heard-1") == 0) CHECK_TEXT("Eva", message->sender);
}

static void check_ledger(struct scene *scene, const char *id, msgq_attempt_outcome outcome, int32_t code) {
  msgq_ledger *ledger = NULL;
  REQUIRE_OK(msgq_attempts(scene->queue, id, &ledger));
  REQUIRE(msgq_ledger_size(ledger) == 1);
  CHECK_NUMBER(outcome, msgq_ledger_at(ledger, 0)->outcome);
  CHECK_NUMBER(code, msgq_ledger_at(ledger, 0)->code);
  msgq_ledger_free(ledger);
}

/* Checks that the open queue has everything from the fixture. */
static void check_everything(struct scene *scene, bool crashed) {
  const size_t count = crashed ? 12 : 11;
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *list = NULL;
  filter.statuses = MSGQ_STATUSES_ALL;
  REQUIRE_OK(msgq_list(scene->queue, &filter, &list));
  CHECK_NUMBER(count, msgq_list_size(list));
  for (size_t index = 0; index < count && index < msgq_list_size(list); index++) {
    check_message(&messages[index], msgq_list_at(list, index), crashed && strcmp(messages[index].id, "queued-3") == 0);
  }
  msgq_list_free(list);
  msgq_counts counts = counts_of(scene, NULL), ben = counts_of(scene, "ben");
  CHECK_NUMBER(crashed ? 6 : 5, counts.queued);
  CHECK(counts.sent == 1 && counts.delivered == 1 && counts.read == 1 && counts.failed == 1 && counts.received == 2 && counts.unread == 1);
  CHECK(ben.queued == 2 && ben.failed == 1 && ben.unsent_bytes == 3012);
  check_ledger(scene, "failed-1", MSGQ_ATTEMPT_REJECTED, 422);
  check_ledger(scene, "retry-1", MSGQ_ATTEMPT_RETRY, 503);
  if (crashed) check_ledger(scene, "queued-3", MSGQ_ATTEMPT_UNKNOWN, 0);
  CHECK_NUMBER(-1, status_of(scene, "deleted-1"));
}

static msgq_message *message_of(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  return message;
}

/* Layout 1 has no times of receipts; after the upgrade the times of new receipts are stored. */
static void check_receipts(struct scene *scene) {
  static const char *const ids[] = { "delivered-1", "read-1" };
  for (size_t index = 0; index < 2; index++) {
    msgq_message *message = message_of(scene, ids[index]);
    CHECK(message->sent_ms > 0 && message->delivered_ms == 0 && message->read_ms == 0);
    msgq_message_free(message);
  }
  int64_t before = wall_ms();
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene->queue, "delivered-1", MSGQ_STATUS_READ));
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene->queue, "read-1", MSGQ_STATUS_READ)); /* read before the upgrade, at an unknown time */
  msgq_message *now_read = message_of(scene, "delivered-1"), *was_read = message_of(scene, "read-1");
  CHECK(now_read->status == MSGQ_STATUS_READ && now_read->delivered_ms == 0 && now_read->read_ms >= before);
  CHECK(was_read->status == MSGQ_STATUS_READ && was_read->read_ms == 0);
  msgq_message_free(now_read);
  msgq_message_free(was_read);
}

static void upgrade(bool crashed) {
  struct scene scene;
  struct stub stub;
  begin_layout1(&scene, crashed);
  scene_open(&scene);
  check_everything(&scene, crashed);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  scene_close(&scene);
  CHECK_NUMBER(1, directory_entries(scene.directory));
  CHECK_NUMBER(2, sql_number(scene.path, "PRAGMA user_version"));
  CHECK_NUMBER(1, sql_number(scene.path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"));
  scene_open(&scene);
  check_everything(&scene, crashed);
  check_receipts(&scene);
  /* The upgraded store can enqueue and send. */
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "new", "ana", "new");
  CHECK(drain(&scene).sent >= (crashed ? 6 : 5)); /* one more if the retry is due */
  scene_end(&scene);
}

TEST(D17_upgrade_of_a_closed_store_of_layout_1_keeps_everything) { upgrade(false); }
TEST(D17_upgrade_of_a_crashed_store_of_layout_1_keeps_everything) { upgrade(true); }

/* The process is killed before the n-th change of a file, for every n. */
static void upgrade_with_crashes(bool crashed) {
  struct scene scene;
  struct snapshot before;
  begin_layout1(&scene, crashed);
  snapshot_take(&before, scene.directory);
  int number = 1;
  for (int code = -1; code != 0 && number < 500; number++) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    struct child child = child_start("open-until", scene.path, text);
    code = child_wait(&child);
    CHECK(code == -1 || code == 0);
    scene_open(&scene);
    unsigned failures = check_failures();
    check_everything(&scene, crashed);
    if (check_failures() > failures) fprintf(stderr, "  after a crash before change %d\n", number);
    scene_close(&scene);
    CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
    snapshot_restore(&before, scene.directory);
  }
  CHECK(number > 10 && number < 500);
  snapshot_free(&before);
  scene_end(&scene);
}

TEST_ALONE(D17_upgrade_of_a_closed_store_survives_a_crash_at_every_change) { upgrade_with_crashes(false); }
TEST_ALONE(D17_upgrade_of_a_crashed_store_survives_a_crash_at_every_change) { upgrade_with_crashes(true); }

/* Each flush of the upgrade fails once. */
TEST_ALONE(D17_upgrade_survives_every_failed_flush) {
  struct scene scene;
  struct snapshot before;
  begin_layout1(&scene, true);
  snapshot_take(&before, scene.directory);
  bool failed = true;
  int number = 1;
  for (; failed && number < 100; number++) {
    fault_sync_at(number);
    msgq_result result = msgq_open(scene.path, &scene.options, &scene.queue);
    if (scene.queue != NULL) msgq_close(scene.queue, 1000);
    scene.queue = NULL;
    failed = fault_sync_at(0);
    if (!(failed && result == MSGQ_STORAGE)) CHECK_RESULT(MSGQ_OK, result);
    scene_open(&scene);
    check_everything(&scene, true);
    scene_close(&scene);
    snapshot_restore(&before, scene.directory);
  }
  CHECK(number > 4 && number < 100);
  snapshot_free(&before);
  scene_end(&scene);
}

TEST(D4_a_store_of_layout_1_marked_as_later_is_refused_untouched) {
  struct scene scene;
  begin_layout1(&scene, true);
  sql_run_in_log(scene.path, "PRAGMA user_version = 3");
  check_refused(&scene, MSGQ_TOO_NEW, "layout 3");
  scene_end(&scene);
}

TEST(D2_a_damaged_store_of_layout_1_is_refused_untouched) {
  struct scene scene;
  begin_layout1(&scene, false);
  struct file_copy whole = file_read(scene.path);
  for (size_t page = 4; page < whole.size / 4096; page++) memset(whole.bytes + page * 4096, 0x55, 4096);
  file_write(scene.path, whole.bytes, whole.size);
  file_copy_free(&whole);
  check_refused(&scene, MSGQ_CORRUPT, "damaged");
  scene_end(&scene);
}

/* A backup of layout 1 replaces the file of a store that was upgraded and then crashed. */
TEST(D3_a_backup_of_layout_1_over_a_crashed_store_of_layout_2_is_refused) {
  struct scene scene;
  begin_layout1(&scene, false);
  file_copy_to(scene.path, scene_file(&scene, "backup.db"));
  close_after(&scene, 21, 23);
  crash_after(&scene, 24, 29);
  file_copy_to(scene_file(&scene, "backup.db"), scene.path);
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  CHECK(strstr(msgq_error_detail(), log_of(&scene)) != NULL && strstr(msgq_error_detail(), "move ") != NULL);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  REQUIRE_OK(msgq_check(scene.path, &report));
  CHECK_NUMBER(11, report.whole);
  CHECK(strstr(report.text, "does not belong") != NULL);
  REQUIRE(unlink(log_of(&scene)) == 0 && unlink(tail_of(&scene)) == 0);
  scene_open(&scene);
  check_everything(&scene, false);
  scene_end(&scene);
}

/* The log holds the upgrade of another store, with nothing of it in that store's database file yet. */
TEST_ALONE(D3_the_log_of_another_upgrade_beside_a_store_of_layout_1_is_refused) {
  struct scene scene, other;
  struct file_copy upgrade_log = { 0 };
  begin_layout1(&other, false);
  sql_run(other.path, "UPDATE state SET sequence_ceiling = sequence_ceiling + 7");
  /* The process is killed when the upgrade is in the log and not yet in the database. */
  struct snapshot before;
  snapshot_take(&before, other.directory);
  for (int number = 1; number < 200; number++) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    struct child child = child_start("open-until", other.path, text);
    if (child_wait(&child) == 0) break;
    if (file_exists(log_of(&other)) && file_size(log_of(&other)) > 4096 && file_is(other.path, &before.files[0])) {
      struct file_copy log = file_read(log_of(&other));
      scene_open(&other);
      CHECK_NUMBER(0, journal_count(&other.journal, MSGQ_EVENT_STORAGE));
      scene_close(&other);
      /* The last such log is complete. */
      file_copy_free(&upgrade_log);
      upgrade_log = log;
    }
    snapshot_restore(&before, other.directory);
  }
  REQUIRE(upgrade_log.size > 0);
  /* The log holds the upgrade: SQLite applies it to its own database. */
  file_write(log_of(&other), upgrade_log.bytes, upgrade_log.size);
  CHECK_NUMBER(2, sql_number(other.path, "PRAGMA user_version"));
  begin_layout1(&scene, false);
  file_write(log_of(&scene), upgrade_log.bytes, upgrade_log.size);
  REQUIRE(chmod(log_of(&scene), 0600) == 0);
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  REQUIRE(unlink(log_of(&scene)) == 0);
  scene_open(&scene);
  check_everything(&scene, false);
  file_copy_free(&upgrade_log);
  snapshot_free(&before);
  scene_end(&other);
  scene_end(&scene);
}
