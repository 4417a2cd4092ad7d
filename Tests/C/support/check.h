/*
 * A test is a function that registers itself. A failed CHECK is reported with its file and line, and the test continues; a
 * failed REQUIRE ends the test; SKIP ends a test that cannot run on this machine. The end of a test that did not pass is the
 * end of its process (runner.h), so that no thread of it uses what is gone.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msgqueue.h"

/* Where a test runs: in the runner's process, there although it takes long under valgrind, in a process of its own, in one that
   also has its own network namespace, or in one that sets the system's clock, while no other test runs on the machine. */
enum check_place { CHECK_HERE, CHECK_LONG, CHECK_ALONE, CHECK_NETWORK, CHECK_CLOCK };

struct check_test {
  const char *name;
  void (*run)(void);
  enum check_place place;
  const char *file;
  int line;
  struct check_test *next;
};

/* Define a test. Its name begins with the ids of the requirements it tests: TEST(Q4_...). Names are unique. A test that
   works mostly in child processes is TEST_ALONE, too: the run under valgrind, which follows one process, leaves it out. TEST_LONG
   takes more than 0.6 s under valgrind, where it runs only with MSGQ_SOAK or if a filter names it. */
#define TEST(name) CHECK_DEFINE(name, CHECK_HERE)
#define TEST_LONG(name) CHECK_DEFINE(name, CHECK_LONG)
#define TEST_ALONE(name) CHECK_DEFINE(name, CHECK_ALONE)
#define TEST_NETWORK(name) CHECK_DEFINE(name, CHECK_NETWORK)
#define TEST_CLOCK(name) CHECK_DEFINE(name, CHECK_CLOCK)

#define CHECK_DEFINE(name, place)                                                     \
  static void name(void);                                                             \
  __attribute__((constructor)) static void register_##name(void) {                    \
    static struct check_test test = { #name, name, place, __FILE__, __LINE__, NULL }; \
    check_register(&test);                                                            \
  }                                                                                   \
  static void name(void)

void check_register(struct check_test *test);

/* The exit code of a process whose only test was skipped. */
enum { check_skipped_code = 77 };

/* Returns the number of failed checks of the running test. A forked child reports its own in its exit code. */
unsigned check_failures(void);
/* Begins another test: no check failed yet. */
void check_begin_test(void);

/* Returns the limit of every wait, much longer than any wait takes. MSGQ_TEST_TIMEOUT_FACTOR multiplies it. */
int64_t check_timeout_ms(void);

/* Returns how often a test repeats something: `full`, or `reduced` under valgrind, where everything takes about 30 times as long. */
int check_times(int full, int reduced);

/* Milliseconds of the wall clock since 1970, and of the monotonic clock. */
int64_t wall_ms(void);
int64_t steady_ms(void);
void pause_ms(int64_t duration);

bool check_that(bool holds, const char *file, int line, const char *what);
bool check_result(msgq_result expected, msgq_result actual, const char *file, int line, const char *what);
bool check_number(int64_t expected, int64_t actual, const char *file, int line, const char *what);
bool check_text(const char *expected, const char *actual, const char *file, int line, const char *what);
/* Ends the running test. Call it only on the thread that runs the test. */
_Noreturn void check_end_test(void);
/* Ends the running test as skipped. */
_Noreturn void check_skip_test(const char *reason);

#define CHECK(condition) check_that((condition), __FILE__, __LINE__, #condition)
#define CHECK_RESULT(expected, call) check_result((expected), (call), __FILE__, __LINE__, #call)
#define CHECK_NUMBER(expected, actual) check_number((int64_t)(expected), (int64_t)(actual), __FILE__, __LINE__, #actual)
#define CHECK_TEXT(expected, actual) check_text((expected), (actual), __FILE__, __LINE__, #actual)
/* These do not use CHECK, so that the report shows the condition as written, not its macro expansion. */
#define REQUIRE(condition) ((void)(check_that((condition), __FILE__, __LINE__, #condition) || (check_end_test(), false)))
#define REQUIRE_OK(call) ((void)(check_result(MSGQ_OK, (call), __FILE__, __LINE__, #call) || (check_end_test(), false)))

#define SKIP(reason) check_skip_test(reason)

/* Waits until the condition holds. */
#define AWAIT(condition)                                                                          \
  do {                                                                                            \
    int64_t await_end = steady_ms() + check_timeout_ms();                                        \
    bool await_holds;                                                                             \
    while (!(await_holds = (condition)) && steady_ms() < await_end) pause_ms(1);                  \
    if (!check_that(await_holds, __FILE__, __LINE__, #condition)) check_end_test();               \
  } while (0)

#endif
