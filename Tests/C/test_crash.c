/* SIGKILL during sending, and the state after the next open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "post.h"

/* Starts a child that sends one message, and kills it after the receiver got the request and before it answers. */
static void kill_in_mid_attempt(struct post *post) {
  char port[8];
  post_begin_open(post);
  put(&post->scene, "a", "ana", "hello");
  put(&post->scene, "b", "ana", "behind it");
  scene_close(&post->scene);
  receiver_hold(post->receiver, true);
  snprintf(port, sizeof port, "%u", (unsigned)receiver_port(post->receiver));
  struct child child = child_start("drain", post->scene.path, port);
  AWAIT(receiver_requests(post->receiver, "a") == 1);
  child_kill(&child);
  receiver_hold(post->receiver, false);
}

static void check_cut_attempt(struct scene *scene, const char *id) {
  msgq_ledger *ledger = NULL;
  REQUIRE_OK(msgq_attempts(scene->queue, id, &ledger));
  REQUIRE(msgq_ledger_size(ledger) == 1);
  const msgq_attempt *attempt = msgq_ledger_at(ledger, 0);
  CHECK_NUMBER(MSGQ_ATTEMPT_UNKNOWN, attempt->outcome);
  CHECK_NUMBER(MSGQ_FAILURE_UNKNOWN, attempt->kind);
  CHECK_NUMBER(MSGQ_ARRIVAL_PERHAPS, attempt->arrival);
  CHECK_NUMBER(-1, attempt->duration_ms);
  msgq_ledger_free(ledger);
}

TEST(X3_an_attempt_interrupted_by_a_crash_is_unknown_and_repeated) {
  struct post post;
  char order[64];
  kill_in_mid_attempt(&post);
  post_open(&post);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "a"));
  check_cut_attempt(&post.scene, "a");
  CHECK_NUMBER(2, drain(&post.scene).sent);
  CHECK_NUMBER(2, receiver_requests(post.receiver, "a")); /* once from each process, under the same id */
  CHECK_NUMBER(1, receiver_requests(post.receiver, "b"));
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("a a b", order); /* the message kept its place */
  post_end(&post);
}

TEST(X3_hold_interrupted_fails_an_interrupted_attempt) {
  struct post post;
  kill_in_mid_attempt(&post);
  post.scene.options.hold_interrupted = true;
  post_open(&post);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_UNKNOWN, failure_of(&post.scene, "a"));
  check_cut_attempt(&post.scene, "a");
  CHECK_NUMBER(1, drain(&post.scene).sent);
  CHECK_NUMBER(1, receiver_requests(post.receiver, "a"));
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "a"));
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, receiver_requests(post.receiver, "a"));
  post_end(&post);
}

TEST(Q12_accepted_messages_survive_kill_9) {
  struct scene scene;
  enum { acknowledged = 60 };
  static char ids[acknowledged][MSGQ_ID_SIZE];
  scene_begin(&scene);
  struct child child = child_start("compose", scene.path, "");
  for (int number = 0; number < acknowledged; number++) child_line(&child, ids[number], sizeof ids[number]);
  child_kill(&child);
  scene_open(&scene);
  uint64_t place = 0;
  for (int number = 0; number < acknowledged; number++) {
    msgq_message *message = NULL;
    unsigned body = 0;
    REQUIRE_OK(msgq_get(scene.queue, ids[number], &message));
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, message->status);
    CHECK_NUMBER(sizeof body, message->body_size);
    memcpy(&body, message->body, sizeof body);
    CHECK_NUMBER(number, body);
    CHECK(message->sequence > place);
    place = message->sequence;
    msgq_message_free(message);
  }
  CHECK(counts_of(&scene, NULL).queued >= acknowledged);
  scene_end(&scene);
}

TEST(R9_failed_messages_survive_kill_9) {
  struct post post;
  char port[8], line[32];
  post_begin_open(&post);
  for (int number = 0; number < 10; number++) put(&post.scene, NULL, "ana", "hello");
  put(&post.scene, "last", "ana", "hello");
  scene_close(&post.scene);
  receiver_answer(post.receiver, NULL, 404, 11, NULL);
  snprintf(port, sizeof port, "%u", (unsigned)receiver_port(post.receiver));
  struct child child = child_start("drain", post.scene.path, port);
  child_line(&child, line, sizeof line);
  CHECK_TEXT("drained", line);
  child_kill(&child);
  post_open(&post);
  CHECK_NUMBER(11, counts_of(&post.scene, NULL).failed);
  CHECK_NUMBER(MSGQ_FAILURE_NOT_FOUND, failure_of(&post.scene, "last"));
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "last"));
  AWAIT(status_of(&post.scene, "last") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(10, counts_of(&post.scene, NULL).failed);
  post_end(&post);
}

TEST(Q3_a_store_survives_repeated_kills) {
  struct scene scene;
  char id[MSGQ_ID_SIZE] = "";
  scene_begin(&scene);
  uint64_t queued = 0;
  for (int time = 0; time < 5; time++) {
    struct child child = child_start("compose", scene.path, "");
    for (int number = 0; number < 10; number++) child_line(&child, id, sizeof id);
    child_kill(&child);
    scene_open(&scene);
    uint64_t now = counts_of(&scene, NULL).queued;
    CHECK(now >= queued + 10);
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, id));
    queued = now;
    scene_close(&scene);
  }
  scene_end(&scene);
}
