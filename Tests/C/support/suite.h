/* The tests that were registered, and those of them that were chosen. */
#ifndef SUITE_H
#define SUITE_H

#include <stdbool.h>
#include <stddef.h>

#include "check.h"

/* Selects the tests that run. */
struct suite_choice {
  const char *filter;   /* part of the name; NULL: any */
  bool here_only;       /* only tests that run in the process of the runner */
  bool short_only;      /* no tests that take long under valgrind */
  bool no_clock;        /* no tests that set the system's clock */
  bool only_clock;      /* no others */
  unsigned part, parts; /* of those only the tests whose number modulo `parts` is `part` */
};

enum { most_tests = 2048 };

struct suite {
  const struct check_test *tests[most_tests];
  size_t count;
};

/* Returns the chosen tests sorted by file and line, because the order of constructors is not defined; NULL when a name
   occurs twice. */
const struct suite *suite_choose(const struct suite_choice *choice);

/* Prints the names of the chosen tests. Returns the exit code of the program. */
int suite_list(const struct suite_choice *choice);

/* Whether the test runs in the process of the runner. */
bool suite_is_here(const struct check_test *test);

/* Returns the test of this name; NULL when there is none. */
const struct check_test *suite_find(const char *name);

#endif
