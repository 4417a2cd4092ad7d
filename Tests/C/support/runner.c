#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"

/* What the worker tells the runner. It is shared memory, because the worker may end at any time. */
struct progress {
  bool is_started;
  size_t next; /* the number of the test that runs, or will run */
  unsigned verdicts[VERDICTS];
  enum verdict last;
};

static const int codes[VERDICTS] = { 0, 1, check_skipped_code };
static const char *const words[VERDICTS] = { "ok  ", "FAIL", "SKIP" };

static const struct check_test *running;
static int64_t began;
static pid_t worker;              /* a forked child of the test has another id */
static struct progress *progress; /* NULL: a process for one test */

/* Ends the process when a test hangs. Calls only functions that are safe in a signal handler. */
static void on_alarm(int signal_number) {
  (void)signal_number;
  static const char message[] = "\ntest hangs: ";
  ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
  written += write(STDERR_FILENO, running->name, strlen(running->name));
  written += write(STDERR_FILENO, "\n", 1);
  _exit(written > 0 ? 3 : 4);
}

static void begin_test(const struct check_test *test) {
  running = test;
  worker = getpid();
  began = steady_ms();
  check_begin_test();
  signal(SIGALRM, on_alarm);
  alarm((unsigned)(check_timeout_ms() / 1000 * 6));
}

static void report(enum verdict verdict) {
  alarm(0);
  if (progress == NULL) return;
  printf("%s %s (%lld ms)\n", words[verdict], running->name, (long long)(steady_ms() - began));
  fflush(stdout);
  progress->verdicts[verdict]++;
  progress->last = verdict;
  progress->next++;
}

_Noreturn void runner_end_test(enum verdict verdict) {
  if (getpid() == worker) report(verdict);
  _exit(codes[verdict]);
}

static enum verdict run_elsewhere(const struct check_test *test) {
  int code = place_run(test->name, test->place);
  if (code == check_skipped_code) return SKIPPED;
  if (code != 0) fprintf(stderr, "  the process of the test ended with exit code %d\n", code);
  return code == 0 ? PASSED : FAILED;
}

int runner_run_here(const char *name) {
  const struct check_test *test = suite_find(name);
  if (test == NULL) return 126;
  begin_test(test);
  test->run();
  return codes[check_failures() == 0 ? PASSED : FAILED];
}

int runner_work(const struct suite_choice *choice, int shared, size_t first) {
  const struct suite *suite = suite_choose(choice);
  progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  if (suite == NULL || progress == MAP_FAILED) return 2;
  close(shared);
  progress->is_started = true;
  for (size_t index = first; index < suite->count; index++) {
    const struct check_test *test = suite->tests[index];
    enum verdict verdict = PASSED;
    begin_test(test);
    if (suite_is_here(test)) test->run();
    else verdict = run_elsewhere(test);
    if (check_failures() > 0) verdict = FAILED;
    if (verdict == FAILED) runner_end_test(FAILED);
    report(verdict);
  }
  return 0;
}

/* Executes the worker in this process. */
static _Noreturn void execute(const char *under, char *const arguments[], int shared, size_t first) {
  enum { most_words = 128 };
  char *command[most_words], numbers[2][32], *rest = strdup(under);
  size_t count = 0;
  for (char *word; rest != NULL && count < most_words / 2 && (word = strsep(&rest, " ")) != NULL;) {
    if (word[0] != '\0') command[count++] = word;
  }
  snprintf(numbers[0], sizeof numbers[0], "%d", shared);
  snprintf(numbers[1], sizeof numbers[1], "%zu", first);
  command[count++] = arguments[0];
  command[count++] = "--worker";
  command[count++] = numbers[0];
  command[count++] = numbers[1];
  for (size_t index = 1; arguments[index] != NULL && count + 1 < most_words; index++) command[count++] = arguments[index];
  command[count] = NULL;
  execvp(command[0], command);
  perror(command[0]);
  _exit(127);
}

/* Runs a worker to its end and returns its wait status; -1 when there is none. */
static int run_worker(const char *under, char *const arguments[], int shared, size_t first) {
  int status = -1;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execute(under, arguments, shared, first);
  }
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

static void print_end(const char *what, int status) {
  if (WIFSIGNALED(status)) fprintf(stderr, "%s was ended by signal %d (%s)\n", what, WTERMSIG(status), strsignal(WTERMSIG(status)));
  else fprintf(stderr, "%s ended with exit code %d\n", what, WEXITSTATUS(status));
}

int runner_run(const struct suite_choice *choice, const char *under, char *const arguments[]) {
  const struct suite *suite = suite_choose(choice);
  int shared = memfd_create("tests", 0), code = 0;
  if (suite == NULL || shared < 0 || ftruncate(shared, sizeof *progress) != 0) return 2;
  struct progress *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  if (seen == MAP_FAILED) return 2;
  while (seen->next < suite->count) {
    size_t first = seen->next;
    int status = run_worker(under, arguments, shared, first);
    if (!seen->is_started) return print_end("the process of the tests", status), 2;
    bool is_expected = seen->next > first && seen->last != PASSED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == (is_expected ? codes[seen->last] : 0) &&
        (is_expected || seen->next == suite->count)) {
      continue;
    }
    code = 1;
    if (seen->next == suite->count || is_expected) {
      /* A test passed, and something of it failed later; or a tool, as valgrind, found something. */
      print_end("ERROR: the process of the tests", status);
      continue;
    }
    const char *name = suite->tests[seen->next++]->name;
    print_end("  the process of the test", status);
    printf("FAIL %s\n", name);
    fflush(stdout);
    seen->verdicts[FAILED]++;
  }
  printf("%u passed, %u failed, %u skipped\n", seen->verdicts[PASSED], seen->verdicts[FAILED], seen->verdicts[SKIPPED]);
  if (seen->verdicts[FAILED] > 0 || suite->count == 0) code = 1;
  return code;
}
