/* Large batches: the memory that they need (Q13), and their events (Q1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "process.h"
#include "scene.h"

static int64_t memory_kib(const char *name) {
  int64_t kib = process_memory_kib(name);
  REQUIRE(kib > 0);
  return kib;
}

/* Sets the peak of the resident memory to what is resident now, and returns that. */
static int64_t reset_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "we");
  REQUIRE(file != NULL);
  CHECK(fputs("5", file) >= 0);
  CHECK_NUMBER(0, fclose(file));
  return memory_kib("VmRSS");
}

static void check_growth(int64_t before, size_t data) {
  int64_t growth = memory_kib("VmHWM") - before;
  if (!CHECK(growth < (int64_t)(data / 1024 / 5))) printf("%zu bytes of bodies: %lld KiB more\n", data, (long long)growth);
}

/* The journal of the scene would store every event. */
static void ignore(void *context, const msgq_event *event) {
  (void)context;
  (void)event;
}

/* Enqueues one batch, by each of the two functions. `names`: different conversations, and no ids of the engine's. */
static void enqueue_large(size_t count, size_t size, bool names) {
  struct scene scene;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  size_t data = count * size;
  char *bodies = malloc(data);
  size_t *sizes = calloc(count, sizeof *sizes);
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  char(*texts)[32] = calloc(count, sizeof *texts);
  REQUIRE(bodies != NULL && sizes != NULL && drafts != NULL && texts != NULL);
  memset(bodies, 'x', data);
  for (size_t index = 0; index < count; index++) {
    sizes[index] = size;
    drafts[index] = draft;
    drafts[index].body = bodies + index * size;
    drafts[index].body_size = size;
    snprintf(texts[index], sizeof texts[index], "%zu", index);
    if (names) drafts[index].id = texts[index];
    if (names) drafts[index].conversation = texts[index % 100];
  }
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_set_event_handler(scene.queue, ignore, NULL, NULL));
  put(&scene, "first", NULL, "x");
  int64_t before = reset_peak();
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, count, NULL));
  if (!names) REQUIRE_OK(msgq_enqueue_bodies(scene.queue, &draft, bodies, data, sizes, count, NULL));
  check_growth(before, data);
  CHECK_NUMBER((names ? 1 : 2) * count + 1, counts_of(&scene, NULL).queued);
  CHECK_NUMBER((names ? 1 : 2) * data + 1, counts_of(&scene, NULL).unsent_bytes);
  scene_end(&scene);
  free(texts);
  free(drafts);
  free(sizes);
  free(bodies);
}

TEST_ALONE(Q13_a_batch_of_300000_messages_needs_less_than_a_fifth_of_their_memory) { enqueue_large(300000, 256, false); }

TEST_ALONE(Q13_a_batch_with_ids_and_conversations_needs_little_memory) { enqueue_large(300000, 256, true); }

TEST_ALONE(Q13_a_batch_of_80_mib_needs_little_memory) { enqueue_large(20000, 4096, false); }

TEST_ALONE(H12_Q13_a_recorded_batch_needs_little_memory) {
  struct scene scene;
  enum { count = 300000, size = 256 };
  char *bodies = malloc((size_t)count * size);
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  const char **senders = calloc(count, sizeof *senders);
  msgq_result *results = calloc(count, sizeof *results);
  char(*texts)[32] = calloc(count, sizeof *texts);
  REQUIRE(bodies != NULL && drafts != NULL && senders != NULL && results != NULL && texts != NULL);
  memset(bodies, 'x', (size_t)count * size);
  memset(results, 1, count * sizeof *results);
  for (size_t index = 0; index < count; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    snprintf(texts[index], sizeof texts[index], "%zu", index);
    drafts[index].id = texts[index];
    drafts[index].conversation = texts[index % 100];
    drafts[index].body = bodies + index * size;
    drafts[index].body_size = size;
    senders[index] = index % 2 == 0 ? "Ana" : NULL;
  }
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_set_event_handler(scene.queue, ignore, NULL, NULL));
  put(&scene, "first", NULL, "x");
  int64_t before = reset_peak();
  REQUIRE_OK(msgq_record_batch(scene.queue, drafts, senders, count, results));
  check_growth(before, (size_t)count * size);
  CHECK_NUMBER(count / 2, (int64_t)counts_of(&scene, NULL).unread);
  scene_end(&scene);
  free(texts);
  free(results);
  free(senders);
  free(drafts);
  free(bodies);
}

/* A handler that does not return before it is let go. */
struct listener {
  atomic_bool entered, let_go;
  atomic_long queued, resyncs, lost;
  const char (*ids)[MSGQ_ID_SIZE]; /* of the messages after the first one; NULL: not compared */
  atomic_long wrong;
};

static void listen(void *context, const msgq_event *event) {
  struct listener *listener = context;
  atomic_store(&listener->entered, true);
  while (!atomic_load(&listener->let_go)) usleep(1000);
  if (event->kind == MSGQ_EVENT_RESYNC) {
    atomic_fetch_add(&listener->lost, (long)event->lost_events);
    atomic_fetch_add(&listener->resyncs, 1);
  }
  if (event->kind != MSGQ_EVENT_STATUS) return;
  long number = atomic_load(&listener->queued);
  bool fits = event->to == MSGQ_STATUS_QUEUED && event->from == MSGQ_STATUS_NONE && event->lost_events == 0;
  if (listener->ids != NULL && number > 0) fits = fits && strcmp(event->id, listener->ids[number - 1]) == 0;
  if (!fits) atomic_fetch_add(&listener->wrong, 1);
  atomic_store(&listener->queued, number + 1);
}

/* Opens a queue whose handler is called for a first message, and does not return. */
static void begin_listening(struct scene *scene, struct listener *listener) {
  memset(listener, 0, sizeof *listener);
  scene_begin_open(scene);
  REQUIRE_OK(msgq_set_event_handler(scene->queue, listen, listener, NULL));
  put(scene, "first", NULL, "x");
  AWAIT(atomic_load(&listener->entered));
}

TEST_LONG(Q1_each_message_of_a_large_batch_has_its_event) {
  struct scene scene;
  struct listener listener;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  size_t count = (size_t)check_times(100000, 12000);
  size_t *sizes = calloc(count, sizeof *sizes);
  char(*ids)[MSGQ_ID_SIZE] = calloc(count, sizeof *ids);
  REQUIRE(sizes != NULL && ids != NULL);
  draft.conversation = "ana";
  begin_listening(&scene, &listener);
  listener.ids = (const char(*)[MSGQ_ID_SIZE])ids;
  REQUIRE_OK(msgq_enqueue_bodies(scene.queue, &draft, NULL, 0, sizes, count, ids));
  atomic_store(&listener.let_go, true);
  AWAIT(atomic_load(&listener.queued) == (long)count + 1);
  CHECK_NUMBER(0, atomic_load(&listener.wrong));
  CHECK_NUMBER(0, atomic_load(&listener.resyncs));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, ids[count - 1]));
  scene_end(&scene);
  free(ids);
  free(sizes);
}

TEST_LONG(Q1_a_handler_is_told_how_many_events_were_lost) {
  enum { count = 12000 };
  struct scene scene;
  struct listener listener;
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  REQUIRE(drafts != NULL);
  for (size_t index = 0; index < count; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].conversation = index % 2 == 0 ? "ana" : "ben";
  }
  begin_listening(&scene, &listener);
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, count, NULL));
  atomic_store(&listener.let_go, true);
  AWAIT(atomic_load(&listener.queued) + atomic_load(&listener.lost) == count + 1);
  CHECK_NUMBER(1, atomic_load(&listener.resyncs));
  CHECK(atomic_load(&listener.queued) > 1);
  CHECK_NUMBER(0, atomic_load(&listener.wrong));
  scene_end(&scene);
  free(drafts);
}
