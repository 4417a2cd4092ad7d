/* The size of the file and of the history. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "scene.h"
#include "stub.h"

enum { batch = 500 };

static int messages(void) { return check_times(6000, 1500); }

/* Fewer messages are longer, so that the file becomes large enough to be made shorter. */
static size_t body_bytes(void) { return (size_t)check_times(512, 1024); }

static unsigned bytes_of_bodies(void) { return (unsigned)(messages() * body_bytes()); }

static msgq_statistics statistics_of(struct scene *scene) {
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  REQUIRE_OK(msgq_stats(scene->queue, &statistics));
  return statistics;
}

static int64_t size_of(struct scene *scene) {
  struct stat status;
  REQUIRE(stat(scene->path, &status) == 0);
  return (int64_t)status.st_size;
}

/* Enqueues messages in 20 conversations. */
static void fill(struct scene *scene, const char *word) {
  static char body[1024];
  static msgq_draft drafts[batch];
  static char names[batch][16];
  size_t length = strlen(word);
  for (size_t index = 0; index < body_bytes(); index++) body[index] = word[index % length];
  for (int done = 0; done < messages(); done += batch) {
    for (int index = 0; index < batch; index++) {
      drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
      snprintf(names[index], sizeof names[index], "c%d", index % 20);
      drafts[index].conversation = names[index];
      drafts[index].body = body;
      drafts[index].body_size = body_bytes();
    }
    REQUIRE_OK(msgq_enqueue_batch(scene->queue, drafts, batch, NULL));
  }
}

struct watch {
  struct scene *scene;
  atomic_int sent;
  atomic_ulong most; /* messages of the history at one time */
};

static msgq_verdict send_and_count(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct watch *watch = context;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  (void)delivery, (void)out;
  if (msgq_count(watch->scene->queue, NULL, &counts) == MSGQ_OK) {
    unsigned long most = atomic_load(&watch->most);
    while (counts.sent > most && !atomic_compare_exchange_weak(&watch->most, &most, counts.sent)) continue;
  }
  atomic_fetch_add(&watch->sent, 1);
  return MSGQ_VERDICT_SENT;
}

static void send_all(struct scene *scene, struct watch *watch, uint64_t keep) {
  scene_begin(scene);
  scene->options.keep_sent = keep;
  scene->options.max_in_flight = 8;
  scene_open(scene);
  *watch = (struct watch){ .scene = scene };
  fill(scene, "a text that is deleted later. ");
  REQUIRE_OK(msgq_set_transport(scene->queue, send_and_count, watch, NULL));
  CHECK_NUMBER(MSGQ_STOP_EMPTY, drain(scene).stop);
  CHECK_NUMBER(messages(), atomic_load(&watch->sent));
}

TEST_LONG(H9_the_history_never_has_many_more_messages_than_it_keeps) {
  static const uint64_t kept[] = { 1000, 20, 0 };
  for (int index = 0; index < check_times(3, 1); index++) {
    struct scene scene;
    struct watch watch;
    send_all(&scene, &watch, kept[index]);
    CHECK(atomic_load(&watch.most) <= kept[index] + kept[index] / 10);
    CHECK(counts_of(&scene, NULL).sent <= kept[index] + kept[index] / 10);
    AWAIT(counts_of(&scene, NULL).sent == kept[index]);
    scene_end(&scene);
  }
}

static void send_batch(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  for (size_t index = 0; index < count; index++) outcomes[index].verdict = send_and_count(context, deliveries + index, NULL);
}

TEST_LONG(H9_the_history_stays_small_with_large_batches) {
  struct scene scene;
  struct watch watch;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  options.max_messages = 1000;
  scene_begin(&scene);
  scene.options.keep_sent = 100;
  scene_open(&scene);
  watch = (struct watch){ .scene = &scene };
  fill(&scene, "x");
  fill(&scene, "y");
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, send_batch, &watch, NULL, &options));
  CHECK_NUMBER(MSGQ_STOP_EMPTY, drain(&scene).stop);
  CHECK_NUMBER(2 * messages(), atomic_load(&watch.sent));
  if (!CHECK(atomic_load(&watch.most) <= 110 + options.max_messages)) fprintf(stderr, "  %lu messages\n", atomic_load(&watch.most));
  AWAIT(counts_of(&scene, NULL).sent == 100);
  scene_end(&scene);
}

TEST_LONG(H9_the_history_keeps_the_highest_sequences_in_whatever_order_they_were_sent) {
  struct scene scene;
  struct watch watch;
  const int half = check_times(500, 100);
  scene_begin(&scene);
  scene.options.keep_sent = 5;
  scene_open(&scene);
  watch = (struct watch){ .scene = &scene };
  for (int number = 0; number < 2 * half; number++) put(&scene, NULL, number < half ? "older" : "newer", "x");
  REQUIRE_OK(msgq_set_transport(scene.queue, send_and_count, &watch, NULL));
  REQUIRE_OK(msgq_pause(scene.queue, "older"));
  CHECK_NUMBER(half, drain(&scene).sent);
  REQUIRE_OK(msgq_resume(scene.queue, "older"));
  CHECK_NUMBER(half, drain(&scene).sent);
  AWAIT(counts_of(&scene, NULL).sent == 5);
  CHECK_NUMBER(5, counts_of(&scene, "newer").sent);
  scene_end(&scene);
}

TEST_LONG(F7_the_file_becomes_shorter_while_the_queue_is_idle) {
  struct scene scene;
  struct watch watch;
  send_all(&scene, &watch, 200);
  int64_t largest = size_of(&scene);
  CHECK(largest > bytes_of_bodies());
  AWAIT(size_of(&scene) < largest / 4);
  AWAIT(statistics_of(&scene).free_bytes * 3 <= statistics_of(&scene).file_bytes + (256 << 10));
  CHECK_NUMBER(200, counts_of(&scene, NULL).sent);
  /* What is left can be read, and the file grows again. */
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_SENT);
  filter.limit = 1000;
  msgq_page *page = NULL;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  CHECK_NUMBER(200, msgq_list_size(page));
  msgq_list_free(page);
  fill(&scene, "another text. ");
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(messages(), counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST_LONG(F7_statistics_have_the_size_of_the_file) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_statistics empty = statistics_of(&scene);
  CHECK(empty.file_bytes > 0 && empty.free_bytes < empty.file_bytes);
  CHECK_NUMBER(size_of(&scene), (int64_t)empty.file_bytes);
  fill(&scene, "x");
  CHECK_NUMBER(size_of(&scene), (int64_t)statistics_of(&scene).file_bytes); /* not what is only in the log */
  scene_close(&scene);
  scene_open(&scene);
  msgq_statistics full = statistics_of(&scene);
  CHECK_NUMBER(size_of(&scene), (int64_t)full.file_bytes);
  CHECK(full.file_bytes > empty.file_bytes + bytes_of_bodies());
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  msgq_statistics cleared = statistics_of(&scene);
  CHECK(cleared.free_bytes > bytes_of_bodies() && cleared.free_bytes < cleared.file_bytes);
  scene_close(&scene);
  CHECK(size_of(&scene) < bytes_of_bodies());
  scene_end(&scene);
}
