/* Transports that answer later: from other threads, after the timeout, or never. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "drainer.h"
#include "post.h"
#include "stub.h"

static void begin_pending(struct scene *scene, struct stub *stub) {
  scene_begin(scene);
  stub_begin(stub, MSGQ_VERDICT_PENDING);
}

struct completion {
  msgq_queue *queue;
  struct stub *stub;
  msgq_outcome outcome;
  msgq_result result;
};

static void *run_completion(void *context) {
  struct completion *completion = context;
  completion->result = msgq_complete(completion->queue, atomic_load(&completion->stub->token), &completion->outcome);
  return NULL;
}

TEST(X8_an_answer_from_another_thread_is_accepted_once) {
  struct scene scene;
  struct stub stub;
  pthread_t thread;
  begin_pending(&scene, &stub);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) == 1 && atomic_load(&stub.inside) == 0);
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&scene, "a"));
  struct completion completion = { scene.queue, &stub, outcome_of(MSGQ_VERDICT_SENT), MSGQ_INTERNAL };
  REQUIRE(pthread_create(&thread, NULL, run_completion, &completion) == 0);
  pthread_join(thread, NULL);
  CHECK_RESULT(MSGQ_OK, completion.result);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  /* A second answer to the same attempt. */
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, atomic_load(&stub.token), &completion.outcome));
  completion.outcome.verdict = MSGQ_VERDICT_REJECT;
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, atomic_load(&stub.token), &completion.outcome));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a"));
  CHECK(!atomic_load(&stub.malformed));
  scene_end(&scene);
}

TEST(X8_an_answer_before_the_transport_returns_is_accepted) {
  struct scene scene;
  struct stub stub;
  begin_pending(&scene, &stub);
  stub_open(&stub, &scene);
  atomic_store(&stub.held, true);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.inside) == 1);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  scene_end(&scene);
}

TEST(X8_a_later_answer_carries_the_failure) {
  struct scene scene;
  struct stub stub;
  msgq_message *message = NULL;
  begin_pending(&scene, &stub);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) == 1);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_HTTP);
  outcome.code = 404;
  snprintf(outcome.text, sizeof outcome.text, "nobody here");
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  REQUIRE_OK(msgq_get(scene.queue, "a", &message));
  REQUIRE(message->failure != NULL);
  CHECK_NUMBER(MSGQ_FAILURE_NOT_FOUND, message->failure->kind);
  CHECK_NUMBER(404, message->failure->code);
  CHECK_TEXT("nobody here", message->failure->text);
  msgq_message_free(message);
  scene_end(&scene);
}

TEST(X8_a_late_success_of_the_latest_attempt_counts) {
  struct scene scene;
  struct stub stub;
  begin_pending(&scene, &stub);
  scene.options.attempt_timeout_ms = 50;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_FAILURE_TIMEOUT, failure_of(&scene, "a"));
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(0, counts_of(&scene, NULL).failed);
  scene_end(&scene);
}

/* What arrived late is not what the message says now. */
TEST(X8_a_late_success_after_an_edit_is_refused) {
  struct scene scene;
  struct stub stub;
  begin_pending(&scene, &stub);
  scene.options.attempt_timeout_ms = 50;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "a", "other", 5));
  int before = status_of(&scene, "a");
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  CHECK_NUMBER(before, status_of(&scene, "a"));
  CHECK_NUMBER(0, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}

TEST(X8_any_other_late_answer_changes_nothing) {
  static const msgq_verdict late[] = { MSGQ_VERDICT_REJECT, MSGQ_VERDICT_RETRY, MSGQ_VERDICT_OFFLINE, MSGQ_VERDICT_UNKNOWN };
  struct scene scene;
  struct stub stub;
  begin_pending(&scene, &stub);
  scene.options.attempt_timeout_ms = 50;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  for (size_t index = 0; index < sizeof late / sizeof late[0]; index++) {
    msgq_outcome outcome = outcome_of(late[index]);
    CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
    CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
    CHECK_NUMBER(MSGQ_FAILURE_TIMEOUT, failure_of(&scene, "a"));
  }
  scene_end(&scene);
}

TEST(X8_an_answer_to_an_earlier_attempt_does_not_count) {
  struct scene scene;
  struct stub stub;
  begin_pending(&scene, &stub);
  scene.options.attempt_timeout_ms = 50;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  uint64_t first = atomic_load(&stub.token);
  stub.verdict = MSGQ_VERDICT_REJECT;
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) == 2 && status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  CHECK(atomic_load(&stub.token) != first);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, first, &outcome));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(X8_a_drain_ends_at_its_timeout) {
  struct scene scene;
  struct stub stub;
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  begin_pending(&scene, &stub);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  options.timeout_ms = 50;
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_drain(scene.queue, &options, &report));
  CHECK_NUMBER(MSGQ_STOP_TIMEOUT, report.stop);
  CHECK_NUMBER(1, report.remaining);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

/* An event handler that blocks for up to 4 s. */
static void block_while(void *context, const msgq_event *event) {
  atomic_bool *blocked = context;
  (void)event;
  for (int64_t end = steady_ms() + 4000; atomic_load(blocked) && steady_ms() < end;) pause_ms(1);
}

/* A thread that polls until `stopping` is set. */
struct poller {
  msgq_queue *queue;
  atomic_bool stopping;
};

static void *poll_until_stopped(void *context) {
  struct poller *poller = context;
  while (!atomic_load(&poller->stopping)) CHECK_RESULT(MSGQ_OK, msgq_poll(poller->queue, 10, NULL));
  return NULL;
}

/* The limit is far less than the handler and the other drain take, and much more than the timeout. */
enum { drain_time = 100, drain_limit = 2000 };

TEST_LONG(Q7_a_blocked_handler_does_not_delay_a_drain_beyond_its_timeout) {
  for (int polled = 0; polled < 2; polled++) {
    struct scene scene;
    struct stub stub;
    atomic_bool blocked = true;
    pthread_t thread;
    scene_begin(&scene);
    if (polled) scene.options.callbacks = MSGQ_CALLBACKS_POLL;
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    stub_open(&stub, &scene);
    REQUIRE_OK(msgq_set_event_handler(scene.queue, block_while, &blocked, NULL));
    struct poller poller = { scene.queue, false };
    if (polled) {
      REQUIRE(pthread_create(&thread, NULL, poll_until_stopped, &poller) == 0);
      pause_ms(50);
    }
    put(&scene, "a", "ana", "hello");
    struct drainer drainer = { .queue = scene.queue, .timeout_ms = drain_time };
    pause_ms(50); /* the handler is running */
    drainer_run(&drainer);
    CHECK_RESULT(MSGQ_TIMEOUT, drainer.result);
    CHECK_NUMBER(MSGQ_STOP_TIMEOUT, drainer.report.stop);
    if (!polled) CHECK_NUMBER(1, drainer.report.sent);
    CHECK(drainer.took_ms >= drain_time && drainer.took_ms < drain_limit);
    atomic_store(&blocked, false);
    atomic_store(&poller.stopping, true);
    if (polled) pthread_join(thread, NULL);
    scene_end(&scene);
  }
}

TEST(A6_a_drain_that_joins_another_ends_at_its_own_timeout) {
  struct scene scene;
  struct stub stub;
  pthread_t thread;
  begin_pending(&scene, &stub);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  struct drainer endless = { .queue = scene.queue };
  struct drainer joined = { .queue = scene.queue, .timeout_ms = drain_time };
  REQUIRE(pthread_create(&thread, NULL, drainer_run, &endless) == 0);
  AWAIT(atomic_load(&stub.calls) == 1);
  drainer_run(&joined);
  CHECK_RESULT(MSGQ_TIMEOUT, joined.result);
  CHECK_NUMBER(MSGQ_STOP_TIMEOUT, joined.report.stop);
  CHECK_NUMBER(1, joined.report.remaining);
  CHECK(joined.took_ms >= drain_time && joined.took_ms < drain_limit);
  CHECK(!atomic_load(&endless.done));
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  pthread_join(thread, NULL);
  CHECK_RESULT(MSGQ_OK, endless.result);
  CHECK_NUMBER(1, endless.report.sent);
  scene_end(&scene);
}

TEST(A6_a_drain_without_a_timeout_outlasts_the_one_that_it_joins) {
  struct scene scene;
  struct stub stub;
  pthread_t threads[2];
  begin_pending(&scene, &stub);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ana", "hello");
  struct drainer first = { .queue = scene.queue, .timeout_ms = drain_time };
  struct drainer endless = { .queue = scene.queue };
  REQUIRE(pthread_create(&threads[0], NULL, drainer_run, &first) == 0);
  AWAIT(atomic_load(&stub.calls) == 1);
  REQUIRE(pthread_create(&threads[1], NULL, drainer_run, &endless) == 0);
  pthread_join(threads[0], NULL);
  CHECK_RESULT(MSGQ_TIMEOUT, first.result);
  CHECK(!atomic_load(&endless.done));
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  for (int call = 1; call <= 2; call++) {
    AWAIT(atomic_load(&stub.calls) == call);
    CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  }
  pthread_join(threads[1], NULL);
  CHECK_RESULT(MSGQ_OK, endless.result);
  CHECK_NUMBER(2, endless.report.sent);
  scene_end(&scene);
}

TEST(close_waits_for_an_attempt_in_flight) {
  struct post post;
  post_begin_open(&post);
  put(&post.scene, "a", "ana", "hello");
  put(&post.scene, "b", "ana", "not begun");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "a"));
  AWAIT(receiver_requests(post.receiver, "a") == 1);
  scene_close(&post.scene);
  post_open(&post);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "b"));
  post_end(&post);
}


/* The tokens of the attempts in flight. */
struct tokens {
  size_t count;
  uint64_t tokens[100];
};

static msgq_verdict keep_token(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct tokens *tokens = context;
  (void)out;
  tokens->tokens[tokens->count++] = delivery->token;
  return MSGQ_VERDICT_PENDING;
}

static void poll_until(struct scene *scene, struct tokens *tokens, size_t count) {
  for (size_t ran = 1; tokens->count < count && ran > 0;) REQUIRE_OK(msgq_poll(scene->queue, 5000, &ran));
  CHECK_NUMBER((long long)count, (long long)tokens->count);
}

TEST_LONG(X8_several_attempts_are_answered_by_one_call) {
  enum { total = 100, in_flight = 64 };
  struct scene scene;
  struct tokens tokens = { 0 };
  msgq_outcome outcomes[total];
  msgq_result results[total];
  char id[16];
  scene_begin(&scene);
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  scene.options.max_in_flight = in_flight;
  scene.options.attempt_timeout_ms = 600000;
  scene_open(&scene);
  for (int index = 0; index < total; index++) {
    snprintf(id, sizeof id, "m%d", index);
    put(&scene, id, id, "hello");
  }
  REQUIRE_OK(msgq_set_transport(scene.queue, keep_token, &tokens, NULL));
  REQUIRE_OK(msgq_drain_async(scene.queue, NULL, NULL, NULL));
  poll_until(&scene, &tokens, in_flight);
  /* Of the attempts in flight the first is rejected, the second is answered twice, and one token never was. */
  uint64_t given[in_flight + 2];
  memcpy(given, tokens.tokens, in_flight * sizeof given[0]);
  given[in_flight] = given[1];
  given[in_flight + 1] = 1;
  for (size_t index = 0; index < in_flight + 2; index++) outcomes[index] = outcome_of(MSGQ_VERDICT_SENT);
  outcomes[0] = outcome_of(MSGQ_VERDICT_REJECT);
  /* A wrong outcome among them: nothing is answered. */
  outcomes[5].verdict = MSGQ_VERDICT_PENDING;
  CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, given, outcomes, in_flight + 2, results));
  outcomes[5].verdict = (msgq_verdict)99;
  CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, given, outcomes, in_flight + 2, results));
  outcomes[5] = outcome_of(MSGQ_VERDICT_SENT);
  outcomes[5].struct_size += 8;
  CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, given, outcomes, in_flight + 2, results));
  outcomes[5].struct_size -= 8;
  CHECK_NUMBER(in_flight, counts_of(&scene, NULL).sending);
  CHECK_RESULT(MSGQ_OK, msgq_complete_batch(scene.queue, given, outcomes, in_flight + 2, results));
  for (size_t index = 0; index < in_flight; index++) CHECK_RESULT(MSGQ_OK, results[index]);
  CHECK_RESULT(MSGQ_CONFLICT, results[in_flight]);
  CHECK_RESULT(MSGQ_NOT_FOUND, results[in_flight + 1]);
  CHECK_NUMBER(in_flight - 1, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(1, counts_of(&scene, NULL).failed);
  /* The next attempts begin. */
  poll_until(&scene, &tokens, total);
  CHECK_RESULT(MSGQ_OK, msgq_complete_batch(scene.queue, tokens.tokens + in_flight, outcomes + 1, total - in_flight, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_complete_batch(scene.queue, NULL, NULL, 0, NULL));
  /* The outcomes are stored. */
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(total - 1, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(1, counts_of(&scene, NULL).failed);
  scene_end(&scene);
}
