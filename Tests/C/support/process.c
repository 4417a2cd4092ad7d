#include "process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "files.h"

/* Returns the number after `name` in a file of lines "name: number"; -1 when there is none. */
static int64_t number_in(const char *path, const char *name) {
  char line[256];
  int64_t number = -1;
  FILE *file = fopen(path, "re");
  if (file == NULL) return -1;
  while (number < 0 && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) number = strtoll(line + strlen(name) + 1, NULL, 10);
  }
  fclose(file);
  return number;
}

static bool is_of_library(const char *thread) {
  char path[300], name[32] = "";
  snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  bool is_ours = fgets(name, sizeof name, file) != NULL && strncmp(name, "msgq-", 5) == 0;
  fclose(file);
  return is_ours;
}

int64_t process_memory_kib(const char *name) { return number_in("/proc/self/status", name); }

int64_t process_writes(void) { return number_in("/proc/self/io", "syscw"); }

size_t process_threads(void) { return (size_t)number_in("/proc/self/status", "Threads"); }

struct process_switches process_switches(void) {
  struct process_switches found = { 0 };
  DIR *directory = opendir("/proc/self/task");
  for (struct dirent *entry; directory != NULL && found.threads < 64 && (entry = readdir(directory)) != NULL;) {
    char path[300];
    if (entry->d_name[0] == '.' || !is_of_library(entry->d_name)) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
    found.ids[found.threads] = strtoll(entry->d_name, NULL, 10);
    found.counts[found.threads++] = number_in(path, "voluntary_ctxt_switches");
  }
  if (directory != NULL) closedir(directory);
  return found;
}

size_t process_library_threads(void) { return process_switches().threads; }

int64_t process_most_switched(const struct process_switches *before, const struct process_switches *after) {
  int64_t most = 0;
  for (size_t index = 0; index < after->threads; index++) {
    int64_t since = after->counts[index];
    for (size_t other = 0; other < before->threads; other++) {
      if (before->ids[other] == after->ids[index]) since -= before->counts[other];
    }
    if (since > most) most = since;
  }
  return most;
}

int64_t process_cpu_ms(void) {
  struct timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* One of the entries is the directory that is being read. */
size_t process_descriptors(void) { return directory_entries("/proc/self/fd") - 1; }
