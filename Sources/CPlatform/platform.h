/* Functions of the platform's C library that Swift's own module of it does not show. */
#ifndef CPLATFORM_H
#define CPLATFORM_H

#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

/* glibc shows these two only to those who define _GNU_SOURCE before its first header. */
extern int renameat2(int old_directory, const char *old_path, int new_directory, const char *new_path, unsigned int flags);
extern int pthread_setname_np(pthread_t thread, const char *name);

/* Gives a file another name unless that is taken already. 0, or -1 with errno. */
static inline int platform_rename_exclusively(const char *old_path, const char *new_path) {
  return renameat2(-100 /* AT_FDCWD */, old_path, -100, new_path, 1 /* RENAME_NOREPLACE */);
}

/* A descriptor that can be made readable. -1 with errno. */
static inline int platform_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

/* A descriptor that turns readable at a time of the clock. -1 with errno. */
static inline int platform_timer(clockid_t clock) { return timerfd_create(clock, TFD_CLOEXEC | TFD_NONBLOCK); }

/* Lets a timer ring once, when its clock has come to so many milliseconds; negative: not at all. */
static inline void platform_arm_timer(int timer, int64_t at_ms) {
  struct itimerspec setting = { { 0, 0 }, { 0, 0 } };
  /* Zero would disarm it. */
  if (at_ms >= 0) setting.it_value = (struct timespec){ at_ms / 1000, at_ms % 1000 * 1000000 + 1 };
  (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, 0);
}

/* Lets a timer of the wall clock turn readable once that clock is set. */
static inline void platform_watch_clock(int timer) {
  struct itimerspec never = { { 0, 0 }, { (time_t)1 << 40, 0 } };
  (void)timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, 0);
}

/* For debuggers; at most 15 bytes. */
static inline void platform_name_this_thread(const char *name) { (void)pthread_setname_np(pthread_self(), name); }

#endif
