#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { handles_room = 65536, tracked_file = 1, tracked_directory = 2, tracked_synced = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char watched[PATH_MAX];
static size_t watched_length;
static atomic_bool watching;
static atomic_uchar handles[handles_room];
static int trace = -1;
static unsigned long counts[FAULT_CLASSES], fired;
static struct {
  enum fault_class class;
  unsigned long nth;
  int error;
  enum fault_mode mode;
} plan;

static unsigned tracked(int handle) {
  return atomic_load(&watching) && handle >= 0 && handle < handles_room ? atomic_load(&handles[handle]) : 0;
}

/* ------------------------------------------------------------------ the trace */

static void append(const void *bytes, size_t size) {
  const char *next = bytes;
  while (size > 0) {
    ssize_t written = syscall(SYS_write, trace, next, size);
    if (written <= 0) abort(); /* an incomplete trace is useless */
    next += written;
    size -= (size_t)written;
  }
}

static void record(enum trace_kind kind, int handle, uint64_t offset, uint64_t length, uint32_t flags, const void *bytes, size_t size) {
  if (trace < 0) return;
  int error = errno;
  struct trace_record head = { kind, handle, offset, length, flags, (uint32_t)size };
  append(&head, sizeof head);
  append(bytes, size);
  errno = error;
}

static void record_names(enum trace_kind kind, int handle, uint32_t flags, const char *old, const char *new) {
  char names[2 * PATH_MAX];
  size_t first = strlen(old) + 1, second = strlen(new);
  memcpy(names, old, first);
  memcpy(names + first, new, second);
  record(kind, handle, 0, 0, flags, names, first + second);
}

/* ------------------------------------------------------------------ injected faults; call with the lock held */

static bool fails(enum fault_class class) {
  unsigned long number = ++counts[class];
  if (plan.nth == 0 || plan.class != class || number < plan.nth) return false;
  if (plan.mode == FAULT_KILL) kill(getpid(), SIGKILL);
  if (plan.mode == FAULT_ONCE && number > plan.nth) return false;
  if (plan.mode == FAULT_SHORT && number > plan.nth + (class == FAULT_WRITE)) return false;
  fired++;
  errno = plan.error;
  return true;
}

/* ------------------------------------------------------------------ names */

/* Returns the name below the watched directory, "" for the directory itself, NULL for other files. */
static const char *name_below(int directory, const char *path, char out[PATH_MAX]) {
  if (path == NULL) return NULL;
  if (path[0] == '/') {
    if (strlen(path) >= PATH_MAX) return NULL;
    strcpy(out, path);
  } else {
    char link[64], base[PATH_MAX];
    snprintf(link, sizeof link, directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", directory);
    ssize_t length = syscall(SYS_readlink, link, base, sizeof base - 1);
    if (length <= 0 || (size_t)length + strlen(path) + 2 > PATH_MAX) return NULL;
    base[length] = '\0';
    strcpy(out, base);
    strcat(out, "/");
    strcat(out, path);
  }
  if (strncmp(out, watched, watched_length) != 0) return NULL;
  if (out[watched_length] == '\0') return out + watched_length;
  return out[watched_length] == '/' ? out + watched_length + 1 : NULL;
}

/* ------------------------------------------------------------------ open, close */

static int open_any(int directory, const char *path, int flags, mode_t mode) {
  char room[PATH_MAX];
  int error = errno;
  const char *name = atomic_load(&watching) ? name_below(directory, path, room) : NULL;
  errno = error;
  if (name == NULL) return (int)syscall(SYS_openat, directory, path, flags, mode);
  pthread_mutex_lock(&lock);
  struct stat before;
  bool was = fstatat(directory, path, &before, AT_SYMLINK_NOFOLLOW) == 0;
  errno = error;
  int handle = -1;
  if (!fails(FAULT_OPEN)) handle = (int)syscall(SYS_openat, directory, path, flags, mode);
  if (handle >= 0 && handle < handles_room) {
    bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
    bool whole = !nameless && name[0] == '\0';
    unsigned bits = (whole ? tracked_directory : tracked_file) | ((flags & (O_DSYNC | O_SYNC)) ? tracked_synced : 0u);
    atomic_store(&handles[handle], (unsigned char)bits);
    uint32_t what = nameless ? TRACE_OPEN_NAMELESS : whole ? TRACE_OPEN_DIRECTORY : was ? 0 : TRACE_OPEN_CREATED;
    record(TRACE_OPEN, handle, 0, 0, what, name, strlen(name));
    if (was && (flags & O_TRUNC) && !whole && !nameless) record(TRACE_TRUNCATE, handle, 0, 0, 0, NULL, 0);
  }
  pthread_mutex_unlock(&lock);
  return handle;
}

static mode_t mode_of(int flags, va_list more) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(more, int) : 0;
}

#define OPEN(name)                                       \
  int name(const char *path, int flags, ...) {           \
    va_list more;                                        \
    va_start(more, flags);                               \
    mode_t mode = mode_of(flags, more);                  \
    va_end(more);                                        \
    return open_any(AT_FDCWD, path, flags, mode);        \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                            \
  int name(int directory, const char *path, int flags, ...) {   \
    va_list more;                                               \
    va_start(more, flags);                                      \
    mode_t mode = mode_of(flags, more);                         \
    va_end(more);                                               \
    return open_any(directory, path, flags, mode);              \
  }
OPENAT(openat)
OPENAT(openat64)

int __open_2(const char *path, int flags) { return open_any(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_any(AT_FDCWD, path, flags, 0); }
int __openat_2(int directory, const char *path, int flags) { return open_any(directory, path, flags, 0); }
int __openat64_2(int directory, const char *path, int flags) { return open_any(directory, path, flags, 0); }
int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int handle) {
  if (tracked(handle)) atomic_store(&handles[handle], 0);
  return (int)syscall(SYS_close, handle);
}

static int copied(int old, int new) {
  if (new < 0 || new >= handles_room) return new;
  unsigned bits = tracked(old);
  if (bits || tracked(new)) atomic_store(&handles[new], (unsigned char)bits);
  if (!bits) return new;
  pthread_mutex_lock(&lock);
  record(TRACE_DUPLICATE, new, (uint64_t)old, 0, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return new;
}

int dup(int old) { return copied(old, (int)syscall(SYS_dup, old)); }
int dup2(int old, int new) { return old == new ? (fcntl(old, F_GETFD) < 0 ? -1 : new) : copied(old, (int)syscall(SYS_dup3, old, new, 0)); }
int dup3(int old, int new, int flags) { return copied(old, (int)syscall(SYS_dup3, old, new, flags)); }

#define FCNTL(name)                                                                               \
  int name(int handle, int command, ...) {                                                        \
    va_list more;                                                                                 \
    va_start(more, command);                                                                      \
    void *argument = va_arg(more, void *);                                                        \
    va_end(more);                                                                                 \
    int result = (int)syscall(SYS_fcntl, handle, command, argument);                              \
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(handle, result) : result;    \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

/* ------------------------------------------------------------------ read, write */

ssize_t read(int handle, void *bytes, size_t size) {
  if (tracked(handle) & tracked_file) {
    pthread_mutex_lock(&lock);
    bool failed = fails(FAULT_READ);
    pthread_mutex_unlock(&lock);
    if (failed) return -1;
  }
  return syscall(SYS_read, handle, bytes, size);
}

#define PREAD(name)                                                       \
  ssize_t name(int handle, void *bytes, size_t size, off_t offset) {      \
    if (tracked(handle)) {                                                \
      pthread_mutex_lock(&lock);                                          \
      bool failed = fails(FAULT_READ);                                    \
      pthread_mutex_unlock(&lock);                                        \
      if (failed) return -1;                                              \
    }                                                                     \
    return syscall(SYS_pread64, handle, bytes, size, offset);             \
  }
PREAD(pread)
PREAD(pread64)

/* offset -1: the current position of the descriptor. */
static ssize_t write_tracked(int handle, const void *bytes, size_t size, off_t offset) {
  pthread_mutex_lock(&lock);
  unsigned long number = counts[FAULT_WRITE] + 1;
  ssize_t written = -1;
  if (fails(FAULT_WRITE)) {
    if (plan.mode != FAULT_SHORT || number != plan.nth || size < 2) goto end;
    size /= 2;
  }
  off_t start = offset;
  if (offset < 0) {
    int flags = (int)syscall(SYS_fcntl, handle, F_GETFL, 0);
    start = (off_t)syscall(SYS_lseek, handle, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);
  }
  written = offset < 0 ? syscall(SYS_write, handle, bytes, size) : syscall(SYS_pwrite64, handle, bytes, size, offset);
  if (written > 0) {
    record(TRACE_WRITE, handle, (uint64_t)start, 0, 0, bytes, (size_t)written);
    if (tracked(handle) & tracked_synced) record(TRACE_SYNC, handle, 0, 0, 0, NULL, 0);
  }
end:
  pthread_mutex_unlock(&lock);
  return written;
}

ssize_t write(int handle, const void *bytes, size_t size) {
  if (!tracked(handle)) return syscall(SYS_write, handle, bytes, size);
  return write_tracked(handle, bytes, size, -1);
}

#define PWRITE(name)                                                           \
  ssize_t name(int handle, const void *bytes, size_t size, off_t offset) {     \
    if (!tracked(handle)) return syscall(SYS_pwrite64, handle, bytes, size, offset); \
    return write_tracked(handle, bytes, size, offset);                         \
  }
PWRITE(pwrite)
PWRITE(pwrite64)

static ssize_t write_pieces(int handle, const struct iovec *pieces, int count, off_t offset) {
  size_t size = 0;
  for (int index = 0; index < count; index++) size += pieces[index].iov_len;
  char *bytes = malloc(size + 1);
  if (bytes == NULL) return errno = ENOMEM, -1;
  size = 0;
  for (int index = 0; index < count; index++) {
    memcpy(bytes + size, pieces[index].iov_base, pieces[index].iov_len);
    size += pieces[index].iov_len;
  }
  ssize_t written = write_tracked(handle, bytes, size, offset);
  int error = errno;
  free(bytes);
  errno = error;
  return written;
}

ssize_t writev(int handle, const struct iovec *pieces, int count) {
  if (!tracked(handle)) return syscall(SYS_writev, handle, pieces, count);
  return write_pieces(handle, pieces, count, -1);
}

#define PWRITEV(name)                                                                          \
  ssize_t name(int handle, const struct iovec *pieces, int count, off_t offset) {              \
    if (!tracked(handle)) return syscall(SYS_pwritev, handle, pieces, count, offset, 0);       \
    return write_pieces(handle, pieces, count, offset);                                        \
  }
PWRITEV(pwritev)
PWRITEV(pwritev64)

ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t size, unsigned flags) {
  if (tracked(to)) return errno = ENOSYS, -1; /* callers then use read and write */
  return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, size, flags);
}

/* SQLite rebuilds the shared-memory index of the log after a crash, so it is not recorded. */
static bool is_log_index(int handle) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
  ssize_t length = syscall(SYS_readlink, link, path, sizeof path);
  return length > 4 && memcmp(path + length - 4, "-shm", 4) == 0;
}

static void *map(void *address, size_t size, int protection, int flags, int handle, off_t offset) {
  if (tracked(handle) && (flags & MAP_SHARED) && (protection & PROT_WRITE) && !is_log_index(handle)) {
    static const char text[] = "shim: a tracked file is mapped for writing, which cannot be recorded\n";
    syscall(SYS_write, 2, text, sizeof text - 1);
    abort();
  }
  return (void *)syscall(SYS_mmap, address, size, protection, flags, handle, offset);
}
void *mmap(void *address, size_t size, int protection, int flags, int handle, off_t offset) {
  return map(address, size, protection, flags, handle, offset);
}
void *mmap64(void *address, size_t size, int protection, int flags, int handle, off_t offset) {
  return map(address, size, protection, flags, handle, offset);
}

/* ------------------------------------------------------------------ sizes */

static int truncate_tracked(int handle, off_t size) {
  int result = -1;
  pthread_mutex_lock(&lock);
  if (!fails(FAULT_TRUNCATE)) result = (int)syscall(SYS_ftruncate, handle, size);
  if (result == 0) record(TRACE_TRUNCATE, handle, (uint64_t)size, 0, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}

int ftruncate(int handle, off_t size) { return tracked(handle) ? truncate_tracked(handle, size) : (int)syscall(SYS_ftruncate, handle, size); }
int ftruncate64(int handle, off_t size) { return ftruncate(handle, size); }

static int by_path(const char *path, off_t size) {
  int handle = open_any(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (handle < 0) return -1;
  int result = ftruncate(handle, size), error = errno;
  close(handle);
  errno = error;
  return result;
}
int truncate(const char *path, off_t size) { return by_path(path, size); }
int truncate64(const char *path, off_t size) { return by_path(path, size); }

static int allocate(int handle, int mode, off_t offset, off_t length) {
  if (!tracked(handle)) return (int)syscall(SYS_fallocate, handle, mode, offset, length);
  int result = -1;
  pthread_mutex_lock(&lock);
  if (!fails(FAULT_TRUNCATE)) result = (int)syscall(SYS_fallocate, handle, mode, offset, length);
  if (result == 0) record(TRACE_ALLOCATE, handle, (uint64_t)offset, (uint64_t)length, (uint32_t)mode, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
int fallocate(int handle, int mode, off_t offset, off_t length) { return allocate(handle, mode, offset, length); }
int fallocate64(int handle, int mode, off_t offset, off_t length) { return allocate(handle, mode, offset, length); }
static int posix_allocate(int handle, off_t offset, off_t length) {
  int before = errno, result = allocate(handle, 0, offset, length) == 0 ? 0 : errno;
  errno = before;
  return result;
}
int posix_fallocate(int handle, off_t offset, off_t length) { return posix_allocate(handle, offset, length); }
int posix_fallocate64(int handle, off_t offset, off_t length) { return posix_allocate(handle, offset, length); }

/* ------------------------------------------------------------------ flushes */

static int flush(long call, int handle) {
  if (!tracked(handle)) return (int)syscall(call, handle);
  int result = -1;
  pthread_mutex_lock(&lock);
  if (!fails(FAULT_SYNC)) result = (int)syscall(call, handle);
  record(result == 0 ? TRACE_SYNC : TRACE_SYNC_FAILED, handle, 0, 0, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
int fsync(int handle) { return flush(SYS_fsync, handle); }
int fdatasync(int handle) { return flush(SYS_fdatasync, handle); }

/* ------------------------------------------------------------------ names */

static int rename_any(int old_directory, const char *old, int new_directory, const char *new, unsigned flags) {
  char first[PATH_MAX], second[PATH_MAX];
  bool ours = atomic_load(&watching);
  const char *old_name = ours ? name_below(old_directory, old, first) : NULL, *new_name = ours ? name_below(new_directory, new, second) : NULL;
  if (old_name == NULL || new_name == NULL) return (int)syscall(SYS_renameat2, old_directory, old, new_directory, new, flags);
  int result = -1;
  pthread_mutex_lock(&lock);
  if (!fails(FAULT_RENAME)) result = (int)syscall(SYS_renameat2, old_directory, old, new_directory, new, flags);
  if (result == 0) record_names(TRACE_RENAME, -1, flags, old_name, new_name);
  pthread_mutex_unlock(&lock);
  return result;
}
int rename(const char *old, const char *new) { return rename_any(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int old_directory, const char *old, int new_directory, const char *new) {
  return rename_any(old_directory, old, new_directory, new, 0);
}
int renameat2(int old_directory, const char *old, int new_directory, const char *new, unsigned flags) {
  return rename_any(old_directory, old, new_directory, new, flags);
}

static int link_any(int old_directory, const char *old, int new_directory, const char *new, int flags) {
  char first[PATH_MAX], second[PATH_MAX];
  const char *new_name = atomic_load(&watching) ? name_below(new_directory, new, second) : NULL;
  if (new_name == NULL) return (int)syscall(SYS_linkat, old_directory, old, new_directory, new, flags);
  int handle = -1, result = -1;
  const char *old_name = name_below(old_directory, old, first);
  if (old_name == NULL || (flags & AT_EMPTY_PATH)) {
    if (flags & AT_EMPTY_PATH) handle = old_directory;
    else if (sscanf(old, "/proc/self/fd/%d", &handle) != 1) handle = -1;
    old_name = "";
  }
  pthread_mutex_lock(&lock);
  if (!fails(FAULT_RENAME)) result = (int)syscall(SYS_linkat, old_directory, old, new_directory, new, flags);
  if (result == 0) record_names(TRACE_LINK, handle, 0, old_name, new_name);
  pthread_mutex_unlock(&lock);
  return result;
}
int link(const char *old, const char *new) { return link_any(AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int old_directory, const char *old, int new_directory, const char *new, int flags) {
  return link_any(old_directory, old, new_directory, new, flags);
}

static int unlink_any(int directory, const char *path, int flags) {
  char room[PATH_MAX];
  const char *name = atomic_load(&watching) ? name_below(directory, path, room) : NULL;
  if (name == NULL) return (int)syscall(SYS_unlinkat, directory, path, flags);
  int result = -1;
  pthread_mutex_lock(&lock);
  struct stat there;
  /* The unlink of a missing file is not made to fail. */
  if (fstatat(directory, path, &there, AT_SYMLINK_NOFOLLOW) != 0) result = (int)syscall(SYS_unlinkat, directory, path, flags);
  else if (!fails(FAULT_UNLINK)) result = (int)syscall(SYS_unlinkat, directory, path, flags);
  if (result == 0) record(TRACE_UNLINK, -1, 0, 0, 0, name, strlen(name));
  pthread_mutex_unlock(&lock);
  return result;
}
int unlink(const char *path) { return unlink_any(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char *path, int flags) { return unlink_any(directory, path, flags); }
int remove(const char *path) {
  int result = unlink_any(AT_FDCWD, path, 0);
  return result == 0 || errno != EISDIR ? result : rmdir(path);
}

/* ------------------------------------------------------------------ interface of the tools */

void shim_watch(const char *directory) {
  pthread_mutex_lock(&lock);
  atomic_store(&watching, directory != NULL);
  snprintf(watched, sizeof watched, "%s", directory != NULL ? directory : "");
  watched_length = strlen(watched);
  for (int handle = 0; handle < handles_room; handle++) atomic_store(&handles[handle], 0);
  pthread_mutex_unlock(&lock);
}

void shim_record(const char *path) {
  pthread_mutex_lock(&lock);
  if (trace >= 0) syscall(SYS_close, trace);
  trace = -1;
  if (path != NULL) {
    int handle = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (handle < 0) abort();
    /* A high number, because the program may expect the lowest free number. */
    trace = (int)syscall(SYS_fcntl, handle, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, handle);
    if (trace < 0) abort();
  }
  pthread_mutex_unlock(&lock);
}

void shim_mark(const void *bytes, size_t size) {
  pthread_mutex_lock(&lock);
  record(TRACE_MARK, -1, 0, 0, 0, bytes, size);
  pthread_mutex_unlock(&lock);
}

void shim_fail(enum fault_class class, unsigned long nth, int error, enum fault_mode mode) {
  pthread_mutex_lock(&lock);
  memset(counts, 0, sizeof counts);
  fired = 0;
  plan.class = class;
  plan.nth = nth;
  plan.error = error;
  plan.mode = mode;
  pthread_mutex_unlock(&lock);
}

unsigned long shim_count(enum fault_class class) {
  pthread_mutex_lock(&lock);
  unsigned long count = counts[class];
  pthread_mutex_unlock(&lock);
  return count;
}

unsigned long shim_fired(void) {
  pthread_mutex_lock(&lock);
  unsigned long count = fired;
  pthread_mutex_unlock(&lock);
  return count;
}

__attribute__((constructor)) static void from_environment(void) {
  const char *directory = getenv("FAULT_DIRECTORY"), *file = getenv("FAULT_TRACE"), *fail = getenv("FAULT_FAIL");
  unsigned class = 0, mode = 0;
  unsigned long nth = 0;
  int error = EIO;
  if (directory != NULL) shim_watch(directory);
  if (file != NULL) shim_record(file);
  if (fail != NULL && sscanf(fail, "%u:%lu:%d:%u", &class, &nth, &error, &mode) >= 2) {
    shim_fail((enum fault_class)class, nth, error, (enum fault_mode)mode);
  }
}
