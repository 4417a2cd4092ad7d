/* Retries: delays, exhausted retries, manual retries. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

/* Begins a scene and a stub with a retryable failure. */
static void begin_failing(struct scene *scene, struct stub *stub) {
  scene_begin(scene);
  stub_begin(stub, MSGQ_VERDICT_RETRY);
  stub->kind = MSGQ_FAILURE_SERVER;
  stub->code = 503;
}

/* Drains until nothing is queued. Each drain sends what is due. */
static void drain_to_the_end(struct scene *scene) {
  int64_t end = steady_ms() + check_timeout_ms();
  while (drain(scene).remaining > 0 && steady_ms() < end) pause_ms(1);
  CHECK_NUMBER(0, counts_of(scene, NULL).queued);
}

TEST(R3_a_retry_is_a_new_attempt_with_the_same_id) {
  struct post post;
  post_begin_open(&post);
  receiver_answer(post.receiver, "a", 503, 1, NULL);
  put(&post.scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&post.scene).failed);
  CHECK_NUMBER(1, counts_of(&post.scene, NULL).failed);
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "a"));
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, receiver_requests(post.receiver, "a"));
  CHECK_NUMBER(2, attempts_of(&post.scene, "a"));
  CHECK_NUMBER(0, counts_of(&post.scene, NULL).failed);
  CHECK_NUMBER(MSGQ_FAILURE_NONE, failure_of(&post.scene, "a"));
  post_end(&post);
}

TEST(R11_retrying_a_message_that_has_not_failed_is_refused) {
  struct post post;
  post_begin_open(&post);
  put(&post.scene, "queued", "ana", "hello");
  CHECK_RESULT(MSGQ_CONFLICT, msgq_retry(post.scene.queue, "queued"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_retry(post.scene.queue, "gone"));
  drain(&post.scene);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_retry(post.scene.queue, "queued"));
  CHECK_NUMBER(1, receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST(R11_ten_quick_retries_make_one_attempt) {
  struct post post;
  int accepted = 0;
  post_begin_open(&post);
  receiver_answer(post.receiver, "a", 503, 1, NULL);
  put(&post.scene, "a", "ana", "hello");
  drain(&post.scene);
  receiver_hold(post.receiver, true);
  for (int time = 0; time < 10; time++) {
    msgq_result result = msgq_retry(post.scene.queue, "a");
    CHECK(result == MSGQ_OK || result == MSGQ_BUSY);
    if (result == MSGQ_OK) accepted++;
  }
  receiver_hold(post.receiver, false);
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, accepted);
  CHECK_NUMBER(2, receiver_requests(post.receiver, "a"));
  post_end(&post);
}

TEST(R8_a_manual_retry_ends_at_its_timeout) {
  struct scene scene;
  struct stub stub;
  begin_failing(&scene, &stub);
  scene.options.on_demand_timeout_ms = 100;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_PENDING; /* without an answer */
  int64_t start = steady_ms();
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED && failure_of(&scene, "a") == MSGQ_FAILURE_TIMEOUT);
  CHECK(steady_ms() - start >= 100);
  CHECK_NUMBER(2, attempts_of(&scene, "a"));
  scene_end(&scene);
}

TEST(M4_each_retry_uses_the_next_step_of_the_ladder) {
  static const int64_t ladder[] = { 600000, 1200000, 2400000 };
  struct scene scene;
  struct stub stub;
  int64_t slack = check_timeout_ms();
  begin_failing(&scene, &stub);
  set_ladder(&scene, ladder, 3);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(MSGQ_STOP_WAITING, drain(&scene).stop);
  for (int step = 0; step < 3; step++) {
    CHECK(delay_of(&scene, "a") >= ladder[step] && delay_of(&scene, "a") < ladder[step] + slack);
    CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
    AWAIT(atomic_load(&stub.calls) == step + 2 && status_of(&scene, "a") != MSGQ_STATUS_SENDING);
    CHECK_NUMBER(step < 2 ? MSGQ_STATUS_QUEUED : MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  }
  CHECK_NUMBER(4, attempts_of(&scene, "a"));
  scene_end(&scene);
}

TEST(M4_exponential_delays_grow_by_a_factor_up_to_a_cap) {
  static const int64_t expected[] = { 600000, 1800000, 2000000, 2000000 };
  struct scene scene;
  struct stub stub;
  int64_t slack = check_timeout_ms();
  begin_failing(&scene, &stub);
  scene.options.backoff = MSGQ_BACKOFF_EXPONENTIAL;
  scene.options.backoff_base_ms = 600000;
  scene.options.backoff_factor = 3;
  scene.options.backoff_cap_ms = 2000000;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  drain(&scene);
  for (int step = 0; step < 4; step++) {
    CHECK(delay_of(&scene, "a") >= expected[step] && delay_of(&scene, "a") < expected[step] + slack);
    CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
    AWAIT(atomic_load(&stub.calls) == step + 2 && status_of(&scene, "a") != MSGQ_STATUS_SENDING);
  }
  scene_end(&scene);
}

TEST(M4_no_attempt_starts_before_its_delay_has_passed) {
  static const int64_t ladder[] = { 30, 60 };
  struct scene scene;
  struct stub stub;
  msgq_ledger *ledger = NULL;
  begin_failing(&scene, &stub);
  set_ladder(&scene, ladder, 2);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  drain_to_the_end(&scene);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  REQUIRE_OK(msgq_attempts(scene.queue, "a", &ledger));
  REQUIRE(msgq_attempts_size(ledger) == 3);
  for (size_t step = 0; step < 2; step++) {
    int64_t gap = msgq_attempts_at(ledger, step + 1)->started_ms - msgq_attempts_at(ledger, step)->started_ms;
    CHECK(gap >= ladder[step] - 1); /* both times are truncated to milliseconds */
  }
  msgq_attempts_free(ledger);
  scene_end(&scene);
}

TEST(M4_in_manual_mode_a_message_fails_at_once) {
  struct scene scene;
  struct stub stub;
  begin_failing(&scene, &stub);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(1, attempts_of(&scene, "a"));
  scene_end(&scene);
}

TEST(A4_five_retries_then_failed) {
  struct scene scene;
  struct stub stub;
  begin_failing(&scene, &stub);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.backoff = MSGQ_BACKOFF_EXPONENTIAL;
  scene.options.backoff_base_ms = 1;
  scene.options.backoff_factor = 1;
  scene.options.backoff_cap_ms = 1;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(6, atomic_load(&stub.calls));
  CHECK_NUMBER(6, attempts_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_SERVER, failure_of(&scene, "a"));
  scene_end(&scene);
}

TEST(M5_exhausted_messages_can_be_discarded) {
  static const int64_t ladder[] = { 1 };
  struct scene scene;
  struct stub stub;
  struct entry entry;
  begin_failing(&scene, &stub);
  set_ladder(&scene, ladder, 1);
  scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  drain_to_the_end(&scene);
  CHECK_NUMBER(2, atomic_load(&stub.calls));
  CHECK_NUMBER(-1, status_of(&scene, "a"));
  REQUIRE(journal_last(&scene.journal, MSGQ_EVENT_DISCARDED, &entry));
  CHECK_TEXT("a", entry.id);
  CHECK_TEXT("ana", entry.conversation);
  CHECK_NUMBER(MSGQ_FAILURE_SERVER, entry.failure);
  REQUIRE(journal_last(&scene.journal, MSGQ_EVENT_DRAIN_FINISHED, &entry));
  CHECK_NUMBER(1, entry.report.discarded);
  scene_end(&scene);
}

TEST(M11_attempts_that_never_left_use_up_no_retry) {
  struct scene scene;
  struct stub stub;
  begin_failing(&scene, &stub);
  stub.verdict = MSGQ_VERDICT_OFFLINE;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ben", "hello");
  for (int time = 0; time < 10; time++) {
    msgq_report report = drain(&scene);
    CHECK(report.stop == MSGQ_STOP_OFFLINE && report.remaining == 2 && report.failed == 0);
  }
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(0, attempts_of(&scene, "a"));
  stub.verdict = MSGQ_VERDICT_SENT;
  CHECK_NUMBER(2, drain(&scene).sent);
  scene_end(&scene);
}
