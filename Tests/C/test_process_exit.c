/* Processes that exit without closing their queue: no crash, no hang, nothing lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "scene.h"

enum { messages = 20 };

/* Starts a process that sends and drains and exits in the given way, then checks the store; `many` times. */
static void end_process(const char *way, int many) {
  struct scene scene;
  char report[64];
  scene_begin(&scene);
  for (int time = 0; time < many; time++) {
    char path[160];
    snprintf(path, sizeof path, "%s-%d", scene.path, time);
    struct child child = child_start("end-while-sending", path, way);
    child_line(&child, report, sizeof report);
    CHECK_TEXT("sending", report);
    int code = child_wait(&child);
    if (!CHECK_NUMBER(0, code)) fprintf(stderr, "  exit by %s, run %d\n", way, time);
    msgq_counts counts = MSGQ_COUNTS_INIT;
    REQUIRE_OK(msgq_open(path, &scene.options, &scene.queue));
    REQUIRE_OK(msgq_count(scene.queue, NULL, &counts));
    CHECK_NUMBER(messages, counts.queued + counts.sent);
    REQUIRE_OK(msgq_close(scene.queue, -1));
    scene.queue = NULL;
  }
  scene_end(&scene);
}

static int times(void) { return getenv("MSGQ_SOAK") != NULL ? 200 : 20; }

TEST_ALONE(Q3_a_process_returns_from_main_while_it_sends) { end_process("return", times()); }
TEST_ALONE(Q3_a_process_calls_exit_while_it_sends) { end_process("exit", times()); }
TEST_ALONE(Q3_a_process_exits_from_another_thread) { end_process("thread-exit", times()); }
TEST_ALONE(Q3_a_process_calls_quick_exit_while_it_sends) { end_process("quick_exit", times()); }
TEST_ALONE(Q3_a_process_ends_its_main_thread_while_it_sends) { end_process("pthread_exit", times()); }
TEST_ALONE(Q3_a_process_exits_inside_a_transport) { end_process("transport", times()); }
TEST_ALONE(Q3_a_process_exits_inside_a_handler) { end_process("handler", times()); }
TEST_ALONE(close_from_an_exit_handler) { end_process("atexit", times()); }
TEST_ALONE(close_from_a_destructor_of_the_program) { end_process("destructor", times()); }
