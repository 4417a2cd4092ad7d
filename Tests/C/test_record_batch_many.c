/* H12: batches of hundreds and thousands of recorded messages. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

/* Checks the closed store of the scene, and opens it again. */
static void check_store(struct scene *scene) {
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_close(scene);
  REQUIRE_OK(msgq_check(scene->path, &report));
  CHECK_TEXT("", report.sound ? "" : report.text);
  scene_open(scene);
}

/* Drafts with ids "r<number>" in `conversations` conversations. */
struct many {
  size_t count;
  msgq_draft *drafts;
  const char **senders;
  msgq_result *results;
  char (*ids)[24];
};

static struct many many_of(size_t count, int conversations, bool named, bool timed) {
  static const char *names[] = { "ana", "ben", "cem", "dan", "eva" };
  struct many many = { count, calloc(count, sizeof *many.drafts), calloc(count, sizeof *many.senders), calloc(count, sizeof *many.results),
                       calloc(count, sizeof *many.ids) };
  REQUIRE(many.drafts != NULL && many.senders != NULL && many.results != NULL && many.ids != NULL);
  for (size_t index = 0; index < count; index++) {
    snprintf(many.ids[index], sizeof many.ids[index], "r%zu", index);
    many.drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    if (named) many.drafts[index].id = many.ids[index];
    many.drafts[index].conversation = names[index % (size_t)conversations];
    many.drafts[index].body = many.ids[index];
    many.drafts[index].body_size = strlen(many.ids[index]);
    if (timed) many.drafts[index].time_ms = 1600000000000 + (int64_t)(index * 7919 % count) * 1000;
    many.senders[index] = index % 3 == 0 ? NULL : "Ana";
  }
  return many;
}

static void many_free(struct many *many) {
  free(many->drafts);
  free(many->senders);
  free(many->results);
  free(many->ids);
}

static msgq_result record_many(struct scene *scene, struct many *many) {
  return msgq_record_batch(scene->queue, many->drafts, many->senders, many->count, many->results);
}

TEST(H12_300_messages_need_few_flushes) {
  struct scene scene;
  struct many many = many_of(300, 1, true, false);
  scene_begin_open(&scene);
  put(&scene, "first", "ana", "x");
  int before = atomic_load(&fault_syncs);
  REQUIRE_OK(record_many(&scene, &many));
  CHECK(atomic_load(&fault_syncs) - before <= 6); /* one for the commit; the timer may flush and run a checkpoint meanwhile */
  CHECK(counts_of(&scene, NULL).received == 200 && counts_of(&scene, NULL).sent == 100);
  before = atomic_load(&fault_syncs);
  const char *ids[300];
  for (size_t index = 0; index < 300; index++) ids[index] = many.ids[index];
  REQUIRE_OK(msgq_mark_batch(scene.queue, ids, 300, MSGQ_STATUS_READ, NULL));
  CHECK(atomic_load(&fault_syncs) - before <= 6);
  CHECK(counts_of(&scene, NULL).unread == 0 && counts_of(&scene, NULL).read == 100);
  many_free(&many);
  scene_end(&scene);
}

/* Compares pages by status and conversation with what was recorded. */
static void check_pages(struct scene *scene, struct many *many, int conversations) {
  size_t found = 0, own = 0;
  static const char *names[] = { "ana", "ben", "cem", "dan", "eva" };
  for (int conversation = 0; conversation < conversations; conversation++) {
    for (int side = 0; side < 2; side++) {
      msgq_filter filter = MSGQ_FILTER_INIT;
      filter.conversation = names[conversation];
      filter.statuses = MSGQ_STATUS_BIT(side == 0 ? MSGQ_STATUS_SENT : MSGQ_STATUS_DELIVERED);
      filter.order = MSGQ_ORDER_TIME;
      filter.limit = 100;
      int64_t last = 0;
      for (;;) {
        msgq_page *page = NULL;
        REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
        size_t size = msgq_list_size(page);
        for (size_t index = 0; index < size; index++) {
          const msgq_message *message = msgq_list_at(page, index);
          unsigned number = (unsigned)atoi(message->id + 1);
          CHECK(number < many->count && message->time_ms >= last);
          CHECK((message->sender == NULL) == (number % 3 == 0) && (message->sender == NULL) == (side == 0));
          if (many->drafts[number].time_ms != 0) CHECK_NUMBER(many->drafts[number].time_ms, message->time_ms);
          last = filter.after_time_ms = message->time_ms;
          filter.after = message->sequence;
          found++;
          own += message->sender == NULL;
        }
        msgq_list_free(page);
        if (size < 100) break;
      }
    }
  }
  CHECK_NUMBER(many->count, found);
  CHECK_NUMBER((many->count + 2) / 3, own);
}

/* A large batch writes its index entries at once, a small one leaves them to the fold. */
TEST_LONG(H12_lists_and_counts_agree_after_batches_of_every_size) {
  const size_t sizes[] = { 1, 63, 64, 65, (size_t)check_times(512, 128), (size_t)check_times(3000, 66) };
  for (size_t place = 0; place < sizeof sizes / sizeof sizes[0]; place++) {
    for (int timed = 0; timed < 2; timed++) {
      struct scene scene;
      struct many many = many_of(sizes[place], 5, true, timed);
      scene_begin(&scene);
      scene.options.keep_sent = 1000000;
      scene_open(&scene);
      put(&scene, "queued", "ana", "before"); /* a row that is not folded */
      REQUIRE_OK(record_many(&scene, &many));
      check_pages(&scene, &many, 5);
      check_store(&scene);
      check_pages(&scene, &many, 5);
      REQUIRE_OK(record_many(&scene, &many));
      for (size_t index = 0; index < many.count; index++) CHECK_RESULT(MSGQ_OK, many.results[index]);
      msgq_counts counts = counts_of(&scene, NULL);
      CHECK_NUMBER((many.count + 2) / 3, counts.sent);
      CHECK_NUMBER(many.count, counts.sent + counts.received);
      many_free(&many);
      scene_end(&scene);
    }
  }
}

/* A handler that does not return before it is let go, and counts what it is told. */
struct listener {
  atomic_bool entered, let_go;
  atomic_long known, resyncs, lost;
};

static void listen(void *context, const msgq_event *event) {
  struct listener *listener = context;
  atomic_store(&listener->entered, true);
  while (!atomic_load(&listener->let_go)) pause_ms(1);
  if (event->kind == MSGQ_EVENT_RESYNC) {
    atomic_fetch_add(&listener->lost, (long)event->lost_events);
    atomic_fetch_add(&listener->resyncs, 1);
  }
  bool is_new = event->kind == MSGQ_EVENT_STATUS && event->from == MSGQ_STATUS_NONE;
  if (is_new && (event->to == MSGQ_STATUS_DELIVERED || event->to == MSGQ_STATUS_SENT)) atomic_fetch_add(&listener->known, 1);
}

/* Records a batch while the handler waits. Returns whether events were lost. */
static bool loses_events(size_t count, bool named) {
  struct scene scene;
  struct listener listener;
  struct many many = many_of(count, 1, named, false);
  memset(&listener, 0, sizeof listener);
  for (size_t index = 0; index < count && !named; index++) many.senders[index] = index < count / 2 ? "Ana" : NULL;
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_set_event_handler(scene.queue, listen, &listener, NULL));
  put(&scene, "first", NULL, "x");
  AWAIT(atomic_load(&listener.entered));
  REQUIRE_OK(record_many(&scene, &many));
  atomic_store(&listener.let_go, true);
  AWAIT(atomic_load(&listener.known) + atomic_load(&listener.lost) == (long)count);
  long resyncs = atomic_load(&listener.resyncs);
  CHECK(resyncs <= 1 && (resyncs == 1) == (atomic_load(&listener.lost) > 0));
  scene_end(&scene);
  many_free(&many);
  return resyncs > 0;
}

TEST_LONG(H12_X14_the_events_of_a_large_batch_coalesce) {
  size_t large = (size_t)check_times(30000, 12000);
  CHECK(!loses_events((size_t)check_times(9000, 1000), true));
  CHECK(loses_events(large, true));   /* more than 10,000 wait: list again */
  CHECK(!loses_events(large, false)); /* those of one side in one conversation wait as one event */
}

TEST_LONG(H12_a_copy_and_a_salvaged_store_keep_ones_own_recorded_messages) {
  struct scene scene;
  struct many many = many_of(200, 5, true, true);
  char copy[96], rescued[96];
  scene_begin_open(&scene);
  REQUIRE_OK(record_many(&scene, &many));
  REQUIRE_OK(msgq_mark(scene.queue, "r0", MSGQ_STATUS_DELIVERED));
  REQUIRE_OK(msgq_delete(scene.queue, "r3"));
  snprintf(copy, sizeof copy, "%s", scene_file(&scene, "copy.db"));
  snprintf(rescued, sizeof rescued, "%s", scene_file(&scene, "rescued.db"));
  REQUIRE_OK(msgq_backup(scene.queue, copy));
  REQUIRE_OK(msgq_salvage(copy, rescued, NULL));
  scene_close(&scene);
  snprintf(scene.path, sizeof scene.path, "%s", rescued);
  scene_open(&scene);
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.sent == 65 && counts.delivered == 1 && counts.received == 133 && counts.unread == 133);
  REQUIRE_OK(record_many(&scene, &many));
  for (size_t index = 0; index < many.count; index++) CHECK_RESULT(index == 3 ? MSGQ_DUPLICATE : MSGQ_OK, many.results[index]);
  msgq_ledger *ledger = NULL;
  REQUIRE_OK(msgq_attempts(scene.queue, "r0", &ledger));
  CHECK_NUMBER(0, msgq_attempts_size(ledger));
  msgq_attempts_free(ledger);
  check_store(&scene);
  many_free(&many);
  scene_end(&scene);
}

/* A process that records batches and is killed at any change of a file: each batch is there as a whole or not at all. */
TEST_ALONE(H12_a_kill_leaves_all_of_a_batch_or_nothing) {
  enum { batch_size = 100 };
  int step = check_times(1, 7);
  for (int number = 1;; number += step) {
    struct scene scene;
    struct many many = many_of(2 * batch_size, 5, true, true);
    scene_begin_open(&scene);
    scene_close(&scene);
    pid_t child = fork();
    if (child == 0) {
      scene_open(&scene);
      fault_change(scene.path, number);
      struct many half = many;
      half.count = batch_size;
      msgq_record_batch(scene.queue, half.drafts, half.senders, half.count, NULL);
      msgq_record_batch(scene.queue, half.drafts + batch_size, half.senders + batch_size, half.count, NULL);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    scene_open(&scene);
    msgq_counts counts = counts_of(&scene, NULL);
    uint64_t stored = counts.sent + counts.received;
    if (!CHECK(stored % batch_size == 0)) printf("%llu after a kill before change %d\n", (unsigned long long)stored, number);
    if (!WIFSIGNALED(status)) CHECK_NUMBER(2 * batch_size, stored);
    REQUIRE_OK(record_many(&scene, &many));
    counts = counts_of(&scene, NULL);
    CHECK_NUMBER(2 * batch_size, counts.sent + counts.received);
    check_store(&scene);
    many_free(&many);
    scene_end(&scene);
    if (!WIFSIGNALED(status)) break;
    REQUIRE(number < 500);
  }
}

static void *record_thread(void *context) {
  struct scene *scene = context;
  struct many many = many_of(500, 5, true, true);
  for (int round = 0; round < 4; round++) CHECK_RESULT(MSGQ_OK, record_many(scene, &many));
  many_free(&many);
  return NULL;
}

TEST_LONG(H12_threads_that_record_the_same_messages_store_each_once) {
  struct scene scene;
  struct stub stub;
  pthread_t threads[4];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  for (int index = 0; index < 4; index++) REQUIRE(pthread_create(&threads[index], NULL, record_thread, &scene) == 0);
  for (int index = 0; index < check_times(200, 20); index++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", index);
    put(&scene, id, "ana", "meanwhile");
  }
  for (int index = 0; index < 4; index++) pthread_join(threads[index], NULL);
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK_NUMBER(500, counts.sent + counts.received);
  CHECK_NUMBER(check_times(200, 20), drain(&scene).sent);
  check_store(&scene);
  scene_end(&scene);
}
