/* Order within conversations, and drains that run at the same time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "drainer.h"
#include "post.h"
#include "stub.h"

/* A retry delay that no test waits for. */
static const int64_t one_hour[] = { 3600000 };

/* Enqueues messages m0, m1 and so on in conversations c0, c1 and so on, in rotation. */
static void put_rotating(struct scene *scene, int messages, int conversations) {
  char id[16], conversation[16];
  for (int number = 0; number < messages; number++) {
    snprintf(id, sizeof id, "m%d", number);
    snprintf(conversation, sizeof conversation, "c%d", number % conversations);
    put(scene, id, conversation, "hello");
  }
}

TEST(Q7_send_all_sends_in_order) {
  struct post post;
  char order[256];
  post_begin_open(&post);
  put_rotating(&post.scene, 12, 3);
  CHECK_NUMBER(12, drain(&post.scene).sent);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m0 m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11", order);
  post_end(&post);
}

TEST(M3_order_is_kept_over_a_restart) {
  struct post post;
  char order[256];
  post_begin_open(&post);
  put_rotating(&post.scene, 6, 1);
  CHECK_RESULT(MSGQ_OK, msgq_edit(post.scene.queue, "m1", "edited", 6));
  scene_close(&post.scene);
  post_open(&post);
  put(&post.scene, "late", "c0", "hello");
  CHECK_NUMBER(7, drain(&post.scene).sent);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m0 m1 m2 m3 m4 m5 late", order);
  post_end(&post);
}

TEST(Q8_one_after_the_other_by_default) {
  struct post post;
  post_begin_open(&post);
  put_rotating(&post.scene, 15, 3);
  CHECK_NUMBER(15, drain(&post.scene).sent);
  CHECK_NUMBER(1, atomic_load(&post.sender.most_in_flight));
  CHECK_NUMBER(0, atomic_load(&post.sender.overlaps));
  post_end(&post);
}

TEST(Q8_never_two_attempts_of_one_conversation) {
  struct post post;
  char order[256];
  post_begin(&post);
  post.scene.options.max_in_flight = 8;
  post_open(&post);
  put_rotating(&post.scene, 40, 4);
  CHECK_NUMBER(40, drain(&post.scene).sent);
  CHECK_NUMBER(0, atomic_load(&post.sender.overlaps));
  CHECK(atomic_load(&post.sender.most_in_flight) <= 4);
  receiver_order(post.receiver, "c1", order, sizeof order);
  CHECK_TEXT("m1 m5 m9 m13 m17 m21 m25 m29 m33 m37", order);
  post_end(&post);
}

TEST(A2_a_message_waiting_for_its_retry_blocks_only_its_conversation) {
  struct post post;
  char order[64];
  post_begin(&post);
  set_ladder(&post.scene, one_hour, 1);
  post_open(&post);
  receiver_answer(post.receiver, "a1", 503, 1, NULL);
  put(&post.scene, "a1", "ana", "1");
  put(&post.scene, "b1", "ben", "2");
  put(&post.scene, "a2", "ana", "3");
  put(&post.scene, "b2", "ben", "4");
  msgq_report report = drain(&post.scene);
  CHECK_NUMBER(MSGQ_STOP_WAITING, report.stop);
  CHECK_NUMBER(2, report.sent);
  CHECK_NUMBER(2, report.remaining);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("b1 b2", order);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "a2"));
  /* The same after a restart. */
  scene_close(&post.scene);
  post_open(&post);
  CHECK_NUMBER(MSGQ_STOP_WAITING, drain(&post.scene).stop);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "a2"));
  /* msgq_send_now ignores the delay; then the next message is not blocked any more. */
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "a1"));
  AWAIT(status_of(&post.scene, "a1") == MSGQ_STATUS_SENT);
  drain(&post.scene);
  receiver_order(post.receiver, "ana", order, sizeof order);
  CHECK_TEXT("a1 a2", order);
  post_end(&post);
}

TEST(Q6_send_now_overtakes_earlier_messages) {
  struct post post;
  char order[64];
  post_begin_open(&post);
  put_rotating(&post.scene, 4, 1);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "m2"));
  AWAIT(status_of(&post.scene, "m2") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(3, counts_of(&post.scene, NULL).queued);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_send_now(post.scene.queue, "m2"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_send_now(post.scene.queue, "m9"));
  CHECK_NUMBER(3, drain(&post.scene).sent);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m2 m0 m1 m3", order);
  post_end(&post);
}

TEST(A3_a_mixed_drain_ends_each_message_in_its_status) {
  struct post post;
  char order[128];
  post_begin(&post);
  set_ladder(&post.scene, one_hour, 1);
  post_open(&post);
  receiver_answer(post.receiver, "m2", 400, 1, NULL);
  receiver_answer(post.receiver, "m4", 503, 1, NULL);
  receiver_answer(post.receiver, "m6", 404, 1, NULL);
  put_rotating(&post.scene, 9, 3);
  msgq_report report = drain(&post.scene);
  CHECK(report.sent == 5 && report.failed == 2 && report.remaining == 2);
  static const msgq_status expected[] = {
    MSGQ_STATUS_SENT, MSGQ_STATUS_SENT,   MSGQ_STATUS_FAILED, MSGQ_STATUS_SENT, MSGQ_STATUS_QUEUED,
    MSGQ_STATUS_SENT, MSGQ_STATUS_FAILED, MSGQ_STATUS_QUEUED, MSGQ_STATUS_SENT,
  };
  for (int number = 0; number < 9; number++) {
    char id[8];
    snprintf(id, sizeof id, "m%d", number);
    CHECK_NUMBER(expected[number], status_of(&post.scene, id));
  }
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m0 m1 m3 m5 m8", order);
  post_end(&post);
}

TEST(M8_a_drain_can_be_limited) {
  struct post post;
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  post_begin(&post);
  post.scene.options.drain_batch = 3;
  post_open(&post);
  put_rotating(&post.scene, 10, 2);
  options.batch = 2;
  CHECK_RESULT(MSGQ_OK, msgq_drain(post.scene.queue, &options, &report));
  CHECK(report.stop == MSGQ_STOP_BATCH && report.sent == 2 && report.remaining == 8);
  report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_BATCH && report.sent == 3 && report.remaining == 5);
  options.batch = 100;
  CHECK_RESULT(MSGQ_OK, msgq_drain(post.scene.queue, &options, &report));
  CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 5 && report.remaining == 0);
  post_end(&post);
}

TEST(A6_a_second_drain_joins_the_first) {
  struct post post;
  struct drainer drainers[2] = { { .queue = NULL }, { .queue = NULL } };
  pthread_t threads[2];
  post_begin_open(&post);
  receiver_hold(post.receiver, true);
  put_rotating(&post.scene, 5, 1);
  for (int index = 0; index < 2; index++) {
    drainers[index].queue = post.scene.queue;
    REQUIRE(pthread_create(&threads[index], NULL, drainer_run, &drainers[index]) == 0);
    /* The second drain starts while the first attempt of the first drain is in flight. */
    AWAIT(receiver_requests(post.receiver, NULL) == 1);
  }
  pause_ms(50); /* the second drain joins meanwhile; if it came later, its report would be empty and the test would fail */
  CHECK(!atomic_load(&drainers[0].done) && !atomic_load(&drainers[1].done));
  receiver_hold(post.receiver, false);
  for (int index = 0; index < 2; index++) {
    pthread_join(threads[index], NULL);
    CHECK_RESULT(MSGQ_OK, drainers[index].result);
    CHECK_NUMBER(MSGQ_STOP_EMPTY, drainers[index].report.stop);
    CHECK_NUMBER(5, drainers[index].report.sent);
  }
  CHECK_NUMBER(5, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(1, journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED));
  post_end(&post);
}

TEST(A6_a_drain_of_an_empty_queue_ends_at_once) {
  struct post post;
  post_begin_open(&post);
  msgq_report report = drain(&post.scene);
  CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 0 && report.failed == 0 && report.remaining == 0);
  CHECK_RESULT(MSGQ_OK, msgq_drain(post.scene.queue, NULL, NULL));
  post_end(&post);
}
