/* msgq_drain_async: drains for hosts that must not block (X7). */
#include <stdatomic.h>

#include "check.h"
#include "host.h"

/* The calls of a drain callback. */
struct drain_end {
  msgq_queue *queue;
  struct journal *journal;
  atomic_int calls;
  msgq_report report;
  size_t finished_before; /* DRAIN_FINISHED events before the call */
  msgq_result inner;      /* of a drain started in the callback */
  bool again;             /* start another drain in the callback */
};

static void on_drained(void *context, const msgq_report *report) {
  struct drain_end *ending = context;
  ending->report = *report;
  ending->finished_before = journal_count(ending->journal, MSGQ_EVENT_DRAIN_FINISHED);
  bool again = ending->again;
  ending->again = false;
  if (again) ending->inner = msgq_drain_async(ending->queue, NULL, on_drained, ending);
  atomic_fetch_add(&ending->calls, 1);
}

TEST(X7_an_event_loop_drains_without_blocking) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  struct drain_end ending = { .queue = host.scene.queue, .journal = &host.scene.journal };
  for (int number = 0; number < 5; number++) put(&host.scene, NULL, "ana", "hello");
  REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, on_drained, &ending));
  CHECK_NUMBER(0, atomic_load(&host.stub.calls)); /* nothing runs outside msgq_poll */
  CHECK_NUMBER(0, atomic_load(&ending.calls));
  while (atomic_load(&ending.calls) == 0) REQUIRE(poll_once(&host, (int)check_timeout_ms()));
  poll_until_idle(&host);
  CHECK_NUMBER(1, atomic_load(&ending.calls));
  CHECK_NUMBER(5, ending.report.sent);
  CHECK_NUMBER(MSGQ_STOP_EMPTY, ending.report.stop);
  CHECK_NUMBER(1, ending.finished_before); /* the events of the drain come before its callback */
  host_end(&host);
  CHECK_NUMBER(1, atomic_load(&ending.calls));
}

TEST(X7_a_drain_callback_can_start_another_drain) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  struct drain_end ending = { .queue = host.scene.queue, .journal = &host.scene.journal, .again = true, .inner = MSGQ_INTERNAL };
  put(&host.scene, NULL, "ana", "hello");
  REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, on_drained, &ending));
  while (atomic_load(&ending.calls) < 2) REQUIRE(poll_once(&host, (int)check_timeout_ms()));
  poll_until_idle(&host);
  CHECK_RESULT(MSGQ_OK, ending.inner);
  CHECK_NUMBER(2, atomic_load(&ending.calls));
  CHECK_NUMBER(0, ending.report.sent);
  host_end(&host);
}

static msgq_verdict draining_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct drain_end *ending = context;
  (void)delivery, (void)out;
  ending->inner = msgq_drain_async(ending->queue, NULL, on_drained, ending);
  return MSGQ_VERDICT_SENT;
}

static void draining_handler(void *context, const msgq_event *event) {
  struct drain_end *ending = context;
  journal_event(ending->journal, event);
  if (event->kind != MSGQ_EVENT_STATUS || event->to != MSGQ_STATUS_QUEUED || event->from != MSGQ_STATUS_NONE) return;
  ending->inner = msgq_drain_async(ending->queue, NULL, on_drained, ending);
}

TEST(X7_transport_and_handler_can_start_drains) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  struct drain_end ending = { .queue = host.scene.queue, .journal = &host.scene.journal, .inner = MSGQ_INTERNAL };
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, draining_handler, &ending, NULL));
  put(&host.scene, "a", "ana", "hello");
  while (atomic_load(&ending.calls) < 1) REQUIRE(poll_once(&host, (int)check_timeout_ms()));
  CHECK_RESULT(MSGQ_OK, ending.inner);
  CHECK_NUMBER(1, ending.report.sent);
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, journal_event, &host.scene.journal, NULL));
  REQUIRE_OK(msgq_set_transport(host.scene.queue, draining_send, &ending, NULL));
  put(&host.scene, "b", "ana", "hello");
  ending.inner = MSGQ_INTERNAL;
  CHECK_RESULT(MSGQ_OK, msgq_send_now(host.scene.queue, "b"));
  while (atomic_load(&ending.calls) < 2) REQUIRE(poll_once(&host, (int)check_timeout_ms()));
  poll_until_idle(&host);
  CHECK_RESULT(MSGQ_OK, ending.inner);
  CHECK_NUMBER(2, atomic_load(&ending.calls));
  host_end(&host);
}

TEST(X7_each_callback_of_a_joined_drain_is_called_once) {
  struct host host;
  struct drain_end endings[20];
  host_begin(&host, MSGQ_MODE_MANUAL);
  put(&host.scene, "a", "ana", "hello");
  for (int index = 0; index < 20; index++) {
    endings[index] = (struct drain_end){ .queue = host.scene.queue, .journal = &host.scene.journal };
    REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, on_drained, &endings[index]));
  }
  REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, NULL, NULL));
  while (atomic_load(&endings[19].calls) == 0) REQUIRE(poll_once(&host, (int)check_timeout_ms()));
  poll_until_idle(&host);
  for (int index = 0; index < 20; index++) {
    CHECK_NUMBER(1, atomic_load(&endings[index].calls));
    CHECK_NUMBER(1, endings[index].report.sent);
  }
  CHECK_NUMBER(1, journal_count(&host.scene.journal, MSGQ_EVENT_DRAIN_FINISHED));
  host_end(&host);
}

TEST(X7_an_async_drain_calls_back_at_its_timeout) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  struct drain_end endless = { .queue = host.scene.queue, .journal = &host.scene.journal };
  struct drain_end timed = { .queue = host.scene.queue, .journal = &host.scene.journal };
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.timeout_ms = 50;
  host.stub.verdict = MSGQ_VERDICT_PENDING;
  put(&host.scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, on_drained, &endless));
  REQUIRE_OK(msgq_drain_async(host.scene.queue, &options, on_drained, &timed));
  while (atomic_load(&timed.calls) == 0) REQUIRE(poll_once(&host, (int)check_timeout_ms()));
  CHECK_NUMBER(MSGQ_STOP_TIMEOUT, timed.report.stop);
  CHECK_NUMBER(1, timed.report.remaining);
  CHECK_NUMBER(0, atomic_load(&endless.calls));
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  outcome.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_complete(host.scene.queue, atomic_load(&host.stub.token), &outcome));
  poll_until_idle(&host);
  CHECK_NUMBER(MSGQ_STOP_EMPTY, endless.report.stop);
  CHECK(atomic_load(&timed.calls) == 1 && atomic_load(&endless.calls) == 1);
  host_end(&host);
}

TEST(X7_close_ends_an_async_drain_and_calls_back_once) {
  for (int polled = 0; polled < 2; polled++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    stub_begin(&stub, MSGQ_VERDICT_PENDING); /* never answers */
    scene.options.callbacks = polled == 1 ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
    stub_open(&stub, &scene);
    struct drain_end ending = { .queue = scene.queue, .journal = &scene.journal };
    put(&scene, "a", "ana", "hello");
    REQUIRE_OK(msgq_drain_async(scene.queue, NULL, on_drained, &ending));
    while (polled == 1 && atomic_load(&stub.calls) == 0) REQUIRE_OK(msgq_poll(scene.queue, 0, NULL));
    AWAIT(atomic_load(&stub.calls) == 1);
    CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 50));
    scene.queue = NULL;
    CHECK_NUMBER(1, atomic_load(&ending.calls));
    CHECK_NUMBER(MSGQ_STOP_CLOSED, ending.report.stop);
    CHECK_NUMBER(1, ending.report.remaining);
    scene_end(&scene);
  }
}

TEST(X7_an_async_drain_that_fails_to_start_never_calls_back) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  struct drain_end ending = { .queue = scene.queue, .journal = &scene.journal };
  CHECK_RESULT(MSGQ_INVALID, msgq_drain_async(NULL, NULL, on_drained, &ending));
  CHECK_RESULT(MSGQ_NO_TRANSPORT, msgq_drain_async(scene.queue, NULL, on_drained, &ending));
  options.struct_size = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_drain_async(scene.queue, &options, on_drained, &ending));
  scene_close(&scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_drain_async(ending.queue, NULL, on_drained, &ending));
  CHECK_NUMBER(0, atomic_load(&ending.calls));
  scene_end(&scene);
}
