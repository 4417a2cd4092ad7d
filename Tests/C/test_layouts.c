/* Stores of earlier layouts: layouts 2 and 3 are upgraded without a loss, and what the first builds of layout 2 lack is added, also when that
   is interrupted; layout 1 is refused. UpgradeTests.swift shows the upgrade to a later layout, and power cuts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
#include "stores.h"
#include "stub.h"

enum { total = 20, queued = 11, scheduled = 1 };

/* A closed store that a build of an earlier layout wrote. */
static void begin_fixture(struct scene *scene, const char *fixture) {
  scene_begin(scene);
  scene->options.keep_sent_ms = -1;
  struct file_copy store = file_read(fixture);
  file_write(scene->path, store.bytes, store.size);
  file_copy_free(&store);
}

static void begin_layout_2(struct scene *scene) { begin_fixture(scene, FIXTURES "/layout2.db"); }
static void begin_layout_3(struct scene *scene) { begin_fixture(scene, FIXTURES "/layout3.db"); }

/* Checks that the open queue has its messages, and all that is derived from them. */
static void check_everything(struct scene *scene) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUSES_ALL;
  for (filter.order = MSGQ_ORDER_SEQUENCE; filter.order <= MSGQ_ORDER_TIME; filter.order++) {
    msgq_page *list = NULL;
    REQUIRE_OK(msgq_list(scene->queue, &filter, &list));
    CHECK_NUMBER(total, msgq_list_size(list));
    for (size_t index = 0; index < msgq_list_size(list); index++) {
      const msgq_message *message = msgq_list_at(list, index);
      CHECK_NUMBER(message->created_ms, message->time_ms);
      CHECK(message->failure == NULL || message->failure->kind != MSGQ_FAILURE_UNKNOWN);
    }
    msgq_list_free(list);
  }
  msgq_counts counts = counts_of(scene, NULL);
  CHECK_NUMBER(queued, counts.queued);
  CHECK_NUMBER(2, counts.failed);
  CHECK_NUMBER(4, counts.sent);
  CHECK_NUMBER(2, counts.received);
}

/* The same as a build of layout 2 before the tables of the history and priorities left it. */
static void begin_older(struct scene *scene) {
  begin_layout_2(scene);
  sql_run(scene->path, "DROP TABLE history; DROP TABLE history_in; DROP TABLE recent_own; DROP INDEX message_priority");
}

static int64_t added_objects(struct scene *scene) {
  return sql_number(scene->path,
                    "SELECT count(*) FROM sqlite_schema WHERE name IN ('history', 'history_in', 'recent_own', 'message_priority')");
}

TEST_LONG(D17_a_store_without_the_tables_of_the_history_keeps_everything) {
  struct scene scene;
  struct stub stub;
  begin_older(&scene);
  CHECK_NUMBER(0, added_objects(&scene));
  unlink(scene_file(&scene, "outbox.db-shm")); /* of the reader above */
  scene_open(&scene);
  check_everything(&scene);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  scene_close(&scene);
  CHECK_NUMBER(1, directory_entries(scene.directory));
  CHECK_NUMBER(4, added_objects(&scene));
  CHECK_NUMBER(1, sql_number(scene.path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"));
  scene_open(&scene);
  check_everything(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "new", "ana", "new");
  CHECK_NUMBER(queued - scheduled + 1, drain(&scene).sent);
  scene_end(&scene);
}

/* Calls `check` after the process was killed before the n-th change of a file while it opened a store, for every n. */
static void kill_each_change(struct scene *scene, void (*check)(struct scene *scene)) {
  struct snapshot before;
  snapshot_take(&before, scene->directory);
  int number = 1;
  for (int code = -1; code != 0 && number < 500; number++) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    struct child child = child_start("open-until", scene->path, text);
    code = child_wait(&child);
    CHECK(code == -1 || code == 0);
    scene_open(scene);
    unsigned failures = check_failures();
    check(scene);
    if (check_failures() > failures) fprintf(stderr, "  after a crash before change %d\n", number);
    scene_close(scene);
    CHECK_NUMBER(0, journal_count(&scene->journal, MSGQ_EVENT_STORAGE));
    msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
    CHECK_RESULT(MSGQ_OK, msgq_check(scene->path, &report));
    CHECK(report.sound);
    snapshot_restore(&before, scene->directory);
  }
  CHECK(number > 10 && number < 500);
  snapshot_free(&before);
}

TEST_ALONE(D17_an_upgrade_survives_a_crash_at_every_change) {
  struct scene scene;
  begin_older(&scene);
  kill_each_change(&scene, check_everything);
  scene_end(&scene);
}

TEST_ALONE(D17_an_upgrade_from_layout_2_survives_a_crash_at_every_change) {
  struct scene scene;
  begin_layout_2(&scene);
  kill_each_change(&scene, check_everything);
  CHECK_NUMBER(2, sql_number(scene.path, "PRAGMA user_version"));
  scene_end(&scene);
}

TEST_ALONE(D17_an_upgrade_from_layout_3_survives_a_crash_at_every_change) {
  struct scene scene;
  begin_layout_3(&scene);
  kill_each_change(&scene, check_everything);
  CHECK_NUMBER(3, sql_number(scene.path, "PRAGMA user_version"));
  scene_end(&scene);
}

/* Calls `check` after each flush of the opening of a store failed once. */
static void fail_each_flush(struct scene *scene, void (*check)(struct scene *scene)) {
  struct snapshot before;
  snapshot_take(&before, scene->directory);
  bool failed = true;
  int number = 1;
  for (; failed && number < 100; number++) {
    fault_sync_at(number);
    msgq_result result = msgq_open(scene->path, &scene->options, &scene->queue);
    if (scene->queue != NULL) msgq_close(scene->queue, 1000);
    scene->queue = NULL;
    failed = fault_sync_at(0);
    if (!(failed && result == MSGQ_STORAGE)) CHECK_RESULT(MSGQ_OK, result);
    scene_open(scene);
    check(scene);
    scene_close(scene);
    snapshot_restore(&before, scene->directory);
  }
  CHECK(number > 4 && number < 100);
  snapshot_free(&before);
}

TEST_ALONE(D17_an_upgrade_survives_every_failed_flush) {
  struct scene scene;
  begin_older(&scene);
  fail_each_flush(&scene, check_everything);
  scene_end(&scene);
}

TEST_ALONE(D17_an_upgrade_from_layout_2_survives_every_failed_flush) {
  struct scene scene;
  begin_layout_2(&scene);
  fail_each_flush(&scene, check_everything);
  scene_end(&scene);
}

TEST_ALONE(D17_an_upgrade_from_layout_3_survives_every_failed_flush) {
  struct scene scene;
  begin_layout_3(&scene);
  fail_each_flush(&scene, check_everything);
  scene_end(&scene);
}

TEST(D4_a_store_marked_as_later_in_its_log_is_refused_untouched) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  sql_run_in_log(scene.path, "PRAGMA user_version = 5");
  check_refused(&scene, MSGQ_TOO_NEW, "layout 5");
  scene_end(&scene);
}

TEST(D2_a_damaged_store_without_the_tables_of_the_history_is_refused_untouched) {
  struct scene scene;
  begin_older(&scene);
  struct file_copy whole = file_read(scene.path);
  memset(whole.bytes + 8 * 2048, 0x55, whole.size - 8 * 2048);
  file_write(scene.path, whole.bytes, whole.size);
  file_copy_free(&whole);
  check_refused(&scene, MSGQ_CORRUPT, "damaged");
  scene_end(&scene);
}

/* Checks that every function refuses the store, with a text that advises nothing. */
static void check_layout_1(struct scene *scene) {
  static const char *const advice[] = { "salvage", "move", "check" };
  const char *text = "has layout 1, written by a development version";
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  check_refused(scene, MSGQ_CORRUPT, text);
  for (size_t index = 0; index < sizeof advice / sizeof *advice; index++) CHECK(strstr(msgq_error_detail(), advice[index]) == NULL);
  scene->options.read_only = true;
  check_refused(scene, MSGQ_CORRUPT, text);
  scene->options.read_only = false;
  struct snapshot before;
  snapshot_take(&before, scene->directory);
  CHECK_RESULT(MSGQ_CORRUPT, msgq_check(scene->path, &report));
  CHECK(strstr(msgq_error_detail(), text) != NULL);
  CHECK_RESULT(MSGQ_CORRUPT, msgq_salvage(scene->path, scene_file(scene, "new.db"), &report));
  CHECK(strstr(msgq_error_detail(), text) != NULL);
  CHECK(snapshot_holds(&before, scene->directory));
  snapshot_free(&before);
}

TEST(D2_a_store_of_layout_1_is_refused_untouched) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  sql_run(scene.path, "PRAGMA user_version = 1");
  check_layout_1(&scene);
  /* Its upgrade by a development version was interrupted. */
  sql_run_in_log(scene.path, "PRAGMA user_version = 2");
  check_layout_1(&scene);
  scene_end(&scene);
}
