/* SIGKILL during sending, and the state after the next open. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
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
  REQUIRE(msgq_attempts_size(ledger) == 1);
  const msgq_attempt *attempt = msgq_attempts_at(ledger, 0);
  CHECK_NUMBER(MSGQ_ATTEMPT_UNKNOWN, attempt->outcome);
  CHECK_NUMBER(MSGQ_FAILURE_UNKNOWN, attempt->kind);
  CHECK_NUMBER(MSGQ_ARRIVAL_PERHAPS, attempt->arrival);
  CHECK_NUMBER(-1, attempt->duration_ms);
  msgq_attempts_free(ledger);
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

/* A crash uses up a retry, so that a message which ends the process is not sent without end. It is never discarded. */
TEST_LONG(X3_a_message_of_crashed_attempts_fails_when_its_retries_are_used_up) {
  for (uint32_t retries = 0; retries <= 2; retries++) {
    struct post post;
    char port[8];
    uint64_t crashes = 1;
    kill_in_mid_attempt(&post);
    post.scene.options.max_retries = retries;
    post.scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
    snprintf(port, sizeof port, "%u", (unsigned)receiver_port(post.receiver));
    for (;; crashes++) {
      scene_open(&post.scene);
      msgq_status status = status_of(&post.scene, "a");
      scene_close(&post.scene);
      if (status != MSGQ_STATUS_QUEUED) break;
      REQUIRE(crashes < 5);
      receiver_hold(post.receiver, true);
      struct child child = child_start("drain", post.scene.path, port);
      AWAIT(receiver_requests(post.receiver, "a") == crashes + 1);
      child_kill(&child);
      receiver_hold(post.receiver, false);
    }
    CHECK_NUMBER(retries < 2 ? 2 : 3, crashes);
    scene_open(&post.scene);
    CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "a"));
    CHECK_NUMBER(MSGQ_FAILURE_UNKNOWN, failure_of(&post.scene, "a"));
    post_end(&post);
  }
}

static atomic_bool was_called;

/* Tells the test that it was called. */
static msgq_verdict telling_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)delivery, (void)out;
  (void)!write(*(int *)context, "x", 1);
  atomic_store(&was_called, true);
  return MSGQ_VERDICT_SENT;
}

/* Enqueues "a", which is sent at once, in a process that is killed before its n-th change of the store's files. Returns whether it was
   killed. */
static bool enqueue_until_killed(const struct scene *scene, int change, int *told) {
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct scene own = *scene;
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.id = "a";
    scene_open(&own);
    if (msgq_set_transport(own.queue, telling_send, told, NULL) != MSGQ_OK) _exit(1);
    fault_change(own.path, change);
    if (msgq_enqueue(own.queue, &draft, NULL) != MSGQ_OK) _exit(1);
    while (!atomic_load(&was_called)) pause_ms(1);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

/* An attempt that was counted although the transport was not called would use a retry, and a conflict would count as sent. */
TEST_LONG(X3_a_process_that_ends_before_the_call_of_the_transport_has_made_no_attempt) {
  bool was_killed = true;
  for (int change = 1; was_killed && change < 100; change++) {
    struct scene scene;
    int pipes[2];
    char byte;
    REQUIRE(pipe(pipes) == 0 && fcntl(pipes[0], F_SETFL, O_NONBLOCK) == 0);
    scene_begin(&scene);
    scene.options.mode = MSGQ_MODE_AUTO;
    scene_open(&scene);
    scene_close(&scene);
    was_killed = enqueue_until_killed(&scene, change, &pipes[1]);
    bool is_told = read(pipes[0], &byte, 1) == 1;
    scene.options.mode = MSGQ_MODE_MANUAL;
    scene_open(&scene);
    msgq_message *message = NULL;
    msgq_result found = msgq_get(scene.queue, "a", &message);
    CHECK(found == MSGQ_OK || (found == MSGQ_NOT_FOUND && was_killed));
    if (message != NULL && !is_told) CHECK_NUMBER(0, message->attempts);
    msgq_message_free(message);
    scene_end(&scene);
    close(pipes[0]);
    close(pipes[1]);
  }
  CHECK(!was_killed);
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

TEST_LONG(Q3_a_store_survives_repeated_kills) {
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
