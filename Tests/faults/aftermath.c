#include <stdio.h>
#include <string.h>

#include "check.h"
#include "driver.h"
#include "pool.h"
#include "shim.h"

struct aftermath {
  enum scene scene;
  const char *path;
  struct journal *journal;
};

static bool send_all(struct driver *driver) {
  for (int tries = 0; tries < 20; tries++) {
    msgq_report report;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    if (msgq_drain(driver->queue, NULL, &report) != MSGQ_OK) return false;
    if (report.remaining == 0) return true;
  }
  return false;
}

/* Problems are recorded in the journal. */
static int play(void *context) {
  struct aftermath *run = context;
  struct driver driver;
  char why[200];
  shim_watch(NULL);
  shim_fail(FAULT_READ, 0, 0, FAULT_ONCE);
  driver_begin(&driver, run->scene, run->path, 99, run->journal, 0);
  journal_replay(run->journal, &driver.ledger);
  ledger_without_power_cut(&driver.ledger);
  driver.next = driver.ledger.count;
  driver.strict = true;
  driver.options.keep_sent = 1000000;
  driver.options.limit_messages = driver.options.limit_bytes = 0;
  driver.options.limit_file_bytes = 0;
  if (driver_open(&driver) != MSGQ_OK) return 1;
  if (!check_queue(driver.queue, &driver.ledger, CHECK_BEGINS, why, sizeof why)) {
    journal_problem(run->journal, "%s", why);
    return 1;
  }
  for (uint32_t number = 0, end = driver.next; number < end; number++) {
    const struct message *message = &driver.ledger.messages[number];
    if (message->maybe && !message->is_done && !message->delete_tried && message->starts == 0 && message->versions_count == 1) {
      driver_enqueue_again(&driver, number);
    }
  }
  for (uint32_t index = 0; index < 5; index++) driver_enqueue(&driver, index, 100);
  if (!send_all(&driver)) journal_problem(run->journal, "some messages were not sent afterwards");
  driver_close(&driver);
  return 0;
}

/* The last check. It runs in another child process, because the calling process must not use the library. */
static int check_again(void *context) {
  struct aftermath *run = context;
  struct ledger ledger;
  char why[240] = "";
  ledger_begin(&ledger, scene_promises(run->scene));
  journal_replay(run->journal, &ledger);
  for (uint32_t number = 0; number < ledger.count && ledger.resent; number++) {
    if (!ledger.messages[number].resent) continue;
    journal_problem(run->journal, "message m%06u was sent again after it was sent", number);
    return 1;
  }
  ledger_without_power_cut(&ledger);
  if (check_store(run->path, &ledger, 0, why, sizeof why)) return 0;
  journal_problem(run->journal, "%s", why);
  return 1;
}

bool aftermath(enum scene scene, const char *path, struct journal *journal, char *why, size_t room) {
  struct aftermath run = { scene, path, journal };
  atomic_store(&journal->problem_count, 0);
  int code = child_run(play, &run, 20);
  if (code == 0 && atomic_load(&journal->problem_count) == 0) code = child_run(check_again, &run, 20);
  if (code == 0 && atomic_load(&journal->problem_count) == 0) return true;
  snprintf(why, room, "afterwards (%d): %s", code, journal->problem);
  return false;
}
