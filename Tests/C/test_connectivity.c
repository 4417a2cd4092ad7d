/* When a backlog is sent in each mode. */
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

TEST(Q2_connectivity_changes_are_events) {
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

TEST(Q24_the_link_is_none_while_offline) {
  struct scene scene;
  struct entry entry;
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, true));
  CHECK_NUMBER(MSGQ_LINK_CELLULAR, state_of(&scene).link);
  REQUIRE_OK(msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_WIFI, false));
  CHECK_NUMBER(MSGQ_LINK_NONE, state_of(&scene).link);
  AWAIT(journal_last(&scene.journal, MSGQ_EVENT_CONNECTIVITY, &entry) && entry.connectivity == MSGQ_CONNECTIVITY_OFFLINE);
  CHECK_NUMBER(MSGQ_LINK_NONE, entry.link);
  REQUIRE_OK(msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false));
  CHECK_NUMBER(MSGQ_LINK_WIFI, state_of(&scene).link);
  scene_end(&scene);
}

TEST(mode_manual_sends_no_backlog_by_itself) {
  struct post post;
  begin_offline(&post, MSGQ_MODE_MANUAL);
  put(&post.scene, "a", "ana", "hello");
  set_link(&post, MSGQ_CONNECTIVITY_ONLINE);
  put(&post.scene, "b", "ben", "hello"); /* sent at once: its conversation has no message before it */
  put(&post.scene, "c", "ana", "hello"); /* stays behind "a" */
  AWAIT(status_of(&post.scene, "b") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "c"));
  CHECK_NUMBER(0, journal_count(&post.scene.journal, MSGQ_EVENT_PROMPT));
  CHECK_NUMBER(2, drain(&post.scene).sent);
  post_end(&post);
}
