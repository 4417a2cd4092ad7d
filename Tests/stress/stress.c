/*
 * Eight threads call random functions for some seconds, on a queue that stays open and on one that is closed and opened
 * again meanwhile. At the end every message must be sent or failed, every conversation must have been sent in order, and
 * every registration must have been released once.
 *
 *     stress DIRECTORY [SECONDS [SEED]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "stress.h"

static atomic_int problems;

void problem(const char *what, long long first, long long second) {
  atomic_fetch_add(&problems, 1);
  fprintf(stderr, "PROBLEM: %s (%lld, %lld)\n", what, first, second);
}

int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void open_side(struct side *side) {
  static const int64_t ladder[] = { 1, 5, 20 };
  msgq_queue *queue = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.callbacks = side->polled ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
  options.backoff = MSGQ_BACKOFF_LADDER;
  options.ladder_ms = ladder;
  options.ladder_count = sizeof ladder / sizeof ladder[0];
  options.max_in_flight = 4;
  options.attempt_timeout_ms = 50;
  options.on_demand_timeout_ms = 30;
  options.online_debounce_ms = 0;
  options.keep_sent = 100000000;
  msgq_result result = msgq_open(side->path, &options, &queue);
  if (result != MSGQ_OK) {
    problem(msgq_error_detail(), result, side->polled);
    exit(1);
  }
  register_both(side, queue);
  atomic_store(&side->queue, queue);
}

struct worker {
  pthread_t thread;
  unsigned seed;
  int64_t end;
  struct side *sides;
  bool reopens;
};

/* Closes the second queue while other threads use it, and opens it again. */
static void reopen(struct side *side, unsigned *seed) {
  msgq_result result = msgq_close(atomic_load(&side->queue), rand_r(seed) % 20);
  if (result != MSGQ_OK && result != MSGQ_TIMEOUT) problem("close", result, 0);
  open_side(side);
}

static void *work(void *context) {
  struct worker *worker = context;
  int64_t next_reopen = now_ms() + 50;
  while (now_ms() < worker->end) {
    struct side *side = &worker->sides[rand_r(&worker->seed) % 2];
    if (worker->reopens && now_ms() >= next_reopen) {
      reopen(&worker->sides[1], &worker->seed);
      next_reopen = now_ms() + 20 + rand_r(&worker->seed) % 300;
    }
    call_at_random(side, &worker->seed);
  }
  return NULL;
}

/* Sends all messages. */
static void send_all(struct side *side) {
  msgq_queue *queue = atomic_load(&side->queue);
  msgq_report report = MSGQ_REPORT_INIT;
  side->calm = true;
  msgq_monitor_stop(queue);
  msgq_set_lifecycle(queue, MSGQ_LIFECYCLE_FOREGROUND);
  msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false);
  resume_all(queue);
  register_both(side, queue);
  for (int64_t end = now_ms() + 60000; now_ms() < end;) {
    msgq_result result = msgq_drain(queue, NULL, &report);
    if (result != MSGQ_OK) problem("the last drain", result, 0);
    if (report.stop == MSGQ_STOP_EMPTY) return;
    usleep(5000);
  }
  problem("messages were not sent", (long long)report.remaining, report.stop);
}

/* Checks that every message that no thread may have deleted was sent or failed, and that no conversation was out of order. */
static void check_messages(struct side *side) {
  msgq_queue *queue = atomic_load(&side->queue);
  long long statuses[6] = { 0 }, missing = 0;
  unsigned total = atomic_load(&side->next);
  for (unsigned number = 0; number < total && number < messages_room; number++) {
    char id[32];
    msgq_message *message = NULL;
    if (atomic_load(&side->states[number]) != stored) continue;
    snprintf(id, sizeof id, "m%u", number);
    if (msgq_get(queue, id, &message) != MSGQ_OK) {
      missing++;
      continue;
    }
    statuses[message->status]++;
    msgq_message_free(message);
  }
  if (missing > 0) problem("messages are missing", missing, total);
  if (statuses[MSGQ_STATUS_QUEUED] + statuses[MSGQ_STATUS_SENDING] > 0) problem("messages are queued or being sent", statuses[0], statuses[1]);
  if (atomic_load(&side->disorder) > 0) problem("out of order", atomic_load(&side->disorder), 0);
  printf("%s: %u enqueued, %lld sent, %lld failed, %d attempts, %d events, %d drains\n", side->polled ? "polled" : "threads", total,
         statuses[MSGQ_STATUS_SENT] + statuses[MSGQ_STATUS_DELIVERED] + statuses[MSGQ_STATUS_READ], statuses[MSGQ_STATUS_FAILED],
         atomic_load(&side->attempts), atomic_load(&side->events), atomic_load(&side->drains));
}

static void end_side(struct side *side) {
  send_all(side);
  check_messages(side);
  if (msgq_close(atomic_load(&side->queue), 10000) != MSGQ_OK) problem("the last close", 0, 0);
  for (int64_t end = now_ms() + 5000; atomic_load(&side->released) < atomic_load(&side->registered) && now_ms() < end;) usleep(1000);
  if (atomic_load(&side->released) != atomic_load(&side->registered)) {
    problem("registrations were not released exactly once", atomic_load(&side->registered), atomic_load(&side->released));
  }
  if (atomic_load(&side->waits) != atomic_load(&side->waited)) {
    problem("callbacks of waits were not called exactly once", atomic_load(&side->waits), atomic_load(&side->waited));
  }
  if (atomic_load(&side->drains) != atomic_load(&side->drained)) {
    problem("drain callbacks were not called exactly once", atomic_load(&side->drains), atomic_load(&side->drained));
  }
}

int main(int count, char **arguments) {
  static struct side sides[2];
  struct worker workers[8];
  if (count < 2) return fprintf(stderr, "stress DIRECTORY [SECONDS [SEED]]\n"), 2;
  int seconds = count > 2 ? atoi(arguments[2]) : 60;
  unsigned seed = count > 3 ? (unsigned)strtoul(arguments[3], NULL, 10) : (unsigned)time(NULL);
  printf("seed %u, %d seconds\n", seed, seconds);
  fflush(stdout);
  for (int index = 0; index < 2; index++) {
    side_begin(&sides[index], index == 1);
    snprintf(sides[index].path, sizeof sides[index].path, "%s/%s.db", arguments[1], index == 1 ? "polled" : "threads");
    open_side(&sides[index]);
  }
  int64_t end = now_ms() + (int64_t)seconds * 1000;
  for (int index = 0; index < 8; index++) {
    workers[index] = (struct worker){ .seed = seed + (unsigned)index, .end = end, .sides = sides, .reopens = index == 0 };
    if (pthread_create(&workers[index].thread, NULL, work, &workers[index]) != 0) return 1;
  }
  for (int index = 0; index < 8; index++) pthread_join(workers[index].thread, NULL);
  for (int index = 0; index < 2; index++) end_side(&sides[index]);
  printf("%d problems\n", atomic_load(&problems));
  return atomic_load(&problems) == 0 ? 0 : 1;
}
