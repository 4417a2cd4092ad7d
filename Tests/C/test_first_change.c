/* SIGKILL during the first change of a session, before its commit. A change may be larger than SQLite's cache; the log then contains pages
   but no commit. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
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

/* Runs the change in a process that is killed before the n-th change of a file of the store, or after the change. */
static void run_until(const struct scene *scene, void (*change)(msgq_queue *), int number) {
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    msgq_queue *queue = NULL;
    if (msgq_open(scene->path, &scene->options, &queue) != MSGQ_OK) _exit(1);
    fault_change(scene->directory, number);
    change(queue);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static bool same(const msgq_counts *left, const msgq_counts *right) {
  return left->queued == right->queued && left->received == right->received && left->unsent_bytes == right->unsent_bytes;
}

/* Whether a part of a change that removes queued messages in steps is done. */
static bool is_between(const msgq_counts *now, const msgq_counts *first, const msgq_counts *second) {
  return now->queued <= first->queued && now->queued >= second->queued && now->received == first->received;
}

static void check_kills(void (*change)(msgq_queue *), bool in_steps) {
  enum { first_kills = 6, kills = 16 };
  struct scene scene;
  struct snapshot before;
  unsigned complete = 0, uncommitted = 0;
  fill(&scene);
  snapshot_take(&before, scene.directory);
  scene_open(&scene);
  const msgq_counts first = counts_of(&scene, NULL);
  fault_change(scene.directory, 0);
  change(scene.queue);
  const int changes = fault_changes();
  const msgq_counts second = counts_of(&scene, NULL);
  scene_close(&scene);
  CHECK(changes > first_kills);
  for (int index = 1; index <= kills; index++) {
    const int number = index <= first_kills ? index : changes * (index - first_kills) / (kills - first_kills) + (index == kills);
    msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
    snapshot_restore(&before, scene.directory);
    run_until(&scene, change, number);
    bool has_pages = file_exists(log_of(&scene)) && file_size(log_of(&scene)) > 4096;
    CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
    CHECK(report.sound);
    scene.options.refuse_lost_tail = true;
    scene_open(&scene);
    const msgq_counts now = counts_of(&scene, NULL);
    CHECK(same(&now, &first) || same(&now, &second) || (in_steps && is_between(&now, &first, &second)));
    complete += same(&now, &second);
    uncommitted += has_pages && (in_steps ? !same(&now, &second) : same(&now, &first));
    put(&scene, NULL, "ana", "later");
    scene_close(&scene);
  }
  /* The last kill follows the change; some of the others cut it short after pages were written. */
  CHECK(complete > 0);
  CHECK(uncommitted > 0);
  snapshot_free(&before);
  scene_end(&scene);
}

TEST_ALONE(Q3_a_kill_during_a_first_batch_leaves_a_store_that_opens) { check_kills(change_batch, false); }
TEST_ALONE(Q3_a_kill_during_a_first_edit_leaves_a_store_that_opens) { check_kills(change_edit, false); }
TEST_ALONE(Q3_a_kill_during_a_first_delete_leaves_a_store_that_opens) { check_kills(change_delete, false); }
TEST_ALONE(Q3_a_kill_during_a_first_clear_leaves_a_store_that_opens) { check_kills(change_clear, true); }
TEST_ALONE(Q3_a_kill_during_a_first_record_leaves_a_store_that_opens) { check_kills(change_record, false); }
