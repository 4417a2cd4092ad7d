/* msgq_close_async: closing without blocking, on threads and in msgq_poll. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "scene.h"
#include "stub.h"
#include "check.h"

struct closed {
  atomic_int calls;
  msgq_result result;
  char detail[256];
  pthread_t thread;
  struct stub *stub; /* releases_before: its releases before the callback */
  int releases_before;
};

static void on_closed(void *context, msgq_result result) {
  struct closed *closed = context;
  closed->result = result;
  closed->thread = pthread_self();
  strncpy(closed->detail, msgq_error_detail(), sizeof closed->detail - 1);
  if (closed->stub != NULL) closed->releases_before = atomic_load(&closed->stub->released);
  atomic_fetch_add(&closed->calls, 1);
}

static void never_closed(void *context, msgq_result result) {
  (void)context, (void)result;
  CHECK(false);
}

/* Opens a queue with one message in flight, whose transport does not return. */
static void begin_in_flight(struct scene *scene, struct stub *stub, struct closed *closed) {
  *closed = (struct closed){ .stub = stub };
  stub_begin(stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub->held, true);
  scene_begin_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, stub_send, stub, stub_release));
  put(scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene->queue, "a"));
  AWAIT(atomic_load(&stub->inside) == 1);
}

TEST(close_async_returns_at_once_and_calls_back_when_done) {
  struct scene scene;
  struct stub stub;
  struct closed closed;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  begin_in_flight(&scene, &stub, &closed);
  REQUIRE_OK(msgq_close_async(scene.queue, -1, on_closed, &closed));
  /* Calls are refused from now on, and the callback of a second close is never called. */
  CHECK_RESULT(MSGQ_CLOSED, msgq_count(scene.queue, NULL, &counts));
  CHECK_RESULT(MSGQ_CLOSED, msgq_close_async(scene.queue, -1, never_closed, NULL));
  CHECK_NUMBER(0, atomic_load(&closed.calls));
  CHECK_NUMBER(0, atomic_load(&stub.released));
  atomic_store(&stub.held, false);
  AWAIT(atomic_load(&closed.calls) == 1);
  CHECK_RESULT(MSGQ_OK, closed.result);
  CHECK_NUMBER(1, closed.releases_before);
  CHECK(!pthread_equal(pthread_self(), closed.thread));
  CHECK(journal_reached(&scene.journal, "a", MSGQ_STATUS_SENT));
  CHECK_RESULT(MSGQ_CLOSED, msgq_close_async(scene.queue, -1, never_closed, NULL));
  CHECK_RESULT(MSGQ_CLOSED, msgq_close(scene.queue, -1));
  scene.queue = NULL;
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(close_async_reports_a_timeout) {
  struct scene scene;
  struct stub stub;
  struct closed closed;
  begin_in_flight(&scene, &stub, &closed);
  REQUIRE_OK(msgq_close_async(scene.queue, 0, on_closed, &closed));
  AWAIT(atomic_load(&closed.calls) == 1);
  CHECK_RESULT(MSGQ_TIMEOUT, closed.result);
  CHECK(strlen(closed.detail) > 10);
  CHECK_NUMBER(0, closed.releases_before);
  atomic_store(&stub.held, false);
  AWAIT(atomic_load(&stub.released) == 1);
  scene.queue = NULL;
  scene_end(&scene);
}

TEST(close_async_without_a_callback_closes) {
  struct scene scene;
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_close_async(scene.queue, 0, NULL, NULL));
  CHECK_RESULT(MSGQ_CLOSED, msgq_close(scene.queue, -1)); /* returns when the store is closed */
  scene.queue = NULL;
  scene_open(&scene);
  scene_end(&scene);
}

TEST(close_async_refuses_invalid_handles) {
  CHECK_RESULT(MSGQ_INVALID, msgq_close_async(NULL, 0, never_closed, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_close_async((msgq_queue *)(uintptr_t)16, 0, never_closed, NULL));
}

/* A transport and a handler that close their own queue. */
struct self_closing {
  msgq_queue *queue;
  struct closed closed;
  atomic_int result; /* of msgq_close_async; -1: not called */
  bool in_transport;
};

static void close_once(struct self_closing *self) {
  int expected = -1;
  if (!atomic_compare_exchange_strong(&self->result, &expected, MSGQ_INTERNAL)) return;
  atomic_store(&self->result, msgq_close_async(self->queue, -1, on_closed, &self->closed));
}

static msgq_verdict closing_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct self_closing *self = context;
  (void)delivery, (void)out;
  if (self->in_transport) close_once(self);
  return MSGQ_VERDICT_SENT;
}

static void closing_handler(void *context, const msgq_event *event) {
  struct self_closing *self = context;
  if (!self->in_transport && event->kind == MSGQ_EVENT_STATUS && event->to == MSGQ_STATUS_SENT) close_once(self);
}

static void close_inside_a_callback(msgq_callbacks callbacks, bool in_transport) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.callbacks = callbacks;
  scene_open(&scene);
  struct self_closing self = { .queue = scene.queue, .result = -1, .in_transport = in_transport };
  REQUIRE_OK(msgq_set_event_handler(scene.queue, closing_handler, &self, NULL));
  REQUIRE_OK(msgq_set_transport(scene.queue, closing_send, &self, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  if (callbacks == MSGQ_CALLBACKS_POLL) {
    while (msgq_poll(scene.queue, -1, NULL) == MSGQ_OK) {}
    CHECK_NUMBER(1, atomic_load(&self.closed.calls));
    CHECK(pthread_equal(pthread_self(), self.closed.thread));
  }
  AWAIT(atomic_load(&self.closed.calls) == 1);
  CHECK_RESULT(MSGQ_OK, (msgq_result)atomic_load(&self.result));
  CHECK_RESULT(MSGQ_OK, self.closed.result);
  scene.queue = NULL;
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(close_async_inside_a_transport_on_a_thread) { close_inside_a_callback(MSGQ_CALLBACKS_THREAD, true); }
TEST(close_async_inside_a_handler_on_a_thread) { close_inside_a_callback(MSGQ_CALLBACKS_THREAD, false); }
TEST(close_async_inside_a_transport_in_poll) { close_inside_a_callback(MSGQ_CALLBACKS_POLL, true); }
TEST(close_async_inside_a_handler_in_poll) { close_inside_a_callback(MSGQ_CALLBACKS_POLL, false); }

static void on_drained(void *context, const msgq_report *report) {
  atomic_int *stops = context;
  CHECK_NUMBER(MSGQ_STOP_CLOSED, report->stop);
  atomic_fetch_add(stops, 1);
}

static bool is_readable(int descriptor, int timeout_ms) {
  struct pollfd entry = { .fd = descriptor, .events = POLLIN };
  return poll(&entry, 1, timeout_ms) == 1 && (entry.revents & POLLIN) != 0;
}

/* Opens a polled queue with a drain that waits for an answer. */
static void begin_polled(struct scene *scene, struct stub *stub, struct closed *closed, atomic_int *drained) {
  *closed = (struct closed){ .stub = stub };
  stub_begin(stub, MSGQ_VERDICT_PENDING);
  scene_begin(scene);
  scene->options.callbacks = MSGQ_CALLBACKS_POLL;
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, stub_send, stub, stub_release));
  put(scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_drain_async(scene->queue, NULL, on_drained, drained));
  while (atomic_load(&stub->calls) == 0) REQUIRE_OK(msgq_poll(scene->queue, -1, NULL));
}

TEST_LONG(close_async_of_a_polled_queue_runs_callbacks_only_in_poll) {
  struct scene scene;
  struct stub stub;
  struct closed closed;
  atomic_int drained = 0;
  size_t ran = 0;
  begin_polled(&scene, &stub, &closed, &drained);
  int descriptor = msgq_fd(scene.queue);
  REQUIRE_OK(msgq_close_async(scene.queue, 0, on_closed, &closed));
  CHECK_RESULT(MSGQ_CLOSED, msgq_close(scene.queue, -1)); /* returns when the store is closed */
  /* The descriptor stays readable until all callbacks ran. */
  REQUIRE(is_readable(descriptor, (int)check_timeout_ms()));
  CHECK_NUMBER(descriptor, msgq_fd(scene.queue));
  CHECK_NUMBER(0, atomic_load(&closed.calls) + atomic_load(&stub.released) + atomic_load(&drained));
  while (atomic_load(&closed.calls) == 0) REQUIRE_OK(msgq_poll(scene.queue, -1, &ran));
  CHECK(ran > 0);
  CHECK_RESULT(MSGQ_TIMEOUT, closed.result); /* the transport never answered */
  CHECK(pthread_equal(pthread_self(), closed.thread));
  CHECK_NUMBER(1, closed.releases_before);
  CHECK_NUMBER(1, atomic_load(&drained));
  CHECK_RESULT(MSGQ_CLOSED, msgq_poll(scene.queue, 0, &ran));
  CHECK_NUMBER(-1, msgq_fd(scene.queue));
  CHECK_NUMBER(1, atomic_load(&closed.calls));
  scene.queue = NULL;
  scene_end(&scene);
}

static void *poll_until_closed(void *context) {
  while (msgq_poll(context, -1, NULL) == MSGQ_OK) {}
  return NULL;
}

TEST(close_async_wakes_polling_threads) {
  struct scene scene;
  struct stub stub;
  struct closed closed;
  atomic_int drained = 0;
  pthread_t threads[2];
  begin_polled(&scene, &stub, &closed, &drained);
  for (int index = 0; index < 2; index++) REQUIRE(pthread_create(&threads[index], NULL, poll_until_closed, scene.queue) == 0);
  REQUIRE_OK(msgq_close_async(scene.queue, 0, on_closed, &closed));
  for (int index = 0; index < 2; index++) pthread_join(threads[index], NULL);
  CHECK_NUMBER(1, atomic_load(&closed.calls));
  CHECK(pthread_equal(threads[0], closed.thread) || pthread_equal(threads[1], closed.thread));
  CHECK_NUMBER(1, atomic_load(&drained));
  scene.queue = NULL;
  scene_end(&scene);
}

static void *drain_until_closed(void *context) {
  msgq_report report = MSGQ_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_drain(context, NULL, &report));
  CHECK_NUMBER(MSGQ_STOP_CLOSED, report.stop);
  return NULL;
}

/* The draining thread runs the callbacks of a queue that is not polled, so that its drain ends. The callback of the close runs in
   msgq_poll. */
TEST(close_async_ends_a_drain_of_a_queue_that_is_not_polled) {
  struct scene scene;
  struct stub stub;
  struct closed closed = { .calls = 0 };
  pthread_t thread;
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  scene_begin(&scene);
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "a", "ana", "hello");
  REQUIRE(pthread_create(&thread, NULL, drain_until_closed, scene.queue) == 0);
  AWAIT(atomic_load(&stub.calls) == 1);
  REQUIRE_OK(msgq_close_async(scene.queue, 0, on_closed, &closed));
  pthread_join(thread, NULL);
  while (atomic_load(&closed.calls) == 0) REQUIRE_OK(msgq_poll(scene.queue, -1, NULL));
  CHECK_RESULT(MSGQ_CLOSED, msgq_poll(scene.queue, 0, NULL));
  CHECK_NUMBER(1, atomic_load(&closed.calls));
  scene.queue = NULL;
  scene_end(&scene);
}

static void *run_close_async(void *context) {
  struct self_closing *self = context;
  if (msgq_close_async(self->queue, -1, on_closed, &self->closed) == MSGQ_OK) atomic_fetch_add(&self->result, 1);
  return NULL;
}

TEST(close_async_from_eight_threads_calls_back_once) {
  struct scene scene;
  pthread_t threads[8];
  scene_begin_open(&scene);
  struct self_closing self = { .queue = scene.queue, .result = 0 };
  for (int index = 0; index < 8; index++) REQUIRE(pthread_create(&threads[index], NULL, run_close_async, &self) == 0);
  for (int index = 0; index < 8; index++) pthread_join(threads[index], NULL);
  AWAIT(atomic_load(&self.closed.calls) == 1);
  CHECK_NUMBER(1, atomic_load(&self.result));
  scene.queue = NULL;
  scene_end(&scene);
}
