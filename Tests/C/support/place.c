#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

int place_run(const char *name, enum check_place place) {
  int status = 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Nothing stretches there: valgrind does not follow. */
    unsetenv("MSGQ_TEST_PATIENCE");
    execl(child_program, child_program, "--place", place == CHECK_NETWORK ? "network" : "alone", name, (char *)NULL);
    _exit(127);
  }
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool write_text(const char *path, const char *text) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
  if (file >= 0) close(file);
  return written;
}

/* Root needs no more than a network namespace; anybody else becomes root in a namespace of users first. */
static bool enter_network(void) {
  char users[64], groups[64];
  if (unshare(CLONE_NEWNET) == 0) return true;
  snprintf(users, sizeof users, "0 %ld 1", (long)geteuid());
  snprintf(groups, sizeof groups, "0 %ld 1", (long)getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  return write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups);
}

bool place_enter(const char *place) {
  if (strcmp(place, "network") != 0) return true;
  if (!enter_network()) {
    fprintf(stderr, "  SKIPPED: the system gives no network namespace: %s\n", strerror(errno));
    return false;
  }
  if (system("ip link set lo up") == 0) return true;
  fprintf(stderr, "  SKIPPED: there is no ip program (Debian's package iproute2)\n");
  return false;
}
