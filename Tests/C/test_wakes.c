/* F10: of the threads that wait in msgq_poll one is woken for a callback, and no callback waits for a thread that sleeps. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "scene.h"

enum { conversations = 6, enqueuers = 2, messages_each = 120, waiting_pollers = 3, most_tokens = enqueuers * messages_each };

/* Threads that use one polled queue at a time. */
struct storm {
  msgq_queue *queue;
  unsigned seed;
  bool answers_later;
  atomic_bool stopping;
  atomic_int sent; /* messages; read without a call of the library, which would look for work that no thread takes */
  atomic_int enqueued;
  int tokens[2]; /* a pipe */
};

static void pause_at_random(unsigned *seed, int longest_us) {
  int us = rand_r(seed) % (longest_us + 1);
  if (us > 20) usleep((useconds_t)us);
}

static msgq_verdict storm_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct storm *storm = context;
  (void)out;
  if (storm->answers_later) {
    CHECK(write(storm->tokens[1], &delivery->token, sizeof delivery->token) == sizeof delivery->token);
    return MSGQ_VERDICT_PENDING;
  }
  if (delivery->token % 7 == 0) usleep(300);
  /* Messages that are enqueued now are sent directly all the same. */
  if (delivery->token % 5 == 0 && !atomic_load(&storm->stopping)) return MSGQ_VERDICT_OFFLINE;
  atomic_fetch_add(&storm->sent, 1);
  return MSGQ_VERDICT_SENT;
}

static void storm_send_batch(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  for (size_t index = 0; index < count; index++) outcomes[index].verdict = storm_send(context, &deliveries[index], &outcomes[index]);
}

static void *complete_each(void *context) {
  struct storm *storm = context;
  uint64_t token;
  while (read(storm->tokens[0], &token, sizeof token) == sizeof token) {
    msgq_outcome outcome = MSGQ_OUTCOME_INIT;
    outcome.verdict = MSGQ_VERDICT_SENT;
    CHECK_RESULT(MSGQ_OK, msgq_complete(storm->queue, token, &outcome));
    atomic_fetch_add(&storm->sent, 1);
  }
  return NULL;
}

static void *enqueue_some(void *context) {
  struct storm *storm = context;
  unsigned seed = storm->seed + (unsigned)atomic_fetch_add(&storm->enqueued, 1);
  for (int number = 0; number < messages_each; number++) {
    char conversation[16];
    msgq_draft draft = MSGQ_DRAFT_INIT;
    snprintf(conversation, sizeof conversation, "%d", rand_r(&seed) % conversations);
    draft.conversation = conversation;
    CHECK_RESULT(MSGQ_OK, msgq_enqueue(storm->queue, &draft, NULL));
    pause_at_random(&seed, 200);
  }
  return NULL;
}

static void *poll_until_closed(void *context) {
  struct storm *storm = context;
  msgq_result result;
  do result = msgq_poll(storm->queue, -1, NULL);
  while (result == MSGQ_OK);
  CHECK_RESULT(MSGQ_CLOSED, result);
  return NULL;
}

/* Its time is often over when it is chosen for a callback. */
static void *poll_for_moments(void *context) {
  struct storm *storm = context;
  unsigned seed = storm->seed + 100;
  while (!atomic_load(&storm->stopping)) {
    CHECK_RESULT(MSGQ_OK, msgq_poll(storm->queue, rand_r(&seed) % 3, NULL));
    pause_at_random(&seed, 400);
  }
  return NULL;
}

/* Runs callbacks only while no other thread polls. Its time often ends between the outcome of an attempt and the call of the next one. */
static void *drain_for_moments(void *context) {
  struct storm *storm = context;
  unsigned seed = storm->seed + 300;
  while (!atomic_load(&storm->stopping)) {
    msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
    options.timeout_ms = rand_r(&seed) % 3;
    msgq_result result = msgq_drain(storm->queue, &options, NULL);
    if (result != MSGQ_TIMEOUT) CHECK_RESULT(MSGQ_OK, result);
    pause_at_random(&seed, 400);
  }
  return NULL;
}

/* Forbids calls and permits them again, between the beginning of an attempt and its call as well. */
static void *disturb(void *context) {
  struct storm *storm = context;
  unsigned seed = storm->seed + 200;
  while (!atomic_load(&storm->stopping)) {
    if (rand_r(&seed) % 2 == 0) {
      CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(storm->queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_OTHER, false));
      pause_at_random(&seed, 300);
      CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(storm->queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_OTHER, false));
    } else {
      CHECK_RESULT(MSGQ_OK, msgq_pause(storm->queue, NULL));
      pause_at_random(&seed, 300);
      CHECK_RESULT(MSGQ_OK, msgq_resume(storm->queue, NULL));
    }
    pause_at_random(&seed, 1500);
  }
  return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), struct storm *storm) {
  REQUIRE(pthread_create(thread, NULL, run, storm) == 0);
}

static void storm_passes(unsigned seed, msgq_callbacks callbacks, bool in_batches, bool answers_later) {
  struct scene scene;
  struct storm storm = { .seed = seed, .answers_later = answers_later };
  pthread_t pollers[waiting_pollers], leaving, draining, disturbing, completing, enqueuing[enqueuers];
  scene_begin(&scene);
  scene.options.callbacks = callbacks;
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  scene.options.max_in_flight = conversations;
  REQUIRE_OK(msgq_open(scene.path, &scene.options, &scene.queue));
  storm.queue = scene.queue;
  REQUIRE(pipe(storm.tokens) == 0);
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  options.max_messages = 4;
  if (in_batches) {
    REQUIRE_OK(msgq_set_batch_transport(scene.queue, storm_send_batch, &storm, NULL, &options));
  } else {
    REQUIRE_OK(msgq_set_transport(scene.queue, storm_send, &storm, NULL));
  }
  for (int index = 0; index < waiting_pollers; index++) start(&pollers[index], poll_until_closed, &storm);
  start(&leaving, poll_for_moments, &storm);
  start(&draining, drain_for_moments, &storm);
  start(&disturbing, disturb, &storm);
  start(&completing, complete_each, &storm);
  for (int index = 0; index < enqueuers; index++) start(&enqueuing[index], enqueue_some, &storm);
  for (int index = 0; index < enqueuers; index++) pthread_join(enqueuing[index], NULL);
  atomic_store(&storm.stopping, true);
  pthread_join(disturbing, NULL);
  pthread_join(leaving, NULL);
  pthread_join(draining, NULL);
  /* Ends the pause after the last outcome "offline". */
  REQUIRE_OK(msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET, false));
  /* From here on nothing happens but what the threads that wait do. */
  AWAIT(atomic_load(&storm.sent) == most_tokens);
  close(storm.tokens[1]);
  pthread_join(completing, NULL);
  close(storm.tokens[0]);
  scene_close(&scene);
  for (int index = 0; index < waiting_pollers; index++) pthread_join(pollers[index], NULL);
  scene_end(&scene);
}

static void storms_pass(msgq_callbacks callbacks) {
  unsigned first = (unsigned)steady_ms();
  for (unsigned round = 0; round < (unsigned)check_times(12, 4); round++) {
    fprintf(stderr, "seed %u\n", first + round);
    storm_passes(first + round, callbacks, round % 2 == 1, round % 4 >= 2);
  }
}

TEST_ALONE(F10_X7_no_wake_up_is_lost_among_polling_threads) { storms_pass(MSGQ_CALLBACKS_POLL); }

TEST_ALONE(F10_X7_no_wake_up_is_lost_with_a_thread_for_the_timer) { storms_pass(MSGQ_CALLBACKS_POLL_TIMER); }

/* Answers "offline" for the message "a", and sends the others. */
struct lost {
  atomic_int calls;
  atomic_bool held;
};

static msgq_verdict lost_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct lost *lost = context;
  (void)out;
  atomic_fetch_add(&lost->calls, 1);
  while (atomic_load(&lost->held)) pause_ms(1);
  return strcmp(delivery->id, "a") == 0 ? MSGQ_VERDICT_OFFLINE : MSGQ_VERDICT_SENT;
}

/* A direct message starts in the pause after an outcome "offline", which revokes calls that are not made yet. */
static void begun_call_is_made(msgq_callbacks callbacks) {
  struct scene scene;
  struct lost lost = { 0 };
  struct storm storm = { 0 };
  pthread_t poller;
  scene_begin(&scene);
  scene.options.callbacks = callbacks;
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  REQUIRE_OK(msgq_open(scene.path, &scene.options, &scene.queue));
  storm.queue = scene.queue;
  REQUIRE_OK(msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET, false));
  REQUIRE_OK(msgq_set_transport(scene.queue, lost_send, &lost, NULL));
  atomic_store(&lost.held, true);
  start(&poller, poll_until_closed, &storm);
  put(&scene, "a", "ana", "hello");
  AWAIT(atomic_load(&lost.calls) == 1);
  put(&scene, "b", "ben", "hello");
  put(&scene, "c", "cem", "hello");
  atomic_store(&lost.held, false);
  AWAIT(status_of(&scene, "b") == MSGQ_STATUS_SENT && status_of(&scene, "c") == MSGQ_STATUS_SENT);
  scene_close(&scene);
  pthread_join(poller, NULL);
  scene_end(&scene);
}

TEST(F10_X7_a_call_that_is_revoked_before_it_is_made_begins_again) {
  begun_call_is_made(MSGQ_CALLBACKS_POLL);
  begun_call_is_made(MSGQ_CALLBACKS_POLL_TIMER);
}

static msgq_verdict count_call(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  atomic_int *calls = context;
  (void)delivery;
  (void)out;
  if (atomic_fetch_add(calls, 1) % 2 == 1) pause_ms(1);
  return MSGQ_VERDICT_SENT;
}

enum { drained_messages = 300 };

static void open_for_drains(struct scene *scene, msgq_mode mode, atomic_int *calls) {
  scene_begin(scene);
  scene->options.callbacks = MSGQ_CALLBACKS_POLL;
  scene->options.mode = mode;
  scene->options.direct = false;
  scene->options.durable_outcomes = true;
  REQUIRE_OK(msgq_open(scene->path, &scene->options, &scene->queue));
  for (int number = 0; number < drained_messages; number++) {
    char id[16];
    snprintf(id, sizeof id, "%d", number);
    put(scene, id, "ana", "hello");
  }
  REQUIRE_OK(msgq_set_transport(scene->queue, count_call, calls, NULL));
}

TEST_ALONE(F10_a_drain_of_a_polled_queue_writes_an_end_and_the_next_beginning_in_one_commit) {
  struct scene scene;
  atomic_int calls = 0;
  msgq_report report = MSGQ_REPORT_INIT;
  open_for_drains(&scene, MSGQ_MODE_MANUAL, &calls);
  int before = atomic_load(&fault_syncs);
  REQUIRE_OK(msgq_drain(scene.queue, NULL, &report));
  int flushes = atomic_load(&fault_syncs) - before;
  CHECK_NUMBER(drained_messages, report.sent);
  if (!CHECK(flushes < drained_messages * 3 / 2)) fprintf(stderr, "  %d flushes\n", flushes);
  scene_end(&scene);
}

/* In mode auto the queue goes on after the drain, but not on this thread. */
TEST_LONG(F10_X3_a_drain_that_returns_leaves_no_attempt_without_its_call) {
  struct scene scene;
  atomic_int calls = 0;
  open_for_drains(&scene, MSGQ_MODE_AUTO, &calls);
  for (int64_t time = 0; time < 20; time++) {
    msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
    options.timeout_ms = time;
    CHECK_RESULT(MSGQ_TIMEOUT, msgq_drain(scene.queue, &options, NULL));
    msgq_counts counts = counts_of(&scene, NULL);
    CHECK_NUMBER(0, counts.sending);
    CHECK_NUMBER(atomic_load(&calls), counts.sent);
  }
  scene_end(&scene);
}
