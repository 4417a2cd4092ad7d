/* The limit of the rate, and the ramp after an outage. The transports note when they are called. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "process.h"
#include "scene.h"

enum { most_calls = 512 };

/* A thread may lose the processor between the beginning of an attempt and the call: windows are this much longer. */
static const double tolerance = 0.25;

struct tally {
  pthread_mutex_t lock;
  int count;
  double times[most_calls]; /* seconds of the clock that the queue uses */
  int inside, most_inside;
  int64_t each_ms; /* how long a call takes */
  msgq_verdict verdict;
  int overloaded; /* so many first calls are answered with 503 */
};

static double clock_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static msgq_verdict tally_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct tally *tally = context;
  double now = clock_seconds();
  (void)delivery;
  pthread_mutex_lock(&tally->lock);
  int number = tally->count++;
  if (number < most_calls) tally->times[number] = now;
  if (++tally->inside > tally->most_inside) tally->most_inside = tally->inside;
  pthread_mutex_unlock(&tally->lock);
  if (tally->each_ms > 0) pause_ms(tally->each_ms);
  pthread_mutex_lock(&tally->lock);
  tally->inside--;
  pthread_mutex_unlock(&tally->lock);
  if (number >= tally->overloaded) return tally->verdict;
  out->code = 503;
  return MSGQ_VERDICT_HTTP;
}

static int calls_of(struct tally *tally) {
  pthread_mutex_lock(&tally->lock);
  int count = tally->count;
  pthread_mutex_unlock(&tally->lock);
  return count;
}

static void begin(struct scene *scene, struct tally *tally, double rate, uint32_t burst, int64_t ramp_ms) {
  scene_begin(scene);
  memset(tally, 0, sizeof *tally);
  pthread_mutex_init(&tally->lock, NULL);
  tally->verdict = MSGQ_VERDICT_SENT;
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.direct = true;
  scene->options.online_debounce_ms = 0;
  scene->options.rate_per_second = rate;
  scene->options.rate_burst = burst;
  scene->options.ramp_up_ms = ramp_ms;
}

/* Returns the time before the opening. */
static double open_with(struct scene *scene, struct tally *tally) {
  double before = clock_seconds();
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, tally_send, tally, NULL));
  return before;
}

static void put_number(struct scene *scene, int number, int conversations) {
  char id[16], conversation[16];
  snprintf(id, sizeof id, "m%d", number);
  snprintf(conversation, sizeof conversation, "c%d", number % conversations);
  put(scene, id, conversation, "hello");
}

/* Checks every window between two calls, and exactly those from the opening, when the allowance is empty. */
static void check_windows(const struct tally *tally, double opened, double rate, double burst) {
  for (int last = 0; last < tally->count; last++) {
    if (!CHECK(last + 1 <= rate * (tally->times[last] - opened))) return;
    for (int first = 0; first <= last; first++) {
      double seconds = tally->times[last] - tally->times[first] + (last > first ? tolerance : 0);
      if (!CHECK(last - first + 1 <= rate * seconds + burst)) return;
    }
  }
}

TEST_LONG(F3_no_window_has_more_attempts_than_the_rate_whatever_starts_them) {
  static const int64_t ladder[] = { 10, 10, 10, 10, 10, 10, 10, 10 };
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 40, 3, 0);
  set_ladder(&scene, ladder, 8);
  scene.options.max_retries = 8;
  scene.options.max_in_flight = 4;
  tally.overloaded = 8; /* 8 retries of the ladder */
  double opened = open_with(&scene, &tally);
  set_offline(&scene);
  for (int number = 0; number < 12; number++) put_number(&scene, number, 6);
  set_online(&scene);
  for (int number = 12; number < 24; number++) put_number(&scene, number, 24); /* direct */
  msgq_result result = msgq_send_now(scene.queue, "m23");
  CHECK(result == MSGQ_OK || result == MSGQ_BUSY || result == MSGQ_CONFLICT);
  drain(&scene);
  AWAIT(counts_of(&scene, NULL).sent == 24);
  CHECK_NUMBER(32, calls_of(&tally));
  check_windows(&tally, opened, 40, 3);
  scene_end(&scene);
}

/* Notes the calls of a batch transport. */
struct batches {
  int count;
  size_t messages[most_calls];
  double entered[most_calls], left[most_calls];
};

static void batches_send(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  struct batches *batches = context;
  double now = clock_seconds();
  (void)deliveries;
  for (size_t index = 0; index < count; index++) outcomes[index].verdict = MSGQ_VERDICT_SENT;
  if (batches->count == most_calls) return;
  batches->entered[batches->count] = now;
  batches->messages[batches->count] = count;
  batches->left[batches->count++] = clock_seconds();
}

/* Checks every window of calls that were made one after another. A call began between the return of the one before it, or the opening, and
   its entry; so these bounds need no tolerance, also when a thread loses the processor. */
static void check_batches(const struct batches *batches, double opened, double rate, double burst) {
  for (int last = 0; last < batches->count; last++) {
    double messages = 0;
    if (!CHECK((double)batches->messages[last] <= burst)) return;
    for (int first = last; first >= 0; first--) {
      double since = first > 0 ? batches->left[first - 1] : opened;
      messages += (double)batches->messages[first];
      if (!CHECK(messages <= rate * (batches->entered[last] - since) + burst)) return;
    }
  }
}

/* The allowance grows while the bodies of a batch are read. */
TEST_LONG(F3_B1_no_window_has_more_messages_than_the_rate_in_batches) {
  enum { messages = 500, body_size = 32768 };
  static char body[body_size];
  static struct batches batches;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 2000, 40, 0);
  scene.options.mode = MSGQ_MODE_MANUAL;
  scene.options.direct = false;
  memset(&batches, 0, sizeof batches);
  memset(body, 'b', sizeof body);
  double opened = clock_seconds();
  scene_open(&scene);
  for (int number = 0; number < messages; number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = "ana";
    draft.body = body;
    draft.body_size = sizeof body;
    REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  }
  options.max_messages = 1000;
  options.max_bytes = 1 << 28;
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, batches_send, &batches, NULL, &options));
  CHECK_NUMBER(messages, drain(&scene).sent);
  CHECK(batches.count > 1 && batches.count < most_calls);
  check_batches(&batches, opened, 2000, 40);
  scene_end(&scene);
}

/* The bodies of a batch are copied before the call: the rate counts from the call. The tolerance is for a thread that loses the processor at
   the call; the copy takes several times as long. */
TEST_LONG(F3_B1_the_rate_counts_from_the_call_after_a_large_body_was_copied) {
  enum { body_size = 64 << 20 };
  static struct batches batches;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 10, 1, 0);
  scene.options.mode = MSGQ_MODE_MANUAL;
  scene.options.direct = false;
  scene.options.limit_body = body_size;
  memset(&batches, 0, sizeof batches);
  scene_open(&scene);
  char *body = calloc(1, body_size);
  REQUIRE(body != NULL);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana";
  draft.body = body;
  draft.body_size = body_size;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  free(body);
  put(&scene, "small", "ana", "hello");
  options.max_bytes = body_size;
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, batches_send, &batches, NULL, &options));
  CHECK_NUMBER(2, drain(&scene).sent);
  REQUIRE(batches.count == 2);
  CHECK(batches.entered[1] - batches.entered[0] >= 0.1 - 0.003);
  scene_end(&scene);
}

TEST_LONG(F3_attempts_that_stay_pending_count) {
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 20, 0, 0);
  scene.options.max_in_flight = 64;
  scene.options.attempt_timeout_ms = 86400000;
  tally.verdict = MSGQ_VERDICT_PENDING;
  double opened = open_with(&scene, &tally);
  for (int number = 0; number < 12; number++) put_number(&scene, number, 12);
  AWAIT(calls_of(&tally) == 12);
  check_windows(&tally, opened, 20, 1);
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 0));
  scene.queue = NULL;
  scene_end(&scene);
}

TEST(F3_a_restart_gives_no_new_burst) {
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 10, 5, 0);
  double opened = 0;
  for (int number = 0; number < 3; number++) {
    double before = open_with(&scene, &tally);
    if (number == 0) opened = before;
    put_number(&scene, number, 1);
    AWAIT(counts_of(&scene, NULL).sent == (uint64_t)number + 1);
    CHECK(tally.times[number] - before >= 0.1);
    scene_close(&scene);
  }
  check_windows(&tally, opened, 10, 1);
  scene_end(&scene);
}

TEST(F3_polled_queues_keep_the_rate) {
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 30, 1, 0);
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  double opened = open_with(&scene, &tally);
  for (int number = 0; number < 6; number++) put_number(&scene, number, 3);
  /* The descriptor becomes ready when the rate permits an attempt. */
  for (int64_t end = steady_ms() + check_timeout_ms(); calls_of(&tally) < 6 && steady_ms() < end;) {
    CHECK_RESULT(MSGQ_OK, msgq_poll(scene.queue, 10000, NULL));
  }
  CHECK_NUMBER(6, calls_of(&tally));
  check_windows(&tally, opened, 30, 1);
  scene_end(&scene);
}

TEST_ALONE(F3_a_wait_for_the_rate_uses_no_processor_time_and_blocks_nothing_else) {
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 0.0002, 0, 0);
  scene.options.max_in_flight = 8;
  open_with(&scene, &tally);
  for (int number = 0; number < 100; number++) put_number(&scene, number, 50);
  put_timed(&scene, "expires", "c7", 0, wall_ms() + 150);
  REQUIRE_OK(msgq_send_now(scene.queue, "m0"));
  int64_t cpu = process_cpu_ms(), start = steady_ms();
  AWAIT(failure_of(&scene, "expires") == MSGQ_FAILURE_EXPIRED);
  while (steady_ms() - start < 1000) pause_ms(200);
  CHECK(process_cpu_ms() - cpu <= 300);
  CHECK_NUMBER(0, calls_of(&tally));
  /* A drain waits with it, until its timeout. */
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  options.timeout_ms = 100;
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_drain(scene.queue, &options, &report));
  CHECK_NUMBER(MSGQ_STOP_TIMEOUT, report.stop);
  /* So does a request on demand, which ends when the connection is lost. */
  set_offline(&scene);
  AWAIT(failure_of(&scene, "m0") == MSGQ_FAILURE_OFFLINE || status_of(&scene, "m0") == MSGQ_STATUS_QUEUED);
  CHECK_NUMBER(0, calls_of(&tally));
  scene_end(&scene);
}

TEST_LONG(F3_an_attempt_times_out_while_others_wait_for_the_rate) {
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 1, 1, 0);
  scene.options.max_in_flight = 4;
  scene.options.attempt_timeout_ms = 50;
  tally.verdict = MSGQ_VERDICT_PENDING;
  open_with(&scene, &tally);
  put_number(&scene, 0, 2);
  put_number(&scene, 1, 2);
  AWAIT(failure_of(&scene, "m0") == MSGQ_FAILURE_TIMEOUT);
  CHECK(calls_of(&tally) == 1 || clock_seconds() - tally.times[0] >= 1);
  AWAIT(calls_of(&tally) == 2);
  CHECK(tally.times[1] - tally.times[0] > 1 - tolerance);
  msgq_close(scene.queue, -1);
  scene.queue = NULL;
  scene_end(&scene);
}

TEST(F3_explain_and_the_state_give_the_reason_and_the_time) {
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 0.001, 1, 0);
  int64_t before = wall_ms();
  open_with(&scene, &tally);
  put_number(&scene, 0, 2);
  put_number(&scene, 1, 2);
  for (int number = 0; number < 2; number++) {
    msgq_explanation explanation = explain(&scene, number == 0 ? "m0" : "m1");
    CHECK_NUMBER(MSGQ_REASON_RATE, explanation.reason);
    CHECK_TEXT("The rate of 1 in 17 min permits the next attempt in 17 min.", explanation.text);
    CHECK(explanation.until_ms >= before + 1000000 - 100 && explanation.until_ms <= wall_ms() + 1000001);
  }
  msgq_state state = state_of(&scene);
  CHECK_NUMBER(MSGQ_REASON_RATE, state.reason);
  CHECK_TEXT("The rate of 1 in 17 min permits the next attempt in 17 min.", state.text);
  scene_end(&scene);
}

TEST(F3_F4_bad_options_are_refused) {
  static const struct {
    double rate;
    uint32_t burst;
    int64_t ramp_ms;
    msgq_result result;
  } table[] = {
    { 0, 0, 0, MSGQ_OK }, { 0, 7, 0, MSGQ_OK }, { 0.001, 0, 0, MSGQ_OK }, { 1000000, UINT32_MAX, 86400000, MSGQ_OK },
    { -0.1, 0, 0, MSGQ_INVALID }, { 1000000.1, 0, 0, MSGQ_INVALID }, { (double)NAN, 0, 0, MSGQ_INVALID },
    { (double)INFINITY, 0, 0, MSGQ_INVALID }, { -(double)INFINITY, 0, 0, MSGQ_INVALID }, { 0, 0, 1, MSGQ_INVALID },
    { 0, 5, 1000, MSGQ_INVALID }, { 1, 0, -1, MSGQ_INVALID }, { 1, 0, 86400001, MSGQ_INVALID },
  };
  struct scene scene;
  scene_begin(&scene);
  for (size_t row = 0; row < sizeof table / sizeof *table; row++) {
    msgq_queue *queue = NULL;
    scene.options.rate_per_second = table[row].rate;
    scene.options.rate_burst = table[row].burst;
    scene.options.ramp_up_ms = table[row].ramp_ms;
    CHECK_RESULT(table[row].result, msgq_open(scene.path, &scene.options, &queue));
    if (queue != NULL) CHECK_RESULT(MSGQ_OK, msgq_close(queue, -1));
  }
  scene_end(&scene);
}

/* The number of attempts that a ramp from 1 to `rate` permits in its first seconds. */
static double ramped(double rate, double ramp, double seconds) { return 1 + seconds + (rate - 1) * seconds * seconds / (2 * ramp); }

TEST_LONG(F4_after_an_outage_rate_and_attempts_in_flight_grow_slowly) {
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 200, 20, 4000);
  scene.options.max_in_flight = 16;
  tally.each_ms = 50;
  open_with(&scene, &tally);
  set_offline(&scene);
  for (int number = 0; number < 60; number++) put_number(&scene, number, 60);
  set_online(&scene);
  AWAIT(calls_of(&tally) >= 6);
  CHECK(strstr(explain(&scene, "m59").text, "slower after an outage") != NULL || reason_of(&scene, "m59") != MSGQ_REASON_RATE);
  AWAIT(counts_of(&scene, NULL).sent == 60);
  for (int call = 0; call < tally.count; call++) {
    if (!CHECK(call + 1 <= ramped(200, 4, tally.times[call] - tally.times[0] + tolerance))) break;
  }
  double seconds = tally.times[59] - tally.times[0];
  CHECK(seconds > 1 - tolerance);
  CHECK(tally.most_inside <= (int)(1 + 15 * (seconds + tolerance) / 4) || seconds > 4);
  scene_end(&scene);
}

TEST_LONG(F4_an_overloaded_receiver_halves_the_rate) {
  static const int64_t ladder[] = { 3600000 };
  struct scene scene;
  struct tally tally;
  begin(&scene, &tally, 2, 1, 86400000);
  set_ladder(&scene, ladder, 1);
  tally.overloaded = most_calls;
  open_with(&scene, &tally);
  for (int number = 0; number < 6; number++) put_number(&scene, number, 6);
  AWAIT(failure_of(&scene, "m0") == MSGQ_FAILURE_SERVER);
  /* Each further attempt is followed by a wait of a second. */
  AWAIT(strstr(explain(&scene, "m5").text, "Sending is slower after an outage: the present rate of 1 per second permits") != NULL);
  AWAIT(calls_of(&tally) >= 3);
  CHECK(tally.times[1] - tally.times[0] > 1 - tolerance && tally.times[2] - tally.times[1] > 1 - tolerance);
  scene_end(&scene);
}
