/* Runs cases in child processes, so that a crash or a hang of the library is a failed case and does not end the run. */
#ifndef FAULTS_POOL_H
#define FAULTS_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The options of the command line. */
struct settings {
  bool full;        /* --soak */
  uint64_t seed;
  long images;      /* --images; 0: the default of the tool */
  long only;        /* --case; -1: all */
  const char *scene; /* --scene; NULL: all */
  const char *trace; /* --trace; NULL: a new trace */
  int workers;
  bool is_quiet; /* failures are expected and not printed */
};
extern struct settings settings;

struct tally {
  long passed, failed, skipped;
};

enum case_result { CASE_FAILED, CASE_PASSED, CASE_SKIPPED };

/* Runs one case and writes the reason of a failure to `why`. */
typedef enum case_result (*case_function)(void *context, long index, char *why, size_t room);

/*
 * Runs the cases 0 ..< count. `worker_begin`, if not NULL, makes a context in each process. A case may take `seconds`. The first ten
 * failures are printed with `name`, the seed and the number of the case.
 */
struct tally pool_run(const char *name, long count, int seconds, case_function run, void *(*worker_begin)(void *), void *context);
void tally_add(struct tally *to, struct tally more);
/* Prints the last line of a tool. Returns the exit code. */
int tally_end(const char *tool, struct tally tally);

/* Runs `role` in a child process. Returns its exit code, or -signal, or -1000 when it hung and was killed. */
int child_run(int (*role)(void *), void *context, int seconds);
enum { child_hung = -1000 };

#endif
