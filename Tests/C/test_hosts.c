/* A queue inside somebody's event loop: its descriptor in epoll, poll and select (X7). */
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
  while (steps_told(&host.scene.journal) < 3 * messages()) {
    if (!CHECK(turn(&host, (int)check_patience_ms()))) break;
  }
  pthread_join(thread, NULL);
  turn_until_quiet(&host);
  CHECK_NUMBER(3 * messages(), steps_told(&host.scene.journal)); /* queued, sending, sent */
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

/* A loop inside a callback, as a dialogue's: it serves the descriptor like the one outside. Several hosts begin one by accident. */
struct nested {
  struct host *host;
  bool in_handler, in_transport; /* where it still has to happen */
  int loops, woken;
  size_t ran;
};

static void loop_inside(struct nested *nested) {
  nested->loops++;
  /* There is work for later, and more of it comes. */
  put(&nested->host->scene, NULL, "ben", "from inside");
  for (int64_t end = steady_ms() + 200, left; (left = end - steady_ms()) > 0;) {
    size_t ran = 4711;
    if (!epoll_says(nested->host, (int)left)) continue;
    nested->woken++;
    CHECK_RESULT(MSGQ_OK, msgq_poll(nested->host->scene.queue, 0, &ran));
    nested->ran += ran;
  }
}

static void loops_when_told(void *context, const msgq_event *event) {
  struct nested *nested = context;
  journal_event(&nested->host->scene.journal, event);
  if (event->kind != MSGQ_EVENT_STATUS || !nested->in_handler) return;
  nested->in_handler = false;
  loop_inside(nested);
}

static msgq_verdict loops_when_sending(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct nested *nested = context;
  if (nested->in_transport) {
    nested->in_transport = false;
    loop_inside(nested);
  }
  return stub_send(&nested->host->stub, delivery, out);
}

static void nest(bool in_handler, bool in_transport) {
  struct host host;
  struct nested nested = { &host, in_handler, in_transport, 0, 0, 0 };
  int sent = 3 + (in_handler ? 1 : 0) + (in_transport ? 1 : 0);
  host_begin(&host, MSGQ_MODE_AUTO);
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, loops_when_told, &nested, NULL));
  REQUIRE_OK(msgq_set_transport(host.scene.queue, loops_when_sending, &nested, NULL));
  for (int number = 0; number < 3; number++) put(&host.scene, NULL, "ana", "hello");
  /* Whatever was told inside, the loop outside is woken for all that there is. */
  while (steps_told(&host.scene.journal) < 3 * (size_t)sent) {
    if (!CHECK(turn(&host, (int)check_patience_ms()))) break;
  }
  CHECK_NUMBER((in_handler ? 1 : 0) + (in_transport ? 1 : 0), nested.loops);
  if (!CHECK(nested.woken <= 5 * nested.loops)) fprintf(stderr, "  woken %d times in 200 ms\n", nested.woken);
  CHECK_NUMBER(0, nested.ran);
  turn_until_quiet(&host);
  CHECK_NUMBER(3 * sent, steps_told(&host.scene.journal));
  CHECK_NUMBER(sent, atomic_load(&host.stub.calls));
  /* And it still is the next time. */
  put(&host.scene, NULL, "ana", "afterwards");
  CHECK(epoll_says(&host, 0) && poll_says(&host) && select_says(&host));
  turn_until_quiet(&host);
  CHECK_NUMBER(sent + 1, counts_of(&host.scene, NULL).sent);
  host_end(&host);
}

TEST(X7_a_loop_inside_a_callback_does_not_spin) {
  nest(true, false);
  nest(false, true);
  nest(true, true);
}

static void *turn_once(void *context) {
  struct looper *looper = context;
  CHECK(turn(looper->host, (int)check_patience_ms()));
  return NULL;
}

/* A loop inside a callback that goes on until it is told to stop. */
struct dialogue {
  struct host *host;
  atomic_bool inside, stopping;
  atomic_int woken;
};

static msgq_verdict dialogue_when_sending(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct dialogue *dialogue = context;
  int64_t end = steady_ms() + 5000;
  if (atomic_exchange(&dialogue->inside, true)) return stub_send(&dialogue->host->stub, delivery, out);
  while (!atomic_load(&dialogue->stopping) && steady_ms() < end) {
    if (!epoll_says(dialogue->host, 10)) continue;
    atomic_fetch_add(&dialogue->woken, 1);
    CHECK_RESULT(MSGQ_OK, msgq_poll(dialogue->host->scene.queue, 0, NULL));
  }
  return MSGQ_VERDICT_SENT;
}

TEST(X7_a_loop_inside_a_callback_leaves_the_descriptor_to_other_threads) {
  struct host host;
  struct looper looper = { &host, 0, NULL };
  struct dialogue dialogue = { .host = &host };
  host_begin(&host, MSGQ_MODE_AUTO);
  REQUIRE_OK(msgq_set_transport(host.scene.queue, dialogue_when_sending, &dialogue, NULL));
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, NULL, NULL, NULL));
  put(&host.scene, "a", "ana", "hello");
  REQUIRE(pthread_create(&looper.thread, NULL, turn_once, &looper) == 0);
  AWAIT(atomic_load(&dialogue.inside));
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, journal_event, &host.scene.journal, NULL));
  put(&host.scene, "b", "ben", "hello");
  AWAIT(atomic_load(&dialogue.woken) > 0);
  pause_ms(100);
  /* This thread is in no callback: it is told, and tells the event. */
  struct pollfd watched = { .fd = msgq_fd(host.scene.queue), .events = POLLIN };
  CHECK_NUMBER(1, poll(&watched, 1, 2000));
  CHECK_RESULT(MSGQ_OK, msgq_poll(host.scene.queue, 0, NULL));
  CHECK(steps_told(&host.scene.journal) >= 1);
  atomic_store(&dialogue.stopping, true);
  pthread_join(looper.thread, NULL);
  CHECK(atomic_load(&dialogue.woken) < 100);
  turn_until_quiet(&host);
  CHECK_NUMBER(2, counts_of(&host.scene, NULL).sent);
  host_end(&host);
}

TEST(X7_a_loop_beside_a_callback_is_woken) {
  struct host host;
  struct looper looper = { &host, 0, NULL };
  host_begin(&host, MSGQ_MODE_AUTO);
  put(&host.scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, NULL, NULL, NULL)); /* one transport's call is all there is to do */
  atomic_store(&host.stub.held, true);
  REQUIRE(pthread_create(&looper.thread, NULL, turn_once, &looper) == 0);
  AWAIT(atomic_load(&host.stub.inside) == 1);
  CHECK(!epoll_says(&host, 0));
  REQUIRE_OK(msgq_set_event_handler(host.scene.queue, journal_event, &host.scene.journal, NULL));
  put(&host.scene, "b", "ben", "hello");
  CHECK(epoll_says(&host, (int)check_patience_ms()));
  turn_until_quiet(&host);
  CHECK(steps_told(&host.scene.journal) >= 1); /* while the other is inside */
  CHECK_NUMBER(1, atomic_load(&host.stub.inside));
  atomic_store(&host.stub.held, false);
  pthread_join(looper.thread, NULL);
  turn_until_quiet(&host);
  CHECK_NUMBER(2, counts_of(&host.scene, NULL).sent);
  host_end(&host);
}
