/* Files and directories that a test makes, looks at and takes away. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_copy {
  char *bytes;
  size_t size;
};

void file_write(const char *path, const void *bytes, size_t size);
/* The whole file; free with file_copy_free. */
struct file_copy file_read(const char *path);
void file_copy_free(struct file_copy *copy);
/* Whether the file still is what it was. */
bool file_is(const char *path, const struct file_copy *copy);
bool file_contains(const char *path, const char *text);
bool file_exists(const char *path);
size_t directory_entries(const char *path);
/* The bytes of one file into another, which keeps its inode if it is there: as cp does. */
void file_copy_to(const char *from, const char *to);
int64_t file_size(const char *path);
uint64_t file_inode(const char *path);
/* Changes one bit of the byte at `offset` (negative: from the end). */
void file_flip(const char *path, int64_t offset);
/* Where the bytes of `text` begin in a file, from `start` on; -1: they are not there. */
int64_t file_find(const char *path, const char *text, int64_t start);

enum { snapshot_room = 24 };

/* The names and bytes of all files of a directory. */
struct snapshot {
  size_t count;
  char names[snapshot_room][64];
  struct file_copy files[snapshot_room];
};

void snapshot_take(struct snapshot *snapshot, const char *directory);
/* Whether the directory still is what it was; tells the differences. */
bool snapshot_holds(const struct snapshot *snapshot, const char *directory);
/* Makes it so again. */
void snapshot_restore(const struct snapshot *snapshot, const char *directory);
void snapshot_free(struct snapshot *snapshot);

/* A directory and the files in it, one level deep. */
void directory_remove(const char *path);

#endif
