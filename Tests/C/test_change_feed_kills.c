/* A program that is killed at every change of a file while its messages change their statuses: every change that survived is in the feed once,
   none that did not is, and the tokens that the program was given stay valid. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "scene.h"
#include "stub.h"

enum {
  messages = 12,
  kept = 1000
};

/* Of a message, by the changes that were read. */
struct known {
  msgq_change_kind kind;
  msgq_status status;
  uint32_t changes;
};

/* What the program knew when it was killed. Shared with the test. */
struct progress {
  char token[MSGQ_CHANGE_TOKEN_SIZE]; /* "": none yet */
  uint32_t count;                     /* changes up to it */
  int number;                         /* of the copy of both that is valid: a kill may come between two writes */
};

struct feed {
  struct known known[messages];
  uint32_t count;
};

static int number_of(const char *id) {
  int number = atoi(id + 1);
  REQUIRE(id[0] == 'm' && number >= 0 && number < messages);
  return number;
}

/* Notes a change, and checks that it can follow the last one of its message. */
static bool note(struct feed *feed, const msgq_change *change) {
  struct known *known = &feed->known[number_of(change->id)];
  bool is_first = known->changes++ == 0;
  bool is_right = is_first ? change->kind == MSGQ_CHANGE_STATUS && change->status == MSGQ_STATUS_QUEUED
                           : known->kind == MSGQ_CHANGE_STATUS && (change->kind != MSGQ_CHANGE_STATUS || change->status != known->status);
  if (change->kind == MSGQ_CHANGE_STATUS && change->status == MSGQ_STATUS_SENT) is_right = is_right && known->status == MSGQ_STATUS_SENDING;
  known->kind = change->kind;
  known->status = change->status;
  feed->count++;
  return is_right;
}

/* Reads the changes after a token into `feed`, unless NULL. Returns their number; `token` becomes the last one. */
static uint32_t read_changes(msgq_queue *queue, char token[MSGQ_CHANGE_TOKEN_SIZE], struct feed *feed) {
  uint32_t count = 0;
  for (size_t size = 1; size > 0;) {
    msgq_change_page *page = NULL;
    REQUIRE_OK(msgq_changes(queue, token[0] == '\0' ? NULL : token, 5, &page));
    size = msgq_changes_size(page);
    for (size_t index = 0; index < size && feed != NULL; index++) {
      const msgq_change *change = msgq_changes_at(page, index);
      if (!CHECK(note(feed, change))) fprintf(stderr, "  change %u: %s %d %d\n", feed->count, change->id, change->kind, change->status);
    }
    count += (uint32_t)size;
    snprintf(token, MSGQ_CHANGE_TOKEN_SIZE, "%s", msgq_changes_next(page));
    msgq_changes_free(page);
  }
  return count;
}

/* Follows the feed, and keeps the token. */
static void follow(struct scene *scene, struct progress progress[3]) {
  const struct progress *last = &progress[1 + progress[0].number % 2];
  struct progress *next = &progress[1 + (progress[0].number + 1) % 2];
  *next = *last;
  next->count += read_changes(scene->queue, next->token, NULL);
  progress[0].number++;
}

static msgq_verdict send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  switch (number_of(delivery->id) % 6) {
  case 4:
    out->kind = MSGQ_FAILURE_REJECTED;
    out->code = 400;
    return MSGQ_VERDICT_REJECT;
  case 5:
    out->kind = MSGQ_FAILURE_SERVER;
    out->code = 503;
    return delivery->attempt > 1 ? MSGQ_VERDICT_SENT : MSGQ_VERDICT_RETRY;
  default: return MSGQ_VERDICT_SENT;
  }
}

static void put_numbers(struct scene *scene, int first, int last) {
  msgq_draft drafts[messages];
  char ids[messages][8];
  size_t count = 0;
  for (int number = first; number <= last; number++, count++) {
    snprintf(ids[count], sizeof ids[count], "m%d", number);
    drafts[count] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[count].id = ids[count];
    drafts[count].conversation = number % 2 == 0 ? "ana" : "ben";
    if (number >= 10) drafts[count].replace_key = "key";
  }
  REQUIRE_OK(msgq_enqueue_batch(scene->queue, drafts, count, NULL));
}

/* Every kind of change, in commits of their own and in common ones, with and without a flush. */
static void change_everything(struct scene *scene, struct progress progress[3]) {
  uint64_t count = 0;
  put_numbers(scene, 0, 0);
  put_numbers(scene, 1, 5);
  follow(scene, progress);
  drain(scene);
  follow(scene, progress);
  REQUIRE_OK(msgq_mark(scene->queue, "m0", MSGQ_STATUS_DELIVERED));
  REQUIRE_OK(msgq_mark_up_to(scene->queue, "m2", MSGQ_STATUS_READ, &count));
  REQUIRE_OK(msgq_retry(scene->queue, "m4"));
  drain(scene);
  put_numbers(scene, 6, 9);
  REQUIRE_OK(msgq_delete(scene->queue, "m6"));
  follow(scene, progress);
  REQUIRE_OK(msgq_clear(scene->queue, "ben"));
  put_numbers(scene, 10, 10);
  put_numbers(scene, 11, 11);
  drain(scene);
  follow(scene, progress);
}

/* Returns whether the program was killed before its n-th change of a file. */
static bool run_until_killed(struct scene *scene, struct progress progress[3], int change) {
  memset(progress, 0, 3 * sizeof *progress);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    fault_change(scene->directory, change);
    scene_open(scene);
    REQUIRE_OK(msgq_set_transport(scene->queue, send, NULL, NULL));
    change_everything(scene, progress);
    scene_close(scene);
    _exit(check_failures() > 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

/* The last change of each message is what the store says of it, and the other way round. */
static void compare(struct scene *scene, const struct feed *feed) {
  static const msgq_change_kind is_status = MSGQ_CHANGE_STATUS;
  for (int number = 0; number < messages; number++) {
    const struct known *known = &feed->known[number];
    char id[8];
    snprintf(id, sizeof id, "m%d", number);
    int expected = known->changes > 0 && known->kind == is_status ? (int)known->status : -1;
    if (!CHECK_NUMBER(expected, status_of(scene, id))) fprintf(stderr, "  %s after %u changes\n", id, known->changes);
  }
}

static void check_feed(struct scene *scene, const struct progress progress[3]) {
  const struct progress *last = &progress[1 + progress[0].number % 2];
  struct feed feed = { .count = 0 };
  char oldest[MSGQ_CHANGE_TOKEN_SIZE] = "", token[MSGQ_CHANGE_TOKEN_SIZE];
  snprintf(token, sizeof token, "%s", last->token);
  read_changes(scene->queue, oldest, &feed);
  compare(scene, &feed);
  /* Without a gap and without a repeat. */
  uint32_t rest = read_changes(scene->queue, token, NULL);
  CHECK_NUMBER(feed.count, last->count + rest);
  CHECK_TEXT(oldest, token);
}

/* Returns whether the program was killed. */
static bool check_kill(struct progress progress[3], int change) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.keep_changes = kept;
  static const int64_t ladder[] = { 0 };
  set_ladder(&scene, ladder, 1);
  bool was_killed = run_until_killed(&scene, progress, change);
  for (int opening = 0; opening < 2; opening++) {
    scene_open(&scene);
    check_feed(&scene, progress);
    scene_close(&scene);
  }
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  REQUIRE_OK(msgq_check(scene.path, &report));
  if (!CHECK(report.sound)) fprintf(stderr, "  %s\n", report.text);
  if (check_failures() > 0) fprintf(stderr, "  killed at change %d\n", change);
  scene_end(&scene);
  return was_killed;
}

TEST_ALONE(T7_a_program_killed_at_any_change_of_a_file_leaves_each_change_once) {
  struct progress *progress = mmap(NULL, 3 * sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(progress != MAP_FAILED);
  int change = 1;
  while (check_kill(progress, change) && check_failures() == 0) change++;
  CHECK(change > 50); /* it was killed so often */
  munmap(progress, 3 * sizeof *progress);
}
