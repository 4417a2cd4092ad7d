/* Callbacks on the thread of the caller (X7). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "post.h"
#include "process.h"
#include "stub.h"

static void begin_polling(struct scene *scene, struct stub *stub, msgq_mode mode) {
  scene_begin(scene);
  stub_begin(stub, MSGQ_VERDICT_SENT);
  scene->options.callbacks = MSGQ_CALLBACKS_POLL;
  scene->options.mode = mode;
  stub_open(stub, scene);
}

static size_t poll_queue(struct scene *scene, int64_t timeout_ms) {
  size_t ran = 4711;
  CHECK_RESULT(MSGQ_OK, msgq_poll(scene->queue, timeout_ms, &ran));
  return ran;
}

/* Runs callbacks until nothing is left to run. */
static void poll_all(struct scene *scene) {
  while (poll_queue(scene, 0) > 0) continue;
}

TEST(X7_callbacks_run_on_the_thread_that_polls) {
  struct scene scene;
  struct stub stub;
  begin_polling(&scene, &stub, MSGQ_MODE_AUTO);
  put(&scene, "a", "ana", "hello");
  pause_ms(20); /* no callback may run meanwhile */
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  CHECK_NUMBER(0, scene.journal.count);
  int64_t end = steady_ms() + check_timeout_ms();
  while (status_of(&scene, "a") != MSGQ_STATUS_SENT && steady_ms() < end) poll_queue(&scene, 100);
  poll_all(&scene);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  CHECK(pthread_equal(stub.thread, pthread_self()));
  CHECK(journal_reached(&scene.journal, "a", MSGQ_STATUS_SENT));
  for (size_t index = 0; index < scene.journal.count; index++) {
    CHECK(pthread_equal(scene.journal.entries[index].thread, pthread_self()));
  }
  scene_end(&scene);
}

struct drainer {
  msgq_queue *queue;
  atomic_bool has_ended;
};

static void *drain_whole(void *context) {
  struct drainer *drainer = context;
  CHECK_RESULT(MSGQ_OK, msgq_drain(drainer->queue, NULL, NULL));
  atomic_store(&drainer->has_ended, true);
  return NULL;
}

/* The thread that drains needs the engine's lock, and wakes up more slowly than a caller asks again. */
TEST_LONG(F9_X7_a_caller_that_asks_for_the_state_in_a_loop_does_not_stop_a_drain) {
  for (int polled = 0; polled < 2; polled++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    if (polled) scene.options.callbacks = MSGQ_CALLBACKS_POLL;
    scene.options.mode = MSGQ_MODE_MANUAL;
    scene.options.direct = false;
    stub_open(&stub, &scene);
    char id[16];
    for (int number = 0; number < 100; number++) {
      snprintf(id, sizeof id, "m%d", number);
      put(&scene, id, "ana", "hello");
    }
    struct drainer drainer = { .queue = scene.queue };
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, drain_whole, &drainer) == 0);
    int64_t end = steady_ms() + check_timeout_ms();
    msgq_state state = MSGQ_STATE_INIT;
    while (!atomic_load(&drainer.has_ended) && steady_ms() < end) CHECK_RESULT(MSGQ_OK, msgq_get_state(scene.queue, &state));
    CHECK(atomic_load(&drainer.has_ended));
    pthread_join(thread, NULL);
    CHECK_NUMBER(100, counts_of(&scene, NULL).sent);
    scene_end(&scene);
  }
}

struct editor {
  msgq_queue *queue;
  atomic_bool *has_ended;
};

static void *edit_in_a_loop(void *context) {
  struct editor *editor = context;
  while (!atomic_load(editor->has_ended)) CHECK_RESULT(MSGQ_OK, msgq_edit(editor->queue, "edited", "hello", 5));
  return NULL;
}

/* They cause events faster than one thread delivers them. */
TEST_LONG(F9_X7_callers_that_change_a_message_in_a_loop_do_not_stop_a_polled_drain) {
  struct scene scene;
  struct stub stub;
  char id[16];
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  scene.options.mode = MSGQ_MODE_MANUAL;
  scene.options.direct = false;
  stub_open(&stub, &scene);
  for (int number = 0; number < 20; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&scene, id, "ana", "hello");
  }
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "edited";
  draft.conversation = "ben";
  draft.body = "hello";
  draft.body_size = 5;
  draft.not_before_ms = wall_ms() + 3600000;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  struct drainer drainer = { .queue = scene.queue };
  struct editor editor = { .queue = scene.queue, .has_ended = &drainer.has_ended };
  pthread_t editors[3], thread;
  for (size_t index = 0; index < 3; index++) REQUIRE(pthread_create(&editors[index], NULL, edit_in_a_loop, &editor) == 0);
  pause_ms(100);
  REQUIRE(pthread_create(&thread, NULL, drain_whole, &drainer) == 0);
  AWAIT(atomic_load(&drainer.has_ended));
  atomic_store(&drainer.has_ended, true);
  pthread_join(thread, NULL);
  for (size_t index = 0; index < 3; index++) pthread_join(editors[index], NULL);
  CHECK_NUMBER(20, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}

enum { enqueuers = 3, messages_each = 100 };

static void *enqueue_many(void *context) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.body = "hello";
  draft.body_size = 5;
  for (int number = 0; number < messages_each; number++) CHECK_RESULT(MSGQ_OK, msgq_enqueue(context, &draft, NULL));
  return NULL;
}

/* Other threads take the lock between the return of a call and the handling of its outcome. */
TEST_ALONE(X7_a_polled_queue_creates_no_thread_for_its_calls) {
  struct scene scene;
  struct stub stub;
  pthread_t threads[enqueuers];
  begin_polling(&scene, &stub, MSGQ_MODE_AUTO);
  for (int number = 0; number < enqueuers; number++) pthread_create(&threads[number], NULL, enqueue_many, scene.queue);
  int64_t end = steady_ms() + check_timeout_ms();
  while (counts_of(&scene, NULL).sent < enqueuers * messages_each && steady_ms() < end) {
    poll_queue(&scene, 100);
    CHECK(pthread_equal(stub.thread, pthread_self()) || atomic_load(&stub.calls) == 0);
  }
  for (int number = 0; number < enqueuers; number++) pthread_join(threads[number], NULL);
  CHECK_NUMBER(enqueuers * messages_each, atomic_load(&stub.calls));
  CHECK_NUMBER(0, (int64_t)process_library_threads());
  scene_end(&scene);
}

TEST(X7_poll_without_work_waits_for_its_timeout) {
  struct scene scene;
  struct stub stub;
  begin_polling(&scene, &stub, MSGQ_MODE_MANUAL);
  poll_all(&scene);
  CHECK_NUMBER(0, poll_queue(&scene, 0));
  int64_t start = steady_ms();
  CHECK_NUMBER(0, poll_queue(&scene, 50));
  CHECK(steady_ms() - start >= 49);
  CHECK_RESULT(MSGQ_OK, msgq_poll(scene.queue, 0, NULL));
  scene_end(&scene);
}

TEST(X7_a_drain_runs_the_callbacks_when_no_thread_polls) {
  struct post post;
  post_begin(&post);
  post.scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  post_open(&post);
  for (int number = 0; number < 5; number++) put(&post.scene, NULL, "ana", "hello");
  CHECK_NUMBER(5, drain(&post.scene).sent);
  CHECK_NUMBER(5, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(1, journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED));
  CHECK(pthread_equal(post.scene.journal.entries[0].thread, pthread_self()));
  post_end(&post);
}

/* A transport that is answered by another thread after 200 µs. */
struct echo {
  msgq_queue *queue;
  int tokens[2]; /* a pipe */
  pthread_t thread;
};

static msgq_verdict echo_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct echo *echo = context;
  (void)out;
  CHECK(write(echo->tokens[1], &delivery->token, sizeof delivery->token) == sizeof delivery->token);
  return MSGQ_VERDICT_PENDING;
}

static void *echo_run(void *context) {
  struct echo *echo = context;
  uint64_t token;
  while (read(echo->tokens[0], &token, sizeof token) == sizeof token) {
    msgq_outcome outcome = MSGQ_OUTCOME_INIT;
    outcome.verdict = MSGQ_VERDICT_SENT;
    usleep(200);
    CHECK_RESULT(MSGQ_OK, msgq_complete(echo->queue, token, &outcome));
  }
  return NULL;
}

TEST_LONG(X8_a_drain_that_runs_callbacks_is_woken_by_answers) {
  enum { many = 200 };
  struct scene scene;
  struct echo echo;
  msgq_draft drafts[many];
  scene_begin(&scene);
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  scene_open(&scene);
  echo.queue = scene.queue;
  REQUIRE(pipe(echo.tokens) == 0 && pthread_create(&echo.thread, NULL, echo_run, &echo) == 0);
  REQUIRE_OK(msgq_set_transport(scene.queue, echo_send, &echo, NULL));
  for (int number = 0; number < many; number++) drafts[number] = (msgq_draft)MSGQ_DRAFT_INIT;
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, many, NULL));
  int64_t start = steady_ms();
  CHECK_NUMBER(many, drain(&scene).sent);
  int64_t taken = steady_ms() - start;
  if (!CHECK(taken < 1500 * check_timeout_ms() / 10000)) fprintf(stderr, "  %lld ms\n", (long long)taken);
  close(echo.tokens[1]);
  pthread_join(echo.thread, NULL);
  close(echo.tokens[0]);
  scene_end(&scene);
}

struct poller {
  msgq_queue *queue;
  atomic_bool started;
  atomic_bool stopping;
  msgq_result result;
  pthread_t thread;
};

static void *poll_until_closed(void *context) {
  struct poller *poller = context;
  atomic_store(&poller->started, true);
  do poller->result = msgq_poll(poller->queue, -1, NULL);
  while (poller->result == MSGQ_OK);
  return NULL;
}

static void poller_start(struct poller *poller, msgq_queue *queue) {
  memset(poller, 0, sizeof *poller);
  poller->queue = queue;
  REQUIRE(pthread_create(&poller->thread, NULL, poll_until_closed, poller) == 0);
  AWAIT(atomic_load(&poller->started));
}

TEST(X7_close_wakes_polling_threads) {
  struct scene scene;
  struct stub stub;
  struct poller pollers[2];
  begin_polling(&scene, &stub, MSGQ_MODE_MANUAL);
  for (int index = 0; index < 2; index++) poller_start(&pollers[index], scene.queue);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent); /* the pollers run its callbacks */
  CHECK(!pthread_equal(stub.thread, pthread_self()) || atomic_load(&stub.calls) == 1);
  scene_close(&scene);
  for (int index = 0; index < 2; index++) {
    pthread_join(pollers[index].thread, NULL);
    CHECK_RESULT(MSGQ_CLOSED, pollers[index].result);
  }
  CHECK_NUMBER(1, atomic_load(&stub.released));
  scene_end(&scene);
}

TEST(X7_two_polling_threads_send_two_conversations_at_once) {
  struct scene scene;
  struct stub stub;
  struct poller pollers[2];
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_in_flight = 2;
  scene_open(&scene);
  atomic_store(&stub.held, true);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  for (int index = 0; index < 2; index++) poller_start(&pollers[index], scene.queue);
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ben", "hello");
  AWAIT(atomic_load(&stub.inside) == 2);
  atomic_store(&stub.held, false);
  AWAIT(counts_of(&scene, NULL).sent == 2);
  scene_close(&scene);
  for (int index = 0; index < 2; index++) pthread_join(pollers[index].thread, NULL);
  scene_end(&scene);
}

static msgq_verdict polling_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct poller *poller = context;
  size_t ran = 4711;
  (void)delivery, (void)out;
  poller->result = msgq_poll(poller->queue, 0, &ran);
  atomic_store(&poller->started, ran == 0);
  return MSGQ_VERDICT_SENT;
}

TEST(X7_poll_inside_a_callback_runs_nothing) {
  struct scene scene;
  struct stub stub;
  begin_polling(&scene, &stub, MSGQ_MODE_MANUAL);
  struct poller poller = { .queue = scene.queue, .result = MSGQ_INTERNAL };
  REQUIRE_OK(msgq_set_transport(scene.queue, polling_send, &poller, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_RESULT(MSGQ_OK, poller.result);
  CHECK(atomic_load(&poller.started));
  scene_end(&scene);
}

TEST(X7_poll_is_refused_with_callbacks_on_threads) {
  struct scene scene;
  size_t ran = 4711;
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_poll(scene.queue, 0, &ran));
  CHECK_NUMBER(4711, ran);
  CHECK_NUMBER(-1, msgq_fd(scene.queue));
  scene_end(&scene);
}
