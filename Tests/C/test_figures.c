/* Time limits of the acceptance list. Each figure is the best of a few rounds, because other programs run at the same time. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

static int rounds(void) { return check_times(5, 1); }

/* Returns the limit in milliseconds, longer under valgrind. */
static int64_t allowed(int64_t milliseconds) { return milliseconds * (check_timeout_ms() / 10000); }

TEST(Q12_M3_a_hundred_enqueues_take_less_than_500_ms) {
  struct scene scene;
  int64_t best = INT64_MAX;
  scene_begin_open(&scene); /* each enqueue is flushed to disk before it returns */
  for (int round = 0; round < rounds(); round++) {
    int64_t start = steady_ms();
    for (int number = 0; number < 100; number++) put(&scene, NULL, "ana", "a message of ordinary length, written while offline");
    int64_t took = steady_ms() - start;
    if (took < best) best = took;
  }
  if (!CHECK(best < allowed(500))) fprintf(stderr, "  %lld ms\n", (long long)best);
  CHECK_NUMBER(100 * rounds(), counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

/* Returns the shortest time in milliseconds of a first msgq_list after msgq_open. */
static int64_t listing_time(struct scene *scene, const msgq_filter *filter, size_t count) {
  int64_t best = INT64_MAX;
  for (int round = 0; round < rounds(); round++) {
    msgq_page *page = NULL;
    scene_close(scene);
    scene_open(scene);
    int64_t start = steady_ms();
    REQUIRE_OK(msgq_list(scene->queue, filter, &page));
    int64_t took = steady_ms() - start;
    if (took < best) best = took;
    CHECK_NUMBER(count, msgq_list_size(page));
    for (size_t index = 0; index < msgq_list_size(page); index++) CHECK(strlen(msgq_list_at(page, index)->preview) > 0);
    msgq_list_free(page);
  }
  return best;
}

TEST_LONG(Q11_R5_fifty_and_a_hundred_messages_are_listed_in_less_than_100_ms) {
  struct scene scene;
  struct stub stub;
  msgq_filter queued = MSGQ_FILTER_INIT, failed = MSGQ_FILTER_INIT;
  queued.limit = failed.limit = 100;
  queued.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_QUEUED);
  failed.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED);
  for (int count = 50; count <= 100; count += 50) {
    scene_begin_open(&scene);
    for (int number = 0; number < count; number++) put(&scene, NULL, number % 2 == 0 ? "ana" : "ben", "hello");
    CHECK(listing_time(&scene, &queued, (size_t)count) < allowed(100));
    stub_begin(&stub, MSGQ_VERDICT_REJECT);
    REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
    CHECK_NUMBER(count, drain(&scene).failed);
    CHECK(listing_time(&scene, &failed, (size_t)count) < allowed(100));
    scene_end(&scene);
  }
}

TEST(Q6_R4_deleting_a_message_that_does_not_exist_changes_nothing) {
  struct post post;
  char unsent[64];
  post_begin(&post);
  post.scene.options.keep_sent = 0;
  post_open(&post);
  receiver_answer(post.receiver, "failed", 400, 1, NULL);
  put(&post.scene, "failed", "ana", "1");
  put(&post.scene, "sent", "ana", "2");
  drain(&post.scene);
  AWAIT(counts_of(&post.scene, NULL).sent == 0); /* pruned */
  put(&post.scene, "gone", "ana", "3");
  put(&post.scene, "queued", "ana", "4");
  REQUIRE_OK(msgq_delete(post.scene.queue, "gone"));
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_DELETED) == 1);
  for (int restart = 0; restart < 2; restart++) {
    static const char *const ids[] = { "gone", "sent", "never", "019a2a4a-cb1e-72be-8000-0000005172c3" };
    for (size_t index = 0; index < sizeof ids / sizeof ids[0]; index++) {
      CHECK_RESULT(MSGQ_NOT_FOUND, msgq_delete(post.scene.queue, ids[index]));
      CHECK_RESULT(MSGQ_NOT_FOUND, msgq_delete(post.scene.queue, ids[index]));
    }
    unsent_of(&post.scene, unsent, sizeof unsent);
    CHECK_TEXT("failed queued", unsent);
    msgq_counts counts = counts_of(&post.scene, NULL);
    CHECK(counts.queued == 1 && counts.failed == 1 && counts.unsent_bytes == 2 && counts.sent == 0);
    scene_close(&post.scene);
    post_open(&post);
  }
  CHECK_NUMBER(1, journal_count(&post.scene.journal, MSGQ_EVENT_DELETED));
  CHECK_NUMBER(1, drain(&post.scene).sent);
  post_end(&post);
}
