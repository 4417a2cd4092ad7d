/* A second power cut, during the open after the first one. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "driver.h"
#include "files.h"
#include "model.h"
#include "pool.h"
#include "tools.h"

struct recovery {
  enum scene scene;
  struct trace trace;
  long count;
  struct model *model;
  struct ledger ledger;
  size_t done;
  const char *first, *second; /* directories */
  char trace_path[4200];
  bool closes;
};

static int open_recorded(void *context) {
  struct recovery *run = context;
  char path[4200];
  msgq_options options = check_options(&run->ledger.promises);
  msgq_queue *queue = NULL;
  snprintf(path, sizeof path, "%s/store.db", run->first);
  shim_watch(run->first);
  shim_record(run->trace_path);
  if (msgq_open(path, &options, &queue) != MSGQ_OK) {
    fprintf(stderr, "open: %s\n", msgq_error_detail());
    return 1;
  }
  if (run->closes) msgq_close(queue, 1000);
  return 0;
}

static void *begin_worker(void *context) {
  struct recovery *run = malloc(sizeof *run);
  *run = *(struct recovery *)context;
  run->model = model_make(0);
  ledger_begin(&run->ledger, scene_promises(run->scene));
  run->first = directory_make("recovery");
  run->second = directory_make("image");
  snprintf(run->trace_path, sizeof run->trace_path, "%s.trace", run->first);
  return run;
}

static enum case_result one_case(void *context, long index, char *why, size_t room) {
  struct recovery *run = context;
  struct generator generator = generator_of(settings.seed, 400 + (uint64_t)run->scene, (uint64_t)index);
  struct trace trace;
  char path[4200];
  size_t cut = run->trace.count * (size_t)(index + 1) / (size_t)run->count;
  for (; run->done < cut; run->done++) model_apply(run->model, trace_at(&run->trace, run->done), &run->ledger);
  enum image_kind kind = (enum image_kind)random_below(&generator, IMAGE_GARBAGE);
  model_image(run->model, kind, generator, run->first);
  struct model *model = model_make(0);
  model_load(model, run->first);
  unlink(run->trace_path);
  run->closes = random_below(&generator, 2) == 0;
  int code = child_run(open_recorded, run, 20);
  if (code != 0 || !trace_load(&trace, run->trace_path)) {
    snprintf(why, room, "the open after the first power cut ended with %d [scene %s, image %s]", code, scene_name(run->scene), image_name(kind));
    model_free(model);
    return CASE_FAILED;
  }
  size_t second_cut = trace.count == 0 ? 0 : random_below(&generator, (uint32_t)trace.count + 1);
  for (size_t record = 0; record < second_cut; record++) model_apply(model, trace_at(&trace, record), NULL);
  enum image_kind second_kind = (enum image_kind)random_below(&generator, IMAGE_GARBAGE);
  model_image(model, second_kind, generator, run->second);
  snprintf(path, sizeof path, "%s/store.db", run->second);
  bool good = check_store(path, &run->ledger, CHECK_ENQUEUE | (index % 8 == 0 ? CHECK_REOPEN : 0), why, room);
  size_t length = strlen(why);
  if (!good) {
    snprintf(why + length, room - length, " [scene %s, record %zu, image %s; then record %zu of %zu, image %s]", scene_name(run->scene), cut,
             image_name(kind), second_cut, trace.count, image_name(second_kind));
  }
  trace_free(&trace);
  model_free(model);
  return good ? CASE_PASSED : CASE_FAILED;
}

/* ------------------------------------------------------------------ kills */

static const enum fault_class killing[] = { FAULT_WRITE, FAULT_SYNC, FAULT_OPEN, FAULT_TRUNCATE, FAULT_RENAME, FAULT_UNLINK };

struct killed {
  enum scene scene;
  struct snapshot crashed;
  struct ledger ledger;
  const char *directory;
  char path[4200];
  struct journal *journal;
  enum fault_class class;
  unsigned long nth;
};

static int crash(void *context) {
  struct killed *run = context;
  struct driver driver;
  shim_watch(NULL);
  driver_begin(&driver, run->scene, run->path, settings.seed, run->journal, 0);
  driver.strict = true;
  scene_play_until(&driver, run->scene, 60, 60);
  return 0;
}

/* Problems are recorded in the journal. */
static int check_killed(void *context) {
  struct killed *run = context;
  char why[240] = "";
  shim_watch(NULL);
  if (check_derived(run->path, why, sizeof why) && check_store(run->path, &run->ledger, CHECK_BEGINS | CHECK_ENQUEUE, why, sizeof why)) return 0;
  journal_problem(run->journal, "%s", why);
  return 1;
}

static bool child_check(struct killed *run, char *why, size_t room) {
  journal_clear(run->journal);
  int code = child_run(check_killed, run, 20);
  if (code != 0) snprintf(why, room, "afterwards (%d): %s", code, run->journal->problem);
  return code == 0;
}

static int recover(void *context) {
  struct killed *run = context;
  msgq_options options = check_options(&run->ledger.promises);
  msgq_queue *queue = NULL;
  shim_watch(run->directory);
  shim_fail(run->class, run->nth, EIO, FAULT_KILL);
  if (msgq_open(run->path, &options, &queue) != MSGQ_OK) {
    fprintf(stderr, "open: %s\n", msgq_error_detail());
    return 1;
  }
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "new-0";
  return msgq_enqueue(queue, &draft, NULL) == MSGQ_OK && msgq_close(queue, 1000) == MSGQ_OK ? 0 : 2;
}

/* The process that opens a crashed store, changes and closes it is killed before each of its calls that change a file. */
static struct tally run_killed(enum scene scene) {
  struct tally tally = { 0, 0, 0 };
  struct killed run = { .scene = scene };
  run.directory = directory_make("killed");
  snprintf(run.path, sizeof run.path, "%s/store.db", run.directory);
  run.journal = journal_make(100000);
  ledger_begin(&run.ledger, scene_promises(scene));
  int code = child_run(crash, &run, 60);
  if (code != 0 || atomic_load(&run.journal->problem_count) > 0) {
    printf("  FAILED recovery: the scene %s ended with %d: %s\n", scene_name(scene), code, run.journal->problem), tally.failed++;
  }
  snapshot_take(&run.crashed, run.directory);
  journal_replay(run.journal, &run.ledger);
  ledger_without_power_cut(&run.ledger);
  for (size_t index = 0; index < sizeof killing / sizeof killing[0]; index++) {
    run.class = killing[index];
    code = -SIGKILL;
    for (run.nth = 1; code == -SIGKILL && tally.failed < 10; run.nth++) {
      char why[512] = "";
      snapshot_write(&run.crashed, run.directory);
      code = child_run(recover, &run, 20);
      bool good = code == 0 || code == -SIGKILL;
      if (!good) snprintf(why, sizeof why, "the process ended with %d", code);
      good = good && child_check(&run, why, sizeof why);
      if (good) tally.passed++;
      else printf("  FAILED recovery: killed at call %lu of class %d, scene %s: %s\n", run.nth, (int)run.class, scene_name(scene), why), tally.failed++;
    }
  }
  snapshot_free(&run.crashed);
  ledger_end(&run.ledger);
  journal_free(run.journal);
  directory_remove(run.directory);
  printf("recovery: scene %s, killed at %ld calls\n", scene_name(scene), tally.passed);
  return tally;
}

int tool_recovery(void) {
  static const enum scene scenes[] = { SCENE_MIX, SCENE_CALLS, SCENE_SHORT, SCENE_HISTORY, SCENE_BODIES, SCENE_VOLUME, SCENE_LIMITS, SCENE_BATCHES };
  enum { all = sizeof scenes / sizeof scenes[0] };
  size_t count = settings.full ? all : 3;
  struct tally tally = { 0, 0, 0 };
  long images = settings.images > 0 ? settings.images : settings.full ? 1000 : 120;
  for (size_t index = 0; index < all; index++) {
    char trace[4200], why[512], name[64];
    struct recovery run;
    memset(&run, 0, sizeof run);
    run.scene = scenes[index];
    run.count = images / (long)count;
    if (settings.scene != NULL ? strcmp(settings.scene, scene_name(run.scene)) != 0 : index >= count) continue;
    snprintf(trace, sizeof trace, "%s/recovery-%s.trace", traces_directory(), scene_name(run.scene));
    snprintf(name, sizeof name, "recovery --scene %s%s", scene_name(run.scene), settings.full ? " --soak" : "");
    if (!record_scene(run.scene, settings.full ? 200 : 80, trace, why, sizeof why) || !trace_load(&run.trace, trace)) {
      printf("  FAILED %s: %s\n", name, why);
      tally.failed++;
      continue;
    }
    tally_add(&tally, pool_run(name, run.count, 40, one_case, begin_worker, &run));
    trace_free(&run.trace);
    unlink(trace);
  }
  for (size_t index = 0; index < all; index++) {
    if (settings.scene != NULL ? strcmp(settings.scene, scene_name(scenes[index])) != 0 : index >= count) continue;
    tally_add(&tally, run_killed(scenes[index]));
  }
  return tally_end("recovery", tally);
}
