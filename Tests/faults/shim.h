/*
 * Interposes the file functions of the C library for the files of one directory: records writes and flushes, and makes chosen calls
 * fail. It is linked before the C library, or preloaded (LD_PRELOAD) with
 *
 *     FAULT_DIRECTORY=DIR [FAULT_TRACE=FILE] [FAULT_FAIL=CLASS:NTH:ERRNO:MODE]
 */
#ifndef FAULTS_SHIM_H
#define FAULTS_SHIM_H

#include <stddef.h>
#include <stdint.h>

enum fault_class {
  FAULT_READ,
  FAULT_WRITE,
  FAULT_SYNC,
  FAULT_OPEN,
  FAULT_TRUNCATE, /* ftruncate, fallocate */
  FAULT_RENAME,   /* rename, link */
  FAULT_UNLINK,
  FAULT_CLASSES
};

enum fault_mode {
  FAULT_ONCE,
  FAULT_PERMANENT,
  FAULT_KILL, /* the process is killed by SIGKILL before the call */
  FAULT_SHORT /* a write writes half of its bytes, and the next write fails; other calls as FAULT_ONCE */
};

/* Tracks files below `directory` (absolute, links resolved) from now on; NULL: none. */
void shim_watch(const char *directory);
/* Appends the changes of tracked files to the file `trace`; NULL stops recording. */
void shim_record(const char *trace);
/* Appends bytes of the caller to the trace. */
void shim_mark(const void *bytes, size_t size);
/* Makes the nth call of the class from now on (1: the next) fail; 0: none. Resets the counts. */
void shim_fail(enum fault_class class, unsigned long nth, int error, enum fault_mode mode);
/* Returns the number of calls of the class since shim_fail. */
unsigned long shim_count(enum fault_class class);
/* Returns the number of calls that were made to fail since shim_fail. */
unsigned long shim_fired(void);

/* The trace: records, each followed by `payload` bytes. A handle is a file descriptor. */
enum trace_kind {
  TRACE_OPEN = 1,    /* payload: name below the directory ("": the directory itself) */
  TRACE_DUPLICATE,   /* offset: the original handle */
  TRACE_WRITE,       /* offset; payload: bytes */
  TRACE_TRUNCATE,    /* offset: the new size */
  TRACE_ALLOCATE,    /* offset, length; flags: the mode of fallocate */
  TRACE_SYNC,        /* of a file or the directory */
  TRACE_SYNC_FAILED, /* the dirty pages are marked clean, but not on disk */
  TRACE_RENAME,      /* payload: old name, NUL, new name; flags of renameat2 */
  TRACE_LINK,        /* payload: old name or "" (the file of the handle), NUL, new name */
  TRACE_UNLINK,      /* payload: name */
  TRACE_MARK         /* payload: bytes of the caller */
};

enum { TRACE_OPEN_CREATED = 1, TRACE_OPEN_DIRECTORY = 2, TRACE_OPEN_NAMELESS = 4 };

struct trace_record {
  uint32_t kind;
  int32_t handle;
  uint64_t offset;
  uint64_t length;
  uint32_t flags;
  uint32_t payload;
};

#endif
