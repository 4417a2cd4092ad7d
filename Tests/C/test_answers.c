/* The classification of HTTP answers. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "post.h"
#include "stub.h"

/* Sends one message that is answered with `status`, and checks its message status and failure kind. */
static void expect_for_status(struct post *post, int status, int expected, msgq_failure_kind kind) {
  char id[16];
  snprintf(id, sizeof id, "h%d", status);
  receiver_answer(post->receiver, id, status, 1, NULL);
  put(&post->scene, id, id, "hello");
  drain(&post->scene);
  if (!CHECK_NUMBER(expected, status_of(&post->scene, id))) fprintf(stderr, "  HTTP status %d\n", status);
  if (!CHECK_NUMBER(kind, failure_of(&post->scene, id))) fprintf(stderr, "  HTTP status %d\n", status);
  CHECK_NUMBER(1, receiver_requests(post->receiver, id));
}

TEST_LONG(M6_http_statuses_are_classified) {
  static const int64_t ladder[] = { 3600000 };
  static const int sent[] = { 200, 201, 202, 204 };
  struct post post;
  post_begin(&post);
  set_ladder(&post.scene, ladder, 1);
  post_open(&post);
  for (size_t index = 0; index < sizeof sent / sizeof sent[0]; index++) {
    expect_for_status(&post, sent[index], MSGQ_STATUS_SENT, MSGQ_FAILURE_NONE);
  }
  expect_for_status(&post, 400, MSGQ_STATUS_FAILED, MSGQ_FAILURE_REJECTED);
  expect_for_status(&post, 401, MSGQ_STATUS_FAILED, MSGQ_FAILURE_UNAUTHORIZED);
  expect_for_status(&post, 403, MSGQ_STATUS_FAILED, MSGQ_FAILURE_UNAUTHORIZED);
  expect_for_status(&post, 404, MSGQ_STATUS_FAILED, MSGQ_FAILURE_NOT_FOUND);
  expect_for_status(&post, 410, MSGQ_STATUS_FAILED, MSGQ_FAILURE_NOT_FOUND);
  expect_for_status(&post, 409, MSGQ_STATUS_FAILED, MSGQ_FAILURE_REJECTED);
  expect_for_status(&post, 413, MSGQ_STATUS_FAILED, MSGQ_FAILURE_REJECTED);
  expect_for_status(&post, 408, MSGQ_STATUS_QUEUED, MSGQ_FAILURE_TIMEOUT);
  expect_for_status(&post, 429, MSGQ_STATUS_QUEUED, MSGQ_FAILURE_RATE_LIMIT);
  expect_for_status(&post, 500, MSGQ_STATUS_QUEUED, MSGQ_FAILURE_SERVER);
  expect_for_status(&post, 502, MSGQ_STATUS_QUEUED, MSGQ_FAILURE_SERVER);
  expect_for_status(&post, 503, MSGQ_STATUS_QUEUED, MSGQ_FAILURE_SERVER);
  expect_for_status(&post, 504, MSGQ_STATUS_QUEUED, MSGQ_FAILURE_SERVER);
  post_end(&post);
}

TEST_LONG(M6_unknown_http_statuses_are_retried) {
  static const int64_t ladder[] = { 3600000 };
  static const int statuses[] = { 425, 520, 599, 302, 700 };
  struct post post;
  char id[8];
  post_begin(&post);
  set_ladder(&post.scene, ladder, 1);
  post_open(&post);
  for (size_t index = 0; index < sizeof statuses / sizeof statuses[0]; index++) {
    snprintf(id, sizeof id, "h%d", statuses[index]);
    receiver_answer(post.receiver, id, statuses[index], 1, NULL);
    put(&post.scene, id, id, "hello");
    CHECK_NUMBER(MSGQ_STOP_WAITING, drain(&post.scene).stop);
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, id));
  }
  post_end(&post);
}

/* Returns the status of a message after a time-out and a manual retry that is answered with 409. */
static int status_after_conflict(bool conflict_is_sent) {
  struct scene scene;
  struct stub stub;
  int status;
  scene_begin(&scene);
  scene.options.conflict_is_sent = conflict_is_sent;
  scene.options.attempt_timeout_ms = 50;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_PENDING); /* without an answer the attempt times out */
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_HTTP;
  stub.code = 409;
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  AWAIT(stub.calls == 2 && status_of(&scene, "a") != MSGQ_STATUS_SENDING);
  status = status_of(&scene, "a");
  scene_end(&scene);
  return status;
}

TEST_LONG(D14_conflict_after_an_attempt_that_may_have_arrived_is_not_sent) {
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_after_conflict(false));
}

TEST_LONG(D14_conflict_counts_as_sent_with_conflict_is_sent) { CHECK_NUMBER(MSGQ_STATUS_SENT, status_after_conflict(true)); }

/* The receiver answers 409 while it still processes the first request, which then fails. */
TEST(D14_conflict_is_retried_until_the_receiver_accepts) {
  static const int64_t ladder[] = { 20, 20, 20 };
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  set_ladder(&post.scene, ladder, 3);
  post_open(&post);
  receiver_answer(post.receiver, "a", 504, 1, NULL);
  receiver_answer(post.receiver, "a", 409, 2, NULL);
  put(&post.scene, "a", "ana", "hello");
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(4, (int64_t)receiver_requests(post.receiver, "a"));
  post_end(&post);
}

TEST(M6_retry_after_is_honoured_as_seconds_and_as_date) {
  static const int64_t ladder[] = { 60000 };
  struct post post;
  char date[64];
  struct tm parts;
  time_t then = time(NULL) + 900;
  post_begin(&post);
  set_ladder(&post.scene, ladder, 1);
  post_open(&post);
  strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&then, &parts));
  receiver_answer(post.receiver, "seconds", 503, 1, "300");
  receiver_answer(post.receiver, "date", 429, 1, date);
  receiver_answer(post.receiver, "short", 503, 1, "1");
  put(&post.scene, "seconds", "a", "1");
  put(&post.scene, "date", "b", "2");
  put(&post.scene, "short", "c", "3");
  drain(&post.scene);
  int64_t slack = check_timeout_ms();
  CHECK(delay_of(&post.scene, "seconds") >= 300000 && delay_of(&post.scene, "seconds") < 300000 + slack);
  CHECK(delay_of(&post.scene, "date") > 900000 - slack && delay_of(&post.scene, "date") <= 900000 + slack);
  /* The delay is the larger of Retry-After and the backoff. */
  CHECK(delay_of(&post.scene, "short") >= 60000 && delay_of(&post.scene, "short") < 60000 + slack);
  post_end(&post);
}
