/* Final failures that are discarded (option refused), and the event and log line of a discarded message. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

/* The last warning of the log. */
struct line {
  atomic_int count;
  char text[MSGQ_LOG_SIZE];
};

static void take_line(void *context, msgq_log_level level, const char *text) {
  struct line *line = context;
  if (level != MSGQ_LOG_WARNING) return;
  snprintf(line->text, sizeof line->text, "%s", text);
  atomic_fetch_add(&line->count, 1);
}

/* Waits for the warning and checks its end. */
static void check_line(struct line *line, const char *id, const char *end) {
  char expected[256];
  AWAIT(atomic_load(&line->count) == 1);
  snprintf(expected, sizeof expected, ": message %s is discarded after %s", id, end);
  size_t length = strlen(line->text), size = strlen(expected);
  if (!CHECK(length > size && strcmp(line->text + length - size, expected) == 0)) fprintf(stderr, "  %s\n", line->text);
}

/* Fails with the kind and code of the stub, without a text. */
static msgq_verdict fail_silently(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  const struct stub *stub = context;
  (void)delivery;
  out->kind = stub->kind;
  out->code = stub->code;
  return stub->verdict;
}

static void begin(struct post *post) {
  post_begin(post);
  post->scene.options.refused = MSGQ_REFUSED_DISCARD;
}

TEST(M13_a_refused_message_is_discarded_with_the_option) {
  struct post post;
  struct entry entry;
  begin(&post);
  post_open(&post);
  receiver_answer(post.receiver, "a", 422, 1, NULL);
  put(&post.scene, "a", "ana", "refused");
  put(&post.scene, "b", "ana", "sent");
  msgq_report report = drain(&post.scene);
  CHECK(report.discarded == 1 && report.sent == 1 && report.failed == 0 && report.remaining == 0);
  CHECK_NUMBER(-1, status_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&post.scene, "b"));
  CHECK_NUMBER(0, counts_of(&post.scene, NULL).failed);
  REQUIRE(journal_last(&post.scene.journal, MSGQ_EVENT_DISCARDED, &entry));
  CHECK_TEXT("a", entry.id);
  CHECK_TEXT("ana", entry.conversation);
  CHECK(entry.failure == MSGQ_FAILURE_REJECTED && entry.code == 422);
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  CHECK_RESULT(MSGQ_OK, msgq_stats(post.scene.queue, &statistics));
  CHECK(statistics.discarded == 1 && statistics.failed == 0 && statistics.failures[MSGQ_FAILURE_REJECTED] == 1);
  /* The message is deleted, and its id can be used again, because it was never sent. */
  scene_close(&post.scene);
  post_open(&post);
  CHECK_NUMBER(-1, status_of(&post.scene, "a"));
  put(&post.scene, "a", "ana", "again");
  CHECK_NUMBER(1, drain(&post.scene).sent);
  post_end(&post);
}

TEST(M13_a_refused_message_is_kept_by_default) {
  struct post post;
  post_begin_open(&post);
  receiver_answer(post.receiver, "a", 422, 1, NULL);
  put(&post.scene, "a", "ana", "refused");
  CHECK_NUMBER(1, drain(&post.scene).failed);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "a"));
  CHECK_NUMBER(0, journal_count(&post.scene.journal, MSGQ_EVENT_DISCARDED));
  post_end(&post);
}

TEST(M13_event_and_log_line_carry_kind_and_code_without_a_text) {
  static struct line line;
  struct scene scene;
  struct stub stub;
  struct entry entry;
  scene_begin(&scene);
  scene.options.refused = MSGQ_REFUSED_DISCARD;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub.kind = MSGQ_FAILURE_NOT_FOUND;
  stub.code = 410;
  REQUIRE_OK(msgq_set_transport(scene.queue, fail_silently, &stub, NULL));
  REQUIRE_OK(msgq_set_log(take_line, &line, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).discarded);
  check_line(&line, "a", "1 attempt (not_found, code 410)");
  REQUIRE_OK(msgq_set_log(NULL, NULL, NULL));
  REQUIRE(journal_last(&scene.journal, MSGQ_EVENT_DISCARDED, &entry));
  CHECK(entry.failure == MSGQ_FAILURE_NOT_FOUND && entry.code == 410);
  scene_end(&scene);
}

TEST(M5_event_and_log_line_carry_kind_and_code_without_a_text) {
  static const int64_t ladder[] = { 0 };
  static struct line line;
  struct scene scene;
  struct stub stub;
  struct entry entry;
  scene_begin(&scene);
  set_ladder(&scene, ladder, 1);
  scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_HTTP);
  stub.code = 503;
  REQUIRE_OK(msgq_set_transport(scene.queue, fail_silently, &stub, NULL));
  REQUIRE_OK(msgq_set_log(take_line, &line, NULL));
  put(&scene, "a", "ana", "hello");
  AWAIT(drain(&scene).remaining == 0);
  check_line(&line, "a", "2 attempts (server, code 503)");
  REQUIRE_OK(msgq_set_log(NULL, NULL, NULL));
  REQUIRE(journal_last(&scene.journal, MSGQ_EVENT_DISCARDED, &entry));
  CHECK(entry.failure == MSGQ_FAILURE_SERVER && entry.code == 503);
  scene_end(&scene);
}

TEST(M13_a_discarded_message_blocks_no_other) {
  struct post post;
  char accepted[64];
  begin(&post);
  post.scene.options.final_failure = MSGQ_FINAL_BLOCK;
  post_open(&post);
  receiver_answer(post.receiver, "a", 400, 1, NULL);
  put(&post.scene, "a", "ana", "1");
  put(&post.scene, "b", "ana", "2");
  put(&post.scene, "c", "ana", "3");
  CHECK_NUMBER(2, drain(&post.scene).sent);
  receiver_order(post.receiver, NULL, accepted, sizeof accepted);
  CHECK_TEXT("b c", accepted);
  post_end(&post);
}

TEST(M13_pause_on_unauthorized_precedes_discarding) {
  struct post post;
  begin(&post);
  post.scene.options.pause_on_unauthorized = true;
  post_open(&post);
  receiver_answer(post.receiver, "a", 401, 1, NULL);
  put(&post.scene, "a", "ana", "1");
  put(&post.scene, "b", "ben", "2");
  msgq_report report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_PAUSED && report.discarded == 0 && report.remaining == 2);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "a"));
  REQUIRE_OK(msgq_resume(post.scene.queue, NULL));
  CHECK_NUMBER(2, drain(&post.scene).sent);
  CHECK_NUMBER(0, journal_count(&post.scene.journal, MSGQ_EVENT_DISCARDED));
  scene_close(&post.scene);
  /* Without the option 403 is discarded. */
  post.scene.options.pause_on_unauthorized = false;
  post_open(&post);
  receiver_answer(post.receiver, "c", 403, 1, NULL);
  put(&post.scene, "c", "ana", "3");
  CHECK_NUMBER(1, drain(&post.scene).discarded);
  CHECK_NUMBER(-1, status_of(&post.scene, "c"));
  post_end(&post);
}

TEST(M13_expired_and_exhausted_messages_are_kept) {
  struct post post;
  begin(&post);
  post_open(&post);
  receiver_answer(post.receiver, "exhausted", 503, 1, NULL);
  put(&post.scene, "exhausted", "ana", "1");
  put_timed(&post.scene, "expired", "ben", 0, wall_ms() + 20);
  AWAIT(status_of(&post.scene, "expired") == MSGQ_STATUS_FAILED);
  drain(&post.scene);
  CHECK_NUMBER(MSGQ_FAILURE_EXPIRED, failure_of(&post.scene, "expired"));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "exhausted"));
  CHECK_NUMBER(MSGQ_FAILURE_SERVER, failure_of(&post.scene, "exhausted"));
  /* A failed manual retry is never discarded. */
  receiver_answer(post.receiver, "expired", 400, 1, NULL);
  REQUIRE_OK(msgq_retry(post.scene.queue, "expired"));
  AWAIT(status_of(&post.scene, "expired") == MSGQ_STATUS_FAILED && failure_of(&post.scene, "expired") == MSGQ_FAILURE_REJECTED);
  CHECK_NUMBER(0, journal_count(&post.scene.journal, MSGQ_EVENT_DISCARDED));
  /* A failed msgq_send_now is discarded. */
  receiver_answer(post.receiver, "c", 400, 1, NULL);
  put(&post.scene, "c", "cem", "3");
  REQUIRE_OK(msgq_send_now(post.scene.queue, "c"));
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_DISCARDED) == 1);
  CHECK_NUMBER(-1, status_of(&post.scene, "c"));
  post_end(&post);
}

TEST(M13_an_interrupted_attempt_that_is_held_is_kept) {
  struct post post;
  begin(&post);
  post.scene.options.hold_interrupted = true;
  post_open(&post);
  receiver_hold(post.receiver, true);
  put(&post.scene, "a", "ana", "1");
  REQUIRE_OK(msgq_send_now(post.scene.queue, "a"));
  AWAIT(receiver_requests(post.receiver, "a") == 1);
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(post.scene.queue, 0)); /* during the attempt, like a crash */
  receiver_hold(post.receiver, false);
  post_open(&post);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_UNKNOWN, failure_of(&post.scene, "a"));
  CHECK_NUMBER(0, journal_count(&post.scene.journal, MSGQ_EVENT_DISCARDED));
  post_end(&post);
}

TEST(M13_discarding_works_in_a_batch_and_in_direct_sending) {
  struct post post;
  begin(&post);
  post.scene.options.drain_batch = 2;
  post_open(&post);
  receiver_answer(post.receiver, "a", 400, 1, NULL);
  put(&post.scene, "a", "ana", "1");
  put(&post.scene, "b", "ana", "2");
  put(&post.scene, "c", "ana", "3");
  msgq_report report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_BATCH && report.discarded == 1 && report.sent == 1 && report.remaining == 1);
  CHECK_NUMBER(1, drain(&post.scene).sent);
  scene_close(&post.scene);
  post.scene.options.direct = true;
  post_open(&post);
  receiver_answer(post.receiver, "d", 404, 1, NULL);
  put(&post.scene, "d", "ana", "4");
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_DISCARDED) == 2);
  CHECK_NUMBER(-1, status_of(&post.scene, "d"));
  post_end(&post);
}
