#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a fault waits for: the n-th call on a file of these. */
struct trap {
  char path[128]; /* a part of it; "": not set */
  atomic_int seen;
  atomic_int number;
};

static struct trap reads, changes;

static void trap_set(struct trap *trap, const char *path, int number) {
  atomic_store(&trap->number, 0);
  snprintf(trap->path, sizeof trap->path, "%s", path);
  atomic_store(&trap->seen, 0);
  atomic_store(&trap->number, number);
}

/* Whether this call is the one. */
static bool trap_springs(struct trap *trap, const char *path) {
  if (trap->path[0] == '\0' || strstr(path, trap->path) == NULL) return false;
  return atomic_fetch_add(&trap->seen, 1) + 1 == atomic_load(&trap->number);
}

static bool trap_springs_for(struct trap *trap, int descriptor) {
  char link[64], path[512];
  if (trap->path[0] == '\0') return false;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = '\0';
  return trap_springs(trap, path);
}

void fault_read(const char *path, int number) { trap_set(&reads, path, number); }
int fault_reads(void) { return atomic_load(&reads.seen); }
void fault_change(const char *path, int number) { trap_set(&changes, path, number); }
int fault_changes(void) { return atomic_load(&changes.seen); }

/* Before a change is made. */
static void before_change(int descriptor) {
  if (trap_springs_for(&changes, descriptor)) kill(getpid(), SIGKILL);
}

static void before_change_of(const char *path) {
  if (trap_springs(&changes, path)) kill(getpid(), SIGKILL);
}

/* In the place of the C library's: a program's own functions come first. */

atomic_bool fault_sync;
atomic_int fault_syncs;
atomic_int fault_syncs_to_fail;

static atomic_int sync_number, sync_turn;

bool fault_sync_at(int number) {
  bool failed = atomic_load(&sync_number) > 0 && atomic_load(&sync_turn) >= atomic_load(&sync_number);
  atomic_store(&sync_turn, 0);
  atomic_store(&sync_number, number);
  return failed;
}

static int sync_file(long call, int descriptor) {
  before_change(descriptor);
  atomic_fetch_add(&fault_syncs, 1);
  bool fails = atomic_load(&fault_sync);
  if (atomic_fetch_add(&sync_turn, 1) + 1 == atomic_load(&sync_number)) fails = true;
  if (!fails && atomic_load(&fault_syncs_to_fail) > 0) fails = atomic_fetch_sub(&fault_syncs_to_fail, 1) > 0;
  if (!fails) return (int)syscall(call, descriptor);
  errno = EIO;
  return -1;
}

int fdatasync(int descriptor) { return sync_file(SYS_fdatasync, descriptor); }
int fsync(int descriptor) { return sync_file(SYS_fsync, descriptor); }

static ssize_t read_file(int descriptor, void *bytes, size_t size, off_t offset) {
  if (!trap_springs_for(&reads, descriptor)) return syscall(SYS_pread64, descriptor, bytes, size, offset);
  errno = EIO;
  return -1;
}

ssize_t pread(int descriptor, void *bytes, size_t size, off_t offset) { return read_file(descriptor, bytes, size, offset); }
ssize_t pread64(int descriptor, void *bytes, size_t size, off_t offset) { return read_file(descriptor, bytes, size, offset); }

static ssize_t write_file(int descriptor, const void *bytes, size_t size, off_t offset) {
  before_change(descriptor);
  return syscall(SYS_pwrite64, descriptor, bytes, size, offset);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t offset) { return write_file(descriptor, bytes, size, offset); }
ssize_t pwrite64(int descriptor, const void *bytes, size_t size, off_t offset) { return write_file(descriptor, bytes, size, offset); }

static int cut_file(int descriptor, off_t size) {
  before_change(descriptor);
  return (int)syscall(SYS_ftruncate, descriptor, size);
}

int ftruncate(int descriptor, off_t size) { return cut_file(descriptor, size); }
int ftruncate64(int descriptor, off_t size) { return cut_file(descriptor, size); }

int rename(const char *from, const char *to) {
  before_change_of(to);
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path) {
  before_change_of(path);
  return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
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
