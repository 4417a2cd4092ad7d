/*
 * The disk fills up while a store is open: enqueue is refused, everything that sends or frees space works, nothing is sent twice, and
 * everything works when there is space again. Needs permission to mount a tmpfs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "check.h"
#include "driver.h"
#include "files.h"
#include "pool.h"
#include "shim.h"
#include "tools.h"

enum { disk_size = 4 << 20, blocks = 129, orders = 2 };

struct fulldisk {
  const char *directory;
  char path[4200], filler[4200];
  struct journal *journal;
  long free_blocks;
  bool deletes_first;
};

static bool fill(struct fulldisk *run, uint64_t leave) {
  struct statvfs status;
  if (statvfs(run->directory, &status) != 0) return false;
  uint64_t space = (uint64_t)status.f_bavail * status.f_bsize;
  int handle = open(run->filler, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool good = handle >= 0 && (space <= leave || posix_fallocate(handle, 0, (off_t)(space - leave)) == 0);
  if (handle >= 0) close(handle);
  return good;
}

#define MUST(condition, ...)                       \
  do {                                             \
    if (!(condition)) {                            \
      journal_problem(run->journal, __VA_ARGS__);      \
      return 1;                                    \
    }                                              \
  } while (0)

static long first_with(struct driver *driver, bool sent) {
  for (uint32_t number = 0; number < driver->ledger.count; number++) {
    const struct message *message = &driver->ledger.messages[number];
    if (message->is_done && !message->delete_tried && message->starts > 0 && message->was_sent == sent) return (long)number;
  }
  return -1;
}

static int drain_all(struct driver *driver, struct fulldisk *run, const char *when) {
  msgq_report report;
  memset(&report, 0, sizeof report);
  report.struct_size = sizeof report;
  msgq_drain_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.timeout_ms = 4000;
  msgq_result result = msgq_drain(driver->queue, &options, &report);
  MUST(result == MSGQ_OK && report.remaining == 0, "%s: drain returned %s, stop %d, %llu sent, %llu remain", when, msgq_result_name(result),
       (int)report.stop, (unsigned long long)report.sent, (unsigned long long)report.remaining);
  return 0;
}

static int play(void *context) {
  struct fulldisk *run = context;
  struct driver driver;
  char why[200];
  long number;
  msgq_result result;
  shim_watch(NULL);
  driver_begin(&driver, SCENE_MIX, run->path, settings.seed, run->journal, 0);
  result = driver_open(&driver);
  MUST(result == MSGQ_OK, "open: %s", msgq_result_name(result));
  for (uint32_t index = 0; index < 30; index++) driver_enqueue(&driver, index % 5, 256 + index * 100);
  uint32_t received = driver.next;
  driver_record(&driver, 1, 600);
  driver_drain(&driver, 8);
  MUST(fill(run, (uint64_t)run->free_blocks * 4096), "the disk could not be filled: %s", strerror(errno));

  if (run->deletes_first) {
    result = driver_delete(&driver, 29);
    MUST(result == MSGQ_OK, "delete of a queued message on a full disk: %s", msgq_result_name(result));
  } else {
    for (unsigned index = 0; index < 5000; index++) {
      result = driver_enqueue(&driver, index % 5, 400);
      if (result != MSGQ_OK) break;
    }
    MUST(result == MSGQ_STORAGE, "enqueue on a full disk returned %s: %.100s", msgq_result_name(result), msgq_error_detail());
    result = driver_enqueue(&driver, 1, 400);
    MUST(result == MSGQ_STORAGE || result == MSGQ_OK, "the second enqueue on a full disk returned %s", msgq_result_name(result));
  }
  result = driver_edit(&driver, received, 400000);
  MUST(result == MSGQ_STORAGE || result == MSGQ_OK, "update to a longer body on a full disk returned %s: %.100s", msgq_result_name(result),
       msgq_error_detail());
  struct ledger ledger;
  ledger_copy(&ledger, &driver.ledger);
  ledger_without_power_cut(&ledger);
  MUST(check_queue(driver.queue, &ledger, 0, why, sizeof why), "on a full disk: %s", why);
  ledger_end(&ledger);
  if (drain_all(&driver, run, "on a full disk") != 0) return 1;
  if ((number = first_with(&driver, true)) >= 0) {
    result = driver_delete(&driver, (uint32_t)number);
    MUST(result == MSGQ_OK, "delete of a sent message on a full disk: %s", msgq_result_name(result));
  }
  if ((number = first_with(&driver, false)) >= 0) {
    result = driver_edit(&driver, (uint32_t)number, 16);
    MUST(result == MSGQ_OK, "edit to a shorter body on a full disk: %s", msgq_result_name(result));
  }
  result = driver_edit(&driver, received, 16);
  MUST(result == MSGQ_OK, "update to a shorter body on a full disk: %s", msgq_result_name(result));
  /* The close may fail because outcomes are not saved. The ledger records the result, and later checks use it. */
  driver_close(&driver);

  result = driver_open(&driver);
  MUST(result == MSGQ_OK, "second open on a full disk: %s: %.100s", msgq_result_name(result), msgq_error_detail());
  ledger_copy(&ledger, &driver.ledger);
  ledger_without_power_cut(&ledger);
  MUST(check_queue(driver.queue, &ledger, 0, why, sizeof why), "after the second open on a full disk: %s", why);
  ledger_end(&ledger);
  result = driver_close(&driver);
  MUST(result == MSGQ_OK, "second close: %s", msgq_result_name(result));

  unlink(run->filler);
  result = driver_open(&driver);
  MUST(result == MSGQ_OK, "open with space again: %s", msgq_result_name(result));
  for (uint32_t index = 0; index < 10; index++) {
    result = driver_enqueue(&driver, index % 5, 700);
    MUST(result == MSGQ_OK, "enqueue with space again: %s", msgq_result_name(result));
  }
  driver_close(&driver);
  return 0;
}

static void *begin_worker(void *context) {
  struct fulldisk *run = calloc(1, sizeof *run);
  char options[32];
  (void)context;
  run->directory = directory_make("fulldisk");
  snprintf(options, sizeof options, "size=%d", disk_size);
  if (mount("faults", run->directory, "tmpfs", 0, options) != 0) abort();
  /* The mount ends with the last process that uses it. */
  snprintf(run->path, sizeof run->path, "%s/store.db", run->directory);
  snprintf(run->filler, sizeof run->filler, "%s/filler", run->directory);
  run->journal = journal_make(100000);
  return run;
}

static enum case_result one_case(void *context, long index, char *why, size_t room) {
  struct fulldisk *run = context;
  run->free_blocks = index / orders;
  run->deletes_first = index % orders == 1;
  if (!settings.full && settings.only < 0 && run->free_blocks % 8 != 0) return CASE_SKIPPED;
  directory_empty(run->directory);
  journal_clear(run->journal);
  int code = child_run(play, run, 30);
  bool good = code == 0 && atomic_load(&run->journal->problem_count) == 0;
  if (!good) snprintf(why, room, "the process ended with %d: %s", code, run->journal->problem);
  else good = aftermath(SCENE_MIX, run->path, run->journal, why, room);
  size_t length = strlen(why);
  if (!good) snprintf(why + length, room - length, " [%ld KiB free%s]", run->free_blocks * 4, run->deletes_first ? ", delete first" : "");
  return good ? CASE_PASSED : CASE_FAILED;
}

static bool may_mount(void) {
  const char *directory = directory_make("fulldisk");
  bool good = mount("faults", directory, "tmpfs", 0, "size=65536") == 0;
  if (good) umount2(directory, MNT_DETACH);
  rmdir(directory);
  return good;
}

int tool_fulldisk(void) {
  struct tally tally = { 0, 0, 0 };
  if (!may_mount()) {
    printf("fulldisk: skipped: mounting a tmpfs needs root (%s)\n", strerror(errno));
    tally.skipped = 1;
    return tally_end("fulldisk", tally);
  }
  tally = pool_run(settings.full ? "fulldisk --soak" : "fulldisk", blocks * orders, 60, one_case, begin_worker, NULL);
  tally.skipped = 0;
  return tally_end("fulldisk", tally);
}
