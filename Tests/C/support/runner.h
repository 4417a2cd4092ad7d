/*
 * Runs the chosen tests one after the other in a process, the worker. A test that does not pass ends the worker, and
 * the tests after it run in another: its queue, threads and journal cannot disturb them. A crash is one failed test.
 */
#ifndef RUNNER_H
#define RUNNER_H

#include "suite.h"

enum verdict { PASSED, FAILED, SKIPPED, VERDICTS };

/* Runs the tests by file name and line. `arguments` are the program and the options that choose the same tests; the
   worker is executed with them by `under`, words separated by spaces ("": directly). Returns the exit code of the program. */
int runner_run(const struct suite_choice *choice, const char *under, char *const arguments[]);

/* In the worker: runs the tests from the number `first` on. `shared` is the descriptor of what the runner shares with it. */
int runner_work(const struct suite_choice *choice, int shared, size_t first);

/* Runs the test of this name in this process, whatever its place is. Returns the exit code of the process. */
int runner_run_here(const char *name);

/* Ends the running test, and with it its process. The stack with its queue and journal is used until then. */
_Noreturn void runner_end_test(enum verdict verdict);

#endif
