/* Functions of the platform's C library that Swift's own module of it does not show. */
#ifndef CPLATFORM_H
#define CPLATFORM_H

#include <pthread.h>
#include <sys/eventfd.h>

/* glibc shows these two only to those who define _GNU_SOURCE before its first header. */
extern int renameat2(int old_directory, const char *old_path, int new_directory, const char *new_path, unsigned int flags);
extern int pthread_setname_np(pthread_t thread, const char *name);

/* Gives a file another name unless that is taken already. 0, or -1 with errno. */
static inline int platform_rename_exclusively(const char *old_path, const char *new_path) {
  return renameat2(-100 /* AT_FDCWD */, old_path, -100, new_path, 1 /* RENAME_NOREPLACE */);
}

/* A descriptor that can be made readable. -1 with errno. */
static inline int platform_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

/* For debuggers; at most 15 bytes. */
static inline void platform_name_this_thread(const char *name) { (void)pthread_setname_np(pthread_self(), name); }

#endif
