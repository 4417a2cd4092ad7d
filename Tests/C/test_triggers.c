/* The triggers of automatic sending. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"
#include "stub.h"

static const int64_t one_hour[] = { 3600000 };

static void begin_auto(struct post *post) {
  post_begin(post);
  post->scene.options.mode = MSGQ_MODE_AUTO;
}

/* Enqueues m<first> to m<last> in one conversation. */
static void put_some(struct post *post, int first, int last) {
  for (int number = first; number <= last; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post->scene, id, "ana", "hello");
  }
}

static void put_until(struct scene *scene, const char *id, int64_t not_before_ms) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = id;
  draft.not_before_ms = not_before_ms;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

static void set_lifecycle(struct post *post, msgq_lifecycle lifecycle) { CHECK_RESULT(MSGQ_OK, msgq_set_lifecycle(post->scene.queue, lifecycle)); }

TEST(A1_M9_the_foreground_is_a_trigger) {
  struct post post;
  begin_auto(&post);
  post_open(&post);
  set_lifecycle(&post, MSGQ_LIFECYCLE_BACKGROUND);
  put_some(&post, 1, 3);
  pause_ms(100);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(MSGQ_REASON_TRIGGER, reason_of(&post.scene, "m1"));
  CHECK_NUMBER(MSGQ_REASON_BEHIND, reason_of(&post.scene, "m2"));
  set_lifecycle(&post, MSGQ_LIFECYCLE_FOREGROUND);
  AWAIT(counts_of(&post.scene, NULL).sent == 3);
  CHECK_NUMBER(3, receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST_LONG(M9_launch_connectivity_timer_and_drain_are_triggers) {
  struct post post;
  begin_auto(&post);
  post.scene.options.drain_batch = 1;
  scene_open(&post.scene);
  put_some(&post, 1, 5);
  scene_close(&post.scene);
  post_open(&post); /* trigger: launch */
  AWAIT(counts_of(&post.scene, NULL).sent == 1);
  pause_ms(50);
  CHECK_NUMBER(1, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(MSGQ_REASON_TRIGGER, reason_of(&post.scene, "m2"));
  set_offline(&post.scene);
  set_online(&post.scene); /* trigger: connectivity */
  AWAIT(counts_of(&post.scene, NULL).sent == 2);
  CHECK_NUMBER(1, drain(&post.scene).sent); /* trigger: drain */
  pause_ms(50);
  CHECK_NUMBER(3, receiver_requests(post.receiver, NULL));
  scene_close(&post.scene);
  post.scene.options.trigger_interval_ms = 200;
  int64_t start = steady_ms();
  post_open(&post);
  AWAIT(counts_of(&post.scene, NULL).sent >= 4);
  AWAIT(counts_of(&post.scene, NULL).sent == 5); /* trigger: timer */
  CHECK(steady_ms() - start >= 199);
  CHECK_NUMBER(5, receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST(M9_no_trigger_blocks_the_start_of_the_host) {
  struct post post;
  begin_auto(&post);
  scene_open(&post.scene);
  put_some(&post, 1, 3);
  scene_close(&post.scene);
  receiver_hold(post.receiver, true); /* a receiver that does not answer */
  int64_t start = steady_ms();
  post_open(&post);
  set_offline(&post.scene);
  set_online(&post.scene);
  set_lifecycle(&post, MSGQ_LIFECYCLE_BACKGROUND);
  set_lifecycle(&post, MSGQ_LIFECYCLE_FOREGROUND);
  put_some(&post, 4, 4);
  CHECK(steady_ms() - start < 2000 * (check_timeout_ms() / 10000)); /* the attempt takes 30 s */
  receiver_hold(post.receiver, false);
  AWAIT(counts_of(&post.scene, NULL).sent == 4);
  CHECK_NUMBER(4, receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST_LONG(M8_a_batch_continues_at_the_next_trigger) {
  struct post post;
  char order[128];
  begin_auto(&post);
  post.scene.options.drain_batch = 5;
  scene_open(&post.scene);
  put_some(&post, 1, 12);
  scene_close(&post.scene);
  post_open(&post);
  static const uint64_t sent[] = { 5, 10, 12 };
  for (int trigger = 0; trigger < 3; trigger++) {
    AWAIT(counts_of(&post.scene, NULL).sent == sent[trigger]);
    pause_ms(100);
    CHECK_NUMBER(sent[trigger], receiver_requests(post.receiver, NULL));
    if (trigger == 0) {
      CHECK_NUMBER(MSGQ_REASON_TRIGGER, reason_of(&post.scene, "m6"));
      set_lifecycle(&post, MSGQ_LIFECYCLE_BACKGROUND);
      set_lifecycle(&post, MSGQ_LIFECYCLE_FOREGROUND);
    } else if (trigger == 1) {
      CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, NULL));
      CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, NULL));
    }
  }
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12", order);
  post_end(&post);
}

TEST_LONG(A11_no_timer_fires_in_the_background_unless_asked_to) {
  static const int64_t ladder[] = { 100 };
  for (int asked = 0; asked < 2; asked++) {
    struct post post;
    begin_auto(&post);
    set_ladder(&post.scene, ladder, 1);
    post.scene.options.trigger_interval_ms = 50;
    post.scene.options.send_in_background = asked == 1;
    post_open(&post);
    receiver_answer(post.receiver, "retried", 503, 1, NULL);
    put(&post.scene, "retried", "ana", "hello");
    AWAIT(receiver_requests(post.receiver, "retried") == 1 && status_of(&post.scene, "retried") == MSGQ_STATUS_QUEUED);
    put_until(&post.scene, "later", wall_ms() + 100);
    set_lifecycle(&post, MSGQ_LIFECYCLE_BACKGROUND);
    if (asked == 1) {
      AWAIT(counts_of(&post.scene, NULL).sent == 2);
    } else {
      /* On a slow machine the retry may have been sent before the change to the background. */
      pause_ms(400);
      CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "later"));
      CHECK_NUMBER(MSGQ_REASON_TRIGGER, reason_of(&post.scene, "later"));
      set_lifecycle(&post, MSGQ_LIFECYCLE_FOREGROUND);
      AWAIT(counts_of(&post.scene, NULL).sent == 2);
    }
    CHECK_NUMBER(2, receiver_requests(post.receiver, "retried"));
    CHECK_NUMBER(1, receiver_requests(post.receiver, "later"));
    post_end(&post);
  }
}

TEST(A11_in_the_background_new_messages_retries_and_drains_are_sent) {
  struct post post;
  begin_auto(&post);
  post.scene.options.direct = true;
  post_open(&post);
  set_offline(&post.scene);
  put(&post.scene, "backlog", "ana", "hello");
  receiver_answer(post.receiver, "failed", 400, 1, NULL);
  set_lifecycle(&post, MSGQ_LIFECYCLE_BACKGROUND);
  set_online(&post.scene);
  put(&post.scene, "new", "ben", "hello");
  AWAIT(status_of(&post.scene, "new") == MSGQ_STATUS_SENT);
  put(&post.scene, "failed", "cem", "hello");
  AWAIT(status_of(&post.scene, "failed") == MSGQ_STATUS_FAILED);
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "failed"));
  AWAIT(status_of(&post.scene, "failed") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "backlog"));
  CHECK_NUMBER(1, drain(&post.scene).sent);
  CHECK_NUMBER(1, receiver_requests(post.receiver, "backlog"));
  post_end(&post);
}

/* Changes the connectivity 100 times in a second, from online to offline. Enqueues a message after every tenth change: f5, f15 and so on. */
static void flap(struct post *post, const char *prefix) {
  for (int change = 0; change < 100; change++) {
    if (change % 2 == 0) set_online(&post->scene);
    else set_offline(&post->scene);
    if (change % 10 == 5) {
      char id[16];
      snprintf(id, sizeof id, "%s%d", prefix, change);
      put(&post->scene, id, "ben", "meanwhile");
    }
    pause_ms(10);
  }
}

TEST_LONG(A5_flapping_loses_nothing_and_sends_nothing_twice) {
  struct post post;
  char order[256];
  begin_auto(&post);
  post.scene.options.direct = true;
  post.scene.options.online_debounce_ms = 200;
  post_open(&post);
  set_offline(&post.scene);
  put_some(&post, 1, 20);
  flap(&post, "f");
  CHECK_NUMBER(0, receiver_requests(post.receiver, "m1")); /* the link was never online for long enough */
  set_online(&post.scene);
  AWAIT(counts_of(&post.scene, NULL).sent == 30);
  CHECK_NUMBER(30, receiver_requests(post.receiver, NULL));
  receiver_order(post.receiver, "ana", order, sizeof order);
  CHECK_TEXT("m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12 m13 m14 m15 m16 m17 m18 m19 m20", order);
  receiver_order(post.receiver, "ben", order, sizeof order);
  CHECK_TEXT("f5 f15 f25 f35 f45 f55 f65 f75 f85 f95", order);
  CHECK_NUMBER(0, atomic_load(&post.sender.overlaps));
  post_end(&post);
}

TEST_LONG(A5_flapping_causes_few_attempts) {
  struct post post;
  begin_auto(&post);
  post.scene.options.online_debounce_ms = 200;
  set_ladder(&post.scene, one_hour, 1);
  post_open(&post);
  set_offline(&post.scene);
  put_some(&post, 1, 5);
  receiver_answer(post.receiver, NULL, 503, 1000, NULL);
  flap(&post, "f");
  set_online(&post.scene);
  AWAIT(receiver_requests(post.receiver, "m1") == 1);
  flap(&post, "g");
  pause_ms(300);
  /* One attempt for the first message of each conversation; changes of the link do not shorten the retry delay. */
  CHECK_NUMBER(1, receiver_requests(post.receiver, "m1"));
  CHECK(receiver_requests(post.receiver, NULL) <= 2);
  CHECK_NUMBER(5 + 20, counts_of(&post.scene, NULL).queued);
  post_end(&post);
}

TEST_LONG(A5_a_transport_that_reports_offline_is_called_at_most_three_times) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.online_debounce_ms = 200;
  stub_begin(&stub, MSGQ_VERDICT_OFFLINE);
  stub_open(&stub, &scene);
  for (int number = 0; number < 10; number++) put(&scene, NULL, "ana", "hello");
  AWAIT(atomic_load(&stub.calls) >= 1);
  for (int change = 0; change < 100; change++) {
    if (change % 2 == 0) set_offline(&scene);
    else set_online(&scene);
    pause_ms(10);
  }
  CHECK(atomic_load(&stub.calls) <= 3);
  CHECK_NUMBER(10, counts_of(&scene, NULL).queued);
  stub.verdict = MSGQ_VERDICT_SENT;
  AWAIT(counts_of(&scene, NULL).sent == 10);
  scene_end(&scene);
}

TEST(A10_conversations_in_parallel_keep_their_order) {
  struct post post;
  begin_auto(&post);
  post.scene.options.max_in_flight = 3;
  scene_open(&post.scene);
  for (int number = 0; number < 30; number++) {
    char id[16], conversation[16];
    snprintf(id, sizeof id, "m%02d", number);
    snprintf(conversation, sizeof conversation, "c%d", number % 3);
    put(&post.scene, id, conversation, "hello");
  }
  receiver_hold(post.receiver, true);
  REQUIRE_OK(msgq_set_transport(post.scene.queue, sender_send, &post.sender, sender_release));
  AWAIT(atomic_load(&post.sender.most_in_flight) == 3);
  CHECK_NUMBER(3, counts_of(&post.scene, NULL).sending);
  receiver_hold(post.receiver, false);
  AWAIT(counts_of(&post.scene, NULL).sent == 30);
  CHECK_NUMBER(3, atomic_load(&post.sender.most_in_flight));
  CHECK_NUMBER(0, atomic_load(&post.sender.overlaps));
  char order[128];
  receiver_order(post.receiver, "c0", order, sizeof order);
  CHECK_TEXT("m00 m03 m06 m09 m12 m15 m18 m21 m24 m27", order);
  receiver_order(post.receiver, "c2", order, sizeof order);
  CHECK_TEXT("m02 m05 m08 m11 m14 m17 m20 m23 m26 m29", order);
  post_end(&post);
}
