/* Sending to a receiver over HTTP. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"

TEST(Q15_five_messages_enqueued_offline_arrive_in_order) {
  struct post post;
  char order[128], id[8];
  post_begin_open(&post);
  REQUIRE_OK(msgq_set_connectivity(post.scene.queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE, false));
  for (int number = 1; number <= 5; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", id);
  }
  msgq_report report = drain(&post.scene);
  CHECK_NUMBER(MSGQ_STOP_OFFLINE, report.stop);
  CHECK_NUMBER(5, report.remaining);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  REQUIRE_OK(msgq_set_connectivity(post.scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false));
  report = drain(&post.scene);
  CHECK_NUMBER(MSGQ_STOP_EMPTY, report.stop);
  CHECK_NUMBER(5, report.sent);
  CHECK_NUMBER(0, report.remaining);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m1 m2 m3 m4 m5", order);
  CHECK_NUMBER(5, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(0, counts_of(&post.scene, NULL).queued);
  post_end(&post);
}

TEST(Q9_a_sent_message_leaves_the_queue) {
  struct post post;
  char path[64], body[64];
  msgq_message *message = NULL;
  post_begin_open(&post);
  put(&post.scene, "a", "ana", "hello receiver");
  int64_t before = wall_ms();
  CHECK_NUMBER(1, drain(&post.scene).sent);
  /* The event handler has run for all events of a drain when the drain returns. */
  journal_path(&post.scene.journal, "a", path, sizeof path);
  CHECK_TEXT("none>queued>sending>sent", path);
  receiver_body(post.receiver, "a", body, sizeof body);
  CHECK_TEXT("hello receiver", body);
  REQUIRE_OK(msgq_get(post.scene.queue, "a", &message));
  CHECK_NUMBER(MSGQ_STATUS_SENT, message->status);
  CHECK_NUMBER(1, message->attempts);
  CHECK(message->sent_ms >= before && message->last_attempt_ms >= before && message->failure == NULL);
  msgq_message_free(message);
  msgq_counts counts = counts_of(&post.scene, "ana");
  CHECK(counts.queued == 0 && counts.sent == 1);
  post_end(&post);
}

TEST(Q10_a_final_failure_is_listed_with_its_reason) {
  struct post post;
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  post_begin_open(&post);
  receiver_answer(post.receiver, "bad", 404, 1, NULL);
  put(&post.scene, "bad", "ana", "one");
  put(&post.scene, "behind", "ana", "two");
  drain(&post.scene);
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED);
  REQUIRE_OK(msgq_list(post.scene.queue, &filter, &page));
  REQUIRE(msgq_list_size(page) == 1);
  const msgq_failure *failure = msgq_list_at(page, 0)->failure;
  REQUIRE(failure != NULL);
  CHECK_NUMBER(MSGQ_FAILURE_NOT_FOUND, failure->kind);
  CHECK_NUMBER(404, failure->code);
  CHECK(!failure->retryable);
  msgq_list_free(page);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&post.scene, "behind"));
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "bad"));
  AWAIT(status_of(&post.scene, "bad") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, receiver_requests(post.receiver, "bad"));
  post_end(&post);
}

TEST(Q18_send_all_counts_sent_and_failed) {
  struct post post;
  char order[64];
  post_begin_open(&post);
  receiver_answer(post.receiver, "c", 400, 1, NULL);
  put(&post.scene, "a", "ana", "1");
  put(&post.scene, "b", "ben", "2");
  put(&post.scene, "c", "ana", "3");
  put(&post.scene, "d", "ana", "4");
  msgq_report report = drain(&post.scene);
  CHECK_NUMBER(3, report.sent);
  CHECK_NUMBER(1, report.failed);
  CHECK_NUMBER(0, report.remaining);
  CHECK_NUMBER(0, report.discarded);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("a b d", order);
  struct entry entry;
  REQUIRE(journal_last(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED, &entry));
  CHECK(entry.report.sent == 3 && entry.report.failed == 1);
  CHECK_NUMBER(1, journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_STARTED));
  post_end(&post);
}

TEST(M2_direct_sends_at_once_in_manual_mode_too) {
  struct post post;
  post_begin(&post);
  post.scene.options.direct = true;
  post_open(&post);
  put(&post.scene, "a", "ana", "hello");
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  receiver_answer(post.receiver, "b", 400, 1, NULL);
  put(&post.scene, "b", "ana", "hello");
  AWAIT(status_of(&post.scene, "b") == MSGQ_STATUS_FAILED);
  post_end(&post);
}

TEST(Q16_R13_ten_messages_are_sent_at_once_and_reported_each) {
  struct post post;
  char path[64], id[8], order[128];
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post.scene.options.direct = true;
  post_open(&post);
  for (int number = 0; number < 10; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  AWAIT(counts_of(&post.scene, NULL).sent == 10);
  for (int number = 0; number < 10; number++) {
    snprintf(id, sizeof id, "m%d", number);
    AWAIT(journal_reached(&post.scene.journal, id, MSGQ_STATUS_SENT));
    journal_path(&post.scene.journal, id, path, sizeof path);
    CHECK_TEXT("none>queued>sending>sent", path);
  }
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m0 m1 m2 m3 m4 m5 m6 m7 m8 m9", order);
  post_end(&post);
}

TEST(R12_a_refused_connection_fails_and_a_retry_sends) {
  struct post post;
  char path[128];
  post_begin_open(&post);
  uint16_t port = receiver_port(post.receiver);
  receiver_stop(post.receiver);
  put(&post.scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&post.scene).failed);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_FAILURE_NETWORK, failure_of(&post.scene, "a"));
  post.receiver = receiver_start(port);
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "a"));
  AWAIT(journal_reached(&post.scene.journal, "a", MSGQ_STATUS_SENT));
  CHECK_NUMBER(1, receiver_accepted(post.receiver, "a"));
  CHECK_NUMBER(0, counts_of(&post.scene, NULL).failed);
  journal_path(&post.scene.journal, "a", path, sizeof path);
  CHECK(strncmp(path, "none>queued>sending>failed>", 27) == 0 && strchr(path, '!') == NULL);
  post_end(&post);
}

TEST(R1_a_failed_message_has_its_failure) {
  struct post post;
  msgq_message *message = NULL;
  post_begin_open(&post);
  receiver_answer(post.receiver, "a", 503, 1, NULL);
  int64_t before = wall_ms();
  put(&post.scene, "a", "ana", "hello");
  drain(&post.scene);
  REQUIRE_OK(msgq_get(post.scene.queue, "a", &message));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, message->status);
  REQUIRE(message->failure != NULL);
  CHECK_NUMBER(sizeof *message->failure, message->failure->struct_size);
  CHECK_NUMBER(MSGQ_FAILURE_SERVER, message->failure->kind);
  CHECK_NUMBER(503, message->failure->code);
  CHECK_TEXT("HTTP 503", message->failure->text);
  CHECK(message->failure->retryable);
  CHECK_NUMBER(1, message->failure->attempts);
  CHECK(message->failure->at_ms >= before && message->failure->at_ms <= wall_ms());
  msgq_message_free(message);
  post_end(&post);
}

TEST(R5_fifty_failed_messages_survive_a_restart) {
  struct post post;
  char id[8];
  post_begin_open(&post);
  receiver_answer(post.receiver, NULL, 422, 50, NULL);
  for (int number = 0; number < 50; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  CHECK_NUMBER(50, drain(&post.scene).failed);
  scene_close(&post.scene);
  post_open(&post);
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED);
  REQUIRE_OK(msgq_list(post.scene.queue, &filter, &page));
  CHECK_NUMBER(50, msgq_list_size(page));
  for (size_t index = 0; index < msgq_list_size(page); index++) CHECK(msgq_list_at(page, index)->failure != NULL);
  msgq_list_free(page);
  post_end(&post);
}
