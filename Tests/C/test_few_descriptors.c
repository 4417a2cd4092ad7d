/* Stores that are used while the process has few descriptors left. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "stores.h"
#include "stub.h"

/* What is done with a store while few descriptors are free. */
enum user { by_check, by_salvage, by_reader, by_owner };

static msgq_result use_store(enum user user, struct scene *scene, const char *to, msgq_check_report *report) {
  if (user == by_check) return msgq_check(scene->path, report);
  if (user == by_salvage) return msgq_salvage(scene->path, to, report);
  msgq_queue *queue = NULL;
  msgq_options options = scene->options;
  options.read_only = user == by_reader;
  options.refuse_lost_tail = true;
  msgq_result result = msgq_open(scene->path, &options, &queue);
  *report = (msgq_check_report)MSGQ_CHECK_REPORT_INIT;
  if (result != MSGQ_OK) return result;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_count(queue, NULL, &counts));
  report->whole = counts.queued;
  report->sound = true;
  /* A store that was opened is closed as it was: nothing was changed. */
  CHECK_RESULT(MSGQ_OK, msgq_close(queue, 1000));
  return result;
}

/* A file that cannot be opened is an error, and never taken for a missing or damaged one. */
static void use_with_few_descriptors(enum user user) {
  struct scene scene;
  struct rlimit before, few;
  struct snapshot crashed;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  crash_after(&scene, 4, 9);
  snapshot_take(&crashed, scene.directory);
  const char *to = scene_file(&scene, "salvaged.db");
  int lowest = dup(0), failures = 0;
  REQUIRE(lowest >= 0 && close(lowest) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
  few = before;
  msgq_result result = MSGQ_STORAGE;
  for (int free_ones = 0; free_ones < 30 && failures < 30; free_ones++) {
    msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
    few.rlim_cur = (rlim_t)(lowest + free_ones);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    result = use_store(user, &scene, to, &report);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    if (result == MSGQ_OK) {
      CHECK(report.sound);
      CHECK_NUMBER(9, report.whole);
      if (!report.sound) printf("  with %d free descriptors: %s\n", free_ones, report.text);
      break;
    }
    failures++;
    if (!CHECK_RESULT(MSGQ_STORAGE, result)) printf("  with %d free descriptors: %s\n", free_ones, msgq_error_detail());
    CHECK(!file_exists(to));
    if (user != by_owner) CHECK(snapshot_holds(&crashed, scene.directory));
  }
  CHECK_RESULT(MSGQ_OK, result);
  CHECK(failures >= 2);
  scene_open(&scene);
  check_numbered(&scene, 1, 9);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  snapshot_free(&crashed);
  scene_end(&scene);
}

TEST_ALONE(D15_a_check_without_descriptors_is_an_error_and_finds_nothing) { use_with_few_descriptors(by_check); }
TEST_ALONE(D15_a_salvage_without_descriptors_is_an_error_and_loses_nothing) { use_with_few_descriptors(by_salvage); }
TEST_ALONE(D16_a_read_only_open_without_descriptors_is_an_error_and_loses_nothing) { use_with_few_descriptors(by_reader); }
TEST_ALONE(D7_an_open_without_descriptors_is_an_error_and_loses_nothing) { use_with_few_descriptors(by_owner); }

/* The store was closed, and the option would change it. */
static void open_with_few_descriptors(msgq_callbacks callbacks, bool exists) {
  struct scene scene;
  struct rlimit before, few;
  struct snapshot closed;
  scene_begin(&scene);
  if (exists) close_after(&scene, 1, 3);
  snapshot_take(&closed, scene.directory);
  scene.options.callbacks = callbacks;
  scene.options.keep_changes = 10;
  int lowest = dup(0), failures = 0;
  REQUIRE(lowest >= 0 && close(lowest) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
  few = before;
  msgq_result result = MSGQ_STORAGE;
  msgq_queue *queue = NULL;
  for (int free_ones = 0; free_ones < 30; free_ones++) {
    few.rlim_cur = (rlim_t)(lowest + free_ones);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    result = msgq_open(scene.path, &scene.options, &queue);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    if (result == MSGQ_OK) break;
    failures++;
    if (!CHECK_RESULT(MSGQ_STORAGE, result)) break;
    if (!CHECK(snapshot_holds(&closed, scene.directory))) printf("  with %d free descriptors: %s\n", free_ones, msgq_error_detail());
  }
  CHECK_RESULT(MSGQ_OK, result);
  CHECK(failures >= 2);
  if (queue != NULL) CHECK_RESULT(MSGQ_OK, msgq_close(queue, 1000));
  snapshot_free(&closed);
  scene_end(&scene);
}

TEST_ALONE(D7_an_open_without_descriptors_leaves_a_closed_store_as_it_is) { open_with_few_descriptors(MSGQ_CALLBACKS_THREAD, true); }
TEST_ALONE(D7_an_open_to_poll_without_descriptors_leaves_a_closed_store_as_it_is) { open_with_few_descriptors(MSGQ_CALLBACKS_POLL, true); }
TEST_ALONE(D7_an_open_without_descriptors_leaves_no_new_store) { open_with_few_descriptors(MSGQ_CALLBACKS_POLL_TIMER, false); }

/* A container may limit the number of threads, as this limits their stacks. */
TEST_ALONE(Q20_a_drain_without_a_thread_ends_and_the_state_says_why) {
  struct scene scene;
  struct stub stub;
  struct rlimit before;
  long pages = 0;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  for (int number = 0; number < 3; number++) REQUIRE_OK(msgq_enqueue(scene.queue, &(msgq_draft)MSGQ_DRAFT_INIT, NULL));
  FILE *sizes = fopen("/proc/self/statm", "r");
  REQUIRE(sizes != NULL && fscanf(sizes, "%ld", &pages) == 1);
  fclose(sizes);
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  REQUIRE(setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)pages * 4096 + (1 << 20), before.rlim_max}) == 0);
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_state state = MSGQ_STATE_INIT;
  const msgq_result drained = msgq_drain(scene.queue, NULL, &report);
  REQUIRE_OK(msgq_get_state(scene.queue, &state));
  setrlimit(RLIMIT_AS, &before);
  CHECK_RESULT(MSGQ_OK, drained);
  CHECK_NUMBER(MSGQ_STOP_STORAGE, report.stop);
  CHECK_NUMBER(0, report.sent);
  CHECK(state.storage_trouble);
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  CHECK_NUMBER(3, drain(&scene).sent);
  REQUIRE_OK(msgq_get_state(scene.queue, &state));
  CHECK(!state.storage_trouble);
  scene_end(&scene);
}

/* An open that fails takes the new store away that it has made; the other process makes it again. */
TEST_ALONE(D7_an_open_without_descriptors_makes_no_other_one_fail) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.wait_ms = 10000;
  for (int round = 0; round < 40 && check_failures() == 0; round++) {
    pid_t child = child_fork();
    if (child == 0) {
      struct rlimit few;
      int lowest = dup(0);
      REQUIRE(lowest >= 0 && close(lowest) == 0 && getrlimit(RLIMIT_NOFILE, &few) == 0);
      few.rlim_cur = (rlim_t)(lowest + 5 + round % 6);
      REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
      msgq_queue *queue = NULL;
      if (msgq_open(scene.path, &scene.options, &queue) == MSGQ_OK) msgq_close(queue, 1000);
      child_end();
    }
    msgq_queue *queue = NULL;
    CHECK_RESULT(MSGQ_OK, msgq_open(scene.path, &scene.options, &queue));
    if (queue != NULL) CHECK_RESULT(MSGQ_OK, msgq_close(queue, 1000));
    child_await(child);
    unlink(scene.path);
  }
  scene_end(&scene);
}
