/* Drains that include the failed messages. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"

/* Opens a queue with m1 to m4 of ana and n1 of ben, of which m1, m3 and n1 have failed. */
static void begin(struct post *post, msgq_mode mode) {
  post_begin(post);
  post->scene.options.mode = mode;
  post->scene.options.online_debounce_ms = 0;
  post_open(post);
  receiver_answer(post->receiver, "m1", 400, 1, NULL);
  receiver_answer(post->receiver, "m3", 400, 1, NULL);
  receiver_answer(post->receiver, "n1", 400, 1, NULL);
  put_each(&post->scene, { "m1", "ana", "hello" }, { "m3", "ana", "hello" }, { "n1", "ben", "hello" });
  drain(&post->scene);
  AWAIT(counts_of(&post->scene, NULL).failed == 3);
  set_offline(&post->scene);
  put_each(&post->scene, { "m4", "ana", "hello" }, { "m5", "ana", "hello" });
}

static msgq_report drain_failed(struct post *post, const char *conversation) {
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  options.include_failed = true;
  options.conversation = conversation;
  CHECK_RESULT(MSGQ_OK, msgq_drain(post->scene.queue, &options, &report));
  return report;
}

TEST(Q23_a_drain_with_the_failed_messages_sends_them_in_their_places) {
  static const msgq_mode modes[] = { MSGQ_MODE_MANUAL, MSGQ_MODE_ASK };
  for (int way = 0; way < 2; way++) {
    struct post post;
    char order[64];
    begin(&post, modes[way]);
    set_online(&post.scene);
    msgq_report report = drain_failed(&post, NULL);
    CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 5 && report.put_back == 3 && report.failed == 0);
    CHECK(report.remaining == 0 && report.remaining_failed == 0);
    receiver_order(post.receiver, "ana", order, sizeof order);
    CHECK_TEXT("m1 m3 m4 m5", order);
    CHECK_NUMBER(0, drain_failed(&post, NULL).put_back);
    post_end(&post);
  }
}

TEST(Q23_one_report_has_what_failed_again) {
  struct post post;
  begin(&post, MSGQ_MODE_MANUAL);
  receiver_answer(post.receiver, "m3", 400, 1, NULL);
  set_online(&post.scene);
  size_t before = journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED);
  msgq_report report = drain_failed(&post, NULL);
  CHECK(report.sent == 4 && report.failed == 1 && report.put_back == 3 && report.remaining_failed == 1);
  CHECK_NUMBER(before + 1, journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "m3"));
  post_end(&post);
}

TEST(Q23_a_plain_drain_leaves_the_failed_messages) {
  struct post post;
  begin(&post, MSGQ_MODE_MANUAL);
  set_online(&post.scene);
  msgq_report report = drain(&post.scene);
  CHECK(report.sent == 2 && report.put_back == 0 && report.remaining_failed == 3);
  post_end(&post);
}

TEST(Q23_a_drain_of_one_conversation_takes_its_failed_messages) {
  struct post post;
  begin(&post, MSGQ_MODE_MANUAL);
  set_online(&post.scene);
  msgq_report report = drain_failed(&post, "ben");
  CHECK(report.sent == 1 && report.put_back == 1 && report.remaining_failed == 0);
  CHECK_NUMBER(2, counts_of(&post.scene, NULL).failed);
  report = drain_failed(&post, "nobody");
  CHECK(report.stop == MSGQ_STOP_EMPTY && report.put_back == 0);
  post_end(&post);
}

TEST(Q23_offline_or_paused_the_failed_messages_stay_failed) {
  struct post post;
  char path[128];
  begin(&post, MSGQ_MODE_MANUAL);
  msgq_report report = drain_failed(&post, NULL);
  CHECK(report.stop == MSGQ_STOP_OFFLINE && report.put_back == 0 && report.remaining_failed == 3);
  set_online(&post.scene);
  REQUIRE_OK(msgq_pause(post.scene.queue, NULL));
  report = drain_failed(&post, NULL);
  CHECK(report.stop == MSGQ_STOP_PAUSED && report.put_back == 0 && report.remaining_failed == 3);
  REQUIRE_OK(msgq_resume(post.scene.queue, NULL));
  REQUIRE_OK(msgq_pause(post.scene.queue, "ana"));
  report = drain_failed(&post, "ana");
  CHECK(report.stop == MSGQ_STOP_PAUSED && report.put_back == 0);
  journal_path(&post.scene.journal, "m1", path, sizeof path);
  CHECK_TEXT("none>queued>sending>failed", path);
  /* What is not paused is sent. */
  report = drain_failed(&post, NULL);
  CHECK(report.sent == 1 && report.put_back == 1 && report.remaining_failed == 2);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "m1"));
  post_end(&post);
}

static void drained(void *context, const msgq_report *report) { *(msgq_report *)context = *report; }

TEST(Q23_a_drain_with_the_failed_messages_does_not_join_one_without) {
  struct post post;
  msgq_report with = MSGQ_REPORT_INIT, without = MSGQ_REPORT_INIT, joined = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  begin(&post, MSGQ_MODE_MANUAL);
  with.stop = without.stop = joined.stop = MSGQ_STOP_STARTED;
  receiver_hold(post.receiver, true);
  set_online(&post.scene);
  REQUIRE_OK(msgq_drain_async(post.scene.queue, &options, drained, &without));
  AWAIT(receiver_requests(post.receiver, "m4") == 1);
  options.include_failed = true;
  REQUIRE_OK(msgq_drain_async(post.scene.queue, &options, drained, &with));
  options.conversation = "ben";
  REQUIRE_OK(msgq_drain_async(post.scene.queue, &options, drained, &joined));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "m1"));
  receiver_hold(post.receiver, false);
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED) == 3);
  scene_close(&post.scene); /* the reports have been given */
  CHECK(without.sent == 2 && without.put_back == 0 && without.remaining_failed == 3);
  CHECK(with.sent == 3 && with.put_back == 3 && with.remaining_failed == 0);
  CHECK(memcmp(&with, &joined, sizeof with) == 0);
  post_end(&post);
}

TEST(Q23_many_failed_messages_are_put_back_before_the_first_is_sent) {
  enum { count = 600 };
  struct post post;
  char id[16];
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_MANUAL;
  post_open(&post);
  receiver_answer(post.receiver, NULL, 400, count, NULL);
  for (int number = 0; number < count; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  CHECK_NUMBER(count, drain(&post.scene).failed);
  msgq_report report = drain_failed(&post, NULL);
  CHECK(report.sent == count && report.put_back == count && report.remaining_failed == 0);
  post_end(&post);
}
