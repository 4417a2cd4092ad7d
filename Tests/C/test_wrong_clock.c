/* A wall clock that shows 1970 until it is set. The clock of the machine is not changed. */
#include <stdatomic.h>

#include "check.h"
#include "faults.h"
#include "scene.h"

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
