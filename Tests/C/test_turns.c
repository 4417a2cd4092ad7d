/* Which conversation is next: live_share, priorities and soonest_expiry_first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "scene.h"

/* A transport that records the ids in order. At its call number `at` it calls `act` first. */
struct recorder {
  struct scene *scene;
  char order[2048];
  unsigned calls;
  unsigned at;
  void (*act)(struct recorder *recorder);
  const char *awaited; /* an id, and the number of the call that got it */
  unsigned awaited_at;
};

static msgq_verdict record_call(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct recorder *recorder = context;
  (void)out;
  recorder->calls++;
  size_t used = strlen(recorder->order);
  if (used + strlen(delivery->id) + 2 < sizeof recorder->order)
    snprintf(recorder->order + used, sizeof recorder->order - used, "%s%s", used > 0 ? " " : "", delivery->id);
  if (recorder->awaited != NULL && strcmp(recorder->awaited, delivery->id) == 0) recorder->awaited_at = recorder->calls;
  if (recorder->act != NULL && recorder->calls == recorder->at) recorder->act(recorder);
  return MSGQ_VERDICT_SENT;
}

static void recorder_open(struct recorder *recorder, struct scene *scene) {
  *recorder = (struct recorder){ .scene = scene };
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, record_call, recorder, NULL));
}

static void put_ranked(struct scene *scene, const char *id, const char *conversation, int32_t priority, int64_t expires_at_ms) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = "hello";
  draft.body_size = 5;
  draft.priority = priority;
  draft.expires_at_ms = expires_at_ms;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

static int32_t priority_of(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  int32_t priority = message->priority;
  msgq_message_free(message);
  return priority;
}

/* Enqueues `count` messages without ids of their own, in conversations c0, c1 and so on, in rotation. */
static void put_backlog(struct scene *scene, size_t count, size_t conversations) {
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  char(*names)[24] = calloc(conversations, sizeof *names);
  REQUIRE(drafts != NULL && names != NULL);
  for (size_t index = 0; index < conversations; index++) snprintf(names[index], sizeof names[index], "c%zu", index);
  for (size_t index = 0; index < count; index++) {
    msgq_draft_init(&drafts[index]);
    drafts[index].conversation = names[index % conversations];
  }
  REQUIRE_OK(msgq_enqueue_batch(scene->queue, drafts, count, NULL));
  free(names);
  free(drafts);
}

/* ------------------------------------------------------------------ live_share */

static void put_live(struct recorder *recorder) { put(recorder->scene, "live", "idle", "hello"); }

static int waiting(void) { return check_times(3000, 300); }

/* Puts a live message during call number 100 of a drain; returns the number of the call that sends it. */
static unsigned live_call(double share, bool direct) {
  struct scene scene;
  struct recorder recorder;
  scene_begin(&scene);
  scene.options.live_share = share;
  scene.options.direct = direct;
  recorder_open(&recorder, &scene);
  set_offline(&scene);
  put_backlog(&scene, (size_t)waiting(), (size_t)waiting() / 3);
  set_online(&scene);
  recorder.at = 100;
  recorder.act = put_live;
  recorder.awaited = "live";
  CHECK_NUMBER(waiting() + 1, drain(&scene).sent);
  CHECK_NUMBER(waiting() + 1, recorder.calls);
  scene_end(&scene);
  return recorder.awaited_at;
}

TEST_LONG(F1_a_message_for_an_idle_conversation_leaves_within_3_attempts) {
  CHECK(live_call(0.5, false) <= 102);
  CHECK(live_call(0.5, true) <= 102);
}

TEST_LONG(F1_live_share_is_0_to_1) {
  struct scene scene;
  msgq_queue *queue = NULL;
  CHECK_NUMBER(waiting() + 1, live_call(0, true));
  CHECK_NUMBER(101, live_call(1, true));
  scene_begin(&scene);
  const double refused[] = { -0.01, 1.01, (double)NAN, (double)INFINITY };
  for (size_t index = 0; index < sizeof refused / sizeof *refused; index++) {
    scene.options.live_share = refused[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_open(scene.path, &scene.options, &queue));
  }
  scene_end(&scene);
}

/* ------------------------------------------------------------------- priority */

TEST(F2_the_conversation_with_the_highest_priority_is_next) {
  struct scene scene;
  struct recorder recorder;
  scene_begin(&scene);
  recorder_open(&recorder, &scene);
  put_ranked(&scene, "a1", "ana", 0, 0);
  put_ranked(&scene, "a2", "ana", 100, 0);
  put_ranked(&scene, "b1", "ben", -5, 0);
  put_ranked(&scene, "c1", "cem", 7, 0);
  put_ranked(&scene, "d1", "dana", -100, 0);
  put_ranked(&scene, "c2", "cem", 0, 0);
  scene_close(&scene);
  recorder_open(&recorder, &scene);
  CHECK_NUMBER(6, drain(&scene).sent);
  CHECK_TEXT("c1 a1 a2 c2 b1 d1", recorder.order);
  scene_end(&scene);
}

/* The store is read from the beginning after a restart; the message with the priority is the last of all. */
TEST_LONG(F2_a_priority_counts_in_a_long_queue_after_a_restart) {
  struct scene scene;
  struct recorder recorder;
  const int many = check_times(2000, 500);
  scene_begin(&scene);
  recorder_open(&recorder, &scene);
  put_backlog(&scene, (size_t)many, (size_t)many / 2);
  put_ranked(&scene, "urgent", "another", 1, 0);
  put_backlog(&scene, 20, 10);
  scene_close(&scene);
  recorder_open(&recorder, &scene);
  recorder.awaited = "urgent";
  CHECK_NUMBER(many + 21, drain(&scene).sent);
  CHECK_NUMBER(1, recorder.awaited_at);
  scene_end(&scene);
}

static void drain_few(struct scene *scene, size_t batch, uint64_t sent) {
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  options.batch = batch;
  REQUIRE_OK(msgq_drain(scene->queue, &options, &report));
  CHECK_NUMBER(sent, report.sent);
}

/* Drains of few messages each: of more conversations than are read, one has a message with a priority, behind one without. */
TEST_LONG(F9_a_drain_of_few_messages_sends_those_with_a_priority_first) {
  struct scene scene;
  struct recorder recorder;
  const int many = check_times(5000, 1000);
  scene_begin(&scene);
  recorder_open(&recorder, &scene);
  put_ranked(&scene, "first", "mixed", 0, 0);
  put_backlog(&scene, (size_t)many, (size_t)many);
  put_ranked(&scene, "behind", "mixed", 9, 0);
  put_ranked(&scene, "urgent", "another", 1, 0);
  scene_close(&scene);
  recorder_open(&recorder, &scene);
  drain_few(&scene, 1, 1);
  drain_few(&scene, 2, 2);
  CHECK_TEXT("urgent first behind", recorder.order);
  /* Those that come between two drains, in a conversation that was not read and in a new one. */
  char last[24];
  snprintf(last, sizeof last, "c%d", many - 1);
  put_ranked(&scene, "waits", last, 3, 0);
  put_ranked(&scene, "new", "new", 2, 0);
  drain_few(&scene, 1, 1);
  CHECK_TEXT("urgent first behind new", recorder.order);
  recorder.awaited = "waits";
  CHECK_NUMBER(many + 1, drain(&scene).sent);
  CHECK_NUMBER(many + 5, recorder.calls);
  CHECK_NUMBER(many + 5, recorder.awaited_at);
  scene_end(&scene);
}

TEST(F2_no_message_waits_forever) {
  struct scene scene;
  struct recorder recorder;
  char conversation[16];
  scene_begin(&scene);
  recorder_open(&recorder, &scene);
  put_ranked(&scene, "low", "low", -100, 0);
  for (int number = 0; number < 40; number++) {
    snprintf(conversation, sizeof conversation, "c%d", number);
    put_ranked(&scene, NULL, conversation, 100, 0);
  }
  recorder.awaited = "low";
  CHECK_NUMBER(41, drain(&scene).sent);
  CHECK_NUMBER(8, recorder.awaited_at);
  scene_end(&scene);
}

TEST(F2_a_message_keeps_its_priority) {
  struct scene scene;
  msgq_draft drafts[2] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  char ids[2][MSGQ_ID_SIZE];
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  scene_begin_open(&scene);
  put_ranked(&scene, "a", "ana", -100, 0);
  CHECK_NUMBER(-100, priority_of(&scene, "a"));
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "a", "edited", 6));
  CHECK_NUMBER(-100, priority_of(&scene, "a"));
  drafts[0].priority = 100;
  drafts[1].priority = 0;
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, 2, ids));
  CHECK_NUMBER(100, priority_of(&scene, ids[0]));
  CHECK_NUMBER(0, priority_of(&scene, ids[1]));
  /* A recorded message is never sent. */
  drafts[0].id = "r";
  drafts[0].priority = 9;
  REQUIRE_OK(msgq_record(scene.queue, &drafts[0], "ben", NULL));
  CHECK_NUMBER(0, priority_of(&scene, "r"));
  filter.statuses = MSGQ_STATUSES_ALL;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  CHECK_NUMBER(4, msgq_list_size(page));
  for (size_t index = 0; index < msgq_list_size(page); index++) {
    const msgq_message *message = msgq_list_at(page, index);
    CHECK_NUMBER(priority_of(&scene, message->id), message->priority);
  }
  msgq_list_free(page);
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(-100, priority_of(&scene, "a"));
  scene_end(&scene);
}

TEST(F2_a_priority_out_of_range_is_refused) {
  struct scene scene;
  msgq_draft drafts[2] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  scene_begin_open(&scene);
  const int32_t refused[] = { 101, -101, INT32_MAX, INT32_MIN };
  for (size_t index = 0; index < sizeof refused / sizeof *refused; index++) {
    drafts[1].priority = refused[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &drafts[1], NULL));
    CHECK(strstr(msgq_error_detail(), "-100 to 100") != NULL);
    CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, drafts, 2, NULL));
  }
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

/* ------------------------------------------------------- soonest_expiry_first */

TEST(F2_of_equal_priorities_the_soonest_expiry_is_next) {
  struct scene scene;
  struct recorder recorder;
  int64_t later = wall_ms() + 3600000;
  for (int is_on = 0; is_on < 2; is_on++) {
    scene_begin(&scene);
    scene.options.soonest_expiry_first = is_on;
    recorder_open(&recorder, &scene);
    put_ranked(&scene, "never", "a", 0, 0);
    put_ranked(&scene, "late", "b", 0, later + 2000);
    put_ranked(&scene, "soon", "c", 0, later + 1000);
    put_ranked(&scene, "low", "d", -1, later);
    put_ranked(&scene, "high", "e", 1, 0);
    CHECK_NUMBER(5, drain(&scene).sent);
    CHECK_TEXT(is_on ? "high soon late never low" : "high never late soon low", recorder.order);
    scene_end(&scene);
  }
}

/* ---------------------------------------------------------------- explanations */

static void explain_others(struct recorder *recorder) {
  msgq_explanation low = explain(recorder->scene, "low"), next = explain(recorder->scene, "next");
  CHECK_NUMBER(MSGQ_REASON_NEXT, low.reason);
  CHECK_TEXT("Messages with a higher priority go first.", low.text);
  CHECK_TEXT("next", low.behind);
  CHECK_NUMBER(MSGQ_REASON_NEXT, next.reason);
  CHECK_TEXT("It is next.", next.text);
  CHECK_TEXT("", next.behind);
}

TEST(F2_X1_an_explanation_says_what_is_ahead) {
  struct scene scene;
  struct recorder recorder;
  scene_begin(&scene);
  recorder_open(&recorder, &scene);
  put_ranked(&scene, "low", "a", 0, 0);
  put_ranked(&scene, "first", "b", 9, 0);
  put_ranked(&scene, "next", "c", 5, 0);
  recorder.at = 1;
  recorder.act = explain_others;
  CHECK_NUMBER(3, drain(&scene).sent);
  CHECK_TEXT("first next low", recorder.order);
  scene_end(&scene);
}
