/* The nth read, write, flush, open, truncate, rename or unlink fails once, permanently or in part. Nothing acknowledged may be lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "driver.h"
#include "files.h"
#include "pool.h"
#include "shim.h"
#include "tools.h"

static const struct fault {
  enum fault_class class;
  int error;
  enum fault_mode mode;
  const char *text;
} faults[] = {
  { FAULT_READ, EIO, FAULT_ONCE, "read: EIO once" },
  { FAULT_READ, EIO, FAULT_PERMANENT, "read: EIO permanently" },
  { FAULT_WRITE, EIO, FAULT_ONCE, "write: EIO once" },
  { FAULT_WRITE, ENOSPC, FAULT_ONCE, "write: ENOSPC once" },
  { FAULT_WRITE, EDQUOT, FAULT_ONCE, "write: EDQUOT once" },
  { FAULT_WRITE, EDQUOT, FAULT_PERMANENT, "write: EDQUOT permanently" },
  { FAULT_WRITE, ENOSPC, FAULT_SHORT, "write: short, then ENOSPC" },
  { FAULT_WRITE, EIO, FAULT_PERMANENT, "write: EIO permanently" },
  { FAULT_WRITE, ENOSPC, FAULT_PERMANENT, "write: ENOSPC permanently" },
  { FAULT_SYNC, EIO, FAULT_ONCE, "flush: EIO once" },
  { FAULT_SYNC, ENOSPC, FAULT_ONCE, "flush: ENOSPC once" },
  { FAULT_SYNC, EIO, FAULT_PERMANENT, "flush: EIO permanently" },
  { FAULT_OPEN, EIO, FAULT_ONCE, "open: EIO once" },
  { FAULT_OPEN, ENOSPC, FAULT_ONCE, "open: ENOSPC once" },
  { FAULT_OPEN, EIO, FAULT_PERMANENT, "open: EIO permanently" },
  { FAULT_TRUNCATE, EIO, FAULT_ONCE, "truncate: EIO once" },
  { FAULT_TRUNCATE, ENOSPC, FAULT_ONCE, "truncate: ENOSPC once" },
  { FAULT_TRUNCATE, ENOSPC, FAULT_PERMANENT, "truncate: ENOSPC permanently" },
  { FAULT_RENAME, EIO, FAULT_ONCE, "rename: EIO once" },
  { FAULT_RENAME, ENOSPC, FAULT_PERMANENT, "rename: ENOSPC permanently" },
  { FAULT_UNLINK, EIO, FAULT_ONCE, "unlink: EIO once" },
  { FAULT_UNLINK, EIO, FAULT_PERMANENT, "unlink: EIO permanently" },
};
enum { faults_count = sizeof faults / sizeof faults[0] };

struct iofail {
  enum scene scene;
  unsigned length;
  unsigned long counts[FAULT_CLASSES]; /* of calls when nothing fails */
  const char *directory;
  char path[4200];
  struct journal *journal;
  const struct fault *fault;
  unsigned long nth;
  unsigned long *shared; /* with the child: counts of calls, then the number of calls that failed */
};

static int play(void *context) {
  struct iofail *run = context;
  struct driver driver;
  char why[200];
  shim_watch(run->directory);
  shim_fail(run->fault->class, run->nth, run->fault->error, run->fault->mode);
  driver_begin(&driver, run->scene, run->path, settings.seed, run->journal, 0);
  driver.strict = run->nth == 0;
  scene_play_until(&driver, run->scene, run->length, 12);
  for (int class = 0; class < FAULT_CLASSES; class++) run->shared[class] = shim_count((enum fault_class)class);
  run->shared[FAULT_CLASSES] = shim_fired();
  if (run->fault->mode == FAULT_PERMANENT && run->nth > 0) {
    /* It lasts while the store is closed, opened and used again. */
    driver_close(&driver);
    scene_play_until(&driver, run->scene, 6, 6);
  }
  if (run->fault->class == FAULT_READ && run->fault->mode == FAULT_ONCE && driver.queue != NULL) {
    /* The fault is over and must have no effect. */
    struct ledger ledger;
    ledger_copy(&ledger, &driver.ledger);
    ledger_without_power_cut(&ledger);
    if (!check_queue(driver.queue, &ledger, CHECK_NO_OUTCOMES, why, sizeof why)) journal_problem(run->journal, "after a read failed once: %s", why);
    ledger_end(&ledger);
  }
  driver_close(&driver);
  return 0;
}

static void prepare(struct iofail *run) {
  run->directory = directory_make("iofail");
  snprintf(run->path, sizeof run->path, "%s/store.db", run->directory);
  run->journal = journal_make(100000);
  run->shared = (unsigned long *)(void *)journal_make(4)->events;
}

static void *begin_worker(void *context) {
  struct iofail *run = malloc(sizeof *run);
  *run = *(struct iofail *)context;
  prepare(run);
  return run;
}

static bool run_once(struct iofail *run, char *why, size_t room) {
  directory_empty(run->directory);
  journal_clear(run->journal);
  memset(run->shared, 0, (FAULT_CLASSES + 1) * sizeof *run->shared);
  int code = child_run(play, run, 40);
  bool has_problem = atomic_load(&run->journal->problem_count) > 0;
  if (code != 0) snprintf(why, room, code == child_hung ? "the process hung" : "the process ended with %d", code);
  else if (has_problem) snprintf(why, room, "%s", run->journal->problem);
  return code == 0 && !has_problem && aftermath(run->scene, run->path, run->journal, why, room);
}

static enum case_result one_case(void *context, long index, char *why, size_t room) {
  struct iofail *run = context;
  long place = index;
  for (run->fault = faults; place >= (long)run->counts[run->fault->class]; run->fault++) place -= (long)run->counts[run->fault->class];
  run->nth = (unsigned long)place + 1;
  /* The short run has a few calls of each kind. */
  const unsigned long few = run->scene == SCENE_MIX ? 12 : 5;
  if (!settings.full && settings.only < 0 && run->counts[run->fault->class] > few) {
    unsigned long stride = run->counts[run->fault->class] / few;
    if ((run->nth + settings.seed) % stride != 0) return CASE_SKIPPED;
  }
  bool good = run_once(run, why, room);
  size_t length = strlen(why);
  if (!good) snprintf(why + length, room - length, " [scene %s, call %lu, %s]", scene_name(run->scene), run->nth, run->fault->text);
  return good ? CASE_PASSED : CASE_FAILED;
}

int tool_iofail(void) {
  static const enum scene scenes[] = { SCENE_MIX, SCENE_CLEAR, SCENE_CALLS, SCENE_LIMITS };
  struct tally tally = { 0, 0, 0 };
  for (size_t index = 0; index < sizeof scenes / sizeof scenes[0]; index++) {
    struct iofail run;
    char why[512] = "", name[64];
    long cases = 0;
    memset(&run, 0, sizeof run);
    run.scene = scenes[index];
    run.length = settings.full ? 80 : 40;
    if (settings.scene != NULL ? strcmp(settings.scene, scene_name(run.scene)) != 0 : !settings.full && run.scene != SCENE_MIX && run.scene != SCENE_CALLS) continue;
    prepare(&run);
    run.fault = faults;
    if (!run_once(&run, why, sizeof why)) {
      printf("  FAILED iofail: the scene without faults: %s\n", why);
      tally.failed++;
    }
    memcpy(run.counts, run.shared, sizeof run.counts);
    directory_remove(run.directory);
    for (size_t fault = 0; fault < faults_count; fault++) cases += (long)run.counts[faults[fault].class];
    snprintf(name, sizeof name, "iofail --scene %s%s", scene_name(run.scene), settings.full ? " --soak" : "");
    struct tally more = pool_run(name, cases, 60, one_case, begin_worker, &run);
    more.skipped = 0;
    tally_add(&tally, more);
  }
  return tally_end("iofail", tally);
}
