/* A transport that sends several messages in one call. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "faults.h"
#include "scene.h"
#include "stub.h"

/* Answers by the letters of the body, one for each attempt; the last one is repeated: s sent, r retry, x reject, o offline,
   p pending, k skipped, u no verdict, q retry after a delay of the queue, a unauthorized. */
struct batcher {
  pthread_mutex_t lock;
  char calls[4096];  /* "a b, c, ": the ids of each call */
  int count;         /* of calls */
  size_t most;       /* messages in one call */
  uint64_t tokens[64];
  size_t pending;
  atomic_int released;
  atomic_bool held; /* while true, calls do not return */
  atomic_bool skips; /* while true, every message is skipped */
  atomic_int inside;
};

static void batcher_begin(struct batcher *batcher) {
  memset(batcher, 0, sizeof *batcher);
  pthread_mutex_init(&batcher->lock, NULL);
}

static void batcher_release(void *context) { atomic_fetch_add(&((struct batcher *)context)->released, 1); }

static msgq_verdict verdict_of(const msgq_delivery *delivery, msgq_outcome *out) {
  const char *letters = delivery->body;
  size_t place = delivery->attempt - 1 < delivery->body_size ? delivery->attempt - 1 : delivery->body_size - 1;
  switch (letters[place]) {
    case 's': return MSGQ_VERDICT_SENT;
    case 'r': return MSGQ_VERDICT_RETRY;
    case 'x': return MSGQ_VERDICT_REJECT;
    case 'o': return MSGQ_VERDICT_OFFLINE;
    case 'p': return MSGQ_VERDICT_PENDING;
    case 'k': return MSGQ_VERDICT_SKIPPED;
    case 'q':
      out->retry_after_ms = 60000;
      out->retry_after_queue = true;
      return MSGQ_VERDICT_RETRY;
    case 'a':
      out->code = 401;
      return MSGQ_VERDICT_HTTP;
    default: return MSGQ_VERDICT_UNKNOWN;
  }
}

static void batcher_send(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  struct batcher *batcher = context;
  pthread_mutex_lock(&batcher->lock);
  batcher->count++;
  if (count > batcher->most) batcher->most = count;
  for (size_t index = 0; index < count; index++) {
    const msgq_delivery *delivery = &deliveries[index];
    CHECK_NUMBER(sizeof *delivery, delivery->struct_size);
    CHECK_NUMBER(sizeof *outcomes, outcomes[index].struct_size);
    CHECK_NUMBER(MSGQ_VERDICT_UNKNOWN, outcomes[index].verdict);
    CHECK_NUMBER(-1, outcomes[index].retry_after_ms);
    size_t length = strlen(batcher->calls);
    snprintf(batcher->calls + length, sizeof batcher->calls - length, "%s%s", delivery->id, index + 1 < count ? " " : ", ");
    outcomes[index].verdict = atomic_load(&batcher->skips) ? MSGQ_VERDICT_SKIPPED : verdict_of(delivery, &outcomes[index]);
    if (outcomes[index].verdict == MSGQ_VERDICT_PENDING && batcher->pending < 64) batcher->tokens[batcher->pending++] = delivery->token;
  }
  pthread_mutex_unlock(&batcher->lock);
  atomic_fetch_add(&batcher->inside, 1);
  while (atomic_load(&batcher->held)) pause_ms(1);
  atomic_fetch_sub(&batcher->inside, 1);
}

/* Checks the ids of the calls since the last check. */
static void check_calls(struct batcher *batcher, const char *expected) {
  pthread_mutex_lock(&batcher->lock);
  CHECK_TEXT(expected, batcher->calls);
  batcher->calls[0] = '\0';
  pthread_mutex_unlock(&batcher->lock);
}

static int calls_of(struct batcher *batcher) {
  pthread_mutex_lock(&batcher->lock);
  int count = batcher->count;
  pthread_mutex_unlock(&batcher->lock);
  return count;
}

static void set_batches(struct scene *scene, struct batcher *batcher, const msgq_batch_options *options) {
  const msgq_batch_options usual = MSGQ_BATCH_OPTIONS_INIT;
  REQUIRE_OK(msgq_set_batch_transport(scene->queue, batcher_send, batcher, NULL, options ? options : &usual));
}

static void begin(struct scene *scene, struct batcher *batcher) {
  scene_begin(scene);
  batcher_begin(batcher);
}

static void begin_open(struct scene *scene, struct batcher *batcher, msgq_mode mode) {
  begin(scene, batcher);
  scene->options.mode = mode;
  scene_open(scene);
}

/* Enqueues `count` messages of ana: a1, a2 and so on. */
static void put_numbered(struct scene *scene, int count, const char *body) {
  for (int number = 1; number <= count; number++) put(scene, (char[]) { 'a', (char)('0' + number), 0 }, "ana", body);
}

TEST(B1_a_batch_holds_several_conversations_each_in_order_and_contiguous) {
  struct scene scene;
  struct batcher batcher;
  begin_open(&scene, &batcher, MSGQ_MODE_MANUAL);
  put_each(&scene, { "a1", "ana", "s" }, { "b1", "ben", "s" }, { "a2", "ana", "s" });
  put_each(&scene, { "c1", "cid", "s" }, { "b2", "ben", "s" }, { "a3", "ana", "s" });
  set_batches(&scene, &batcher, NULL);
  CHECK_NUMBER(6, drain(&scene).sent);
  check_calls(&batcher, "a1 a2 a3 b1 b2 c1, ");
  CHECK_NUMBER(6, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(6, journal_count(&scene.journal, MSGQ_EVENT_DRAIN_PROGRESS));
  scene_end(&scene);
}

TEST(B1_limits_of_a_batch) {
  struct scene scene;
  struct batcher batcher;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  begin_open(&scene, &batcher, MSGQ_MODE_MANUAL);
  put_numbered(&scene, 2, "ss");
  put_each(&scene, { "a3", "ana", "ssssssssssssssss" }, { "a4", "ana", "ss" }, { "a5", "ana", "ss" });
  put(&scene, "b1", "ben", "ss");
  options.max_bytes = 5;
  set_batches(&scene, &batcher, &options);
  CHECK_NUMBER(6, drain(&scene).sent);
  check_calls(&batcher, "a1 a2, a3, a4 a5, b1, ");
  put_each(&scene, { "a6", "ana", "s" }, { "b2", "ben", "s" }, { "a7", "ana", "s" });
  options.max_bytes = 0;
  options.single_conversation = true;
  set_batches(&scene, &batcher, &options);
  CHECK_NUMBER(3, drain(&scene).sent);
  check_calls(&batcher, "a6 a7, b2, ");
  for (int number = 0; number < 45; number++) put(&scene, NULL, number % 2 ? "ana" : "ben", "s");
  options.single_conversation = false;
  options.max_messages = 20;
  set_batches(&scene, &batcher, &options);
  batcher.most = 0;
  int before = calls_of(&batcher);
  CHECK_NUMBER(45, drain(&scene).sent);
  CHECK_NUMBER(3, calls_of(&batcher) - before);
  CHECK_NUMBER(20, batcher.most);
  scene_end(&scene);
}

TEST(B1_a_drain_and_its_batch_count_messages) {
  struct scene scene;
  struct batcher batcher;
  begin_open(&scene, &batcher, MSGQ_MODE_MANUAL);
  for (int number = 0; number < 10; number++) put(&scene, NULL, "ana", "s");
  set_batches(&scene, &batcher, NULL);
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  options.batch = 4;
  REQUIRE_OK(msgq_drain(scene.queue, &options, &report));
  CHECK(report.stop == MSGQ_STOP_BATCH && report.sent == 4 && report.remaining == 6);
  CHECK_NUMBER(1, calls_of(&batcher));
  scene_end(&scene);
}

TEST(B1_partial_success_keeps_the_order) {
  const int64_t ladder[] = { 0, 0, 0 };
  struct scene scene;
  struct batcher batcher;
  begin(&scene, &batcher);
  scene.options.mode = MSGQ_MODE_AUTO;
  set_ladder(&scene, ladder, 3);
  scene_open(&scene);
  put(&scene, "a1", "ana", "s");
  put(&scene, "a2", "ana", "rs");
  put(&scene, "a3", "ana", "ks"); /* a skipped attempt does not count, so it is skipped again */
  put_each(&scene, { "b1", "ben", "s" }, { "b2", "ben", "x" }, { "b3", "ben", "us" }, { "b4", "ben", "rs" });
  set_batches(&scene, &batcher, NULL);
  AWAIT(status_of(&scene, "b4") == MSGQ_STATUS_SENT && status_of(&scene, "a2") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "b2"));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "b3"));
  AWAIT(attempts_of(&scene, "a3") == 0); /* 1 while it is being tried again */
  CHECK_NUMBER(2, attempts_of(&scene, "a2"));
  /* a3 is skipped with a2, then alone at once, because a2 got on, and after that once in a second. */
  pthread_mutex_lock(&batcher.lock);
  const char *expected = "a1 a2 a3 b1 b2 b3 b4, a2 a3 b3 b4, a3, ";
  CHECK(strncmp(expected, batcher.calls, strlen(expected)) == 0);
  pthread_mutex_unlock(&batcher.lock);
  scene_end(&scene);
}

TEST_LONG(B1_Q20_a_transport_that_skips_everything_is_not_called_in_a_loop) {
  struct scene scene;
  struct batcher batcher;
  begin_open(&scene, &batcher, MSGQ_MODE_AUTO);
  set_batches(&scene, &batcher, NULL);
  int64_t start = steady_ms();
  put(&scene, "a1", "ana", "k");
  AWAIT(calls_of(&batcher) >= 3);
  CHECK(steady_ms() - start >= 1900);
  AWAIT(attempts_of(&scene, "a1") == 0); /* 1 during a call */
  msgq_explanation explanation = explain(&scene, "a1");
  if (explanation.reason != MSGQ_REASON_SENDING) {
    CHECK_NUMBER(MSGQ_REASON_RETRYING, explanation.reason);
    CHECK(strncmp(explanation.text, "The transport skipped it, so that it was not tried. It is tried in ", 67) == 0);
  }
  msgq_state state = state_of(&scene);
  if (state.reason != MSGQ_REASON_SENDING && state.reason != MSGQ_REASON_NEXT) {
    const char *text = "The transport skipped the next message, so that it was not tried. It is tried in ";
    CHECK_NUMBER(MSGQ_REASON_RETRYING, state.reason);
    CHECK(strncmp(state.text, text, strlen(text)) == 0);
  }
  REQUIRE_OK(msgq_set_transport(scene.queue, NULL, NULL, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "a1"));
  scene_end(&scene);
}

TEST(B1_offline_and_pauses_within_a_batch) {
  struct scene scene;
  struct batcher batcher;
  begin(&scene, &batcher);
  scene.options.pause_on_unauthorized = true;
  scene_open(&scene);
  set_batches(&scene, &batcher, NULL);
  put_each(&scene, { "a1", "ana", "s" }, { "a2", "ana", "o" }, { "a3", "ana", "k" }, { "b1", "ben", "k" });
  msgq_report report = drain(&scene);
  CHECK(report.stop == MSGQ_STOP_OFFLINE && report.sent == 1 && report.remaining == 3);
  check_calls(&batcher, "a1 a2 a3 b1, ");
  CHECK_NUMBER(0, attempts_of(&scene, "a2"));
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  put_each(&scene, { "c1", "cid", "s" }, { "c2", "cid", "a" }, { "c3", "cid", "k" });
  report = drain(&scene);
  CHECK(report.stop == MSGQ_STOP_PAUSED && report.sent == 1 && report.remaining == 2);
  check_calls(&batcher, "c1 c2 c3, ");
  CHECK(state_of(&scene).paused);
  REQUIRE_OK(msgq_resume(scene.queue, NULL));
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  REQUIRE_OK(msgq_pause(scene.queue, "dan"));
  put(&scene, "d1", "dan", "s");
  put(&scene, "e1", "eva", "s");
  CHECK_NUMBER(1, drain(&scene).sent);
  check_calls(&batcher, "e1, ");
  scene_end(&scene);
}

TEST(B1_answers_by_token_and_busy_messages) {
  struct scene scene;
  struct batcher batcher;
  begin_open(&scene, &batcher, MSGQ_MODE_AUTO);
  put_numbered(&scene, 3, "ps");
  set_batches(&scene, &batcher, NULL);
  AWAIT(calls_of(&batcher) == 1);
  AWAIT(state_of(&scene).in_flight == 3);
  put(&scene, "a4", "ana", "s");
  CHECK_RESULT(MSGQ_BUSY, msgq_delete(scene.queue, "a2"));
  CHECK_RESULT(MSGQ_BUSY, msgq_edit(scene.queue, "a3", "x", 1));
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&scene, "a3"));
  msgq_outcome outcomes[3] = { MSGQ_OUTCOME_INIT, MSGQ_OUTCOME_INIT, MSGQ_OUTCOME_INIT };
  outcomes[0].verdict = MSGQ_VERDICT_SENT;
  outcomes[1].verdict = MSGQ_VERDICT_SKIPPED;
  outcomes[2].verdict = MSGQ_VERDICT_SKIPPED;
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, batcher.tokens[0], &outcomes[0]));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, batcher.tokens[0], &outcomes[0]));
  CHECK_NUMBER(1, calls_of(&batcher)); /* the others have no outcome yet */
  msgq_result results[2];
  REQUIRE_OK(msgq_complete_batch(scene.queue, &batcher.tokens[1], &outcomes[1], 2, results));
  CHECK(results[0] == MSGQ_OK && results[1] == MSGQ_OK);
  AWAIT(calls_of(&batcher) == 2);
  AWAIT(batcher.pending == 5);
  check_calls(&batcher, "a1 a2 a3, a2 a3 a4, ");
  outcomes[1].verdict = outcomes[2].verdict = MSGQ_VERDICT_SENT;
  REQUIRE_OK(msgq_complete_batch(scene.queue, &batcher.tokens[3], &outcomes[1], 2, NULL));
  AWAIT(counts_of(&scene, NULL).sent == 4);
  CHECK_NUMBER(1, attempts_of(&scene, "a2"));
  scene_end(&scene);
}

TEST(B1_requests_by_hand_are_batches_of_one_message) {
  struct scene scene;
  struct batcher batcher;
  begin_open(&scene, &batcher, MSGQ_MODE_MANUAL);
  put_each(&scene, { "a1", "ana", "s" }, { "a2", "ana", "s" }, { "a3", "ana", "xs" });
  set_batches(&scene, &batcher, NULL);
  REQUIRE_OK(msgq_send_now(scene.queue, "a2"));
  AWAIT(status_of(&scene, "a2") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, drain(&scene).sent);
  REQUIRE_OK(msgq_retry(scene.queue, "a3"));
  AWAIT(status_of(&scene, "a3") == MSGQ_STATUS_SENT);
  check_calls(&batcher, "a2, a1 a3, a3, ");
  scene_end(&scene);
}

static size_t listed_attempts(struct scene *scene, const char *id) {
  msgq_ledger *ledger = NULL;
  REQUIRE_OK(msgq_attempts(scene->queue, id, &ledger));
  size_t count = msgq_attempts_size(ledger);
  msgq_attempts_free(ledger);
  return count;
}

TEST(B1_R3_a_skipped_request_by_hand_is_no_attempt) {
  struct scene scene;
  struct batcher batcher;
  msgq_statistics stats = { .struct_size = sizeof stats };
  char path[128];
  begin_open(&scene, &batcher, MSGQ_MODE_MANUAL);
  put(&scene, "a1", "ana", "xs");
  put(&scene, "b1", "ben", "s");
  set_batches(&scene, &batcher, NULL);
  REQUIRE_OK(msgq_send_now(scene.queue, "a1"));
  AWAIT(status_of(&scene, "a1") == MSGQ_STATUS_FAILED);
  check_calls(&batcher, "a1, ");
  atomic_store(&batcher.skips, true);
  REQUIRE_OK(msgq_retry(scene.queue, "a1"));
  AWAIT(calls_of(&batcher) == 2 && status_of(&scene, "a1") == MSGQ_STATUS_FAILED);
  const char *expected = "none>queued>sending>failed>sending>failed";
  AWAIT((journal_path(&scene.journal, "a1", path, sizeof path), strlen(path) >= strlen(expected)));
  CHECK_NUMBER(1, attempts_of(&scene, "a1"));
  CHECK_NUMBER(1, listed_attempts(&scene, "a1"));
  CHECK_NUMBER(MSGQ_FAILURE_REJECTED, failure_of(&scene, "a1"));
  CHECK_TEXT(expected, path);
  REQUIRE_OK(msgq_send_now(scene.queue, "b1"));
  AWAIT(calls_of(&batcher) == 3 && status_of(&scene, "b1") == MSGQ_STATUS_QUEUED);
  CHECK_NUMBER(0, attempts_of(&scene, "b1"));
  CHECK_NUMBER(0, listed_attempts(&scene, "b1"));
  REQUIRE_OK(msgq_stats(scene.queue, &stats));
  CHECK_NUMBER(1, stats.attempts);
  scene_close(&scene); /* the same from the store */
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a1"));
  CHECK_NUMBER(1, listed_attempts(&scene, "a1"));
  CHECK_NUMBER(0, listed_attempts(&scene, "b1"));
  atomic_store(&batcher.skips, false);
  set_batches(&scene, &batcher, NULL);
  REQUIRE_OK(msgq_retry(scene.queue, "a1"));
  AWAIT(status_of(&scene, "a1") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, attempts_of(&scene, "a1"));
  CHECK_NUMBER(1, drain(&scene).sent);
  scene_end(&scene);
}

/* Drains in a child until it ends. Returns its exit status, or -1 if it was killed. `calls`: the ids of its calls. */
static int send_or_die(struct scene *scene, char calls[128]) {
  char line[64];
  struct child child = child_start("send-or-die", scene->path, "");
  calls[0] = 0;
  for (child_line(&child, line, sizeof line); line[0]; child_line(&child, line, sizeof line)) {
    size_t length = strlen(calls);
    snprintf(calls + length, 128 - length, "%s%s", length > 0 ? ", " : "", line);
  }
  return child_wait(&child);
}

TEST_LONG(B1_X3_a_message_that_crashes_the_process_interrupts_its_batch_once) {
  struct scene scene;
  char seen[128];
  const char *const calls[] = { "a1 a2 a3 a4 b1", "a1, a2, a3", "a3", "a3", "a3", "a3" };
  scene_begin_open(&scene);
  put_numbered(&scene, 2, "s");
  put_each(&scene, { "a3", "ana", "!" }, { "a4", "ana", "s" });
  put(&scene, "b1", "ben", "s");
  scene_close(&scene);
  for (size_t run = 0; run < sizeof calls / sizeof *calls; run++) {
    CHECK_NUMBER(-1, send_or_die(&scene, seen));
    CHECK_TEXT(calls[run], seen);
  }
  scene_open(&scene); /* a3 has used up its retries */
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a3"));
  CHECK_NUMBER(6, attempts_of(&scene, "a3"));
  CHECK_NUMBER(2, attempts_of(&scene, "a2"));
  CHECK_NUMBER(1, attempts_of(&scene, "a4"));
  scene_close(&scene);
  CHECK_NUMBER(0, send_or_die(&scene, seen));
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a4"));
  CHECK_NUMBER(2, attempts_of(&scene, "a4"));
  CHECK_NUMBER(2, attempts_of(&scene, "b1"));
  scene_end(&scene);
}

TEST_LONG(B1_X3_several_messages_that_crash_the_process_interrupt_no_others_again) {
  struct scene scene;
  char calls[128];
  scene_begin_open(&scene);
  put_each(&scene, { "p1", "ana", "!" }, { "p2", "ben", "!" }, { "s1", "eva", "s" }, { "s2", "eva", "s" });
  scene_close(&scene);
  CHECK_NUMBER(-1, send_or_die(&scene, calls));
  CHECK_TEXT("p1 p2 s1 s2", calls);
  for (int run = 0; run < 10; run++) { /* p1, then p2, until its retries are used up */
    scene_open(&scene); /* a close in between changes nothing */
    CHECK_NUMBER(1 + run % 5, attempts_of(&scene, run < 5 ? "p1" : "p2"));
    CHECK_NUMBER(1, attempts_of(&scene, "s1"));
    scene_close(&scene);
    CHECK_NUMBER(-1, send_or_die(&scene, calls));
    CHECK_TEXT(run < 5 ? "p1" : "p2", calls);
  }
  CHECK_NUMBER(0, send_or_die(&scene, calls));
  CHECK_TEXT("s1, s2", calls);
  scene_open(&scene);
  CHECK(status_of(&scene, "p1") == MSGQ_STATUS_FAILED && status_of(&scene, "p2") == MSGQ_STATUS_FAILED);
  CHECK(status_of(&scene, "s1") == MSGQ_STATUS_SENT && status_of(&scene, "s2") == MSGQ_STATUS_SENT);
  CHECK(attempts_of(&scene, "s1") == 2 && attempts_of(&scene, "s2") == 2);
  CHECK(attempts_of(&scene, "p1") == 6 && attempts_of(&scene, "p2") == 6);
  scene_end(&scene);
}

TEST_LONG(B1_a_batch_begins_and_ends_with_one_commit) {
  struct scene scene;
  struct batcher batcher;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  options.max_messages = 50;
  begin(&scene, &batcher);
  scene.options.durable_outcomes = true; /* so that each commit is one flush */
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  scene_open(&scene);
  for (int number = 0; number < 150; number++) put(&scene, NULL, number % 3 == 0 ? "ana" : "ben", "s");
  set_batches(&scene, &batcher, &options);
  int before = atomic_load(&fault_syncs);
  CHECK_NUMBER(150, drain(&scene).sent);
  int syncs = atomic_load(&fault_syncs) - before;
  CHECK_NUMBER(3, calls_of(&batcher));
  /* A beginning and an end of each of three batches; a flush of the timer or of a checkpoint may come between. */
  if (!CHECK(syncs >= 6 && syncs <= 10)) fprintf(stderr, "  %d flushes\n", syncs);
  scene_end(&scene);
}

/* m0 to m7, each in a conversation of its own, which the transport leaves pending. */
static void put_eight(struct scene *scene) {
  for (int number = 0; number < 8; number++) {
    char id[8] = { 'm', (char)('0' + number), 0 }, conversation[8] = { 'c', (char)('0' + number), 0 };
    put(scene, id, conversation, "p");
  }
}

TEST_LONG(B1_max_in_flight_and_the_rate_count_messages) {
  struct scene scene;
  struct batcher batcher;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  begin(&scene, &batcher);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_in_flight = 4;
  scene_open(&scene);
  options.max_messages = 3;
  put_eight(&scene);
  set_batches(&scene, &batcher, &options);
  AWAIT(state_of(&scene).in_flight == 4);
  pause_ms(20);
  CHECK_NUMBER(4, state_of(&scene).in_flight);
  AWAIT(calls_of(&batcher) == 2);
  check_calls(&batcher, "m0 m1 m2, m3, ");
  msgq_outcome sent = outcome_of(MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_complete(scene.queue, batcher.tokens[0], &sent));
  AWAIT(calls_of(&batcher) == 3);
  check_calls(&batcher, "m4, ");
  for (size_t index = 1; index < 8; index++) {
    AWAIT(batcher.pending > index);
    CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, batcher.tokens[index], &sent));
  }
  scene_close(&scene);
  scene.options.max_in_flight = 1;
  scene.options.rate_per_second = 20;
  scene.options.rate_burst = 2;
  scene_open(&scene);
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  batcher.most = 0;
  set_batches(&scene, &batcher, &options);
  int64_t start = steady_ms();
  for (int number = 0; number < 10; number++) put(&scene, NULL, "ana", "s");
  AWAIT(counts_of(&scene, NULL).queued + counts_of(&scene, NULL).sending == 0);
  CHECK(steady_ms() - start >= 350); /* 10 messages, 2 of them at once */
  CHECK(batcher.most <= 2);
  scene_end(&scene);
}

TEST(B1_with_max_batches_full_batches_are_sent_at_a_time) {
  struct scene scene;
  struct batcher batcher;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  begin_open(&scene, &batcher, MSGQ_MODE_AUTO);
  put_eight(&scene);
  options.max_messages = 3;
  options.max_batches = 2;
  set_batches(&scene, &batcher, &options);
  AWAIT(calls_of(&batcher) == 2 && batcher.pending == 6);
  pause_ms(20);
  CHECK_NUMBER(6, state_of(&scene).in_flight);
  check_calls(&batcher, "m0 m1 m2, m3 m4 m5, ");
  msgq_outcome sent = outcome_of(MSGQ_VERDICT_SENT);
  for (size_t index = 0; index < 3; index++) REQUIRE_OK(msgq_complete(scene.queue, batcher.tokens[index], &sent));
  AWAIT(calls_of(&batcher) == 3 && batcher.pending == 8);
  check_calls(&batcher, "m6 m7, ");
  for (size_t index = 3; index < 8; index++) REQUIRE_OK(msgq_complete(scene.queue, batcher.tokens[index], &sent));
  AWAIT(counts_of(&scene, NULL).sent == 8);
  /* A binary of a version without the field. */
  options.struct_size = offsetof(msgq_batch_options, max_batches);
  options.max_batches = UINT64_MAX;
  set_batches(&scene, &batcher, &options);
  scene_end(&scene);
}

TEST(B1_a_batch_that_is_not_full_waits_for_more_messages) {
  struct scene scene;
  struct batcher batcher;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  begin(&scene, &batcher);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  scene_open(&scene);
  options.max_messages = 3;
  options.linger_ms = 30000;
  set_batches(&scene, &batcher, &options);
  put(&scene, "a1", "ana", "s");
  put(&scene, "b1", "ben", "s");
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a1"));
  put(&scene, "a2", "ana", "s");
  AWAIT(counts_of(&scene, NULL).sent == 3); /* full: at once */
  check_calls(&batcher, "a1 a2 b1, ");
  put(&scene, "a3", "ana", "s");
  CHECK_NUMBER(1, drain(&scene).sent); /* a drain that was asked for does not wait */
  options.linger_ms = 60;
  set_batches(&scene, &batcher, &options);
  int64_t start = steady_ms();
  put(&scene, "a4", "ana", "s");
  AWAIT(status_of(&scene, "a4") == MSGQ_STATUS_SENT);
  CHECK(steady_ms() - start >= 59);
  scene_end(&scene);
}

TEST(B1_transports_replace_each_other) {
  struct scene scene;
  struct batcher first, second;
  struct stub stub;
  const msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  begin(&scene, &first);
  batcher_begin(&second);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, batcher_send, &first, batcher_release, &options));
  CHECK(state_of(&scene).has_transport);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, stub_release));
  CHECK_NUMBER(1, atomic_load(&first.released));
  put(&scene, "a", "ana", "s");
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, batcher_send, &second, batcher_release, &options));
  CHECK_NUMBER(1, atomic_load(&stub.released));
  put(&scene, "b", "ana", "s");
  atomic_store(&second.held, true);
  REQUIRE_OK(msgq_drain_async(scene.queue, NULL, NULL, NULL));
  AWAIT(atomic_load(&second.inside) == 1);
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, NULL, NULL, NULL, NULL));
  CHECK(!state_of(&scene).has_transport);
  CHECK_NUMBER(0, atomic_load(&second.released)); /* its call has not returned */
  atomic_store(&second.held, false);
  AWAIT(atomic_load(&second.released) == 1);
  AWAIT(status_of(&scene, "b") == MSGQ_STATUS_SENT);
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, batcher_send, &first, batcher_release, &options));
  scene_close(&scene);
  CHECK_NUMBER(2, atomic_load(&first.released));
  scene_end(&scene);
}

TEST_LONG(B1_a_call_that_hangs_times_out_as_a_whole) {
  const int64_t ladder[] = { 60000 };
  struct scene scene;
  struct batcher batcher;
  begin(&scene, &batcher);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.attempt_timeout_ms = 50;
  set_ladder(&scene, ladder, 1);
  scene_open(&scene);
  for (int number = 0; number < 40; number++) put(&scene, NULL, number % 2 ? "ana" : "ben", "s");
  atomic_store(&batcher.held, true);
  set_batches(&scene, &batcher, NULL);
  AWAIT(calls_of(&batcher) == 1 && counts_of(&scene, NULL).queued == 40);
  atomic_store(&batcher.held, false);
  put(&scene, "c1", "cid", "s"); /* does not wait for them */
  AWAIT(status_of(&scene, "c1") == MSGQ_STATUS_SENT);
  AWAIT(counts_of(&scene, NULL).sent == 41); /* late successes count */
  CHECK_NUMBER(2, calls_of(&batcher));
  scene_end(&scene);
}

/* ------------------------------------------------------------------------------------------- Sizes of the structs */

/* The structs of an older program, which end earlier, and of a newer one, which end later. */
struct old_delivery {
  uint32_t struct_size, attempt;
  uint64_t token;
  const char *id, *conversation;
  const void *body;
  size_t body_size;
};
struct old_outcome {
  uint32_t struct_size;
  msgq_verdict verdict;
  msgq_failure_kind kind;
  int32_t code;
};
struct new_delivery {
  msgq_delivery known;
  uint64_t later[3];
};
struct new_outcome {
  msgq_outcome known;
  uint64_t later[2];
};

static void old_send(void *context, const msgq_delivery *first, size_t count, msgq_outcome *out) {
  const struct old_delivery *deliveries = (const void *)first;
  struct old_outcome *outcomes = (void *)out;
  char *ids = context;
  for (size_t index = 0; index < count; index++) {
    CHECK(deliveries[index].struct_size == sizeof *deliveries && outcomes[index].struct_size == sizeof *outcomes);
    CHECK(deliveries[index].body_size == 5 && memcmp(deliveries[index].body, "hello", 5) == 0);
    strcat(ids, deliveries[index].id);
    outcomes[index].verdict = MSGQ_VERDICT_HTTP;
    outcomes[index].code = strcmp(deliveries[index].id, "b") == 0 ? 422 : 200;
  }
}

static void new_send(void *context, const msgq_delivery *first, size_t count, msgq_outcome *out) {
  const struct new_delivery *deliveries = (const void *)first;
  struct new_outcome *outcomes = (void *)out;
  char *ids = context;
  for (size_t index = 0; index < count; index++) {
    CHECK(deliveries[index].known.struct_size == sizeof(msgq_delivery) && outcomes[index].known.struct_size == sizeof(msgq_outcome));
    CHECK(deliveries[index].later[0] == 0 && deliveries[index].later[2] == 0 && outcomes[index].later[1] == 0);
    strcat(ids, deliveries[index].known.id);
    outcomes[index].known.verdict = MSGQ_VERDICT_SENT;
    outcomes[index].later[0] = 4711; /* a field that this library does not know */
  }
}

TEST(B1_I6_structs_of_older_and_newer_programs_have_their_own_sizes) {
  struct scene scene;
  char ids[16] = "";
  scene_begin_open(&scene);
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  options.delivery_size = sizeof(struct old_delivery);
  options.outcome_size = sizeof(struct old_outcome);
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, old_send, ids, NULL, &options));
  for (int number = 0; number < 3; number++) put(&scene, (char[]) { (char)('a' + number), 0 }, "ana", "hello");
  msgq_report report = drain(&scene);
  CHECK(report.sent == 2 && report.failed == 1);
  CHECK_TEXT("abc", ids);
  options.delivery_size = sizeof(struct new_delivery);
  options.outcome_size = sizeof(struct new_outcome);
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, new_send, ids, NULL, &options));
  for (int number = 3; number < 6; number++) put(&scene, (char[]) { (char)('a' + number), 0 }, "ana", "hello");
  CHECK_NUMBER(3, drain(&scene).sent);
  CHECK_TEXT("abcdef", ids);
  scene_end(&scene);
}

TEST(B1_D16_a_queue_opened_for_reading_takes_no_batch_transport) {
  struct scene scene;
  struct batcher batcher;
  const msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  begin_open(&scene, &batcher, MSGQ_MODE_MANUAL);
  put(&scene, "a", "ana", "s");
  scene_close(&scene);
  scene.options.read_only = true;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_PERMISSION, msgq_set_batch_transport(scene.queue, batcher_send, &batcher, batcher_release, &options));
  CHECK_NUMBER(1, atomic_load(&batcher.released));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_set_batch_transport(scene.queue, NULL, &batcher, batcher_release, NULL));
  CHECK_NUMBER(2, atomic_load(&batcher.released));
  scene_end(&scene);
}

/* Each of these attempts ends without an outcome, so that the next one is made a second later. */
TEST_LONG(R14_B1_a_skipped_message_of_retry_all_is_tried_once_a_second) {
  struct scene scene;
  struct batcher batcher;
  for (int mode = MSGQ_MODE_AUTO; mode <= MSGQ_MODE_MANUAL; mode++) {
    begin_open(&scene, &batcher, (msgq_mode)mode);
    set_batches(&scene, &batcher, NULL);
    put(&scene, "a1", "ana", "x");
    if (mode != MSGQ_MODE_AUTO) drain(&scene);
    AWAIT(status_of(&scene, "a1") == MSGQ_STATUS_FAILED);
    atomic_store(&batcher.skips, true);
    size_t before = batcher.count;
    int64_t start = steady_ms();
    REQUIRE_OK(msgq_retry_all(scene.queue, NULL, NULL));
    pause_ms(1500);
    pthread_mutex_lock(&batcher.lock);
    size_t calls = batcher.count - before;
    pthread_mutex_unlock(&batcher.lock);
    size_t most = 2 + (size_t)((steady_ms() - start) / 1000);
    if (!CHECK(calls > 0 && calls <= most)) fprintf(stderr, "  %zu calls in mode %d\n", calls, mode);
    scene_end(&scene);
  }
}

/* The next message of a `retry_all` does not wait for a skipped one that is gone. */
TEST(R14_B1_the_message_behind_a_skipped_one_that_is_deleted_is_next) {
  struct scene scene;
  struct batcher batcher;
  begin_open(&scene, &batcher, MSGQ_MODE_MANUAL);
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  options.max_messages = 1;
  set_batches(&scene, &batcher, &options);
  put_each(&scene, { "a1", "ana", "xk" }, { "a2", "ana", "xs" });
  CHECK_NUMBER(2, drain(&scene).failed);
  REQUIRE_OK(msgq_retry_all(scene.queue, NULL, NULL));
  AWAIT(calls_of(&batcher) >= 3);
  AWAIT(status_of(&scene, "a1") == MSGQ_STATUS_QUEUED);
  CHECK_NUMBER(MSGQ_REASON_BEHIND, reason_of(&scene, "a2"));
  while (msgq_delete(scene.queue, "a1") == MSGQ_BUSY) pause_ms(1);
  CHECK(reason_of(&scene, "a2") != MSGQ_REASON_BEHIND);
  AWAIT(status_of(&scene, "a2") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

/* What is enqueued while online is sent in the background, too. */
TEST_LONG(A11_B1_a_skipped_message_is_tried_again_in_the_background) {
  struct scene scene;
  struct batcher batcher;
  begin(&scene, &batcher);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  scene_open(&scene);
  set_online(&scene);
  set_batches(&scene, &batcher, NULL);
  REQUIRE_OK(msgq_set_lifecycle(scene.queue, MSGQ_LIFECYCLE_BACKGROUND));
  atomic_store(&batcher.skips, true);
  put(&scene, "a1", "ana", "s");
  AWAIT(calls_of(&batcher) >= 1);
  AWAIT(status_of(&scene, "a1") == MSGQ_STATUS_QUEUED);
  if (calls_of(&batcher) == 1) {
    msgq_explanation explanation = explain(&scene, "a1");
    msgq_state state = state_of(&scene);
    CHECK(explanation.reason == MSGQ_REASON_RETRYING || explanation.reason == MSGQ_REASON_SENDING);
    CHECK(state.reason == MSGQ_REASON_RETRYING || state.reason == MSGQ_REASON_SENDING);
  }
  put(&scene, "a2", "ana", "s");
  atomic_store(&batcher.skips, false);
  AWAIT(status_of(&scene, "a1") == MSGQ_STATUS_SENT && status_of(&scene, "a2") == MSGQ_STATUS_SENT);
  /* One whose time comes in the background is sent then. */
  put_timed(&scene, "a3", "ana", wall_ms() + 100, 0);
  AWAIT(attempts_of(&scene, "a3") == 1);
  scene_end(&scene);
}

/* Also behind messages that wait for the next run: the state reports what starts by itself. */
TEST_LONG(A11_X1_the_state_in_the_background_is_that_of_the_skipped_message) {
  static const unsigned backlogs[] = { 3, 100 };
  for (int i = 0; i < 2; i++) {
    struct scene scene;
    struct batcher batcher;
    char id[16];
    bool was_seen = false;
    begin(&scene, &batcher);
    scene.options.mode = MSGQ_MODE_AUTO;
    scene.options.direct = true;
    scene_open(&scene);
    for (unsigned number = 0; number < backlogs[i]; number++) {
      snprintf(id, sizeof id, "b%u", number);
      put(&scene, id, "ben", "s");
    }
    scene_close(&scene);
    scene_open(&scene);
    /* In the foreground the transport would send the messages at once. */
    REQUIRE_OK(msgq_set_lifecycle(scene.queue, MSGQ_LIFECYCLE_BACKGROUND));
    set_batches(&scene, &batcher, NULL);
    set_online(&scene);
    AWAIT(state_of(&scene).reason == MSGQ_REASON_TRIGGER);
    atomic_store(&batcher.skips, true);
    put(&scene, "a1", "ana", "s");
    for (int64_t end = steady_ms() + check_timeout_ms(); !was_seen && steady_ms() < end;) {
      int calls = calls_of(&batcher);
      msgq_explanation explanation = explain(&scene, "a1");
      msgq_state state = state_of(&scene);
      /* Nothing happened in between. */
      if (calls == 0 || explanation.reason != MSGQ_REASON_RETRYING || calls != calls_of(&batcher)) continue;
      if (explanation.until_ms < wall_ms() + 300) continue;
      was_seen = true;
      CHECK_NUMBER(MSGQ_REASON_RETRYING, state.reason);
      CHECK(state.until_ms >= explanation.until_ms - 2 && state.until_ms <= explanation.until_ms + 2);
    }
    CHECK(was_seen);
    atomic_store(&batcher.skips, false);
    AWAIT(status_of(&scene, "a1") == MSGQ_STATUS_SENT);
    AWAIT(state_of(&scene).reason == MSGQ_REASON_TRIGGER);
    scene_end(&scene);
  }
}

/* A batch waits 30 s for more messages, up to so many. */
static void begin_lingering(struct scene *scene, struct batcher *batcher, uint32_t max_messages, uint32_t drain_batch) {
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  begin(scene, batcher);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.direct = true;
  scene->options.drain_batch = drain_batch;
  scene->options.online_debounce_ms = 0;
  scene_open(scene);
  options.linger_ms = 30000;
  options.max_messages = max_messages;
  set_batches(scene, batcher, &options);
  set_online(scene);
}

TEST(B1_X1_while_a_batch_waits_for_more_messages_explain_says_until_when) {
  struct scene scene;
  struct batcher batcher;
  begin_lingering(&scene, &batcher, 2, 0);
  for (int round = 0; round < 2; round++) {
    REQUIRE_OK(msgq_set_lifecycle(scene.queue, round == 0 ? MSGQ_LIFECYCLE_FOREGROUND : MSGQ_LIFECYCLE_BACKGROUND));
    int64_t before = wall_ms();
    put(&scene, round == 0 ? "a1" : "b1", "ana", "s");
    msgq_explanation explanation = explain(&scene, round == 0 ? "a1" : "b1");
    msgq_state state = state_of(&scene);
    int64_t after = wall_ms();
    CHECK_NUMBER(MSGQ_REASON_NEXT, explanation.reason);
    CHECK(explanation.until_ms >= before + 29000 && explanation.until_ms <= after + 30001);
    CHECK_TEXT("It will be sent in 30 s, or as soon as its batch is full.", explanation.text);
    CHECK_NUMBER(MSGQ_REASON_NEXT, state.reason);
    CHECK(state.until_ms >= before + 29000 && state.until_ms <= after + 30001);
    CHECK_TEXT("The next batch will be sent in 30 s, or as soon as it is full.", state.text);
    put(&scene, round == 0 ? "a2" : "b2", "ben", "s");
    AWAIT(counts_of(&scene, NULL).sent == (uint64_t)(2 * round + 2));
  }
  scene_end(&scene);
}

/* What is sent without a run goes with the batch, also when a run has one message. */
TEST(B1_X1_every_message_of_a_batch_that_waits_is_sent_with_it) {
  struct scene scene;
  struct batcher batcher;
  begin_lingering(&scene, &batcher, 3, 1);
  int64_t before = wall_ms();
  put_each(&scene, { "a", "ana", "s" }, { "b", "ben", "s" });
  for (int index = 0; index < 2; index++) {
    msgq_explanation explanation = explain(&scene, index == 0 ? "a" : "b");
    CHECK_NUMBER(MSGQ_REASON_NEXT, explanation.reason);
    CHECK(explanation.until_ms >= before + 29000 && explanation.until_ms <= wall_ms() + 30001);
  }
  put(&scene, "c", "cem", "s");
  AWAIT(counts_of(&scene, NULL).sent == 3);
  scene_end(&scene);
}

/* Names are compared by their bytes, also where two look the same. */
static void check_names(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  atomic_int *wrong = context;
  for (size_t index = 0; index < count; index++) {
    if (strncmp(deliveries[index].body, deliveries[index].conversation, deliveries[index].body_size) != 0) atomic_fetch_add(wrong, 1);
    outcomes[index].verdict = MSGQ_VERDICT_SENT;
  }
}

TEST(B1_each_message_of_a_batch_has_the_name_of_its_conversation) {
  static const char composed[] = "caf\xc3\xa9", decomposed[] = "cafe\xcc\x81";
  struct scene scene;
  atomic_int wrong = 0;
  scene_begin_open(&scene);
  put_each(&scene, { "a", composed, composed }, { "b", decomposed, decomposed }, { "c", composed, composed });
  const msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, check_names, &wrong, NULL, &options));
  CHECK_NUMBER(3, drain(&scene).sent);
  CHECK_NUMBER(0, atomic_load(&wrong));
  scene_end(&scene);
}

TEST(B1_wrong_options_are_refused_and_released) {
  struct scene scene;
  struct batcher batcher;
  begin_open(&scene, &batcher, MSGQ_MODE_MANUAL);
  const msgq_batch_options usual = MSGQ_BATCH_OPTIONS_INIT;
  int refused = 0;
#define REFUSED(field, value)                                                                                               \
  do {                                                                                                                      \
    msgq_batch_options options = usual;                                                                                     \
    options.field = value;                                                                                                  \
    CHECK_RESULT(MSGQ_INVALID, msgq_set_batch_transport(scene.queue, batcher_send, &batcher, batcher_release, &options));   \
    CHECK_NUMBER(++refused, atomic_load(&batcher.released));                                                                \
  } while (0)
  REFUSED(struct_size, 0);
  REFUSED(struct_size, 8);
  REFUSED(max_messages, 1001);
  REFUSED(max_messages, UINT32_MAX);
  REFUSED(delivery_size, 0);
  REFUSED(delivery_size, 40);
  REFUSED(delivery_size, sizeof(msgq_delivery) + 4);
  REFUSED(delivery_size, SIZE_MAX);
  REFUSED(outcome_size, 8);
  REFUSED(outcome_size, 1 << 17);
  REFUSED(max_bytes, (UINT64_C(1) << 30) + 1);
  REFUSED(max_bytes, UINT64_MAX);
  REFUSED(linger_ms, -1);
  REFUSED(linger_ms, 60001);
  REFUSED(max_batches, 65);
  REFUSED(max_batches, UINT64_MAX);
  CHECK_RESULT(MSGQ_INVALID, msgq_set_batch_transport(scene.queue, batcher_send, &batcher, batcher_release, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_set_batch_transport(NULL, batcher_send, &batcher, batcher_release, &usual));
  CHECK_NUMBER(refused + 2, atomic_load(&batcher.released));
  CHECK(!state_of(&scene).has_transport);
  scene_end(&scene);
}
