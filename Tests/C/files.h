/* Files and directories that a test makes, looks at and takes away. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>

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
/* A directory and the files in it, one level deep. */
void directory_remove(const char *path);

#endif
