/* A polled queue without threads: what is due at a time is performed in msgq_poll, and the descriptor reports it (X7). */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
#include "files.h"
#include "host.h"
#include "net.h"
#include "process.h"
#include "stores.h"

static int threads(void) { return (int)process_library_threads(); }

/* Polls when the descriptor is readable, and only then, until the condition holds. */
#define POLL_UNTIL(host, condition)                                                                           \
  do {                                                                                                        \
    int64_t poll_end = steady_ms() + check_timeout_ms();                                                      \
    while (!(condition) && steady_ms() < poll_end) poll_once((host), (int)(poll_end - steady_ms()));          \
    CHECK(condition);                                                                                         \
  } while (0)

/* Sends messages with msgq_poll. Their outcomes are not flushed. */
static void send_by_polling(struct host *host, unsigned count) {
  put_numbered(&host->scene, 1, count);
  POLL_UNTIL(host, counts_of(&host->scene, NULL).sent == count);
}

TEST_ALONE(X7_D6_outcomes_are_flushed_within_a_second_when_the_descriptor_is_readable) {
  struct host host;
  host_begin(&host, MSGQ_MODE_AUTO);
  send_by_polling(&host, 5);
  int64_t start = steady_ms();
  int syncs = atomic_load(&fault_syncs);
  POLL_UNTIL(&host, atomic_load(&fault_syncs) > syncs);
  CHECK(steady_ms() - start <= check_timeout_ms() / 10);
  CHECK_NUMBER(0, threads());
  host_end(&host);
}

TEST_ALONE(X7_D6_a_poll_that_waits_flushes_within_a_second) {
  struct host host;
  host_begin(&host, MSGQ_MODE_AUTO);
  send_by_polling(&host, 5);
  int syncs = atomic_load(&fault_syncs);
  int64_t start = steady_ms();
  while (steady_ms() - start < 1000) CHECK_RESULT(MSGQ_OK, msgq_poll(host.scene.queue, 1000, NULL));
  CHECK(atomic_load(&fault_syncs) > syncs);
  CHECK_NUMBER(0, threads());
  host_end(&host);
}

static msgq_verdict first_only(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct stub *stub = context;
  (void)delivery, (void)out;
  return atomic_fetch_add(&stub->calls, 1) == 0 ? MSGQ_VERDICT_SENT : MSGQ_VERDICT_PENDING;
}

TEST_ALONE(X7_D6_a_drain_that_waits_flushes_within_a_second) {
  struct host host;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  host_begin(&host, MSGQ_MODE_MANUAL);
  REQUIRE_OK(msgq_set_transport(host.scene.queue, first_only, &host.stub, NULL));
  put_numbered(&host.scene, 1, 2);
  int syncs = atomic_load(&fault_syncs);
  options.timeout_ms = 1200;
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_drain(host.scene.queue, &options, NULL));
  CHECK(atomic_load(&fault_syncs) > syncs);
  CHECK_NUMBER(0, threads());
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(host.scene.queue, 0));
  host.scene.queue = NULL;
  host_end(&host);
}

/* A host that does not poll gives up the flush within a second. Its next call flushes, whatever it is. */
TEST_ALONE(X7_D6_any_other_call_flushes_what_is_overdue) {
  struct host host;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  host_begin(&host, MSGQ_MODE_AUTO);
  send_by_polling(&host, 5);
  int syncs = atomic_load(&fault_syncs);
  pause_ms(1500);
  CHECK_NUMBER(syncs, atomic_load(&fault_syncs)); /* no thread does it */
  CHECK_RESULT(MSGQ_OK, msgq_count(host.scene.queue, NULL, &counts));
  CHECK(atomic_load(&fault_syncs) > syncs);
  host_end(&host);
}

/* The child stops polling after three messages were sent. */
static void send_and_stop_polling(struct host *host, int ready) {
  host_open(host);
  send_by_polling(host, 3);
  put_numbered(&host->scene, 4, 6);
  pause_ms(1500);
  if (write(ready, "x", 1) != 1) _exit(1);
  for (;;) pause_ms(1000);
}

TEST_ALONE(X7_D3_a_host_that_stops_polling_and_is_killed_loses_nothing) {
  struct host host;
  int ready[2];
  char byte;
  host_prepare(&host, MSGQ_MODE_AUTO);
  REQUIRE(pipe(ready) == 0);
  pid_t child = fork();
  if (child == 0) send_and_stop_polling(&host, ready[1]);
  CHECK(read(ready[0], &byte, 1) == 1);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  host_open(&host);
  CHECK_NUMBER(3, counts_of(&host.scene, NULL).sent);
  CHECK_NUMBER(3, counts_of(&host.scene, NULL).queued);
  close(ready[0]);
  close(ready[1]);
  host_end(&host);
}

TEST_ALONE(X7_Q4_a_retry_starts_in_a_loop_that_waits_for_the_descriptor) {
  static const int64_t ladder[] = { 300, 300 };
  struct host host;
  host_prepare(&host, MSGQ_MODE_AUTO);
  set_ladder(&host.scene, ladder, 2);
  host_open(&host);
  host.stub.verdict = MSGQ_VERDICT_RETRY;
  put(&host.scene, "a", "ana", "hello");
  int64_t start = steady_ms();
  POLL_UNTIL(&host, atomic_load(&host.stub.calls) == 3);
  CHECK(steady_ms() - start >= 590);
  POLL_UNTIL(&host, journal_reached(&host.scene.journal, "a", MSGQ_STATUS_FAILED));
  CHECK_NUMBER(0, threads());
  host_end(&host);
}

TEST_ALONE(X7_A10_an_attempt_times_out_in_a_loop_that_waits_for_the_descriptor) {
  struct host host;
  host_prepare(&host, MSGQ_MODE_AUTO);
  host.scene.options.attempt_timeout_ms = 300;
  host.scene.options.max_retries = 0;
  host_open(&host);
  host.stub.verdict = MSGQ_VERDICT_PENDING;
  put(&host.scene, "a", "ana", "hello");
  POLL_UNTIL(&host, journal_reached(&host.scene.journal, "a", MSGQ_STATUS_FAILED));
  CHECK_NUMBER(MSGQ_FAILURE_TIMEOUT, failure_of(&host.scene, "a"));
  CHECK_NUMBER(0, threads());
  host_end(&host);
}

TEST_ALONE(X7_M8_a_message_expires_in_a_loop_that_waits_for_the_descriptor) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  put_timed(&host.scene, "a", "ana", 0, wall_ms() + 400);
  poll_until_idle(&host);
  POLL_UNTIL(&host, journal_reached(&host.scene.journal, "a", MSGQ_STATUS_FAILED));
  CHECK_NUMBER(MSGQ_FAILURE_EXPIRED, failure_of(&host.scene, "a"));
  CHECK_NUMBER(0, threads());
  host_end(&host);
}

/* No thread does it, so that the state changes with the call. */
TEST_ALONE(X7_M8_any_other_call_expires_what_is_overdue) {
  struct host host;
  host_begin(&host, MSGQ_MODE_MANUAL);
  put_timed(&host.scene, "a", "ana", 0, wall_ms() + 400);
  poll_until_idle(&host);
  pause_ms(900);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&host.scene, "a"));
  host_end(&host);
}

static const char secret[] = "the text that must not be found again";

static bool has_secret(const struct host *host) {
  return file_contains(log_of(&host->scene), secret) || file_contains(host->scene.path, secret);
}

TEST_ALONE(X7_F5_replaced_text_is_erased_in_a_loop_that_waits_for_the_descriptor) {
  struct host host;
  char body[6000];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  memset(body, '.', sizeof body);
  memcpy(body + 3000, secret, strlen(secret));
  draft.replace_key = "key";
  draft.body = body;
  draft.body_size = sizeof body;
  host_begin(&host, MSGQ_MODE_MANUAL);
  poll_until_idle(&host);
  REQUIRE_OK(msgq_enqueue(host.scene.queue, &draft, NULL));
  draft.body_size = 5;
  REQUIRE_OK(msgq_enqueue(host.scene.queue, &draft, NULL));
  CHECK(has_secret(&host));
  int64_t start = steady_ms();
  POLL_UNTIL(&host, !has_secret(&host));
  CHECK(steady_ms() - start <= check_timeout_ms() / 5);
  CHECK_NUMBER(0, threads());
  host_end(&host);
}

TEST_NETWORK(X7_H8_the_descriptor_reports_changes_of_the_network) {
  struct host host;
  host_begin(&host, MSGQ_MODE_AUTO);
  net_pair("va", 1);
  REQUIRE_OK(msgq_monitor_start(host.scene.queue));
  put(&host.scene, "a", "ana", "hello");
  POLL_UNTIL(&host, net_is(&host.scene, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE));
  poll_until_idle(&host);
  net_run("ip route add default via 10.0.1.2");
  POLL_UNTIL(&host, status_of(&host.scene, "a") == MSGQ_STATUS_SENT);
  CHECK(net_is(&host.scene, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET));
  /* Without a poll the next call reads it. */
  net_run("ip route del default");
  pause_ms(200);
  CHECK_NUMBER(MSGQ_CONNECTIVITY_OFFLINE, state_of(&host.scene).connectivity);
  REQUIRE_OK(msgq_monitor_stop(host.scene.queue));
  poll_until_idle(&host);
  net_run("ip route add default via 10.0.1.2");
  CHECK(!epoll_is_readable(&host, 200));
  CHECK_NUMBER(0, threads());
  host_end(&host);
}

/* Returns whether a process with one thread may make a user namespace. */
static bool may_unshare(void) {
  pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0;
}

/* The kernel permits a new user namespace only to a process with one thread. */
TEST_ALONE(X7_a_program_with_a_polled_queue_has_one_thread) {
  struct host host;
  if (!may_unshare()) SKIP("the system permits no user namespace");
  host_begin(&host, MSGQ_MODE_AUTO);
  send_by_polling(&host, 5);
  REQUIRE_OK(msgq_monitor_start(host.scene.queue));
  CHECK_NUMBER(1, (int64_t)process_threads());
  CHECK_NUMBER(0, unshare(CLONE_NEWUSER));
  put(&host.scene, "b", "ben", "hello");
  POLL_UNTIL(&host, status_of(&host.scene, "b") == MSGQ_STATUS_SENT);
  host_end(&host);
}

static void on_closed(void *context, msgq_result result) { *(msgq_result *)context = result; }

/* The attempt never ends: the descriptor reports the time at which the close ends without it. */
TEST_ALONE(X7_close_async_of_a_queue_without_threads_keeps_its_time) {
  struct host host;
  msgq_result result = MSGQ_INTERNAL;
  host_begin(&host, MSGQ_MODE_AUTO);
  host.stub.verdict = MSGQ_VERDICT_PENDING;
  put(&host.scene, "a", "ana", "hello");
  POLL_UNTIL(&host, atomic_load(&host.stub.calls) == 1);
  poll_until_idle(&host);
  int64_t start = steady_ms();
  REQUIRE_OK(msgq_close_async(host.scene.queue, 400, on_closed, &result));
  CHECK_NUMBER(0, threads());
  int polls = 0;
  while (result == MSGQ_INTERNAL && polls < 100 && poll_once(&host, (int)check_timeout_ms())) polls++;
  CHECK_RESULT(MSGQ_TIMEOUT, result);
  CHECK(steady_ms() - start >= 399);
  CHECK(polls <= 5);
  CHECK_NUMBER(0, threads());
  CHECK_RESULT(MSGQ_CLOSED, msgq_poll(host.scene.queue, 0, NULL));
  host.scene.queue = NULL;
  host_end(&host);
}

/* An answer while the queue closes makes the descriptor readable. */
TEST_ALONE(X7_close_async_of_a_queue_without_threads_ends_with_the_last_answer) {
  struct host host;
  msgq_result result = MSGQ_INTERNAL;
  msgq_outcome sent = outcome_of(MSGQ_VERDICT_SENT);
  host_begin(&host, MSGQ_MODE_AUTO);
  host.stub.verdict = MSGQ_VERDICT_PENDING;
  put(&host.scene, "a", "ana", "hello");
  POLL_UNTIL(&host, atomic_load(&host.stub.calls) == 1);
  REQUIRE_OK(msgq_close_async(host.scene.queue, -1, on_closed, &result));
  poll_until_idle(&host);
  CHECK_RESULT(MSGQ_INTERNAL, result);
  CHECK_RESULT(MSGQ_OK, msgq_complete(host.scene.queue, atomic_load(&host.stub.token), &sent));
  int polls = 0;
  while (result == MSGQ_INTERNAL && polls < 100 && poll_once(&host, (int)check_timeout_ms())) polls++;
  CHECK_RESULT(MSGQ_OK, result);
  CHECK_NUMBER(0, threads());
  host.scene.queue = NULL;
  scene_open(&host.scene);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&host.scene, "a"));
  host_end(&host);
}

/* The other polled mode: one thread of the library, which runs no callback. */
TEST_ALONE(X7_D6_a_polled_queue_with_a_timer_flushes_without_a_poll) {
  struct host host;
  host_prepare(&host, MSGQ_MODE_AUTO);
  host.scene.options.callbacks = MSGQ_CALLBACKS_POLL_TIMER;
  host_open(&host);
  AWAIT(threads() == 1);
  send_by_polling(&host, 5);
  int syncs = atomic_load(&fault_syncs);
  pause_ms(1500);
  CHECK(atomic_load(&fault_syncs) > syncs);
  poll_until_idle(&host);
  CHECK(pthread_equal(host.stub.thread, pthread_self()));
  CHECK_NUMBER(1, threads());
  host_end(&host);
}

TEST_ALONE(X7_the_control_socket_of_a_polled_queue_has_threads) {
  struct host host;
  host_begin(&host, MSGQ_MODE_AUTO);
  CHECK_NUMBER(0, threads());
  REQUIRE_OK(msgq_control_start(host.scene.queue, NULL));
  AWAIT(threads() == 1);
  REQUIRE_OK(msgq_control_stop(host.scene.queue));
  AWAIT(threads() == 0);
  host_end(&host);
}

static void on_log_line(void *context, msgq_log_level level, const char *text) {
  (void)level, (void)text;
  atomic_fetch_add((atomic_int *)context, 1);
}

/* msgq_set_log starts the only thread of a program whose queues are polled, and only while there are lines. */
TEST_ALONE(X7_D13_the_log_function_has_the_only_thread_of_a_polled_program) {
  static atomic_int lines;
  struct host host;
  host_prepare(&host, MSGQ_MODE_AUTO);
  set_ladder(&host.scene, NULL, 0);
  host.scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD; /* which is logged */
  host_open(&host);
  put(&host.scene, "silent", "ana", "hello");
  POLL_UNTIL(&host, status_of(&host.scene, "silent") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(0, threads());
  atomic_store(&lines, 0);
  REQUIRE_OK(msgq_set_log(on_log_line, &lines, NULL));
  host.stub.verdict = MSGQ_VERDICT_RETRY;
  put(&host.scene, "failing", "ana", "hello");
  POLL_UNTIL(&host, status_of(&host.scene, "failing") < 0);
  int most = 0;
  for (int64_t end = steady_ms() + check_timeout_ms(); atomic_load(&lines) == 0 && steady_ms() < end;) {
    int count = threads();
    if (count > most) most = count;
  }
  CHECK(most <= 1);
  CHECK(atomic_load(&lines) > 0);
  REQUIRE_OK(msgq_set_log(NULL, NULL, NULL));
  AWAIT(threads() == 0);
  host_end(&host);
}
