/*
 * Runs the tests: all, or those whose name contains FILTER.
 *
 *   msgqueue-tests [--list] [--here] [--short] [--no-clock | --only-clock] [--part NUMBER/COUNT] [--under COMMAND] [FILTER]
 *   msgqueue-tests --place alone|network NAME
 *
 * --list prints the names instead; --here leaves out the tests that run in processes of their own, --short those that take long
 * under valgrind, --no-clock those that set the system's clock, --only-clock all others; --part 1/2 and --part 2/2 are the two
 * halves. The tests run in a process that COMMAND executes, for example "valgrind --quiet". --place runs one test in this process,
 * after entering its network namespace if it needs one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "place.h"
#include "runner.h"

static int usage(void) {
  fprintf(stderr, "msgqueue-tests [--list] [--here] [--short] [--no-clock | --only-clock] [--part NUMBER/COUNT] "
                  "[--under COMMAND] [FILTER]\n");
  return 2;
}

int main(int count, char **arguments) {
  struct suite_choice choice = { .parts = 1 };
  bool only_list = false, is_worker = false;
  const char *under = "";
  int shared = -1;
  size_t first = 0;
  child_program = arguments[0];
  if (count == 5 && strcmp(arguments[1], "--child") == 0) return child_role(arguments[2], arguments[3], arguments[4]);
  if (count == 4 && strcmp(arguments[1], "--place") == 0) {
    return place_enter(arguments[2]) ? runner_run_here(arguments[3]) : check_skipped_code;
  }
  for (int index = 1; index < count; index++) {
    const char *argument = arguments[index];
    if (strcmp(argument, "--list") == 0) only_list = true;
    else if (strcmp(argument, "--here") == 0) choice.here_only = true;
    else if (strcmp(argument, "--short") == 0) choice.short_only = true;
    else if (strcmp(argument, "--no-clock") == 0) choice.no_clock = true;
    else if (strcmp(argument, "--only-clock") == 0) choice.only_clock = true;
    else if (strcmp(argument, "--part") == 0) {
      if (++index == count || sscanf(arguments[index], "%u/%u", &choice.part, &choice.parts) != 2) return usage();
      if (choice.part-- < 1 || choice.part >= choice.parts) return usage();
    } else if (strcmp(argument, "--under") == 0) {
      if (++index == count) return usage();
      under = arguments[index];
    } else if (strcmp(argument, "--worker") == 0) { /* of the runner itself */
      if (index + 2 >= count) return usage();
      is_worker = true;
      shared = atoi(arguments[++index]);
      first = strtoul(arguments[++index], NULL, 10);
    } else if (argument[0] == '-') return usage();
    else choice.filter = argument;
  }
  if (is_worker) return runner_work(&choice, shared, first);
  return only_list ? suite_list(&choice) : runner_run(&choice, under, arguments);
}
