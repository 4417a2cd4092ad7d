/* msgq_close while other threads drain, close and open. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "faults.h"
#include "scene.h"
#include "stub.h"

static msgq_verdict slow_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  atomic_int *calls = context;
  (void)delivery, (void)out;
  atomic_fetch_add(calls, 1);
  pause_ms(2);
  return MSGQ_VERDICT_SENT;
}

struct closing {
  struct scene scene;
  atomic_int calls;
  atomic_int ok, closed, other;
  atomic_int stopped; /* drains that ended because the queue was closed */
  atomic_bool draining;
};

static void *drain_until_closed(void *context) {
  struct closing *closing = context;
  msgq_report report = MSGQ_REPORT_INIT;
  atomic_store(&closing->draining, true);
  msgq_result result = msgq_drain(closing->scene.queue, NULL, &report);
  if (result == MSGQ_OK && report.stop == MSGQ_STOP_CLOSED) atomic_fetch_add(&closing->stopped, 1);
  else if (result == MSGQ_CLOSED) atomic_fetch_add(&closing->stopped, 1); /* called after the close */
  else atomic_fetch_add(&closing->other, 1);
  return NULL;
}

static void *run_close(void *context) {
  struct closing *closing = context;
  msgq_result result = msgq_close(closing->scene.queue, -1);
  atomic_fetch_add(result == MSGQ_OK ? &closing->ok : result == MSGQ_CLOSED ? &closing->closed : &closing->other, 1);
  return NULL;
}

static void begin_closing(struct closing *closing, msgq_callbacks callbacks) {
  memset(closing, 0, sizeof *closing);
  scene_begin(&closing->scene);
  closing->scene.options.callbacks = callbacks;
  closing->scene.options.max_in_flight = 3;
  scene_open(&closing->scene);
  REQUIRE_OK(msgq_set_transport(closing->scene.queue, slow_send, &closing->calls, NULL));
  static const char *const names[] = { "ana", "ben", "cem", "dan" };
  for (int number = 0; number < 100; number++) put(&closing->scene, NULL, names[number % 4], "hello");
}

/* Opens the store again and checks that nothing was lost and nothing was sent twice. */
static void check_after_reopen(struct closing *closing) {
  closing->scene.queue = NULL;
  scene_open(&closing->scene);
  msgq_counts counts = counts_of(&closing->scene, NULL);
  CHECK_NUMBER(100, counts.queued + counts.sent);
  CHECK_NUMBER(atomic_load(&closing->calls), counts.sent);
  CHECK_NUMBER(0, atomic_load(&closing->other));
  scene_end(&closing->scene);
}

TEST_LONG(close_from_eight_threads_while_three_drain) {
  for (int polled = 0; polled < 2; polled++) {
    struct closing closing;
    pthread_t closers[8], drainers[3];
    begin_closing(&closing, polled == 1 ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD);
    for (int index = 0; index < 3; index++) REQUIRE(pthread_create(&drainers[index], NULL, drain_until_closed, &closing) == 0);
    AWAIT(atomic_load(&closing.calls) >= 5);
    for (int index = 0; index < 8; index++) REQUIRE(pthread_create(&closers[index], NULL, run_close, &closing) == 0);
    for (int index = 0; index < 8; index++) pthread_join(closers[index], NULL);
    for (int index = 0; index < 3; index++) pthread_join(drainers[index], NULL);
    CHECK_NUMBER(1, atomic_load(&closing.ok));
    CHECK_NUMBER(7, atomic_load(&closing.closed));
    CHECK_NUMBER(3, atomic_load(&closing.stopped));
    check_after_reopen(&closing);
  }
}

TEST(close_during_an_async_drain) {
  struct closing closing;
  begin_closing(&closing, MSGQ_CALLBACKS_THREAD);
  REQUIRE_OK(msgq_drain_async(closing.scene.queue, NULL, NULL, NULL));
  AWAIT(atomic_load(&closing.calls) >= 3);
  msgq_queue *queue = closing.scene.queue;
  CHECK_RESULT(MSGQ_OK, msgq_close(queue, check_timeout_ms()));
  CHECK_RESULT(MSGQ_CLOSED, msgq_close(queue, 0));
  check_after_reopen(&closing);
}

TEST(close_with_timeout_zero_during_an_async_drain) {
  struct closing closing;
  begin_closing(&closing, MSGQ_CALLBACKS_THREAD);
  REQUIRE_OK(msgq_drain_async(closing.scene.queue, NULL, NULL, NULL));
  AWAIT(atomic_load(&closing.calls) >= 3);
  msgq_result result = msgq_close(closing.scene.queue, 0);
  CHECK(result == MSGQ_OK || result == MSGQ_TIMEOUT);
  closing.scene.queue = NULL;
  pause_ms(20); /* transport calls in flight return meanwhile */
  scene_open(&closing.scene);
  msgq_counts counts = counts_of(&closing.scene, NULL);
  CHECK_NUMBER(100, counts.queued + counts.sent);
  CHECK((int)counts.sent <= atomic_load(&closing.calls) && (int)counts.sent >= atomic_load(&closing.calls) - 3);
  scene_end(&closing.scene);
}

/* A thread that stores the queue as thread-specific data, whose destructor closes it. */
static pthread_key_t kept;
static atomic_int closed_by_thread;

static void close_kept(void *queue) {
  if (msgq_close(queue, -1) == MSGQ_OK) atomic_fetch_add(&closed_by_thread, 1);
}

static void *keep_queue(void *queue) {
  msgq_counts counts = MSGQ_COUNTS_INIT;
  pthread_setspecific(kept, queue);
  CHECK_RESULT(MSGQ_OK, msgq_count(queue, NULL, &counts));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_delete(queue, "nobody")); /* sets an error detail on this thread */
  return NULL;
}

TEST(close_from_a_thread_local_destructor) {
  struct closing closing;
  pthread_t thread;
  begin_closing(&closing, MSGQ_CALLBACKS_THREAD);
  REQUIRE(pthread_key_create(&kept, close_kept) == 0);
  REQUIRE_OK(msgq_drain_async(closing.scene.queue, NULL, NULL, NULL));
  REQUIRE(pthread_create(&thread, NULL, keep_queue, closing.scene.queue) == 0);
  pthread_join(thread, NULL);
  CHECK_NUMBER(1, atomic_load(&closed_by_thread));
  pthread_key_delete(kept);
  check_after_reopen(&closing);
}

static void *open_and_close(void *context) {
  struct closing *closing = context;
  for (int time = 0; time < 50; time++) {
    msgq_queue *queue = NULL;
    msgq_result result = msgq_open(closing->scene.path, &closing->scene.options, &queue);
    if (result == MSGQ_OK) {
      atomic_fetch_add(&closing->ok, 1);
      CHECK_RESULT(MSGQ_OK, msgq_close(queue, -1));
    } else if (result != MSGQ_LOCKED) {
      CHECK_RESULT(MSGQ_LOCKED, result);
    }
  }
  return NULL;
}

TEST_LONG(close_and_open_of_one_store_from_four_threads) {
  struct closing closing = { .calls = 0 };
  pthread_t threads[4];
  scene_begin(&closing.scene);
  for (int index = 0; index < 4; index++) REQUIRE(pthread_create(&threads[index], NULL, open_and_close, &closing) == 0);
  for (int index = 0; index < 4; index++) pthread_join(threads[index], NULL);
  CHECK(atomic_load(&closing.ok) > 0);
  scene_end(&closing.scene);
}

static struct rlimit room;

/* Sends, and then no file can be written. */
static msgq_verdict send_and_fill(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)delivery, (void)out;
  room = forbid_growth(context);
  return MSGQ_VERDICT_SENT;
}

static void begin_unsaved(struct scene *scene) {
  scene_begin_open(scene);
  put(scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_set_transport(scene->queue, send_and_fill, scene, NULL));
  drain(scene);
}

TEST_ALONE(D9_a_close_does_not_wait_for_its_timeout_when_outcomes_cannot_be_stored) {
  struct scene scene;
  begin_unsaved(&scene);
  int64_t begin = steady_ms();
  msgq_result result = msgq_close(scene.queue, 60000);
  scene.queue = NULL;
  int64_t took = steady_ms() - begin;
  setrlimit(RLIMIT_FSIZE, &room);
  CHECK_RESULT(MSGQ_STORAGE, result);
  CHECK(took < 30000);
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(1, attempts_of(&scene, "a"));
  scene_end(&scene);
}

static void *make_room(void *context) {
  (void)context;
  pause_ms(1000);
  setrlimit(RLIMIT_FSIZE, &room);
  return NULL;
}

TEST_ALONE(D9_a_close_stores_outcomes_when_there_is_room_again) {
  struct scene scene;
  pthread_t thread;
  begin_unsaved(&scene);
  REQUIRE(pthread_create(&thread, NULL, make_room, NULL) == 0);
  CHECK_RESULT(MSGQ_OK, msgq_close(scene.queue, 60000));
  scene.queue = NULL;
  pthread_join(thread, NULL);
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a"));
  scene_end(&scene);
}
