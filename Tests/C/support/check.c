#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "place.h"

static atomic_uint failures;
static const char *running = "";
static jmp_buf end_of_test;
static bool skipped;

static int64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t wall_ms(void) { return read_clock(CLOCK_REALTIME); }

int64_t steady_ms(void) { return read_clock(CLOCK_MONOTONIC); }

void pause_ms(int64_t duration) {
  struct timespec rest = { (time_t)(duration / 1000), (long)(duration % 1000) * 1000000 };
  nanosleep(&rest, NULL);
}

int64_t check_timeout_ms(void) {
  const char *factor = getenv("MSGQ_TEST_TIMEOUT_FACTOR");
  int64_t times = factor != NULL ? strtoll(factor, NULL, 10) : 1;
  return 10000 * (times > 0 ? times : 1);
}

int check_times(int full, int reduced) { return check_timeout_ms() > 10000 ? reduced : full; }

unsigned check_failures(void) { return atomic_load(&failures); }

static void fail(const char *file, int line) {
  atomic_fetch_add(&failures, 1);
  fprintf(stderr, "  %s:%d: ", file, line);
}

bool check_that(bool holds, const char *file, int line, const char *what) {
  if (holds) return true;
  fail(file, line);
  fprintf(stderr, "%s\n", what);
  return false;
}

bool check_result(msgq_result expected, msgq_result actual, const char *file, int line, const char *what) {
  if (expected == actual) return true;
  fail(file, line);
  fprintf(stderr, "%s is %s (%s), expected %s\n", what, msgq_result_name(actual), actual == MSGQ_OK ? "" : msgq_error_detail(),
          msgq_result_name(expected));
  return false;
}

bool check_number(int64_t expected, int64_t actual, const char *file, int line, const char *what) {
  if (expected == actual) return true;
  fail(file, line);
  fprintf(stderr, "%s is %lld, expected %lld\n", what, (long long)actual, (long long)expected);
  return false;
}

bool check_text(const char *expected, const char *actual, const char *file, int line, const char *what) {
  if (actual != NULL && strcmp(expected, actual) == 0) return true;
  fail(file, line);
  fprintf(stderr, "%s is \"%s\", expected \"%s\"\n", what, actual != NULL ? actual : "(null)", expected);
  return false;
}

_Noreturn void check_end_test(void) { longjmp(end_of_test, 1); }

_Noreturn void check_skip_test(const char *reason) {
  fprintf(stderr, "  SKIPPED %s: %s\n", running, reason);
  skipped = true;
  longjmp(end_of_test, 1);
}

/* Ends the process when a test hangs. Calls only functions that are safe in a signal handler. */
static void on_alarm(int signal_number) {
  (void)signal_number;
  static const char message[] = "\ntest hangs: ";
  ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
  written += write(STDERR_FILENO, running, strlen(running));
  written += write(STDERR_FILENO, "\n", 1);
  _exit(written > 0 ? 3 : 4);
}

enum verdict { PASSED, FAILED, SKIPPED, VERDICTS };

static enum verdict run_here(const struct check_test *test) {
  atomic_store(&failures, 0);
  skipped = false;
  if (setjmp(end_of_test) == 0) test->run();
  if (check_failures() > 0) return FAILED;
  return skipped ? SKIPPED : PASSED;
}

static enum verdict run_elsewhere(const struct check_test *test) {
  int code = place_run(test->name, test->place);
  if (code == check_skipped_code) return SKIPPED;
  if (code != 0) fprintf(stderr, "  the process of the test ended with exit code %d\n", code);
  return code == 0 ? PASSED : FAILED;
}

static enum verdict run_one(const struct check_test *test) {
  static const char *const words[VERDICTS] = { "ok  ", "FAIL", "SKIP" };
  running = test->name;
  int64_t start = steady_ms();
  alarm((unsigned)(check_timeout_ms() / 1000 * 6));
  enum verdict verdict = test->place == CHECK_HERE ? run_here(test) : run_elsewhere(test);
  alarm(0);
  printf("%s %s (%lld ms)\n", words[verdict], test->name, (long long)(steady_ms() - start));
  fflush(stdout);
  return verdict;
}

static struct check_test *registered;

void check_register(struct check_test *test) {
  test->next = registered;
  registered = test;
}

enum { most_tests = 2048 };

struct suite {
  const struct check_test *tests[most_tests];
  size_t count;
};

static int by_name(const void *left, const void *right) {
  const struct check_test *const *one = left, *const *other = right;
  return strcmp((*one)->name, (*other)->name);
}

static int by_place(const void *left, const void *right) {
  const struct check_test *const *one = left, *const *other = right;
  int files = strcmp((*one)->file, (*other)->file);
  return files != 0 ? files : (*one)->line - (*other)->line;
}

static bool is_chosen(const struct check_test *test, const struct check_choice *choice) {
  if (choice->here_only && test->place != CHECK_HERE) return false;
  if (test->place == CHECK_CLOCK ? choice->no_clock : choice->only_clock) return false;
  return choice->filter == NULL || strstr(test->name, choice->filter) != NULL;
}

/* Returns all registered tests sorted by name, or NULL when a name occurs twice. */
static struct suite *collect(void) {
  static struct suite suite;
  bool is_unique = true;
  suite.count = 0;
  for (const struct check_test *test = registered; test != NULL; test = test->next) {
    if (suite.count == most_tests) return fprintf(stderr, "more than %d tests\n", most_tests), NULL;
    suite.tests[suite.count++] = test;
  }
  qsort(suite.tests, suite.count, sizeof suite.tests[0], by_name);
  for (size_t index = 1; index < suite.count; index++) {
    const struct check_test *one = suite.tests[index - 1], *other = suite.tests[index];
    if (strcmp(one->name, other->name) != 0) continue;
    fprintf(stderr, "two tests are named %s: %s:%d and %s:%d\n", one->name, one->file, one->line, other->file, other->line);
    is_unique = false;
  }
  return is_unique ? &suite : NULL;
}

/* Returns the chosen tests sorted by file and line, because the order of constructors is not defined; NULL when a name occurs twice. */
static struct suite *choose(const struct check_choice *choice) {
  struct suite *suite = collect();
  size_t kept = 0;
  unsigned number = 0;
  if (suite == NULL) return NULL;
  qsort(suite->tests, suite->count, sizeof suite->tests[0], by_place);
  for (size_t index = 0; index < suite->count; index++) {
    if (!is_chosen(suite->tests[index], choice)) continue;
    if (number++ % choice->parts == choice->part) suite->tests[kept++] = suite->tests[index];
  }
  suite->count = kept;
  return suite;
}

int check_run(const struct check_choice *choice) {
  unsigned verdicts[VERDICTS] = { 0 };
  const struct suite *suite = choose(choice);
  if (suite == NULL) return 2;
  signal(SIGALRM, on_alarm);
  for (size_t index = 0; index < suite->count; index++) verdicts[run_one(suite->tests[index])]++;
  printf("%u passed, %u failed, %u skipped\n", verdicts[PASSED], verdicts[FAILED], verdicts[SKIPPED]);
  return verdicts[FAILED] == 0 && verdicts[PASSED] + verdicts[SKIPPED] > 0 ? 0 : 1;
}

int check_list(const struct check_choice *choice) {
  const struct suite *suite = choose(choice);
  if (suite == NULL) return 2;
  for (size_t index = 0; index < suite->count; index++) printf("%s\n", suite->tests[index]->name);
  return 0;
}

int check_run_here(const char *name) {
  static const int codes[VERDICTS] = { 0, 1, check_skipped_code };
  for (const struct check_test *test = registered; test != NULL; test = test->next) {
    if (strcmp(test->name, name) != 0) continue;
    running = test->name;
    signal(SIGALRM, on_alarm);
    alarm((unsigned)(check_timeout_ms() / 1000 * 6));
    return codes[run_here(test)];
  }
  return 126;
}
