#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct check_test *registered;

void check_register(struct check_test *test) {
  test->next = registered;
  registered = test;
}

static int by_name(const void *left, const void *right) {
  const struct check_test *const *one = left, *const *other = right;
  return strcmp((*one)->name, (*other)->name);
}

static int by_place(const void *left, const void *right) {
  const struct check_test *const *one = left, *const *other = right;
  int files = strcmp((*one)->file, (*other)->file);
  return files != 0 ? files : (*one)->line - (*other)->line;
}

bool suite_is_here(const struct check_test *test) { return test->place == CHECK_HERE || test->place == CHECK_LONG; }

static bool is_chosen(const struct check_test *test, const struct suite_choice *choice) {
  if (choice->here_only && !suite_is_here(test)) return false;
  if (choice->short_only && test->place == CHECK_LONG) return false;
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

const struct suite *suite_choose(const struct suite_choice *choice) {
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

int suite_list(const struct suite_choice *choice) {
  const struct suite *suite = suite_choose(choice);
  if (suite == NULL) return 2;
  for (size_t index = 0; index < suite->count; index++) printf("%s\n", suite->tests[index]->name);
  return 0;
}

const struct check_test *suite_find(const char *name) {
  for (const struct check_test *test = registered; test != NULL; test = test->next) {
    if (strcmp(test->name, name) == 0) return test;
  }
  return NULL;
}
