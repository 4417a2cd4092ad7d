/* A queue over a real store with a clock of its own (M16): what waits takes no time, and everything is due when it is due. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "scene.h"

enum { second = 1000, minute = 60 * second };

static const int64_t start_time = 1700000000000;

/* A queue with a simulated clock, and a transport that answers with `verdict` and notes when it was called. */
struct world {
  struct scene scene;
  msgq_verdict verdict;
  int64_t call_time; /* how long each call takes */
  int calls;
  int64_t called[64]; /* after the start, in milliseconds */
  uint64_t tokens[64];
  int events;
};

static int64_t now_of(struct world *world) {
  int64_t now = 0;
  CHECK_RESULT(MSGQ_OK, msgq_advance(world->scene.queue, 0, &now));
  return now - start_time;
}

/* Lets time pass and returns the time since the start. */
static int64_t advance(struct world *world, int64_t ms) {
  int64_t now = 0;
  CHECK_RESULT(MSGQ_OK, msgq_advance(world->scene.queue, ms, &now));
  return now - start_time;
}

static msgq_verdict answer(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct world *world = context;
  int64_t now = 0;
  CHECK(world->calls < 64);
  CHECK_RESULT(MSGQ_OK, msgq_advance(world->scene.queue, world->call_time, &now));
  world->tokens[world->calls] = delivery->token;
  world->called[world->calls++] = now - start_time;
  out->kind = MSGQ_FAILURE_SERVER;
  return world->verdict;
}

static void count_event(void *context, const msgq_event *event) {
  (void)event;
  ((struct world *)context)->events++;
}

static void world_open(struct world *world, int64_t start, uint64_t seed) {
  struct scene *scene = &world->scene;
  CHECK_RESULT(MSGQ_OK, msgq_open_simulated(scene->path, &scene->options, start, seed, &scene->queue));
  CHECK_RESULT(MSGQ_OK, msgq_set_event_handler(scene->queue, count_event, world, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_set_transport(scene->queue, answer, world, NULL));
}

/* Mode auto, without jitter, with the ladder of 5 s, 30 s and 2 min. */
static void world_begin(struct world *world, msgq_verdict verdict) {
  memset(world, 0, sizeof *world);
  world->verdict = verdict;
  scene_begin(&world->scene);
  world->scene.options.mode = MSGQ_MODE_AUTO;
  world->scene.options.direct = true;
  world->scene.options.max_retries = 3;
  world->scene.options.jitter = 0;
  static const int64_t ladder[] = { 5 * second, 30 * second, 2 * minute };
  set_ladder(&world->scene, ladder, 3);
}

static void world_begin_open(struct world *world, msgq_verdict verdict) {
  world_begin(world, verdict);
  world_open(world, start_time, 1);
}

static void world_end(struct world *world) { scene_end(&world->scene); }

TEST(M16_the_ladder_of_5_s_30_s_and_2_min_takes_no_time) {
  struct world world;
  int64_t began = steady_ms();
  world_begin_open(&world, MSGQ_VERDICT_RETRY);
  put(&world.scene, "a", "ana", "hello");
  CHECK_NUMBER(3 * minute, advance(&world, 3 * minute));
  CHECK_NUMBER(4, world.calls);
  static const int64_t expected[] = { 0, 5 * second, 35 * second, 155 * second };
  for (int call = 0; call < 4; call++) {
    CHECK(world.called[call] >= expected[call] && world.called[call] <= expected[call] + 50);
  }
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&world.scene, "a"));
  CHECK_NUMBER(4, attempts_of(&world.scene, "a"));
  CHECK(world.events > 0);
  CHECK(steady_ms() - began < check_timeout_ms());
  world_end(&world);
}

TEST(M16_a_retry_is_made_at_its_time_and_not_before) {
  struct world world;
  world_begin_open(&world, MSGQ_VERDICT_RETRY);
  put(&world.scene, "a", "ana", "hello");
  advance(&world, 5 * second - 1);
  CHECK_NUMBER(1, world.calls);
  msgq_explanation waiting = explain(&world.scene, "a");
  CHECK_NUMBER(MSGQ_REASON_RETRYING, waiting.reason);
  int64_t left = waiting.until_ms - start_time - now_of(&world);
  CHECK(left > 0 && left <= 60);
  advance(&world, left - 1);
  CHECK_NUMBER(1, world.calls);
  advance(&world, 2);
  CHECK_NUMBER(2, world.calls);
  world_end(&world);
}

TEST(M16_a_drain_that_waits_moves_the_clock) {
  struct world world;
  world_begin(&world, MSGQ_VERDICT_PENDING);
  world.scene.options.mode = MSGQ_MODE_MANUAL;
  world.scene.options.direct = false;
  world_open(&world, start_time, 1);
  put(&world.scene, "a", "ana", "hello");
  int64_t began = steady_ms();
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  options.timeout_ms = 10 * second;
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_drain(world.scene.queue, &options, &report));
  CHECK_NUMBER(MSGQ_STOP_TIMEOUT, report.stop);
  CHECK(now_of(&world) >= 10 * second && now_of(&world) < 11 * second);
  /* The attempt times out after 30 s. */
  CHECK_NUMBER(1, drain(&world.scene).remaining);
  CHECK(now_of(&world) >= 30 * second && now_of(&world) < 31 * second);
  CHECK_NUMBER(1, world.calls);
  CHECK(steady_ms() - began < check_timeout_ms());
  world_end(&world);
}

TEST(M16_a_poll_that_waits_moves_the_clock_to_what_is_due) {
  struct world world;
  world_begin_open(&world, MSGQ_VERDICT_RETRY);
  put(&world.scene, "a", "ana", "hello");
  while (world.calls < 2) CHECK_RESULT(MSGQ_OK, msgq_poll(world.scene.queue, 10 * minute, NULL));
  CHECK(world.called[1] >= 5 * second && world.called[1] <= 5 * second + 50);
  world.verdict = MSGQ_VERDICT_SENT;
  while (world.calls < 3) CHECK_RESULT(MSGQ_OK, msgq_poll(world.scene.queue, -1, NULL));
  while (status_of(&world.scene, "a") != MSGQ_STATUS_SENT) CHECK_RESULT(MSGQ_OK, msgq_poll(world.scene.queue, 0, NULL));
  int64_t before = now_of(&world);
  size_t ran = 1;
  for (int round = 0; round < 20 && ran > 0; round++) CHECK_RESULT(MSGQ_OK, msgq_poll(world.scene.queue, 0, &ran));
  CHECK_RESULT(MSGQ_OK, msgq_poll(world.scene.queue, 7 * second, &ran));
  CHECK_NUMBER(before + 7 * second, now_of(&world));
  world_end(&world);
}

TEST(M16_the_times_of_a_message_are_those_of_its_clock) {
  struct world world;
  world_begin(&world, MSGQ_VERDICT_SENT);
  world.scene.options.expiry_ms = 60 * minute;
  world.scene.options.initial_connectivity = MSGQ_CONNECTIVITY_OFFLINE;
  world_open(&world, start_time, 1);
  advance(&world, 10 * second);
  put(&world.scene, "a", "ana", "hello");
  msgq_message *found = NULL;
  CHECK_RESULT(MSGQ_OK, msgq_get(world.scene.queue, "a", &found));
  CHECK_NUMBER(start_time + 10 * second, found->created_ms);
  CHECK_NUMBER(start_time + 10 * second + 60 * minute, found->expires_at_ms);
  msgq_message_free(found);
  advance(&world, 59 * minute);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&world.scene, "a"));
  advance(&world, 2 * minute);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&world.scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_EXPIRED, failure_of(&world.scene, "a"));
  CHECK_NUMBER(0, world.calls);
  world_end(&world);
}

TEST(M16_an_attempt_without_an_answer_times_out_when_the_clock_moves) {
  struct world world;
  world_begin(&world, MSGQ_VERDICT_PENDING);
  world.scene.options.attempt_timeout_ms = 30 * second;
  world_open(&world, start_time, 1);
  put(&world.scene, "a", "ana", "hello");
  advance(&world, 29 * second);
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&world.scene, "a"));
  advance(&world, 2 * second);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&world.scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_TIMEOUT, failure_of(&world.scene, "a"));
  msgq_outcome sent = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_complete(world.scene.queue, world.tokens[0], &sent));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&world.scene, "a"));
  world_end(&world);
}

TEST(M16_the_store_is_a_real_one) {
  struct world world;
  world_begin_open(&world, MSGQ_VERDICT_RETRY);
  put_each(&world.scene, { "a", "ana", "hello" }, { "b", "ana", "again" });
  advance(&world, second);
  scene_close(&world.scene);
  /* A year later, as another process would. */
  world.calls = 0;
  world.verdict = MSGQ_VERDICT_SENT;
  world_open(&world, start_time + 365LL * 24 * 60 * minute, 2);
  advance(&world, minute);
  CHECK_NUMBER(2, world.calls);
  CHECK_NUMBER(2, counts_of(&world.scene, NULL).sent);
  scene_close(&world.scene);
  /* By the system's clock. */
  CHECK_RESULT(MSGQ_OK, msgq_open(world.scene.path, NULL, &world.scene.queue));
  CHECK_NUMBER(2, counts_of(&world.scene, NULL).sent);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_advance(world.scene.queue, 1, NULL));
  CHECK(strstr(msgq_error_detail(), "simulated") != NULL);
  world_end(&world);
}

/* Writes the times of the calls for one seed. */
static void calls_of(uint64_t seed, int64_t called[4], char id[MSGQ_ID_SIZE]) {
  struct world world;
  world_begin(&world, MSGQ_VERDICT_RETRY);
  world.scene.options.jitter = 0.5;
  world_open(&world, start_time, seed);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(world.scene.queue, &draft, id));
  advance(&world, 10 * minute);
  CHECK_NUMBER(4, world.calls);
  memcpy(called, world.called, 4 * sizeof *called);
  world_end(&world);
}

TEST_LONG(M16_a_seed_determines_what_is_random) {
  int64_t first[4], second_run[4], other[4];
  char first_id[MSGQ_ID_SIZE], second_id[MSGQ_ID_SIZE], other_id[MSGQ_ID_SIZE];
  calls_of(7, first, first_id);
  calls_of(7, second_run, second_id);
  calls_of(8, other, other_id);
  CHECK(memcmp(first, second_run, sizeof first) == 0);
  CHECK_TEXT(first_id, second_id);
  CHECK(memcmp(first, other, sizeof first) != 0);
}

TEST(M16_a_close_waits_in_simulated_time) {
  struct world world;
  world_begin_open(&world, MSGQ_VERDICT_PENDING);
  put(&world.scene, "a", "ana", "hello");
  while (world.calls == 0) CHECK_RESULT(MSGQ_OK, msgq_poll(world.scene.queue, 0, NULL));
  int64_t began = steady_ms();
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(world.scene.queue, 10 * second));
  world.scene.queue = NULL;
  CHECK(steady_ms() - began < check_timeout_ms());
  world_end(&world);
}

TEST(M16_bad_arguments_are_refused) {
  struct world world;
  int64_t now = 4711;
  msgq_queue *queue = NULL;
  world_begin(&world, MSGQ_VERDICT_SENT);
  const char *path = world.scene.path;
  CHECK_RESULT(MSGQ_INVALID, msgq_open_simulated(NULL, NULL, 0, 0, &queue));
  CHECK_RESULT(MSGQ_INVALID, msgq_open_simulated(path, NULL, 0, 0, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_open_simulated(path, NULL, -1, 0, &queue));
  CHECK_RESULT(MSGQ_INVALID, msgq_open_simulated(path, NULL, 253402300800000, 0, &queue));
  world.scene.options.callbacks = MSGQ_CALLBACKS_POLL_TIMER;
  CHECK_RESULT(MSGQ_INVALID, msgq_open_simulated(path, &world.scene.options, 0, 0, &queue));
  CHECK(queue == NULL);
  world.scene.options.callbacks = MSGQ_CALLBACKS_THREAD;
  world_open(&world, start_time, 1);
  CHECK_RESULT(MSGQ_INVALID, msgq_advance(world.scene.queue, -1, &now));
  CHECK_RESULT(MSGQ_INVALID, msgq_advance(world.scene.queue, INT64_MAX, &now));
  CHECK_NUMBER(4711, now);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_monitor_start(world.scene.queue));
  CHECK_NUMBER(0, now_of(&world));
  CHECK_RESULT(MSGQ_INVALID, msgq_advance(world.scene.queue, 3650LL * 24 * 60 * minute + 1, NULL));
  world_end(&world);
}

TEST(M16_the_default_start_is_now) {
  struct world world;
  int64_t now = 0;
  world_begin(&world, MSGQ_VERDICT_SENT);
  int64_t before = wall_ms();
  world_open(&world, 0, 0);
  CHECK_RESULT(MSGQ_OK, msgq_advance(world.scene.queue, 0, &now));
  CHECK(now >= before && now <= wall_ms());
  world_end(&world);
}
