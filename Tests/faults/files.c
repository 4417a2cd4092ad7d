#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what, const char *name) {
  fprintf(stderr, "%s %s: %s\n", what, name, strerror(errno));
  abort();
}

static void *room_for(size_t size) {
  void *bytes = malloc(size + 1);
  if (bytes == NULL) abort();
  return bytes;
}

static int by_name(const void *first, const void *second) {
  return strcmp(((const struct snapshot_file *)first)->name, ((const struct snapshot_file *)second)->name);
}

/* Reads the file of `status` whole. Returns false when it became shorter or went meanwhile. */
static bool read_file(int directory, const char *name, const struct stat *status, struct snapshot *snapshot) {
  int handle = openat(directory, name, O_RDONLY | O_CLOEXEC);
  if (handle < 0 && errno == ENOENT) return false;
  if (handle < 0) fail("open", name);
  char *bytes = room_for((size_t)status->st_size);
  ssize_t size = pread(handle, bytes, (size_t)status->st_size, 0);
  close(handle);
  if (size < 0) fail("read", name);
  if (size == status->st_size) snapshot_put(snapshot, name, bytes, (size_t)size);
  free(bytes);
  return size == status->st_size;
}

static bool read_directory(DIR *stream, struct snapshot *snapshot) {
  for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
    struct stat status;
    if (fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) continue;
    if (!read_file(dirfd(stream), entry->d_name, &status, snapshot)) return false;
  }
  return true;
}

void snapshot_take(struct snapshot *snapshot, const char *directory) {
  memset(snapshot, 0, sizeof *snapshot);
  DIR *stream = opendir(directory);
  if (stream == NULL) fail("list", directory);
  /* An open queue truncates its log after a checkpoint, at any moment: then the directory is read again. */
  while (!read_directory(stream, snapshot)) {
    snapshot_free(snapshot);
    rewinddir(stream);
  }
  closedir(stream);
  qsort(snapshot->files, snapshot->count, sizeof *snapshot->files, by_name);
}

void snapshot_copy(struct snapshot *to, const struct snapshot *from) {
  memset(to, 0, sizeof *to);
  for (size_t index = 0; index < from->count; index++) {
    snapshot_put(to, from->files[index].name, from->files[index].bytes, from->files[index].size);
  }
}

void snapshot_write(const struct snapshot *snapshot, const char *directory) {
  directory_empty(directory);
  for (size_t index = 0; index < snapshot->count; index++) {
    file_write(directory, snapshot->files[index].name, snapshot->files[index].bytes, snapshot->files[index].size);
  }
}

struct snapshot_file *snapshot_find(struct snapshot *snapshot, const char *name) {
  for (size_t index = 0; index < snapshot->count; index++) {
    if (strcmp(snapshot->files[index].name, name) == 0) return &snapshot->files[index];
  }
  return NULL;
}

void snapshot_drop(struct snapshot *snapshot, const char *name) {
  struct snapshot_file *file = snapshot_find(snapshot, name);
  if (file == NULL) return;
  free(file->bytes);
  size_t behind = snapshot->count - (size_t)(file - snapshot->files) - 1;
  memmove(file, file + 1, behind * sizeof *file);
  snapshot->count--;
}

void snapshot_put(struct snapshot *snapshot, const char *name, const void *bytes, size_t size) {
  struct snapshot_file *file = snapshot_find(snapshot, name);
  if (file == NULL) {
    snapshot->files = realloc(snapshot->files, (snapshot->count + 1) * sizeof *snapshot->files);
    if (snapshot->files == NULL) abort();
    file = &snapshot->files[snapshot->count++];
    snprintf(file->name, sizeof file->name, "%s", name);
    file->bytes = NULL;
  }
  char *copy = room_for(size);
  if (size > 0) memcpy(copy, bytes, size);
  free(file->bytes);
  file->bytes = copy;
  file->size = size;
}

bool snapshot_differs(const struct snapshot *before, const struct snapshot *after, char *why, size_t room) {
  struct snapshot *old = (struct snapshot *)before, *new = (struct snapshot *)after;
  for (size_t index = 0; index < old->count; index++) {
    const struct snapshot_file *file = &old->files[index], *there = snapshot_find(new, file->name);
    if (there == NULL) return snprintf(why, room, "%s was removed", file->name), true;
    if (there->size != file->size) return snprintf(why, room, "%s had %zu bytes and has %zu", file->name, file->size, there->size), true;
    if (memcmp(there->bytes, file->bytes, file->size) != 0) return snprintf(why, room, "%s was changed", file->name), true;
  }
  for (size_t index = 0; index < new->count; index++) {
    if (snapshot_find(old, new->files[index].name) == NULL) return snprintf(why, room, "%s was added", new->files[index].name), true;
  }
  return false;
}

void snapshot_free(struct snapshot *snapshot) {
  for (size_t index = 0; index < snapshot->count; index++) free(snapshot->files[index].bytes);
  free(snapshot->files);
  memset(snapshot, 0, sizeof *snapshot);
}

void file_write(const char *directory, const char *name, const void *bytes, size_t size) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int handle = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (handle < 0) fail("create", path);
  if (pwrite(handle, bytes, size, 0) != (ssize_t)size) fail("write", path);
  close(handle);
}

void directory_empty(const char *directory) {
  DIR *stream = opendir(directory);
  if (stream == NULL) {
    if (mkdir(directory, 0700) != 0) fail("make", directory);
    return;
  }
  for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (unlinkat(dirfd(stream), entry->d_name, 0) != 0 && unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR) != 0) {
      fail("remove", entry->d_name);
    }
  }
  closedir(stream);
}

void directory_remove(const char *directory) {
  directory_empty(directory);
  rmdir(directory);
}

const char *directory_make(const char *name) {
  static char path[PATH_MAX];
  const char *base = getenv("FAULTS_DIRECTORY");
  snprintf(path, sizeof path, "%s/%s-XXXXXX", base != NULL ? base : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", name);
  if (mkdtemp(path) == NULL) fail("make", path);
  char real[PATH_MAX];
  if (realpath(path, real) == NULL) fail("resolve", path);
  strcpy(path, real);
  return strdup(path);
}
