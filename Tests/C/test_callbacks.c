/* Calls inside callbacks: all are allowed except msgq_close. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "every_call.h"
#include "files.h"
#include "post.h"
#include "stub.h"

struct inside {
  msgq_queue *queue;
  atomic_int failures;
  atomic_int runs;
  const char *path; /* of a second store that the callback opens and closes */
};

static void expect(struct inside *inside, msgq_result expected, msgq_result actual, const char *what) {
  if (expected == actual) return;
  atomic_fetch_add(&inside->failures, 1);
  fprintf(stderr, "  inside a callback: %s is %s\n", what, msgq_result_name(actual));
}

/* Calls every function on the queue that runs this callback. */
static void call_everything(struct inside *inside) {
  msgq_queue *queue = inside->queue, *other = NULL;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_message *message = NULL;
  msgq_page *list = NULL;
  msgq_ledger *ledger = NULL;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  msgq_state state = MSGQ_STATE_INIT;
  msgq_conversation_page *page = NULL;
  char *text = NULL;
  draft.id = "inner";
  draft.conversation = "inner";
  draft.not_before_ms = wall_ms() + 3600000; /* so that no drain sends it meanwhile */
  outcome.verdict = MSGQ_VERDICT_SENT;
  expect(inside, MSGQ_CONFLICT, msgq_close(queue, 0), "close");
  expect(inside, MSGQ_OK, msgq_enqueue(queue, &draft, NULL), "enqueue");
  expect(inside, MSGQ_OK, msgq_edit(queue, "inner", "x", 1), "edit");
  expect(inside, MSGQ_OK, msgq_get(queue, "inner", &message), "get");
  msgq_message_free(message);
  expect(inside, MSGQ_OK, msgq_list(queue, NULL, &list), "list");
  msgq_list_free(list);
  expect(inside, MSGQ_OK, msgq_attempts(queue, "inner", &ledger), "attempts");
  msgq_attempts_free(ledger);
  expect(inside, MSGQ_OK, msgq_count(queue, NULL, &counts), "counts");
  expect(inside, MSGQ_OK, msgq_explain(queue, "inner", &explanation), "explain");
  expect(inside, MSGQ_OK, msgq_conversations(queue, 0, 0, &page), "conversations");
  msgq_conversations_free(page);
  expect(inside, MSGQ_OK, msgq_stats(queue, &statistics), "stats");
  expect(inside, MSGQ_OK, msgq_stats_text(queue, &text), "stats_text");
  msgq_text_free(text);
  expect(inside, MSGQ_OK, msgq_banner(queue, "inner", &text), "banner");
  msgq_text_free(text);
  expect(inside, MSGQ_OK, msgq_get_state(queue, &state), "get_state");
  expect(inside, MSGQ_OK, msgq_pause(queue, "inner"), "pause");
  expect(inside, MSGQ_OK, msgq_resume(queue, "inner"), "resume");
  expect(inside, MSGQ_OK, msgq_withdraw_prompt(queue), "withdraw_prompt");
  expect(inside, MSGQ_OK, msgq_request_collect(queue), "request_collect");
  expect(inside, MSGQ_OK, msgq_set_lifecycle(queue, MSGQ_LIFECYCLE_FOREGROUND), "set_lifecycle");
  draft.id = "recorded";
  expect(inside, MSGQ_OK, msgq_record(queue, &draft, "ben", NULL), "record");
  expect(inside, MSGQ_OK, msgq_delete(queue, "recorded"), "delete of a recorded one");
  expect(inside, MSGQ_CONFLICT, msgq_retry(queue, "inner"), "retry");
  expect(inside, MSGQ_CONFLICT, msgq_mark(queue, "inner", MSGQ_STATUS_READ), "mark");
  expect(inside, MSGQ_NOT_FOUND, msgq_complete(queue, UINT64_MAX, &outcome), "complete");
  expect(inside, MSGQ_OK, msgq_drain(queue, NULL, &report), "drain");
  if (report.stop != MSGQ_STOP_STARTED) expect(inside, MSGQ_OK, MSGQ_INTERNAL, "the report of a drain inside");
  expect(inside, MSGQ_OK, msgq_delete(queue, "inner"), "delete");
  expect(inside, MSGQ_OK, msgq_clear(queue, "nobody"), "clear");
  expect(inside, MSGQ_OK, msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_OTHER, false), "set_connectivity");
  expect(inside, MSGQ_OK, msgq_open(inside->path, NULL, &other), "open of another store");
  expect(inside, MSGQ_OK, msgq_close(other, 0), "close of another queue");
}

static msgq_verdict transport_calls(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct inside *inside = context;
  (void)out;
  if (strcmp(delivery->id, "outer") == 0 && atomic_fetch_add(&inside->runs, 1) == 0) call_everything(inside);
  return MSGQ_VERDICT_SENT;
}

static void handler_calls(void *context, const msgq_event *event) {
  struct inside *inside = context;
  bool sent = event->kind == MSGQ_EVENT_STATUS && event->to == MSGQ_STATUS_SENT && strcmp(event->id, "outer") == 0;
  if (sent && atomic_fetch_add(&inside->runs, 1) == 0) call_everything(inside);
}

static void begin_inside(struct scene *scene, struct inside *inside) {
  scene_begin_open(scene);
  memset(inside, 0, sizeof *inside);
  inside->queue = scene->queue;
  inside->path = scene_file(scene, "other.db");
  put(scene, "outer", "ana", "hello");
}

TEST_LONG(callbacks_every_call_works_inside_a_transport) {
  struct scene scene;
  struct inside inside;
  begin_inside(&scene, &inside);
  REQUIRE_OK(msgq_set_transport(scene.queue, transport_calls, &inside, NULL));
  /* The drain that the callback starts joins this one. */
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, NULL, NULL));
  AWAIT(status_of(&scene, "outer") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, atomic_load(&inside.runs));
  CHECK_NUMBER(0, atomic_load(&inside.failures));
  scene_end(&scene);
}

TEST_LONG(callbacks_every_call_works_inside_a_handler) {
  struct scene scene;
  struct inside inside;
  struct stub stub;
  begin_inside(&scene, &inside);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  REQUIRE_OK(msgq_set_event_handler(scene.queue, handler_calls, &inside, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, NULL, NULL));
  AWAIT(atomic_load(&inside.runs) == 1);
  scene_close(&scene);
  CHECK_NUMBER(0, atomic_load(&inside.failures));
  scene_end(&scene);
}

static void handler_replaces_itself(void *context, const msgq_event *event) {
  struct inside *inside = context;
  (void)event;
  atomic_fetch_add(&inside->runs, 1);
  expect(inside, MSGQ_OK, msgq_set_event_handler(inside->queue, NULL, NULL, NULL), "set_event_handler");
  expect(inside, MSGQ_OK, msgq_set_transport(inside->queue, NULL, NULL, NULL), "set_transport");
}

static void release_counts(void *context) {
  struct inside *inside = context;
  atomic_fetch_add(&inside->runs, 100);
}

TEST(callbacks_a_handler_can_remove_itself) {
  struct scene scene;
  struct inside inside;
  begin_inside(&scene, &inside);
  REQUIRE_OK(msgq_set_event_handler(scene.queue, handler_replaces_itself, &inside, release_counts));
  put(&scene, "a", "ana", "hello");
  AWAIT(atomic_load(&inside.runs) == 101);
  put(&scene, "b", "ana", "hello");
  scene_close(&scene);
  CHECK_NUMBER(101, atomic_load(&inside.runs));
  CHECK_NUMBER(0, atomic_load(&inside.failures));
  scene_end(&scene);
}

struct closer {
  msgq_queue *queue;
  msgq_result result;
  int runs;
};

static void release_closes(void *context) {
  struct closer *closer = context;
  closer->result = msgq_close(closer->queue, 0);
  closer->runs++;
}

static void ignore_event(void *context, const msgq_event *event) { (void)context, (void)event; }

static void answer_nothing(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  (void)context, (void)deliveries, (void)count, (void)outcomes;
}

/* A release function is a callback, on whatever thread it runs. */
TEST(callbacks_a_queue_cannot_be_closed_inside_a_release_function) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  struct closer closer = { scene.queue, MSGQ_OK, 0 };
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &closer, release_closes));
  REQUIRE_OK(msgq_set_transport(scene.queue, NULL, NULL, NULL));
  CHECK(closer.runs == 1 && closer.result == MSGQ_CONFLICT);
  REQUIRE_OK(msgq_set_transport(scene.queue, NULL, &closer, release_closes));
  CHECK(closer.runs == 2 && closer.result == MSGQ_CONFLICT);
  REQUIRE_OK(msgq_set_event_handler(scene.queue, ignore_event, &closer, release_closes));
  REQUIRE_OK(msgq_set_event_handler(scene.queue, NULL, &closer, release_closes));
  CHECK(closer.runs == 4 && closer.result == MSGQ_CONFLICT);
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  options.max_messages = 1001;
  CHECK_RESULT(MSGQ_INVALID, msgq_set_batch_transport(scene.queue, answer_nothing, &closer, release_closes, &options));
  options.outcome_size = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_set_batch_transport(scene.queue, answer_nothing, &closer, release_closes, &options));
  CHECK(closer.runs == 6 && closer.result == MSGQ_CONFLICT);
  scene_end(&scene);
}

/* A release function that a close runs. */
struct last_release {
  msgq_queue *queue;
  bool is_polled;
  int runs, closed;
};

static void release_calls_everything(void *context) {
  struct last_release *last = context;
  CHECK_RESULT(MSGQ_CONFLICT, msgq_close(last->queue, 0));
  CHECK_RESULT(MSGQ_CLOSED, msgq_close_async(last->queue, 0, NULL, NULL));
  /* The loop of a polled queue that is closed asynchronously goes on. */
  if (last->is_polled) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    msgq_counts counts = MSGQ_COUNTS_INIT;
    size_t ran = 4711;
    CHECK_RESULT(MSGQ_CLOSED, msgq_enqueue(last->queue, &draft, NULL));
    CHECK_RESULT(MSGQ_CLOSED, msgq_count(last->queue, NULL, &counts));
    CHECK_RESULT(MSGQ_CLOSED, msgq_drain(last->queue, NULL, NULL));
    CHECK_RESULT(MSGQ_OK, msgq_poll(last->queue, 0, &ran));
    CHECK_NUMBER(0, ran);
  } else {
    every_call_answers(last->queue, MSGQ_CLOSED);
  }
  last->runs++;
}

static void closed_calls_everything(void *context, msgq_result result) {
  struct last_release *last = context;
  CHECK_RESULT(MSGQ_OK, result);
  CHECK_RESULT(MSGQ_CLOSED, msgq_close(last->queue, 0));
  every_call_answers(last->queue, MSGQ_CLOSED);
  last->closed++;
}

TEST_LONG(callbacks_a_release_function_that_a_close_runs_cannot_close_the_queue) {
  static const msgq_callbacks all[] = { MSGQ_CALLBACKS_THREAD, MSGQ_CALLBACKS_POLL, MSGQ_CALLBACKS_POLL_TIMER };
  for (size_t index = 0; index < 6; index++) {
    bool is_async = index % 2 == 1, is_polled = all[index / 2] != MSGQ_CALLBACKS_THREAD;
    struct scene scene;
    struct stub stub;
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    scene_begin(&scene);
    scene.options.callbacks = all[index / 2];
    scene_open(&scene);
    struct last_release last = { .queue = scene.queue, .is_polled = is_polled && is_async };
    REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &last, release_calls_everything));
    if (is_async) {
      REQUIRE_OK(msgq_close_async(scene.queue, 0, closed_calls_everything, &last));
      if (is_polled) {
        while (msgq_poll(scene.queue, 10, NULL) == MSGQ_OK) continue;
      }
      AWAIT(last.closed == 1);
      scene.queue = NULL;
    } else {
      scene_close(&scene);
    }
    CHECK_NUMBER(1, last.runs);
    scene_end(&scene);
  }
}

TEST(callbacks_an_unknown_verdict_is_a_failure) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_UNKNOWN);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_FAILURE_UNKNOWN, failure_of(&scene, "a"));
  stub.verdict = (msgq_verdict)4711;
  put(&scene, "b", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_FAILURE_UNKNOWN, failure_of(&scene, "b"));
  scene_end(&scene);
}

static msgq_verdict sends_with_raw_text(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery;
  /* Text that is not UTF-8 and ends inside a character, as a truncated answer of a receiver. */
  memset(out->text, 'x', sizeof out->text);
  memcpy(out->text + sizeof out->text - 2, "\xe2", 2);
  out->text[10] = (char)0xff;
  return MSGQ_VERDICT_SENT;
}

TEST(callbacks_a_success_with_invalid_text_is_a_success) {
  struct scene scene;
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, sends_with_raw_text, NULL, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(callbacks_status_events_come_in_order_with_the_failure) {
  struct post post;
  char path[128], id[8];
  post_begin_open(&post);
  receiver_answer(post.receiver, "m1", 400, 1, NULL);
  for (int number = 0; number < 3; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  drain(&post.scene);
  journal_path(&post.scene.journal, "m0", path, sizeof path);
  CHECK_TEXT("none>queued>sending>sent", path);
  journal_path(&post.scene.journal, "m1", path, sizeof path);
  CHECK_TEXT("none>queued>sending>failed", path);
  pthread_mutex_lock(&post.scene.journal.lock);
  for (size_t index = 0; index < post.scene.journal.count; index++) {
    const struct entry *entry = &post.scene.journal.entries[index];
    if (entry->kind != MSGQ_EVENT_STATUS || entry->to != MSGQ_STATUS_FAILED) continue;
    CHECK_NUMBER(MSGQ_FAILURE_REJECTED, entry->failure);
    CHECK_NUMBER(400, entry->code);
    CHECK_NUMBER(1, entry->attempt);
  }
  pthread_mutex_unlock(&post.scene.journal.lock);
  post_end(&post);
}

TEST(callbacks_event_times_never_decrease) {
  struct post post;
  int64_t last = wall_ms();
  post_begin_open(&post);
  put(&post.scene, "a", "ana", "hello");
  drain(&post.scene);
  pthread_mutex_lock(&post.scene.journal.lock);
  for (size_t index = 0; index < post.scene.journal.count; index++) {
    int64_t at = post.scene.journal.entries[index].at_ms;
    CHECK(at >= last && at <= wall_ms());
    last = at;
  }
  pthread_mutex_unlock(&post.scene.journal.lock);
  post_end(&post);
}
