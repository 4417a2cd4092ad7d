/* Expiry, not-before times, metered links, and the ledger of attempts. */
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

static void put_draft(struct scene *scene, const char *id, int64_t not_before_ms, int64_t expires_at_ms, bool unmetered_only) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = id;
  draft.not_before_ms = not_before_ms;
  draft.expires_at_ms = expires_at_ms;
  draft.unmetered_only = unmetered_only;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

TEST(X4_an_expired_message_is_not_sent) {
  struct post post;
  post_begin_open(&post);
  int64_t expiry = wall_ms() + 20;
  put_draft(&post.scene, "late", 0, expiry, false);
  AWAIT(wall_ms() > expiry);
  drain(&post.scene);
  AWAIT(status_of(&post.scene, "late") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(MSGQ_FAILURE_EXPIRED, failure_of(&post.scene, "late"));
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  put_draft(&post.scene, "in-time", 0, wall_ms() + 3600000, false);
  CHECK_NUMBER(1, drain(&post.scene).sent);
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "late")); /* a manual retry is possible */
  AWAIT(status_of(&post.scene, "late") == MSGQ_STATUS_SENT);
  post_end(&post);
}

TEST(X5_a_message_is_not_sent_before_its_time) {
  struct post post;
  post_begin_open(&post);
  put_draft(&post.scene, "tomorrow", wall_ms() + 86400000, 0, false);
  put_draft(&post.scene, "yesterday", wall_ms() - 86400000, 0, false);
  msgq_report report = drain(&post.scene);
  CHECK_NUMBER(MSGQ_STOP_WAITING, report.stop);
  CHECK(report.sent == 1 && report.remaining == 1);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "tomorrow"));
  post_end(&post);
}

TEST(X5_an_unmetered_only_message_is_not_sent_over_a_metered_link) {
  struct post post;
  post_begin_open(&post);
  REQUIRE_OK(msgq_set_connectivity(post.scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, true));
  put_draft(&post.scene, "large", 0, 0, true);
  put_draft(&post.scene, "small", 0, 0, false);
  msgq_report report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_WAITING && report.sent == 1 && report.remaining == 1);
  REQUIRE_OK(msgq_set_connectivity(post.scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false));
  CHECK_NUMBER(1, drain(&post.scene).sent);
  post_end(&post);
}

static void check_attempt(const msgq_ledger *ledger, size_t index, msgq_attempt_outcome outcome, msgq_failure_kind kind, int32_t code,
                          msgq_arrival arrival) {
  const msgq_attempt *attempt = msgq_attempts_at(ledger, index);
  REQUIRE(attempt != NULL);
  CHECK_NUMBER(sizeof *attempt, attempt->struct_size);
  CHECK_NUMBER(index + 1, attempt->number);
  CHECK_NUMBER(outcome, attempt->outcome);
  CHECK_NUMBER(kind, attempt->kind);
  CHECK_NUMBER(code, attempt->code);
  CHECK_NUMBER(arrival, attempt->arrival);
  CHECK(attempt->text != NULL && attempt->started_ms > 0 && attempt->duration_ms >= 0);
}

TEST(X2_the_ledger_survives_a_restart) {
  struct post post;
  msgq_ledger *ledger = NULL;
  post_begin_open(&post);
  put(&post.scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_attempts(post.scene.queue, "b", &ledger));
  REQUIRE_OK(msgq_attempts(post.scene.queue, "a", &ledger));
  CHECK_NUMBER(0, msgq_attempts_size(ledger));
  CHECK(msgq_attempts_at(ledger, 0) == NULL);
  msgq_attempts_free(ledger);
  receiver_answer(post.receiver, "a", 503, 1, NULL);
  receiver_answer(post.receiver, "a", 400, 1, NULL);
  drain(&post.scene);
  for (int time = 0; time < 2; time++) {
    CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "a"));
    AWAIT(receiver_requests(post.receiver, "a") == (size_t)time + 2 && status_of(&post.scene, "a") != MSGQ_STATUS_SENDING);
  }
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&post.scene, "a"));
  scene_close(&post.scene);
  scene_open(&post.scene);
  REQUIRE_OK(msgq_attempts(post.scene.queue, "a", &ledger));
  CHECK_NUMBER(3, msgq_attempts_size(ledger));
  CHECK(msgq_attempts_at(ledger, 3) == NULL);
  const msgq_attempt *first = msgq_attempts_at(ledger, 0);
  REQUIRE(first != NULL);
  CHECK_NUMBER(MSGQ_ATTEMPT_RETRY, first->outcome);
  CHECK_NUMBER(503, first->code);
  CHECK_TEXT("HTTP 503", first->text);
  CHECK_NUMBER(MSGQ_ATTEMPT_REJECTED, msgq_attempts_at(ledger, 1)->outcome);
  check_attempt(ledger, 2, MSGQ_ATTEMPT_SENT, MSGQ_FAILURE_NONE, 200, MSGQ_ARRIVAL_YES);
  msgq_attempts_free(ledger);
  CHECK_NUMBER(0, msgq_attempts_size(NULL));
  CHECK(msgq_attempts_at(NULL, 0) == NULL);
  msgq_attempts_free(NULL);
  post_end(&post);
}

TEST(X2_a_message_that_timed_out_may_have_arrived) {
  struct scene scene;
  struct stub stub;
  msgq_ledger *ledger = NULL;
  scene_begin(&scene);
  scene.options.attempt_timeout_ms = 50;
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  REQUIRE_OK(msgq_attempts(scene.queue, "a", &ledger));
  REQUIRE(msgq_attempts_size(ledger) == 1);
  check_attempt(ledger, 0, MSGQ_ATTEMPT_RETRY, MSGQ_FAILURE_TIMEOUT, 0, MSGQ_ARRIVAL_PERHAPS);
  /* Both times are truncated to milliseconds. */
  CHECK(msgq_attempts_at(ledger, 0)->duration_ms >= 49);
  msgq_attempts_free(ledger);
  scene_end(&scene);
}
