#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A fault at the n-th call on a file whose path contains `path`. */
struct failpoint {
  char path[128]; /* part of the path; "": not set */
  atomic_int seen;
  atomic_int number;
};

static struct failpoint reads, changes;

static void failpoint_set(struct failpoint *point, const char *path, int number) {
  atomic_store(&point->number, 0);
  snprintf(point->path, sizeof point->path, "%s", path);
  atomic_store(&point->seen, 0);
  atomic_store(&point->number, number);
}

/* Counts a call; returns whether it is the n-th. */
static bool failpoint_hit(struct failpoint *point, const char *path) {
  if (point->path[0] == '\0' || strstr(path, point->path) == NULL) return false;
  return atomic_fetch_add(&point->seen, 1) + 1 == atomic_load(&point->number);
}

static bool failpoint_hit_by_descriptor(struct failpoint *point, int descriptor) {
  char link[64], path[512];
  if (point->path[0] == '\0') return false;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = '\0';
  return failpoint_hit(point, path);
}

void fault_read(const char *path, int number) { failpoint_set(&reads, path, number); }
int fault_reads(void) { return atomic_load(&reads.seen); }
void fault_change(const char *path, int number) { failpoint_set(&changes, path, number); }
int fault_changes(void) { return atomic_load(&changes.seen); }

static void before_change(int descriptor) {
  if (failpoint_hit_by_descriptor(&changes, descriptor)) kill(getpid(), SIGKILL);
}

static void before_change_of(const char *path) {
  if (failpoint_hit(&changes, path)) kill(getpid(), SIGKILL);
}

/* The functions below replace those of the C library, because the linker finds the symbols of the program first. */

_Atomic int64_t fault_wall_shift_ms;

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += (time_t)(atomic_load(&fault_wall_shift_ms) / 1000);
  return result;
}

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
  if (!failpoint_hit_by_descriptor(&reads, descriptor)) return syscall(SYS_pread64, descriptor, bytes, size, offset);
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

atomic_int fault_truncations;

static int cut_file(int descriptor, off_t size) {
  before_change(descriptor);
  atomic_fetch_add(&fault_truncations, 1);
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

static atomic_int sends_before;
static void (*_Atomic before_send)(void);

void fault_before_send(int number, void (*run)(void)) {
  atomic_store(&before_send, run);
  atomic_store(&sends_before, number);
}

ssize_t send(int socket, const void *bytes, size_t size, int flags) {
  if (atomic_load(&sends_before) > 0 && atomic_fetch_sub(&sends_before, 1) == 1) atomic_load(&before_send)();
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
  none.rlim_cur = 64; /* room for the header of the write-ahead log, but for no frame */
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &none);
  return before;
}
