/* SIGKILL during the first change of a session, before its commit. A change may be larger than SQLite's cache; the log then contains pages
   but no commit. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "files.h"
#include "scene.h"
#include "stores.h"

enum { kept = 3000, batch = 7000, body_size = 900, large_size = 6 << 20 };

static void enqueue_many(msgq_queue *queue, size_t count) {
  static char body[body_size];
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  memset(body, 'b', sizeof body);
  for (size_t index = 0; index < count; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].body = body;
    drafts[index].body_size = sizeof body;
  }
  REQUIRE_OK(msgq_enqueue_batch(queue, drafts, count, NULL));
  free(drafts);
}

static char *large_body(void) {
  char *body = malloc(large_size);
  memset(body, 'l', large_size);
  return body;
}

static void change_batch(msgq_queue *queue) { enqueue_many(queue, batch); }
static void change_edit(msgq_queue *queue) { msgq_edit(queue, "kept", large_body(), large_size); }
static void change_delete(msgq_queue *queue) { msgq_delete(queue, "large"); }
static void change_clear(msgq_queue *queue) { msgq_clear(queue, NULL); }

static void change_record(msgq_queue *queue) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.body = large_body();
  draft.body_size = large_size;
  msgq_record(queue, &draft, "ben", NULL);
}

/* Makes a closed store. */
static void fill(struct scene *scene) {
  scene_begin(scene);
  scene->options.limit_body = 2 * large_size;
  scene_open(scene);
  enqueue_many(scene->queue, kept);
  put(scene, "kept", "ana", "hello");
  msgq_draft draft = MSGQ_DRAFT_INIT;
  char *body = large_body();
  draft.id = "large";
  draft.body = body;
  draft.body_size = large_size;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
  free(body);
  scene_close(scene);
}

/* Runs the change in a process that is killed by the first write beyond `limit` bytes of a file, or after the change. */
static void run_until(const struct scene *scene, void (*change)(msgq_queue *), rlim_t limit) {
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const struct rlimit files = { limit, limit }, cores = { 0, 0 };
    msgq_queue *queue = NULL;
    setrlimit(RLIMIT_CORE, &cores);
    signal(SIGXFSZ, SIG_DFL);
    if (msgq_open(scene->path, &scene->options, &queue) != MSGQ_OK) _exit(1);
    setrlimit(RLIMIT_FSIZE, &files);
    change(queue);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGXFSZ || WTERMSIG(status) == SIGKILL));
}

static bool same(const msgq_counts *left, const msgq_counts *right) {
  return left->queued == right->queued && left->received == right->received && left->unsent_bytes == right->unsent_bytes;
}

static void check_kills(void (*change)(msgq_queue *)) {
  static const rlim_t limits[] = { 0, 32, 4096, 100 << 10, 1 << 20, 2 << 20, 4 << 20, 5 << 20, 6 << 20, 7 << 20, 9 << 20, 1 << 30 };
  struct scene scene;
  struct snapshot before;
  unsigned complete = 0, uncommitted = 0;
  fill(&scene);
  snapshot_take(&before, scene.directory);
  scene_open(&scene);
  const msgq_counts first = counts_of(&scene, NULL);
  change(scene.queue);
  const msgq_counts second = counts_of(&scene, NULL);
  scene_close(&scene);
  for (size_t index = 0; index < sizeof limits / sizeof *limits; index++) {
    msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
    snapshot_restore(&before, scene.directory);
    run_until(&scene, change, limits[index]);
    bool has_pages = file_exists(log_of(&scene)) && file_size(log_of(&scene)) > 4096;
    CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
    CHECK(report.sound);
    scene.options.refuse_lost_tail = true;
    scene_open(&scene);
    const msgq_counts now = counts_of(&scene, NULL);
    CHECK(same(&now, &first) || same(&now, &second));
    complete += same(&now, &second);
    uncommitted += has_pages && same(&now, &first);
    put(&scene, NULL, "ana", "later");
    scene_close(&scene);
  }
  /* With the last limit the change is complete; some of the others cut it short after pages were written. */
  CHECK(complete > 0);
  CHECK(uncommitted > 0);
  snapshot_free(&before);
  scene_end(&scene);
}

TEST_ALONE(Q3_a_kill_during_a_first_batch_leaves_a_store_that_opens) { check_kills(change_batch); }
TEST_ALONE(Q3_a_kill_during_a_first_edit_leaves_a_store_that_opens) { check_kills(change_edit); }
TEST_ALONE(Q3_a_kill_during_a_first_delete_leaves_a_store_that_opens) { check_kills(change_delete); }
TEST_ALONE(Q3_a_kill_during_a_first_clear_leaves_a_store_that_opens) { check_kills(change_clear); }
TEST_ALONE(Q3_a_kill_during_a_first_record_leaves_a_store_that_opens) { check_kills(change_record); }
