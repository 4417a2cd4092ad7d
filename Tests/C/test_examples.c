/* The example programs, run against an HTTP receiver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "receiver.h"
#include "scene.h"

enum { lines_room = 64 };

/* Runs an example with the port of the receiver, if there is one, and the store of the scene. Copies its output; returns the number of
   lines. */
static size_t run_example(const char *name, struct receiver *receiver, struct scene *scene, char (*lines)[128]) {
  char command[512], port[16] = "";
  const char *slash = strrchr(child_program, '/');
  size_t count = 0;
  REQUIRE(slash != NULL);
  if (receiver != NULL) snprintf(port, sizeof port, "%d", receiver_port(receiver));
  snprintf(command, sizeof command, "'%.*s/example-%s' %s '%s'", (int)(slash - child_program), child_program, name, port, scene->path);
  FILE *output = popen(command, "re");
  REQUIRE(output != NULL);
  while (count < lines_room && fgets(lines[count], sizeof lines[0], output) != NULL) {
    lines[count][strcspn(lines[count], "\n")] = '\0';
    count++;
  }
  CHECK_NUMBER(0, pclose(output));
  return count;
}

TEST(T1_the_shop_example_sends_each_order_once_in_order) {
  struct scene scene;
  char lines[lines_room][128];
  int next[3] = { 0, 1, 2 };
  scene_begin(&scene);
  size_t count = run_example("shop", NULL, &scene, lines);
  CHECK_NUMBER(12, count);
  for (size_t index = 0; index < count; index++) {
    char expected[64];
    int customer = lines[index][3] == 'a' ? 0 : lines[index][3] == 'b' ? 1 : 2;
    snprintf(expected, sizeof expected, "to %s: order %d", customer == 0 ? "ana" : customer == 1 ? "ben" : "cem", next[customer]);
    CHECK_TEXT(expected, lines[index]);
    next[customer] += 3;
  }
  scene_end(&scene);
}

TEST(A10_X7_the_epoll_example_has_three_in_flight) {
  static const char *const names[] = { "ana", "ben", "cem" };
  struct scene scene;
  char lines[lines_room][128], accepted[2048], stored[2048];
  scene_begin(&scene);
  struct receiver *receiver = receiver_start(0);
  receiver_together(receiver, 3);
  size_t count = run_example("epoll", receiver, &scene, lines);
  CHECK_NUMBER(9 * 3 + 1, count); /* queued, sending, sent, and the report */
  REQUIRE(count > 0);
  CHECK_TEXT("9 sent, 0 failed, 0 left", lines[count - 1]);
  CHECK_NUMBER(9, receiver_accepted(receiver, NULL));
  CHECK_NUMBER(9, receiver_requests(receiver, NULL));
  CHECK_NUMBER(3, receiver_most_together(receiver));
  /* The receiver got each conversation in the order of the store. */
  scene_open(&scene);
  for (int index = 0; index < 3; index++) {
    msgq_filter filter = MSGQ_FILTER_INIT;
    filter.conversation = names[index];
    filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_SENT);
    ids_of(&scene, &filter, stored, sizeof stored);
    receiver_order(receiver, names[index], accepted, sizeof accepted);
    CHECK(strlen(stored) > 0);
    CHECK_TEXT(stored, accepted);
  }
  receiver_stop(receiver);
  scene_end(&scene);
}

TEST(Q18_the_epoll_example_reports_failures) {
  struct scene scene;
  char lines[lines_room][128];
  scene_begin(&scene);
  struct receiver *receiver = receiver_start(0);
  receiver_answer(receiver, NULL, 503, 3, NULL);
  size_t count = run_example("epoll", receiver, &scene, lines);
  REQUIRE(count > 0);
  CHECK_TEXT("6 sent, 3 failed, 0 left", lines[count - 1]);
  receiver_stop(receiver);
  scene_open(&scene);
  CHECK_NUMBER(3, counts_of(&scene, NULL).failed);
  CHECK_NUMBER(6, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}

TEST(X14_the_small_program_checks_itself) {
  static const char *const expected[] = { "Queued", "Sending…", "to ana: hello", "Sent", "all checks passed" };
  struct scene scene;
  char lines[lines_room][128];
  scene_begin(&scene);
  size_t count = run_example("small", NULL, &scene, lines);
  REQUIRE(count == sizeof expected / sizeof expected[0]);
  /* The transport and the handler print on different threads. */
  for (size_t line = 0; line < count; line++) {
    bool found = false;
    for (size_t index = 0; index < count; index++) found = found || strcmp(expected[line], lines[index]) == 0;
    CHECK(found);
  }
  CHECK_TEXT("all checks passed", lines[count - 1]);
  scene_open(&scene);
  CHECK_NUMBER(1, counts_of(&scene, "ana").sent);
  scene_end(&scene);
}
