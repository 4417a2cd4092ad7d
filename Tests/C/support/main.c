/*
 * Runs the tests: all, or those whose name contains FILTER.
 *
 *   msgqueue-tests [--list] [--here] [--no-clock | --only-clock] [--part NUMBER/COUNT] [FILTER]
 *   msgqueue-tests --place alone|network NAME
 *
 * --list prints the names instead; --here leaves out the tests that run in processes of their own, --no-clock those that set
 * the system's clock, --only-clock all others; --part 1/2 and --part 2/2 are the two halves. --place runs one test in this process, after entering its network namespace if it needs one.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "place.h"

static int usage(void) {
  fprintf(stderr, "msgqueue-tests [--list] [--here] [--no-clock | --only-clock] [--part NUMBER/COUNT] [FILTER]\n");
  return 2;
}

int main(int count, char **arguments) {
  struct check_choice choice = { .parts = 1 };
  bool only_list = false;
  child_program = arguments[0];
  if (count == 5 && strcmp(arguments[1], "--child") == 0) return child_role(arguments[2], arguments[3], arguments[4]);
  if (count == 4 && strcmp(arguments[1], "--place") == 0) {
    return place_enter(arguments[2]) ? check_run_here(arguments[3]) : check_skipped_code;
  }
  for (int index = 1; index < count; index++) {
    const char *argument = arguments[index];
    if (strcmp(argument, "--list") == 0) only_list = true;
    else if (strcmp(argument, "--here") == 0) choice.here_only = true;
    else if (strcmp(argument, "--no-clock") == 0) choice.no_clock = true;
    else if (strcmp(argument, "--only-clock") == 0) choice.only_clock = true;
    else if (strcmp(argument, "--part") == 0) {
      if (++index == count || sscanf(arguments[index], "%u/%u", &choice.part, &choice.parts) != 2) return usage();
      if (choice.part-- < 1 || choice.part >= choice.parts) return usage();
    } else if (argument[0] == '-') return usage();
    else choice.filter = argument;
  }
  return only_list ? check_list(&choice) : check_run(&choice);
}
