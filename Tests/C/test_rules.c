/* Rules with options: order, delays, Retry-After, final failures, pauses. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "post.h"
#include "stub.h"

static const int64_t one_hour[] = { 3600000 };

/* Enqueues m1 to m<messages> in conversation ana. */
static void put_some(struct post *post, int messages) {
  for (int number = 1; number <= messages; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post->scene, id, "ana", "hello");
  }
}

static bool accepted_in_order(struct post *post, const char *expected) {
  char order[512];
  receiver_order(post->receiver, NULL, order, sizeof order);
  if (strcmp(expected, order) != 0) fprintf(stderr, "  accepted: %s\n", order);
  return strcmp(expected, order) == 0;
}

/* ------------------------------------------------------------------ order */

TEST(A2_relaxed_order_lets_others_overtake_a_message_waiting_for_its_retry) {
  struct post post;
  post_begin(&post);
  post.scene.options.strict_order = false;
  set_ladder(&post.scene, one_hour, 1);
  post_open(&post);
  receiver_answer(post.receiver, "m1", 503, 1, NULL);
  put_some(&post, 4);
  msgq_report report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_WAITING && report.sent == 3 && report.remaining == 1);
  CHECK(accepted_in_order(&post, "m2 m3 m4"));
  CHECK_NUMBER(MSGQ_REASON_RETRYING, reason_of(&post.scene, "m1"));
  /* The message keeps its place: when it is due, it is sent before later ones. */
  put(&post.scene, "m5", "ana", "hello");
  CHECK_NUMBER(MSGQ_REASON_PERSON, reason_of(&post.scene, "m5"));
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "m1"));
  AWAIT(status_of(&post.scene, "m1") == MSGQ_STATUS_SENT);
  drain(&post.scene);
  CHECK(accepted_in_order(&post, "m2 m3 m4 m1 m5"));
  post_end(&post);
}

TEST(A2_relaxed_order_sends_the_overtaken_message_when_it_is_due) {
  static const int64_t ladder[] = { 300 };
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post.scene.options.strict_order = false;
  set_ladder(&post.scene, ladder, 1);
  post_open(&post);
  receiver_answer(post.receiver, "m2", 503, 1, NULL);
  put_some(&post, 4);
  AWAIT(counts_of(&post.scene, NULL).sent == 4);
  CHECK_NUMBER(2, receiver_requests(post.receiver, "m2"));
  CHECK_NUMBER(0, atomic_load(&post.sender.overlaps));
  post_end(&post);
}

static msgq_verdict retry_all_but_plain(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)out;
  return strcmp(delivery->id, "plain") == 0 ? MSGQ_VERDICT_SENT : MSGQ_VERDICT_RETRY;
}

TEST_LONG(A2_relaxed_order_overtakes_at_most_1024_messages_that_wait_for_a_retry) {
  for (int waiting = 1024; waiting <= 1025; waiting++) {
    struct scene scene;
    char id[16];
    scene_begin(&scene);
    scene.options.mode = MSGQ_MODE_MANUAL;
    scene.options.direct = false;
    scene.options.strict_order = false;
    set_ladder(&scene, one_hour, 1);
    scene_open(&scene);
    REQUIRE_OK(msgq_set_transport(scene.queue, retry_all_but_plain, NULL, NULL));
    for (int number = 0; number < waiting; number++) {
      snprintf(id, sizeof id, "r%d", number);
      put(&scene, id, "ana", "hello");
    }
    put(&scene, "plain", "ana", "hello");
    msgq_report report = drain(&scene);
    CHECK_NUMBER(waiting == 1024, report.sent);
    CHECK_NUMBER(waiting == 1024 ? 1024 : 1026, report.remaining);
    scene_end(&scene);
  }
}

TEST(Q6_an_edit_does_not_move_a_message_to_the_end) {
  struct post post;
  char body[64];
  post_begin_open(&post);
  receiver_answer(post.receiver, "m2", 400, 1, NULL);
  put_some(&post, 2);
  CHECK_NUMBER(1, drain(&post.scene).failed);
  for (int number = 3; number <= 6; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  CHECK_RESULT(MSGQ_OK, msgq_edit(post.scene.queue, "m3", "edited", 6));
  CHECK_RESULT(MSGQ_OK, msgq_edit(post.scene.queue, "m3", "edited again", 12));
  CHECK_RESULT(MSGQ_OK, msgq_edit(post.scene.queue, "m2", "better", 6)); /* a failed message, too */
  CHECK_RESULT(MSGQ_OK, msgq_edit(post.scene.queue, "m5", "edited", 6));
  char unsent[64];
  unsent_of(&post.scene, unsent, sizeof unsent);
  CHECK_TEXT("m2 m3 m4 m5 m6", unsent);
  scene_close(&post.scene);
  post_open(&post);
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "m2"));
  AWAIT(status_of(&post.scene, "m2") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(4, drain(&post.scene).sent);
  CHECK(accepted_in_order(&post, "m1 m2 m3 m4 m5 m6"));
  receiver_body(post.receiver, "m3", body, sizeof body);
  CHECK_TEXT("edited again", body);
  receiver_body(post.receiver, "m2", body, sizeof body);
  CHECK_TEXT("better", body);
  post_end(&post);
}

/* ------------------------------------------------------------------ delays */

TEST(M4_the_default_ladder_begins_with_five_seconds) {
  struct post post;
  int64_t slack = check_timeout_ms();
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post_open(&post);
  receiver_answer(post.receiver, "a", 503, 1, NULL);
  put(&post.scene, "a", "ana", "hello");
  AWAIT(attempts_of(&post.scene, "a") == 1 && status_of(&post.scene, "a") == MSGQ_STATUS_QUEUED);
  CHECK(delay_of(&post.scene, "a") >= 5000 && delay_of(&post.scene, "a") < 5000 + slack);
  msgq_explanation explanation = explain(&post.scene, "a");
  CHECK_NUMBER(MSGQ_REASON_RETRYING, explanation.reason);
  CHECK(explanation.until_ms > wall_ms() - slack && explanation.until_ms <= wall_ms() + 5000);
  post_end(&post);
}

TEST_LONG(M4_each_step_of_a_ladder_is_used_once_and_in_order) {
  static const int64_t ladder[] = { 100, 400, 700 };
  struct post post;
  msgq_ledger *ledger = NULL;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  set_ladder(&post.scene, ladder, 3);
  post_open(&post);
  receiver_answer(post.receiver, "a", 503, 10, NULL);
  put(&post.scene, "a", "ana", "hello");
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_FAILED);
  REQUIRE_OK(msgq_attempts(post.scene.queue, "a", &ledger));
  REQUIRE(msgq_attempts_size(ledger) == 4);
  for (size_t step = 0; step < 3; step++) {
    int64_t gap = msgq_attempts_at(ledger, step + 1)->started_ms - msgq_attempts_at(ledger, step)->started_ms;
    /* The gap is not shorter than its step and, except under valgrind, shorter than the next step. */
    CHECK(gap >= ladder[step] - 1);
    if (check_timeout_ms() == 10000 && step < 2) CHECK(gap < ladder[step + 1]);
  }
  msgq_attempts_free(ledger);
  post_end(&post);
}

TEST(M4_jitter_varies_each_delay_within_its_share) {
  struct scene scene;
  struct stub stub;
  int64_t least = INT64_MAX, most = 0, slack = check_timeout_ms();
  static const int64_t ladder[] = { 1000000 };
  scene_begin(&scene);
  set_ladder(&scene, ladder, 1);
  scene.options.jitter = 0.25;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  for (int number = 0; number < 40; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&scene, id, id, "hello");
  }
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  drain(&scene);
  for (int number = 0; number < 40; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    int64_t delay = delay_of(&scene, id);
    CHECK(delay >= 750000 && delay <= 1250000 + slack);
    if (delay < least) least = delay;
    if (delay > most) most = delay;
  }
  CHECK(least < 1000000 && most > 1000000 && most - least > 100000);
  scene_end(&scene);
}

TEST(M4_jitter_does_not_change_a_retry_after) {
  static const int64_t ladder[] = { 10 };
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  set_ladder(&scene, ladder, 1);
  scene.options.jitter = 1;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.retry_after_ms = 500000;
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  for (int number = 0; number < 10; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&scene, id, id, "hello");
    drain(&scene);
    CHECK(delay_of(&scene, id) >= 500000 && delay_of(&scene, id) < 500000 + check_timeout_ms());
  }
  scene_end(&scene);
}

/* ------------------------------------------------------------------ Retry-After */

/* The receiver answers "a" with this Retry-After; "a2" is behind it, "b" in another conversation. */
static void begin_with_retry_after(struct post *post, const char *retry_after, bool queue) {
  static const int64_t ladder[] = { 1 };
  post_begin(post);
  post->scene.options.mode = MSGQ_MODE_AUTO;
  post->sender.retry_after_queue = queue;
  set_ladder(&post->scene, ladder, 1);
  scene_open(&post->scene);
  put(&post->scene, "a", "ana", "1");
  put(&post->scene, "a2", "ana", "2");
  put(&post->scene, "b", "ben", "3");
  receiver_answer(post->receiver, "a", 429, 1, retry_after);
  REQUIRE_OK(msgq_set_transport(post->scene.queue, sender_send, &post->sender, sender_release));
}

static void in_seconds(char text[64], int seconds) {
  struct tm parts;
  time_t then = time(NULL) + seconds;
  strftime(text, 64, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&then, &parts));
}

TEST_LONG(M6_retry_after_of_a_message_delays_only_its_conversation) {
  for (int form = 0; form < 2; form++) {
    struct post post;
    char header[64] = "2";
    if (form == 1) in_seconds(header, 3); /* a date has whole seconds: 2 s to 3 s */
    int64_t start = steady_ms();
    begin_with_retry_after(&post, header, false);
    AWAIT(status_of(&post.scene, "b") == MSGQ_STATUS_SENT);
    if (steady_ms() - start < 1500) {
      CHECK_NUMBER(MSGQ_REASON_RETRYING, reason_of(&post.scene, "a"));
      CHECK_NUMBER(1, receiver_requests(post.receiver, "a"));
    }
    AWAIT(counts_of(&post.scene, NULL).sent == 3);
    CHECK(steady_ms() - start >= 1900);
    CHECK(accepted_in_order(&post, "b a a2"));
    post_end(&post);
  }
}

TEST_LONG(M6_retry_after_of_the_queue_delays_all_messages) {
  for (int form = 0; form < 2; form++) {
    struct post post;
    char header[64] = "2";
    if (form == 1) in_seconds(header, 3);
    int64_t start = steady_ms(), wall = wall_ms();
    begin_with_retry_after(&post, header, true);
    AWAIT(receiver_requests(post.receiver, "a") == 1 && status_of(&post.scene, "a") == MSGQ_STATUS_QUEUED);
    msgq_explanation explanation = explain(&post.scene, "b");
    if (steady_ms() - start < 1500) {
      CHECK_NUMBER(MSGQ_REASON_HOLDING, explanation.reason);
      CHECK(explanation.until_ms >= wall + 1900 && explanation.until_ms <= wall_ms() + 3100);
      /* A drain waits, too, and so does a message with direct sending. */
      CHECK_NUMBER(MSGQ_STOP_WAITING, drain(&post.scene).stop);
      put(&post.scene, "c", "cem", "4");
    } else {
      put(&post.scene, "c", "cem", "4");
    }
    AWAIT(counts_of(&post.scene, NULL).sent == 4);
    CHECK(steady_ms() - start >= 1900);
    char order[64];
    receiver_order(post.receiver, "ana", order, sizeof order);
    CHECK_TEXT("a a2", order);
    CHECK_NUMBER(5, receiver_requests(post.receiver, NULL));
    post_end(&post);
  }
}

TEST(M6_retry_after_of_the_queue_in_milliseconds_from_the_transport) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  set_ladder(&scene, one_hour, 1);
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.retry_after_ms = 200;
  stub.retry_after_queue = true;
  put(&scene, "a", "ana", "1");
  put(&scene, "b", "ben", "2");
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  int64_t start = steady_ms();
  CHECK_NUMBER(MSGQ_STOP_WAITING, drain(&scene).stop);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  stub.verdict = MSGQ_VERDICT_SENT;
  int64_t end = steady_ms() + check_timeout_ms();
  while (counts_of(&scene, NULL).sent == 0 && steady_ms() < end) drain(&scene);
  CHECK(steady_ms() - start >= 199);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "b"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a")); /* its retry delay is longer */
  scene_end(&scene);
}

/* ------------------------------------------------------------------ final failures */

static void begin_blocking(struct post *post) {
  post_begin(post);
  post->scene.options.final_failure = MSGQ_FINAL_BLOCK;
  post_open(post);
}

static void check_blocked(struct post *post, const char *id, const char *behind) {
  msgq_explanation explanation = explain(&post->scene, id);
  CHECK_NUMBER(MSGQ_REASON_BLOCKED, explanation.reason);
  CHECK_TEXT(behind, explanation.behind);
  CHECK(strlen(explanation.text) > 10);
}

TEST(X1_a_final_failure_can_block_its_conversation_and_is_named) {
  struct post post;
  begin_blocking(&post);
  receiver_answer(post.receiver, "m1", 400, 1, NULL);
  put_some(&post, 3);
  put(&post.scene, "b", "ben", "another conversation");
  msgq_report report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_WAITING && report.sent == 1 && report.failed == 1 && report.remaining == 2);
  CHECK(accepted_in_order(&post, "b"));
  CHECK_NUMBER(0, receiver_requests(post.receiver, "m2"));
  CHECK_NUMBER(MSGQ_REASON_FAILED, reason_of(&post.scene, "m1"));
  check_blocked(&post, "m2", "m1");
  /* A restart does not unblock the conversation. */
  scene_close(&post.scene);
  post_open(&post);
  check_blocked(&post, "m2", "m1");
  CHECK_NUMBER(0, drain(&post.scene).sent);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "m2"));
  /* A successful retry does. */
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "m1"));
  AWAIT(status_of(&post.scene, "m1") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(MSGQ_REASON_PERSON, reason_of(&post.scene, "m2"));
  CHECK_NUMBER(2, drain(&post.scene).sent);
  CHECK(accepted_in_order(&post, "b m1 m2 m3"));
  post_end(&post);
}

TEST_LONG(X1_a_blocked_conversation_resumes_when_the_failed_message_is_sent_or_deleted) {
  for (int way = 0; way < 3; way++) {
    struct post post;
    post_begin(&post);
    post.scene.options.mode = MSGQ_MODE_AUTO;
    post.scene.options.final_failure = MSGQ_FINAL_BLOCK;
    scene_open(&post.scene);
    receiver_answer(post.receiver, "m1", 400, 2, NULL);
    put_some(&post, 4);
    REQUIRE_OK(msgq_set_transport(post.scene.queue, sender_send, &post.sender, sender_release));
    AWAIT(status_of(&post.scene, "m1") == MSGQ_STATUS_FAILED);
    pause_ms(50);
    CHECK_NUMBER(1, receiver_requests(post.receiver, NULL));
    /* A failed retry does not unblock the conversation. */
    CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "m1"));
    AWAIT(receiver_requests(post.receiver, "m1") == 2 && status_of(&post.scene, "m1") == MSGQ_STATUS_FAILED);
    pause_ms(50);
    CHECK_NUMBER(2, receiver_requests(post.receiver, NULL));
    check_blocked(&post, "m3", "m1");
    if (way == 0) CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "m1"));
    if (way == 1) CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "m1"));
    if (way == 2) CHECK_RESULT(MSGQ_OK, msgq_clear(post.scene.queue, "ben")); /* another conversation: no effect */
    if (way == 2) {
      pause_ms(50);
      check_blocked(&post, "m2", "m1");
      CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "m1"));
    }
    AWAIT(counts_of(&post.scene, NULL).sent == (way == 0 ? 4u : 3u));
    CHECK(accepted_in_order(&post, way == 0 ? "m1 m2 m3 m4" : "m2 m3 m4"));
    post_end(&post);
  }
}

TEST(X1_exhausted_and_expired_messages_block_like_refused_ones) {
  static const int64_t ladder[] = { 1 };
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post.scene.options.final_failure = MSGQ_FINAL_BLOCK;
  set_ladder(&post.scene, ladder, 1);
  post_open(&post);
  receiver_answer(post.receiver, "a1", 503, 2, NULL);
  set_offline(&post.scene);
  put(&post.scene, "a1", "ana", "1");
  put(&post.scene, "a2", "ana", "2");
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "b1";
  draft.conversation = "ben";
  draft.expires_at_ms = wall_ms() + 20;
  REQUIRE_OK(msgq_enqueue(post.scene.queue, &draft, NULL));
  put(&post.scene, "b2", "ben", "2");
  AWAIT(status_of(&post.scene, "b1") == MSGQ_STATUS_FAILED);
  set_online(&post.scene);
  AWAIT(status_of(&post.scene, "a1") == MSGQ_STATUS_FAILED);
  pause_ms(50);
  CHECK_NUMBER(2, receiver_requests(post.receiver, NULL));
  check_blocked(&post, "a2", "a1");
  check_blocked(&post, "b2", "b1");
  /* msgq_send_now ignores the block. */
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "b2"));
  AWAIT(status_of(&post.scene, "b2") == MSGQ_STATUS_SENT);
  post_end(&post);
}

/* ------------------------------------------------------------------ pauses */

TEST_LONG(M7_repeated_401_and_403_pause_the_queue_and_fail_no_message) {
  static const int statuses[] = { 401, 403 };
  for (size_t index = 0; index < 2; index++) {
    struct post post;
    struct entry entry;
    char order[256];
    post_begin(&post);
    post.scene.options.pause_on_unauthorized = true;
    post.scene.options.max_retries = 0;
    post_open(&post);
    receiver_answer(post.receiver, NULL, statuses[index], 3, NULL);
    put_some(&post, 12);
    for (int time = 1; time <= 3; time++) {
      msgq_report report = drain(&post.scene);
      CHECK(report.stop == MSGQ_STOP_PAUSED && report.failed == 0 && report.sent == 0 && report.remaining == 12);
      CHECK_NUMBER(MSGQ_STOP_PAUSED, drain(&post.scene).stop); /* nothing is tried until msgq_resume */
      CHECK_NUMBER(time, receiver_requests(post.receiver, NULL));
      CHECK(counts_of(&post.scene, NULL).queued == 12 && counts_of(&post.scene, NULL).failed == 0);
      REQUIRE(journal_last(&post.scene.journal, MSGQ_EVENT_PAUSED, &entry));
      CHECK(entry.paused && entry.failure_kind == MSGQ_FAILURE_UNAUTHORIZED);
      CHECK_TEXT("", entry.conversation);
      CHECK_NUMBER(MSGQ_REASON_PAUSED, reason_of(&post.scene, "m1"));
      CHECK_NUMBER(MSGQ_REASON_PAUSED, reason_of(&post.scene, "m12"));
      CHECK_NUMBER(MSGQ_FAILURE_UNAUTHORIZED, failure_of(&post.scene, "m1"));
      CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, NULL));
    }
    AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PAUSED, &entry) && !entry.paused);
    CHECK_NUMBER(12, drain(&post.scene).sent);
    receiver_order(post.receiver, NULL, order, sizeof order);
    CHECK_TEXT("m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12", order);
    CHECK_NUMBER(4, attempts_of(&post.scene, "m1"));
    post_end(&post);
  }
}

TEST(M7_after_resume_sending_continues_in_the_old_order) {
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post.scene.options.direct = true;
  post.scene.options.pause_on_unauthorized = true;
  post_open(&post);
  receiver_answer(post.receiver, "m2", 401, 1, NULL);
  put_some(&post, 1);
  AWAIT(counts_of(&post.scene, NULL).sent == 1);
  put(&post.scene, "m2", "ana", "hello");
  put(&post.scene, "m3", "ana", "hello");
  put(&post.scene, "b1", "ben", "hello");
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_PAUSED) == 1);
  put(&post.scene, "m4", "ana", "hello");
  set_offline(&post.scene); /* a change of connectivity does not end the pause */
  set_online(&post.scene);
  pause_ms(50);
  size_t before = receiver_requests(post.receiver, NULL);
  CHECK(before <= 3);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "m3"));
  CHECK_NUMBER(0, counts_of(&post.scene, NULL).failed);
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, NULL));
  AWAIT(counts_of(&post.scene, NULL).sent == 5);
  char order[64];
  receiver_order(post.receiver, "ana", order, sizeof order);
  CHECK_TEXT("m1 m2 m3 m4", order);
  post_end(&post);
}

TEST(M7_without_the_option_each_message_fails) {
  struct post post;
  post_begin_open(&post);
  receiver_answer(post.receiver, NULL, 401, 3, NULL);
  put_some(&post, 3);
  CHECK_NUMBER(3, drain(&post.scene).failed);
  CHECK_NUMBER(0, journal_count(&post.scene.journal, MSGQ_EVENT_PAUSED));
  post_end(&post);
}

TEST(X1_a_pause_stops_one_conversation_or_all) {
  struct post post;
  struct entry entry;
  post_begin_open(&post);
  put_some(&post, 2);
  put(&post.scene, "b", "ben", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, "ana"));
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, "ana"));
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PAUSED, &entry));
  CHECK(entry.paused && entry.failure_kind == MSGQ_FAILURE_NONE);
  CHECK_TEXT("ana", entry.conversation);
  CHECK_NUMBER(MSGQ_REASON_PAUSED, reason_of(&post.scene, "m1"));
  CHECK_NUMBER(MSGQ_REASON_PERSON, reason_of(&post.scene, "b"));
  msgq_report report = drain(&post.scene);
  CHECK_NUMBER(1, report.sent);
  CHECK_NUMBER(MSGQ_STOP_PAUSED, report.stop);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_send_now(post.scene.queue, "m2"));
  pause_ms(50);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "m2"));
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, NULL)); /* another scope */
  CHECK_NUMBER(MSGQ_REASON_PAUSED, reason_of(&post.scene, "m1"));
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, "ana"));
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "m2"));
  AWAIT(status_of(&post.scene, "m2") == MSGQ_STATUS_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, NULL));
  CHECK_NUMBER(MSGQ_STOP_PAUSED, drain(&post.scene).stop);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "m1"));
  scene_close(&post.scene); /* a pause ends with the queue */
  post_open(&post);
  CHECK_NUMBER(1, drain(&post.scene).sent);
  CHECK_NUMBER(3, receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST(X1_an_attempt_in_flight_ends_during_a_pause) {
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post_open(&post);
  receiver_hold(post.receiver, true);
  put_some(&post, 2);
  AWAIT(receiver_requests(post.receiver, "m1") == 1);
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, NULL));
  CHECK_NUMBER(MSGQ_REASON_SENDING, reason_of(&post.scene, "m1"));
  receiver_hold(post.receiver, false);
  AWAIT(status_of(&post.scene, "m1") == MSGQ_STATUS_SENT);
  pause_ms(50);
  CHECK_NUMBER(1, receiver_requests(post.receiver, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, NULL));
  AWAIT(status_of(&post.scene, "m2") == MSGQ_STATUS_SENT);
  post_end(&post);
}
