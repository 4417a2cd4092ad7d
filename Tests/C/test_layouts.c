/* Stores of earlier layouts: what the first builds of layout 2 lack is added without a loss, also when that is interrupted; layout 1 is refused.
   UpgradeTests.swift shows the upgrade to a later layout, and power cuts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
#include "stores.h"
#include "stub.h"

enum { sent = 3, queued = 20 };

/* Makes a closed store as a build of layout 2 before the tables of the history and priorities did. */
static void begin_older(struct scene *scene) {
  struct stub stub;
  scene_begin(scene);
  scene->options.keep_sent_ms = -1;
  scene_open(scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene->queue, stub_send, &stub, NULL));
  put_each(scene, { "s1", "ben", "first" }, { "s2", "ben", "second" }, { "s3", "cem", "third" });
  CHECK_NUMBER(sent, drain(scene).sent);
  put_numbered(scene, 1, queued);
  scene_close(scene);
  sql_run(scene->path, "DROP TABLE history; DROP TABLE history_in; DROP TABLE recent_own; DROP INDEX message_priority");
}

/* Checks that the open queue has everything. */
static void check_everything(struct scene *scene) {
  static const char *const ids[sent] = { "s1", "s2", "s3" };
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *list = NULL;
  check_numbered(scene, 1, queued);
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_SENT);
  REQUIRE_OK(msgq_list(scene->queue, &filter, &list));
  if (CHECK_NUMBER(sent, msgq_list_size(list))) {
    for (size_t index = 0; index < sent; index++) CHECK_TEXT(ids[index], msgq_list_at(list, index)->id);
  }
  msgq_list_free(list);
  CHECK_NUMBER(sent, counts_of(scene, NULL).sent);
}

static int64_t added_objects(struct scene *scene) {
  return sql_number(scene->path,
                    "SELECT count(*) FROM sqlite_schema WHERE name IN ('history', 'history_in', 'recent_own', 'message_priority')");
}

TEST(D17_a_store_without_the_tables_of_the_history_keeps_everything) {
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
  CHECK_NUMBER(queued + 1, drain(&scene).sent);
  scene_end(&scene);
}

/* The process is killed before the n-th change of a file, for every n. */
TEST_ALONE(D17_an_upgrade_survives_a_crash_at_every_change) {
  struct scene scene;
  struct snapshot before;
  begin_older(&scene);
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
    check_everything(&scene);
    if (check_failures() > failures) fprintf(stderr, "  after a crash before change %d\n", number);
    scene_close(&scene);
    CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
    snapshot_restore(&before, scene.directory);
  }
  CHECK(number > 10 && number < 500);
  snapshot_free(&before);
  scene_end(&scene);
}

/* Each flush of the upgrade fails once. */
TEST_ALONE(D17_an_upgrade_survives_every_failed_flush) {
  struct scene scene;
  struct snapshot before;
  begin_older(&scene);
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
    check_everything(&scene);
    scene_close(&scene);
    snapshot_restore(&before, scene.directory);
  }
  CHECK(number > 4 && number < 100);
  snapshot_free(&before);
  scene_end(&scene);
}

TEST(D4_a_store_marked_as_later_in_its_log_is_refused_untouched) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  sql_run_in_log(scene.path, "PRAGMA user_version = 3");
  check_refused(&scene, MSGQ_TOO_NEW, "layout 3");
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
