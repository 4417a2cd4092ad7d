#include "role_exit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "msgqueue.h"

static msgq_queue *queue;
static const char *way = "";
static atomic_int calls;
static atomic_bool closes_at_end;

static bool is_way(const char *name) { return strcmp(way, name) == 0; }

/* The first calls block for 1 ms; the later ones are never answered. */
static msgq_verdict send_slowly(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery, (void)out;
  int call = atomic_fetch_add(&calls, 1);
  if (call == 6 && is_way("transport")) exit(0);
  if (call >= 8) return MSGQ_VERDICT_PENDING;
  pause_ms(1);
  return MSGQ_VERDICT_SENT;
}

static void on_event(void *context, const msgq_event *event) {
  (void)context, (void)event;
  if (atomic_load(&calls) >= 6 && is_way("handler")) exit(0);
}

static void *run_drain(void *context) {
  msgq_drain(queue, NULL, NULL);
  return context;
}

static void *exit_soon(void *context) {
  pause_ms(5);
  exit(0);
  return context;
}

static void close_at_exit(void) {
  msgq_result result = msgq_close(queue, 100);
  if (result != MSGQ_OK && result != MSGQ_TIMEOUT) _exit(9);
}

__attribute__((destructor)) static void close_in_destructor(void) {
  if (atomic_load(&closes_at_end)) close_at_exit();
}

static bool begin(const char *path) {
  msgq_options options = MSGQ_OPTIONS_INIT;
  pthread_t thread;
  static const char *const names[] = { "ana", "ben", "cem", "dan" };
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  options.max_in_flight = 3;
  if (msgq_open(path, &options, &queue) != MSGQ_OK) return false;
  if (msgq_set_event_handler(queue, on_event, NULL, NULL) != MSGQ_OK) return false;
  if (msgq_set_transport(queue, send_slowly, NULL, NULL) != MSGQ_OK) return false;
  msgq_draft drafts[20];
  for (int number = 0; number < 20; number++) {
    drafts[number] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[number].conversation = names[number % 4];
  }
  if (msgq_enqueue_batch(queue, drafts, 20, NULL) != MSGQ_OK) return false;
  printf("sending\n");
  fflush(stdout);
  return pthread_create(&thread, NULL, run_drain, NULL) == 0 && msgq_drain_async(queue, NULL, NULL, NULL) == MSGQ_OK;
}

int role_end_while_sending(const char *path, const char *this_way) {
  pthread_t thread;
  way = this_way;
  if (is_way("atexit")) atexit(close_at_exit);
  if (!begin(path)) return 1;
  if (is_way("destructor")) atomic_store(&closes_at_end, true);
  if (is_way("transport") || is_way("handler")) pause_ms(check_timeout_ms());
  if (is_way("thread-exit") || is_way("pthread_exit")) {
    if (pthread_create(&thread, NULL, exit_soon, NULL) != 0) return 2;
    if (is_way("pthread_exit")) pthread_exit(NULL);
    pause_ms(check_timeout_ms());
  }
  while (atomic_load(&calls) < 5) pause_ms(1);
  if (is_way("exit")) exit(0);
  if (is_way("quick_exit")) quick_exit(0);
  return 0;
}
