/* Drains of one conversation, batches and retries, mode ask without retries. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "drainer.h"
#include "post.h"
#include "stub.h"

static msgq_report drain_one(struct scene *scene, const char *conversation) {
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.conversation = conversation;
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene->queue, &options, &report));
  return report;
}

TEST(Q19_a_drain_of_one_conversation_sends_and_counts_only_its_messages) {
  struct post post;
  struct entry entry;
  char order[128], left[64];
  post_begin_open(&post);
  for (int number = 1; number <= 8; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, number % 2 == 0 ? "ben" : "ana", "hello");
  }
  receiver_answer(post.receiver, "m4", 400, 1, NULL);
  msgq_report report = drain_one(&post.scene, "ben");
  CHECK_NUMBER(MSGQ_STOP_EMPTY, report.stop);
  CHECK(report.sent == 3 && report.failed == 1 && report.remaining == 0 && report.remaining_failed == 1);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m2 m6 m8", order); /* accepted messages */
  unsent_of(&post.scene, left, sizeof left);
  CHECK_TEXT("m1 m3 m4 m5 m7", left);
  REQUIRE(journal_last(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED, &entry));
  CHECK_NUMBER(3, entry.report.sent);
  report = drain_one(&post.scene, "nobody");
  CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 0 && report.remaining_failed == 0);
  report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 4 && report.remaining_failed == 1);
  post_end(&post);
}

TEST(Q19_a_drain_of_a_paused_conversation_with_an_empty_name_reports_paused) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "", "hello");
  put(&scene, "b", "ben", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, ""));
  msgq_report report = drain_one(&scene, "");
  CHECK(report.stop == MSGQ_STOP_PAUSED && report.remaining == 1);
  CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, ""));
  report = drain_one(&scene, "");
  CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 1);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "b"));
  scene_end(&scene);
}

/* The reports of asynchronous drains. */
struct drains {
  atomic_int count;
  msgq_report reports[4];
};

static void on_drained(void *context, const msgq_report *report) {
  struct drains *drains = context;
  drains->reports[atomic_load(&drains->count)] = *report;
  atomic_fetch_add(&drains->count, 1);
}

/* Opens a queue whose transport does not return until `held` is false. */
static void begin_held(struct scene *scene, struct stub *stub) {
  scene_begin_open(scene);
  stub_begin(stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub->held, true);
  REQUIRE_OK(msgq_set_transport(scene->queue, stub_send, stub, stub_release));
}

TEST(Q19_a_drain_of_another_scope_begins_after_the_current_one) {
  struct scene scene;
  struct stub stub;
  struct drains drains = { .count = 0 };
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  begin_held(&scene, &stub);
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ben", "hello");
  put(&scene, "c", "cem", "hello");
  options.conversation = "ben";
  CHECK_RESULT(MSGQ_OK, msgq_drain_async(scene.queue, &options, on_drained, &drains));
  AWAIT(atomic_load(&stub.calls) == 1);
  CHECK_RESULT(MSGQ_OK, msgq_drain_async(scene.queue, &options, on_drained, &drains)); /* joins */
  CHECK_RESULT(MSGQ_OK, msgq_drain_async(scene.queue, NULL, on_drained, &drains));
  options.conversation = "ana";
  CHECK_RESULT(MSGQ_OK, msgq_drain_async(scene.queue, &options, on_drained, &drains)); /* joins the drain of all */
  atomic_store(&stub.held, false);
  AWAIT(atomic_load(&drains.count) == 4);
  CHECK(drains.reports[0].sent == 1 && drains.reports[1].sent == 1 && drains.reports[0].remaining == 0);
  CHECK(drains.reports[2].sent == 2 && drains.reports[3].sent == 2);
  CHECK_NUMBER(3, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(2, journal_count(&scene.journal, MSGQ_EVENT_DRAIN_FINISHED));
  scene_end(&scene);
}

TEST(Q19_the_banner_counts_the_drain_of_one_conversation) {
  struct scene scene;
  struct stub stub;
  struct drains drains = { .count = 0 };
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  begin_held(&scene, &stub);
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ben", "hello");
  put(&scene, "c", "ben", "hello");
  options.conversation = "ben";
  CHECK_RESULT(MSGQ_OK, msgq_drain_async(scene.queue, &options, on_drained, &drains));
  AWAIT(atomic_load(&stub.calls) == 1);
  CHECK(banner_of(&scene, "ben", "Sending 2 messages…"));
  CHECK(banner_of(&scene, "ana", "1 message queued."));
  CHECK(banner_of(&scene, NULL, "Sending 2 messages… 1 message queued."));
  atomic_store(&stub.held, false);
  AWAIT(atomic_load(&drains.count) == 1);
  CHECK(banner_of(&scene, "ben", ""));
  scene_end(&scene);
}

TEST(Q19_a_drain_that_waits_for_another_ends_at_its_own_timeout) {
  struct scene scene;
  struct stub stub;
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  begin_held(&scene, &stub);
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ben", "hello");
  options.conversation = "ana";
  CHECK_RESULT(MSGQ_OK, msgq_drain_async(scene.queue, &options, NULL, NULL));
  AWAIT(atomic_load(&stub.calls) == 1);
  options.conversation = "ben";
  options.timeout_ms = 30;
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_drain(scene.queue, &options, &report));
  CHECK(report.stop == MSGQ_STOP_TIMEOUT && report.sent == 0 && report.remaining == 1);
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_DRAIN_FINISHED) == 2);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "b"));
  scene_end(&scene);
}

TEST(M12_due_retries_do_not_count_against_the_batch) {
  static const int64_t ladder[] = { 10, 20, 30 };
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.drain_batch = 5;
  set_ladder(&scene, ladder, 3);
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.kind = MSGQ_FAILURE_SERVER;
  stub.code = 503;
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, stub_release));
  put(&scene, "a", "ana", "1");
  put(&scene, "b", "ben", "2");
  put(&scene, "c", "cem", "3");
  put(&scene, "d", "dana", "4");
  AWAIT(counts_of(&scene, NULL).failed == 4);
  CHECK_NUMBER(16, atomic_load(&stub.calls));
  scene_end(&scene);
}

TEST(M12_mode_ask_has_no_retries_by_default) {
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_ASK;
  post_open(&post);
  receiver_answer(post.receiver, "m1", 503, 1, NULL);
  for (int number = 1; number <= 5; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  msgq_report report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 4 && report.failed == 1 && report.remaining == 0);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "m1"));
  post_end(&post);
}
