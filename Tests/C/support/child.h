/* Child processes: this program executed again with a role, so that they share only the store with the test. */
#ifndef CHILD_H
#define CHILD_H

#include <stddef.h>
#include <sys/types.h>

struct child {
  pid_t pid;
  int output; /* read end of its standard output */
};

/* The path of this program; main sets it. */
extern const char *child_program;

/* Starts `role` with two arguments. */
struct child child_start(const char *role, const char *first, const char *second);
/* Reads the next line of the child's output without the newline; "" at the end of the output. */
void child_line(struct child *child, char *text, size_t size);
/* Sends SIGKILL to the child and waits for its end. */
void child_kill(struct child *child);
/* Waits for the end of the child and returns its exit code; -1 when a signal ended it. */
int child_wait(struct child *child);

/* Forks the test. The child ends with the test, or after check_timeout_ms. */
pid_t child_fork(void);
/* Ends the fork with an exit code that is 0 when its checks held. It executes another program, because valgrind would
   report the memory of the parent's threads, which the fork does not have, as lost; one of the system, because the fork
   may have become a user who cannot execute this one. */
_Noreturn void child_end(void);
/* Waits for the fork. Fails when checks of the fork failed. */
void child_await(pid_t child);

/* Runs a role in the child process; returns its exit code. */
int child_role(const char *role, const char *first, const char *second);

#endif
