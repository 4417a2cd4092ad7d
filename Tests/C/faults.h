/* What the system refuses, as it does on a bad day. */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "scene.h"

/* While true every sync of this process, the library's too, fails with an I/O error. */
extern atomic_bool fault_sync;

/* So many calls of send fail in this process, the library's too, for want of room in the kernel. */
extern atomic_int fault_sends;

/* The store's files may not grow any more: SQLite takes that for a disk error. While it is so nothing is printed, as standard output may be
   a file, too. The limit before, which setrlimit(RLIMIT_FSIZE) puts back. */
struct rlimit forbid_growth(const struct scene *scene);

#endif
