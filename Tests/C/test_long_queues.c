/* Long queues: the time of a page does not depend on the length of the queue. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "scene.h"

enum { batch_size = 1000, repeats = 15 };

/* Adds messages to ten conversations in batches. */
static void put_batches(struct scene *scene, int messages) {
  static char names[10][16];
  msgq_draft *drafts = calloc(batch_size, sizeof *drafts);
  REQUIRE(drafts != NULL);
  for (int index = 0; index < batch_size; index++) {
    snprintf(names[index % 10], sizeof names[0], "c%d", index % 10);
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].conversation = names[index % 10];
    drafts[index].body = "hello";
    drafts[index].body_size = 5;
  }
  for (int done = 0; done < messages; done += batch_size) CHECK_RESULT(MSGQ_OK, msgq_enqueue_batch(scene->queue, drafts, batch_size, NULL));
  free(drafts);
}

static int64_t micros(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Returns the shortest time in microseconds of reading first pages of all kinds, conversations and counts. */
static int64_t page_time(struct scene *scene) {
  int64_t best = INT64_MAX;
  for (int time = 0; time < repeats; time++) {
    int64_t start = micros();
    for (int kind = 0; kind < 6; kind++) {
      msgq_page *page = NULL;
      msgq_filter filter = MSGQ_FILTER_INIT;
      filter.newest_first = kind % 2 == 1;
      filter.conversation = kind / 2 == 1 ? "c7" : NULL;
      filter.statuses = kind / 2 == 2 ? MSGQ_STATUSES_ALL : 0;
      CHECK_RESULT(MSGQ_OK, msgq_list(scene->queue, &filter, &page));
      CHECK_NUMBER(50, msgq_list_size(page));
      msgq_list_free(page);
    }
    msgq_conversation_page *conversations = NULL;
    CHECK_RESULT(MSGQ_OK, msgq_conversations(scene->queue, 0, 0, &conversations));
    CHECK_NUMBER(10, msgq_conversations_size(conversations));
    msgq_conversations_free(conversations);
    counts_of(scene, NULL);
    counts_of(scene, "c3");
    int64_t took = micros() - start;
    if (took < best) best = took;
  }
  return best;
}

TEST_LONG(Q11_Q13_the_time_of_the_first_page_does_not_grow_with_the_queue) {
  struct scene scene;
  const int many = check_times(100000, 3000);
  scene_begin_open(&scene);
  put_batches(&scene, 1000);
  int64_t shorter = page_time(&scene);
  put_batches(&scene, many - 1000);
  CHECK_NUMBER(many, counts_of(&scene, NULL).queued);
  int64_t longer = page_time(&scene);
  if (!CHECK(longer < 5 * shorter + 2000)) {
    fprintf(stderr, "  %lld microseconds with 1,000 messages, %lld with %d\n", (long long)shorter, (long long)longer, many);
  }
  CHECK(longer < 100000 * (check_timeout_ms() / 10000)); /* all reads together in less than the limit of one */
  /* The same after a restart: opening does not read the queue. */
  scene_close(&scene);
  scene_open(&scene);
  CHECK(page_time(&scene) < 5 * shorter + 2000);
  scene_end(&scene);
}

TEST_LONG(Q13_explain_is_fast_for_the_last_message_of_a_long_queue) {
  struct scene scene;
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  const int many = check_times(20000, 2000);
  scene_begin_open(&scene);
  put_batches(&scene, many);
  filter.limit = 1;
  filter.newest_first = true;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  int64_t start = micros();
  for (int time = 0; time < 20; time++) CHECK_RESULT(MSGQ_OK, msgq_explain(scene.queue, msgq_list_at(page, 0)->id, &explanation));
  CHECK(micros() - start < 1000000 * (check_timeout_ms() / 10000));
  msgq_list_free(page);
  scene_end(&scene);
}
