/*
 * The kth flush fails, and the dirty pages are lost, as on Linux. The process continues, and closes or exits; the next one opens the store,
 * enqueues more, and closes or exits; then the power is cut. Nothing that was acknowledged may be lost.
 */
#include <errno.h>
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

enum first_ending { EXITS_AT_ONCE, CONTINUES_AND_EXITS, CONTINUES_AND_CLOSES, first_endings };
enum second_ending { EXITS, CLOSES, second_endings };

static const char *const first_words[] = { "exits at once", "continues and exits", "continues and closes" };
static const char *const second_words[] = { "exits", "closes" };

struct failflush {
  enum scene scene;
  unsigned length;
  unsigned long nth;
  enum first_ending first;
  enum second_ending second;
  char directory[4096], path[4200], trace[4200];
  struct journal *journal;
};

/* Two short processes that use one store. */
static int first_process(void *context) {
  struct failflush *run = context;
  struct driver driver;
  shim_watch(run->directory);
  shim_record(run->trace);
  shim_fail(FAULT_SYNC, run->nth, EIO, FAULT_ONCE);
  driver_begin(&driver, run->scene, run->path, settings.seed, run->journal, 0);
  driver.remember_unknown = run->first != EXITS_AT_ONCE;
  if (run->first == CONTINUES_AND_CLOSES || run->nth == 0) {
    scene_play(&driver, run->scene, run->length);
    return run->nth == 0 ? (int)shim_count(FAULT_SYNC) : 0;
  }
  scene_play_until(&driver, run->scene, run->length, run->first == EXITS_AT_ONCE ? 0 : run->length);
  return 0;
}

static int second_process(void *context) {
  struct failflush *run = context;
  struct driver driver;
  shim_watch(run->directory);
  shim_record(run->trace);
  driver_begin(&driver, run->scene, run->path, settings.seed + 1, run->journal, 0);
  journal_replay(run->journal, &driver.ledger);
  driver.next = driver.ledger.count;
  driver.strict = true;
  driver.remember_unknown = true;
  if (driver_open(&driver) != MSGQ_OK) return 1;
  for (uint32_t number = 0, end = driver.next; number < end; number++) {
    const struct message *message = &driver.ledger.messages[number];
    bool unknown = message->is_tried && !message->is_done && !message->is_received && message->refusal == MSGQ_OK && !message->delete_tried;
    if (unknown && message->starts == 0 && message->versions_count == 1) driver_enqueue_again(&driver, number);
  }
  for (uint32_t index = 0; index < 8; index++) driver_enqueue(&driver, index % 5, 50 + index * 40);
  driver_drain(&driver, 3);
  driver_batch(&driver, 5, 100);
  if (run->second == CLOSES) driver_close(&driver);
  return 0;
}

static bool check_images(struct failflush *run, long index, char *why, size_t room) {
  struct trace trace;
  struct ledger ledger;
  struct model *model = model_make(0);
  bool good = true;
  char path[4300], directory[4200];
  snprintf(directory, sizeof directory, "%s-image", run->directory);
  snprintf(path, sizeof path, "%s/store.db", directory);
  ledger_begin(&ledger, scene_promises(run->scene));
  if (!trace_load(&trace, run->trace)) abort();
  for (size_t record = 0; record < trace.count; record++) model_apply(model, trace_at(&trace, record), &ledger);
  for (enum image_kind kind = IMAGE_CACHE_SYNCED; kind <= IMAGE_CACHE_RANDOM && good; kind++) {
    model_image(model, kind, generator_of(settings.seed, 200, (uint64_t)index), directory);
    good = check_store(path, &ledger, CHECK_ENQUEUE | CHECK_REOPEN, why, room) && check_backups(path, &ledger, why, room);
    size_t length = strlen(why);
    if (!good) snprintf(why + length, room - length, " [after the power cut, image %s]", image_name(kind));
  }
  directory_remove(directory);
  model_free(model);
  ledger_end(&ledger);
  trace_free(&trace);
  return good;
}

static enum case_result run_case(struct failflush *run, long index, char *why, size_t room) {
  directory_empty(run->directory);
  unlink(run->trace);
  journal_clear(run->journal);
  bool good = false;
  int code = child_run(first_process, run, 60);
  if (code != 0) {
    snprintf(why, room, "the first process ended with %d", code);
  } else {
    bool problem_before = run->journal->problem[0] != '\0';
    char first_problem[256];
    snprintf(first_problem, sizeof first_problem, "%s", run->journal->problem);
    atomic_store(&run->journal->problem_count, 0);
    code = child_run(second_process, run, 60);
    if (problem_before) snprintf(why, room, "in the first process: %s", first_problem);
    else if (code != 0 || atomic_load(&run->journal->problem_count) > 0)
      snprintf(why, room, "the next process ended with %d: %s", code, run->journal->problem);
    else good = check_images(run, index, why, room);
  }
  size_t length = strlen(why);
  if (!good) {
    snprintf(why + length, room - length, " [scene %s, flush %lu fails, the process %s, the next %s]", scene_name(run->scene), run->nth,
             first_words[run->first], second_words[run->second]);
  }
  return good ? CASE_PASSED : CASE_FAILED;
}

struct failflush_plan {
  enum scene scene;
  unsigned length;
  unsigned long flushes;
  long stride;
};

static void prepare(struct failflush *run, const struct failflush_plan *plan) {
  memset(run, 0, sizeof *run);
  run->scene = plan->scene;
  run->length = plan->length;
  snprintf(run->directory, sizeof run->directory, "%s", directory_make("failflush"));
  snprintf(run->path, sizeof run->path, "%s/store.db", run->directory);
  snprintf(run->trace, sizeof run->trace, "%s.trace", run->directory);
  run->journal = journal_make(200000);
}

struct failflush_worker {
  const struct failflush_plan *plan;
  struct failflush run;
};

static void *begin_worker(void *context) {
  struct failflush_worker *worker = calloc(1, sizeof *worker);
  worker->plan = context;
  prepare(&worker->run, worker->plan);
  return worker;
}

static enum case_result one_case(void *context, long index, char *why, size_t room) {
  struct failflush_worker *worker = context;
  long place = index * worker->plan->stride;
  worker->run.first = (enum first_ending)(place % first_endings);
  worker->run.second = (enum second_ending)(place / first_endings % second_endings);
  worker->run.nth = (unsigned long)(place / first_endings / second_endings) + 1;
  return run_case(&worker->run, index, why, room);
}

/* Returns the number of flushes of the scene without faults, counted in the trace. */
static unsigned long count_flushes(struct failflush_plan *plan) {
  struct failflush run;
  struct trace trace;
  unsigned long count = 0;
  prepare(&run, plan);
  run.first = CONTINUES_AND_CLOSES;
  int code = child_run(first_process, &run, 60);
  if (code >= 0 && trace_load(&trace, run.trace)) {
    for (size_t index = 0; index < trace.count; index++) {
      struct trace_record head;
      memcpy(&head, trace_at(&trace, index), sizeof head);
      count += head.kind == TRACE_SYNC;
    }
    trace_free(&trace);
  }
  directory_remove(run.directory);
  unlink(run.trace);
  journal_free(run.journal);
  return count;
}

int tool_failflush(void) {
  static const enum scene scenes[] = { SCENE_MIX, SCENE_CLEAR, SCENE_CALLS, SCENE_LIMITS, SCENE_HISTORY, SCENE_DURABLE };
  struct tally tally = { 0, 0, 0 };
  for (size_t index = 0; index < sizeof scenes / sizeof scenes[0]; index++) {
    struct failflush_plan plan = { scenes[index], settings.full ? 150 : 30, 0, 1 };
    char name[64];
    if (settings.scene != NULL ? strcmp(settings.scene, scene_name(plan.scene)) != 0 : !settings.full && index > 2) continue;
    plan.flushes = count_flushes(&plan);
    long most = plan.scene == SCENE_CALLS ? 40 : 100;
    long cases = (long)plan.flushes * first_endings * second_endings;
    plan.stride = settings.full || cases < most ? 1 : (cases / most) | 1;
    if (plan.stride % 3 == 0) plan.stride += 2; /* so that every ending is tested */
    snprintf(name, sizeof name, "failflush --scene %s%s", scene_name(plan.scene), settings.full ? " --soak" : "");
    if (plan.flushes == 0) {
      printf("  FAILED %s: the scene makes no flush\n", name);
      tally.failed++;
      continue;
    }
    tally_add(&tally, pool_run(name, cases / plan.stride, 120, one_case, begin_worker, &plan));
  }
  return tally_end("failflush", tally);
}
