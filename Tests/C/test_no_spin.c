/* The engine does not spin while work is due that cannot be done yet. */
#include <stdio.h>
#include <sys/resource.h>

#include "check.h"
#include "faults.h"
#include "process.h"
#include "scene.h"
#include "stub.h"

/* Far more processor time than these tests need, and far less than a spinning thread uses. */
enum { little_ms = 100 };

static bool is_little(int64_t used) {
  if (used > little_ms) fprintf(stderr, "  %lld ms of processor time\n", (long long)used);
  return used <= little_ms;
}

/* Opens a queue with one message in flight that is never answered. */
static void begin_waiting(struct scene *scene, struct stub *stub) {
  scene_begin(scene);
  stub_begin(stub, MSGQ_VERDICT_PENDING);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.trigger_interval_ms = 200;
  stub_open(stub, scene);
  put(scene, "pending", "ana", "hello");
  AWAIT(atomic_load(&stub->calls) == 1);
}

TEST_ALONE(M14_waits_for_an_outcome_do_not_spin) {
  static const msgq_callbacks kinds[] = { MSGQ_CALLBACKS_THREAD, MSGQ_CALLBACKS_POLL, MSGQ_CALLBACKS_POLL_TIMER };
  for (int index = 0; index < 3; index++) {
    struct scene scene;
    struct stub stub;
    msgq_message *message = NULL;
    scene_begin(&scene);
    stub_begin(&stub, MSGQ_VERDICT_PENDING);
    scene.options.mode = MSGQ_MODE_AUTO;
    scene.options.callbacks = kinds[index];
    stub_open(&stub, &scene);
    put(&scene, "pending", "ana", "hello");
    for (int number = 0; number < 100; number++) {
      REQUIRE_OK(msgq_wait_async(scene.queue, "pending", number < 50 ? -1 : 20 * number, NULL, NULL));
    }
    int64_t cpu = process_cpu_ms(), start = steady_ms();
    CHECK_RESULT(MSGQ_TIMEOUT, msgq_wait(scene.queue, "pending", 1500, &message));
    CHECK(steady_ms() - start >= 1500);
    CHECK(is_little(process_cpu_ms() - cpu));
    msgq_message_free(message);
    CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 0));
    scene.queue = NULL;
    scene_end(&scene);
  }
}

static int64_t cpu_of_closing(struct scene *scene, int64_t wait) {
  int64_t cpu = process_cpu_ms(), start = steady_ms();
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene->queue, wait));
  CHECK(steady_ms() - start >= wait);
  scene->queue = NULL;
  return process_cpu_ms() - cpu;
}

TEST_ALONE(close_while_waiting_does_not_spin) {
  struct scene scene;
  struct stub stub;
  begin_waiting(&scene, &stub);
  REQUIRE_OK(msgq_pause(scene.queue, "ben"));
  put_timed(&scene, "b", "ben", 0, wall_ms() + 150);
  CHECK(is_little(cpu_of_closing(&scene, 1500)));
  scene_end(&scene);
}

/* The timers of a retry, a schedule, an expiry, the trigger interval and a hung attempt expire during the close. */
TEST_ALONE(close_while_waiting_does_not_spin_when_timers_expire) {
  static const int64_t ladder[] = { 200 };
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.kind = MSGQ_FAILURE_SERVER;
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_in_flight = 2;
  scene.options.trigger_interval_ms = 300;
  scene.options.keep_sent_ms = 250;
  scene.options.attempt_timeout_ms = 700;
  set_ladder(&scene, ladder, 1);
  stub_open(&stub, &scene);
  put(&scene, "retries", "ana", "hello");
  AWAIT(failure_of(&scene, "retries") == MSGQ_FAILURE_SERVER);
  atomic_store(&stub.held, true);
  put(&scene, "hangs", "ben", "hello");
  AWAIT(atomic_load(&stub.inside) == 1);
  put_timed(&scene, "scheduled", "cleo", wall_ms() + 150, 0);
  put_timed(&scene, "expires", "ben", 0, wall_ms() + 150);
  CHECK(is_little(cpu_of_closing(&scene, 1500)));
  atomic_store(&stub.held, false);
  AWAIT(atomic_load(&stub.inside) == 0);
  scene_end(&scene);
}

/* With callbacks in msgq_poll the closing thread itself waits. */
TEST_ALONE(close_while_waiting_does_not_spin_with_callbacks_in_poll) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  stub_open(&stub, &scene);
  put(&scene, "pending", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "pending"));
  for (int64_t end = steady_ms() + check_timeout_ms(); atomic_load(&stub.calls) == 0 && steady_ms() < end;) {
    CHECK_RESULT(MSGQ_OK, msgq_poll(scene.queue, 10, NULL));
  }
  put_timed(&scene, "b", "ben", 0, wall_ms() + 150);
  CHECK(is_little(cpu_of_closing(&scene, 1000)));
  scene_end(&scene);
}

TEST_ALONE(store_that_cannot_be_written_does_not_spin) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene_open(&scene);
  set_offline(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "a", "ana", "hello");
  put_timed(&scene, "b", "ben", 0, wall_ms() + 150);
  struct rlimit before = forbid_growth(&scene);
  set_online(&scene);
  int64_t cpu = process_cpu_ms();
  pause_ms(1500);
  cpu = process_cpu_ms() - cpu;
  int calls = atomic_load(&stub.calls);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(is_little(cpu));
  CHECK_NUMBER(0, calls);
  CHECK(journal_count(&scene.journal, MSGQ_EVENT_STORAGE) >= 1);
  /* The store can be written again: the due work is done without another call. */
  AWAIT(atomic_load(&stub.calls) == 1);
  AWAIT(journal_reached(&scene.journal, "b", MSGQ_STATUS_FAILED));
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 0));
  scene.queue = NULL;
  scene_end(&scene);
}

TEST_ALONE(store_after_a_failed_flush_does_not_spin) {
  struct scene scene;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  scene_begin_open(&scene);
  put_timed(&scene, "b", "ben", 0, wall_ms() + 150);
  atomic_store(&fault_sync, true);
  CHECK_RESULT(MSGQ_UNKNOWN, msgq_enqueue(scene.queue, &draft, NULL));
  int64_t cpu = process_cpu_ms();
  pause_ms(1500);
  CHECK(is_little(process_cpu_ms() - cpu));
  atomic_store(&fault_sync, false);
  /* After another open the queue works again. */
  msgq_close(scene.queue, 0);
  scene_open(&scene);
  AWAIT(failure_of(&scene, "b") == MSGQ_FAILURE_EXPIRED);
  scene_end(&scene);
}
