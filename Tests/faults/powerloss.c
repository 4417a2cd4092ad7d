/* Power cuts: the writes of a scene are recorded; every image that a power cut may leave must open and have the acknowledged messages. */
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

struct recording {
  enum scene scene;
  unsigned length;
  const char *directory;
  char trace[4096];
  struct journal *journal;
};

static int play(void *context) {
  struct recording *recording = context;
  struct driver driver;
  char path[4096];
  snprintf(path, sizeof path, "%s/store.db", recording->directory);
  shim_watch(recording->directory);
  shim_record(recording->trace);
  driver_begin(&driver, recording->scene, path, settings.seed, recording->journal, 0);
  driver.strict = true;
  scene_play(&driver, recording->scene, recording->length);
  return 0;
}

bool record_scene(enum scene scene, unsigned length, const char *trace, char *why, size_t room) {
  struct recording recording = { .scene = scene, .length = length };
  recording.directory = directory_make("powerloss");
  snprintf(recording.trace, sizeof recording.trace, "%s", trace);
  recording.journal = journal_make(1000000);
  unlink(trace);
  int code = child_run(play, &recording, 120);
  bool good = code == 0 && atomic_load(&recording.journal->problem_count) == 0;
  if (!good) snprintf(why, room, "the scene %s ended with %d; %s", scene_name(scene), code, recording.journal->problem);
  journal_free(recording.journal);
  directory_remove(recording.directory);
  return good;
}

/* ------------------------------------------------------------------ images */

struct images {
  enum scene scene;
  struct trace trace;
  long count;
  bool is_complete; /* each record with each kind of image, instead of random ones */
  unsigned lost_period;
  /* In each worker: the model after `done` records. */
  struct model *model;
  struct ledger ledger;
  size_t done;
  const char *directory;
};

static void *begin_worker(void *context) {
  struct images *images = malloc(sizeof *images);
  *images = *(struct images *)context;
  images->model = model_make(images->lost_period);
  ledger_begin(&images->ledger, scene_promises(images->scene));
  images->directory = directory_make("image");
  return images;
}

/* Cases are in the order of the trace, so that the model only moves forward. The exact record is random. */
static size_t cut_of(const struct images *images, long index, struct generator *generator) {
  double step = (double)images->trace.count / (double)images->count;
  return (size_t)(step * (double)index + step * random_below(generator, 1000) / 1000.0) + 1;
}

static enum case_result check_image(void *context, long index, char *why, size_t room) {
  struct images *images = context;
  struct generator generator = generator_of(settings.seed, (uint64_t)images->scene + 100, (uint64_t)index);
  size_t cut = images->is_complete ? (size_t)index / IMAGE_KINDS + 1 : cut_of(images, index, &generator);
  char path[4096];
  for (; images->done < cut && images->done < images->trace.count; images->done++) {
    model_apply(images->model, trace_at(&images->trace, images->done), &images->ledger);
  }
  enum image_kind kind = (enum image_kind)(images->is_complete ? index % IMAGE_KINDS : random_below(&generator, IMAGE_KINDS));
  model_image(images->model, kind, generator, images->directory);
  snprintf(path, sizeof path, "%s/store.db", images->directory);
  /* Before the first open has returned, there may be no store. */
  if (images->ledger.count == 0 && access(path, F_OK) != 0) directory_empty(images->directory);
  unsigned flags = CHECK_ENQUEUE | CHECK_BEGINS | CHECK_DERIVED | (random_below(&generator, 8) == 0 ? CHECK_REOPEN : 0);
  /* Garbage in sectors that were not flushed is damage, which a report may name. */
  if (kind != IMAGE_GARBAGE && images->lost_period == 0) flags |= CHECK_WHOLE | (random_below(&generator, 8) == 0 ? CHECK_SALVAGE : 0);
  bool good = check_store(path, &images->ledger, flags, why, room) && check_backups(path, &images->ledger, why, room);
  if (good) return CASE_PASSED;
  size_t length = strlen(why);
  snprintf(why + length, room - length, " [scene %s, record %zu of %zu, image %s]", scene_name(images->scene), cut, images->trace.count,
           image_name(kind));
  if (getenv("FAULTS_KEEP") != NULL) {
    char keep[4096];
    snprintf(keep, sizeof keep, "%s/%s-%ld", getenv("FAULTS_KEEP"), scene_name(images->scene), index);
    model_image(images->model, kind, generator_of(settings.seed, (uint64_t)images->scene + 100, (uint64_t)index), keep);
  }
  return CASE_FAILED;
}

/* The number of calls of each scene, and its share of the images. */
static const struct {
  unsigned full, brief;
  unsigned share;
} plans[SCENES] = {
  [SCENE_MIX] = { 400, 120, 4 },    [SCENE_BODIES] = { 200, 50, 3 },  [SCENE_HISTORY] = { 400, 120, 3 },
  [SCENE_VOLUME] = { 200, 0, 1 },   [SCENE_DURABLE] = { 250, 80, 2 }, [SCENE_HOLD] = { 250, 80, 2 },
  [SCENE_CLEAR] = { 200, 60, 2 },   [SCENE_SETTLE] = { 120, 40, 1 },  [SCENE_THREADS] = { 400, 100, 2 },
  [SCENE_SPACE] = { 240, 120, 2 },  [SCENE_BATCHES] = { 300, 80, 2 },
  [SCENE_POLLED] = { 160, 60, 2 },
  [SCENE_CALLS] = { 400, 150, 4 }, [SCENE_LIMITS] = { 400, 150, 3 },
  [SCENE_FEED] = { 300, 120, 3 },
  [SCENE_SHORT] = { 150, 12, 0 },
};

static struct tally run_scene(enum scene scene, long total) {
  struct tally tally = { 0, 0, 0 };
  char trace[4096], name[64], why[1024];
  struct images images = { .scene = scene, .count = total };
  snprintf(trace, sizeof trace, "%s", settings.trace != NULL ? settings.trace : "");
  snprintf(name, sizeof name, "powerloss --scene %s", scene_name(scene));
  if (settings.trace == NULL) {
    snprintf(trace, sizeof trace, "%s/%s.trace", traces_directory(), scene_name(scene));
    if (!record_scene(scene, settings.full ? plans[scene].full : plans[scene].brief, trace, why, sizeof why)) {
      printf("  FAILED powerloss --scene %s --seed %llu: %s\n", scene_name(scene), (unsigned long long)settings.seed, why);
      tally.failed++;
    }
  }
  if (!trace_load(&images.trace, trace) || images.trace.count == 0) {
    printf("  FAILED powerloss --scene %s: nothing was recorded in %s\n", scene_name(scene), trace);
    tally.failed++;
    return tally;
  }
  if (scene == SCENE_SHORT) {
    images.is_complete = true;
    images.count = total = (long)images.trace.count * IMAGE_KINDS;
  }
  long failed = tally.failed;
  tally_add(&tally, pool_run(name, total, 30, check_image, begin_worker, &images));
  if (tally.failed > failed) {
    printf("  repeat with: --only powerloss --scene %s --seed %llu%s --trace %s\n", scene_name(scene), (unsigned long long)settings.seed,
           settings.full ? " --soak" : "", trace);
  } else if (settings.trace == NULL) unlink(trace);
  trace_free(&images.trace);
  return tally;
}

/* Checks that the tools work: with a disk that ignores flushes, images must fail. */
int tool_selftest(void) {
  struct tally tally = { 0, 0, 0 };
  char trace[4096], why[1024] = "";
  unsigned periods[] = { 0, 2 };
  snprintf(trace, sizeof trace, "%s/selftest.trace", traces_directory());
  if (!record_scene(SCENE_MIX, 60, trace, why, sizeof why)) printf("  FAILED selftest: %s\n", why), tally.failed++;
  for (int index = 0; index < 2; index++) {
    struct images images = { .scene = SCENE_MIX, .count = 60, .lost_period = periods[index] };
    if (!trace_load(&images.trace, trace)) abort();
    settings.is_quiet = true;
    struct tally images_tally = pool_run("selftest", images.count, 30, check_image, begin_worker, &images);
    settings.is_quiet = false;
    bool good = periods[index] == 0 ? images_tally.failed < images_tally.passed : images_tally.failed > images.count / 4;
    if (good) tally.passed++;
    else printf("  FAILED selftest: one flush of %u lost: %ld images of %ld failed\n", periods[index], images_tally.failed, images.count), tally.failed++;
    trace_free(&images.trace);
  }
  unlink(trace);
  return tally_end("selftest", tally);
}

int tool_powerloss(void) {
  struct tally tally = { 0, 0, 0 };
  long images = settings.images > 0 ? settings.images : settings.full ? 20000 : 800;
  unsigned shares = 0;
  for (enum scene scene = 0; scene < SCENES; scene++) {
    if (settings.full || plans[scene].brief > 0) shares += plans[scene].share;
  }
  for (enum scene scene = 0; scene < SCENES; scene++) {
    if (settings.scene != NULL ? strcmp(settings.scene, scene_name(scene)) != 0 : !settings.full && plans[scene].brief == 0) continue;
    tally_add(&tally, run_scene(scene, settings.scene != NULL && settings.images > 0 ? images : (images * plans[scene].share + shares - 1) / shares));
  }
  return tally_end("powerloss", tally);
}
