/* Processes for tests that cannot run among the others: this program started anew for one test. */
#ifndef PLACE_H
#define PLACE_H

#include <stdbool.h>

#include "check.h"

/* Runs one test in a process of its own and returns its exit code; -1 when a signal ended it. */
int place_run(const char *name, enum check_place place);

/* In that process, before it has any other thread: goes to the place of this name ("alone", "network"). False, with a
   word on stderr, when the system does not let it. */
bool place_enter(const char *place);

#endif
