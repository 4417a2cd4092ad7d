/* Flushes: a failed flush loses nothing that was acknowledged before it, and outcomes become durable within a second. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "stores.h"
#include "stub.h"

static uint64_t sequence_of(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  uint64_t sequence = message->sequence;
  msgq_message_free(message);
  return sequence;
}

static msgq_result enqueue(struct scene *scene, const char *id) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = "ben";
  return msgq_enqueue(scene->queue, &draft, NULL);
}

/* m1 to m6 are acknowledged, m4 to m6 only in the write-ahead log; then one flush fails. */
static void begin_failed_flush(struct scene *scene) {
  scene_begin(scene);
  close_after(scene, 1, 3);
  scene_open(scene);
  put_numbered(scene, 4, 6);
  atomic_store(&fault_syncs_to_fail, 1);
  CHECK_RESULT(MSGQ_UNKNOWN, enqueue(scene, "unknown"));
  CHECK_NUMBER(0, atomic_load(&fault_syncs_to_fail));
}

/* Closes the queue and checks that the close writes and flushes nothing. */
static void close_failed(struct scene *scene) {
  struct snapshot before;
  snapshot_take(&before, scene->directory);
  int syncs = atomic_load(&fault_syncs);
  msgq_close(scene->queue, 1000);
  scene->queue = NULL;
  CHECK_NUMBER(syncs, atomic_load(&fault_syncs));
  CHECK(snapshot_holds(&before, scene->directory));
  snapshot_free(&before);
}

TEST_ALONE(D5_after_a_failed_flush_nothing_more_is_written_or_flushed) {
  struct scene scene;
  struct stub stub;
  msgq_report report = MSGQ_REPORT_INIT;
  begin_failed_flush(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  int syncs = atomic_load(&fault_syncs);
  for (int time = 0; time < 3; time++) CHECK_RESULT(MSGQ_STORAGE, enqueue(&scene, "later"));
  CHECK(strstr(msgq_error_detail(), "close the queue and open it again") != NULL);
  CHECK_RESULT(MSGQ_STORAGE, msgq_delete(scene.queue, "m1"));
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, NULL, &report));
  CHECK_NUMBER(MSGQ_STOP_STORAGE, report.stop);
  CHECK_NUMBER(0, atomic_load(&stub.calls)); /* an attempt must be on disk before it begins */
  pause_ms(1000);
  CHECK_NUMBER(syncs, atomic_load(&fault_syncs));
  close_failed(&scene);
  scene_end(&scene);
}

static size_t listed(struct scene *scene, const char *conversation) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *page = NULL;
  filter.conversation = conversation;
  filter.limit = 1000;
  REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
  size_t size = msgq_list_size(page);
  msgq_list_free(page);
  return size;
}

/* What was stored before is read, and what all calls say agrees. */
TEST_ALONE(D5_after_a_failed_flush_lists_and_counts_agree) {
  struct scene scene;
  msgq_conversation_page *conversations = NULL;
  char copy[96];
  begin_failed_flush(&scene);
  for (int round = 0; round < 2; round++) {
    CHECK_NUMBER(6, counts_of(&scene, "ana").queued);
    CHECK_NUMBER(6, listed(&scene, "ana"));
    CHECK_NUMBER(counts_of(&scene, NULL).queued, listed(&scene, NULL));
    CHECK_NUMBER(counts_of(&scene, "ben").queued, listed(&scene, "ben"));
    REQUIRE_OK(msgq_conversations(scene.queue, 0, 0, &conversations));
    CHECK(msgq_conversations_size(conversations) >= 1);
    msgq_conversations_free(conversations);
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "m6"));
    CHECK_RESULT(MSGQ_STORAGE, enqueue(&scene, "later"));
  }
  /* A copy of it is whole. */
  snprintf(copy, sizeof copy, "%s", scene_file(&scene, "copy.db"));
  REQUIRE_OK(msgq_backup(scene.queue, copy));
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  REQUIRE_OK(msgq_check(copy, &report));
  CHECK(report.sound);
  close_failed(&scene);
  scene_open(&scene);
  CHECK_NUMBER(6, listed(&scene, "ana"));
  scene_end(&scene);
}

/* The commit itself flushes the log when it writes it from the start, and is rolled back when that fails. */
TEST_ALONE(D5_after_any_failed_flush_of_the_first_change_lists_and_counts_agree) {
  unsigned failures = 0;
  for (int nth = 1; nth <= 12; nth++) {
    struct scene scene;
    scene_begin(&scene);
    close_after(&scene, 1, 3);
    scene_open(&scene);
    fault_sync_at(nth);
    msgq_result result = enqueue(&scene, "perhaps");
    if (fault_sync_at(0)) failures++;
    CHECK(result == MSGQ_OK || result == MSGQ_UNKNOWN || result == MSGQ_STORAGE);
    for (int round = 0; round < 2; round++) {
      CHECK_NUMBER(listed(&scene, NULL), counts_of(&scene, NULL).queued);
      CHECK_NUMBER(listed(&scene, "ben"), counts_of(&scene, "ben").queued);
      CHECK_NUMBER(3, counts_of(&scene, "ana").queued);
    }
    scene_close(&scene);
    scene_open(&scene);
    CHECK_NUMBER(3, counts_of(&scene, "ana").queued);
    CHECK_NUMBER(listed(&scene, NULL), counts_of(&scene, NULL).queued);
    scene_end(&scene);
  }
  CHECK(failures > 2);
}

TEST_ALONE(D5_messages_acknowledged_before_a_failed_flush_survive) {
  struct scene scene;
  begin_failed_flush(&scene);
  uint64_t last = sequence_of(&scene, "m6");
  close_failed(&scene);
  scene_open(&scene);
  for (unsigned number = 1; number <= 6; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%u", number);
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, id));
  }
  /* The same id can be enqueued again, whether the message was stored or not. */
  msgq_result again = enqueue(&scene, "unknown");
  CHECK(again == MSGQ_OK || again == MSGQ_DUPLICATE);
  CHECK(sequence_of(&scene, "unknown") > last);
  CHECK_NUMBER(7, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

/* The kernel dropped the pages that it could not write, so after a power cut the log ends at the last successful flush. */
TEST_ALONE(D5_messages_acknowledged_before_a_failed_flush_survive_a_power_cut) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  scene_open(&scene);
  put_numbered(&scene, 4, 6);
  struct snapshot durable;
  snapshot_take(&durable, scene.directory);
  uint64_t last = sequence_of(&scene, "m6");
  atomic_store(&fault_syncs_to_fail, 1);
  CHECK_RESULT(MSGQ_UNKNOWN, enqueue(&scene, "unknown"));
  close_failed(&scene);
  snapshot_restore(&durable, scene.directory);
  snapshot_free(&durable);
  size_t events = journal_count(&scene.journal, MSGQ_EVENT_STORAGE);
  scene_open(&scene);
  check_numbered(&scene, 1, 6);
  CHECK_NUMBER(events, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  REQUIRE_OK(enqueue(&scene, "unknown"));
  CHECK(sequence_of(&scene, "unknown") > last);
  scene_end(&scene);
}

/* A flush of the old file would succeed without writing the dropped pages, so the log is written to a new file. */
TEST_ALONE(D5_the_next_open_writes_the_log_to_a_new_file) {
  struct scene scene;
  begin_failed_flush(&scene);
  close_failed(&scene);
  /* The old file stays open, so that its inode number is not reused. */
  FILE *old = fopen(log_of(&scene), "rb");
  uint64_t inode = file_inode(log_of(&scene));
  scene_open(&scene);
  CHECK(file_inode(log_of(&scene)) != inode);
  if (old != NULL) fclose(old);
  put_numbered(&scene, 7, 9);
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "m9"));
  scene_end(&scene);
}

TEST_ALONE(D5_a_flush_that_fails_during_open_loses_nothing) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  crash_after(&scene, 4, 9);
  unsigned opened = 0;
  for (int nth = 1; nth <= 12 && opened < 2; nth++) {
    /* Only the nth flush fails. */
    struct snapshot before;
    snapshot_take(&before, scene.directory);
    fault_sync_at(nth);
    msgq_result result = msgq_open(scene.path, &scene.options, &scene.queue);
    bool failed = fault_sync_at(0);
    if (!failed) opened++;
    CHECK(result == MSGQ_OK || (failed && result == MSGQ_STORAGE));
    if (scene.queue != NULL) msgq_close(scene.queue, 1000);
    scene.queue = NULL;
    scene_open(&scene);
    check_numbered(&scene, 1, 9);
    scene_close(&scene);
    snapshot_restore(&before, scene.directory);
    snapshot_free(&before);
  }
  CHECK(opened > 0);
  scene_end(&scene);
}

/* The flushes before the last call of the transport, and its calls. */
struct counter {
  atomic_int syncs;
  atomic_int calls;
};

static msgq_verdict counting_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct counter *counter = context;
  (void)delivery, (void)out;
  atomic_store(&counter->syncs, atomic_load(&fault_syncs));
  atomic_fetch_add(&counter->calls, 1);
  return MSGQ_VERDICT_SENT;
}

/* Counts the flushes of msgq_drain before the call of the transport, and after it. */
static void drain_with_flushes(bool durable_outcomes, bool hold_interrupted, int *before, int *after) {
  struct scene scene;
  struct counter counter = { 0 };
  scene_begin(&scene);
  scene.options.durable_outcomes = durable_outcomes;
  scene.options.hold_interrupted = hold_interrupted;
  scene_open(&scene);
  put(&scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_set_transport(scene.queue, counting_send, &counter, NULL));
  int start = atomic_load(&fault_syncs);
  CHECK_NUMBER(1, drain(&scene).sent);
  int end = atomic_load(&fault_syncs);
  CHECK_NUMBER(1, atomic_load(&counter.calls));
  *before = atomic_load(&counter.syncs) - start;
  *after = end - atomic_load(&counter.syncs);
  scene_end(&scene);
}

TEST_ALONE(D6_durable_outcomes_flush_begin_and_end_of_an_attempt) {
  int before = 0, after = 0;
  drain_with_flushes(true, false, &before, &after);
  CHECK(before >= 1);
  CHECK(after >= 1);
}

TEST_ALONE(D6_hold_interrupted_flushes_the_begin_of_an_attempt) {
  int before = 0, after = 0;
  drain_with_flushes(false, true, &before, &after);
  CHECK(before >= 1);
}

TEST_ALONE(D6_outcomes_become_durable_within_a_second_without_a_call) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 5);
  CHECK_NUMBER(5, drain(&scene).sent);
  int syncs = atomic_load(&fault_syncs);
  int64_t start = steady_ms();
  AWAIT(atomic_load(&fault_syncs) > syncs);
  CHECK(steady_ms() - start <= check_timeout_ms() / 10);
  /* Nothing is left to flush, so no flush follows. */
  pause_ms(200);
  syncs = atomic_load(&fault_syncs);
  pause_ms(2000);
  CHECK_NUMBER(syncs, atomic_load(&fault_syncs));
  scene_end(&scene);
}

TEST_ALONE(D6_an_idle_queue_flushes_nothing) {
  struct scene scene;
  scene_begin_open(&scene);
  put_numbered(&scene, 1, 5);
  pause_ms(100);
  int syncs = atomic_load(&fault_syncs);
  pause_ms(2500);
  CHECK_NUMBER(syncs, atomic_load(&fault_syncs));
  scene_end(&scene);
}

TEST_ALONE(D6_a_later_flush_that_fails_is_reported) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  CHECK_NUMBER(3, drain(&scene).sent);
  atomic_store(&fault_sync, true);
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_STORAGE) > 0);
  atomic_store(&fault_sync, false);
  CHECK_RESULT(MSGQ_STORAGE, enqueue(&scene, "later"));
  CHECK_RESULT(MSGQ_STORAGE, msgq_close(scene.queue, 1000));
  CHECK(strstr(msgq_error_detail(), "the outcomes of 3 attempts are not saved") != NULL);
  scene.queue = NULL;
  scene_open(&scene);
  CHECK_NUMBER(3, counts_of(&scene, NULL).sent + counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

/* The flush that fails is that of the close, or that of an enqueue before it. */
static void fail_a_flush_after_outcomes(bool by_close) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  CHECK_NUMBER(3, drain(&scene).sent);
  atomic_store(&fault_sync, true);
  if (!by_close) CHECK_RESULT(MSGQ_UNKNOWN, enqueue(&scene, "unknown"));
  CHECK_RESULT(MSGQ_STORAGE, msgq_close(scene.queue, 1000));
  atomic_store(&fault_sync, false);
  CHECK(strstr(msgq_error_detail(), "the outcomes of 3 attempts are not saved") != NULL);
  scene.queue = NULL;
  scene_open(&scene);
  CHECK_NUMBER(3, counts_of(&scene, NULL).sent + counts_of(&scene, NULL).queued - (status_of(&scene, "unknown") >= 0));
  scene_end(&scene);
}

TEST_ALONE(D6_close_reports_outcomes_that_its_own_flush_did_not_save) { fail_a_flush_after_outcomes(true); }
TEST_ALONE(D6_close_reports_outcomes_that_an_earlier_failed_flush_did_not_save) { fail_a_flush_after_outcomes(false); }

TEST_ALONE(D6_close_reports_no_outcomes_saved_before_a_flush_failed) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  CHECK_NUMBER(3, drain(&scene).sent);
  REQUIRE_OK(enqueue(&scene, "durable"));
  atomic_store(&fault_sync, true);
  CHECK_RESULT(MSGQ_UNKNOWN, enqueue(&scene, "unknown"));
  CHECK_RESULT(MSGQ_OK, msgq_close(scene.queue, 1000));
  atomic_store(&fault_sync, false);
  scene.queue = NULL;
  scene_open(&scene);
  CHECK_NUMBER(3, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}
