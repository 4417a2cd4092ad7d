/* Expiry, not-before times and metered links, with short delays in real time. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

static const int64_t one_hour[] = { 3600000 };

static void put_unmetered(struct scene *scene, const char *id, const char *conversation) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.unmetered_only = true;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

static void set_metered(struct scene *scene) {
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene->queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, true));
}

static bool has_expired(struct scene *scene, const char *id) {
  return status_of(scene, id) == MSGQ_STATUS_FAILED && failure_of(scene, id) == MSGQ_FAILURE_EXPIRED;
}

static void begin(struct post *post, msgq_mode mode) {
  post_begin(post);
  post->scene.options.mode = mode;
}

TEST(X4_a_message_expires_on_time_first_in_line_behind_others_and_offline) {
  struct post post;
  char path[64];
  begin(&post, MSGQ_MODE_AUTO);
  set_ladder(&post.scene, one_hour, 1);
  post_open(&post);
  receiver_answer(post.receiver, "a1", 503, 1, NULL);
  put(&post.scene, "a1", "ana", "waits an hour for its retry");
  AWAIT(receiver_requests(post.receiver, "a1") == 1 && status_of(&post.scene, "a1") == MSGQ_STATUS_QUEUED);
  int64_t expiry = wall_ms() + 150;
  put_timed(&post.scene, "a2", "ana", 0, expiry); /* behind another */
  set_offline(&post.scene);
  put_timed(&post.scene, "b1", "ben", 0, expiry); /* at the head */
  put_timed(&post.scene, "b2", "ben", 0, expiry);
  put(&post.scene, "b3", "ben", "does not expire");
  if (wall_ms() < expiry) CHECK_NUMBER(4 + 1, counts_of(&post.scene, NULL).queued);
  AWAIT(has_expired(&post.scene, "a2") && has_expired(&post.scene, "b1") && has_expired(&post.scene, "b2"));
  CHECK(wall_ms() >= expiry);
  AWAIT(journal_reached(&post.scene.journal, "a2", MSGQ_STATUS_FAILED));
  journal_path(&post.scene.journal, "a2", path, sizeof path);
  CHECK_TEXT("none>queued>failed", path);
  CHECK(counts_of(&post.scene, NULL).queued == 2 && counts_of(&post.scene, NULL).failed == 3);
  set_online(&post.scene);
  AWAIT(status_of(&post.scene, "b3") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, receiver_requests(post.receiver, NULL)); /* a1 once, b3 once, no expired message */
  post_end(&post);
}

TEST(X4_a_message_expires_while_the_queue_is_paused_or_closed) {
  struct scene scene;
  scene_begin_open(&scene);
  put_timed(&scene, "a", "ana", 0, wall_ms() + 20);
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, NULL));
  AWAIT(has_expired(&scene, "a"));
  /* A message that expires while the store is closed fails after the next open. */
  put_timed(&scene, "b", "ana", 0, wall_ms() + 50);
  scene_close(&scene);
  pause_ms(100);
  scene_open(&scene);
  AWAIT(has_expired(&scene, "b")); /* its event may come before the handler is set */
  scene_end(&scene);
}

TEST(X4_an_expired_message_can_be_retried) {
  struct post post;
  msgq_ledger *ledger = NULL;
  begin(&post, MSGQ_MODE_MANUAL);
  post_open(&post);
  put_timed(&post.scene, "late", "ana", 0, wall_ms() + 10);
  AWAIT(has_expired(&post.scene, "late"));
  CHECK_NUMBER(0, attempts_of(&post.scene, "late"));
  CHECK_NUMBER(MSGQ_REASON_FAILED, reason_of(&post.scene, "late"));
  REQUIRE_OK(msgq_attempts(post.scene.queue, "late", &ledger));
  REQUIRE(msgq_attempts_size(ledger) == 1);
  CHECK(msgq_attempts_at(ledger, 0)->kind == MSGQ_FAILURE_EXPIRED && msgq_attempts_at(ledger, 0)->arrival == MSGQ_ARRIVAL_NO);
  msgq_attempts_free(ledger);
  CHECK_NUMBER(0, drain(&post.scene).sent); /* an expired message is never sent by a drain */
  receiver_answer(post.receiver, "late", 503, 1, NULL);
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "late"));
  AWAIT(receiver_requests(post.receiver, "late") == 1 && status_of(&post.scene, "late") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(MSGQ_FAILURE_SERVER, failure_of(&post.scene, "late"));
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "late"));
  AWAIT(status_of(&post.scene, "late") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, attempts_of(&post.scene, "late"));
  post_end(&post);
}

TEST(X4_expiry_ms_applies_to_messages_without_an_expiry) {
  struct post post;
  msgq_message *message = NULL;
  begin(&post, MSGQ_MODE_MANUAL);
  post.scene.options.expiry_ms = 150;
  post_open(&post);
  int64_t before = wall_ms();
  put(&post.scene, "short", "ana", "no expiry of its own");
  put_timed(&post.scene, "long", "ana", 0, wall_ms() + 3600000); /* its own expiry has priority */
  REQUIRE_OK(msgq_get(post.scene.queue, "short", &message));
  CHECK(message->expires_at_ms >= before + 150 && message->expires_at_ms <= wall_ms() + 150);
  msgq_message_free(message);
  AWAIT(has_expired(&post.scene, "short"));
  CHECK(wall_ms() >= before + 150);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "long"));
  CHECK_NUMBER(1, drain(&post.scene).sent);
  post_end(&post);
}

TEST(X4_a_message_in_flight_does_not_expire) {
  struct post post;
  begin(&post, MSGQ_MODE_AUTO);
  post_open(&post);
  receiver_hold(post.receiver, true);
  int64_t expiry = wall_ms() + 100;
  put_timed(&post.scene, "a", "ana", 0, expiry);
  AWAIT(receiver_requests(post.receiver, "a") == 1 || wall_ms() > expiry + 1000);
  while (wall_ms() <= expiry + 50) pause_ms(5);
  if (receiver_requests(post.receiver, "a") == 1) { /* unless the machine was too slow to start the attempt in time */
    CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&post.scene, "a"));
    receiver_hold(post.receiver, false);
    AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  }
  post_end(&post);
}

TEST_LONG(X4_many_messages_expire_at_the_same_time) {
  struct scene scene;
  enum { many = 500 };
  scene_begin_open(&scene);
  int64_t expiry = wall_ms() + 100;
  msgq_draft drafts[many];
  for (int number = 0; number < many; number++) {
    drafts[number] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[number].expires_at_ms = expiry;
  }
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, many, NULL));
  put(&scene, "stays", "", "x");
  AWAIT(counts_of(&scene, NULL).failed == many);
  CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
  CHECK(wall_ms() >= expiry);
  scene_end(&scene);
}

TEST(X5_a_scheduled_message_is_sent_on_time_and_blocks_no_other) {
  struct post post;
  char order[64];
  begin(&post, MSGQ_MODE_AUTO);
  post_open(&post);
  int64_t due = wall_ms() + 250;
  put_timed(&post.scene, "later", "ana", due, 0);
  put(&post.scene, "now-1", "ana", "1");
  put(&post.scene, "now-2", "ben", "2");
  AWAIT(status_of(&post.scene, "now-1") == MSGQ_STATUS_SENT && status_of(&post.scene, "now-2") == MSGQ_STATUS_SENT);
  if (wall_ms() < due) {
    msgq_explanation explanation = explain(&post.scene, "later");
    if (wall_ms() < due) {
      CHECK_NUMBER(MSGQ_REASON_SCHEDULED, explanation.reason);
      CHECK_NUMBER(due, explanation.until_ms);
    }
  }
  AWAIT(status_of(&post.scene, "later") == MSGQ_STATUS_SENT);
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(post.scene.queue, "later", &message));
  CHECK(message->last_attempt_ms >= due);
  msgq_message_free(message);
  receiver_order(post.receiver, "ana", order, sizeof order);
  CHECK_TEXT("now-1 later", order);
  post_end(&post);
}

TEST(X5_many_scheduled_messages_block_no_other) {
  struct post post;
  begin(&post, MSGQ_MODE_AUTO);
  post_open(&post);
  for (int number = 0; number < 40; number++) {
    char id[16];
    snprintf(id, sizeof id, "later-%d", number);
    put_timed(&post.scene, id, "ana", wall_ms() + 3600000, 0);
  }
  put(&post.scene, "now", "ana", "hello");
  AWAIT(status_of(&post.scene, "now") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, receiver_requests(post.receiver, NULL));
  /* The same after a restart. */
  scene_close(&post.scene);
  post_open(&post);
  put(&post.scene, "now-2", "ana", "hello");
  AWAIT(status_of(&post.scene, "now-2") == MSGQ_STATUS_SENT);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "later-7")); /* msgq_send_now ignores the time */
  AWAIT(status_of(&post.scene, "later-7") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(3, receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST(X5_a_message_waiting_for_an_unmetered_link_blocks_no_other) {
  struct post post;
  char order[64];
  begin(&post, MSGQ_MODE_AUTO);
  post.scene.options.direct = true;
  post_open(&post);
  set_metered(&post.scene);
  put_unmetered(&post.scene, "large", "ana");
  put(&post.scene, "small-1", "ana", "1");
  put(&post.scene, "small-2", "ana", "2");
  AWAIT(counts_of(&post.scene, NULL).sent == 2);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "large"));
  CHECK_NUMBER(MSGQ_REASON_METERED, reason_of(&post.scene, "large"));
  set_online(&post.scene);
  AWAIT(status_of(&post.scene, "large") == MSGQ_STATUS_SENT);
  receiver_order(post.receiver, "ana", order, sizeof order);
  CHECK_TEXT("small-1 small-2 large", order);
  post_end(&post);
}

TEST(X5_a_queue_can_be_unmetered_only) {
  struct post post;
  begin(&post, MSGQ_MODE_AUTO);
  post.scene.options.direct = true;
  post.scene.options.unmetered_only = true;
  post_open(&post);
  set_metered(&post.scene);
  put(&post.scene, "a", "ana", "1");
  put(&post.scene, "b", "ben", "2");
  CHECK_NUMBER(MSGQ_STOP_WAITING, drain(&post.scene).stop);
  pause_ms(50);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(MSGQ_REASON_METERED, reason_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_REASON_METERED, reason_of(&post.scene, "b"));
  set_online(&post.scene);
  AWAIT(counts_of(&post.scene, NULL).sent == 2);
  set_metered(&post.scene);
  put(&post.scene, "c", "ana", "3");
  pause_ms(50);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "c"));
  post_end(&post);
}
