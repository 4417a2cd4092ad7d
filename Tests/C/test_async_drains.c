/* Drains for hosts that must not wait (X7). */
#include <stdatomic.h>

#include "check.h"
#include "host.h"

/* What a drain's end was told. */
struct ending {
  msgq_queue *queue;
  struct journal *journal;
  atomic_int told;
  msgq_report report;
  size_t finished_before; /* DRAIN_FINISHED events that had been told by then */
  msgq_result inner;      /* of a drain begun inside */
  bool again;             /* begin one */
};

static void on_drained(void *context, const msgq_report *report) {
  struct ending *ending = context;
  ending->report = *report;
  ending->finished_before = journal_count(ending->journal, MSGQ_EVENT_DRAIN_FINISHED);
  bool again = ending->again;
  ending->again = false;
  if (again) ending->inner = msgq_drain_async(ending->queue, NULL, on_drained, ending);
  atomic_fetch_add(&ending->told, 1);
}

TEST(X7_a_loop_drains_without_waiting) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  struct ending ending = { .queue = host.scene.queue, .journal = &host.scene.journal };
  for (int number = 0; number < 5; number++) put(&host.scene, NULL, "ana", "hello");
  REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, on_drained, &ending));
  CHECK_NUMBER(0, atomic_load(&host.stub.calls)); /* nothing runs outside msgq_poll */
  CHECK_NUMBER(0, atomic_load(&ending.told));
  while (atomic_load(&ending.told) == 0) REQUIRE(turn(&host, (int)check_patience_ms()));
  turn_until_quiet(&host);
  CHECK_NUMBER(1, atomic_load(&ending.told));
  CHECK_NUMBER(5, ending.report.sent);
  CHECK_NUMBER(MSGQ_STOP_EMPTY, ending.report.stop);
  CHECK_NUMBER(1, ending.finished_before); /* the events of the drain came first */
  host_end(&host);
  CHECK_NUMBER(1, atomic_load(&ending.told));
}

TEST(X7_a_drain_begun_at_the_end_of_a_drain) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  struct ending ending = { .queue = host.scene.queue, .journal = &host.scene.journal, .again = true, .inner = MSGQ_INTERNAL };
  put(&host.scene, NULL, "ana", "hello");
  REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, on_drained, &ending));
  while (atomic_load(&ending.told) < 2) REQUIRE(turn(&host, (int)check_patience_ms()));
  turn_until_quiet(&host);
  CHECK_RESULT(MSGQ_OK, ending.inner);
  CHECK_NUMBER(2, atomic_load(&ending.told));
  CHECK_NUMBER(0, ending.report.sent);
  host_end(&host);
}

static msgq_verdict drains_inside(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct ending *ending = context;
  (void)delivery, (void)out;
  ending->inner = msgq_drain_async(ending->queue, NULL, on_drained, ending);
  return MSGQ_VERDICT_SENT;
}

static void drains_when_queued(void *context, const msgq_event *event) {
  struct ending *ending = context;
  journal_event(ending->journal, event);
  if (event->kind != MSGQ_EVENT_STATUS || event->to != MSGQ_STATUS_QUEUED || event->from != MSGQ_STATUS_NONE) return;
  ending->inner = msgq_drain_async(ending->queue, NULL, on_drained, ending);
}

TEST(X7_callbacks_begin_drains) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  struct ending ending = { .queue = host.scene.queue, .journal = &host.scene.journal, .inner = MSGQ_INTERNAL };
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, drains_when_queued, &ending, NULL));
  put(&host.scene, "a", "ana", "hello");
  while (atomic_load(&ending.told) < 1) REQUIRE(turn(&host, (int)check_patience_ms()));
  CHECK_RESULT(MSGQ_OK, ending.inner);
  CHECK_NUMBER(1, ending.report.sent);
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, journal_event, &host.scene.journal, NULL));
  REQUIRE_OK(msgq_set_transport(host.scene.queue, drains_inside, &ending, NULL));
  put(&host.scene, "b", "ana", "hello");
  ending.inner = MSGQ_INTERNAL;
  CHECK_RESULT(MSGQ_OK, msgq_send_now(host.scene.queue, "b"));
  while (atomic_load(&ending.told) < 2) REQUIRE(turn(&host, (int)check_patience_ms()));
  turn_until_quiet(&host);
  CHECK_RESULT(MSGQ_OK, ending.inner);
  CHECK_NUMBER(2, atomic_load(&ending.told));
  host_end(&host);
}

TEST(X7_many_wait_for_one_drain_and_each_is_told_once) {
  struct host host;
  struct ending endings[20];
  host_begin(&host, MSGQ_MODE_MANUAL);
  put(&host.scene, "a", "ana", "hello");
  for (int index = 0; index < 20; index++) {
    endings[index] = (struct ending){ .queue = host.scene.queue, .journal = &host.scene.journal };
    REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, on_drained, &endings[index]));
  }
  REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, NULL, NULL));
  while (atomic_load(&endings[19].told) == 0) REQUIRE(turn(&host, (int)check_patience_ms()));
  turn_until_quiet(&host);
  for (int index = 0; index < 20; index++) {
    CHECK_NUMBER(1, atomic_load(&endings[index].told));
    CHECK_NUMBER(1, endings[index].report.sent);
  }
  CHECK_NUMBER(1, journal_count(&host.scene.journal, MSGQ_EVENT_DRAIN_FINISHED));
  host_end(&host);
}

TEST(X7_who_waits_with_a_time_is_told_when_it_is_over) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  struct ending endless = { .queue = host.scene.queue, .journal = &host.scene.journal };
  struct ending timed = { .queue = host.scene.queue, .journal = &host.scene.journal };
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.timeout_ms = 50;
  host.stub.verdict = MSGQ_VERDICT_PENDING;
  put(&host.scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_drain_async(host.scene.queue, NULL, on_drained, &endless));
  REQUIRE_OK(msgq_drain_async(host.scene.queue, &options, on_drained, &timed));
  while (atomic_load(&timed.told) == 0) REQUIRE(turn(&host, (int)check_patience_ms()));
  CHECK_NUMBER(MSGQ_STOP_TIMEOUT, timed.report.stop);
  CHECK_NUMBER(1, timed.report.remaining);
  CHECK_NUMBER(0, atomic_load(&endless.told));
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  outcome.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_complete(host.scene.queue, atomic_load(&host.stub.token), &outcome));
  turn_until_quiet(&host);
  CHECK_NUMBER(MSGQ_STOP_EMPTY, endless.report.stop);
  CHECK(atomic_load(&timed.told) == 1 && atomic_load(&endless.told) == 1);
  host_end(&host);
}

TEST(X7_a_close_ends_a_drain_and_says_so_once) {
  for (int polled = 0; polled < 2; polled++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    stub_begin(&stub, MSGQ_VERDICT_PENDING); /* never answers */
    scene.options.callbacks = polled == 1 ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
    stub_open(&stub, &scene);
    struct ending ending = { .queue = scene.queue, .journal = &scene.journal };
    put(&scene, "a", "ana", "hello");
    REQUIRE_OK(msgq_drain_async(scene.queue, NULL, on_drained, &ending));
    while (polled == 1 && atomic_load(&stub.calls) == 0) REQUIRE_OK(msgq_poll(scene.queue, 0, NULL));
    AWAIT(atomic_load(&stub.calls) == 1);
    CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 50));
    scene.queue = NULL;
    CHECK_NUMBER(1, atomic_load(&ending.told));
    CHECK_NUMBER(MSGQ_STOP_CLOSED, ending.report.stop);
    CHECK_NUMBER(1, ending.report.remaining);
    scene_end(&scene);
  }
}

TEST(X7_a_drain_that_could_not_begin_tells_nobody) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  struct ending ending = { .queue = scene.queue, .journal = &scene.journal };
  CHECK_RESULT(MSGQ_INVALID, msgq_drain_async(NULL, NULL, on_drained, &ending));
  CHECK_RESULT(MSGQ_NO_TRANSPORT, msgq_drain_async(scene.queue, NULL, on_drained, &ending));
  options.struct_size = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_drain_async(scene.queue, &options, on_drained, &ending));
  scene_close(&scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_drain_async(ending.queue, NULL, on_drained, &ending));
  CHECK_NUMBER(0, atomic_load(&ending.told));
  scene_end(&scene);
}
