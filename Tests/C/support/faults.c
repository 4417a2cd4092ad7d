#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

/* A fault at the n-th call on a file whose path contains `path`. */
struct failpoint {
  char path[128]; /* part of the path; "": not set */
  atomic_int seen;
  atomic_int number;
};

static struct failpoint reads, changes, errors;
static atomic_int error_count, error_code, errors_made;

static void failpoint_set(struct failpoint *point, const char *path, int number) {
  atomic_store(&point->number, 0);
  snprintf(point->path, sizeof point->path, "%s", path);
  atomic_store(&point->seen, 0);
  atomic_store(&point->number, number);
}

/* Counts a call; returns its number, or 0 if it is of another file. */
static int failpoint_turn(struct failpoint *point, const char *path) {
  if (point->path[0] == '\0' || strstr(path, point->path) == NULL) return 0;
  return atomic_fetch_add(&point->seen, 1) + 1;
}

/* Writes the path of a descriptor. Returns false when it has none. */
static bool path_of(int descriptor, char path[512]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, 511);
  if (length < 0) return false;
  path[length] = '\0';
  return true;
}

static atomic_int read_count = 1;

void fault_reads_from(const char *path, int number, int count) {
  atomic_store(&read_count, count);
  failpoint_set(&reads, path, number);
}
void fault_read(const char *path, int number) { fault_reads_from(path, number, 1); }
int fault_reads(void) { return atomic_load(&reads.seen); }
void fault_change(const char *path, int number) { failpoint_set(&changes, path, number); }
int fault_changes(void) { return atomic_load(&changes.seen); }

void fault_error(const char *path, int number, int count, int error) {
  atomic_store(&error_code, error);
  atomic_store(&error_count, count);
  atomic_store(&errors_made, 0);
  failpoint_set(&errors, path, number);
}
int fault_errors(void) { return atomic_load(&errors_made); }

/* Returns whether the change fails, with errno. */
static bool before_change_of(const char *path) {
  if (failpoint_turn(&changes, path) == atomic_load(&changes.number) && atomic_load(&changes.number) > 0) kill(getpid(), SIGKILL);
  int turn = failpoint_turn(&errors, path), first = atomic_load(&errors.number);
  if (first == 0 || turn < first || turn >= first + atomic_load(&error_count)) return false;
  atomic_fetch_add(&errors_made, 1);
  errno = atomic_load(&error_code);
  return true;
}

static bool before_change(int descriptor) {
  char path[512];
  if (changes.path[0] == '\0' && errors.path[0] == '\0') return false;
  return path_of(descriptor, path) && before_change_of(path);
}

/* The functions below replace those of the C library, because the linker finds the symbols of the program first. */

_Atomic int64_t fault_wall_shift_ms, fault_boot_shift_ms;

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += (time_t)(atomic_load(&fault_wall_shift_ms) / 1000);
  if (result == 0 && clock == CLOCK_BOOTTIME) now->tv_sec += (time_t)(atomic_load(&fault_boot_shift_ms) / 1000);
  return result;
}

atomic_bool fault_sync;
atomic_int fault_prepares;
atomic_int fault_syncs;
atomic_int fault_syncs_to_fail;

static atomic_int sync_number, sync_turn;

bool fault_sync_at(int number) {
  bool failed = atomic_load(&sync_number) > 0 && atomic_load(&sync_turn) >= atomic_load(&sync_number);
  atomic_store(&sync_turn, 0);
  atomic_store(&sync_number, number);
  return failed;
}

atomic_int fault_directory_syncs;

enum { kept_room = 64, kept_size = 64 };

static struct {
  char path[128]; /* "": not set */
  int count;
  bool is_dirty; /* written since the last flush, successful or not */
  struct {
    char bytes[kept_size];
    ssize_t size;
  } contents[kept_room];
} kept;

void fault_keep(const char *path) {
  if (path == NULL) {
    kept.path[0] = '\0';
    return;
  }
  kept.count = 0;
  snprintf(kept.path, sizeof kept.path, "%s", path);
}

bool fault_kept(int index, const char *target) {
  if (index >= kept.count) return false;
  file_write(target, kept.contents[index].bytes, (size_t)kept.contents[index].size);
  return true;
}

static bool is_kept(int descriptor) {
  char path[512];
  return kept.path[0] != '\0' && path_of(descriptor, path) && strstr(path, kept.path) != NULL;
}

static void keep(int descriptor) {
  if (kept.count == kept_room) kept.count--;
  ssize_t size = syscall(SYS_pread64, descriptor, kept.contents[kept.count].bytes, (size_t)kept_size, (off_t)0);
  if (size >= 0) kept.contents[kept.count++].size = size;
}

static void after_write(int descriptor) {
  if (!is_kept(descriptor)) return;
  kept.is_dirty = true;
  keep(descriptor);
}

static void after_sync(int descriptor, bool succeeded) {
  struct stat status;
  if (succeeded && fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) atomic_fetch_add(&fault_directory_syncs, 1);
  if (!is_kept(descriptor)) return;
  if (succeeded && kept.is_dirty) {
    kept.count = 0;
    keep(descriptor);
  }
  kept.is_dirty = false;
}

static int sync_file(long call, int descriptor) {
  atomic_fetch_add(&fault_syncs, 1);
  bool fails = before_change(descriptor);
  int error = fails ? errno : EIO;
  if (atomic_load(&fault_sync)) fails = true;
  if (atomic_fetch_add(&sync_turn, 1) + 1 == atomic_load(&sync_number)) fails = true;
  if (!fails && atomic_load(&fault_syncs_to_fail) > 0) fails = atomic_fetch_sub(&fault_syncs_to_fail, 1) > 0;
  int result = fails ? -1 : (int)syscall(call, descriptor);
  if (!fails) error = errno;
  after_sync(descriptor, result == 0);
  errno = error;
  return result;
}

int fdatasync(int descriptor) { return sync_file(SYS_fdatasync, descriptor); }
int fsync(int descriptor) { return sync_file(SYS_fsync, descriptor); }

typedef int prepare_function(sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **);

int sqlite3_prepare_v3(sqlite3 *database, const char *sql, int size, unsigned flags, sqlite3_stmt **statement, const char **tail) {
  static _Atomic(prepare_function *) next;
  prepare_function *function = atomic_load(&next);
  if (function == NULL) {
    void *found = dlsym(RTLD_NEXT, "sqlite3_prepare_v3");
    if (found == NULL) abort();
    memcpy(&function, &found, sizeof function);
    atomic_store(&next, function);
  }
  atomic_fetch_add(&fault_prepares, 1);
  return function(database, sql, size, flags, statement, tail);
}

static ssize_t read_file(int descriptor, void *bytes, size_t size, off_t offset) {
  char path[512];
  bool counts = reads.path[0] != '\0' && path_of(descriptor, path) && atomic_load(&reads.number) > 0;
  int turn = counts ? failpoint_turn(&reads, path) - atomic_load(&reads.number) : -1;
  if (turn < 0 || turn >= atomic_load(&read_count)) return syscall(SYS_pread64, descriptor, bytes, size, offset);
  errno = EIO;
  return -1;
}

ssize_t pread(int descriptor, void *bytes, size_t size, off_t offset) { return read_file(descriptor, bytes, size, offset); }
ssize_t pread64(int descriptor, void *bytes, size_t size, off_t offset) { return read_file(descriptor, bytes, size, offset); }

static char long_writes_path[64];
static _Atomic size_t longest_write;

void fault_long_writes(const char *path, size_t longest) {
  atomic_store(&longest_write, 0);
  snprintf(long_writes_path, sizeof long_writes_path, "%s", path);
  atomic_store(&longest_write, longest);
}

static bool is_too_long(int descriptor, size_t size) {
  char path[512];
  size_t longest = atomic_load(&longest_write);
  return longest > 0 && size > longest && path_of(descriptor, path) && strstr(path, long_writes_path) != NULL;
}

static ssize_t write_file(int descriptor, const void *bytes, size_t size, off_t offset) {
  if (before_change(descriptor)) return -1;
  if (is_too_long(descriptor, size)) {
    errno = ENOSPC;
    return -1;
  }
  ssize_t written = syscall(SYS_pwrite64, descriptor, bytes, size, offset);
  if (written > 0) after_write(descriptor);
  return written;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t offset) { return write_file(descriptor, bytes, size, offset); }
ssize_t pwrite64(int descriptor, const void *bytes, size_t size, off_t offset) { return write_file(descriptor, bytes, size, offset); }

atomic_int fault_truncations;

static int cut_file(int descriptor, off_t size) {
  if (before_change(descriptor)) return -1;
  atomic_fetch_add(&fault_truncations, 1);
  return (int)syscall(SYS_ftruncate, descriptor, size);
}

int ftruncate(int descriptor, off_t size) { return cut_file(descriptor, size); }
int ftruncate64(int descriptor, off_t size) { return cut_file(descriptor, size); }

int rename(const char *from, const char *to) {
  if (before_change_of(to)) return -1;
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path) {
  if (before_change_of(path)) return -1;
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
