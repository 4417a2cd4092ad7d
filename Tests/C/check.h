/*
 * The harness: a test is a function, a failed check is told with its place and its test goes on; a failed REQUIRE
 * ends its test. Counts tests, not checks. A test that cannot show anything here says why (SKIP) and is counted as that.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msgqueue.h"

/* Where a test runs: among the others, in a process of its own, or in one that has a network of its own, too. */
enum check_place { CHECK_HERE, CHECK_ALONE, CHECK_NETWORK };

struct check_test {
  const char *name;
  void (*run)(void);
  enum check_place place;
};

#define TEST(name) static void name(void)
#define ROW(name) { #name, name, CHECK_HERE }
#define ROW_ALONE(name) { #name, name, CHECK_ALONE }
#define ROW_NETWORK(name) { #name, name, CHECK_NETWORK }
#define ROWS_END { NULL, NULL, CHECK_HERE }

/* Runs the tests of all groups whose name contains `filter` (NULL: all). Returns the exit code of the program. */
int check_run(const struct check_test *const *groups, size_t group_count, const char *filter);

/* Runs the test of this name in this process, whatever its place: what the process of its own does. Its exit code. */
int check_run_here(const struct check_test *const *groups, size_t group_count, const char *name);

/* The exit code of a process whose only test was skipped. */
enum { check_skipped_code = 77 };

/* Failed checks so far in the test that runs; a forked child tells its own as its exit code. */
unsigned check_failures(void);

/* How long a wait may last before it is a failure. Much longer than anything takes; MSGQ_TEST_PATIENCE multiplies it. */
int64_t check_patience_ms(void);

/* Milliseconds since 1970, as the library counts them, and since some start that no one can set. */
int64_t wall_ms(void);
int64_t steady_ms(void);
void pause_ms(int64_t duration);

bool check_that(bool holds, const char *file, int line, const char *what);
bool check_result(msgq_result expected, msgq_result actual, const char *file, int line, const char *what);
bool check_number(int64_t expected, int64_t actual, const char *file, int line, const char *what);
bool check_text(const char *expected, const char *actual, const char *file, int line, const char *what);
/* Ends the running test; only on the thread that runs it. */
_Noreturn void check_end_test(void);
/* Ends it as one that could not show anything. */
_Noreturn void check_skip_test(const char *reason);

#define CHECK(condition) check_that((condition), __FILE__, __LINE__, #condition)
#define CHECK_RESULT(expected, call) check_result((expected), (call), __FILE__, __LINE__, #call)
#define CHECK_NUMBER(expected, actual) check_number((int64_t)(expected), (int64_t)(actual), __FILE__, __LINE__, #actual)
#define CHECK_TEXT(expected, actual) check_text((expected), (actual), __FILE__, __LINE__, #actual)
/* (Spelled out once more, so that what is told is the condition as it is written, not as its macros expand.) */
#define REQUIRE(condition) ((void)(check_that((condition), __FILE__, __LINE__, #condition) || (check_end_test(), false)))
#define REQUIRE_OK(call) ((void)(check_result(MSGQ_OK, (call), __FILE__, __LINE__, #call) || (check_end_test(), false)))

#define SKIP(reason) check_skip_test(reason)

/* Waits until the condition holds. */
#define AWAIT(condition)                                                                          \
  do {                                                                                            \
    int64_t await_end = steady_ms() + check_patience_ms();                                        \
    while (!(condition) && steady_ms() < await_end) pause_ms(1);                                  \
    if (!check_that((condition), __FILE__, __LINE__, #condition)) check_end_test();               \
  } while (0)

#endif
