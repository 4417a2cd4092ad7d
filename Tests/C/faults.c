#include "faults.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

atomic_bool fault_sync;

/* In the place of the C library's: a program's own functions come first. */
int fdatasync(int descriptor) {
  if (!atomic_load(&fault_sync)) return (int)syscall(SYS_fdatasync, descriptor);
  errno = EIO;
  return -1;
}

atomic_int fault_sends;

ssize_t send(int socket, const void *bytes, size_t size, int flags) {
  if (atomic_load(&fault_sends) <= 0) return sendto(socket, bytes, size, flags, NULL, 0);
  atomic_fetch_sub(&fault_sends, 1);
  errno = ENOBUFS;
  return -1;
}

struct rlimit forbid_growth(const struct scene *scene) {
  struct rlimit before, none;
  (void)scene;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  none = before;
  none.rlim_cur = 64; /* The header of the log and no frame. */
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &none);
  return before;
}
