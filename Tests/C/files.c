#include "files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

void file_write(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  REQUIRE(file != NULL);
  CHECK_NUMBER(size, fwrite(bytes, 1, size, file));
  CHECK(fclose(file) == 0);
}

struct file_copy file_read(const char *path) {
  struct file_copy copy = { NULL, 0 };
  FILE *file = fopen(path, "rb");
  REQUIRE(file != NULL);
  fseek(file, 0, SEEK_END);
  copy.size = (size_t)ftell(file);
  rewind(file);
  copy.bytes = malloc(copy.size + 1);
  REQUIRE(copy.bytes != NULL);
  CHECK_NUMBER(copy.size, fread(copy.bytes, 1, copy.size, file));
  fclose(file);
  return copy;
}

void file_copy_free(struct file_copy *copy) {
  free(copy->bytes);
  copy->bytes = NULL;
}

bool file_is(const char *path, const struct file_copy *copy) {
  struct file_copy now = file_read(path);
  bool same = now.size == copy->size && memcmp(now.bytes, copy->bytes, now.size) == 0;
  file_copy_free(&now);
  return same;
}

bool file_contains(const char *path, const char *text) {
  struct file_copy copy = file_read(path);
  size_t length = strlen(text);
  bool found = false;
  for (size_t at = 0; !found && at + length <= copy.size; at++) found = memcmp(copy.bytes + at, text, length) == 0;
  file_copy_free(&copy);
  return found;
}

bool file_exists(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0;
}

size_t directory_entries(const char *path) {
  size_t count = 0;
  DIR *directory = opendir(path);
  REQUIRE(directory != NULL);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) count++;
  }
  closedir(directory);
  return count;
}

void directory_remove(const char *path) {
  DIR *directory = opendir(path);
  if (directory == NULL) return;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char inner[512];
    snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
    if (unlink(inner) != 0) rmdir(inner);
  }
  closedir(directory);
  CHECK(rmdir(path) == 0);
}
