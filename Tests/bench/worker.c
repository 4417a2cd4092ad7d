/*
 * Measures one workload in a process of its own: with a libmsgqueue.so that is loaded by name, or with bare SQLite.
 *
 *     worker WORK LIBRARY|bare DIRECTORY COUNT DEPTH FLUSH
 *
 * The store has DEPTH messages before the measurement; W4 sends COUNT or all of them, whichever is more. A flush takes at least FLUSH
 * microseconds. Prints: seconds, operations, bytes written, flushes, CPU seconds.
 */
#include <dlfcn.h>
#include <errno.h>
#include <msgqueue.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { body_size = 256, threads_count = 8, batch_size = 1000 };

static atomic_long flushes;
static long shortest_flush; /* nanoseconds */

/* Flushes, and sleeps until `shortest_flush` has passed. */
static int flush(long call, int descriptor) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  atomic_fetch_add(&flushes, 1);
  int result = (int)syscall(call, descriptor), error = errno;
  if (shortest_flush > 0) {
    prctl(PR_SET_TIMERSLACK, 1);
    end.tv_nsec += shortest_flush;
    if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {}
  }
  errno = error;
  return result;
}

/* These replace the functions of the C library, because the linker finds the symbols of the program first. */
int fdatasync(int descriptor) { return flush(SYS_fdatasync, descriptor); }
int fsync(int descriptor) { return flush(SYS_fsync, descriptor); }

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Returns the number of bytes that the process passed to write calls. */
static long long written(void) {
  char line[128];
  long long bytes = -1;
  FILE *file = fopen("/proc/self/io", "re");
  if (file == NULL) return -1;
  while (fgets(line, sizeof line, file) != NULL) sscanf(line, "wchar: %lld", &bytes);
  fclose(file);
  return bytes;
}

static _Noreturn void fail(const char *what, const char *why) {
  fprintf(stderr, "worker: %s: %s\n", what, why);
  exit(1);
}

static struct {
  double seconds, cpu;
  long long bytes;
  long flushes;
} measured;

static void start(void) {
  measured.bytes = written();
  measured.flushes = atomic_load(&flushes);
  measured.cpu = cpu_seconds();
  measured.seconds = seconds();
}

static void stop(void) {
  measured.seconds = seconds() - measured.seconds;
  measured.cpu = cpu_seconds() - measured.cpu;
  measured.flushes = atomic_load(&flushes) - measured.flushes;
  measured.bytes = written() - measured.bytes;
}

static char body[body_size];
static long count;

/* ------------------------------------------------------------------ bare SQLite */

static sqlite3 *database;
static sqlite3_stmt *insert, *take, *begin_statement, *commit_statement;
static pthread_mutex_t database_lock = PTHREAD_MUTEX_INITIALIZER;

static void check(int code) {
  if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) fail("sqlite", sqlite3_errmsg(database));
}

static void bare_step(sqlite3_stmt *statement) {
  check(sqlite3_step(statement));
  check(sqlite3_reset(statement));
}

static void bare_insert(void) {
  pthread_mutex_lock(&database_lock);
  sqlite3_bind_blob(insert, 1, body, body_size, SQLITE_STATIC);
  bare_step(insert);
  pthread_mutex_unlock(&database_lock);
}

static void bare_open(const char *directory) {
  char path[4096];
  snprintf(path, sizeof path, "%s/bare.db", directory);
  check(sqlite3_open(path, &database));
  check(sqlite3_exec(database, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                               "CREATE TABLE message(seq INTEGER PRIMARY KEY, body BLOB)", NULL, NULL, NULL));
  check(sqlite3_prepare_v2(database, "INSERT INTO message(body) VALUES(?1)", -1, &insert, NULL));
  check(sqlite3_prepare_v2(database, "DELETE FROM message WHERE seq = ?1", -1, &take, NULL));
  check(sqlite3_prepare_v2(database, "BEGIN IMMEDIATE", -1, &begin_statement, NULL));
  check(sqlite3_prepare_v2(database, "COMMIT", -1, &commit_statement, NULL));
}

static void bare_batch(void) {
  bare_step(begin_statement);
  for (int index = 0; index < batch_size; index++) bare_insert();
  bare_step(commit_statement);
}

static void bare_drain(void) {
  for (long number = 1; number <= count; number++) {
    sqlite3_bind_int64(take, 1, number);
    bare_step(take);
  }
}

/* ------------------------------------------------------------------ the library */

static struct {
  msgq_result (*open)(const char *, const msgq_options *, msgq_queue **);
  msgq_result (*close)(msgq_queue *, int64_t);
  msgq_result (*enqueue)(msgq_queue *, const msgq_draft *, char[MSGQ_ID_SIZE]);
  msgq_result (*enqueue_batch)(msgq_queue *, const msgq_draft *, size_t, char (*)[MSGQ_ID_SIZE]);
  msgq_result (*set_transport)(msgq_queue *, msgq_transport_fn, void *, void (*)(void *));
  msgq_result (*drain)(msgq_queue *, const msgq_drain_options *, msgq_report *);
  void (*options_init)(msgq_options *);
  const char *(*error_detail)(void);
} library;

static msgq_queue *queue;
static atomic_long sent;

static void find(void *handle, const char *name, void *place) {
  void *function = dlsym(handle, name);
  if (function == NULL) fail("symbol", name);
  memcpy(place, &function, sizeof function);
}

static void must(msgq_result result, const char *what) {
  if (result != MSGQ_OK) fail(what, library.error_detail());
}

static msgq_draft draft(void) {
  msgq_draft made = MSGQ_DRAFT_INIT;
  made.conversation = "bench";
  made.body = body;
  made.body_size = body_size;
  return made;
}

static void library_open(const char *file, const char *directory) {
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  char path[4096];
  msgq_options options = MSGQ_OPTIONS_INIT;
  if (handle == NULL) fail("load", dlerror());
  find(handle, "msgq_open", &library.open);
  find(handle, "msgq_close", &library.close);
  find(handle, "msgq_enqueue", &library.enqueue);
  find(handle, "msgq_enqueue_batch", &library.enqueue_batch);
  find(handle, "msgq_set_transport", &library.set_transport);
  find(handle, "msgq_drain", &library.drain);
  find(handle, "msgq_options_init", &library.options_init);
  find(handle, "msgq_error_detail", &library.error_detail);
  library.options_init(&options);
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  snprintf(path, sizeof path, "%s/store.db", directory);
  must(library.open(path, &options, &queue), "open");
}

static void library_insert(void) {
  msgq_draft one = draft();
  must(library.enqueue(queue, &one, NULL), "enqueue");
}

static void library_batch(void) {
  msgq_draft drafts[batch_size];
  for (int index = 0; index < batch_size; index++) drafts[index] = draft();
  must(library.enqueue_batch(queue, drafts, batch_size, NULL), "enqueue_batch");
}

static msgq_verdict transport(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery, (void)out;
  atomic_fetch_add(&sent, 1);
  return MSGQ_VERDICT_SENT;
}

static void library_drain(void) {
  must(library.drain(queue, NULL, NULL), "drain");
  if (atomic_load(&sent) != count) fail("drain", "not everything was sent");
}

/* ------------------------------------------------------------------ workloads */

static void (*insert_one)(void), (*insert_batch)(void), (*drain_all)(void);

static void *insert_some(void *context) {
  (void)context;
  for (long index = 0; index < count / threads_count; index++) insert_one();
  return NULL;
}

static void insert_by_threads(void) {
  pthread_t threads[threads_count];
  for (int index = 0; index < threads_count; index++) {
    if (pthread_create(&threads[index], NULL, insert_some, NULL) != 0) fail("thread", strerror(errno));
  }
  for (int index = 0; index < threads_count; index++) pthread_join(threads[index], NULL);
}

static void fill(long messages) {
  for (long index = 0; index < messages; index += batch_size) insert_batch();
}

int main(int arguments, char **argument) {
  if (arguments != 7) fail("usage", "worker WORK LIBRARY|bare DIRECTORY COUNT DEPTH FLUSH");
  const char *work = argument[1], *directory = argument[3];
  long depth = strtol(argument[5], NULL, 10);
  count = strtol(argument[4], NULL, 10);
  shortest_flush = strtol(argument[6], NULL, 10) % 1000000 * 1000;
  for (int index = 0; index < body_size; index++) body[index] = (char)('a' + index % 26);
  if (strcmp(argument[2], "bare") == 0) {
    bare_open(directory);
    insert_one = bare_insert, insert_batch = bare_batch, drain_all = bare_drain;
  } else {
    library_open(argument[2], directory);
    insert_one = library_insert, insert_batch = library_batch, drain_all = library_drain;
  }
  if (strcmp(work, "W4") == 0) {
    if (depth > count) count = depth;
    fill(count);
    if (queue != NULL) library.set_transport(queue, transport, NULL, NULL);
  } else {
    fill(depth);
    for (int index = 0; index < 20; index++) insert_one();
  }
  start();
  if (strcmp(work, "W1") == 0) {
    for (long index = 0; index < count; index++) insert_one();
  } else if (strcmp(work, "W2") == 0) {
    insert_by_threads();
  } else if (strcmp(work, "W3") == 0) {
    fill(count);
  } else if (strcmp(work, "W4") == 0) {
    drain_all();
  } else {
    fail("unknown work", work);
  }
  stop();
  printf("%.6f %ld %lld %ld %.6f\n", measured.seconds, count, measured.bytes, measured.flushes, measured.cpu);
  fflush(stdout);
  _exit(0); /* closing is not measured */
}
