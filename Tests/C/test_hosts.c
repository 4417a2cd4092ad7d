/* A queue inside somebody's event loop: its descriptor in epoll, poll and select, and drains that do not wait (X7). */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "scene.h"
#include "stub.h"
#include "tests.h"

/* A polled queue with a transport, and an epoll that watches it. */
struct host {
  struct scene scene;
  struct stub stub;
  int epoll;
};

static void host_begin(struct host *host, msgq_mode mode) {
  scene_begin(&host->scene);
  stub_begin(&host->stub, MSGQ_VERDICT_SENT);
  host->scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  host->scene.options.mode = mode;
  host->scene.options.direct = mode == MSGQ_MODE_AUTO;
  scene_open(&host->scene);
  REQUIRE_OK(msgq_set_transport(host->scene.queue, stub_send, &host->stub, stub_release));
  host->epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event interest = { .events = EPOLLIN };
  REQUIRE(host->epoll >= 0);
  REQUIRE(epoll_ctl(host->epoll, EPOLL_CTL_ADD, msgq_fd(host->scene.queue), &interest) == 0);
}

static void host_end(struct host *host) {
  close(host->epoll);
  scene_end(&host->scene);
}

static bool epoll_says(const struct host *host, int timeout_ms) {
  struct epoll_event event;
  return epoll_wait(host->epoll, &event, 1, timeout_ms) == 1;
}

static bool poll_says(const struct host *host) {
  struct pollfd descriptor = { msgq_fd(host->scene.queue), POLLIN, 0 };
  return poll(&descriptor, 1, 0) == 1 && (descriptor.revents & POLLIN) != 0;
}

static bool select_says(const struct host *host) {
  fd_set set;
  struct timeval at_once = { 0, 0 };
  FD_ZERO(&set);
  FD_SET(msgq_fd(host->scene.queue), &set);
  return select(msgq_fd(host->scene.queue) + 1, &set, NULL, NULL, &at_once) == 1;
}

/* One turn of a loop; false: nothing came in the time a host may wait. */
static bool turn(struct host *host, int timeout_ms) {
  if (!epoll_says(host, timeout_ms)) return false;
  CHECK_RESULT(MSGQ_OK, msgq_poll(host->scene.queue, 0, NULL));
  return true;
}

static void turn_until_quiet(struct host *host) {
  while (turn(host, 50)) continue;
}

TEST(X7_epoll_poll_and_select_say_the_same) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  turn_until_quiet(&host);
  CHECK(!poll_says(&host) && !select_says(&host));
  put(&host.scene, "a", "ana", "hello");
  for (int time = 0; time < 3; time++) CHECK(epoll_says(&host, 0) && poll_says(&host) && select_says(&host));
  turn_until_quiet(&host);
  CHECK(!epoll_says(&host, 0) && !poll_says(&host) && !select_says(&host));
  /* An attempt is work, too, with nobody to hear events. */
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, NULL, NULL, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_send_now(host.scene.queue, "a"));
  CHECK(epoll_says(&host, 0) && poll_says(&host) && select_says(&host));
  turn_until_quiet(&host);
  CHECK_NUMBER(1, atomic_load(&host.stub.calls));
  CHECK(!epoll_says(&host, 0) && !poll_says(&host) && !select_says(&host));
  host_end(&host);
}

TEST(X7_a_loop_with_nothing_to_do_sleeps) {
  struct host host;
  int turns = 0;
  host_begin(&host, MSGQ_MODE_AUTO);
  for (int number = 0; number < 5; number++) put(&host.scene, NULL, "ana", "hello");
  turn_until_quiet(&host);
  CHECK_NUMBER(5, counts_of(&host.scene, NULL).sent);
  for (int64_t end = steady_ms() + 1000; steady_ms() < end;) turns += turn(&host, (int)(end - steady_ms())) ? 1 : 0;
  CHECK_NUMBER(0, turns);
  host_end(&host);
}

enum { messages = 2000, conversations = 7 };

static void *enqueue_at_random(void *context) {
  msgq_queue *queue = context;
  unsigned seed = 4711;
  char name[16];
  for (int number = 0; number < messages; number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    snprintf(name, sizeof name, "c%d", number % conversations);
    draft.conversation = name;
    CHECK_RESULT(MSGQ_OK, msgq_enqueue(queue, &draft, NULL));
    int rest = rand_r(&seed) % 8;
    if (rest < 2) usleep((useconds_t)(rand_r(&seed) % 500));
  }
  return NULL;
}

static size_t steps_told(struct journal *journal) {
  size_t steps = 0;
  pthread_mutex_lock(&journal->lock);
  for (size_t index = 0; index < journal->count; index++) steps += journal->entries[index].kind == MSGQ_EVENT_STATUS ? 1 : 0;
  pthread_mutex_unlock(&journal->lock);
  return steps;
}

TEST(X7_no_wake_up_is_lost) {
  struct host host;
  pthread_t thread;
  host_begin(&host, MSGQ_MODE_AUTO);
  REQUIRE(pthread_create(&thread, NULL, enqueue_at_random, host.scene.queue) == 0);
  /* Whatever is to be done, the loop is woken for it: one that only ever waits for its descriptor gets through. */
  while (steps_told(&host.scene.journal) < 3 * messages) {
    if (!CHECK(turn(&host, (int)check_patience_ms()))) break;
  }
  pthread_join(thread, NULL);
  turn_until_quiet(&host);
  CHECK_NUMBER(3 * messages, steps_told(&host.scene.journal)); /* queued, sending, sent */
  CHECK_NUMBER(messages, atomic_load(&host.stub.calls));
  CHECK_NUMBER(messages, counts_of(&host.scene, NULL).sent);
  CHECK_NUMBER(0, journal_count(&host.scene.journal, MSGQ_EVENT_RESYNC));
  host_end(&host);
}

struct looper {
  struct host *host;
  pthread_t thread;
  atomic_bool *stopping;
};

static void *loop(void *context) {
  struct looper *looper = context;
  while (!atomic_load(looper->stopping)) turn(looper->host, 10);
  return NULL;
}

TEST(X7_two_threads_may_watch_one_descriptor) {
  struct host host;
  struct looper loopers[2];
  atomic_bool stopping = false;
  host_begin(&host, MSGQ_MODE_AUTO);
  for (int index = 0; index < 2; index++) {
    loopers[index] = (struct looper){ &host, 0, &stopping };
    REQUIRE(pthread_create(&loopers[index].thread, NULL, loop, &loopers[index]) == 0);
  }
  for (int number = 0; number < 200; number++) put(&host.scene, NULL, number % 2 == 0 ? "ana" : "ben", "hello");
  AWAIT(counts_of(&host.scene, NULL).sent == 200 && steps_told(&host.scene.journal) == 600);
  atomic_store(&stopping, true);
  for (int index = 0; index < 2; index++) pthread_join(loopers[index].thread, NULL);
  CHECK_NUMBER(200, atomic_load(&host.stub.calls));
  host_end(&host);
}

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

TEST(X7_a_close_ends_a_drain_and_says_so_once) {
  for (int polled = 0; polled < 2; polled++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    stub_begin(&stub, MSGQ_VERDICT_PENDING); /* never answers */
    scene.options.callbacks = polled == 1 ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
    scene_open(&scene);
    REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, stub_release));
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

const struct check_test host_tests[] = {
  ROW(X7_epoll_poll_and_select_say_the_same),
  ROW(X7_a_loop_with_nothing_to_do_sleeps),
  ROW(X7_no_wake_up_is_lost),
  ROW(X7_two_threads_may_watch_one_descriptor),
  ROW(X7_a_loop_drains_without_waiting),
  ROW(X7_a_drain_begun_at_the_end_of_a_drain),
  ROW(X7_callbacks_begin_drains),
  ROW(X7_many_wait_for_one_drain_and_each_is_told_once),
  ROW(X7_a_close_ends_a_drain_and_says_so_once),
  ROW(X7_a_drain_that_could_not_begin_tells_nobody),
  ROWS_END,
};
