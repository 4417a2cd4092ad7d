/* fork and exec: a child cannot use the queue of its parent, and the parent is not affected. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "every_call.h"
#include "scene.h"
#include "stub.h"

static void on_drained(void *context, const msgq_report *report) {
  (void)report;
  atomic_fetch_add((atomic_int *)context, 1);
}

static void on_closed(void *context, msgq_result result) {
  (void)result;
  atomic_fetch_add((atomic_int *)context, 1);
}

/* Checks that every call returns MSGQ_FORKED, also those that every_call_answers leaves out. */
static void check_all_calls_forked(msgq_queue *queue) {
  static atomic_int calls;
  every_call_answers(queue, MSGQ_FORKED);
  CHECK_RESULT(MSGQ_FORKED, msgq_drain_async(queue, NULL, on_drained, &calls));
  CHECK_RESULT(MSGQ_FORKED, msgq_monitor_start(queue));
  CHECK_RESULT(MSGQ_FORKED, msgq_monitor_stop(queue));
  CHECK_RESULT(MSGQ_FORKED, msgq_control_start(queue, NULL));
  CHECK_RESULT(MSGQ_FORKED, msgq_control_stop(queue));
  CHECK_RESULT(MSGQ_FORKED, msgq_close(queue, 0));
  CHECK_RESULT(MSGQ_FORKED, msgq_close_async(queue, 0, on_closed, &calls));
  CHECK_NUMBER(0, atomic_load(&calls));
}

/* Opens a store in the child and sends a message. */
static void use_own_store(const char *path) {
  msgq_queue *own = NULL;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  struct stub stub;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_open(path, NULL, &own));
  CHECK_RESULT(MSGQ_OK, msgq_set_transport(own, stub_send, &stub, stub_release));
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(own, &draft, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_drain(own, NULL, &report));
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  CHECK_RESULT(MSGQ_OK, msgq_close(own, 1000));
  CHECK_NUMBER(1, atomic_load(&stub.released));
}

TEST_LONG(fork_child_cannot_use_the_queue_but_can_open_its_own_store) {
  struct scene scene;
  struct stub stub;
  msgq_queue *mine = NULL;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  const char *own = scene_file(&scene, "own.db");
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "first", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  put(&scene, "a", "ana", "hello");
  use_own_store(own);
  /* What the queue's threads use for the first time may be locked in a child that is forked meanwhile. */
  pause_ms(100);
  pid_t child = child_fork();
  if (child == 0) {
    check_all_calls_forked(scene.queue);
    CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, NULL, &mine));
    CHECK(mine == NULL);
    use_own_store(own);
    child_end();
  }
  child_await(child);
  CHECK_NUMBER(1, drain(&scene).sent);
  put(&scene, "b", "ana", "hello");
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(2, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}

/* A callback that forks once and returns in parent and child. */
struct forking {
  msgq_queue *queue;
  atomic_int forks;
  _Atomic pid_t child;
  bool in_transport;
};

static void fork_once(struct forking *forking) {
  if (atomic_fetch_add(&forking->forks, 1) > 0) return;
  pid_t pid = child_fork();
  atomic_store(&forking->child, pid == 0 ? -1 : pid);
}

static msgq_verdict forking_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct forking *forking = context;
  (void)delivery, (void)out;
  if (forking->in_transport) fork_once(forking);
  return MSGQ_VERDICT_SENT;
}

static void forking_handler(void *context, const msgq_event *event) {
  struct forking *forking = context;
  if (!forking->in_transport && event->kind == MSGQ_EVENT_STATUS && event->to == MSGQ_STATUS_SENT) fork_once(forking);
}

static void fork_in_a_callback(msgq_callbacks callbacks, bool in_transport) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.callbacks = callbacks;
  scene_open(&scene);
  struct forking forking = { .queue = scene.queue, .in_transport = in_transport };
  REQUIRE_OK(msgq_set_event_handler(scene.queue, forking_handler, &forking, NULL));
  REQUIRE_OK(msgq_set_transport(scene.queue, forking_send, &forking, NULL));
  for (int number = 0; number < 5; number++) put(&scene, NULL, number % 2 == 0 ? "ana" : "ben", "hello");
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_result result = msgq_drain(scene.queue, NULL, &report);
  if (atomic_load(&forking.child) == -1) {
    /* Only the child of a polled queue returns here, because its callbacks run on this thread. */
    CHECK_RESULT(MSGQ_FORKED, result);
    check_all_calls_forked(scene.queue);
    child_end();
  }
  CHECK_RESULT(MSGQ_OK, result);
  CHECK_NUMBER(5, report.sent);
  CHECK_NUMBER(5, counts_of(&scene, NULL).sent);
  int status = -1;
  pid_t child = atomic_load(&forking.child);
  REQUIRE(child > 0);
  /* A child forked on a thread of the library has only that thread. The process ends when the thread ends. */
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_NUMBER(0, status);
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(5, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}

TEST(fork_inside_a_transport_in_poll) { fork_in_a_callback(MSGQ_CALLBACKS_POLL, true); }
TEST(fork_inside_a_handler_in_poll) { fork_in_a_callback(MSGQ_CALLBACKS_POLL, false); }
TEST_ALONE(fork_inside_a_transport_on_a_thread) { fork_in_a_callback(MSGQ_CALLBACKS_THREAD, true); }
TEST_ALONE(fork_inside_a_handler_on_a_thread) { fork_in_a_callback(MSGQ_CALLBACKS_THREAD, false); }

struct caller {
  msgq_queue *queue;
  atomic_bool *stopping;
  atomic_int *enqueued;
  int number;
};

static void *run_caller(void *context) {
  struct caller *caller = context;
  char name[16];
  snprintf(name, sizeof name, "c%d", caller->number);
  while (!atomic_load(caller->stopping)) {
    msgq_counts counts = MSGQ_COUNTS_INIT;
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = name;
    if (msgq_enqueue(caller->queue, &draft, NULL) == MSGQ_OK) atomic_fetch_add(caller->enqueued, 1);
    CHECK_RESULT(MSGQ_OK, msgq_count(caller->queue, name, &counts));
    CHECK_RESULT(MSGQ_NOT_FOUND, msgq_delete(caller->queue, "nobody"));
  }
  return NULL;
}

TEST_LONG(fork_while_other_threads_use_the_queue) {
  struct scene scene;
  struct stub stub;
  struct caller callers[3];
  pthread_t threads[3];
  atomic_bool stopping = false;
  atomic_int enqueued = 0;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_in_flight = 3;
  scene.options.keep_sent = 1000000;
  stub_open(&stub, &scene);
  for (int index = 0; index < 3; index++) {
    callers[index] = (struct caller){ scene.queue, &stopping, &enqueued, index };
    REQUIRE(pthread_create(&threads[index], NULL, run_caller, &callers[index]) == 0);
  }
  /* What the threads use for the first time may be locked in a child that is forked meanwhile. */
  AWAIT(atomic_load(&enqueued) >= 30 && counts_of(&scene, NULL).sent >= 10);
  const int times = check_times(50, 8);
  for (int time = 0; time < times && check_failures() == 0; time++) {
    const char *own = scene_file(&scene, "own.db");
    pid_t child = child_fork();
    if (child == 0) {
      check_all_calls_forked(scene.queue);
      use_own_store(own);
      child_end();
    }
    child_await(child);
  }
  atomic_store(&stopping, true);
  for (int index = 0; index < 3; index++) pthread_join(threads[index], NULL);
  AWAIT(counts_of(&scene, NULL).sent == (uint64_t)atomic_load(&enqueued));
  CHECK_NUMBER(atomic_load(&enqueued), atomic_load(&stub.calls));
  scene_end(&scene);
}

struct first_call {
  msgq_queue *queue;
  atomic_bool begins;
};

static void *make_first_call(void *context) {
  struct first_call *call = context;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  while (!atomic_load(&call->begins)) {}
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(call->queue, &draft, NULL));
  return NULL;
}

/* What Swift prepares at the first use of a type is locked meanwhile: the child must not wait for it. */
static void fork_beside_first_call(int microseconds) {
  struct scene scene;
  pthread_t thread;
  struct timespec begin, now;
  scene_begin_open(&scene);
  struct first_call call = { scene.queue, false };
  REQUIRE(pthread_create(&thread, NULL, make_first_call, &call) == 0);
  usleep(500);
  atomic_store(&call.begins, true);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < microseconds * 1000L);
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    msgq_draft draft = MSGQ_DRAFT_INIT;
    _exit(msgq_enqueue(scene.queue, &draft, NULL) == MSGQ_FORKED ? 0 : 1);
  }
  int status = -1;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_NUMBER(0, status);
  pthread_join(thread, NULL);
  scene_end(&scene);
}

TEST_ALONE(fork_while_another_thread_makes_its_first_call) {
  /* Each in a process in which no call was made before. */
  for (int round = 0; round < 120 && check_failures() == 0; round++) {
    pid_t child = child_fork();
    if (child == 0) {
      fork_beside_first_call(round % 40);
      child_end();
    }
    child_await(child);
  }
}

TEST(fork_and_exec_inherits_no_descriptor) {
  struct scene scenes[2];
  struct stub stub;
  char line[256];
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  for (int polled = 0; polled < 2; polled++) {
    scene_begin(&scenes[polled]);
    scenes[polled].options.callbacks = polled == 1 ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
    scene_open(&scenes[polled]);
    REQUIRE_OK(msgq_monitor_start(scenes[polled].queue));
    REQUIRE_OK(msgq_set_transport(scenes[polled].queue, stub_send, &stub, NULL));
    put(&scenes[polled], "a", "ana", "hello");
  }
  /* The program lists its open descriptors except the standard streams. */
  struct child child = child_start("descriptors", "", "");
  do {
    child_line(&child, line, sizeof line);
    bool is_ours = strstr(line, "/msgq-") != NULL || strstr(line, "anon_inode") != NULL || strstr(line, "socket:") != NULL;
    if (!CHECK(!is_ours)) fprintf(stderr, "  inherited %s\n", line);
  } while (line[0] != '\0');
  CHECK_NUMBER(0, child_wait(&child));
  for (int polled = 0; polled < 2; polled++) scene_end(&scenes[polled]);
}
