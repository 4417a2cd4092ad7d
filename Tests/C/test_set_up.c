/* The first change of a session makes the file -tail, its name and the name of the log durable before the log is written. This fails at some
   point, and the next change comes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "files.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

enum { kept = 3, batch = 6000, body_size = 900 };

static msgq_result enqueue_one(msgq_queue *queue) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana";
  return msgq_enqueue(queue, &draft, NULL);
}

/* More than SQLite's cache holds, so that pages are in the log before the commit. */
static void enqueue_many(msgq_queue *queue) {
  static char body[body_size];
  static msgq_draft drafts[batch];
  for (size_t index = 0; index < batch; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].body = body;
    drafts[index].body_size = sizeof body;
  }
  msgq_enqueue_batch(queue, drafts, batch, NULL);
}

/* In a process of its own: `count` changes of the files whose names contain `part` fail from the n-th on, during the first enqueue. Then comes a
   large batch, in which the process is killed by the first write beyond `limit` bytes of a file, or after it. Returns the number of changes
   that failed. */
static int fail_then_kill(const struct scene *scene, const char *part, int number, int error, rlim_t limit) {
  int channel[2], failed = 0;
  REQUIRE(pipe(channel) == 0);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const struct rlimit files = { limit, limit }, cores = { 0, 0 };
    msgq_queue *queue = NULL;
    setrlimit(RLIMIT_CORE, &cores);
    signal(SIGXFSZ, SIG_DFL);
    if (msgq_open(scene->path, &scene->options, &queue) != MSGQ_OK) _exit(1);
    fault_error(part, number, 2, error); /* a write is tried again at once */
    msgq_result result = enqueue_one(queue);
    failed = fault_errors();
    fault_error("", 0, 0, 0);
    if (result != MSGQ_OK && result != MSGQ_STORAGE && result != MSGQ_UNKNOWN) failed = -1;
    if (write(channel[1], &failed, sizeof failed) != sizeof failed) _exit(2);
    setrlimit(RLIMIT_FSIZE, &files);
    enqueue_many(queue);
    kill(getpid(), SIGKILL);
  }
  close(channel[1]);
  CHECK(read(channel[0], &failed, sizeof failed) == sizeof failed);
  close(channel[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGXFSZ || WTERMSIG(status) == SIGKILL));
  return failed;
}

/* Every change of these files fails once, with every later kill. `crashed`: the store was not closed before. */
static void check_failures_of(const char *part, int error, bool crashed) {
  static const rlim_t limits[] = { 32, 100 << 10, 6 << 20, 1 << 30 };
  struct scene scene;
  struct snapshot before;
  scene_begin(&scene);
  close_after(&scene, 1, kept);
  if (crashed) crash_after(&scene, kept + 1, kept + 1);
  const uint64_t first = kept + crashed;
  snapshot_take(&before, scene.directory);
  scene.options.refuse_lost_tail = true;
  int points = 0, failed = 1;
  for (int number = 1; failed > 0 && number < 50; number++) {
    for (int time = 0; time < 2; time++) {
      const rlim_t limit = time == 0 ? 2 << 20 : limits[number % 4];
      msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
      snapshot_restore(&before, scene.directory);
      failed = fail_then_kill(&scene, part, number, error, limit);
      CHECK(failed >= 0);
      unsigned failures = check_failures();
      CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
      if (!CHECK(report.sound)) fprintf(stderr, "  %s\n", report.text);
      scene_open(&scene);
      uint64_t queued = counts_of(&scene, NULL).queued;
      CHECK(queued == first || queued == first + 1 || queued == first + batch || queued == first + batch + 1);
      scene_close(&scene);
      if (check_failures() > failures) fprintf(stderr, "  failure %d of %s, limit %lu\n", number, part, (unsigned long)limit);
    }
    points += failed > 0;
  }
  CHECK(points >= (crashed ? 1 : 2)); /* after a crash the opening has prepared the file */
  snapshot_free(&before);
  scene_end(&scene);
}

TEST_ALONE(Q3_a_kill_after_a_failed_change_of_the_tail_file_leaves_a_whole_store) { check_failures_of("-tail", ENOSPC, false); }
TEST_ALONE(Q3_a_kill_after_a_failed_first_change_leaves_a_whole_store) { check_failures_of("outbox", EIO, false); }
TEST_ALONE(Q3_a_kill_after_a_failed_change_of_the_tail_file_of_a_crashed_store_leaves_a_whole_store) {
  check_failures_of("-tail", EIO, true);
}

struct lines {
  atomic_int removals;
};

static void count_lines(void *context, msgq_log_level level, const char *text) {
  struct lines *lines = context;
  (void)level;
  if (strstr(text, "-tail") != NULL && strstr(text, "could not be removed") != NULL) atomic_fetch_add(&lines->removals, 1);
}

/* Every change of the file fails from the second on, also its removal. */
TEST_ALONE(Q3_a_tail_file_that_cannot_be_written_is_told_with_what_to_do) {
  static const struct {
    int error;
    const char *advice;
  } cases[] = { { ENOSPC, "make room" }, { EDQUOT, "make room" }, { EACCES, "permitted" }, { EIO, "the next change tries it again" } };
  for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
    struct scene scene;
    struct lines lines = { 0 };
    scene_begin_open(&scene);
    msgq_set_log(count_lines, &lines, NULL);
    fault_error("-tail", 1, 1000, cases[index].error);
    CHECK(enqueue_one(scene.queue) != MSGQ_OK);
    CHECK(strstr(msgq_error_detail(), "-tail") != NULL && strstr(msgq_error_detail(), cases[index].advice) != NULL);
    fault_error("", 0, 0, 0);
    AWAIT(atomic_load(&lines.removals) > 0);
    CHECK_RESULT(MSGQ_OK, enqueue_one(scene.queue));
    msgq_set_log(NULL, NULL, NULL);
    scene_end(&scene);
  }
}

/* With one free descriptor the directory cannot be opened. */
TEST_ALONE(Q3_the_names_are_flushed_before_a_message_is_accepted_also_after_a_failure) {
  struct scene scene;
  struct rlimit before, few;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  scene_open(&scene);
  int lowest = dup(0);
  REQUIRE(lowest >= 0 && close(lowest) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
  few = before;
  for (int free_ones = 0; free_ones <= 1; free_ones++) {
    few.rlim_cur = (rlim_t)(lowest + free_ones);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int time = 0; time < 2; time++) CHECK_RESULT(MSGQ_STORAGE, enqueue_one(scene.queue));
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  }
  CHECK(!file_exists(tail_of(&scene)));
  atomic_store(&fault_directory_syncs, 0);
  put_numbered(&scene, 4, 4);
  CHECK(atomic_load(&fault_directory_syncs) > 0);
  check_numbered(&scene, 1, 4);
  scene_end(&scene);
}

/* Whether the power fails after the deletion, or after attempts that begin a new log and are not flushed. */
enum phase { after_deletion, after_attempts };

/* Checks every image that a power failure may leave. `torn`: the log was begun anew and not flushed, so that its header may be damaged. */
static void check_images(struct scene *scene, const struct snapshot *now, bool torn) {
  static const char zeros[32];
  for (int image = 0;; image++) {
    const int index = image / (1 + torn), damaged = image % (1 + torn);
    msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
    snapshot_restore(now, scene->directory);
    if (!fault_kept(index, tail_of(scene))) break;
    if (damaged) {
      struct file_copy log = file_read(log_of(scene));
      REQUIRE(log.size > sizeof zeros);
      memcpy(log.bytes, zeros, sizeof zeros);
      file_write(log_of(scene), log.bytes, log.size);
      file_copy_free(&log);
    }
    CHECK_RESULT(MSGQ_OK, msgq_check(scene->path, &report));
    if (!CHECK(report.sound)) fprintf(stderr, "  %s\n", report.text);
    size_t events = journal_count(&scene->journal, MSGQ_EVENT_STORAGE);
    scene_open(scene);
    CHECK_NUMBER(3, counts_of(scene, NULL).queued + counts_of(scene, NULL).sent);
    CHECK_NUMBER(events, journal_count(&scene->journal, MSGQ_EVENT_STORAGE));
    scene_close(scene);
  }
}

/* `count` changes of the file -tail fail from the n-th on, at the checkpoint that a deletion makes. Returns whether any failed. */
static bool fail_record_of_checkpoint(int number, int count, enum phase phase) {
  struct scene scene;
  struct stub stub;
  struct snapshot now;
  scene_begin(&scene);
  close_after(&scene, 1, 2);
  scene.options.keep_sent_ms = -1;
  scene.options.refuse_lost_tail = true;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  fault_keep("-tail");
  put_numbered(&scene, 3, 4);
  fault_error("-tail", number, count, EIO);
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "m4"));
  const bool failed = fault_errors() > 0;
  const int64_t begin = steady_ms();
  bool torn = false;
  if (phase == after_attempts) {
    drain(&scene);
    torn = counts_of(&scene, NULL).sent == 3; /* otherwise the log is still the old one */
    CHECK(torn || count > 2);
  }
  snapshot_take(&now, scene.directory);
  torn = torn && steady_ms() - begin < 500; /* the log is flushed after 700 ms */
  fault_keep(NULL);
  fault_error("", 0, 0, 0);
  msgq_close(scene.queue, 1000);
  scene.queue = NULL;
  check_images(&scene, &now, torn);
  snapshot_free(&now);
  scene_end(&scene);
  return failed;
}

/* Every change of the file -tail at the checkpoint fails once, twice, and from then on. */
static void fail_records(enum phase phase) {
  static const int counts[] = { 1, 2, 1000 };
  for (size_t index = 0; index < sizeof counts / sizeof *counts; index++) {
    int number = 1;
    while (number < 20 && fail_record_of_checkpoint(number, counts[index], phase)) number++;
    CHECK(number > 3 && number < 20);
  }
}

TEST_ALONE(D7_a_failed_record_of_a_checkpoint_and_a_power_cut_lose_nothing) { fail_records(after_deletion); }
TEST_ALONE(D7_a_failed_record_of_a_checkpoint_is_repeated_before_the_log_is_overwritten) { fail_records(after_attempts); }
