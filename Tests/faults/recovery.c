/* A second power cut, during the open after the first one. */
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

int tool_recovery(void) {
  static const enum scene scenes[] = { SCENE_MIX, SCENE_CALLS, SCENE_HISTORY, SCENE_BODIES, SCENE_VOLUME, SCENE_LIMITS, SCENE_BATCHES };
  enum { all = sizeof scenes / sizeof scenes[0] };
  size_t count = settings.full ? all : 2;
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
  return tally_end("recovery", tally);
}
