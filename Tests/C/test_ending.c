/* The end of a process that did not close its queue: no crash, no hang, nothing lost. */
#include <stdio.h>
#include <string.h>

#include "child.h"
#include "scene.h"
#include "tests.h"

enum { messages = 20 };

/* Starts a process that sends and drains, ends in this way, and looks at what it left; so many times over. */
static void end_process(const char *way, int times) {
  struct scene scene;
  char report[64];
  scene_begin(&scene);
  for (int time = 0; time < times; time++) {
    char path[160];
    snprintf(path, sizeof path, "%s-%d", scene.path, time);
    struct child child = child_start("end-while-sending", path, way);
    child_line(&child, report, sizeof report);
    CHECK_TEXT("sending", report);
    int code = child_wait(&child);
    if (!CHECK_NUMBER(0, code)) fprintf(stderr, "  it ended by %s, time %d\n", way, time);
    msgq_counts counts = MSGQ_COUNTS_INIT;
    REQUIRE_OK(msgq_open(path, &scene.options, &scene.queue));
    REQUIRE_OK(msgq_count(scene.queue, NULL, &counts));
    CHECK_NUMBER(messages, counts.queued + counts.sent);
    REQUIRE_OK(msgq_close(scene.queue, -1));
    scene.queue = NULL;
  }
  scene_end(&scene);
}

TEST(Q3_a_process_returns_from_main_while_it_sends) { end_process("return", 50); }
TEST(Q3_a_process_calls_exit_while_it_sends) { end_process("exit", 50); }
TEST(Q3_a_process_exits_from_another_thread) { end_process("thread-exit", 20); }
TEST(Q3_a_process_calls_quick_exit_while_it_sends) { end_process("quick_exit", 50); }
TEST(Q3_a_process_loses_its_main_thread_while_it_sends) { end_process("pthread_exit", 50); }
TEST(Q3_a_process_exits_inside_a_transport) { end_process("transport", 20); }
TEST(Q3_a_process_exits_inside_a_handler) { end_process("handler", 20); }
TEST(close_from_an_exit_handler) { end_process("atexit", 20); }
TEST(close_from_a_destructor_of_the_program) { end_process("destructor", 20); }

const struct check_test ending_tests[] = {
  ROW(Q3_a_process_returns_from_main_while_it_sends),
  ROW(Q3_a_process_calls_exit_while_it_sends),
  ROW(Q3_a_process_exits_from_another_thread),
  ROW(Q3_a_process_calls_quick_exit_while_it_sends),
  ROW(Q3_a_process_loses_its_main_thread_while_it_sends),
  ROW(Q3_a_process_exits_inside_a_transport),
  ROW(Q3_a_process_exits_inside_a_handler),
  ROW(close_from_an_exit_handler),
  ROW(close_from_a_destructor_of_the_program),
  ROWS_END,
};
