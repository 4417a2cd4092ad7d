#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { workers_room = 16, failures_printed = 10 };

struct slot {
  atomic_long current; /* the running case, or the next one */
  atomic_long started; /* in seconds; 0: no case is running */
  atomic_long passed, failed, skipped;
  char log[4096];
};

struct shared {
  struct slot slots[workers_room];
  atomic_int printed;
};

struct settings settings;

static long seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

static void print_failure(struct shared *shared, const char *name, long index, const char *why) {
  int number = atomic_fetch_add(&shared->printed, 1);
  char line[2048];
  if (number > failures_printed || settings.is_quiet) return;
  int length = number == failures_printed
                   ? snprintf(line, sizeof line, "  (more failures are counted, not printed)\n")
                   : snprintf(line, sizeof line, "  FAILED %s: --seed %llu --case %ld: %s\n", name,
                              (unsigned long long)settings.seed, index, why);
  if (length > (int)sizeof line - 1) length = sizeof line - 1;
  if (write(STDOUT_FILENO, line, (size_t)length) < 0) _exit(3);
}

static void redirect_errors(const char *path) {
  int handle = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (handle >= 0) dup2(handle, STDERR_FILENO);
  if (handle > STDERR_FILENO) close(handle);
}

static void work(struct shared *shared, int worker, const char *name, long count, case_function run, void *context) {
  struct slot *slot = &shared->slots[worker];
  for (long index = atomic_load(&slot->current); index < count; index += settings.workers) {
    char why[1024] = "";
    atomic_store(&slot->current, index);
    atomic_store(&slot->started, seconds_now() + 1);
    if (ftruncate(STDERR_FILENO, 0) != 0) errno = 0;
    enum case_result result = settings.only >= 0 && settings.only != index ? CASE_SKIPPED : run(context, index, why, sizeof why);
    atomic_store(&slot->started, 0);
    if (result == CASE_PASSED) atomic_fetch_add(&slot->passed, 1);
    if (result == CASE_SKIPPED && settings.only < 0) atomic_fetch_add(&slot->skipped, 1);
    if (result == CASE_FAILED) {
      atomic_fetch_add(&slot->failed, 1);
      print_failure(shared, name, index, why);
    }
    atomic_store(&slot->current, index + settings.workers);
  }
}

static pid_t start_worker(struct shared *shared, int worker, const char *name, long count, case_function run,
                          void *(*worker_begin)(void *), void *context) {
  pid_t parent = getpid(), pid = fork();
  if (pid < 0) abort();
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(3);
  redirect_errors(shared->slots[worker].log);
  if (worker_begin != NULL) context = worker_begin(context);
  work(shared, worker, name, count, run, context);
  _exit(0);
}

static void tail_of(const char *path, char *out, size_t room) {
  int handle = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = handle < 0 ? 0 : read(handle, out, room - 1);
  if (handle >= 0) close(handle);
  out[size < 0 ? 0 : size] = '\0';
  for (char *next = out; *next != '\0'; next++) {
    if (*next == '\n') *next = ' ';
  }
}

struct tally pool_run(const char *name, long count, int seconds, case_function run, void *(*worker_begin)(void *), void *context) {
  struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct tally tally = { 0, 0, 0 };
  pid_t pids[workers_room];
  int running = 0;
  if (shared == MAP_FAILED) abort();
  fflush(stdout);
  for (int worker = 0; worker < settings.workers; worker++) {
    struct slot *slot = &shared->slots[worker];
    const char *base = getenv("FAULTS_DIRECTORY");
    snprintf(slot->log, sizeof slot->log, "%s/faults-%d-%d.log", base != NULL ? base : "/tmp", (int)getpid(), worker);
    atomic_store(&slot->current, worker);
    pids[worker] = start_worker(shared, worker, name, count, run, worker_begin, context);
    running++;
  }
  while (running > 0) {
    bool changed = false;
    for (int worker = 0; worker < settings.workers; worker++) {
      struct slot *slot = &shared->slots[worker];
      int status = 0;
      if (pids[worker] == 0) continue;
      long started = atomic_load(&slot->started);
      bool hung = started != 0 && seconds_now() + 1 - started > seconds;
      if (hung) kill(pids[worker], SIGKILL);
      if (waitpid(pids[worker], &status, hung ? 0 : WNOHANG) != pids[worker]) continue;
      changed = true;
      running--;
      pids[worker] = 0;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      char why[512], errors[300];
      tail_of(slot->log, errors, sizeof errors);
      if (hung) snprintf(why, sizeof why, "the case hung for %d s", seconds);
      else snprintf(why, sizeof why, "the process ended with %s %d: %s", WIFSIGNALED(status) ? "signal" : "code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), errors);
      long index = atomic_load(&slot->current);
      print_failure(shared, name, index, why);
      atomic_fetch_add(&slot->failed, 1);
      atomic_store(&slot->current, index + settings.workers);
      atomic_store(&slot->started, 0);
      pids[worker] = start_worker(shared, worker, name, count, run, worker_begin, context);
      running++;
    }
    if (!changed) usleep(2000);
  }
  for (int worker = 0; worker < settings.workers; worker++) {
    struct slot *slot = &shared->slots[worker];
    tally_add(&tally, (struct tally){ atomic_load(&slot->passed), atomic_load(&slot->failed), atomic_load(&slot->skipped) });
    unlink(slot->log);
  }
  munmap(shared, sizeof *shared);
  if (!settings.is_quiet) printf("  %s: %ld passed, %ld failed\n", name, tally.passed, tally.failed);
  return tally;
}

void tally_add(struct tally *to, struct tally more) {
  to->passed += more.passed;
  to->failed += more.failed;
  to->skipped += more.skipped;
}

int tally_end(const char *tool, struct tally tally) {
  printf("%s: %ld passed, %ld failed", tool, tally.passed, tally.failed);
  if (tally.skipped > 0) printf(", %ld skipped", tally.skipped);
  printf("\n");
  fflush(stdout);
  return tally.failed == 0 ? 0 : 1;
}

int child_run(int (*role)(void *), void *context, int seconds) {
  pid_t parent = getpid(), pid = fork();
  if (pid < 0) abort();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(3);
    _exit(role(context));
  }
  long end = seconds_now() + seconds;
  int status = 0;
  for (unsigned pause = 50; waitpid(pid, &status, WNOHANG) != pid; pause = pause < 1000 ? pause * 2 : 1000) {
    if (seconds_now() > end) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return child_hung;
    }
    usleep(pause);
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
