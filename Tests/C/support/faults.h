/* System calls that fail on demand. */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "scene.h"

/* By how much the wall clock of this process is ahead, in whole seconds. */
extern _Atomic int64_t fault_wall_shift_ms;
/* The same for the clock that counts from the boot. Alarms of the kernel do not follow it: call the library afterwards. */
extern _Atomic int64_t fault_boot_shift_ms;

/* The number of calls of fdatasync and fsync in this process, including those of the library. */
extern atomic_int fault_syncs;

/* The next calls that fail with an I/O error; later calls succeed, as on Linux after a failed write of a device. */
extern atomic_int fault_syncs_to_fail;

/* Makes the n-th of the next calls fail, once; 0: none. Returns whether the call chosen before has failed. */
bool fault_sync_at(int number);

/* While true, every sync of this process, including those of the library, fails with an I/O error. */
extern atomic_bool fault_sync;

/* The number of calls of ftruncate in this process, including those of the library. */
extern atomic_int fault_truncations;

/* The number of statements that were prepared in this process, including those of the library. */
extern atomic_int fault_prepares;

/* The next calls of send in this process, including those of the library, that fail with ENOBUFS. */
extern atomic_int fault_sends;

/* Calls `run` before the n-th next call of send in this process, once, on the thread that sends. */
void fault_before_send(int number, void (*run)(void));

/* Makes the n-th next read of a file whose path contains `path` fail with an I/O error, once. 0: none. */
void fault_read(const char *path, int number);
/* The same for `count` reads, the n-th and those after it. */
void fault_reads_from(const char *path, int number, int count);
/* Returns the number of reads of such files since then. */
int fault_reads(void);

/* Kills the process with SIGKILL before the n-th next change (write, truncation, flush, rename, removal) of a file whose path contains
   `path`. 0: none, but changes are counted. */
void fault_change(const char *path, int number);
int fault_changes(void);

/* Makes `count` changes (write, truncation, flush, renaming, removal) of files whose path contains `path` fail with the error code `error`:
   the n-th next one and those after it. A number of 0: none. A file that is made and a directory that is flushed count as well. */
void fault_error(const char *path, int number, int count, int error);
/* Returns how many have failed since then. */
int fault_errors(void);

/* From now on writes of more than `longest` bytes to a file whose path contains `path` fail as on a full disk. 0: none. */
void fault_long_writes(const char *path, size_t longest);

/* The number of successful flushes of directories. */
extern atomic_int fault_directory_syncs;

/* From now on keeps what a power failure may leave of a file of up to 64 bytes whose path contains `path`: its content at the last flush that
   succeeded, and the contents written since. A failed flush drops what was written before it, as Linux does: it may be on the disk.
   NULL: ends that, the contents stay. */
void fault_keep(const char *path);
/* Writes the index-th of these contents to the file `target`. Returns false when there is none. */
bool fault_kept(int index, const char *target);

/* Forbids files to grow, which SQLite reports as a disk error. Print nothing meanwhile: standard output may be a file, too. Returns the
   previous limit; restore it with setrlimit(RLIMIT_FSIZE). */
struct rlimit forbid_growth(const struct scene *scene);

#endif
