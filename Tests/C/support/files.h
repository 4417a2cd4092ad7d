/* Files and directories: create, read, compare, remove. */
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
/* Reads the whole file; free the copy with file_copy_free. */
struct file_copy file_read(const char *path);
void file_copy_free(struct file_copy *copy);
/* Returns whether the file has the bytes of the copy. */
bool file_is(const char *path, const struct file_copy *copy);
bool file_contains(const char *path, const char *text);
bool file_exists(const char *path);
size_t directory_entries(const char *path);
/* Copies the bytes of a file. An existing target keeps its inode, as with cp. */
void file_copy_to(const char *from, const char *to);
int64_t file_size(const char *path);
uint64_t file_inode(const char *path);
/* Flips one bit of the byte at `offset` (negative: from the end). */
void file_flip(const char *path, int64_t offset);
/* Returns the offset of `text` in a file, searching from `start`; -1: not found. */
int64_t file_find(const char *path, const char *text, int64_t start);

enum { snapshot_room = 24 };

/* The names and contents of all files in a directory. */
struct snapshot {
  size_t count;
  char names[snapshot_room][64];
  struct file_copy files[snapshot_room];
};

void snapshot_take(struct snapshot *snapshot, const char *directory);
/* Returns whether the directory is unchanged; prints the differences. */
bool snapshot_holds(const struct snapshot *snapshot, const char *directory);
/* Restores the directory. */
void snapshot_restore(const struct snapshot *snapshot, const char *directory);
void snapshot_free(struct snapshot *snapshot);

/* Removes a directory and the files in it, one level deep. */
void directory_remove(const char *path);

#endif
