/* SIGKILL at random times while four threads enqueue and a drain runs, on one growing store. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "driver.h"
#include "files.h"
#include "pool.h"
#include "shim.h"
#include "tools.h"

struct kills {
  struct ledger ledger; /* of the earlier cycles */
  struct journal *journal;
  const char *directory;
  char path[4200];
  uint32_t first; /* the first message of the last cycle */
  bool whole;     /* compare everything */
};

struct enqueuer {
  struct driver *driver;
  uint32_t conversation;
};

static void *enqueue_on(void *context) {
  struct enqueuer *enqueuer = context;
  for (uint32_t index = 0; index < 40; index++) {
    driver_enqueue(enqueuer->driver, enqueuer->conversation, 30 + (index * 37 + enqueuer->conversation) % 700);
    usleep(100);
  }
  return NULL;
}

static bool check_one(struct driver *driver, uint32_t number, char *why, size_t room) {
  const struct message *message = &driver->ledger.messages[number];
  char id[32];
  msgq_message *found = NULL;
  if (!message->is_done) return true;
  id_of(id, number);
  msgq_result result = msgq_get(driver->queue, id, &found);
  if (result != MSGQ_OK) return snprintf(why, room, "the acknowledged message %s: %s", id, msgq_result_name(result)), false;
  bool good = body_is(found->body, found->body_size, number, message->versions[0]);
  if (!good) snprintf(why, room, "message %s has a wrong body", id);
  else if (message->known && found->status == MSGQ_STATUS_QUEUED) good = !snprintf(why, room, "the outcome of %s is lost", id);
  msgq_message_free(found);
  return good;
}

/* Opens and checks the store, then enqueues and sends until it is killed. */
static int work(void *context) {
  struct kills *run = context;
  struct driver driver;
  struct enqueuer enqueuers[4];
  pthread_t thread;
  char why[200] = "";
  shim_watch(NULL);
  driver_begin(&driver, SCENE_THREADS, run->path, 1, run->journal, 0);
  driver.ledger = run->ledger;
  driver.next = run->ledger.count;
  driver.strict = true;
  ledger_without_power_cut(&driver.ledger);
  if (driver_open(&driver) != MSGQ_OK) return 1;
  bool good = true;
  if (run->whole) good = check_queue(driver.queue, &driver.ledger, CHECK_BEGINS, why, sizeof why);
  for (uint32_t number = run->first; number < driver.next && good; number++) good = check_one(&driver, number, why, sizeof why);
  struct generator generator = generator_of(settings.seed, 300, driver.next);
  for (int index = 0; index < 50 && good && driver.next > 0; index++) {
    good = check_one(&driver, random_below(&generator, driver.next), why, sizeof why);
  }
  if (!good) journal_problem(run->journal, "%s", why);
  driver_note(&driver, (struct event){ .kind = EVENT_CALM }); /* ready */
  if (!good) return 1;
  for (uint32_t index = 0; index < 4; index++) {
    enqueuers[index] = (struct enqueuer){ &driver, index };
    if (pthread_create(&thread, NULL, enqueue_on, &enqueuers[index]) != 0) abort();
  }
  for (;;) driver_drain(&driver, 5);
}

static bool is_ready(const struct journal *journal) {
  uint32_t count = atomic_load(&journal->count);
  for (uint32_t index = 0; index < count && index < 3; index++) {
    if (journal->events[index].kind == EVENT_CALM) return true;
  }
  return false;
}

static bool one_cycle(struct kills *run, struct generator *generator, char *why, size_t room) {
  pid_t parent = getpid(), pid = fork();
  int status = 0;
  if (pid < 0) abort();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(3);
    _exit(work(run));
  }
  bool ended = false;
  for (int waited = 0; waited < 200000 && !ended && !is_ready(run->journal); waited++) {
    ended = waitpid(pid, &status, WNOHANG) == pid;
    if (!ended) usleep(100);
  }
  if (!ended) {
    usleep(1000 + random_below(generator, 25000));
    ended = waitpid(pid, &status, WNOHANG) == pid;
  }
  if (!ended) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (is_ready(run->journal) && atomic_load(&run->journal->problem_count) == 0) return true;
    snprintf(why, room, "open and check: %s", run->journal->problem[0] != '\0' ? run->journal->problem : "hung");
    return false;
  }
  snprintf(why, room, "the process ended with %s %d: %s", WIFSIGNALED(status) ? "signal" : "code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), run->journal->problem);
  return false;
}

int tool_kills(void) {
  struct tally tally = { 0, 0, 0 };
  struct kills run;
  long cycles = settings.images > 0 ? settings.images : settings.full ? 1000 : 25;
  memset(&run, 0, sizeof run);
  run.directory = directory_make("kills");
  snprintf(run.path, sizeof run.path, "%s/store.db", run.directory);
  run.journal = journal_make(100000);
  ledger_begin(&run.ledger, scene_promises(SCENE_THREADS));
  for (long cycle = 0; cycle < cycles; cycle++) {
    struct generator generator = generator_of(settings.seed, 301, (uint64_t)cycle);
    char why[512] = "";
    run.whole = cycle % 50 == 49 || cycle == cycles - 1 || (cycle < 50 && cycle % 10 == 0);
    journal_clear(run.journal);
    bool good = one_cycle(&run, &generator, why, sizeof why);
    uint32_t before = run.ledger.count;
    /* An event that was not completely written before the kill does not count. */
    journal_replay(run.journal, &run.ledger);
    memset(run.journal->events, 0, atomic_load(&run.journal->count) * sizeof(struct event));
    run.first = before;
    if (run.ledger.resent) good = !snprintf(why, sizeof why, "a message was sent again after its outcome was stored");
    run.ledger.resent = false;
    if (good) tally.passed++;
    else printf("  FAILED kills: --seed %llu, cycle %ld: %s\n", (unsigned long long)settings.seed, cycle, why), tally.failed++;
    if (tally.failed >= 10) break;
  }
  printf("kills: %u messages\n", run.ledger.count);
  directory_remove(run.directory);
  return tally_end("kills", tally);
}
