/* Tests that fail, crash, hang and are skipped, each in another way. Tests/check_runner.py compares what the runner says. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "scene.h"

/* Counts in one process: a test that does not pass ends its process. */
static int tests_of_this_process;

static atomic_bool is_inside;

/* Its event arrives long after the test has failed. */
static msgq_verdict slow_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  (void)delivery;
  (void)out;
  atomic_store(&is_inside, true);
  pause_ms(300);
  return MSGQ_VERDICT_SENT;
}

TEST(passes_first) { CHECK_NUMBER(1, ++tests_of_this_process); }

TEST(fails_while_a_transport_runs) {
  struct scene scene;
  CHECK_NUMBER(2, ++tests_of_this_process);
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, slow_send, NULL, NULL));
  put(&scene, "a", "ana", "hello");
  AWAIT(atomic_load(&is_inside));
  REQUIRE(scene.queue == NULL);
}

/* It uses the stack and the memory of the test before, whose event would arrive now. */
TEST(passes_after_a_failure) {
  char area[16384];
  CHECK_NUMBER(1, ++tests_of_this_process);
  for (int time = 0; time < 50; time++) {
    memset(area, time, sizeof area);
    pause_ms(10);
    for (size_t index = 0; index < sizeof area; index++) REQUIRE(area[index] == time);
  }
}

TEST(fails_and_continues) {
  CHECK(tests_of_this_process == 0);
  CHECK(tests_of_this_process == -1);
}

TEST(crashes) { *(volatile int *)sizeof(int) = 1; }

TEST(aborts) { abort(); }

TEST(exits) { exit(0); }

TEST(hangs) {
  alarm(1);
  for (;;) pause();
}

TEST(is_skipped) {
  ++tests_of_this_process;
  SKIP("it cannot run");
}

TEST(passes_after_a_skip) { CHECK_NUMBER(1, ++tests_of_this_process); }

TEST(fails_in_a_fork) {
  pid_t child = child_fork();
  if (child == 0) {
    REQUIRE(tests_of_this_process == 0);
    child_end();
  }
  child_await(child);
}

TEST(passes_in_a_fork) {
  pid_t child = child_fork();
  if (child == 0) child_end();
  child_await(child);
}

TEST_ALONE(crashes_alone) { raise(SIGKILL); }

TEST(passes_last) { CHECK_NUMBER(1, ++tests_of_this_process); }
