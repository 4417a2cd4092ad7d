/* A quota that is full, and a limit of the size of files (ulimit -f) with the default action of its signal, SIGXFSZ. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "stores.h"
#include "stub.h"

/* Enqueues while `count` changes of the log fail, the n-th and those after it. Returns the result. */
static msgq_result enqueue_with(int error, int number, int count) {
  static const char body[2000];
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 5);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.body = body;
  draft.body_size = sizeof body;
  fault_error("-wal", number, count, error);
  msgq_result result = msgq_enqueue(scene.queue, &draft, NULL);
  fault_error("", 0, 0, 0);
  CHECK(result == MSGQ_OK || result == MSGQ_STORAGE || result == MSGQ_UNKNOWN);
  msgq_close(scene.queue, 1000);
  stub_open(&stub, &scene);
  uint64_t queued = counts_of(&scene, NULL).queued;
  CHECK(result == MSGQ_UNKNOWN || queued == (result == MSGQ_OK ? 6u : 5u));
  CHECK_NUMBER(queued, drain(&scene).sent);
  scene_end(&scene);
  return result;
}

TEST_ALONE(D9_a_full_quota_is_treated_as_a_full_disk) {
  int refused = 0;
  for (int count = 1; count <= 1000; count *= 1000) {
    for (int number = 1; number <= 8; number++) {
      msgq_result full = enqueue_with(ENOSPC, number, count), quota = enqueue_with(EDQUOT, number, count);
      if (!CHECK_RESULT(full, quota)) fprintf(stderr, "  change %d, %d times\n", number, count);
      refused += quota == MSGQ_STORAGE;
    }
  }
  CHECK(refused > 0);
}

/* Runs `body` in a process whose files must not grow, with the default action of SIGXFSZ. Returns its status. */
static int status_of_child(struct scene *scene, void (*body)(struct scene *scene)) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_DFL);
    body(scene);
    _exit(0);
  }
  int status = 0;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  return status;
}

static void limit_files(void) { setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 64, RLIM_INFINITY }); }

static void enqueue_over_the_limit(struct scene *scene) {
  if (msgq_open(scene->path, &scene->options, &scene->queue) != MSGQ_OK) _exit(1);
  put_numbered(scene, 4, 6);
  limit_files();
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_enqueue(scene->queue, &draft, NULL);
  _exit(2);
}

/* The calling thread writes. The library changes neither its signal mask nor the action of a signal. */
TEST_ALONE(D9_the_signal_of_a_file_size_limit_that_is_not_ignored_ends_the_process_and_loses_nothing) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  int status = status_of_child(&scene, enqueue_over_the_limit);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
  scene.options.refuse_lost_tail = true;
  scene_open(&scene);
  check_numbered(&scene, 1, 6);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  scene_end(&scene);
}

static msgq_verdict send_and_limit(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery, (void)out;
  limit_files();
  return MSGQ_VERDICT_SENT;
}

static void send_over_the_limit(struct scene *scene) {
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.online_debounce_ms = 0;
  if (msgq_open(scene->path, &scene->options, &scene->queue) != MSGQ_OK) _exit(1);
  if (msgq_set_transport(scene->queue, send_and_limit, NULL, NULL) != MSGQ_OK) _exit(1);
  msgq_set_connectivity(scene->queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_OTHER, false);
  struct rlimit limit;
  do {
    pause_ms(10);
    getrlimit(RLIMIT_FSIZE, &limit);
  } while (limit.rlim_cur != 64);
  pause_ms(1500); /* the outcome is written, and written again */
}

/* The threads of the library block all signals, so that their writes fail instead. */
TEST_ALONE(D9_a_thread_of_the_library_that_reaches_a_file_size_limit_does_not_end_the_process) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  int status = status_of_child(&scene, send_over_the_limit);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  scene_open(&scene);
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK_NUMBER(3, counts.queued + counts.sent);
  scene_end(&scene);
}
