/* struct_size: 0, too small, larger with zeros at the end, larger with other bytes at the end. */
#include <string.h>

#include "check.h"
#include "scene.h"
#include "stub.h"

enum { beyond = 64 };

/* A struct of a later version: the known struct and more bytes. */
#define LATER(type) \
  struct {          \
    type known;     \
    char more[beyond]; \
  }

/* Sizes that no version has. */
enum { impossible_count = 7 };
static uint32_t impossible(size_t index, size_t known) {
  const uint32_t sizes[impossible_count] = { 0, 1, 3, 4, (uint32_t)known - 1, UINT32_MAX / 2, UINT32_MAX };
  return sizes[index];
}

TEST(bad_size_of_options) {
  struct scene scene;
  msgq_queue *queue = NULL;
  scene_begin(&scene);
  for (size_t index = 0; index < impossible_count; index++) {
    scene.options.struct_size = impossible(index, sizeof scene.options);
    CHECK_RESULT(MSGQ_INVALID, msgq_open(scene.path, &scene.options, &queue));
  }
  LATER(msgq_options) later = { MSGQ_OPTIONS_INIT, "" };
  later.known.struct_size = sizeof later;
  later.more[beyond - 1] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_open(scene.path, &later.known, &queue));
  CHECK(queue == NULL);
  later.more[beyond - 1] = 0;
  REQUIRE_OK(msgq_open(scene.path, &later.known, &queue));
  CHECK_RESULT(MSGQ_OK, msgq_close(queue, 0));
  scene_end(&scene);
}

TEST(bad_size_of_drafts) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  for (size_t index = 0; index < impossible_count; index++) {
    draft.struct_size = impossible(index, sizeof draft);
    CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL));
    CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, &draft, 1, NULL));
    CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "a", 1, (size_t[]) { 1 }, 1, NULL));
    CHECK_RESULT(MSGQ_INVALID, msgq_record_batch(scene.queue, &draft, NULL, 1, NULL));
  }
  LATER(msgq_draft) later[2] = { { MSGQ_DRAFT_INIT, "" }, { MSGQ_DRAFT_INIT, "" } };
  later[0].known.struct_size = later[1].known.struct_size = sizeof later[0];
  later[0].known.id = "first";
  later[1].known.id = "second";
  later[1].more[0] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &later[1].known, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, &later[0].known, 2, NULL));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  later[1].more[0] = 0;
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_batch(scene.queue, &later[0].known, 2, NULL));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "second"));
  later[0].known.id = "third";
  later[1].known.id = "fourth";
  CHECK_RESULT(MSGQ_OK, msgq_record_batch(scene.queue, &later[0].known, NULL, 2, NULL));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "fourth"));
  msgq_draft mixed[2] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  mixed[1].struct_size = sizeof later[0];
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, mixed, 2, NULL));
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(bad_size_of_filters) {
  struct scene scene;
  msgq_page *list = NULL;
  scene_begin_open(&scene);
  msgq_filter filter = MSGQ_FILTER_INIT;
  for (size_t index = 0; index < impossible_count; index++) {
    filter.struct_size = impossible(index, sizeof filter);
    CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &list));
  }
  LATER(msgq_filter) later = { MSGQ_FILTER_INIT, "" };
  later.known.struct_size = sizeof later;
  later.more[7] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &later.known, &list));
  CHECK(list == NULL);
  later.more[7] = 0;
  REQUIRE_OK(msgq_list(scene.queue, &later.known, &list));
  msgq_list_free(list);
  scene_end(&scene);
}

TEST(bad_size_of_counts) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  msgq_counts counts = MSGQ_COUNTS_INIT;
  for (size_t index = 0; index < impossible_count; index++) {
    counts.struct_size = impossible(index, sizeof counts);
    CHECK_RESULT(MSGQ_INVALID, msgq_count(scene.queue, NULL, &counts));
    CHECK_NUMBER(0, counts.queued);
  }
  LATER(msgq_counts) later = { MSGQ_COUNTS_INIT, "" };
  later.known.struct_size = sizeof later;
  later.more[0] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_count(scene.queue, NULL, &later.known));
  later.more[0] = 0;
  CHECK_RESULT(MSGQ_OK, msgq_count(scene.queue, NULL, &later.known));
  CHECK_NUMBER(1, later.known.queued);
  CHECK_NUMBER(sizeof later, later.known.struct_size);
  scene_end(&scene);
}

TEST(bad_size_of_reports_and_drain_options) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  for (size_t index = 0; index < impossible_count; index++) {
    report.struct_size = impossible(index, sizeof report);
    CHECK_RESULT(MSGQ_INVALID, msgq_drain(scene.queue, NULL, &report));
    options.struct_size = impossible(index, sizeof options);
    CHECK_RESULT(MSGQ_INVALID, msgq_drain(scene.queue, &options, NULL));
  }
  LATER(msgq_drain_options) later_options = { MSGQ_DRAIN_OPTIONS_INIT, "" };
  LATER(msgq_report) later_report = { MSGQ_REPORT_INIT, "" };
  later_options.known.struct_size = sizeof later_options;
  later_report.known.struct_size = sizeof later_report;
  later_options.more[0] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_drain(scene.queue, &later_options.known, NULL));
  later_options.more[0] = 0;
  later_report.more[beyond - 1] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_drain(scene.queue, NULL, &later_report.known));
  later_report.more[beyond - 1] = 0;
  /* The calls above were refused before anything was sent. */
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, &later_options.known, &later_report.known));
  CHECK_NUMBER(1, later_report.known.sent);
  scene_end(&scene);
}

TEST(bad_size_of_outcomes) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_PENDING);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) == 1);
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  outcome.verdict = MSGQ_VERDICT_SENT;
  for (size_t index = 0; index < impossible_count; index++) {
    outcome.struct_size = impossible(index, sizeof outcome);
    CHECK_RESULT(MSGQ_INVALID, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
    CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, (uint64_t[]) { atomic_load(&stub.token) }, &outcome, 1, NULL));
  }
  LATER(msgq_outcome) later = { MSGQ_OUTCOME_INIT, "" };
  later.known.verdict = MSGQ_VERDICT_SENT;
  later.known.struct_size = sizeof later;
  later.more[0] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_complete(scene.queue, atomic_load(&stub.token), &later.known));
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&scene, "a"));
  later.more[0] = 0;
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &later.known));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

TEST(bad_size_of_explanations) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  for (size_t index = 0; index < impossible_count; index++) {
    explanation.struct_size = impossible(index, sizeof explanation);
    CHECK_RESULT(MSGQ_INVALID, msgq_explain(scene.queue, "a", &explanation));
    CHECK_TEXT("", explanation.text);
  }
  LATER(msgq_explanation) later = { MSGQ_EXPLANATION_INIT, "" };
  later.known.struct_size = sizeof later;
  later.more[0] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_explain(scene.queue, "a", &later.known));
  later.more[0] = 0;
  CHECK_RESULT(MSGQ_OK, msgq_explain(scene.queue, "a", &later.known));
  CHECK_NUMBER(MSGQ_REASON_NO_TRANSPORT, later.known.reason);
  CHECK_NUMBER(sizeof later, later.known.struct_size);
  scene_end(&scene);
}

TEST(bad_size_of_statistics) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  msgq_statistics statistics = { .struct_size = 0 };
  for (size_t index = 0; index < impossible_count; index++) {
    statistics.struct_size = impossible(index, sizeof statistics);
    CHECK_RESULT(MSGQ_INVALID, msgq_stats(scene.queue, &statistics));
    CHECK_NUMBER(0, statistics.enqueued);
  }
  LATER(msgq_statistics) later = { { .struct_size = sizeof later }, "" };
  later.more[beyond - 1] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_stats(scene.queue, &later.known));
  later.more[beyond - 1] = 0;
  CHECK_RESULT(MSGQ_OK, msgq_stats(scene.queue, &later.known));
  CHECK_NUMBER(1, later.known.enqueued);
  CHECK_NUMBER(sizeof later, later.known.struct_size);
  scene_end(&scene);
}

TEST(bad_size_of_states) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_state state = MSGQ_STATE_INIT;
  for (size_t index = 0; index < impossible_count; index++) {
    state.struct_size = impossible(index, sizeof state);
    CHECK_RESULT(MSGQ_INVALID, msgq_get_state(scene.queue, &state));
    CHECK_TEXT("", state.text);
  }
  LATER(msgq_state) later = { MSGQ_STATE_INIT, "" };
  later.known.struct_size = sizeof later;
  later.more[0] = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_get_state(scene.queue, &later.known));
  later.more[0] = 0;
  CHECK_RESULT(MSGQ_OK, msgq_get_state(scene.queue, &later.known));
  CHECK_NUMBER(MSGQ_MODE_MANUAL, later.known.mode);
  CHECK_NUMBER(sizeof later, later.known.struct_size);
  scene_end(&scene);
}

TEST(bad_size_of_recorded_drafts) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  for (size_t index = 0; index < impossible_count; index++) {
    draft.struct_size = impossible(index, sizeof draft);
    CHECK_RESULT(MSGQ_INVALID, msgq_record(scene.queue, &draft, "ben", NULL));
  }
  CHECK_NUMBER(0, counts_of(&scene, NULL).received);
  scene_end(&scene);
}
