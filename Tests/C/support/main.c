/* Runs the tests: all, or those whose name contains the first argument. --list prints their names instead. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "place.h"

int main(int count, char **arguments) {
  child_program = arguments[0];
  if (count == 5 && strcmp(arguments[1], "--child") == 0) return child_role(arguments[2], arguments[3], arguments[4]);
  if (count == 4 && strcmp(arguments[1], "--place") == 0) {
    return place_enter(arguments[2]) ? check_run_here(arguments[3]) : check_skipped_code;
  }
  if (count > 1 && strcmp(arguments[1], "--list") == 0) return check_list(count > 2 ? arguments[2] : NULL);
  return check_run(count > 1 ? arguments[1] : NULL);
}
