/* F6: what an enqueue does when the queue is full: it refuses, or drops the oldest queued messages. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "files.h"
#include "stores.h"
#include "stub.h"

/* The warnings of the log. */
struct lines {
  atomic_int count;
  char last[MSGQ_LOG_SIZE];
};

static void take_line(void *context, msgq_log_level level, const char *text) {
  struct lines *lines = context;
  if (level != MSGQ_LOG_WARNING) return;
  snprintf(lines->last, sizeof lines->last, "%s", text);
  atomic_fetch_add(&lines->count, 1);
}

static void begin_dropping(struct scene *scene, uint64_t limit) {
  scene_begin(scene);
  scene->options.on_full = MSGQ_ON_FULL_DROP_OLDEST;
  scene->options.limit_messages = limit;
}

static bool unsent_is(struct scene *scene, const char *expected) {
  char text[512];
  unsent_of(scene, text, sizeof text);
  return check_text(expected, text, __FILE__, __LINE__, "the unsent messages");
}

TEST(F6_by_default_a_full_queue_refuses) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.limit_messages = 2;
  scene_open(&scene);
  put(&scene, "a", "ana", "1");
  put(&scene, "b", "ben", "2");
  msgq_draft draft = MSGQ_DRAFT_INIT;
  CHECK_RESULT(MSGQ_FULL, msgq_enqueue(scene.queue, &draft, NULL));
  unsent_is(&scene, "a b");
  CHECK_NUMBER(0, (int64_t)journal_count(&scene.journal, MSGQ_EVENT_DISCARDED));
  scene_end(&scene);
}

TEST(F6_the_oldest_queued_message_of_all_conversations_is_dropped) {
  static struct lines lines;
  struct scene scene;
  struct entry entry;
  begin_dropping(&scene, 3);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_log(take_line, &lines, NULL));
  put(&scene, "a", "ana", "1");
  put(&scene, "b", "ben", "2");
  put(&scene, "c", "ana", "3");
  put(&scene, "d", "cleo", "4");
  unsent_is(&scene, "b c d");
  AWAIT(journal_reached(&scene.journal, "d", MSGQ_STATUS_QUEUED));
  REQUIRE(journal_last(&scene.journal, MSGQ_EVENT_DISCARDED, &entry));
  CHECK_TEXT("a", entry.id);
  CHECK_TEXT("ana", entry.conversation);
  CHECK_NUMBER(MSGQ_FAILURE_DROPPED, entry.failure);
  AWAIT(atomic_load(&lines.count) == 1);
  CHECK(strstr(lines.last, "message a was dropped") != NULL);
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  CHECK_RESULT(MSGQ_OK, msgq_stats(scene.queue, &statistics));
  CHECK(statistics.discarded == 1 && statistics.failures[MSGQ_FAILURE_DROPPED] == 1 && statistics.enqueued == 4);
  CHECK(MSGQ_FAILURE_DROPPED < MSGQ_FAILURE_KINDS);
  CHECK_NUMBER(3, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(1, counts_of(&scene, "ana").queued);
  CHECK(strlen(msgq_failure_text(MSGQ_FAILURE_DROPPED)) > 0);
  /* It was never sent, so its id can be used again. */
  put(&scene, "a", "ana", "again");
  unsent_is(&scene, "c d a");
  REQUIRE_OK(msgq_set_log(NULL, NULL, NULL));
  scene_close(&scene);
  scene_open(&scene);
  unsent_is(&scene, "c d a");
  scene_end(&scene);
}

TEST(F6_one_that_is_being_sent_or_failed_is_not_dropped) {
  struct scene scene;
  struct stub stub;
  begin_dropping(&scene, 3);
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub_open(&stub, &scene);
  put(&scene, "failed", "ana", "1");
  CHECK_NUMBER(1, drain(&scene).failed);
  put(&scene, "sending", "ben", "2");
  atomic_store(&stub.held, true);
  REQUIRE_OK(msgq_send_now(scene.queue, "sending"));
  AWAIT(atomic_load(&stub.calls) == 2);
  put(&scene, "a", "ana", "3");
  put(&scene, "b", "ana", "4");
  unsent_is(&scene, "failed sending b");
  /* A batch of two does not fit, whatever is dropped. */
  msgq_draft drafts[2] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  CHECK_RESULT(MSGQ_FULL, msgq_enqueue_batch(scene.queue, drafts, 2, NULL));
  unsent_is(&scene, "failed sending b");
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_DISCARDED) == 1);
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "sending") == MSGQ_STATUS_FAILED);
  scene_end(&scene);
}

TEST(F6_a_batch_drops_as_many_as_it_needs_and_no_more) {
  enum { size = 200 };
  struct scene scene;
  static msgq_draft drafts[size + 1];
  for (int index = 0; index <= size; index++) drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
  begin_dropping(&scene, size);
  scene_open(&scene);
  put(&scene, "a", "ana", "1");
  put(&scene, "b", "ana", "2");
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, size - 1, NULL));
  CHECK_NUMBER(-1, status_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "b"));
  CHECK_RESULT(MSGQ_FULL, msgq_enqueue_batch(scene.queue, drafts, size + 1, NULL));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "b"));
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, size, NULL));
  CHECK_NUMBER(size, counts_of(&scene, NULL).queued);
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_DISCARDED) == size + 1);
  scene_end(&scene);
}

TEST(F6_bytes_are_freed_too) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.on_full = MSGQ_ON_FULL_DROP_OLDEST;
  scene.options.limit_bytes = 100;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "a", 40));
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "b", 40));
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "c", 60));
  unsent_is(&scene, "b c");
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "d", 1));
  unsent_is(&scene, "c d");
  CHECK_RESULT(MSGQ_FULL, put_body_of(&scene, "e", 101));
  CHECK_RESULT(MSGQ_FULL, msgq_edit(scene.queue, "d", "a body that is much longer than the rest of the room", 52));
  unsent_is(&scene, "c d");
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "f", 100));
  unsent_is(&scene, "f");
  scene_end(&scene);
}

/* What is stored is reported as such also by a full queue: the caller may not know it. */
TEST(F6_Q14_a_duplicate_drops_nothing_and_is_not_refused_as_full) {
  struct scene scene;
  for (int drops = 0; drops < 2; drops++) {
    begin_dropping(&scene, 2);
    if (!drops) scene.options.on_full = MSGQ_ON_FULL_REFUSE;
    scene.options.limit_bytes = 2;
    scene_open(&scene);
    put(&scene, "a", "ana", "1");
    put(&scene, "b", "ana", "2");
    CHECK_RESULT(MSGQ_DUPLICATE, put_body_of(&scene, "b", 1));
    unsent_is(&scene, "a b");
    scene_end(&scene);
  }
}

TEST(F5_F6_a_replacement_needs_no_room) {
  struct scene scene;
  for (int drops = 0; drops < 2; drops++) {
    begin_dropping(&scene, 2);
    if (!drops) scene.options.on_full = MSGQ_ON_FULL_REFUSE;
    scene_open(&scene);
    msgq_draft drafts[2] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
    drafts[0].id = "old";
    drafts[0].replace_key = "k";
    REQUIRE_OK(msgq_enqueue(scene.queue, &drafts[0], NULL));
    put(&scene, "b", "", "2");
    drafts[0].id = "new";
    REQUIRE_OK(msgq_enqueue(scene.queue, &drafts[0], NULL));
    unsent_is(&scene, "new b");
    /* The message that is replaced is not dropped, although it is the oldest. */
    drafts[0] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[0].id = "c";
    drafts[1].id = "newest";
    drafts[1].replace_key = "k";
    CHECK_RESULT(drops ? MSGQ_OK : MSGQ_FULL, msgq_enqueue_batch(scene.queue, drafts, 2, NULL));
    unsent_is(&scene, drops ? "newest c" : "new b");
    scene_end(&scene);
  }
}

/* Returns the size of the database and its log. */
static int64_t files_of(struct scene *scene) {
  char log[128];
  snprintf(log, sizeof log, "%s-wal", scene->path);
  return file_size(scene->path) + (file_exists(log) ? file_size(log) : 0);
}

TEST_LONG(F6_the_files_stay_below_their_limit) {
  const int64_t limits[] = { check_times(2 << 20, 1 << 20), 3 << 20 };
  static struct lines lines;
  struct scene scene;
  REQUIRE_OK(msgq_set_log(take_line, &lines, NULL));
  for (int time = 0; time < check_times(4, 2); time++) {
    int64_t limit = limits[time / 2], most = 0;
    bool drops = time % 2 == 1;
    scene_begin(&scene);
    scene.options.limit_file_bytes = limit;
    scene.options.keep_sent = 0;
    if (drops) scene.options.on_full = MSGQ_ON_FULL_DROP_OLDEST;
    scene_open(&scene);
    int accepted = 0, refused = 0;
    for (int number = 0; number < (int)(2 * limit / 2000); number++) {
      msgq_result result = put_body_of(&scene, NULL, (size_t)(100 + number * 37 % 4000));
      if (result == MSGQ_OK) accepted++;
      else if (check_result(MSGQ_FULL, result, __FILE__, __LINE__, "enqueue")) refused++;
      int64_t size = files_of(&scene);
      if (size > most) most = size;
      if (refused > 20) break;
    }
    CHECK(most <= limit);
    CHECK(most >= limit / 3);
    CHECK(accepted > 100);
    if (!drops) CHECK(refused > 0);
    if (drops) CHECK_NUMBER(0, refused);
    if (!drops) {
      /* What is in the queue can be sent and deleted, and then there is room again. */
      struct stub stub;
      stub_begin(&stub, MSGQ_VERDICT_SENT);
      REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
      CHECK_NUMBER(accepted, (int64_t)drain(&scene).sent);
      AWAIT(put_body_of(&scene, NULL, 1000) == MSGQ_OK);
      CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
    }
    /* A batch larger than the limit. */
    enum { batch = 64 };
    msgq_draft drafts[batch];
    char *body = calloc(1, (size_t)limit / 32);
    for (int index = 0; index < batch; index++) {
      drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
      drafts[index].body = body;
      drafts[index].body_size = (size_t)limit / 32;
    }
    uint64_t before = counts_of(&scene, NULL).queued;
    CHECK_RESULT(MSGQ_FULL, msgq_enqueue_batch(scene.queue, drafts, batch, NULL));
    CHECK_NUMBER((int64_t)before, (int64_t)counts_of(&scene, NULL).queued);
    free(body);
    scene_close(&scene);
    msgq_check_report report = { .struct_size = sizeof report };
    CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
    CHECK(report.damaged == 0 && report.missing == 0);
    scene_end(&scene);
  }
  REQUIRE_OK(msgq_set_log(NULL, NULL, NULL));
}

enum { callers = 20, large_body = 300000 };

struct together {
  struct scene scene;
  atomic_int begun, accepted;
  atomic_bool is_done;
  int64_t most;
};

static void *put_large(void *context) {
  struct together *together = context;
  atomic_fetch_add(&together->begun, 1);
  while (atomic_load(&together->begun) < callers) {}
  if (put_body_of(&together->scene, NULL, large_body) == MSGQ_OK) atomic_fetch_add(&together->accepted, 1);
  return NULL;
}

static void *watch_files(void *context) {
  struct together *together = context;
  while (!atomic_load(&together->is_done)) {
    int64_t size = file_size(together->scene.path) + file_size(scene_file(&together->scene, "outbox.db-wal"));
    if (size > together->most) together->most = size;
  }
  return NULL;
}

TEST_LONG(F6_calls_that_share_a_commit_keep_the_files_below_their_limit) {
  struct together together = { .begun = 0 };
  pthread_t threads[callers], watcher;
  scene_begin(&together.scene);
  together.scene.options.limit_file_bytes = 8000000;
  for (int round = 0; round < 3; round++) {
    scene_open(&together.scene);
    atomic_store(&together.begun, 0);
    atomic_store(&together.accepted, 0);
    atomic_store(&together.is_done, false);
    REQUIRE(pthread_create(&watcher, NULL, watch_files, &together) == 0);
    for (int index = 0; index < callers; index++) REQUIRE(pthread_create(&threads[index], NULL, put_large, &together) == 0);
    for (int index = 0; index < callers; index++) pthread_join(threads[index], NULL);
    atomic_store(&together.is_done, true);
    pthread_join(watcher, NULL);
    /* As many as one after another. */
    CHECK_NUMBER(callers, atomic_load(&together.accepted));
    CHECK_NUMBER(callers, counts_of(&together.scene, NULL).queued);
    REQUIRE_OK(msgq_clear(together.scene.queue, NULL));
    scene_close(&together.scene);
  }
  if (!CHECK(together.most <= together.scene.options.limit_file_bytes)) fprintf(stderr, "  %lld bytes\n", (long long)together.most);
  scene_end(&together.scene);
}

TEST_LONG(F6_a_full_file_refuses_received_messages_and_longer_bodies) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.limit_file_bytes = 2 << 20;
  scene_open(&scene);
  put(&scene, "a", "ana", "short");
  while (put_body_of(&scene, NULL, 3000) == MSGQ_OK) {}
  static char body[16384];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.body = body;
  draft.body_size = sizeof body;
  CHECK_RESULT(MSGQ_FULL, msgq_record(scene.queue, &draft, "ben", NULL));
  CHECK_RESULT(MSGQ_FULL, msgq_edit(scene.queue, "a", body, sizeof body));
  CHECK(strstr(msgq_error_detail(), "files") != NULL);
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "a", "s", 1));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "a"));
  scene_end(&scene);
}

TEST(F6_a_limit_that_is_smaller_than_an_empty_store_refuses_everything) {
  struct scene scene;
  for (int drops = 0; drops < 2; drops++) {
    begin_dropping(&scene, 0);
    if (!drops) scene.options.on_full = MSGQ_ON_FULL_REFUSE;
    scene.options.limit_file_bytes = 1;
    scene_open(&scene);
    CHECK_RESULT(MSGQ_FULL, put_body_of(&scene, "a", 1));
    CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
    /* The header says how small that is. */
    scene_close(&scene);
    scene.options.limit_file_bytes = 600 << 10;
    scene_open(&scene);
    CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "a", 1));
    scene_end(&scene);
  }
}
