/* What the system refuses, as it does on a bad day. */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "scene.h"

/* Calls of fdatasync and fsync in this process, the library's too. */
extern atomic_int fault_syncs;

/* So many of the next calls fail with an I/O error, and what follows succeeds: as Linux does when a device failed to write. */
extern atomic_int fault_syncs_to_fail;

/* The n-th of the next calls fails, once; 0: none. Whether the one before has failed. */
bool fault_sync_at(int number);

/* While true every sync of this process, the library's too, fails with an I/O error. */
extern atomic_bool fault_sync;

/* So many calls of send fail in this process, the library's too, for want of room in the kernel. */
extern atomic_int fault_sends;

/* The n-th read from now of a file whose path holds this text fails with an I/O error, once. 0: none. */
void fault_read(const char *path, int number);
/* Reads of such files since then. */
int fault_reads(void);

/* The n-th change (write, truncation, flush, rename, removal) from now of a file whose path holds this text ends the process, as kill -9
   does, before it is made. 0: none, but they are counted. */
void fault_change(const char *path, int number);
int fault_changes(void);

/* The store's files may not grow any more: SQLite takes that for a disk error. While it is so nothing is printed, as standard output may be
   a file, too. The limit before, which setrlimit(RLIMIT_FSIZE) puts back. */
struct rlimit forbid_growth(const struct scene *scene);

#endif
