/* The option wait_ms: an open that waits for the lock of another owner. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "stores.h"

enum { hour_ms = 3600 * 1000, held_ms = 300 };

/* An open on a thread of its own. */
struct opening {
  const char *path;
  msgq_options options;
  msgq_queue *queue;
  msgq_result result;
  char detail[512];
  atomic_bool has_returned;
  pthread_t thread;
};

static void *run_opening(void *context) {
  struct opening *opening = context;
  opening->result = msgq_open(opening->path, &opening->options, &opening->queue);
  snprintf(opening->detail, sizeof opening->detail, "%s", msgq_error_detail());
  atomic_store(&opening->has_returned, true);
  return NULL;
}

static void opening_begin(struct opening *opening, const struct scene *scene, int64_t wait_ms) {
  *opening = (struct opening) { .path = scene->path, .options = scene->options };
  opening->options.wait_ms = wait_ms;
  REQUIRE(pthread_create(&opening->thread, NULL, run_opening, opening) == 0);
}

/* Checks that it still waits for the lock. */
static void opening_waits(const struct opening *opening) {
  pause_ms(held_ms);
  CHECK(!atomic_load(&opening->has_returned));
}

/* Waits until it has returned, and gives its queue to the scene. */
static void opening_end(struct opening *opening, struct scene *scene) {
  REQUIRE(pthread_join(opening->thread, NULL) == 0);
  CHECK_RESULT(MSGQ_OK, opening->result);
  scene->queue = opening->queue;
}

/* Starts a process that has the store open. */
static struct child start_owner(const struct scene *scene) {
  char line[64];
  struct child owner = child_start("hold", scene->path, "");
  child_line(&owner, line, sizeof line);
  REQUIRE(strcmp(line, "open") == 0);
  return owner;
}

TEST_ALONE(T9_open_waits_for_the_lock_of_another_process) {
  struct scene scene;
  struct opening opening;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  struct child owner = start_owner(&scene);
  opening_begin(&opening, &scene, hour_ms);
  opening_waits(&opening);
  child_kill(&owner);
  opening_end(&opening, &scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST_LONG(T9_open_waits_for_another_queue_of_the_process) {
  struct scene scene;
  struct opening opening;
  scene_begin_open(&scene);
  put_numbered(&scene, 1, 3);
  opening_begin(&opening, &scene, hour_ms);
  opening_waits(&opening);
  scene_close(&scene);
  opening_end(&opening, &scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST_LONG(T9_an_owner_waits_for_readers_and_a_reader_for_the_owner) {
  struct scene scene;
  struct opening opening;
  msgq_options reading = MSGQ_OPTIONS_INIT;
  msgq_queue *readers[2] = { NULL, NULL };
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  reading.read_only = true;
  for (int index = 0; index < 2; index++) REQUIRE_OK(msgq_open(scene.path, &reading, &readers[index]));
  opening_begin(&opening, &scene, hour_ms);
  for (int index = 0; index < 2; index++) {
    opening_waits(&opening);
    CHECK_RESULT(MSGQ_OK, msgq_close(readers[index], 0));
  }
  opening_end(&opening, &scene);
  scene.options.read_only = true;
  opening_begin(&opening, &scene, hour_ms);
  opening_waits(&opening);
  scene_close(&scene);
  opening_end(&opening, &scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST_LONG(T9_a_wait_that_ends_before_the_lock_is_released_changes_nothing) {
  char owner_text[32];
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  struct child owner = start_owner(&scene);
  snprintf(owner_text, sizeof owner_text, "process %ld", (long)owner.pid);
  scene.options.wait_ms = held_ms;
  int64_t begun = steady_ms();
  check_refused(&scene, MSGQ_LOCKED, owner_text);
  CHECK(steady_ms() - begun >= held_ms);
  child_kill(&owner);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  begun = steady_ms();
  check_refused(&scene, MSGQ_LOCKED, "this process");
  CHECK(steady_ms() - begun >= held_ms);
  scene_end(&scene);
}

TEST(T9_without_a_wait_open_answers_at_once) {
  struct scene scene;
  scene_begin_open(&scene);
  /* A queue of this process is not waited for at all. The time is that of the fastest, because the machine may be busy. */
  int64_t fastest = INT64_MAX;
  for (int time = 0; time < 20; time++) {
    int64_t begun = steady_ms();
    check_refused(&scene, MSGQ_LOCKED, "this process");
    int64_t taken = steady_ms() - begun;
    if (taken < fastest) fastest = taken;
  }
  CHECK(fastest < 50);
  scene_end(&scene);
}

TEST(T9_a_wait_out_of_range_is_invalid) {
  static const int64_t values[] = { -1, INT64_MIN, 24 * (int64_t)hour_ms + 1, INT64_MAX };
  struct scene scene;
  scene_begin_open(&scene);
  for (size_t index = 0; index < sizeof values / sizeof *values; index++) {
    scene.options.wait_ms = values[index];
    check_refused(&scene, MSGQ_INVALID, "wait must be 0 s to 1 d, got ");
  }
  scene_close(&scene);
  scene.options.wait_ms = 24 * (int64_t)hour_ms;
  scene_open(&scene);
  scene_end(&scene);
}

/* Errors other than the lock are not waited for. */
TEST(T9_what_no_wait_can_change_is_refused_at_once) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.wait_ms = hour_ms;
  scene.options.maintenance = true;
  check_refused(&scene, MSGQ_INVALID, "does not exist");
  file_write(scene.path, "This is not a database.", 23);
  scene.options.maintenance = false;
  check_refused(&scene, MSGQ_CORRUPT, NULL);
  scene_end(&scene);
}

/* A forked child never gets a lock that its parent had: nobody in the child can release it. */
TEST_ALONE(T9_a_forked_child_does_not_wait_for_a_lock_of_its_parent) {
  struct scene scene;
  scene_begin_open(&scene);
  pid_t child = child_fork();
  if (child == 0) {
    msgq_queue *queue = NULL;
    scene.options.wait_ms = hour_ms;
    CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, &scene.options, &queue));
    child_end();
  }
  child_await(child);
  scene_end(&scene);
}
