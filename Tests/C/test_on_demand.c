/* msgq_retry and msgq_send_now while offline or paused, and msgq_retry_all. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

static void begin(struct scene *scene, struct stub *stub, msgq_mode mode) {
  scene_begin(scene);
  scene->options.mode = mode;
  set_ladder(scene, NULL, 0);
  stub_begin(stub, MSGQ_VERDICT_REJECT);
  stub->kind = MSGQ_FAILURE_REJECTED;
  stub->code = 400;
}

static void put_numbered(struct scene *scene, int count, const char *const *conversations, int of) {
  char id[32];
  for (int number = 1; number <= count; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(scene, id, conversations[number % of], "hello");
  }
}

/* Copies the last attempt of the ledger; returns the number of attempts. */
static size_t last_line(struct scene *scene, const char *id, msgq_attempt *out) {
  msgq_ledger *ledger = NULL;
  REQUIRE_OK(msgq_attempts(scene->queue, id, &ledger));
  size_t size = msgq_attempts_size(ledger);
  if (size > 0) *out = *msgq_attempts_at(ledger, size - 1);
  out->text = NULL;
  msgq_attempts_free(ledger);
  return size;
}

static uint64_t retry_all(struct scene *scene, const char *conversation) {
  uint64_t count = UINT64_MAX;
  CHECK_RESULT(MSGQ_OK, msgq_retry_all(scene->queue, conversation, &count));
  return count;
}

static void retry_offline(msgq_mode mode) {
  struct scene scene;
  struct stub stub;
  struct entry entry;
  msgq_attempt line;
  begin(&scene, &stub, mode);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  set_offline(&scene);
  size_t before = journal_count(&scene.journal, MSGQ_EVENT_STATUS);
  for (int time = 1; time <= 2; time++) {
    CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a")); /* the retry has ended: another is possible at once */
    AWAIT(journal_count(&scene.journal, MSGQ_EVENT_STATUS) == before + (size_t)time);
    REQUIRE(journal_last(&scene.journal, MSGQ_EVENT_STATUS, &entry));
    CHECK(entry.from == MSGQ_STATUS_FAILED && entry.to == MSGQ_STATUS_FAILED && entry.failure == MSGQ_FAILURE_OFFLINE);
    CHECK_NUMBER(2, entry.attempt);
  }
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_OFFLINE, failure_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_REASON_FAILED, reason_of(&scene, "a"));
  CHECK_NUMBER(1, attempts_of(&scene, "a")); /* the message never left */
  CHECK_NUMBER(2, last_line(&scene, "a", &line));
  CHECK(line.kind == MSGQ_FAILURE_OFFLINE && line.arrival == MSGQ_ARRIVAL_NO && line.outcome == MSGQ_ATTEMPT_RETRY);
  set_online(&scene);
  drain(&scene);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  stub.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, attempts_of(&scene, "a"));
  scene_end(&scene);
}

/* The kind of a message's `failure_before`; NONE: it has none. */
static msgq_failure_kind before_of(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  msgq_failure_kind kind = message->failure_before != NULL ? message->failure_before->kind : MSGQ_FAILURE_NONE;
  if (kind == MSGQ_FAILURE_REJECTED) {
    CHECK_NUMBER(400, message->failure_before->code);
    CHECK_NUMBER(1, message->failure_before->attempts);
    CHECK(message->failure_before->at_ms >= message->created_ms && !message->failure_before->retryable);
  }
  msgq_message_free(message);
  return kind;
}

TEST(R17_what_failed_before_stays_readable_after_a_retry_while_offline) {
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub, MSGQ_MODE_MANUAL);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(MSGQ_FAILURE_NONE, before_of(&scene, "a"));
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_FAILURE_NONE, before_of(&scene, "a")); /* `failure` shows it */
  set_offline(&scene);
  for (int time = 1; time <= 3; time++) {
    CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
    CHECK_NUMBER(MSGQ_FAILURE_OFFLINE, failure_of(&scene, "a"));
    CHECK_NUMBER(MSGQ_FAILURE_REJECTED, before_of(&scene, "a"));
  }
  scene_close(&scene);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(MSGQ_FAILURE_REJECTED, before_of(&scene, "a"));
  /* It fails for another reason. */
  set_online(&scene);
  stub.verdict = MSGQ_VERDICT_RETRY;
  stub.kind = MSGQ_FAILURE_SERVER;
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  AWAIT(failure_of(&scene, "a") == MSGQ_FAILURE_SERVER);
  CHECK_NUMBER(MSGQ_FAILURE_NONE, before_of(&scene, "a"));
  set_offline(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_SERVER, before_of(&scene, "a"));
  set_online(&scene);
  stub.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(MSGQ_FAILURE_NONE, before_of(&scene, "a"));
  scene_end(&scene);
}

/* The attempt of a retry waits for its outcome. */
TEST_LONG(R17_what_failed_before_is_readable_while_the_message_is_being_sent) {
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub, MSGQ_MODE_MANUAL);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_PENDING;
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENDING);
  CHECK_NUMBER(MSGQ_FAILURE_NONE, failure_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_REJECTED, before_of(&scene, "a"));
  scene_end(&scene);
}

TEST(R15_in_manual_mode_a_retry_while_offline_fails_again_at_once) { retry_offline(MSGQ_MODE_MANUAL); }

TEST(R15_in_mode_ask_a_retry_while_offline_fails_again_at_once) { retry_offline(MSGQ_MODE_ASK); }

static void send_offline(msgq_mode mode) {
  struct scene scene;
  struct stub stub;
  struct entry entry;
  msgq_attempt line;
  begin(&scene, &stub, mode);
  stub.verdict = MSGQ_VERDICT_SENT;
  stub_open(&stub, &scene);
  set_offline(&scene);
  put(&scene, "a", "ana", "hello");
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_STATUS) == 1);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_STATUS) == 3);
  REQUIRE(journal_last(&scene.journal, MSGQ_EVENT_STATUS, &entry));
  CHECK(entry.from == MSGQ_STATUS_QUEUED && entry.to == MSGQ_STATUS_QUEUED && entry.failure == MSGQ_FAILURE_OFFLINE);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_OFFLINE, failure_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_REASON_OFFLINE, reason_of(&scene, "a"));
  CHECK_NUMBER(0, attempts_of(&scene, "a"));
  CHECK_NUMBER(1, last_line(&scene, "a", &line));
  CHECK(line.kind == MSGQ_FAILURE_OFFLINE && line.arrival == MSGQ_ARRIVAL_NO);
  set_online(&scene);
  if (mode == MSGQ_MODE_AUTO) {
    AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  } else {
    pause_ms(20);
    CHECK_NUMBER(0, atomic_load(&stub.calls));
    CHECK_NUMBER(1, drain(&scene).sent);
  }
  scene_end(&scene);
}

TEST_LONG(R15_send_now_while_offline_ends_at_once_and_the_message_stays_queued) {
  send_offline(MSGQ_MODE_MANUAL);
  send_offline(MSGQ_MODE_ASK);
  send_offline(MSGQ_MODE_AUTO);
}

TEST(R15_in_mode_auto_a_retry_while_offline_is_queued_durably) {
  struct post post;
  char order[64], path[64];
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  set_ladder(&post.scene, NULL, 0);
  post_open(&post);
  receiver_answer(post.receiver, "a", 400, 1, NULL);
  put(&post.scene, "a", "ana", "hello");
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_FAILED);
  set_offline(&post.scene);
  put(&post.scene, "b", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "a"));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_retry(post.scene.queue, "a")); /* the message is queued now */
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_REASON_OFFLINE, reason_of(&post.scene, "a"));
  const char *expected = "none>queued>sending>failed>queued";
  AWAIT((journal_path(&post.scene.journal, "a", path, sizeof path), strlen(path) >= strlen(expected)));
  CHECK_TEXT(expected, path);
  scene_close(&post.scene);
  scene_open(&post.scene);
  set_offline(&post.scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "a"));
  REQUIRE_OK(msgq_set_transport(post.scene.queue, sender_send, &post.sender, sender_release));
  set_online(&post.scene);
  AWAIT(counts_of(&post.scene, NULL).sent == 2);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("a b", order);
  post_end(&post);
}

/* "a" has failed and waits for a retry; "b" of the same conversation is being sent. */
static void begin_busy(struct scene *scene, struct stub *stub) {
  begin(scene, stub, MSGQ_MODE_MANUAL);
  scene->options.on_demand_timeout_ms = 600000;
  stub_open(stub, scene);
  put(scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(scene).failed);
  put(scene, "b", "ana", "hello");
  put(scene, "c", "ana", "hello");
  stub->verdict = MSGQ_VERDICT_SENT;
  atomic_store(&stub->held, true);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene->queue, "b"));
  AWAIT(atomic_load(&stub->calls) == 2);
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene->queue, "a"));
  CHECK_RESULT(MSGQ_BUSY, msgq_retry(scene->queue, "a"));
}

TEST(R15_a_waiting_retry_fails_when_the_connection_is_lost) {
  struct scene scene;
  struct stub stub;
  begin_busy(&scene, &stub);
  set_offline(&scene);
  AWAIT(failure_of(&scene, "a") == MSGQ_FAILURE_OFFLINE);
  set_online(&scene);
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "b") == MSGQ_STATUS_SENT);
  drain(&scene);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(R15_a_pause_ends_a_waiting_retry_and_send_now) {
  struct scene scene;
  struct stub stub;
  begin_busy(&scene, &stub);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "c"));
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, "ana"));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_QUEUED);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_send_now(scene.queue, "c"));
  CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, "ana"));
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "b") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "c"));
  CHECK_NUMBER(2, drain(&scene).sent);
  scene_end(&scene);
}

static void retry_while_paused(msgq_mode mode, const char *scope) {
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub, mode);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  if (mode != MSGQ_MODE_AUTO) drain(&scene);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  stub.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, scope));
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a")); /* on disk */
  CHECK_NUMBER(MSGQ_REASON_PAUSED, reason_of(&scene, "a"));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_retry(scene.queue, "a")); /* the message is queued now */
  CHECK_RESULT(MSGQ_CONFLICT, msgq_send_now(scene.queue, "a"));
  CHECK(strstr(msgq_error_detail(), "paused") != NULL);
  AWAIT(journal_reached(&scene.journal, "a", MSGQ_STATUS_QUEUED));
  CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, scope));
  if (mode != MSGQ_MODE_AUTO) CHECK_NUMBER(1, drain(&scene).sent);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

TEST_LONG(R15_while_paused_a_retry_is_queued_and_send_now_is_refused) {
  for (int mode = MSGQ_MODE_AUTO; mode <= MSGQ_MODE_MANUAL; mode += 1) {
    retry_while_paused((msgq_mode)mode, NULL);
    retry_while_paused((msgq_mode)mode, "ana");
  }
}

TEST_LONG(R14_retry_all_sends_all_failed_messages_in_every_mode) {
  static const char *const names[] = { "ana", "ben", "cem" };
  const int many = check_times(600, 60);
  for (int mode = MSGQ_MODE_AUTO; mode <= MSGQ_MODE_MANUAL; mode++) {
    struct scene scene;
    struct stub stub;
    char path[128], last[16];
    snprintf(last, sizeof last, "m%d", many);
    begin(&scene, &stub, (msgq_mode)mode);
    stub_open(&stub, &scene);
    put_numbered(&scene, many, names, 3);
    drain(&scene);
    AWAIT(counts_of(&scene, NULL).failed == (uint64_t)many);
    msgq_report report = drain(&scene);
    CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 0 && report.failed == 0);
    CHECK_NUMBER(many, report.remaining_failed); /* a drain does not send failed messages */
    stub.verdict = MSGQ_VERDICT_SENT;
    CHECK_NUMBER(many, retry_all(&scene, NULL));
    AWAIT(counts_of(&scene, NULL).sent == (uint64_t)many);
    CHECK_NUMBER(2 * many, atomic_load(&stub.calls));
    CHECK_NUMBER(0, retry_all(&scene, NULL));
    AWAIT(journal_reached(&scene.journal, last, MSGQ_STATUS_SENT));
    journal_path(&scene.journal, last, path, sizeof path);
    CHECK_TEXT("none>queued>sending>failed>queued>sending>sent", path);
    scene_end(&scene);
  }
}

TEST(R14_retry_all_of_one_conversation_keeps_order_and_leaves_queued_messages) {
  struct post post;
  char order[128], left[64];
  post_begin_open(&post);
  put(&post.scene, "old", "ana", "1");
  for (int number = 1; number <= 6; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, number % 2 == 0 ? "ana" : "ben", "2");
    receiver_answer(post.receiver, id, 400, 1, NULL);
    CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, id));
    AWAIT(status_of(&post.scene, id) == MSGQ_STATUS_FAILED);
  }
  CHECK_NUMBER(3, retry_all(&post.scene, "ana"));
  AWAIT(counts_of(&post.scene, NULL).sent == 3);
  receiver_order(post.receiver, "ana", order, sizeof order);
  CHECK(strstr(order, "m2 m4 m6") != NULL);
  unsent_of(&post.scene, left, sizeof left);
  CHECK_TEXT("old m1 m3 m5", left);
  CHECK_NUMBER(1, counts_of(&post.scene, NULL).queued);
  CHECK_NUMBER(0, retry_all(&post.scene, "nobody"));
  post_end(&post);
}

TEST_LONG(R14_retry_all_while_offline_queues_messages_only_in_mode_auto) {
  for (int mode = MSGQ_MODE_AUTO; mode <= MSGQ_MODE_MANUAL; mode++) {
    static const char *const names[] = { "ana" };
    struct scene scene;
    struct stub stub;
    begin(&scene, &stub, (msgq_mode)mode);
    stub_open(&stub, &scene);
    put_numbered(&scene, 5, names, 1);
    drain(&scene);
    AWAIT(counts_of(&scene, NULL).failed == 5);
    stub.verdict = MSGQ_VERDICT_SENT;
    set_offline(&scene);
    CHECK_NUMBER(mode == MSGQ_MODE_AUTO ? 5 : 0, retry_all(&scene, NULL));
    CHECK_NUMBER(mode == MSGQ_MODE_AUTO ? 5 : 0, counts_of(&scene, NULL).queued);
    scene_close(&scene);
    stub_open(&stub, &scene);
    set_online(&scene);
    if (mode != MSGQ_MODE_AUTO) CHECK_NUMBER(5, retry_all(&scene, NULL));
    AWAIT(counts_of(&scene, NULL).sent == 5);
    scene_end(&scene);
  }
}

TEST(R14_retry_all_queues_messages_of_a_paused_conversation_until_resume) {
  static const char *const names[] = { "ana", "ben" };
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub, MSGQ_MODE_MANUAL);
  stub_open(&stub, &scene);
  put_numbered(&scene, 4, names, 2);
  CHECK_NUMBER(4, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, "ana"));
  CHECK_NUMBER(4, retry_all(&scene, NULL));
  AWAIT(counts_of(&scene, "ben").sent == 2);
  CHECK_NUMBER(2, counts_of(&scene, "ana").queued);
  CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, "ana"));
  AWAIT(counts_of(&scene, "ana").sent == 2);
  scene_end(&scene);
}

TEST(R14_retry_all_resets_retries_and_removes_the_expiry) {
  static const int64_t ladder[] = { 600000 };
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub, MSGQ_MODE_MANUAL);
  set_ladder(&scene, ladder, 1);
  stub.verdict = MSGQ_VERDICT_RETRY;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  put_timed(&scene, "late", "ben", 0, wall_ms() + 1);
  AWAIT(status_of(&scene, "late") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(1, drain(&scene).remaining);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(2, retry_all(&scene, NULL));
  AWAIT(reason_of(&scene, "a") == MSGQ_REASON_RETRYING && reason_of(&scene, "late") == MSGQ_REASON_RETRYING);
  CHECK_NUMBER(4, atomic_load(&stub.calls));
  stub.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "late"));
  AWAIT(status_of(&scene, "late") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

TEST(R14_retry_all_without_a_transport_changes_nothing) {
  struct scene scene;
  struct stub stub;
  uint64_t count = 4711;
  begin(&scene, &stub, MSGQ_MODE_MANUAL);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_RESULT(MSGQ_OK, msgq_set_transport(scene.queue, NULL, NULL, NULL));
  CHECK_RESULT(MSGQ_NO_TRANSPORT, msgq_retry_all(scene.queue, NULL, &count));
  CHECK_NUMBER(4711, count);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST_LONG(R14_retry_all_queues_a_hundred_thousand_messages) {
  enum { most = 100000 };
  const int many = check_times(most, 500);
  static const char *const names[] = { "ana", "ben", "cem", "dana" };
  struct scene scene;
  struct stub stub;
  static msgq_draft drafts[most];
  static char ids[most][16];
  begin(&scene, &stub, MSGQ_MODE_MANUAL);
  stub_open(&stub, &scene);
  int64_t soon = wall_ms() + 1;
  for (int number = 0; number < many; number++) {
    snprintf(ids[number], sizeof ids[number], "m%d", number);
    drafts[number] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[number].id = ids[number];
    drafts[number].conversation = names[number % 4];
    drafts[number].expires_at_ms = soon; /* the fastest way to fail this many messages */
  }
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, many, NULL));
  drain(&scene);
  AWAIT(counts_of(&scene, NULL).failed == (uint64_t)many);
  stub.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, NULL));
  CHECK_NUMBER(many, retry_all(&scene, NULL));
  CHECK_NUMBER(many, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(0, counts_of(&scene, NULL).failed);
  CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, NULL));
  AWAIT(atomic_load(&stub.calls) >= 100);
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
  AWAIT(counts_of(&scene, NULL).queued == 0);
  scene_end(&scene);
}
