/* A wall clock that shows 1970 until it is set. The clock of the machine is not changed. */
#include <stdatomic.h>

#include "check.h"
#include "faults.h"
#include "scene.h"
#include "stub.h"

TEST_ALONE(X4_a_message_enqueued_in_1970_does_not_expire_when_the_clock_is_set) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.expiry_ms = 2000;
  int64_t start = steady_ms();
  atomic_store(&fault_wall_shift_ms, 5000 - wall_ms());
  scene_open(&scene);
  put(&scene, "option", "ana", "hello");
  put_timed(&scene, "draft", "ben", 0, wall_ms() + 2000);
  pause_ms(100);
  atomic_store(&fault_wall_shift_ms, 0);
  set_online(&scene); /* the kernel would report the change of the clock */
  pause_ms(300);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "option"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "draft"));
  /* It expires by the boot clock. */
  AWAIT(status_of(&scene, "option") == MSGQ_STATUS_FAILED && status_of(&scene, "draft") == MSGQ_STATUS_FAILED);
  CHECK(steady_ms() - start >= 1990);
  CHECK_NUMBER(MSGQ_FAILURE_EXPIRED, failure_of(&scene, "draft"));
  scene_end(&scene);
}

TEST_ALONE(X4_while_the_clock_shows_1970_nothing_expires) {
  struct scene scene;
  scene_begin_open(&scene);
  put_timed(&scene, "a", "ana", 0, wall_ms() + 500);
  atomic_store(&fault_wall_shift_ms, 5000 - wall_ms());
  pause_ms(1000);
  set_online(&scene);
  pause_ms(200);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  atomic_store(&fault_wall_shift_ms, 0);
  set_online(&scene);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  scene_end(&scene);
}

/* A clock that is wrong and plausible: months behind until it is set. */
static const int64_t months = 240LL * 24 * 3600 * 1000;

static void put_spanned(struct scene *scene, const char *id, const char *conversation, int64_t delay, int64_t expiry) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.delay_ms = delay;
  draft.expiry_ms = expiry;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

TEST_ALONE(X4_a_duration_does_not_expire_when_a_stale_clock_is_set) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.expiry_ms = 2000;
  int64_t start = steady_ms();
  atomic_store(&fault_wall_shift_ms, -months);
  scene_open(&scene);
  put(&scene, "option", "ana", "hello");
  put_spanned(&scene, "draft", "ben", 0, 2000);
  put_timed(&scene, "at a time", "cid", 0, wall_ms() + 3600 * 1000);
  pause_ms(100);
  atomic_store(&fault_wall_shift_ms, 0);
  set_online(&scene); /* the kernel would report the change of the clock */
  AWAIT(status_of(&scene, "at a time") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "option"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "draft"));
  AWAIT(status_of(&scene, "option") == MSGQ_STATUS_FAILED && status_of(&scene, "draft") == MSGQ_STATUS_FAILED);
  CHECK(steady_ms() - start >= 1990);
  scene_end(&scene);
}

TEST_ALONE(X4_a_duration_ends_in_time_when_the_clock_is_set_back) {
  struct scene scene;
  scene_begin_open(&scene);
  put_spanned(&scene, "draft", "ben", 0, 1000);
  atomic_store(&fault_wall_shift_ms, -months);
  set_online(&scene);
  AWAIT(status_of(&scene, "draft") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(MSGQ_FAILURE_EXPIRED, failure_of(&scene, "draft"));
  atomic_store(&fault_wall_shift_ms, 0);
  scene_end(&scene);
}

/* Under 1970 as well as under a stale clock. */
TEST_ALONE(X4_a_delay_does_not_end_when_the_clock_is_set) {
  const int64_t shifts[] = { 5000 - wall_ms(), -months };
  for (int i = 0; i < 2; i++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    scene.options.mode = MSGQ_MODE_AUTO;
    atomic_store(&fault_wall_shift_ms, shifts[i]);
    stub_open(&stub, &scene);
    int64_t start = steady_ms();
    put_spanned(&scene, "delayed", "ana", 1500, 0);
    pause_ms(100);
    atomic_store(&fault_wall_shift_ms, 0);
    put(&scene, "plain", "ben", "hello");
    AWAIT(status_of(&scene, "plain") == MSGQ_STATUS_SENT);
    AWAIT(status_of(&scene, "delayed") == MSGQ_STATUS_SENT);
    CHECK(steady_ms() - start >= 1490);
    scene_end(&scene);
  }
}

TEST_ALONE(F1_history_of_a_stale_clock_is_not_pruned_when_it_is_set) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.keep_sent_ms = 30LL * 24 * 3600 * 1000;
  atomic_store(&fault_wall_shift_ms, -months);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  atomic_store(&fault_wall_shift_ms, 0);
  /* The opening prunes what is too old. */
  scene_close(&scene);
  stub_open(&stub, &scene);
  pause_ms(500);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a"));
  scene_end(&scene);
}

/* With shifts of 1970 and of some months. */
TEST_ALONE(F2_ids_removed_under_a_wrong_clock_are_remembered_when_it_is_set) {
  const int64_t shifts[] = { 5000 - wall_ms(), -months };
  for (int i = 0; i < 2; i++) {
    struct scene scene;
    struct stub stub;
    char made[MSGQ_ID_SIZE];
    scene_begin(&scene);
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    scene.options.mode = MSGQ_MODE_AUTO;
    scene.options.keep_sent = 0;
    atomic_store(&fault_wall_shift_ms, shifts[i]);
    stub_open(&stub, &scene);
    msgq_draft draft = MSGQ_DRAFT_INIT;
    put(&scene, "named", "ana", "hello");
    REQUIRE_OK(msgq_enqueue(scene.queue, &draft, made));
    AWAIT(atomic_load(&stub.calls) == 2 && status_of(&scene, "named") < 0 && status_of(&scene, made) < 0);
    atomic_store(&fault_wall_shift_ms, 0);
    scene_close(&scene);
  stub_open(&stub, &scene);
    pause_ms(300);
    draft.id = "named";
    CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &draft, NULL));
    draft.id = made;
    CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &draft, NULL));
    scene_end(&scene);
  }
}

/* The time of the next attempt is shown by the clock as it is set now. */
TEST_ALONE(M4_the_time_of_a_retry_follows_the_clock) {
  static const int64_t ladder[] = { 600000 };
  const int64_t shifts[] = { 7200000, -7200000 };
  for (int i = 0; i < 2; i++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    set_ladder(&scene, ladder, 1);
    stub_begin(&stub, MSGQ_VERDICT_RETRY);
    stub_open(&stub, &scene);
    put(&scene, "a", "ana", "hello");
    drain(&scene);
    atomic_store(&fault_wall_shift_ms, shifts[i]);
    set_online(&scene); /* the kernel would report the change of the clock */
    msgq_message *message = NULL;
    REQUIRE_OK(msgq_get(scene.queue, "a", &message));
    CHECK(message->next_attempt_ms > wall_ms() + 300000 && message->next_attempt_ms <= wall_ms() + 600000);
    msgq_message_free(message);
    scene_close(&scene);
    atomic_store(&fault_wall_shift_ms, 0);
    scene_end(&scene);
  }
}
