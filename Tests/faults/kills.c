/*
 * SIGKILL at random times while four threads enqueue and a drain runs, on one growing store; the same with a batch transport; then on
 * another store while sent messages are pruned, or free space of the file is given back; and during random calls, in one scene while all
 * changes are kept and followed.
 */
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
  enum scene scene;
  long cycle;
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
  if (!message->is_done || message->delete_tried || (driver->ledger.promises.prunes && message->was_sent)) return true;
  id_of(id, number);
  msgq_result result = msgq_get(driver->queue, id, &found);
  if (result != MSGQ_OK) return snprintf(why, room, "the acknowledged message %s: %s", id, msgq_result_name(result)), false;
  bool good = body_is(found->body, found->body_size, number, message->versions[0]);
  if (!good) snprintf(why, room, "message %s has a wrong body", id);
  else if (message->known && found->status == MSGQ_STATUS_QUEUED) good = !snprintf(why, room, "the outcome of %s is lost", id);
  msgq_message_free(found);
  return good;
}

/* The parent kills the process soon after this. */
static void note_ready(struct driver *driver) { driver_note(driver, (struct event){ .kind = EVENT_CALM }); }

/* Enqueues and sends until the process is killed. */
static _Noreturn void work_threads(struct driver *driver) {
  struct enqueuer enqueuers[4];
  pthread_t thread;
  note_ready(driver);
  for (uint32_t index = 0; index < 4; index++) {
    enqueuers[index] = (struct enqueuer){ driver, index };
    if (pthread_create(&thread, NULL, enqueue_on, &enqueuers[index]) != 0) abort();
  }
  /* With a batch transport a drain has several batches. */
  for (;;) driver_drain(driver, driver->sends_batches ? 30 : 5);
}

static uint64_t free_bytes(struct driver *driver) {
  msgq_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.struct_size = sizeof statistics;
  if (msgq_stats(driver->queue, &statistics) != MSGQ_OK) abort();
  return statistics.free_bytes;
}

/* Sends more than is kept, or makes free space and waits until the queue gives it back, until the process is killed. */
static _Noreturn void work_space(struct driver *driver, bool vacuums) {
  driver_batch(driver, 280, 1500);
  if (vacuums) {
    driver_clear(driver, all_conversations);
    uint64_t before = free_bytes(driver);
    while (free_bytes(driver) >= before) usleep(500);
    note_ready(driver);
  } else {
    note_ready(driver);
    driver_drain(driver, 0);
  }
  for (;;) pause();
}

/* Makes random calls until the process is killed. */
static _Noreturn void work_calls(struct driver *driver, enum scene scene, uint64_t cycle) {
  driver->generator = generator_of(settings.seed, 303, cycle);
  driver->backups = driver->ledger.backups_tried;
  note_ready(driver);
  for (;;) scene_step(driver, scene);
}

static bool makes_calls(enum scene scene) { return scene == SCENE_CALLS || scene == SCENE_LIMITS || scene == SCENE_FEED; }

/* Opens and checks the store, then changes it until the process is killed. */
static int work(struct kills *run) {
  struct driver driver;
  char why[200] = "";
  shim_watch(NULL);
  driver_begin(&driver, run->scene, run->path, 1, run->journal, 0);
  driver.ledger = run->ledger;
  driver.next = run->ledger.count;
  driver.strict = true;
  ledger_without_power_cut(&driver.ledger);
  bool good = run->cycle == 0 || check_derived(run->path, why, sizeof why);
  /* A queue that prunes changes between two lists of it. */
  bool prunes = scene_promises(run->scene).prunes;
  if (run->whole && good && prunes) good = check_store(run->path, &driver.ledger, CHECK_BEGINS, why, sizeof why);
  if (driver_open(&driver) != MSGQ_OK) return 1;
  if (run->whole && good && !prunes) good = check_queue(driver.queue, &driver.ledger, CHECK_BEGINS, why, sizeof why);
  if (good && makes_calls(run->scene)) good = check_backups(run->path, &driver.ledger, why, sizeof why);
  for (uint32_t number = run->first; number < driver.next && good && !makes_calls(run->scene); number++) good = check_one(&driver, number, why, sizeof why);
  struct generator generator = generator_of(settings.seed, 300, driver.next);
  for (int index = 0; index < 50 && good && driver.next > 0 && !makes_calls(run->scene); index++) {
    good = check_one(&driver, random_below(&generator, driver.next), why, sizeof why);
  }
  if (!good) {
    journal_problem(run->journal, "%s", why);
    note_ready(&driver);
    return 1;
  }
  if (run->scene == SCENE_SPACE) work_space(&driver, run->cycle % 2 == 0);
  if (makes_calls(run->scene)) work_calls(&driver, run->scene, (uint64_t)run->cycle);
  work_threads(&driver);
}

static bool is_ready(const struct journal *journal) {
  uint32_t count = atomic_load(&journal->count);
  for (uint32_t index = 0; index < count; index++) {
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

static struct tally run_cycles(enum scene scene, long cycles) {
  struct tally tally = { 0, 0, 0 };
  struct kills run = { .scene = scene };
  run.directory = directory_make("kills");
  snprintf(run.path, sizeof run.path, "%s/store.db", run.directory);
  run.journal = journal_make(100000);
  ledger_begin(&run.ledger, scene_promises(scene));
  for (long cycle = 0; cycle < cycles; cycle++) {
    struct generator generator = generator_of(settings.seed, scene == SCENE_SPACE ? 302 : 301, (uint64_t)cycle);
    char why[512] = "";
    run.cycle = cycle;
    run.whole = scene == SCENE_SPACE || makes_calls(scene) || cycle % 50 == 49 || cycle == cycles - 1 || (cycle < 50 && cycle % 10 == 0);
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
    else printf("  FAILED kills: --seed %llu, %s, cycle %ld: %s\n", (unsigned long long)settings.seed, scene_name(scene), cycle, why), tally.failed++;
    if (tally.failed >= 10) break;
  }
  printf("kills: %s, %u messages\n", scene_name(scene), run.ledger.count);
  ledger_end(&run.ledger);
  journal_free(run.journal);
  directory_remove(run.directory);
  return tally;
}

int tool_kills(void) {
  static const struct {
    enum scene scene;
    long full, brief;
  } plans[] = { { SCENE_THREADS, 1000, 25 }, { SCENE_BATCHES, 1000, 25 }, { SCENE_SPACE, 400, 10 },
                { SCENE_CALLS, 400, 10 },    { SCENE_LIMITS, 400, 5 },    { SCENE_FEED, 400, 10 } };
  struct tally tally = { 0, 0, 0 };
  for (size_t index = 0; index < sizeof plans / sizeof plans[0]; index++) {
    if (settings.scene != NULL && strcmp(settings.scene, scene_name(plans[index].scene)) != 0) continue;
    long cycles = settings.full ? plans[index].full : plans[index].brief;
    tally_add(&tally, run_cycles(plans[index].scene, settings.images > 0 ? settings.images : cycles));
  }
  return tally_end("kills", tally);
}
