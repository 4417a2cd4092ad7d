/* Who starts a backlog, and when. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"

static void set_link(struct post *post, msgq_connectivity connectivity) {
  msgq_link link = connectivity == MSGQ_CONNECTIVITY_ONLINE ? MSGQ_LINK_WIFI : MSGQ_LINK_NONE;
  REQUIRE_OK(msgq_set_connectivity(post->scene.queue, connectivity, link, false));
}

static void begin_offline(struct post *post, msgq_mode mode) {
  post_begin(post);
  post->scene.options.mode = mode;
  post->scene.options.direct = true;
  post_open(post);
  set_link(post, MSGQ_CONNECTIVITY_OFFLINE);
}

TEST(A1_auto_sends_the_backlog_when_online) {
  struct post post;
  begin_offline(&post, MSGQ_MODE_AUTO);
  put(&post.scene, "a", "ana", "1");
  put(&post.scene, "b", "ben", "2");
  CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&post.scene).stop);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  set_link(&post, MSGQ_CONNECTIVITY_ONLINE);
  AWAIT(counts_of(&post.scene, NULL).sent == 2);
  CHECK_NUMBER(2, receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST(A1_auto_sends_the_backlog_on_launch) {
  struct post post;
  begin_offline(&post, MSGQ_MODE_AUTO);
  put(&post.scene, "a", "ana", "1");
  scene_close(&post.scene);
  post_open(&post);
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  post_end(&post);
}

TEST(Q2_connectivity_is_told) {
  struct post post;
  struct entry entry;
  begin_offline(&post, MSGQ_MODE_MANUAL);
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_CONNECTIVITY, &entry));
  CHECK_NUMBER(MSGQ_CONNECTIVITY_OFFLINE, entry.connectivity);
  REQUIRE_OK(msgq_set_connectivity(post.scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, true));
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_CONNECTIVITY) == 2);
  REQUIRE(journal_last(&post.scene.journal, MSGQ_EVENT_CONNECTIVITY, &entry));
  CHECK(entry.connectivity == MSGQ_CONNECTIVITY_ONLINE && entry.link == MSGQ_LINK_CELLULAR && entry.metered);
  put(&post.scene, "a", "ana", "hello");
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.connectivity == MSGQ_CONNECTIVITY_ONLINE);
  post_end(&post);
}

TEST(Q4_ask_raises_one_prompt_and_a_drain_is_the_yes) {
  struct post post;
  struct entry entry;
  int64_t before = wall_ms();
  begin_offline(&post, MSGQ_MODE_ASK);
  put(&post.scene, "a", "ana", "12345");
  put(&post.scene, "b", "ben", "123");
  put(&post.scene, "c", "ana", "1");
  set_link(&post, MSGQ_CONNECTIVITY_ONLINE);
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_PROMPT) == 1);
  REQUIRE(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT, &entry));
  CHECK(entry.prompt.messages == 3 && entry.prompt.bytes == 9 && entry.prompt.conversations == 2);
  CHECK(entry.prompt.oldest_ms >= before && entry.prompt.oldest_ms <= wall_ms());
  CHECK_NUMBER(10000, entry.prompt.timeout_ms);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(3, drain(&post.scene).sent);
  CHECK_NUMBER(1, journal_count(&post.scene.journal, MSGQ_EVENT_PROMPT_WITHDRAWN));
  CHECK_NUMBER(1, journal_count(&post.scene.journal, MSGQ_EVENT_PROMPT));
  post_end(&post);
}

TEST(Q4_a_prompt_expires_and_is_withdrawn) {
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_ASK;
  post.scene.options.prompt_timeout_ms = 30;
  post_open(&post);
  set_link(&post, MSGQ_CONNECTIVITY_OFFLINE);
  put(&post.scene, "a", "ana", "hello");
  set_link(&post, MSGQ_CONNECTIVITY_ONLINE);
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_PROMPT_WITHDRAWN) == 1);
  CHECK_NUMBER(1, journal_count(&post.scene.journal, MSGQ_EVENT_PROMPT));
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "a"));
  post_end(&post);
}

TEST(manual_sends_no_backlog_by_itself) {
  struct post post;
  begin_offline(&post, MSGQ_MODE_MANUAL);
  put(&post.scene, "a", "ana", "hello");
  set_link(&post, MSGQ_CONNECTIVITY_ONLINE);
  put(&post.scene, "b", "ben", "hello"); /* goes at once: nothing of its conversation waits before it */
  put(&post.scene, "c", "ana", "hello"); /* waits behind the first */
  AWAIT(status_of(&post.scene, "b") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "c"));
  CHECK_NUMBER(0, journal_count(&post.scene.journal, MSGQ_EVENT_PROMPT));
  CHECK_NUMBER(2, drain(&post.scene).sent);
  post_end(&post);
}

TEST(A5_flapping_sends_nothing_twice) {
  struct post post;
  char id[8];
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post.scene.options.online_debounce_ms = 20;
  post_open(&post);
  set_link(&post, MSGQ_CONNECTIVITY_OFFLINE);
  for (int number = 0; number < 5; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  for (int flap = 0; flap < 100; flap++) {
    set_link(&post, flap % 2 == 0 ? MSGQ_CONNECTIVITY_ONLINE : MSGQ_CONNECTIVITY_OFFLINE);
  }
  set_link(&post, MSGQ_CONNECTIVITY_ONLINE);
  AWAIT(counts_of(&post.scene, NULL).sent == 5);
  CHECK_NUMBER(5, receiver_requests(post.receiver, NULL));
  post_end(&post);
}
