/* A queue in the event loop of a host: its descriptor in epoll, poll and select (X7). */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include "check.h"
#include "host.h"

static bool poll_is_readable(const struct host *host) {
  struct pollfd descriptor = { msgq_fd(host->scene.queue), POLLIN, 0 };
  return poll(&descriptor, 1, 0) == 1 && (descriptor.revents & POLLIN) != 0;
}

static bool select_is_readable(const struct host *host) {
  fd_set set;
  struct timeval at_once = { 0, 0 };
  FD_ZERO(&set);
  FD_SET(msgq_fd(host->scene.queue), &set);
  return select(msgq_fd(host->scene.queue) + 1, &set, NULL, NULL, &at_once) == 1;
}

TEST(X7_epoll_poll_and_select_agree) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  poll_until_idle(&host);
  CHECK((fcntl(msgq_fd(host.scene.queue), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(!poll_is_readable(&host) && !select_is_readable(&host));
  put(&host.scene, "a", "ana", "hello");
  for (int time = 0; time < 3; time++) CHECK(epoll_is_readable(&host, 0) && poll_is_readable(&host) && select_is_readable(&host));
  poll_until_idle(&host);
  CHECK(!epoll_is_readable(&host, 0) && !poll_is_readable(&host) && !select_is_readable(&host));
  /* An attempt makes the descriptor readable, too, without an event handler. */
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, NULL, NULL, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_send_now(host.scene.queue, "a"));
  CHECK(epoll_is_readable(&host, 0) && poll_is_readable(&host) && select_is_readable(&host));
  poll_until_idle(&host);
  CHECK_NUMBER(1, atomic_load(&host.stub.calls));
  CHECK(!epoll_is_readable(&host, 0) && !poll_is_readable(&host) && !select_is_readable(&host));
  host_end(&host);
}

TEST_LONG(X7_an_idle_event_loop_is_not_woken) {
  struct host host;
  int woken = 0, flushed = 0;
  host_begin(&host, MSGQ_MODE_AUTO);
  for (int number = 0; number < 5; number++) put(&host.scene, NULL, "ana", "hello");
  poll_until_idle(&host);
  CHECK_NUMBER(5, counts_of(&host.scene, NULL).sent);
  /* The outcomes are flushed within a second, once for all; two seconds later free space is looked for. */
  for (int64_t end = steady_ms() + 4000; steady_ms() < end;) flushed += poll_once(&host, (int)(end - steady_ms())) ? 1 : 0;
  CHECK(flushed >= 1 && flushed <= 5);
  for (int64_t end = steady_ms() + 1000; steady_ms() < end;) woken += poll_once(&host, (int)(end - steady_ms())) ? 1 : 0;
  CHECK_NUMBER(0, woken);
  host_end(&host);
}

enum { conversations = 7 };

static unsigned messages(void) { return (unsigned)check_times(2000, 200); }

static void *enqueue_at_random(void *context) {
  msgq_queue *queue = context;
  unsigned seed = 4711;
  char name[16];
  for (unsigned number = 0; number < messages(); number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    snprintf(name, sizeof name, "c%u", number % conversations);
    draft.conversation = name;
    CHECK_RESULT(MSGQ_OK, msgq_enqueue(queue, &draft, NULL));
    int rest = rand_r(&seed) % 8;
    if (rest < 2) usleep((useconds_t)(rand_r(&seed) % 500));
  }
  return NULL;
}

static size_t status_events(struct journal *journal) {
  size_t steps = 0;
  pthread_mutex_lock(&journal->lock);
  for (size_t index = 0; index < journal->count; index++) steps += journal->entries[index].kind == MSGQ_EVENT_STATUS ? 1 : 0;
  pthread_mutex_unlock(&journal->lock);
  return steps;
}

TEST_LONG(X7_no_wake_up_is_lost) {
  struct host host;
  pthread_t thread;
  host_begin(&host, MSGQ_MODE_AUTO);
  REQUIRE(pthread_create(&thread, NULL, enqueue_at_random, host.scene.queue) == 0);
  /* The descriptor becomes readable for all work: a loop that only waits for it processes everything. */
  while (status_events(&host.scene.journal) < 3 * messages()) {
    if (!CHECK(poll_once(&host, (int)check_timeout_ms()))) break;
  }
  pthread_join(thread, NULL);
  poll_until_idle(&host);
  CHECK_NUMBER(3 * messages(), status_events(&host.scene.journal)); /* queued, sending, sent */
  CHECK_NUMBER(messages(), atomic_load(&host.stub.calls));
  CHECK_NUMBER(messages(), counts_of(&host.scene, NULL).sent);
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
  while (!atomic_load(looper->stopping)) poll_once(looper->host, 10);
  return NULL;
}

TEST_LONG(X7_two_threads_can_watch_one_descriptor) {
  struct host host;
  struct looper loopers[2];
  atomic_bool stopping = false;
  host_begin(&host, MSGQ_MODE_AUTO);
  for (int index = 0; index < 2; index++) {
    loopers[index] = (struct looper){ &host, 0, &stopping };
    REQUIRE(pthread_create(&loopers[index].thread, NULL, loop, &loopers[index]) == 0);
  }
  for (int number = 0; number < 200; number++) put(&host.scene, NULL, number % 2 == 0 ? "ana" : "ben", "hello");
  AWAIT(counts_of(&host.scene, NULL).sent == 200 && status_events(&host.scene.journal) == 600);
  atomic_store(&stopping, true);
  for (int index = 0; index < 2; index++) pthread_join(loopers[index].thread, NULL);
  CHECK_NUMBER(200, atomic_load(&host.stub.calls));
  host_end(&host);
}

/* An event loop inside a callback, as a modal dialog runs one. It polls the same descriptor as the outer loop. */
struct nested {
  struct host *host;
  bool in_handler, in_transport; /* the callbacks that still have to run a loop */
  int loops, woken;
  size_t ran;
};

static void loop_inside(struct nested *nested) {
  nested->loops++;
  /* Adds work that has to wait for the outer loop. */
  put(&nested->host->scene, NULL, "ben", "from inside");
  for (int64_t end = steady_ms() + 200, left; (left = end - steady_ms()) > 0;) {
    size_t ran = 4711;
    if (!epoll_is_readable(nested->host, (int)left)) continue;
    nested->woken++;
    CHECK_RESULT(MSGQ_OK, msgq_poll(nested->host->scene.queue, 0, &ran));
    nested->ran += ran;
  }
}

static void looping_handler(void *context, const msgq_event *event) {
  struct nested *nested = context;
  journal_event(&nested->host->scene.journal, event);
  if (event->kind != MSGQ_EVENT_STATUS || !nested->in_handler) return;
  nested->in_handler = false;
  loop_inside(nested);
}

static msgq_verdict looping_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct nested *nested = context;
  if (nested->in_transport) {
    nested->in_transport = false;
    loop_inside(nested);
  }
  return stub_send(&nested->host->stub, delivery, out);
}

static void run_nested_loop(bool in_handler, bool in_transport) {
  struct host host;
  struct nested nested = { &host, in_handler, in_transport, 0, 0, 0 };
  int sent = 3 + (in_handler ? 1 : 0) + (in_transport ? 1 : 0);
  host_begin(&host, MSGQ_MODE_AUTO);
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, looping_handler, &nested, NULL));
  REQUIRE_OK(msgq_set_transport(host.scene.queue, looping_send, &nested, NULL));
  for (int number = 0; number < 3; number++) put(&host.scene, NULL, "ana", "hello");
  /* The outer loop is woken for all work. */
  while (status_events(&host.scene.journal) < 3 * (size_t)sent) {
    if (!CHECK(poll_once(&host, (int)check_timeout_ms()))) break;
  }
  CHECK_NUMBER((in_handler ? 1 : 0) + (in_transport ? 1 : 0), nested.loops);
  /* The comparison of the indexes after the opening wakes it each 25 ms. If it spun, it would be woken hundreds of times. */
  if (!CHECK(nested.woken <= 16 * nested.loops)) fprintf(stderr, "  woken %d times in 200 ms\n", nested.woken);
  CHECK_NUMBER(0, nested.ran);
  poll_until_idle(&host);
  CHECK_NUMBER(3 * sent, status_events(&host.scene.journal));
  CHECK_NUMBER(sent, atomic_load(&host.stub.calls));
  /* The descriptor still works afterwards. */
  put(&host.scene, NULL, "ana", "afterwards");
  CHECK(epoll_is_readable(&host, 0) && poll_is_readable(&host) && select_is_readable(&host));
  poll_until_idle(&host);
  CHECK_NUMBER(sent + 1, counts_of(&host.scene, NULL).sent);
  host_end(&host);
}

TEST_LONG(X7_an_event_loop_inside_a_callback_does_not_spin) {
  run_nested_loop(true, false);
  run_nested_loop(false, true);
  run_nested_loop(true, true);
}

static void *poll_in_thread(void *context) {
  struct looper *looper = context;
  CHECK(poll_once(looper->host, (int)check_timeout_ms()));
  return NULL;
}

/* An event loop inside a callback that runs until `stopping` is set. */
struct blocking_loop {
  struct host *host;
  atomic_bool inside, stopping;
  atomic_int woken;
};

static msgq_verdict blocking_loop_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct blocking_loop *loop = context;
  int64_t end = steady_ms() + 5000;
  if (atomic_exchange(&loop->inside, true)) return stub_send(&loop->host->stub, delivery, out);
  while (!atomic_load(&loop->stopping) && steady_ms() < end) {
    if (!epoll_is_readable(loop->host, 10)) continue;
    atomic_fetch_add(&loop->woken, 1);
    CHECK_RESULT(MSGQ_OK, msgq_poll(loop->host->scene.queue, 0, NULL));
  }
  return MSGQ_VERDICT_SENT;
}

TEST(X7_an_event_loop_inside_a_callback_does_not_block_other_threads) {
  struct host host;
  struct looper looper = { &host, 0, NULL };
  struct blocking_loop blocking = { .host = &host };
  host_begin(&host, MSGQ_MODE_AUTO);
  REQUIRE_OK(msgq_set_transport(host.scene.queue, blocking_loop_send, &blocking, NULL));
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, NULL, NULL, NULL));
  put(&host.scene, "a", "ana", "hello");
  REQUIRE(pthread_create(&looper.thread, NULL, poll_in_thread, &looper) == 0);
  AWAIT(atomic_load(&blocking.inside));
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, journal_event, &host.scene.journal, NULL));
  put(&host.scene, "b", "ben", "hello");
  AWAIT(atomic_load(&blocking.woken) > 0);
  pause_ms(100);
  /* This thread runs no callback: the descriptor wakes it, and msgq_poll runs the handler. */
  struct pollfd watched = { .fd = msgq_fd(host.scene.queue), .events = POLLIN };
  CHECK_NUMBER(1, poll(&watched, 1, 2000));
  CHECK_RESULT(MSGQ_OK, msgq_poll(host.scene.queue, 0, NULL));
  CHECK(status_events(&host.scene.journal) >= 1);
  atomic_store(&blocking.stopping, true);
  pthread_join(looper.thread, NULL);
  CHECK(atomic_load(&blocking.woken) < 100);
  poll_until_idle(&host);
  CHECK_NUMBER(2, counts_of(&host.scene, NULL).sent);
  host_end(&host);
}

TEST(X7_an_event_loop_is_woken_while_another_thread_runs_a_callback) {
  struct host host;
  struct looper looper = { &host, 0, NULL };
  host_begin(&host, MSGQ_MODE_AUTO);
  put(&host.scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, NULL, NULL, NULL)); /* so that the transport call is the only work */
  atomic_store(&host.stub.held, true);
  REQUIRE(pthread_create(&looper.thread, NULL, poll_in_thread, &looper) == 0);
  AWAIT(atomic_load(&host.stub.inside) == 1);
  /* Nothing is to be done but what is due at a time, as the flush of the beginning. */
  int woken = 0;
  for (; woken < 5 && epoll_is_readable(&host, 0); woken++) CHECK_RESULT(MSGQ_OK, msgq_poll(host.scene.queue, 0, NULL));
  CHECK(woken < 5);
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, journal_event, &host.scene.journal, NULL));
  put(&host.scene, "b", "ben", "hello");
  CHECK(epoll_is_readable(&host, (int)check_timeout_ms()));
  poll_until_idle(&host);
  CHECK(status_events(&host.scene.journal) >= 1); /* while the transport call is running */
  CHECK_NUMBER(1, atomic_load(&host.stub.inside));
  atomic_store(&host.stub.held, false);
  pthread_join(looper.thread, NULL);
  poll_until_idle(&host);
  CHECK_NUMBER(2, counts_of(&host.scene, NULL).sent);
  host_end(&host);
}
