/* Open, use and close, many times: the numbers of descriptors and threads do not grow, memory grows by less than 1 MiB. */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "driver.h"
#include "files.h"
#include "pool.h"
#include "shim.h"
#include "tools.h"

static long entries_of(const char *directory) {
  DIR *stream = opendir(directory);
  long count = 0;
  if (stream == NULL) return -1;
  while (readdir(stream) != NULL) count++;
  closedir(stream);
  return count;
}

/* Returns the private memory of the process in KiB. */
static long memory(void) {
  char line[256];
  long kilobytes = 0, value;
  malloc_trim(0);
  FILE *file = fopen("/proc/self/smaps_rollup", "re");
  if (file == NULL) return -1;
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "Private_Dirty: %ld", &value) == 1) kilobytes = value;
  }
  fclose(file);
  return kilobytes;
}

struct openings {
  long count;
  char path[4200];
  struct journal *journal;
};

static msgq_verdict transport(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery, (void)out;
  return MSGQ_VERDICT_SENT;
}

static bool use_once(struct openings *run, long number) {
  struct promises promises = { 0 };
  msgq_options options = check_options(&promises);
  msgq_queue *queue = NULL;
  options.keep_sent = 20;
  msgq_result result = msgq_open(run->path, &options, &queue);
  if (result != MSGQ_OK) return journal_problem(run->journal, "open %ld: %s: %s", number, msgq_result_name(result), msgq_error_detail()), false;
  msgq_draft draft;
  memset(&draft, 0, sizeof draft);
  draft.struct_size = sizeof draft;
  draft.conversation = number % 2 == 0 ? "even" : "odd";
  draft.body = &number;
  draft.body_size = sizeof number;
  msgq_page *list = NULL;
  msgq_set_transport(queue, transport, NULL, NULL);
  bool good = msgq_enqueue(queue, &draft, NULL) == MSGQ_OK && msgq_drain(queue, NULL, NULL) == MSGQ_OK && msgq_list(queue, NULL, &list) == MSGQ_OK;
  msgq_list_free(list);
  result = msgq_close(queue, 2000);
  if (!good || result != MSGQ_OK) {
    journal_problem(run->journal, "use %ld: close returned %s, %s", number, msgq_result_name(result), msgq_error_detail());
  }
  return good && result == MSGQ_OK;
}

/* Waits until threads that are ending have ended. Returns the number of threads. */
static long wait_for_threads(long expected) {
  long threads = entries_of("/proc/self/task");
  for (int waited = 0; waited < 1000 && threads > expected; waited++) {
    usleep(1000);
    threads = entries_of("/proc/self/task");
  }
  return threads;
}

static int play(void *context) {
  struct openings *run = context;
  long warm = run->count / 5 > 100 ? run->count / 5 : 100;
  shim_watch(NULL);
  for (long number = 0; number < warm; number++) {
    if (!use_once(run, number)) return 1;
  }
  wait_for_threads(0);
  long descriptors = entries_of("/proc/self/fd"), threads = wait_for_threads(3), before = memory();
  for (long number = warm; number < warm + run->count; number++) {
    if (!use_once(run, number)) return 1;
  }
  long threads_after = wait_for_threads(threads), descriptors_after = entries_of("/proc/self/fd"), after = memory();
  if (descriptors != descriptors_after) journal_problem(run->journal, "descriptors: %ld, then %ld", descriptors, descriptors_after);
  if (threads != threads_after) journal_problem(run->journal, "threads: %ld, then %ld", threads, threads_after);
  if (after - before >= 1024) journal_problem(run->journal, "memory: %ld KiB, then %ld KiB", before, after);
  run->journal->events[0].number = (uint32_t)(after > before ? after - before : 0);
  return 0;
}

int tool_openings(void) {
  struct openings run;
  struct tally tally = { 0, 0, 0 };
  memset(&run, 0, sizeof run);
  run.count = settings.images > 0 ? settings.images : settings.full ? 10000 : 300;
  const char *directory = directory_make("openings");
  snprintf(run.path, sizeof run.path, "%s/store.db", directory);
  run.journal = journal_make(10);
  int code = child_run(play, &run, settings.full ? 1200 : 60);
  bool good = code == 0 && atomic_load(&run.journal->problem_count) == 0;
  if (good) tally.passed++;
  else printf("  FAILED openings: the process ended with %d: %s\n", code, run.journal->problem), tally.failed++;
  printf("openings: %ld, memory grew by %u KiB\n", run.count, run.journal->events[0].number);
  directory_remove(directory);
  return tally_end("openings", tally);
}
