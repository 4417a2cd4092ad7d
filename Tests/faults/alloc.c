/* The allocator of SQLite fails at the nth call, once or from then on. Calls return errors; no crash, nothing acknowledged is lost. */
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "driver.h"
#include "files.h"
#include "pool.h"
#include "shim.h"
#include "tools.h"

static sqlite3_mem_methods system_methods;
static atomic_ulong calls;
static unsigned long failing;
static bool failing_permanently;

static bool should_fail(void) {
  unsigned long number = atomic_fetch_add(&calls, 1) + 1;
  return failing != 0 && (failing_permanently ? number >= failing : number == failing);
}
static void *allocate(int size) { return should_fail() ? NULL : system_methods.xMalloc(size); }
static void *reallocate(void *old, int size) { return should_fail() ? NULL : system_methods.xRealloc(old, size); }

static bool has_failed(void) { return failing != 0 && atomic_load(&calls) >= failing; }

struct alloc {
  enum scene scene;
  unsigned length;
  unsigned long count; /* of allocations when none fails */
  unsigned long nth;
  bool permanently;
  const char *directory;
  char path[4200];
  struct journal *journal;
  unsigned long *calls_made; /* shared with the child */
};

static int play(void *context) {
  struct alloc *run = context;
  struct driver driver;
  sqlite3_mem_methods methods;
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &system_methods) != SQLITE_OK) return 7;
  methods = system_methods;
  methods.xMalloc = allocate;
  methods.xRealloc = reallocate;
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK) return 7;
  failing = run->nth;
  failing_permanently = run->permanently;
  shim_watch(NULL);
  driver_begin(&driver, run->scene, run->path, settings.seed, run->journal, 0);
  driver.strict = run->nth == 0;
  driver.has_failed = has_failed;
  scene_play_until(&driver, run->scene, run->length, 6);
  driver_close(&driver);
  *run->calls_made = atomic_load(&calls);
  return 0;
}

static void *begin_worker(void *context) {
  struct alloc *run = malloc(sizeof *run);
  *run = *(struct alloc *)context;
  run->directory = directory_make("alloc");
  snprintf(run->path, sizeof run->path, "%s/store.db", run->directory);
  run->journal = journal_make(100000);
  run->calls_made = (unsigned long *)(void *)journal_make(1)->events;
  return run;
}

static bool run_once(struct alloc *run, char *why, size_t room) {
  directory_empty(run->directory);
  journal_clear(run->journal);
  int code = child_run(play, run, 40);
  bool good = code == 0 && atomic_load(&run->journal->problem_count) == 0;
  if (!good) snprintf(why, room, "the process ended with %d%s: %s", code, code == child_hung ? " (hung)" : "", run->journal->problem);
  return good && aftermath(run->scene, run->path, run->journal, why, room);
}

/* The short run has about `shown` cases. */
static long stride_of(const struct alloc *run) {
  unsigned long shown = run->scene == SCENE_MIX ? 120 : 40;
  return settings.full ? 1 : (long)(run->count / shown) + 1;
}

static enum case_result one_case(void *context, long index, char *why, size_t room) {
  struct alloc *run = context;
  long stride = stride_of(run);
  long shown = settings.full || settings.only >= 0 ? index : index * stride + (long)(settings.seed % (uint64_t)stride);
  run->nth = (unsigned long)(shown / 2) + 1;
  run->permanently = shown % 2 == 1;
  bool good = run_once(run, why, room);
  size_t length = strlen(why);
  if (!good) {
    snprintf(why + length, room - length, " [scene %s, allocation %lu fails %s]", scene_name(run->scene), run->nth,
             run->permanently ? "and all after it" : "once");
  }
  return good ? CASE_PASSED : CASE_FAILED;
}

static struct tally run_scene(enum scene scene) {
  struct tally tally = { 0, 0, 0 };
  struct alloc run;
  char why[512] = "", name[64];
  memset(&run, 0, sizeof run);
  run.scene = scene;
  run.length = settings.full ? 40 : 25;
  struct alloc *first = begin_worker(&run);
  if (!run_once(first, why, sizeof why)) {
    printf("  FAILED alloc: the scene %s without faults: %s\n", scene_name(scene), why);
    tally.failed++;
  }
  run.count = *first->calls_made;
  directory_remove(first->directory);
  if (run.count == 0) {
    printf("  FAILED alloc: the allocator of SQLite was never called\n");
    tally.failed++;
    return tally;
  }
  printf("alloc: scene %s, %lu allocations\n", scene_name(scene), run.count);
  long cases = (long)run.count * 2;
  if (settings.only < 0) cases /= stride_of(&run);
  snprintf(name, sizeof name, "alloc --scene %s%s", scene_name(scene), settings.full ? " --soak" : "");
  tally_add(&tally, pool_run(name, cases, 60, one_case, begin_worker, &run));
  return tally;
}

int tool_alloc(void) {
  static const enum scene scenes[] = { SCENE_MIX, SCENE_CALLS, SCENE_LIMITS };
  struct tally tally = { 0, 0, 0 };
  for (size_t index = 0; index < sizeof scenes / sizeof scenes[0]; index++) {
    if (settings.scene != NULL ? strcmp(settings.scene, scene_name(scenes[index])) != 0 : !settings.full && index > 1) continue;
    tally_add(&tally, run_scene(scenes[index]));
  }
  return tally_end("alloc", tally);
}
