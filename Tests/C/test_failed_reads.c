/* A read that fails is not damage: msgq_check and msgq_salvage answer as without it, or STORAGE. */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "stores.h"

enum { kept = 60 };

/* Checks the new store, which has all messages. */
static void check_copy(const char *path) {
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_check(path, &report));
  CHECK(report.sound);
  CHECK_NUMBER(kept, report.whole);
  CHECK(unlink(path) == 0);
}

/* Calls both functions while `count` reads fail, from the n-th one on. Returns whether any failed. */
static bool run(struct scene *scene, const char *part, int number, int count) {
  const char *target = scene_file(scene, "new.db");
  bool failed = false;
  for (int copies = 0; copies < 2; copies++) {
    msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
    unsigned failures = check_failures();
    fault_reads_from(part, number, count);
    msgq_result result = copies ? msgq_salvage(scene->path, target, &report) : msgq_check(scene->path, &report);
    failed = failed || fault_reads() >= number;
    bool fired = fault_reads() >= number;
    fault_read("", 0);
    CHECK(result == MSGQ_OK || result == MSGQ_STORAGE);
    if (result == MSGQ_OK && (!fired || count == 1 || report.sound)) CHECK(report.sound && report.whole == kept);
    if (copies && result == MSGQ_OK && report.sound) check_copy(target);
    else if (copies && result == MSGQ_OK) CHECK(unlink(target) == 0);
    CHECK(!file_exists(target));
    if (check_failures() > failures) {
      fprintf(stderr, "  %s, read %d of %s, %d fail: %s: %s %s\n", copies ? "salvage" : "check", number, part, count, msgq_result_name(result),
              result == MSGQ_OK ? "" : msgq_error_detail(), report.text);
    }
  }
  return failed;
}

static void fail_each_read(const char *part, int count) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, kept / 2);
  crash_after(&scene, kept / 2 + 1, kept);
  struct snapshot before;
  snapshot_take(&before, scene.directory);
  int number = 1;
  unsigned failures = check_failures();
  while (run(&scene, part, number, count) && check_failures() < failures + 8) number += count == 1 ? 1 : 4;
  CHECK(number > 1); /* the side record is read once */
  CHECK(snapshot_holds(&before, scene.directory));
  snapshot_free(&before);
  scene_end(&scene);
}

TEST_ALONE(D8_D15_a_read_of_the_database_that_fails_once_is_not_taken_for_damage) { fail_each_read("outbox.db", 1); }
TEST_ALONE(D8_D15_a_read_of_the_log_that_fails_once_is_not_taken_for_damage) { fail_each_read("-wal", 1); }
TEST_ALONE(D8_D15_a_read_of_the_side_record_that_fails_once_is_not_taken_for_damage) { fail_each_read("-tail", 1); }

TEST_ALONE(D8_D15_a_read_of_the_new_file_of_salvage_that_fails_once_is_not_taken_for_damage) { fail_each_read(".msgq-new-", 1); }

/* A device that cannot be read any more. (The side record only tells what is missing.) */
TEST_ALONE(D8_D15_reads_that_keep_failing_are_reported_or_answer_STORAGE) {
  fail_each_read("outbox.db", INT_MAX / 2);
  fail_each_read("-wal", INT_MAX / 2);
}
