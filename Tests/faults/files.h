/* Directories of files: copies in memory, comparisons, temporary directories. */
#ifndef FAULTS_FILES_H
#define FAULTS_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct snapshot_file {
  char name[NAME_MAX + 1];
  char *bytes;
  size_t size;
};

struct snapshot {
  struct snapshot_file *files;
  size_t count;
};

void snapshot_take(struct snapshot *snapshot, const char *directory);
void snapshot_copy(struct snapshot *to, const struct snapshot *from);
void snapshot_write(const struct snapshot *snapshot, const char *directory);
struct snapshot_file *snapshot_find(struct snapshot *snapshot, const char *name);
void snapshot_drop(struct snapshot *snapshot, const char *name);
void snapshot_put(struct snapshot *snapshot, const char *name, const void *bytes, size_t size);
/* Returns whether the two differ, and writes the first difference to `why`. */
bool snapshot_differs(const struct snapshot *before, const struct snapshot *after, char *why, size_t room);
void snapshot_free(struct snapshot *snapshot);

void file_write(const char *directory, const char *name, const void *bytes, size_t size);
/* Removes the files in a directory, or creates the directory. */
void directory_empty(const char *directory);
void directory_remove(const char *directory);
/* Creates a directory in $FAULTS_DIRECTORY, /dev/shm or /tmp. */
const char *directory_make(const char *name);

#endif
