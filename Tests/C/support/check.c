#include "check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner.h"

static atomic_uint failures;

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

void check_begin_test(void) { atomic_store(&failures, 0); }

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

_Noreturn void check_end_test(void) { runner_end_test(FAILED); }

_Noreturn void check_skip_test(const char *reason) {
  fprintf(stderr, "  SKIPPED: %s\n", reason);
  runner_end_test(SKIPPED);
}
