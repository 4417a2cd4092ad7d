/* Many conversations in parallel, answers from many threads, and the number of threads (A10, X8). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "answers.h"
#include "check.h"
#include "process.h"
#include "scene.h"
#include "stub.h"

static void put_rounds(struct scene *scene, int conversations, int rounds) {
  char name[16], id[32];
  for (int round = 0; round < rounds; round++) {
    for (int number = 0; number < conversations; number++) {
      snprintf(name, sizeof name, "c%d", number);
      snprintf(id, sizeof id, "%s-%d", name, round);
      put(scene, id, name, "hello");
    }
  }
}

/* Opens an automatic queue that is offline. */
static void open_offline(struct scene *scene, uint32_t in_flight) {
  scene_begin(scene);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.max_in_flight = in_flight;
  scene_open(scene);
  set_offline(scene);
}

static void open_with_answers(struct scene *scene, struct answers *answers, uint32_t in_flight) {
  open_offline(scene, in_flight);
  answers_begin(answers, scene->queue);
  REQUIRE_OK(msgq_set_transport(scene->queue, answers_send, answers, NULL));
}

TEST_ALONE(A10_sixty_four_attempts_in_flight_use_few_threads) {
  struct scene scene;
  struct answers answers;
  size_t base = process_threads();
  open_with_answers(&scene, &answers, 64);
  put_rounds(&scene, 70, 3);
  set_online(&scene);
  AWAIT(answers_open(&answers) == 64);
  pause_ms(50);
  CHECK_NUMBER(64, answers_open(&answers));
  CHECK_NUMBER(64, counts_of(&scene, NULL).sending);
  size_t waiting = process_threads();
  answers_serve(&answers, 1, 210);
  AWAIT(counts_of(&scene, NULL).sent == 210);
  size_t after = process_threads();
  if (!CHECK(waiting <= base + 4 && after <= base + 4)) fprintf(stderr, "  %zu, %zu, then %zu threads\n", base, waiting, after);
  CHECK_NUMBER(210, answers.calls);
  CHECK_NUMBER(0, answers.disorder);
  CHECK_NUMBER(0, answers.overlaps);
  CHECK_NUMBER(64, answers.most_open);
  scene_end(&scene);
  answers_end(&answers);
}

/* Sends 1,600 messages of 16 conversations. Returns how many write calls that took. */
static int64_t writes_of_drain(void) {
  enum { conversations = 16, rounds = 100, total = conversations * rounds };
  struct scene scene;
  struct stub stub;
  open_offline(&scene, conversations);
  put_rounds(&scene, conversations, rounds);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  int64_t before = process_writes();
  set_online(&scene);
  AWAIT(counts_of(&scene, NULL).sent == total);
  int64_t writes = process_writes() - before;
  scene_end(&scene);
  return writes;
}

/* A commit writes the log at least once, and each attempt has a beginning and an end. Alone, because calls are quick neither under
   valgrind nor while other tests run; a busy machine may interrupt them, too. */
TEST_ALONE(A10_attempts_with_quick_calls_share_commits) {
  int64_t least = INT64_MAX;
  for (int attempt = 0; attempt < 5 && least >= 1600; attempt++) {
    int64_t writes = writes_of_drain();
    if (writes < least) least = writes;
  }
  if (!CHECK(least < 1600)) fprintf(stderr, "  %lld writes for 1600 messages\n", (long long)least);
}

struct pausing {
  msgq_queue *queue;
  atomic_int calls;
  atomic_int when_paused; /* the calls that had begun when msgq_pause returned */
};

static msgq_verdict pausing_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct pausing *pausing = context;
  (void)delivery;
  (void)out;
  if (atomic_fetch_add(&pausing->calls, 1) != 200) return MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_pause(pausing->queue, NULL));
  atomic_store(&pausing->when_paused, atomic_load(&pausing->calls));
  return MSGQ_VERDICT_SENT;
}

/* Attempts that began together with others, and whose calls were not made, are put back. */
TEST_LONG(Q16_after_a_pause_no_call_begins_of_attempts_that_wait_for_it) {
  enum { conversations = 16, rounds = 40, total = conversations * rounds };
  struct scene scene;
  struct pausing pausing = { 0 };
  open_offline(&scene, conversations);
  put_rounds(&scene, conversations, rounds);
  pausing.queue = scene.queue;
  REQUIRE_OK(msgq_set_transport(scene.queue, pausing_send, &pausing, NULL));
  set_online(&scene);
  AWAIT(atomic_load(&pausing.when_paused) > 0 && counts_of(&scene, NULL).sending == 0);
  int calls = atomic_load(&pausing.calls);
  /* Each of three other threads may be between taking its call and making it. */
  CHECK(calls <= atomic_load(&pausing.when_paused) + 3);
  CHECK_NUMBER(calls, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(total - calls, counts_of(&scene, NULL).queued);
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  REQUIRE_OK(msgq_stats(scene.queue, &statistics));
  CHECK_NUMBER(calls, statistics.attempts);
  REQUIRE_OK(msgq_resume(scene.queue, NULL));
  AWAIT(counts_of(&scene, NULL).sent == total);
  CHECK_NUMBER(total, atomic_load(&pausing.calls));
  scene_end(&scene);
}

TEST_LONG(X8_answers_from_many_threads_at_once) {
  struct scene scene;
  struct answers answers;
  const int rounds = check_times(10, 3), total = 40 * rounds;
  open_with_answers(&scene, &answers, 32);
  put_rounds(&scene, 40, rounds);
  set_online(&scene);
  /* Two threads answer each token: one answer is accepted. */
  answers.twice = true;
  answers_serve(&answers, 8, (unsigned)total);
  AWAIT(counts_of(&scene, NULL).sent == (uint64_t)total);
  CHECK_NUMBER(total, answers.calls);
  CHECK_NUMBER(total, answers.accepted);
  CHECK_NUMBER(total, answers.refused);
  CHECK_NUMBER(0, answers.unexpected);
  CHECK_NUMBER(0, answers.disorder);
  scene_end(&scene);
  answers_end(&answers);
}

struct early {
  msgq_queue *queue;
  msgq_result first, second;
};

static msgq_verdict answering_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct early *early = context;
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  (void)out;
  outcome.verdict = MSGQ_VERDICT_SENT;
  early->first = msgq_complete(early->queue, delivery->token, &outcome);
  outcome.verdict = MSGQ_VERDICT_REJECT;
  early->second = msgq_complete(early->queue, delivery->token, &outcome);
  return MSGQ_VERDICT_PENDING;
}

TEST(X8_an_answer_inside_the_transport) {
  for (int polled = 0; polled < 2; polled++) {
    struct scene scene;
    scene_begin(&scene);
    scene.options.callbacks = polled == 1 ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
    scene_open(&scene);
    struct early early = { scene.queue, MSGQ_INTERNAL, MSGQ_INTERNAL };
    REQUIRE_OK(msgq_set_transport(scene.queue, answering_send, &early, NULL));
    for (int number = 0; number < 3; number++) put(&scene, NULL, "ana", "hello");
    CHECK_NUMBER(3, drain(&scene).sent);
    CHECK_RESULT(MSGQ_OK, early.first);
    CHECK_RESULT(MSGQ_CONFLICT, early.second);
    CHECK_NUMBER(3, counts_of(&scene, NULL).sent);
    scene_end(&scene);
  }
}

TEST(X8_an_unknown_token_is_not_found) {
  struct scene scene;
  struct stub stub;
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  outcome.verdict = MSGQ_VERDICT_SENT;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_complete(scene.queue, 0, &outcome));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_complete(scene.queue, 1, &outcome));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  uint64_t token = atomic_load(&stub.token);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, token, &outcome));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_complete(scene.queue, token + 1, &outcome));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_complete(scene.queue, UINT64_MAX, &outcome));
  /* A token is not valid after another open. */
  scene_close(&scene);
  scene_open(&scene);
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_complete(scene.queue, token, &outcome));
  scene_end(&scene);
}

static void open_held(struct scene *scene, struct stub *stub, uint32_t in_flight) {
  scene_begin(scene);
  stub_begin(stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub->held, true);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.max_in_flight = in_flight;
  stub_open(stub, scene);
}

TEST_LONG(A10_sixteen_blocking_calls_run_side_by_side) {
  struct scene scene;
  struct stub stub;
  open_held(&scene, &stub, 16);
  put_rounds(&scene, 20, 2);
  AWAIT(atomic_load(&stub.inside) == 16);
  pause_ms(50);
  CHECK_NUMBER(16, atomic_load(&stub.inside));
  atomic_store(&stub.held, false);
  AWAIT(counts_of(&scene, NULL).sent == 40);
  CHECK_NUMBER(40, atomic_load(&stub.calls));
  scene_end(&scene);
}

TEST_ALONE(A10_idle_threads_end) {
  struct scene scene;
  struct stub stub;
  open_held(&scene, &stub, 16);
  put_rounds(&scene, 16, 1);
  AWAIT(atomic_load(&stub.inside) == 16);
  CHECK(process_library_threads() >= 18); /* one for timers, one for events, and one for each blocking call */
  atomic_store(&stub.held, false);
  AWAIT(counts_of(&scene, NULL).sent == 16);
  for (int64_t end = steady_ms() + 15000; process_library_threads() > 3 && steady_ms() < end;) pause_ms(50);
  CHECK(process_library_threads() <= 3);
  /* New threads start for the next calls. */
  atomic_store(&stub.held, true);
  char name[16];
  for (int number = 0; number < 4; number++) {
    snprintf(name, sizeof name, "c%d", number);
    put(&scene, NULL, name, "hello");
  }
  AWAIT(atomic_load(&stub.inside) == 4);
  atomic_store(&stub.held, false);
  scene_end(&scene);
}
