/* Large batches: their beginning and their outcomes are committed in parts, between which other calls run (B1, F9). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "faults.h"
#include "scene.h"

enum { most = 1000, conversations = 10 };

/* A transport that counts the deliveries of each message. Message n is the n / conversations-th of conversation n % conversations. */
struct taker {
  atomic_int calls;
  size_t largest;          /* messages in one call */
  atomic_int times[most];  /* deliveries of each message */
  uint64_t tokens[most];
  atomic_bool is_pending;  /* the messages are left pending */
};

static void take(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  struct taker *taker = context;
  int lasts[conversations];
  for (int lane = 0; lane < conversations; lane++) lasts[lane] = -1;
  for (size_t index = 0; index < count; index++) {
    int number = atoi(deliveries[index].id + 1), lane = number % conversations;
    CHECK(number >= 0 && number < most);
    CHECK_NUMBER(0, atomic_fetch_add(&taker->times[number], 1));
    CHECK_NUMBER(1, deliveries[index].attempt);
    /* Those of a conversation are next to each other, in order. */
    CHECK(number > lasts[lane]);
    CHECK(lasts[lane] < 0 || strcmp(deliveries[index].conversation, deliveries[index - 1].conversation) == 0);
    lasts[lane] = number;
    taker->tokens[index] = deliveries[index].token;
    outcomes[index].verdict = atomic_load(&taker->is_pending) ? MSGQ_VERDICT_PENDING : MSGQ_VERDICT_SENT;
  }
  if (count > taker->largest) taker->largest = count;
  atomic_fetch_add(&taker->calls, 1);
}

static void connect_taker(struct scene *scene, struct taker *taker) {
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  options.max_messages = most;
  REQUIRE_OK(msgq_set_batch_transport(scene->queue, take, taker, NULL, &options));
}

static const char *name_of(int number, char name[16]) {
  snprintf(name, 16, "m%d", number);
  return name;
}

static void fill(struct scene *scene) {
  static char ids[most][16], names[conversations][16];
  msgq_draft *drafts = calloc(most, sizeof *drafts);
  const msgq_draft draft = MSGQ_DRAFT_INIT;
  REQUIRE(drafts != NULL);
  for (int number = 0; number < most; number++) {
    drafts[number] = draft;
    drafts[number].id = name_of(number, ids[number]);
    drafts[number].conversation = name_of(number % conversations, names[number % conversations]);
    drafts[number].body = "hello";
    drafts[number].body_size = 5;
  }
  REQUIRE_OK(msgq_enqueue_batch(scene->queue, drafts, most, NULL));
  free(drafts);
}

/* Checks that each message was delivered and sent once. */
static void check_sent(struct scene *scene, struct taker *taker) {
  msgq_counts counts = counts_of(scene, NULL);
  CHECK(counts.sent == most && counts.queued == 0 && counts.sending == 0 && counts.failed == 0);
  CHECK_NUMBER(0, state_of(scene).in_flight);
  CHECK_NUMBER(1, atomic_load(&taker->calls));
  CHECK_NUMBER(most, taker->largest);
  char name[16];
  for (int number = 0; number < most; number++) {
    CHECK_NUMBER(1, atomic_load(&taker->times[number]));
    CHECK_NUMBER(1, attempts_of(scene, name_of(number, name)));
  }
}

static void check_path(struct scene *scene) {
  char name[16], path[128];
  for (int number = 0; number < most; number += 97) {
    name_of(number, name);
    AWAIT(journal_reached(&scene->journal, name, MSGQ_STATUS_SENT));
    journal_path(&scene->journal, name, path, sizeof path);
    CHECK_TEXT("none>queued>sending>sent", path);
  }
}

static void send_all(bool polled, bool durable, bool holds) {
  struct scene scene;
  struct taker *taker = calloc(1, sizeof *taker);
  REQUIRE(taker != NULL);
  scene_begin(&scene);
  scene.options.callbacks = polled ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
  scene.options.durable_outcomes = durable;
  scene.options.hold_interrupted = holds;
  scene_open(&scene);
  fill(&scene);
  connect_taker(&scene, taker);
  int before = atomic_load(&fault_syncs);
  CHECK_NUMBER(most, drain(&scene).sent);
  int flushes = atomic_load(&fault_syncs) - before;
  /* Four for the beginnings (with hold_interrupted one) and eight for the outcomes; checkpoints add some. */
  if (durable && !CHECK(flushes >= (holds ? 9 : 12) && flushes <= 20)) fprintf(stderr, "  %d flushes\n", flushes);
  check_sent(&scene, taker);
  if (polled) while (msgq_poll(scene.queue, 0, NULL) == MSGQ_OK && !journal_reached(&scene.journal, "m999", MSGQ_STATUS_SENT)) {}
  check_path(&scene);
  scene_end(&scene);
  free(taker);
}

TEST_LONG(B1_F9_a_batch_of_1000_is_one_call) {
  for (int kind = 0; kind < check_times(8, 2); kind++) send_all(kind & 1, kind & 2, kind & 4);
}

/* What another thread does while the batch begins. */
enum act { ACT_PAUSE, ACT_PAUSE_ONE, ACT_OFFLINE, ACT_TRANSPORT, ACT_CLEAR, ACT_CLOSE, ACTS };

struct actor {
  struct scene *scene;
  struct taker *other;
  enum act act;
  msgq_result result;
};

static void *act(void *context) {
  struct actor *actor = context;
  msgq_queue *queue = actor->scene->queue;
  int64_t end = steady_ms() + check_timeout_ms();
  msgq_state state = MSGQ_STATE_INIT;
  /* A part of it is in flight, or all of it; this thread has its turn between two parts. */
  while (msgq_get_state(queue, &state) == MSGQ_OK && state.in_flight == 0 && steady_ms() < end) {}
  switch (actor->act) {
    case ACT_PAUSE: actor->result = msgq_pause(queue, NULL); break;
    case ACT_PAUSE_ONE: actor->result = msgq_pause(queue, "m7"); break;
    case ACT_OFFLINE: actor->result = msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE, false); break;
    case ACT_TRANSPORT: {
      msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
      options.max_messages = most;
      actor->result = msgq_set_batch_transport(queue, take, actor->other, NULL, &options);
      break;
    }
    case ACT_CLEAR: actor->result = msgq_clear(queue, "m7"); break;
    default: actor->result = msgq_close(queue, check_timeout_ms()); break;
  }
  return NULL;
}

static void *drain_all(void *context) {
  struct scene *scene = context;
  (void)msgq_drain(scene->queue, NULL, NULL);
  return NULL;
}

/* Undoes the act and sends what is left. */
static void go_on(struct scene *scene, struct taker *taker, enum act what) {
  switch (what) {
    case ACT_PAUSE: REQUIRE_OK(msgq_resume(scene->queue, NULL)); break;
    case ACT_PAUSE_ONE: REQUIRE_OK(msgq_resume(scene->queue, "m7")); break;
    case ACT_OFFLINE: set_online(scene); break;
    case ACT_CLOSE: connect_taker(scene, taker); break;
    default: break;
  }
  drain(scene);
}

/* Returns whether the act came between two parts of the batch. */
static bool interrupt(enum act what, bool polled, bool durable) {
  struct scene scene;
  struct taker *taker = calloc(1, sizeof *taker), *other = calloc(1, sizeof *other);
  REQUIRE(taker != NULL && other != NULL);
  scene_begin(&scene);
  scene.options.callbacks = polled ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
  scene.options.durable_outcomes = durable;
  scene_open(&scene);
  fill(&scene);
  connect_taker(&scene, taker);
  struct actor actor = { &scene, other, what, MSGQ_OK };
  pthread_t acting, draining;
  REQUIRE(pthread_create(&acting, NULL, act, &actor) == 0);
  REQUIRE(pthread_create(&draining, NULL, drain_all, &scene) == 0);
  pthread_join(acting, NULL);
  CHECK_RESULT(MSGQ_OK, actor.result);
  pthread_join(draining, NULL);
  if (what == ACT_CLOSE) {
    scene.queue = NULL;
    scene_open(&scene);
  }
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.sending == 0 && counts.failed == 0 && state_of(&scene).in_flight == 0);
  size_t delivered = 0;
  char name[16];
  for (int number = 0; number < most; number++) {
    int times = atomic_load(&taker->times[number]) + atomic_load(&other->times[number]);
    delivered += times > 0;
    /* The attempts that were revoked have not begun. */
    if (status_of(&scene, name_of(number, name)) >= 0) CHECK_NUMBER(times, attempts_of(&scene, name));
  }
  CHECK_NUMBER(delivered, counts.sent);
  bool is_whole = taker->largest == most;
  CHECK(is_whole || what == ACT_PAUSE_ONE || what == ACT_CLEAR || atomic_load(&taker->calls) == 0);
  go_on(&scene, taker, what);
  size_t sent = counts_of(&scene, NULL).sent;
  CHECK(what == ACT_CLEAR ? sent >= most - most / conversations : sent == most);
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  for (int number = 0; number < most; number++) {
    int status = status_of(&scene, name_of(number, name));
    int times = atomic_load(&taker->times[number]) + atomic_load(&other->times[number]);
    CHECK_NUMBER(status < 0 ? 0 : 1, times);
  }
  scene_end(&scene);
  free(taker);
  free(other);
  return !is_whole;
}

TEST_LONG(B1_F9_what_comes_between_two_parts_of_a_batch_prevents_its_call) {
  for (enum act what = 0; what < ACTS; what++) {
    /* Under valgrind each act with one of the kinds, each kind with one act or two. */
    const int one = what % 4;
    for (int kind = check_times(0, one); kind < check_times(4, one + 1); kind++) {
      bool was_between = false;
      for (int round = 0; round < 50 && !was_between; round++) was_between = interrupt(what, kind & 1, kind & 2);
      if (!CHECK(was_between)) fprintf(stderr, "  act %d, kind %d\n", what, kind);
    }
  }
}

/* Answers a quarter of the batch from each thread, from the last token to the first. */
struct answerer {
  struct scene *scene;
  struct taker *taker;
  size_t first;
};

static void *answer(void *context) {
  struct answerer *answerer = context;
  enum { part = most / 4 };
  uint64_t tokens[part];
  msgq_result results[part];
  msgq_outcome *outcomes = calloc(part, sizeof *outcomes);
  if (outcomes == NULL) return NULL;
  for (size_t index = 0; index < part; index++) {
    tokens[index] = answerer->taker->tokens[most - 1 - answerer->first - 4 * index];
    outcomes[index] = outcome_of(MSGQ_VERDICT_SENT);
  }
  CHECK_RESULT(MSGQ_OK, msgq_complete_batch(answerer->scene->queue, tokens, outcomes, part, results));
  for (size_t index = 0; index < part; index++) CHECK_NUMBER(MSGQ_OK, results[index]);
  CHECK_RESULT(MSGQ_OK, msgq_complete_batch(answerer->scene->queue, tokens, outcomes, part, results));
  for (size_t index = 0; index < part; index++) CHECK_NUMBER(MSGQ_CONFLICT, results[index]);
  free(outcomes);
  return NULL;
}

TEST_LONG(B1_F9_outcomes_of_a_large_batch_arrive_from_several_threads_in_any_order) {
  for (int kind = 0; kind < check_times(4, 1); kind++) {
    struct scene scene;
    struct taker *taker = calloc(1, sizeof *taker);
    REQUIRE(taker != NULL);
    atomic_store(&taker->is_pending, true);
    scene_begin(&scene);
    scene.options.mode = MSGQ_MODE_AUTO;
    scene.options.durable_outcomes = kind & 1;
    scene.options.keep_sent = kind & 2 ? -1 : 0;
    scene_open(&scene);
    REQUIRE_OK(msgq_pause(scene.queue, NULL));
    fill(&scene);
    connect_taker(&scene, taker);
    REQUIRE_OK(msgq_resume(scene.queue, NULL));
    AWAIT(atomic_load(&taker->calls) == 1);
    AWAIT(state_of(&scene).in_flight == most);
    pthread_t threads[4];
    struct answerer answerers[4];
    for (size_t index = 0; index < 4; index++) {
      answerers[index] = (struct answerer) { &scene, taker, index };
      REQUIRE(pthread_create(&threads[index], NULL, answer, &answerers[index]) == 0);
    }
    for (size_t index = 0; index < 4; index++) pthread_join(threads[index], NULL);
    CHECK_NUMBER(0, state_of(&scene).in_flight);
    CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
    CHECK_NUMBER(kind & 2 ? most : 0, counts_of(&scene, NULL).sent);
    CHECK_NUMBER(1, atomic_load(&taker->calls));
    check_path(&scene);
    scene_end(&scene);
    free(taker);
  }
}
