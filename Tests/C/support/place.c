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
    /* The normal limits hold there, because valgrind does not follow into the child. */
    unsetenv("MSGQ_TEST_TIMEOUT_FACTOR");
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

/* Root can create a network namespace; another user needs a user namespace, too. */
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
    fprintf(stderr, "  SKIPPED: the system does not permit a network namespace: %s\n", strerror(errno));
    return false;
  }
  if (system("ip link set lo up") == 0) return true;
  fprintf(stderr, "  SKIPPED: the program ip is missing (Debian package iproute2)\n");
  return false;
}
