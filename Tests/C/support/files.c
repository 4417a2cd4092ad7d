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

void file_copy_to(const char *from, const char *to) {
  struct file_copy copy = file_read(from);
  file_write(to, copy.bytes, copy.size);
  file_copy_free(&copy);
}

static struct stat status_of_file(const char *path) {
  struct stat status;
  REQUIRE(lstat(path, &status) == 0);
  return status;
}

int64_t file_size(const char *path) { return (int64_t)status_of_file(path).st_size; }
uint64_t file_inode(const char *path) { return (uint64_t)status_of_file(path).st_ino; }

void file_flip(const char *path, int64_t offset) {
  struct file_copy copy = file_read(path);
  size_t place = (size_t)(offset < 0 ? (int64_t)copy.size + offset : offset);
  REQUIRE(place < copy.size);
  copy.bytes[place] ^= 1;
  file_write(path, copy.bytes, copy.size);
  file_copy_free(&copy);
}

int64_t file_find(const char *path, const char *text, int64_t start) {
  struct file_copy copy = file_read(path);
  char *found = NULL;
  if (start >= 0 && (size_t)start < copy.size) found = memmem(copy.bytes + start, copy.size - (size_t)start, text, strlen(text));
  int64_t place = found != NULL ? found - copy.bytes : -1;
  file_copy_free(&copy);
  return place;
}

static bool is_entry(const struct dirent *entry) { return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0; }

static const char *inside(const char *directory, const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

void snapshot_take(struct snapshot *snapshot, const char *directory) {
  snapshot->count = 0;
  DIR *entries = opendir(directory);
  REQUIRE(entries != NULL);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (!is_entry(entry)) continue;
    REQUIRE(snapshot->count < snapshot_room && strlen(entry->d_name) < sizeof snapshot->names[0]);
    strcpy(snapshot->names[snapshot->count], entry->d_name);
    snapshot->files[snapshot->count++] = file_read(inside(directory, entry->d_name));
  }
  closedir(entries);
}

bool snapshot_holds(const struct snapshot *snapshot, const char *directory) {
  bool holds = directory_entries(directory) == snapshot->count;
  if (!holds) fprintf(stderr, "  %zu files, expected %zu\n", directory_entries(directory), snapshot->count);
  for (size_t index = 0; index < snapshot->count; index++) {
    const char *path = inside(directory, snapshot->names[index]);
    bool is_there = file_exists(path);
    if (is_there && file_is(path, &snapshot->files[index])) continue;
    fprintf(stderr, "  %s %s\n", snapshot->names[index], is_there ? "was changed" : "is missing");
    holds = false;
  }
  return holds;
}

void snapshot_restore(const struct snapshot *snapshot, const char *directory) {
  char names[snapshot_room * 2][256];
  size_t count = 0;
  DIR *entries = opendir(directory);
  REQUIRE(entries != NULL);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL && count < snapshot_room * 2;) {
    if (is_entry(entry)) snprintf(names[count++], sizeof names[0], "%s", entry->d_name);
  }
  closedir(entries);
  for (size_t index = 0; index < count; index++) unlink(inside(directory, names[index]));
  for (size_t index = 0; index < snapshot->count; index++) {
    const char *path = inside(directory, snapshot->names[index]);
    file_write(path, snapshot->files[index].bytes, snapshot->files[index].size);
    CHECK(chmod(path, 0600) == 0);
  }
}

void snapshot_free(struct snapshot *snapshot) {
  for (size_t index = 0; index < snapshot->count; index++) file_copy_free(&snapshot->files[index]);
  snapshot->count = 0;
}
