/* M14: calls that wait for the outcome of a message. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "scene.h"
#include "stub.h"

/* A queue that sends by itself, in mode auto. */
static void begin_auto(struct scene *scene, struct stub *stub, msgq_verdict verdict) {
  scene_begin(scene);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.direct = true;
  stub_begin(stub, verdict);
  stub_open(stub, scene);
}

/* What a wait returned. */
struct outcome {
  msgq_result result;
  msgq_status status;
  msgq_reason reason;
  msgq_failure_kind failure;
  bool has_body;
  uint32_t attempts;
  char behind[MSGQ_ID_SIZE];
  char text[256];
};

static struct outcome taken(msgq_result result, msgq_message *message) {
  struct outcome outcome = { .result = result };
  if (message == NULL) return outcome;
  outcome.status = message->status;
  outcome.failure = message->failure ? message->failure->kind : MSGQ_FAILURE_NONE;
  outcome.has_body = message->body != NULL;
  outcome.attempts = message->attempts;
  if (CHECK(message->explanation != NULL)) {
    CHECK_NUMBER(sizeof(msgq_explanation), message->explanation->struct_size);
    outcome.reason = message->explanation->reason;
    snprintf(outcome.behind, sizeof outcome.behind, "%s", message->explanation->behind);
    snprintf(outcome.text, sizeof outcome.text, "%s", message->explanation->text);
    CHECK(outcome.text[0] != '\0');
  }
  return outcome;
}

static struct outcome wait_for(struct scene *scene, const char *id, int64_t timeout_ms) {
  msgq_message *message = NULL;
  msgq_result result = msgq_wait(scene->queue, id, timeout_ms, &message);
  if (message) CHECK_TEXT(id, message->id);
  struct outcome outcome = taken(result, message);
  msgq_message_free(message);
  return outcome;
}

/* Waits without end and compares. */
static void check_outcome(struct scene *scene, const char *id, msgq_status status, msgq_reason reason) {
  struct outcome outcome = wait_for(scene, id, check_timeout_ms());
  CHECK_RESULT(MSGQ_OK, outcome.result);
  CHECK_NUMBER(status, outcome.status);
  CHECK_NUMBER(reason, outcome.reason);
}

/* A wait on a thread of its own. */
struct waiting {
  struct scene *scene;
  const char *id;
  int64_t timeout_ms;
  struct outcome outcome;
  atomic_bool has_ended;
  pthread_t thread;
};

static void *run_wait(void *context) {
  struct waiting *waiting = context;
  waiting->outcome = wait_for(waiting->scene, waiting->id, waiting->timeout_ms);
  atomic_store(&waiting->has_ended, true);
  return NULL;
}

static void waiting_begin(struct waiting *waiting, struct scene *scene, const char *id) {
  *waiting = (struct waiting) { .scene = scene, .id = id, .timeout_ms = check_timeout_ms() };
  REQUIRE(pthread_create(&waiting->thread, NULL, run_wait, waiting) == 0);
}

static struct outcome waiting_end(struct waiting *waiting) {
  pthread_join(waiting->thread, NULL);
  return waiting->outcome;
}

/* ---------------------------------------------------------------- outcomes */

TEST(M14_a_wait_returns_when_the_message_was_sent) {
  struct scene scene;
  struct stub stub;
  begin_auto(&scene, &stub, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  struct outcome outcome = wait_for(&scene, "a", -1);
  CHECK_RESULT(MSGQ_OK, outcome.result);
  CHECK(outcome.status == MSGQ_STATUS_SENT && outcome.reason == MSGQ_REASON_NONE && outcome.has_body);
  check_outcome(&scene, "a", MSGQ_STATUS_SENT, MSGQ_REASON_NONE); /* the outcome came before the wait */
  scene_end(&scene);
}

TEST(M14_a_wait_lasts_while_the_message_is_being_sent) {
  struct scene scene;
  struct stub stub;
  struct waiting waiting;
  begin_auto(&scene, &stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  put(&scene, "a", "ana", "hello");
  waiting_begin(&waiting, &scene, "a");
  AWAIT(atomic_load(&stub.inside) == 1);
  pause_ms(100);
  CHECK(!atomic_load(&waiting.has_ended));
  struct outcome outcome = wait_for(&scene, "a", 30); /* another one, with a limit */
  CHECK_RESULT(MSGQ_TIMEOUT, outcome.result);
  CHECK(outcome.status == MSGQ_STATUS_SENDING && outcome.reason == MSGQ_REASON_SENDING && outcome.has_body);
  CHECK_RESULT(MSGQ_TIMEOUT, wait_for(&scene, "a", 0).result);
  atomic_store(&stub.held, false);
  CHECK_NUMBER(MSGQ_STATUS_SENT, waiting_end(&waiting).status);
  scene_end(&scene);
}

TEST(M14_every_thread_that_waits_for_a_message_has_its_outcome) {
  struct scene scene;
  struct stub stub;
  struct waiting waiting[3];
  begin_auto(&scene, &stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  put(&scene, "a", "ana", "hello");
  for (int index = 0; index < 3; index++) waiting_begin(&waiting[index], &scene, "a");
  AWAIT(atomic_load(&stub.inside) == 1);
  pause_ms(50);
  for (int index = 0; index < 3; index++) CHECK(!atomic_load(&waiting[index].has_ended));
  atomic_store(&stub.held, false);
  for (int index = 0; index < 3; index++) {
    struct outcome outcome = waiting_end(&waiting[index]);
    CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_SENT && outcome.has_body);
  }
  scene_end(&scene);
}

TEST(M14_the_longest_and_the_least_timeout) {
  struct scene scene;
  struct stub stub;
  begin_auto(&scene, &stub, MSGQ_VERDICT_SENT);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ana", "hello" });
  CHECK_NUMBER(MSGQ_STATUS_SENT, wait_for(&scene, "a", INT64_MAX).status);
  CHECK_NUMBER(MSGQ_STATUS_SENT, wait_for(&scene, "b", INT64_MIN).status);
  scene_end(&scene);
}

TEST(M14_a_final_failure_ends_a_wait_with_its_failure) {
  struct scene scene;
  struct stub stub;
  begin_auto(&scene, &stub, MSGQ_VERDICT_REJECT);
  put(&scene, "a", "ana", "hello");
  struct outcome outcome = wait_for(&scene, "a", -1);
  CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_FAILED);
  CHECK(outcome.failure == MSGQ_FAILURE_REJECTED && outcome.reason == MSGQ_REASON_FAILED);
  check_outcome(&scene, "a", MSGQ_STATUS_FAILED, MSGQ_REASON_FAILED);
  scene_end(&scene);
}

TEST(M14_a_failure_that_is_retried_ends_a_wait_as_queued) {
  static const int64_t ladder[] = { 600000 };
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  set_ladder(&scene, ladder, 1);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.kind = MSGQ_FAILURE_SERVER;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  struct outcome outcome = wait_for(&scene, "a", -1);
  CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_QUEUED);
  CHECK(outcome.failure == MSGQ_FAILURE_SERVER && outcome.reason == MSGQ_REASON_RETRYING);
  /* One behind it is not sent now, either. */
  put(&scene, "b", "ana", "hello");
  outcome = wait_for(&scene, "b", -1);
  CHECK(outcome.status == MSGQ_STATUS_QUEUED && outcome.reason == MSGQ_REASON_BEHIND);
  CHECK_TEXT("a", outcome.behind);
  /* A request by hand begins a new wait for an outcome. */
  stub.verdict = MSGQ_VERDICT_SENT;
  REQUIRE_OK(msgq_send_now(scene.queue, "a"));
  check_outcome(&scene, "a", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  check_outcome(&scene, "b", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  scene_end(&scene);
}

TEST(M14_after_a_retry_by_hand_a_wait_is_for_its_outcome) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ben", "hello" });
  CHECK_NUMBER(2, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_SENT;
  REQUIRE_OK(msgq_retry(scene.queue, "a"));
  check_outcome(&scene, "a", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  REQUIRE_OK(msgq_retry_all(scene.queue, NULL, NULL));
  check_outcome(&scene, "b", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  scene_end(&scene);
}

/* Only one attempt is made at a time, so that the others wait for their turn. */
TEST(M14_failed_messages_that_are_put_back_have_no_outcome) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ben", "hello" }, { "c", "cid", "hello" });
  CHECK_NUMBER(3, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_SENT;
  atomic_store(&stub.held, true);
  REQUIRE_OK(msgq_pause(scene.queue, "cid"));
  REQUIRE_OK(msgq_retry(scene.queue, "c"));
  check_outcome(&scene, "c", MSGQ_STATUS_QUEUED, MSGQ_REASON_PAUSED);
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.include_failed = true;
  REQUIRE_OK(msgq_drain_async(scene.queue, &options, NULL, NULL));
  REQUIRE_OK(msgq_resume(scene.queue, "cid"));
  AWAIT(atomic_load(&stub.inside) == 1);
  const char *waiting[] = { "b", "c" };
  for (int index = 0; index < 2; index++) {
    struct outcome outcome = wait_for(&scene, waiting[index], 50);
    CHECK_RESULT(MSGQ_TIMEOUT, outcome.result);
    CHECK_NUMBER(MSGQ_REASON_NEXT, outcome.reason);
  }
  atomic_store(&stub.held, false);
  check_outcome(&scene, "b", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  check_outcome(&scene, "c", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  scene_end(&scene);
}

TEST(M14_a_wait_behind_a_message_that_is_being_sent_lasts) {
  struct scene scene;
  struct stub stub;
  struct waiting waiting;
  begin_auto(&scene, &stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ana", "hello" });
  AWAIT(atomic_load(&stub.inside) == 1);
  struct outcome outcome = wait_for(&scene, "b", 20);
  CHECK(outcome.result == MSGQ_TIMEOUT && outcome.reason == MSGQ_REASON_BEHIND && outcome.status == MSGQ_STATUS_QUEUED);
  waiting_begin(&waiting, &scene, "b");
  pause_ms(50);
  CHECK(!atomic_load(&waiting.has_ended));
  atomic_store(&stub.held, false);
  CHECK_NUMBER(MSGQ_STATUS_SENT, waiting_end(&waiting).status);
  scene_end(&scene);
}

TEST(M14_an_offline_outcome_ends_a_wait) {
  struct scene scene;
  struct stub stub;
  begin_auto(&scene, &stub, MSGQ_VERDICT_OFFLINE);
  put(&scene, "a", "ana", "hello");
  struct outcome outcome = wait_for(&scene, "a", -1);
  CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_QUEUED && outcome.reason == MSGQ_REASON_HOLDING);
  CHECK(strstr(outcome.text, "stub says") != NULL); /* the transport's reason for being offline */
  scene_end(&scene);
}

/* ---------------------------------------------------------------- what would not be sent */

TEST(M14_a_wait_for_what_nothing_sends_returns_at_once) {
  struct scene scene;
  struct stub stub;
  int64_t start = steady_ms();
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  scene_open(&scene);
  put(&scene, "a", "ana", "hello");
  check_outcome(&scene, "a", MSGQ_STATUS_QUEUED, MSGQ_REASON_NO_TRANSPORT);
  set_offline(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  check_outcome(&scene, "a", MSGQ_STATUS_QUEUED, MSGQ_REASON_OFFLINE);
  REQUIRE_OK(msgq_pause(scene.queue, NULL));
  set_online(&scene);
  check_outcome(&scene, "a", MSGQ_STATUS_QUEUED, MSGQ_REASON_PAUSED);
  REQUIRE_OK(msgq_resume(scene.queue, NULL));
  check_outcome(&scene, "a", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  put_timed(&scene, "later", "ana", wall_ms() + 600000, 0);
  check_outcome(&scene, "later", MSGQ_STATUS_QUEUED, MSGQ_REASON_SCHEDULED);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  CHECK(steady_ms() - start < check_timeout_ms());
  scene_end(&scene);
}

TEST(M14_a_wait_for_a_person_returns_at_once_and_during_a_drain_lasts) {
  struct scene scene;
  struct stub stub;
  struct waiting waiting;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  check_outcome(&scene, "a", MSGQ_STATUS_QUEUED, MSGQ_REASON_PERSON);
  atomic_store(&stub.held, true);
  REQUIRE_OK(msgq_drain_async(scene.queue, NULL, NULL, NULL));
  waiting_begin(&waiting, &scene, "a");
  pause_ms(50);
  CHECK(!atomic_load(&waiting.has_ended));
  atomic_store(&stub.held, false);
  CHECK_NUMBER(MSGQ_STATUS_SENT, waiting_end(&waiting).status);
  scene_end(&scene);
}

/* What stops everything ends the waits that had begun before. */
TEST(M14_a_change_during_a_wait_ends_it) {
  struct scene scene;
  struct stub stub;
  struct waiting waiting;
  begin_auto(&scene, &stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ana", "hello" }, { "c", "ana", "hello" }, { "d", "ana", "hello" });
  AWAIT(atomic_load(&stub.inside) == 1);

  waiting_begin(&waiting, &scene, "b");
  pause_ms(30);
  REQUIRE_OK(msgq_pause(scene.queue, NULL));
  struct outcome outcome = waiting_end(&waiting);
  CHECK(outcome.status == MSGQ_STATUS_QUEUED && outcome.reason == MSGQ_REASON_PAUSED);
  REQUIRE_OK(msgq_resume(scene.queue, NULL));

  waiting_begin(&waiting, &scene, "b");
  pause_ms(30);
  set_offline(&scene);
  CHECK_NUMBER(MSGQ_REASON_OFFLINE, waiting_end(&waiting).reason);
  set_online(&scene);

  waiting_begin(&waiting, &scene, "c");
  pause_ms(30);
  REQUIRE_OK(msgq_delete(scene.queue, "c"));
  outcome = waiting_end(&waiting);
  CHECK(outcome.result == MSGQ_OK && outcome.reason == MSGQ_REASON_GONE && !outcome.has_body);
  CHECK_TEXT("It was deleted.", outcome.text);

  waiting_begin(&waiting, &scene, "d");
  pause_ms(30);
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  outcome = waiting_end(&waiting);
  CHECK(outcome.result == MSGQ_OK && outcome.reason == MSGQ_REASON_GONE);
  atomic_store(&stub.held, false);
  scene_end(&scene);
}

/* ---------------------------------------------------------------- messages that are gone */

TEST(M14_a_message_that_was_sent_and_removed_has_its_outcome) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_sent = 0;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ana", "hello" });
  CHECK_NUMBER(2, drain(&scene).sent);
  CHECK_NUMBER(-1, status_of(&scene, "a"));
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_wait(scene.queue, "a", -1, &message));
  CHECK(message->status == MSGQ_STATUS_SENT && message->sent_ms > 0 && message->body == NULL && message->body_size == 0);
  CHECK_NUMBER(1, message->attempts);
  CHECK_TEXT("ana", message->conversation);
  CHECK_NUMBER(MSGQ_REASON_NONE, message->explanation->reason);
  msgq_message_free(message);
  scene_close(&scene);
  stub_open(&stub, &scene); /* another process would not know it, either */
  CHECK_RESULT(MSGQ_NOT_FOUND, wait_for(&scene, "a", -1).result);
  scene_end(&scene);
}

static msgq_verdict send_with_receipt(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery;
  out->receipt = MSGQ_STATUS_DELIVERED;
  return MSGQ_VERDICT_SENT;
}

TEST(M14_A13_a_message_that_was_delivered_at_once_and_removed) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.keep_sent = 0;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_with_receipt, NULL, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_NUMBER(-1, status_of(&scene, "a"));
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_wait(scene.queue, "a", -1, &message));
  CHECK(message->status == MSGQ_STATUS_DELIVERED && message->sent_ms > 0);
  msgq_message_free(message);
  scene_end(&scene);
}

TEST(M14_a_message_that_was_deleted_after_it_was_sent_was_sent) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  REQUIRE_OK(msgq_delete(scene.queue, "a"));
  check_outcome(&scene, "a", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  scene_end(&scene);
}

/* Their one event names no message. */
TEST(M14_a_message_that_a_call_for_many_deleted_is_known) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  for (int call = 0; call < 4; call++) {
    put_each(&scene, { "a", "ana", "1" }, { "b", "ana", "2" });
    if (call == 3) CHECK_NUMBER(2, drain(&scene).failed);
    if (call == 0) REQUIRE_OK(msgq_clear(scene.queue, "ana"));
    if (call == 1) REQUIRE_OK(msgq_clear(scene.queue, NULL));
    if (call == 2) REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", NULL));
    if (call == 3) REQUIRE_OK(msgq_clear_failed(scene.queue, NULL, NULL));
    check_outcome(&scene, "a", MSGQ_STATUS_QUEUED, MSGQ_REASON_GONE);
    check_outcome(&scene, "b", MSGQ_STATUS_QUEUED, MSGQ_REASON_GONE);
  }
  CHECK_RESULT(MSGQ_NOT_FOUND, wait_for(&scene, "c", 0).result);
  scene_end(&scene);
}

/* Ids are compared by their bytes, also where two look the same. */
TEST(M14_a_wait_is_not_ended_by_a_message_whose_id_looks_the_same) {
  static const char composed[] = "caf\xc3\xa9", decomposed[] = "cafe\xcc\x81";
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_sent = 0;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  put(&scene, composed, "ana", "1");
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_RESULT(MSGQ_NOT_FOUND, wait_for(&scene, decomposed, 0).result);
  put(&scene, decomposed, "ana", "2");
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, wait_for(&scene, decomposed, 0).status);
  REQUIRE_OK(msgq_delete(scene.queue, decomposed));
  check_outcome(&scene, decomposed, MSGQ_STATUS_QUEUED, MSGQ_REASON_GONE);
  check_outcome(&scene, composed, MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  scene_end(&scene);
}

/* An id that is not remembered may be used again; what became of the earlier message says nothing of the later one. */
TEST(M14_a_message_with_a_used_id_is_another_one) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_sent = 0;
  scene.options.remember_ids_ms = 0;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "1");
  CHECK_NUMBER(1, drain(&scene).sent);
  check_outcome(&scene, "a", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  put(&scene, "a", "ana", "2");
  REQUIRE_OK(msgq_delete(scene.queue, "a"));
  check_outcome(&scene, "a", MSGQ_STATUS_QUEUED, MSGQ_REASON_GONE);
  scene_end(&scene);
}

/* The time at which a message becomes failed is no change of the one behind it, which can start then. */
TEST(M14_a_wait_behind_a_message_whose_attempt_times_out_ends_then) {
  static const int64_t ladder[] = { 600000 };
  struct scene scene;
  struct stub stub;
  struct waiting waiting;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_in_flight = 2;
  scene.options.attempt_timeout_ms = 300;
  set_ladder(&scene, ladder, 1);
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  stub_open(&stub, &scene);
  set_online(&scene);
  put(&scene, "a", "ana", "1");
  pause_ms(4);
  put_each(&scene, { "b", "ben", "2" }, { "behind", "ben", "3" });
  AWAIT(atomic_load(&stub.calls) == 2);
  int64_t start = steady_ms();
  waiting_begin(&waiting, &scene, "behind");
  struct outcome outcome = waiting_end(&waiting);
  CHECK(outcome.result == MSGQ_OK && outcome.reason == MSGQ_REASON_BEHIND);
  CHECK(steady_ms() - start < check_times(450, 5000));
  scene_end(&scene);
}

/* A receipt is no end: it takes no place of one, and the attempts stay known. */
TEST_LONG(M14_H12_receipts_leave_what_is_known_of_messages_that_are_gone) {
  enum { old = 5000 };
  static char ids[old][16];
  static const char *names[old];
  static msgq_draft drafts[old];
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_sent = 2 * old;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  for (int number = 0; number < old; number++) {
    snprintf(ids[number], sizeof ids[number], "o%d", number);
    names[number] = ids[number];
    drafts[number] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[number].id = ids[number];
  }
  REQUIRE_OK(msgq_record_batch(scene.queue, drafts, NULL, old, NULL));
  put_each(&scene, { "a", "ana", "1" }, { "b", "ana", "2" });
  CHECK_NUMBER(2, drain(&scene).sent);
  REQUIRE_OK(msgq_mark(scene.queue, "a", MSGQ_STATUS_READ));
  REQUIRE_OK(msgq_delete(scene.queue, "a"));
  REQUIRE_OK(msgq_delete(scene.queue, "b"));
  REQUIRE_OK(msgq_mark_batch(scene.queue, names, old, MSGQ_STATUS_READ, NULL));
  struct outcome outcome = wait_for(&scene, "a", 0);
  CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_READ && outcome.attempts == 1);
  outcome = wait_for(&scene, "b", 0);
  CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_SENT && outcome.attempts == 1);
  scene_end(&scene);
}

TEST(M14_a_message_that_was_discarded_has_its_failure) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.refused = MSGQ_REFUSED_DISCARD;
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).discarded);
  struct outcome outcome = wait_for(&scene, "a", -1);
  CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_FAILED && outcome.failure == MSGQ_FAILURE_REJECTED);
  CHECK(outcome.reason == MSGQ_REASON_GONE && !outcome.has_body);
  put(&scene, "a", "ana", "again"); /* a new message of the same id */
  check_outcome(&scene, "a", MSGQ_STATUS_QUEUED, MSGQ_REASON_PERSON);
  REQUIRE_OK(msgq_delete(scene.queue, "a"));
  outcome = wait_for(&scene, "a", -1);
  CHECK(outcome.reason == MSGQ_REASON_GONE && outcome.failure == MSGQ_FAILURE_NONE);
  scene_end(&scene);
}

TEST(M14_F5_a_message_that_was_replaced_names_the_new_one) {
  struct scene scene;
  struct stub stub;
  struct waiting waiting;
  begin_auto(&scene, &stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  put(&scene, "first", "ana", "hello");
  AWAIT(atomic_load(&stub.inside) == 1);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana";
  draft.replace_key = "position";
  draft.id = "old";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  waiting_begin(&waiting, &scene, "old");
  pause_ms(30);
  draft.id = "new";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  struct outcome outcomes[] = { waiting_end(&waiting), wait_for(&scene, "old", -1) };
  for (int index = 0; index < 2; index++) {
    CHECK(outcomes[index].result == MSGQ_OK && outcomes[index].status == MSGQ_STATUS_QUEUED);
    CHECK_NUMBER(MSGQ_REASON_GONE, outcomes[index].reason);
    CHECK_TEXT("new", outcomes[index].behind);
  }
  atomic_store(&stub.held, false);
  check_outcome(&scene, "new", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  scene_end(&scene);
}

TEST_LONG(M14_the_last_4096_ends_are_known) {
  enum { known = 4096, more = 10 };
  struct scene scene;
  struct stub stub;
  char id[16];
  scene_begin(&scene);
  scene.options.keep_sent = 0;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  static msgq_draft drafts[known + more];
  static char ids[known + more][16];
  for (int number = 0; number < known + more; number++) {
    snprintf(ids[number], sizeof ids[number], "m%d", number);
    drafts[number] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[number].id = ids[number];
  }
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, known + more, NULL));
  CHECK_NUMBER(known + more, drain(&scene).sent);
  for (int number = 0; number < known + more; number++) {
    snprintf(id, sizeof id, "m%d", number);
    if (number > 20 && number < known - 10) continue;
    struct outcome outcome = wait_for(&scene, id, -1);
    CHECK_RESULT(number < more ? MSGQ_NOT_FOUND : MSGQ_OK, outcome.result);
    if (number >= more) CHECK_NUMBER(MSGQ_STATUS_SENT, outcome.status);
  }
  scene_end(&scene);
}

TEST(M14_after_a_restart_the_store_knows_the_outcome) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "sent", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(&scene, "failed", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  put(&scene, "queued", "ana", "hello");
  scene_close(&scene);
  scene.options.read_only = true;
  scene_open(&scene);
  check_outcome(&scene, "sent", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  check_outcome(&scene, "failed", MSGQ_STATUS_FAILED, MSGQ_REASON_FAILED);
  check_outcome(&scene, "queued", MSGQ_STATUS_QUEUED, MSGQ_REASON_NO_TRANSPORT);
  scene_end(&scene);
}

/* A queue for reading sends nothing, so that a wait for what another process left returns at once. */
TEST(M14_D16_a_wait_for_what_a_process_left_in_an_attempt) {
  struct scene scene;
  char line[16];
  scene_begin(&scene);
  struct child child = child_start("end-while-sending", scene.path, "transport");
  child_line(&child, line, sizeof line);
  child_wait(&child);
  scene.options.read_only = true;
  scene_open(&scene);
  msgq_page *page = NULL;
  REQUIRE_OK(msgq_list(scene.queue, NULL, &page));
  REQUIRE(msgq_list_size(page) > 0);
  const msgq_message *message = msgq_list_at(page, 0);
  check_outcome(&scene, message->id, message->status, MSGQ_REASON_NO_TRANSPORT);
  msgq_list_free(page);
  scene_end(&scene);
}

/* ---------------------------------------------------------------- polled queues, callbacks, closing */

static msgq_verdict send_and_count(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)delivery, (void)out;
  atomic_fetch_add((atomic_int *)context, 1);
  return MSGQ_VERDICT_SENT;
}

TEST(M14_X7_a_wait_runs_the_callbacks_of_a_polled_queue) {
  static const msgq_callbacks kinds[] = { MSGQ_CALLBACKS_POLL, MSGQ_CALLBACKS_POLL_TIMER };
  for (int index = 0; index < 2; index++) {
    struct scene scene;
    atomic_int calls = 0;
    scene_begin(&scene);
    scene.options.mode = MSGQ_MODE_AUTO;
    scene.options.direct = true;
    scene.options.callbacks = kinds[index];
    scene_open(&scene);
    REQUIRE_OK(msgq_set_transport(scene.queue, send_and_count, &calls, NULL));
    put(&scene, "a", "ana", "hello");
    CHECK_NUMBER(0, atomic_load(&calls));
    check_outcome(&scene, "a", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
    CHECK_NUMBER(1, atomic_load(&calls));
    scene_end(&scene);
  }
}

TEST_LONG(M14_X7_a_wait_of_a_polled_queue_without_threads_ends_at_its_time) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  const int64_t time = check_times(60, 1000); /* in which the attempt begins */
  int64_t start = steady_ms();
  struct outcome outcome = wait_for(&scene, "a", time);
  CHECK(outcome.result == MSGQ_TIMEOUT && outcome.status == MSGQ_STATUS_SENDING);
  CHECK(steady_ms() - start >= time && steady_ms() - start < check_timeout_ms());
  msgq_outcome sent = outcome_of(MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_complete(scene.queue, atomic_load(&stub.token), &sent));
  check_outcome(&scene, "a", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  scene_end(&scene);
}

static msgq_verdict fork_and_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)delivery, (void)out;
  *(pid_t *)context = child_fork();
  return MSGQ_VERDICT_SENT;
}

/* The child returns from the transport into the wait, on a copy of the thread. */
TEST(M14_fork_inside_the_callback_of_a_wait) {
  struct scene scene;
  pid_t child = -1;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, fork_and_send, &child, NULL));
  put(&scene, "a", "ana", "hello");
  struct outcome outcome = wait_for(&scene, "a", check_timeout_ms());
  if (child == 0) {
    CHECK_RESULT(MSGQ_FORKED, outcome.result);
    child_end();
  }
  CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_SENT);
  child_await(child);
  scene_end(&scene);
}

/* With a simulated clock a wait takes no time: the clock moves to what is due. */
TEST(M14_M16_a_wait_in_simulated_time) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  scene.options.attempt_timeout_ms = 3600000;
  REQUIRE_OK(msgq_open_simulated(scene.path, &scene.options, 0, 1, &scene.queue));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "a", "ana", "hello");
  int64_t start = steady_ms();
  CHECK_RESULT(MSGQ_TIMEOUT, wait_for(&scene, "a", 600000).result);
  struct outcome outcome = wait_for(&scene, "a", -1);
  CHECK(outcome.result == MSGQ_OK && outcome.status == MSGQ_STATUS_QUEUED && outcome.failure == MSGQ_FAILURE_TIMEOUT);
  CHECK(steady_ms() - start < check_timeout_ms());
  REQUIRE_OK(msgq_close(scene.queue, 0));
  scene.queue = NULL;
  scene_end(&scene);
}

struct inside {
  msgq_queue *queue;
  msgq_result result, async_result;
  msgq_message *message;
};

static msgq_verdict wait_inside(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct inside *inside = context;
  (void)out;
  inside->result = msgq_wait(inside->queue, delivery->id, 0, &inside->message);
  inside->async_result = msgq_wait_async(inside->queue, delivery->id, -1, NULL, NULL);
  return MSGQ_VERDICT_SENT;
}

TEST(M14_a_wait_inside_a_callback_is_a_conflict) {
  struct scene scene;
  scene_begin_open(&scene);
  struct inside inside = { scene.queue, MSGQ_INTERNAL, MSGQ_INTERNAL, NULL };
  REQUIRE_OK(msgq_set_transport(scene.queue, wait_inside, &inside, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_RESULT(MSGQ_CONFLICT, inside.result);
  CHECK(inside.message == NULL);
  CHECK_RESULT(MSGQ_OK, inside.async_result);
  scene_end(&scene);
}

TEST(M14_a_close_ends_waits) {
  struct scene scene;
  struct stub stub;
  struct waiting waiting;
  begin_auto(&scene, &stub, MSGQ_VERDICT_PENDING);
  put(&scene, "a", "ana", "hello");
  AWAIT(atomic_load(&stub.calls) == 1 && atomic_load(&stub.inside) == 0);
  waiting_begin(&waiting, &scene, "a");
  pause_ms(30);
  CHECK(!atomic_load(&waiting.has_ended));
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 20));
  CHECK_RESULT(MSGQ_CLOSED, waiting_end(&waiting).result);
  msgq_message *message = NULL;
  CHECK_RESULT(MSGQ_CLOSED, msgq_wait(scene.queue, "a", 0, &message));
  CHECK(message == NULL);
  scene.queue = NULL;
  scene_end(&scene);
}

/* ---------------------------------------------------------------- without a thread that waits */

struct answer {
  atomic_int calls;
  struct outcome outcome;
};

static void take_answer(void *context, msgq_result result, const msgq_message *message) {
  struct answer *answer = context;
  answer->outcome = taken(result, (msgq_message *)message);
  atomic_fetch_add(&answer->calls, 1);
}

TEST(M14_a_wait_without_a_thread_calls_back_once) {
  struct scene scene;
  struct stub stub;
  struct answer answers[4] = { 0 };
  begin_auto(&scene, &stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ana", "hello" });
  AWAIT(atomic_load(&stub.inside) == 1);
  REQUIRE_OK(msgq_wait_async(scene.queue, "a", -1, take_answer, &answers[0]));
  REQUIRE_OK(msgq_wait_async(scene.queue, "a", 20, take_answer, &answers[1]));
  REQUIRE_OK(msgq_wait_async(scene.queue, "a", -1, NULL, NULL));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_wait_async(scene.queue, "nobody", -1, take_answer, &answers[2]));
  AWAIT(atomic_load(&answers[1].calls) == 1);
  CHECK(answers[1].outcome.result == MSGQ_TIMEOUT && answers[1].outcome.status == MSGQ_STATUS_SENDING);
  CHECK_NUMBER(0, atomic_load(&answers[0].calls));
  atomic_store(&stub.held, false);
  AWAIT(atomic_load(&answers[0].calls) == 1);
  CHECK(answers[0].outcome.result == MSGQ_OK && answers[0].outcome.status == MSGQ_STATUS_SENT);
  check_outcome(&scene, "b", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  stub.verdict = MSGQ_VERDICT_PENDING;
  put(&scene, "c", "ana", "hello");
  REQUIRE_OK(msgq_wait_async(scene.queue, "c", -1, take_answer, &answers[3]));
  AWAIT(atomic_load(&stub.calls) == 3);
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 0));
  scene.queue = NULL;
  CHECK_NUMBER(1, atomic_load(&answers[3].calls));
  CHECK_RESULT(MSGQ_CLOSED, answers[3].outcome.result);
  CHECK(atomic_load(&answers[0].calls) == 1 && atomic_load(&answers[1].calls) == 1 && atomic_load(&answers[2].calls) == 0);
  scene_end(&scene);
}

TEST_LONG(M14_many_waits_end_each_with_its_message) {
  enum { full = 600 };
  struct scene scene;
  struct stub stub;
  static struct answer answers[full];
  char id[16];
  int count = check_times(full, full / 10);
  memset(answers, 0, sizeof answers);
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  for (int number = 0; number < count; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&scene, id, number % 2 ? "ana" : "ben", "hello");
  }
  REQUIRE_OK(msgq_drain_async(scene.queue, NULL, NULL, NULL));
  for (int number = 0; number < count; number++) {
    snprintf(id, sizeof id, "m%d", number);
    REQUIRE_OK(msgq_wait_async(scene.queue, id, -1, take_answer, &answers[number]));
  }
  atomic_store(&stub.held, false);
  for (int number = 0; number < count; number++) {
    AWAIT(atomic_load(&answers[number].calls) == 1);
    CHECK(answers[number].outcome.result == MSGQ_OK && answers[number].outcome.status == MSGQ_STATUS_SENT);
  }
  scene_end(&scene);
}

/* ---------------------------------------------------------------- wrong arguments */

TEST(M14_wrong_arguments_of_a_wait) {
  struct scene scene;
  msgq_message *message = NULL;
  char longest[300];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_INVALID, msgq_wait(NULL, "a", 0, &message));
  CHECK_RESULT(MSGQ_INVALID, msgq_wait(scene.queue, NULL, 0, &message));
  CHECK_RESULT(MSGQ_INVALID, msgq_wait(scene.queue, "a", 0, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_wait(scene.queue, "", 0, &message));
  CHECK_RESULT(MSGQ_INVALID, msgq_wait(scene.queue, "\xff", 0, &message));
  CHECK_RESULT(MSGQ_INVALID, msgq_wait(scene.queue, longest, 0, &message));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_wait(scene.queue, "nobody", INT64_MAX, &message));
  CHECK_RESULT(MSGQ_INVALID, msgq_wait_async(NULL, "a", 0, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_wait_async(scene.queue, NULL, 0, NULL, NULL));
  CHECK(message == NULL);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "received";
  REQUIRE_OK(msgq_record(scene.queue, &draft, "ben", NULL));
  check_outcome(&scene, "received", MSGQ_STATUS_DELIVERED, MSGQ_REASON_NONE); /* there is nothing to wait for */
  check_outcome(&scene, "a", MSGQ_STATUS_QUEUED, MSGQ_REASON_NO_TRANSPORT);
  scene_end(&scene);
}

/* Completes the message "first" long before its call returns. */
static msgq_verdict complete_early(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct scene *scene = context;
  msgq_outcome sent = MSGQ_OUTCOME_INIT;
  if (strcmp(delivery->id, "first") != 0) return MSGQ_VERDICT_SENT;
  sent.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene->queue, delivery->token, &sent));
  (void)out;
  pause_ms(300);
  return MSGQ_VERDICT_PENDING;
}

TEST(M14_a_wait_goes_on_behind_a_message_whose_call_has_not_returned_yet) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, complete_early, &scene, NULL));
  put(&scene, "first", "ana", "hello");
  AWAIT(counts_of(&scene, NULL).sent == 1);
  put(&scene, "second", "ana", "hello");
  check_outcome(&scene, "second", MSGQ_STATUS_SENT, MSGQ_REASON_NONE);
  scene_end(&scene);
}
