/* Other processes: this program started anew with a role, so that they share nothing with the test but the store. */
#ifndef CHILD_H
#define CHILD_H

#include <stddef.h>
#include <sys/types.h>

struct child {
  pid_t pid;
  int output; /* what it prints */
};

/* The path of this program, from main. */
extern const char *child_program;

/* Starts `role` with two arguments. */
struct child child_start(const char *role, const char *first, const char *second);
/* Its next line, without the newline; "" at the end of its output. */
void child_line(struct child *child, char *text, size_t size);
/* kill -9 by its process id, and waits until it is gone. */
void child_kill(struct child *child);
/* Waits for its end and returns its exit code; -1 when a signal ended it. */
int child_wait(struct child *child);

/* A fork of the test itself. It ends with the test, or after check_patience_ms. */
pid_t child_fork(void);
/* Ends the fork: its exit code tells whether its checks held. It executes another program, because valgrind would
   report the memory of the parent's threads, which the fork does not have, as lost. */
_Noreturn void child_end(void);
/* Waits for the fork; fails when its checks failed. */
void child_await(pid_t child);

/* What the child does; returns its exit code. */
int child_role(const char *role, const char *first, const char *second);

#endif
