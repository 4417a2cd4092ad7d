/* Edits, clears, answers and receipts during an attempt or after it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

static const int64_t one_hour[] = { 3600000 };

/* Enqueues one message whose attempt stays in flight until the receiver answers. */
static void begin_sending(struct post *post) {
  post_begin(post);
  post->scene.options.mode = MSGQ_MODE_AUTO;
  set_ladder(&post->scene, one_hour, 1);
  post_open(post);
  receiver_hold(post->receiver, true);
  put(&post->scene, "a", "ana", "first words");
  AWAIT(receiver_requests(post->receiver, "a") == 1);
}

TEST(X6_an_edit_during_an_attempt_is_refused_and_possible_afterwards) {
  struct post post;
  char body[64];
  begin_sending(&post);
  receiver_answer(post.receiver, "a", 503, 1, NULL);
  CHECK_RESULT(MSGQ_BUSY, msgq_edit(post.scene.queue, "a", "other words", 11));
  CHECK_RESULT(MSGQ_BUSY, msgq_delete(post.scene.queue, "a"));
  receiver_hold(post.receiver, false);
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_QUEUED);
  receiver_body(post.receiver, "a", body, sizeof body);
  CHECK_TEXT("first words", body);
  CHECK_RESULT(MSGQ_OK, msgq_edit(post.scene.queue, "a", "other words", 11));
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "a"));
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  receiver_body(post.receiver, "a", body, sizeof body);
  CHECK_TEXT("other words", body);
  CHECK_NUMBER(2, receiver_requests(post.receiver, "a"));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_edit(post.scene.queue, "a", "too late", 8));
  post_end(&post);
}

TEST(X6_a_clear_during_an_attempt_keeps_a_success) {
  struct post post;
  begin_sending(&post);
  put(&post.scene, "b", "ana", "behind it");
  CHECK_RESULT(MSGQ_OK, msgq_clear(post.scene.queue, "ana"));
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&post.scene, "a"));
  CHECK_NUMBER(-1, status_of(&post.scene, "b"));
  receiver_hold(post.receiver, false);
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, receiver_requests(post.receiver, NULL));
  CHECK(counts_of(&post.scene, NULL).sent == 1 && counts_of(&post.scene, NULL).queued == 0);
  post_end(&post);
}

TEST(X6_a_clear_during_an_attempt_removes_a_failed_message) {
  static const int statuses[] = { 503, 400 };
  for (size_t index = 0; index < 2; index++) {
    struct post post;
    struct entry entry;
    begin_sending(&post);
    receiver_answer(post.receiver, "a", statuses[index], 1, NULL);
    CHECK_RESULT(MSGQ_OK, msgq_clear(post.scene.queue, NULL));
    receiver_hold(post.receiver, false);
    AWAIT(status_of(&post.scene, "a") == -1);
    AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_DELETED, &entry) && strcmp(entry.id, "a") == 0);
    CHECK(counts_of(&post.scene, NULL).queued == 0 && counts_of(&post.scene, NULL).failed == 0);
    CHECK_NUMBER(0, counts_of(&post.scene, NULL).unsent_bytes);
    put(&post.scene, "c", "ana", "next message");
    AWAIT(status_of(&post.scene, "c") == MSGQ_STATUS_SENT);
    CHECK_NUMBER(1, receiver_requests(post.receiver, "a"));
    post_end(&post);
  }
}

enum { body_size = 20000 };

/* A transport that reads the body slowly and checks that all bytes are equal. */
struct reader {
  atomic_int calls;
  atomic_int mixed;
};

static msgq_verdict read_slowly(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct reader *reader = context;
  const char *body = delivery->body;
  out->kind = MSGQ_FAILURE_SERVER;
  for (int time = 0; time < 5; time++) {
    for (size_t index = 1; index < delivery->body_size; index++) {
      if (body[index] != body[0]) atomic_store(&reader->mixed, 1);
    }
    pause_ms(1);
  }
  if (delivery->body_size != body_size) atomic_store(&reader->mixed, 1);
  return atomic_fetch_add(&reader->calls, 1) < 30 ? MSGQ_VERDICT_RETRY : MSGQ_VERDICT_SENT;
}

TEST_LONG(X6_no_attempt_mixes_old_and_new_bodies) {
  int64_t ladder[64];
  static char body[body_size + 1];
  struct scene scene;
  struct reader reader = { 0 };
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_retries = 64;
  for (int step = 0; step < 64; step++) ladder[step] = 5; /* time for edits between the attempts */
  set_ladder(&scene, ladder, 64);
  scene_open(&scene);
  memset(body, 'a', body_size);
  put(&scene, "a", "ana", body);
  REQUIRE_OK(msgq_set_transport(scene.queue, read_slowly, &reader, NULL));
  int edits = 0, refused = 0;
  int64_t end = steady_ms() + check_timeout_ms();
  for (int round = 0; status_of(&scene, "a") != MSGQ_STATUS_SENT && steady_ms() < end; round++) {
    memset(body, 'a' + round % 26, body_size);
    msgq_result result = msgq_edit(scene.queue, "a", body, body_size);
    CHECK(result == MSGQ_OK || result == MSGQ_BUSY || result == MSGQ_CONFLICT);
    if (result == MSGQ_OK) edits++;
    if (result == MSGQ_BUSY) refused++;
  }
  CHECK_NUMBER(0, atomic_load(&reader.mixed));
  CHECK_NUMBER(31, atomic_load(&reader.calls));
  CHECK(edits > 0 && refused > 0);
  scene_end(&scene);
}

/* ------------------------------------------------------------------ late answers */

/* Enqueues two messages of one conversation. The attempt of the first one has timed out, and its retry is due in one hour. */
static uint64_t begin_late(struct scene *scene, struct stub *stub) {
  scene_begin(scene);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.attempt_timeout_ms = 50;
  set_ladder(scene, one_hour, 1);
  stub_begin(stub, MSGQ_VERDICT_PENDING);
  stub_open(stub, scene);
  put(scene, "a", "ana", "1");
  put(scene, "b", "ana", "2");
  AWAIT(failure_of(scene, "a") == MSGQ_FAILURE_TIMEOUT && status_of(scene, "a") == MSGQ_STATUS_QUEUED);
  CHECK_NUMBER(MSGQ_REASON_BEHIND, reason_of(scene, "b"));
  return atomic_load(&stub->token);
}

TEST(X8_a_late_success_unblocks_the_next_message) {
  struct scene scene;
  struct stub stub;
  uint64_t token = begin_late(&scene, &stub);
  stub.verdict = MSGQ_VERDICT_SENT;
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, token, &outcome));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a"));
  AWAIT(status_of(&scene, "b") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, atomic_load(&stub.calls));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, token, &outcome)); /* a second answer */
  char path[128];
  AWAIT(journal_reached(&scene.journal, "a", MSGQ_STATUS_SENT));
  journal_path(&scene.journal, "a", path, sizeof path);
  CHECK_TEXT("none>queued>sending>queued>sent", path);
  scene_end(&scene);
}

TEST(X8_a_late_success_during_the_next_attempt_does_not_count) {
  struct scene scene;
  struct stub stub;
  uint64_t first = begin_late(&scene, &stub);
  atomic_store(&stub.held, true);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.inside) == 1);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, first, &outcome));
  CHECK(status_of(&scene, "a") != MSGQ_STATUS_SENT);
  stub.verdict = MSGQ_VERDICT_SENT;
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

TEST(X8_a_late_answer_for_a_deleted_message_changes_nothing) {
  struct scene scene;
  struct stub stub;
  uint64_t token = begin_late(&scene, &stub);
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "a"));
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  msgq_result result = msgq_complete(scene.queue, token, &outcome);
  CHECK(result == MSGQ_CONFLICT || result == MSGQ_NOT_FOUND);
  CHECK_NUMBER(-1, status_of(&scene, "a"));
  CHECK_NUMBER(0, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}

TEST(X8_a_success_of_a_transport_that_hung_counts) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.attempt_timeout_ms = 50;
  set_ladder(&scene, one_hour, 1);
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, stub_release));
  put(&scene, "a", "ana", "1");
  AWAIT(failure_of(&scene, "a") == MSGQ_FAILURE_TIMEOUT);
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  scene_end(&scene);
}

/* ------------------------------------------------------------------ receipts */

TEST(A9_receipts_early_late_twice_and_out_of_order) {
  struct post post;
  char path[128];
  begin_sending(&post);
  put(&post.scene, "b", "ana", "1");
  put(&post.scene, "c", "ben", "2");
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark(post.scene.queue, "b", MSGQ_STATUS_DELIVERED)); /* early: queued */
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark(post.scene.queue, "a", MSGQ_STATUS_READ));      /* early: being sent */
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&post.scene, "a"));
  receiver_answer(post.receiver, "c", 400, 1, NULL);
  receiver_hold(post.receiver, false);
  AWAIT(counts_of(&post.scene, NULL).sent == 2 && counts_of(&post.scene, NULL).failed == 1);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark(post.scene.queue, "c", MSGQ_STATUS_DELIVERED)); /* failed */
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "c"));
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "a", MSGQ_STATUS_READ)); /* out of order */
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "a", MSGQ_STATUS_DELIVERED));
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "a", MSGQ_STATUS_READ)); /* twice */
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "b", MSGQ_STATUS_DELIVERED));
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "b", MSGQ_STATUS_DELIVERED));
  CHECK(counts_of(&post.scene, NULL).read == 1 && counts_of(&post.scene, NULL).delivered == 1 && counts_of(&post.scene, NULL).sent == 0);
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_mark(post.scene.queue, "nobody", MSGQ_STATUS_READ));
  scene_close(&post.scene);
  journal_path(&post.scene.journal, "a", path, sizeof path);
  CHECK_TEXT("none>queued>sending>sent>read", path);
  journal_path(&post.scene.journal, "b", path, sizeof path);
  CHECK_TEXT("none>queued>sending>sent>delivered", path);
  post_open(&post);
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "a", MSGQ_STATUS_DELIVERED)); /* late: after a restart */
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "b", MSGQ_STATUS_READ));
  CHECK_NUMBER(2, counts_of(&post.scene, "ana").read);
  CHECK_NUMBER(1, receiver_requests(post.receiver, "a"));
  post_end(&post);
}

/* ------------------------------------------------------------------ failed messages */

TEST(R2_a_failed_message_has_the_data_for_retry_and_delete) {
  struct post post;
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  post_begin_open(&post);
  receiver_answer(post.receiver, "may-pass", 503, 1, NULL);
  receiver_answer(post.receiver, "permanent", 422, 1, NULL);
  put(&post.scene, "may-pass", "ana", "one");
  put(&post.scene, "permanent", "ben", "two");
  drain(&post.scene);
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED);
  REQUIRE_OK(msgq_list(post.scene.queue, &filter, &page));
  REQUIRE(msgq_list_size(page) == 2);
  for (size_t index = 0; index < 2; index++) {
    const msgq_message *message = msgq_list_at(page, index);
    REQUIRE(message->failure != NULL);
    CHECK(strlen(message->preview) == 3 && strlen(msgq_failure_text(message->failure->kind)) > 20);
    CHECK_TEXT("Failed", msgq_status_label(message->status));
    CHECK(message->failure->retryable == (index == 0));
    CHECK_NUMBER(MSGQ_REASON_FAILED, reason_of(&post.scene, message->id));
  }
  msgq_list_free(page);
  /* The button Cancel needs no call. */
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "may-pass"));
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "permanent"));
  AWAIT(status_of(&post.scene, "may-pass") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(-1, status_of(&post.scene, "permanent"));
  CHECK_NUMBER(0, counts_of(&post.scene, NULL).failed);
  post_end(&post);
}

TEST(R7_messages_in_retry_are_listed_as_sending) {
  struct post post;
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  char ids[64];
  post_begin(&post);
  post.scene.options.max_in_flight = 4;
  post.scene.options.on_demand_timeout_ms = 60000;
  post_open(&post);
  receiver_answer(post.receiver, NULL, 503, 3, NULL);
  put(&post.scene, "a", "ana", "1");
  put(&post.scene, "b", "ben", "2");
  put(&post.scene, "c", "cem", "3");
  CHECK_NUMBER(3, drain(&post.scene).failed);
  receiver_hold(post.receiver, true);
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "a"));
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "c"));
  AWAIT(counts_of(&post.scene, NULL).sending == 2);
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_SENDING);
  ids_of(&post.scene, &filter, ids, sizeof ids);
  CHECK_TEXT("a c", ids);
  filter.conversation = "cem";
  REQUIRE_OK(msgq_list(post.scene.queue, &filter, &page));
  REQUIRE(msgq_list_size(page) == 1);
  const msgq_message *message = msgq_list_at(page, 0);
  CHECK(message->status == MSGQ_STATUS_SENDING && message->attempts == 2); /* the second attempt */
  msgq_list_free(page);
  CHECK_NUMBER(MSGQ_REASON_SENDING, reason_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_REASON_FAILED, reason_of(&post.scene, "b"));
  AWAIT(journal_reached(&post.scene.journal, "a", MSGQ_STATUS_SENDING));
  CHECK_NUMBER(1, counts_of(&post.scene, NULL).failed);
  filter.conversation = NULL;
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED);
  ids_of(&post.scene, &filter, ids, sizeof ids);
  CHECK_TEXT("b", ids);
  receiver_hold(post.receiver, false);
  AWAIT(counts_of(&post.scene, NULL).sent == 2);
  post_end(&post);
}

TEST(X2_an_attempt_in_flight_is_in_the_ledger) {
  struct post post;
  msgq_ledger *ledger = NULL;
  int64_t before = wall_ms();
  begin_sending(&post);
  REQUIRE_OK(msgq_attempts(post.scene.queue, "a", &ledger));
  REQUIRE(msgq_attempts_size(ledger) == 1);
  const msgq_attempt *attempt = msgq_attempts_at(ledger, 0);
  CHECK(attempt->outcome == MSGQ_ATTEMPT_UNDER_WAY && attempt->duration_ms == -1 && attempt->number == 1 && attempt->text != NULL);
  CHECK(attempt->started_ms >= before && attempt->started_ms <= wall_ms() && attempt->arrival == MSGQ_ARRIVAL_PERHAPS);
  msgq_attempts_free(ledger);
  receiver_hold(post.receiver, false);
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  REQUIRE_OK(msgq_attempts(post.scene.queue, "a", &ledger));
  REQUIRE(msgq_attempts_size(ledger) == 1);
  attempt = msgq_attempts_at(ledger, 0);
  CHECK(attempt->outcome == MSGQ_ATTEMPT_SENT && attempt->duration_ms >= 0 && attempt->arrival == MSGQ_ARRIVAL_YES);
  msgq_attempts_free(ledger);
  post_end(&post);
}

TEST(X2_the_ledger_says_which_attempts_did_not_arrive) {
  static const struct {
    int status;
    msgq_attempt_outcome outcome;
    msgq_arrival arrival;
  } cases[] = {
    { 503, MSGQ_ATTEMPT_RETRY, MSGQ_ARRIVAL_PERHAPS }, { 429, MSGQ_ATTEMPT_RETRY, MSGQ_ARRIVAL_NO },
    { 400, MSGQ_ATTEMPT_REJECTED, MSGQ_ARRIVAL_NO },   { 404, MSGQ_ATTEMPT_REJECTED, MSGQ_ARRIVAL_NO },
    { 200, MSGQ_ATTEMPT_SENT, MSGQ_ARRIVAL_YES },
  };
  enum { count = sizeof cases / sizeof cases[0] };
  struct post post;
  msgq_ledger *ledger = NULL;
  post_begin_open(&post);
  for (size_t index = 0; index < count; index++) receiver_answer(post.receiver, "a", cases[index].status, 1, NULL);
  put(&post.scene, "a", "ana", "hello");
  drain(&post.scene);
  for (size_t index = 1; index < count; index++) {
    AWAIT(receiver_requests(post.receiver, "a") == index && status_of(&post.scene, "a") == MSGQ_STATUS_FAILED);
    CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "a"));
  }
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  scene_close(&post.scene);
  post_open(&post);
  REQUIRE_OK(msgq_attempts(post.scene.queue, "a", &ledger));
  REQUIRE(msgq_attempts_size(ledger) == count);
  int64_t last = 0;
  for (size_t index = 0; index < count; index++) {
    const msgq_attempt *attempt = msgq_attempts_at(ledger, index);
    CHECK_NUMBER(index + 1, attempt->number);
    CHECK_NUMBER(cases[index].outcome, attempt->outcome);
    CHECK_NUMBER(cases[index].status, attempt->code);
    CHECK_NUMBER(cases[index].arrival, attempt->arrival);
    CHECK(attempt->started_ms >= last && attempt->duration_ms >= 0);
    last = attempt->started_ms;
  }
  msgq_attempts_free(ledger);
  post_end(&post);
}

static msgq_verdict refuse_connection(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)delivery;
  out->kind = MSGQ_FAILURE_NETWORK;
  out->not_sent = *(const bool *)context;
  return MSGQ_VERDICT_RETRY;
}

TEST(X2_a_transport_can_report_that_a_message_was_not_sent) {
  static bool not_sent[] = { false, true };
  for (int index = 0; index < 2; index++) {
    struct scene scene;
    msgq_ledger *ledger = NULL;
    scene_begin(&scene);
    scene.options.mode = MSGQ_MODE_MANUAL;
    scene_open(&scene);
    REQUIRE_OK(msgq_set_transport(scene.queue, refuse_connection, &not_sent[index], NULL));
    put(&scene, "a", "ana", "hello");
    drain(&scene);
    AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
    REQUIRE_OK(msgq_attempts(scene.queue, "a", &ledger));
    REQUIRE(msgq_attempts_size(ledger) == 1);
    CHECK_NUMBER(MSGQ_FAILURE_NETWORK, msgq_attempts_at(ledger, 0)->kind);
    CHECK_NUMBER(not_sent[index] ? MSGQ_ARRIVAL_NO : MSGQ_ARRIVAL_PERHAPS, msgq_attempts_at(ledger, 0)->arrival);
    msgq_attempts_free(ledger);
    scene_end(&scene);
  }
}

/* With 64 attempts side by side the engine's threads take the lock thousands of times a second. */
TEST_LONG(F8_a_caller_that_enqueues_and_a_drain_take_turns) {
  enum { most_messages = 5000, conversations = 64 };
  const int messages = check_times(most_messages, 300);
  /* Ten times what an enqueue with its disk flush takes on a busy machine; with an unfair lock it took 70 ms and more. */
  const int64_t average_limit_ms = check_timeout_ms() / 500;
  struct scene scene;
  struct stub stub;
  static msgq_draft drafts[most_messages];
  char names[conversations][8];
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_MANUAL;
  scene.options.direct = false;
  scene.options.max_in_flight = conversations;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  for (int index = 0; index < conversations; index++) snprintf(names[index], sizeof names[index], "c%d", index);
  for (int index = 0; index < messages; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].conversation = names[index % conversations];
  }
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, (size_t)messages, NULL));
  REQUIRE_OK(msgq_drain_async(scene.queue, NULL, NULL, NULL));
  int enqueued = 0;
  int64_t longest = 0;
  const int64_t begun = steady_ms();
  for (int64_t end = steady_ms() + check_timeout_ms(); atomic_load(&stub.calls) < messages && steady_ms() < end; enqueued++) {
    int64_t start = steady_ms();
    REQUIRE_OK(msgq_enqueue(scene.queue, &drafts[0], NULL));
    if (steady_ms() - start > longest) longest = steady_ms() - start;
  }
  const int64_t elapsed = steady_ms() - begun;
  int sent = atomic_load(&stub.calls);
  fprintf(stderr, "  %d messages enqueued in %lld ms while %d were sent; the longest took %lld ms\n", enqueued, (long long)elapsed, sent,
          (long long)longest);
  CHECK(sent >= messages);
  CHECK(elapsed <= enqueued * average_limit_ms);
  scene_end(&scene);
}
