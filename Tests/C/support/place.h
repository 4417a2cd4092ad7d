/* Processes for tests that need one of their own: this program executed again for one test. */
#ifndef PLACE_H
#define PLACE_H

#include <stdbool.h>

#include "check.h"

/* Runs one test in a process of its own and returns its exit code; -1 when a signal ended it. */
int place_run(const char *name, enum check_place place);

/* In that process, before it creates a thread: enters the place of this name ("alone", "network"). Returns false, with a
   message on stderr, when the system does not permit it. */
bool place_enter(const char *place);

#endif
