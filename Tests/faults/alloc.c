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
  driver_begin(&driver, SCENE_MIX, run->path, settings.seed, run->journal, 0);
  driver.strict = run->nth == 0;
  driver.has_failed = has_failed;
  scene_play_until(&driver, SCENE_MIX, run->length, 6);
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
  return good && aftermath(SCENE_MIX, run->path, run->journal, why, room);
}

static enum case_result one_case(void *context, long index, char *why, size_t room) {
  struct alloc *run = context;
  long shown = settings.full || settings.only >= 0 ? index : index * (long)(run->count / 120 + 1) + (long)(settings.seed % (run->count / 120 + 1));
  run->nth = (unsigned long)(shown / 2) + 1;
  run->permanently = shown % 2 == 1;
  bool good = run_once(run, why, room);
  size_t length = strlen(why);
  if (!good) snprintf(why + length, room - length, " [allocation %lu fails %s]", run->nth, run->permanently ? "and all after it" : "once");
  return good ? CASE_PASSED : CASE_FAILED;
}

int tool_alloc(void) {
  struct tally tally = { 0, 0, 0 };
  struct alloc run;
  char why[512] = "";
  memset(&run, 0, sizeof run);
  run.length = settings.full ? 40 : 25;
  struct alloc *first = begin_worker(&run);
  if (!run_once(first, why, sizeof why)) {
    printf("  FAILED alloc: the scene without faults: %s\n", why);
    tally.failed++;
  }
  run.count = *first->calls_made;
  directory_remove(first->directory);
  if (run.count == 0) {
    printf("  FAILED alloc: the allocator of SQLite was never called\n");
    tally.failed++;
    return tally_end("alloc", tally);
  }
  printf("alloc: %lu allocations\n", run.count);
  long cases = (long)run.count * 2;
  if (!settings.full && settings.only < 0) cases /= (long)(run.count / 120 + 1);
  tally_add(&tally, pool_run(settings.full ? "alloc --soak" : "alloc", cases, 60, one_case, begin_worker, &run));
  return tally_end("alloc", tally);
}
