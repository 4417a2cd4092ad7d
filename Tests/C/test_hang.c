/* Callbacks that hang: other calls and conversations are not blocked, and closing ends at its timeout. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "every_call.h"
#include "scene.h"
#include "stub.h"

/* A call that takes this long has waited for the hung callback, which does not end before the test lets it. */
static int64_t soon_ms(void) { return check_timeout_ms(); }

struct hanging {
  atomic_bool held;
  atomic_int inside;
  atomic_int calls;
};

/* Hangs with the messages of conversation "hung". */
static msgq_verdict hanging_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct hanging *hanging = context;
  (void)out;
  atomic_fetch_add(&hanging->calls, 1);
  if (strcmp(delivery->conversation, "hung") != 0) return MSGQ_VERDICT_SENT;
  atomic_fetch_add(&hanging->inside, 1);
  while (atomic_load(&hanging->held)) pause_ms(1);
  atomic_fetch_sub(&hanging->inside, 1);
  return MSGQ_VERDICT_SENT;
}

static void begin_hanging(struct scene *scene, struct hanging *hanging) {
  memset(hanging, 0, sizeof *hanging);
  atomic_store(&hanging->held, true);
  scene_begin(scene);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.direct = true;
  scene->options.max_in_flight = 2;
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, hanging_send, hanging, NULL));
  put(scene, "hung-1", "hung", "hello");
  put(scene, "hung-2", "hung", "hello");
  AWAIT(atomic_load(&hanging->inside) == 1);
}

TEST(Q16_a_hung_transport_blocks_no_call) {
  struct scene scene;
  struct hanging hanging;
  msgq_page *list = NULL;
  msgq_message *message = NULL;
  begin_hanging(&scene, &hanging);
  int64_t start = steady_ms();
  REQUIRE_OK(msgq_pause(scene.queue, "ana"));
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "a", "edited", 6));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "b"));
  CHECK_RESULT(MSGQ_OK, msgq_list(scene.queue, NULL, &list));
  CHECK_NUMBER(3, msgq_list_size(list));
  msgq_list_free(list);
  CHECK_RESULT(MSGQ_OK, msgq_get(scene.queue, "hung-1", &message));
  CHECK_NUMBER(MSGQ_STATUS_SENDING, message->status);
  msgq_message_free(message);
  CHECK_RESULT(MSGQ_BUSY, msgq_edit(scene.queue, "hung-1", "x", 1));
  CHECK_RESULT(MSGQ_BUSY, msgq_delete(scene.queue, "hung-1"));
  CHECK_NUMBER(1, counts_of(&scene, NULL).sending);
  CHECK_NUMBER(MSGQ_REASON_BEHIND, reason_of(&scene, "hung-2"));
  CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, "ana"));
  CHECK(steady_ms() - start < soon_ms());
  atomic_store(&hanging.held, false);
  AWAIT(counts_of(&scene, NULL).sent == 3);
  scene_end(&scene);
}

TEST(A10_a_hung_transport_blocks_no_other_conversation) {
  struct scene scene;
  struct hanging hanging;
  begin_hanging(&scene, &hanging);
  for (int number = 0; number < 20; number++) put(&scene, NULL, number % 2 == 0 ? "ana" : "ben", "hello");
  AWAIT(counts_of(&scene, NULL).sent == 20);
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&scene, "hung-1"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "hung-2"));
  atomic_store(&hanging.held, false);
  AWAIT(counts_of(&scene, NULL).sent == 22);
  CHECK_NUMBER(22, atomic_load(&hanging.calls));
  scene_end(&scene);
}

/* After many quick calls several attempts begin together; one of their calls hangs. */
TEST_LONG(A10_a_call_that_hangs_delays_no_call_that_waits_behind_it) {
  enum { conversations = 16, after = 3 };
  const int before = check_times(100, 20);
  struct scene scene;
  struct hanging hanging;
  char name[16];
  memset(&hanging, 0, sizeof hanging);
  atomic_store(&hanging.held, true);
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_in_flight = conversations;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, hanging_send, &hanging, NULL));
  set_offline(&scene);
  for (int round = 0; round < before + after; round++) {
    if (round == before) put(&scene, "hung-1", "hung", "hello");
    for (int number = 0; number < conversations - 1; number++) {
      snprintf(name, sizeof name, "c%d", number);
      put(&scene, NULL, name, "hello");
    }
  }
  set_online(&scene);
  const uint64_t others = (uint64_t)(before + after) * (conversations - 1);
  AWAIT(counts_of(&scene, NULL).sent == others);
  AWAIT(atomic_load(&hanging.inside) == 1);
  CHECK_NUMBER(1, counts_of(&scene, NULL).sending);
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 50));
  scene.queue = NULL;
  atomic_store(&hanging.held, false);
  AWAIT(atomic_load(&hanging.inside) == 0);
  CHECK_NUMBER((int64_t)others + 1, atomic_load(&hanging.calls));
  scene_open(&scene);
  CHECK_NUMBER(others, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "hung-1"));
  scene_end(&scene);
}

TEST(close_with_a_hung_transport_ends_at_its_timeout) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.inside) == 1);
  msgq_queue *queue = scene.queue;
  int64_t start = steady_ms();
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(queue, 200));
  CHECK(steady_ms() - start >= 200 && steady_ms() - start < 200 + soon_ms());
  scene.queue = NULL;
  CHECK_RESULT(MSGQ_CLOSED, msgq_close(queue, 50));
  every_call_answers(queue, MSGQ_CLOSED);
  CHECK_NUMBER(0, atomic_load(&stub.released)); /* the last call of the transport has not returned */
  /* The store can be opened again; the outcome of the attempt is unknown. */
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  msgq_ledger *ledger = NULL;
  REQUIRE_OK(msgq_attempts(scene.queue, "a", &ledger));
  REQUIRE(msgq_attempts_size(ledger) == 1);
  CHECK_NUMBER(MSGQ_ATTEMPT_UNKNOWN, msgq_attempts_at(ledger, 0)->outcome);
  msgq_attempts_free(ledger);
  atomic_store(&stub.held, false);
  AWAIT(atomic_load(&stub.released) == 1);
  pause_ms(20);
  CHECK_NUMBER(1, atomic_load(&stub.released));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  scene_end(&scene);
}

/* A handler that hangs when a message was sent. */
struct hung_handler {
  atomic_bool held;
  atomic_int inside;
  atomic_int released;
};

static void hanging_handler(void *context, const msgq_event *event) {
  struct hung_handler *handler = context;
  if (event->kind != MSGQ_EVENT_STATUS || event->to != MSGQ_STATUS_SENT) return;
  atomic_fetch_add(&handler->inside, 1);
  while (atomic_load(&handler->held)) pause_ms(1);
}

static void release_handler(void *context) {
  struct hung_handler *handler = context;
  atomic_fetch_add(&handler->released, 1);
}

struct waiting {
  msgq_queue *queue;
  atomic_bool done;
  msgq_result result;
  msgq_report report;
  atomic_int calls;
};

static void *drain_and_wait(void *context) {
  struct waiting *waiting = context;
  waiting->report = (msgq_report)MSGQ_REPORT_INIT;
  waiting->result = msgq_drain(waiting->queue, NULL, &waiting->report);
  atomic_store(&waiting->done, true);
  return NULL;
}

static void on_drained(void *context, const msgq_report *report) {
  struct waiting *waiting = context;
  waiting->report = *report;
  atomic_fetch_add(&waiting->calls, 1);
}

TEST_LONG(close_with_a_hung_handler_ends_and_wakes_waiting_drains) {
  struct scene scene;
  struct stub stub;
  struct hung_handler handler = { 0 };
  struct waiting drained = { 0 }, async = { 0 };
  pthread_t thread;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  atomic_store(&handler.held, true);
  REQUIRE_OK(msgq_set_event_handler(scene.queue, hanging_handler, &handler, release_handler));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, stub_release));
  put(&scene, "a", "ana", "hello");
  drained.queue = scene.queue;
  REQUIRE(pthread_create(&thread, NULL, drain_and_wait, &drained) == 0);
  REQUIRE_OK(msgq_drain_async(scene.queue, NULL, on_drained, &async));
  AWAIT(atomic_load(&handler.inside) == 1 && status_of(&scene, "a") == MSGQ_STATUS_SENT);
  pause_ms(50); /* the drain is over, but its callbacks did not run yet */
  int64_t start = steady_ms();
  msgq_result result = msgq_close(scene.queue, 200);
  scene.queue = NULL;
  CHECK(result == MSGQ_TIMEOUT || result == MSGQ_OK);
  CHECK(steady_ms() - start < 1200 + soon_ms());
  /* The waiting thread returns, and the callback is called once. */
  for (int64_t end = steady_ms() + 2000; !atomic_load(&drained.done) && steady_ms() < end;) pause_ms(1);
  CHECK(atomic_load(&drained.done));
  CHECK_NUMBER(1, atomic_load(&async.calls));
  atomic_store(&handler.held, false);
  AWAIT(atomic_load(&handler.released) == 1);
  if (CHECK(atomic_load(&drained.done))) pthread_join(thread, NULL);
  CHECK_NUMBER(1, atomic_load(&async.calls));
  CHECK_NUMBER(1, atomic_load(&stub.released));
  scene_end(&scene);
}

TEST(callbacks_release_runs_once_also_when_nothing_is_registered) {
  struct scene scene;
  struct stub stub;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_INVALID, msgq_set_transport(NULL, stub_send, &stub, stub_release));
  CHECK_NUMBER(1, atomic_load(&stub.released));
  CHECK_RESULT(MSGQ_INVALID, msgq_set_event_handler(NULL, journal_event, &stub, stub_release));
  CHECK_NUMBER(2, atomic_load(&stub.released));
  /* No function: the context is released at once. */
  CHECK_RESULT(MSGQ_OK, msgq_set_transport(scene.queue, NULL, &stub, stub_release));
  CHECK_NUMBER(3, atomic_load(&stub.released));
  msgq_queue *queue = scene.queue;
  scene_close(&scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_set_transport(queue, stub_send, &stub, stub_release));
  CHECK_NUMBER(4, atomic_load(&stub.released));
  CHECK_RESULT(MSGQ_CLOSED, msgq_set_event_handler(queue, journal_event, &stub, stub_release));
  CHECK_NUMBER(5, atomic_load(&stub.released));
  scene_end(&scene);
}

TEST(callbacks_a_replaced_transport_is_released_after_its_last_call) {
  struct scene scene;
  struct stub first, second;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_in_flight = 2;
  stub_begin(&first, MSGQ_VERDICT_SENT);
  stub_begin(&second, MSGQ_VERDICT_SENT);
  atomic_store(&first.held, true);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &first, stub_release));
  put(&scene, "a", "ana", "hello");
  AWAIT(atomic_load(&first.inside) == 1);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &second, stub_release));
  put(&scene, "b", "ben", "hello");
  AWAIT(atomic_load(&second.calls) == 1);
  CHECK_NUMBER(0, atomic_load(&first.released));
  atomic_store(&first.held, false);
  AWAIT(atomic_load(&first.released) == 1);
  AWAIT(counts_of(&scene, NULL).sent == 2);
  scene_close(&scene);
  CHECK_NUMBER(1, atomic_load(&first.released));
  CHECK_NUMBER(1, atomic_load(&second.released));
  CHECK_NUMBER(1, atomic_load(&scene.journal.released));
  scene_end(&scene);
}
