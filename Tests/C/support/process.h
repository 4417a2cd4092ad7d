/* Threads, processor time and descriptors of this process. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* Return the number of threads of the process, and of threads of the library, which have names that begin with "msgq-". */
size_t process_threads(void);
size_t process_library_threads(void);
/* How often each thread of the library went to sleep (voluntary context switches): once after each time that it was woken. On a loaded
   machine a thread is also interrupted, which is not counted. */
struct process_switches {
  size_t threads;
  int64_t counts[64];
  int64_t ids[64];
};
struct process_switches process_switches(void);
/* Returns how often the thread that went to sleep most often did so between the two. */
int64_t process_most_switched(const struct process_switches *before, const struct process_switches *after);
/* Returns the processor time of all threads in milliseconds. */
int64_t process_cpu_ms(void);
size_t process_descriptors(void);
/* Returns a number of KiB in /proc/self/status, such as "VmRSS"; -1 when there is none. */
int64_t process_memory_kib(const char *name);
/* Returns how many write calls the process has made; -1 when that is not known. */
int64_t process_writes(void);

#endif
