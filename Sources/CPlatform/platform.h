/* Functions of the C library and the kernel that Swift's Glibc module does not provide. */
#ifndef CPLATFORM_H
#define CPLATFORM_H

#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* glibc declares these only when _GNU_SOURCE is defined before its first header is included. */
extern int renameat2(int old_directory, const char *old_path, int new_directory, const char *new_path, unsigned int flags);
extern int pthread_setname_np(pthread_t thread, const char *name);
extern ssize_t pwritev2(int file, const struct iovec *parts, int count, off_t offset, int flags);

/* Renames a file unless the new name exists. Returns 0, or -1 with errno. */
static inline int platform_rename_exclusively(const char *old_path, const char *new_path) {
  return renameat2(-100 /* AT_FDCWD */, old_path, -100, new_path, 1 /* RENAME_NOREPLACE */);
}

/* Access to a number that another thread accesses at the same time. */
static inline void platform_atomic_store(int64_t *place, int64_t value) { __atomic_store_n(place, value, __ATOMIC_RELEASE); }
static inline int64_t platform_atomic_load(const int64_t *place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }

extern int fallocate(int descriptor, int mode, off_t offset, off_t length);
extern long syscall(long number, ...);

/* Locks the bytes that SQLite locks in a database file (its PENDING, RESERVED and SHARED bytes), for writing or reading. The lock
   belongs to the open file description: closing another descriptor of the file does not release it, and a POSIX lock of the same
   process conflicts with it. Returns 0, or -1 with errno: EAGAIN or EACCES when the file is locked. */
static inline int platform_lock_database(int descriptor, int for_writing) {
  struct flock lock;
  (void)memset(&lock, 0, sizeof lock);
  lock.l_type = for_writing ? F_WRLCK : F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0x40000000;
  lock.l_len = 512;
  return fcntl(descriptor, 37 /* F_OFD_SETLK, which glibc defines only with _GNU_SOURCE */, &lock);
}

static inline int platform_unlock_database(int descriptor) {
  struct flock lock;
  (void)memset(&lock, 0, sizeof lock);
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0x40000000;
  lock.l_len = 512;
  return fcntl(descriptor, 37, &lock);
}

/* Allocates blocks for a range of a file without changing its size. Returns 0, or -1 with errno. */
static inline int platform_allocate(int descriptor, int64_t offset, int64_t length) {
  return fallocate(descriptor, 1 /* FALLOC_FL_KEEP_SIZE */, offset, length);
}

/* Returns 1 when the path is a mount point; 0 when it is not, or the kernel cannot report it (before Linux 5.8). */
static inline int platform_is_mount_point(const char *path) {
  unsigned char status[256];
  uint64_t attributes = 0, known = 0;
  (void)memset(status, 0, sizeof status);
  if (syscall(SYS_statx, -100 /* AT_FDCWD */, path, 0x100 /* AT_SYMLINK_NOFOLLOW */, 0x7ff, status) != 0) return 0;
  (void)memcpy(&attributes, status + 8, 8); /* struct statx: stx_attributes */
  (void)memcpy(&known, status + 56, 8);     /* stx_attributes_mask */
  return (attributes & known & 0x2000 /* STATX_ATTR_MOUNT_ROOT */) != 0;
}

/* Returns the number of names of an open file, or -1 with errno. fstat would also read the file's times, and the kernel then records each
   following write with an exact time, which a flush of a file system without a journal writes to the disk separately. */
static inline int64_t platform_link_count(int descriptor) {
  unsigned char status[256];
  uint32_t links = 0;
  struct stat old;
  if (syscall(SYS_statx, descriptor, "", 0x1000 /* AT_EMPTY_PATH */, 0x4 /* STATX_NLINK */, status) == 0) {
    (void)memcpy(&links, status + 16, 4); /* struct statx: stx_nlink */
    return links;
  }
  return errno == ENOSYS && fstat(descriptor, &old) == 0 ? (int64_t)old.st_nlink : -1;
}

/* Creates an eventfd. Returns a descriptor, or -1 with errno. */
static inline int platform_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

/* Creates an epoll, whose descriptor is readable while one of those in it is. Returns a descriptor, or -1 with errno. */
static inline int platform_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }

/* Adds a descriptor to an epoll, for reading. Returns 0, or -1 with errno. */
static inline int platform_epoll_add(int epoll, int descriptor) {
  struct epoll_event interest;
  (void)memset(&interest, 0, sizeof interest);
  interest.events = EPOLLIN;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &interest);
}

/* Removes a descriptor from an epoll. To close it is not enough: a copy of it in a forked child would keep it there. */
static inline void platform_epoll_remove(int epoll, int descriptor) { (void)epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, NULL); }

/* Creates a timer of the clock, whose descriptor becomes readable when it expires. Returns -1 with errno on failure. */
static inline int platform_timer(clockid_t clock) { return timerfd_create(clock, TFD_CLOEXEC | TFD_NONBLOCK); }

/* Sets a timer to expire once, at a time of its clock in milliseconds. Negative: disarms it. */
static inline void platform_arm_timer(int timer, int64_t at_ms) {
  struct itimerspec setting = { { 0, 0 }, { 0, 0 } };
  /* The additional nanosecond: a time of zero would disarm the timer. */
  if (at_ms >= 0) setting.it_value = (struct timespec){ at_ms / 1000, at_ms % 1000 * 1000000 + 1 };
  (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, 0);
}

/* Makes a timer of the wall clock readable when that clock is set. */
static inline void platform_watch_clock(int timer) {
  struct itimerspec never = { { 0, 0 }, { (time_t)1 << 40, 0 } };
  (void)timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, 0);
}

/* Writes to a pipe with space for it. If another writer fills the pipe first, the call fails instead of blocking (since Linux 6.4). */
static inline ssize_t platform_write_pipe(int file, const void *bytes, size_t size) {
  struct iovec part = { (void *)bytes, size };
  ssize_t written = pwritev2(file, &part, 1, -1, 8 /* RWF_NOWAIT */);
  return written < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) ? write(file, bytes, size) : written;
}

/*
 * Writes to standard error without blocking, at most PIPE_BUF (4096) bytes. Returns the number of bytes written, or -1. The calling
 * thread must have SIGPIPE blocked. O_NONBLOCK is not changed, because all processes that share the pipe or terminal share it.
 * If descriptor 2 is closed on exec, or is not a file, pipe, socket or terminal, it is not standard error but some other file that
 * received a free number.
 */
static inline ssize_t platform_write_error(const void *bytes, size_t size) {
  struct stat status;
  struct pollfd ready = { STDERR_FILENO, POLLOUT, 0 };
  int flags = fcntl(STDERR_FILENO, F_GETFD);
  if (flags < 0 || (flags & FD_CLOEXEC) != 0 || fstat(STDERR_FILENO, &status) != 0) return -1;
  if (S_ISSOCK(status.st_mode)) return send(STDERR_FILENO, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode) && !S_ISREG(status.st_mode)) return -1;
  if (poll(&ready, 1, 0) != 1 || (ready.revents & (POLLOUT | POLLERR)) != POLLOUT) return -1;
  if (!S_ISFIFO(status.st_mode)) return write(STDERR_FILENO, bytes, size);
  ssize_t written = platform_write_pipe(STDERR_FILENO, bytes, size);
  if (written < 0 && errno == EPIPE) {
    /* The signal is pending for this thread only. Remove it. */
    sigset_t broken;
    struct timespec none = { 0, 0 };
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    (void)sigtimedwait(&broken, NULL, &none);
  }
  return written;
}

extern int accept4(int socket, struct sockaddr *address, socklen_t *size, int flags);

/* Creates a non-blocking Unix stream socket. Returns a descriptor, or -1 with errno. */
static inline int platform_unix_socket(void) { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/* Fills in the address of a Unix socket. Returns 0, or -1 with ENAMETOOLONG. */
static inline int platform_unix_address(struct sockaddr_un *address, const char *path) {
  size_t size = strlen(path);
  (void)memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  if (size >= sizeof address->sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  (void)memcpy(address->sun_path, path, size);
  return 0;
}

/* Binds or connects a Unix socket. Returns 0, or -1 with errno. */
static inline int platform_unix_bind(int socket, const char *path) {
  struct sockaddr_un address;
  return platform_unix_address(&address, path) == 0 ? bind(socket, (struct sockaddr *)&address, sizeof address) : -1;
}

static inline int platform_unix_connect(int socket, const char *path) {
  struct sockaddr_un address;
  return platform_unix_address(&address, path) == 0 ? connect(socket, (struct sockaddr *)&address, sizeof address) : -1;
}

/* Accepts a connection, non-blocking. Returns a descriptor, or -1 with errno. */
static inline int platform_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }

/* Returns the user of the peer of a Unix socket, at the time of its connect; -1 if it is unknown. */
static inline int64_t platform_peer_user(int socket) {
  struct { /* struct ucred, which glibc defines only with _GNU_SOURCE */
    pid_t process;
    uid_t user;
    gid_t group;
  } peer = { 0, 0, 0 };
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && size == sizeof peer ? (int64_t)peer.user : -1;
}

/* Sets the name that debuggers show; at most 15 bytes. */
static inline void platform_name_this_thread(const char *name) { (void)pthread_setname_np(pthread_self(), name); }

#endif
