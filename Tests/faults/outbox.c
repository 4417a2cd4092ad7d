/*
 * The host's outbox: every step of put, commit, collection and hand-over, whatever becomes of the messages, with power cuts and kills. Both
 * databases belong to the image.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "model.h"
#include "outbox_scene.h"
#include "pool.h"
#include "shim.h"
#include "tools.h"

/* One fate with one mode of the host. */
struct matrix {
  struct outbox_scene scene;
  const char *trace_path; /* NULL: nothing is recorded */
  struct snapshot prepared;
  struct trace trace;
  long count;
  bool is_complete;     /* each record with each kind of image, or each call */
  unsigned long *calls; /* of each class, in memory that is shared with child processes */
  unsigned long all_calls[FAULT_CLASSES];
  enum fault_class class;
  unsigned long nth; /* the call before which the process is killed; 0: none */
  /* In each worker: the model after `done` records. */
  struct model *model;
  size_t done;
};

static void *shared(size_t size) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

static const char *name_of(const struct matrix *matrix) {
  static char name[64];
  snprintf(name, sizeof name, "%s-%s", fate_name(matrix->scene.fate), host_mode_name(matrix->scene.mode));
  return name;
}

static int play(void *context) {
  struct matrix *matrix = context;
  shim_watch(matrix->scene.directory);
  if (matrix->trace_path != NULL) shim_record(matrix->trace_path);
  shim_fail(matrix->class, matrix->nth, 0, FAULT_KILL);
  int code = outbox_play(&matrix->scene);
  for (int class = 0; class < FAULT_CLASSES; class ++) matrix->calls[class] = shim_count((enum fault_class) class);
  return code;
}

/* ------------------------------------------------------------------ power cuts */

static void *begin_worker(void *context) {
  struct matrix *matrix = malloc(sizeof *matrix);
  *matrix = *(struct matrix *)context;
  matrix->scene.directory = directory_make("outbox");
  matrix->scene.marks = calloc(1, sizeof *matrix->scene.marks);
  snapshot_write(&matrix->prepared, matrix->scene.directory);
  matrix->model = model_make(0);
  model_load(matrix->model, matrix->scene.directory);
  return matrix;
}

static void advance(struct matrix *matrix, size_t end) {
  for (; matrix->done < end && matrix->done < matrix->trace.count; matrix->done++) {
    const struct trace_record *record = trace_at(&matrix->trace, matrix->done);
    struct trace_record head;
    struct mark mark;
    memcpy(&head, record, sizeof head);
    if (head.kind == TRACE_MARK && head.payload == sizeof mark) {
      memcpy(&mark, (const char *)record + sizeof head, sizeof mark);
      mark_apply(matrix->scene.marks, mark);
    }
    model_apply(matrix->model, record, NULL);
  }
}

static enum case_result check_image(void *context, long index, char *why, size_t room) {
  struct matrix *matrix = context;
  uint64_t stream = 700 + (uint64_t)matrix->scene.fate * HOST_MODES + matrix->scene.mode;
  struct generator generator = generator_of(settings.seed, stream, (uint64_t)index);
  double step = (double)matrix->trace.count / (double)matrix->count;
  size_t cut =
      matrix->is_complete ? (size_t)index / IMAGE_KINDS + 1 : (size_t)(step * (double)index + step * random_below(&generator, 1000) / 1000.0) + 1;
  enum image_kind kind = (enum image_kind)(matrix->is_complete ? index % IMAGE_KINDS : random_below(&generator, IMAGE_KINDS));
  advance(matrix, cut);
  model_image(matrix->model, kind, generator, matrix->scene.directory);
  if (outbox_verify(&matrix->scene, why, room)) return CASE_PASSED;
  size_t length = strlen(why);
  snprintf(why + length, room - length, " [%s, record %zu of %zu, image %s]", name_of(matrix), cut, matrix->trace.count, image_name(kind));
  return CASE_FAILED;
}

static struct tally cut_power(struct matrix *matrix, long images, const char *trace) {
  struct tally tally = { 0, 0, 0 };
  matrix->trace_path = trace;
  matrix->nth = 0;
  unlink(trace);
  snapshot_write(&matrix->prepared, matrix->scene.directory);
  int code = child_run(play, matrix, 60);
  if (code != 0 || !trace_load(&matrix->trace, trace) || matrix->trace.count == 0) {
    printf("  FAILED outbox --scene %s: the recording ended with %d\n", name_of(matrix), code);
    return tally.failed++, tally;
  }
  matrix->count = matrix->is_complete ? (long)matrix->trace.count * IMAGE_KINDS : images;
  char name[64];
  snprintf(name, sizeof name, "outbox --scene %s", name_of(matrix));
  tally = pool_run(name, matrix->count, 30, check_image, begin_worker, matrix);
  trace_free(&matrix->trace);
  unlink(trace);
  return tally;
}

/* ------------------------------------------------------------------ kills */

static const enum fault_class killing[] = { FAULT_WRITE, FAULT_SYNC, FAULT_OPEN, FAULT_TRUNCATE, FAULT_RENAME, FAULT_UNLINK };

enum {
  kinds_of_kills = sizeof killing / sizeof killing[0]
};

/* The call of this number, counted through all classes. */
static void choose_call(struct matrix *matrix, unsigned long number) {
  for (int index = 0; index < kinds_of_kills; index++) {
    matrix->class = killing[index];
    matrix->nth = number + 1;
    if (number < matrix->calls[killing[index]]) return;
    number -= matrix->calls[killing[index]];
  }
  abort();
}

static enum case_result check_kill(void *context, long index, char *why, size_t room) {
  struct matrix *matrix = context;
  unsigned long total = 0, calls[FAULT_CLASSES];
  memcpy(calls, matrix->all_calls, sizeof calls);
  for (int class = 0; class < kinds_of_kills; class ++) total += calls[killing[class]];
  memcpy(matrix->calls, calls, sizeof calls);
  choose_call(matrix, matrix->is_complete ? (unsigned long)index : (unsigned long)index * total / (unsigned long)matrix->count);
  memset(matrix->scene.marks, 0, sizeof *matrix->scene.marks);
  snapshot_write(&matrix->prepared, matrix->scene.directory);
  int code = child_run(play, matrix, 30);
  if (code != -9) {
    snprintf(why, room, "the host was not killed: %d", code);
    return CASE_FAILED;
  }
  if (outbox_verify(&matrix->scene, why, room)) return CASE_PASSED;
  size_t length = strlen(why);
  snprintf(why + length, room - length, " [%s, class %d, call %lu]", name_of(matrix), (int)matrix->class, matrix->nth);
  return CASE_FAILED;
}

/* As `begin_worker`, but child processes mark what is acknowledged. */
static void *begin_killer(void *context) {
  struct matrix *matrix = malloc(sizeof *matrix);
  *matrix = *(struct matrix *)context;
  matrix->trace_path = NULL;
  matrix->scene.directory = directory_make("outbox");
  matrix->scene.marks = shared(sizeof *matrix->scene.marks);
  matrix->calls = shared(FAULT_CLASSES * sizeof *matrix->calls);
  return matrix;
}

static struct tally kill_host(struct matrix *matrix, long kills) {
  long total = 0;
  for (int class = 0; class < kinds_of_kills; class ++) total += (long)matrix->calls[killing[class]];
  memcpy(matrix->all_calls, matrix->calls, sizeof matrix->all_calls);
  matrix->count = matrix->is_complete ? total : kills;
  char name[64];
  snprintf(name, sizeof name, "outbox kills --scene %s", name_of(matrix));
  return pool_run(name, matrix->count, 60, check_kill, begin_killer, matrix);
}

int tool_outbox(void) {
  struct tally tally = { 0, 0, 0 };
  char trace[4096];
  snprintf(trace, sizeof trace, "%s/outbox.trace", traces_directory());
  for (int cell = 0; cell < FATES * HOST_MODES; cell++) {
    struct matrix matrix = { .scene = { .fate = (enum fate)(cell / HOST_MODES), .mode = (enum host_mode)(cell % HOST_MODES) } };
    if (settings.scene != NULL && strcmp(settings.scene, name_of(&matrix)) != 0) continue;
    matrix.is_complete = settings.full;
    matrix.scene.directory = directory_make("outbox");
    matrix.scene.marks = shared(sizeof *matrix.scene.marks);
    matrix.calls = shared(FAULT_CLASSES * sizeof *matrix.calls);
    outbox_prepare(&matrix.scene);
    snapshot_take(&matrix.prepared, matrix.scene.directory);
    tally_add(&tally, cut_power(&matrix, settings.images > 0 ? settings.images : 100, trace));
    tally_add(&tally, kill_host(&matrix, settings.images > 0 ? settings.images : 12));
    snapshot_free(&matrix.prepared);
    directory_remove(matrix.scene.directory);
  }
  return tally_end("outbox", tally);
}
