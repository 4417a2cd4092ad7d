/*
 * The test runner. A test is a function that registers itself. A failed CHECK is reported with its file and line, and
 * the test continues; a failed REQUIRE ends the test; SKIP ends a test that cannot show anything on this machine.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msgqueue.h"

/* Where a test runs: in the runner's process, in a process of its own, or in one that also has its own network namespace. */
enum check_place { CHECK_HERE, CHECK_ALONE, CHECK_NETWORK };

struct check_test {
  const char *name;
  void (*run)(void);
  enum check_place place;
  const char *file;
  int line;
  struct check_test *next;
};

/* Define a test. Its name begins with the ids of the rows it shows: TEST(Q4_...). Names are unique. Tests whose work
   happens mostly in other processes are TEST_ALONE, too: valgrind, which sees only one process, leaves them out. */
#define TEST(name) CHECK_DEFINE(name, CHECK_HERE)
#define TEST_ALONE(name) CHECK_DEFINE(name, CHECK_ALONE)
#define TEST_NETWORK(name) CHECK_DEFINE(name, CHECK_NETWORK)

#define CHECK_DEFINE(name, place)                                                     \
  static void name(void);                                                             \
  __attribute__((constructor)) static void register_##name(void) {                    \
    static struct check_test test = { #name, name, place, __FILE__, __LINE__, NULL }; \
    check_register(&test);                                                            \
  }                                                                                   \
  static void name(void)

void check_register(struct check_test *test);

/* Which tests run. */
struct check_choice {
  const char *filter; /* part of the name; NULL: any */
  bool here_only;     /* only those of the runner's own process */
  unsigned part, parts; /* of those every one whose number modulo `parts` is `part` */
};

/* Runs the chosen tests by file name and line. Returns the exit code of the program. */
int check_run(const struct check_choice *choice);

/* Prints the names of the chosen tests. Returns the exit code of the program. */
int check_list(const struct check_choice *choice);

/* Runs the test of this name in this process, whatever its place. Returns the exit code of the process. */
int check_run_here(const char *name);

/* The exit code of a process whose only test was skipped. */
enum { check_skipped_code = 77 };

/* Failed checks so far in the test that runs; a forked child reports its own in its exit code. */
unsigned check_failures(void);

/* How long a wait may last before it is a failure. Much longer than anything takes; MSGQ_TEST_PATIENCE multiplies it. */
int64_t check_patience_ms(void);

/* How often a test repeats something: `full`, or `reduced` under valgrind, where everything takes about 30 times as long. */
int check_times(int full, int reduced);

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
/* Not written with CHECK, so that the report shows the condition as it is written, not as its macros expand. */
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
