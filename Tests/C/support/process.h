/* What the system says of this process. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* Threads of the whole process, and those of them that are the library's, by their names. */
size_t process_threads(void);
size_t process_library_threads(void);
/* How often each of the library's threads gave the processor up or lost it. */
struct process_switches {
  size_t threads;
  int64_t counts[64];
  int64_t ids[64];
};
struct process_switches process_switches(void);
/* The most that one thread was switched between the two. */
int64_t process_most_switched(const struct process_switches *before, const struct process_switches *after);
/* Processor time of all threads, in milliseconds. */
int64_t process_cpu_ms(void);
size_t process_descriptors(void);

#endif
