/* Flushes: one that fails loses nothing that was acknowledged before, and what is not durable at once is so a second later. */
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

/* m1 to m6 are acknowledged, m4 to m6 only in the log; then one flush fails, once. */
static void begin_failed_flush(struct scene *scene) {
  scene_begin(scene);
  close_after(scene, 1, 3);
  scene_open(scene);
  put_numbered(scene, 4, 6);
  atomic_store(&fault_syncs_to_fail, 1);
  CHECK_RESULT(MSGQ_UNKNOWN, enqueue(scene, "unknown"));
  CHECK_NUMBER(0, atomic_load(&fault_syncs_to_fail));
}

/* Closes the queue, which writes nothing any more. */
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
  CHECK_NUMBER(0, atomic_load(&stub.calls)); /* an attempt would have to be on disk first */
  pause_ms(1000);
  CHECK_NUMBER(syncs, atomic_load(&fault_syncs));
  close_failed(&scene);
  scene_end(&scene);
}

TEST_ALONE(D5_what_was_acknowledged_before_a_failed_flush_is_there_afterwards) {
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
  /* The same id may safely be enqueued again, whatever became of it. */
  msgq_result again = enqueue(&scene, "unknown");
  CHECK(again == MSGQ_OK || again == MSGQ_DUPLICATE);
  CHECK(sequence_of(&scene, "unknown") > last);
  CHECK_NUMBER(7, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

/* The kernel dropped what it could not write: after a power cut the log ends where the last good flush left it. */
TEST_ALONE(D5_a_power_cut_after_a_failed_flush_loses_nothing_acknowledged) {
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
  size_t told = journal_count(&scene.journal, MSGQ_EVENT_STORAGE);
  scene_open(&scene);
  check_numbered(&scene, 1, 6);
  CHECK_NUMBER(told, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  REQUIRE_OK(enqueue(&scene, "unknown"));
  CHECK(sequence_of(&scene, "unknown") > last);
  scene_end(&scene);
}

/* A flush of the old file would say yes without writing the dropped pages: the log is written anew, into a new file. */
TEST_ALONE(D5_the_next_opening_writes_the_log_anew) {
  struct scene scene;
  begin_failed_flush(&scene);
  close_failed(&scene);
  /* Kept open, so that its number is not given to another file. */
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

TEST_ALONE(D5_a_flush_that_fails_while_opening_is_told_and_harms_nothing) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  crash_after(&scene, 4, 9);
  unsigned opened = 0;
  for (int nth = 1; nth <= 12 && opened < 2; nth++) {
    /* Only the nth of them: all before it succeed. */
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

/* What the transport sees of the flushes made so far. */
struct witness {
  atomic_int syncs;
  atomic_int calls;
};

static msgq_verdict witness_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct witness *witness = context;
  (void)delivery, (void)out;
  atomic_store(&witness->syncs, atomic_load(&fault_syncs));
  atomic_fetch_add(&witness->calls, 1);
  return MSGQ_VERDICT_SENT;
}

/* Flushes between the call of drain and the call of the transport, and between that and drain's return. */
static void drain_with_flushes(bool durable_outcomes, bool hold_interrupted, int *before, int *after) {
  struct scene scene;
  struct witness witness = { 0 };
  scene_begin(&scene);
  scene.options.durable_outcomes = durable_outcomes;
  scene.options.hold_interrupted = hold_interrupted;
  scene_open(&scene);
  put(&scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_set_transport(scene.queue, witness_send, &witness, NULL));
  int start = atomic_load(&fault_syncs);
  CHECK_NUMBER(1, drain(&scene).sent);
  int end = atomic_load(&fault_syncs);
  CHECK_NUMBER(1, atomic_load(&witness.calls));
  *before = atomic_load(&witness.syncs) - start;
  *after = end - atomic_load(&witness.syncs);
  scene_end(&scene);
}

TEST_ALONE(D6_durable_outcomes_cover_begin_and_end_of_an_attempt) {
  int before = 0, after = 0;
  drain_with_flushes(true, false, &before, &after);
  CHECK(before >= 1);
  CHECK(after >= 1);
}

TEST_ALONE(D6_hold_interrupted_covers_the_begin_of_an_attempt) {
  int before = 0, after = 0;
  drain_with_flushes(false, true, &before, &after);
  CHECK(before >= 1);
}

TEST_ALONE(D6_what_is_not_durable_is_so_a_second_later_without_a_call) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 5);
  CHECK_NUMBER(5, drain(&scene).sent);
  int syncs = atomic_load(&fault_syncs);
  int64_t start = steady_ms();
  AWAIT(atomic_load(&fault_syncs) > syncs);
  CHECK(steady_ms() - start <= check_patience_ms() / 10);
  /* And no more flushes when there is nothing more to flush. */
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

/* An outcome that could not be made durable by itself is told as trouble with the store. */
TEST_ALONE(D6_a_flush_that_fails_later_is_told) {
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

/* The flush that fails is the one that close makes itself, or one of an enqueue. */
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

TEST_ALONE(D6_close_tells_of_outcomes_that_its_own_flush_did_not_save) { fail_a_flush_after_outcomes(true); }
TEST_ALONE(D6_close_tells_of_outcomes_that_another_failed_flush_did_not_save) { fail_a_flush_after_outcomes(false); }

/* Outcomes that a flush made durable before are saved, whatever fails afterwards. */
TEST_ALONE(D6_close_says_nothing_of_outcomes_that_were_saved_before_a_flush_failed) {
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
