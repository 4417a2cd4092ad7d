/* What a prompt asks about: the messages that a yes would send now, while the queue changes. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"

/* Opens a queue in mode ask, offline, without direct sending. Its prompt stands for an hour. */
static void begin(struct post *post) {
  post_begin(post);
  post->scene.options.mode = MSGQ_MODE_ASK;
  post->scene.options.online_debounce_ms = 0;
  post->scene.options.prompt_timeout_ms = 3600000;
  post->scene.options.initial_connectivity = MSGQ_CONNECTIVITY_OFFLINE;
}

static size_t events(struct post *post, msgq_event_kind kind) { return journal_count(&post->scene.journal, kind); }

/* What the prompt that stands asks about; -1: none stands. */
static int64_t asked(struct post *post) {
  msgq_state state = state_of(&post->scene);
  return state.has_prompt ? (int64_t)state.prompt.messages : -1;
}

static void enqueue(struct post *post, const char *id, const char *conversation, int64_t not_before_ms, int64_t expires_at_ms,
                    bool unmetered_only) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = "hello";
  draft.body_size = 5;
  draft.not_before_ms = not_before_ms;
  draft.expires_at_ms = expires_at_ms;
  draft.unmetered_only = unmetered_only;
  REQUIRE_OK(msgq_enqueue(post->scene.queue, &draft, NULL));
}

static msgq_report drain_with_failed(struct post *post) {
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  options.include_failed = true;
  CHECK_RESULT(MSGQ_OK, msgq_drain(post->scene.queue, &options, &report));
  return report;
}

TEST_LONG(Q22_the_standing_prompt_follows_the_queue) {
  struct post post;
  struct entry entry;
  char id[16];
  begin(&post);
  post_open(&post);
  put(&post.scene, "m1", "ana", "1");
  put(&post.scene, "m2", "ana", "22");
  set_online(&post.scene);
  AWAIT(events(&post, MSGQ_EVENT_PROMPT) == 1);
  int64_t expires = state_of(&post.scene).prompt.expires_ms;
  put(&post.scene, "m3", "ana", "333");
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT_CHANGED, &entry) && entry.prompt.messages == 3);
  CHECK_TEXT("Connected. Auto-send 3 queued messages?", entry.prompt_text);
  CHECK(entry.prompt.bytes == 6 && entry.prompt.conversations == 1 && entry.prompt.timeout_ms == 3600000 && entry.prompt.failed == 0);
  msgq_state state = state_of(&post.scene);
  CHECK(state.prompt.messages == 3 && state.prompt.bytes == 6 && state.prompt.expires_ms == expires && state.prompt_failed == 0);
  CHECK_TEXT(entry.prompt_text, state.prompt.text);
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "m1"));
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "m2"));
  AWAIT(asked(&post) == 1);
  CHECK_TEXT("Connected. Auto-send 1 queued message?", state_of(&post.scene).prompt.text);
  /* The handler is told later than the state changes. */
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT_CHANGED, &entry) && entry.prompt.messages == 1);
  /* Many changes are few events: at most four a second. */
  size_t before = events(&post, MSGQ_EVENT_PROMPT_CHANGED);
  int64_t start = steady_ms();
  for (int number = 0; number < 200; number++) {
    snprintf(id, sizeof id, "n%d", number);
    put(&post.scene, id, "ana", "x");
    pause_ms(2);
  }
  AWAIT(asked(&post) == 201);
  int64_t most = (steady_ms() - start) / 250 + 1;
  CHECK((int64_t)(events(&post, MSGQ_EVENT_PROMPT_CHANGED) - before) <= most);
  CHECK_NUMBER(expires, state_of(&post.scene).prompt.expires_ms);
  CHECK_NUMBER(1, events(&post, MSGQ_EVENT_PROMPT));
  CHECK_NUMBER(201, drain(&post.scene).sent);
  CHECK_NUMBER(1, events(&post, MSGQ_EVENT_PROMPT_WITHDRAWN));
  CHECK_NUMBER(0, atomic_load(&post.scene.journal.malformed));
  post_end(&post);
}

TEST_LONG(Q22_a_prompt_with_nothing_left_is_withdrawn) {
  struct post post;
  begin(&post);
  post_open(&post);
  put(&post.scene, "m1", "ana", "hello");
  set_online(&post.scene);
  AWAIT(events(&post, MSGQ_EVENT_PROMPT) == 1);
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, "ana"));
  AWAIT(events(&post, MSGQ_EVENT_PROMPT_WITHDRAWN) == 1);
  CHECK(!state_of(&post.scene).has_prompt && counts_of(&post.scene, NULL).queued == 1);
  /* It was the answer to this return of the connection. */
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, "ana"));
  put(&post.scene, "m2", "ana", "hello");
  pause_ms(300);
  CHECK_NUMBER(1, events(&post, MSGQ_EVENT_PROMPT));
  set_offline(&post.scene);
  set_online(&post.scene);
  AWAIT(asked(&post) == 2);
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, NULL));
  AWAIT(events(&post, MSGQ_EVENT_PROMPT_WITHDRAWN) == 2);
  post_end(&post);
}

TEST_LONG(Q22_only_what_a_yes_sends_is_counted) {
  struct post post;
  int64_t now = wall_ms();
  begin(&post);
  post_open(&post);
  put_each(&post.scene, { "m1", "ana", "hello" }, { "m2", "ana", "hello" }, { "p1", "ben", "hello" }, { "p2", "ben", "hello" });
  enqueue(&post, "s1", "ana", now + 3600000, 0, false);
  enqueue(&post, "u1", "ana", 0, 0, true);
  enqueue(&post, "x1", "ana", 0, now + 50, false);
  put(&post.scene, "m3", "cleo", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, "ben"));
  AWAIT(status_of(&post.scene, "x1") == MSGQ_STATUS_FAILED);
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(post.scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, true));
  AWAIT(asked(&post) == 3);
  msgq_state state = state_of(&post.scene);
  CHECK(state.prompt.bytes == 15 && state.prompt.conversations == 2 && state.prompt_failed == 0);
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(post.scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false));
  AWAIT(asked(&post) == 4);
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, "ben"));
  AWAIT(asked(&post) == 6);
  CHECK_NUMBER(6, drain(&post.scene).sent);
  CHECK_NUMBER(1, counts_of(&post.scene, NULL).queued);
  post_end(&post);
}

TEST_LONG(Q22_a_scheduled_message_is_counted_when_it_is_due) {
  struct post post;
  begin(&post);
  post_open(&post);
  enqueue(&post, "s1", "ana", wall_ms() + 700, 0, false);
  set_online(&post.scene);
  pause_ms(100);
  CHECK_NUMBER(0, events(&post, MSGQ_EVENT_PROMPT));
  AWAIT(asked(&post) == 1);
  enqueue(&post, "s2", "ben", wall_ms() + 700, 0, false);
  AWAIT(asked(&post) == 2);
  CHECK_NUMBER(2, drain(&post.scene).sent);
  post_end(&post);
}

TEST_LONG(Q22_what_is_blocked_or_waits_for_a_retry_is_not_counted) {
  static const int64_t ladder[] = { 3600000 };
  for (int way = 0; way < 2; way++) {
    struct post post;
    begin(&post);
    if (way == 0) post.scene.options.final_failure = MSGQ_FINAL_BLOCK;
    else set_ladder(&post.scene, ladder, 1);
    post_open(&post);
    receiver_answer(post.receiver, "m1", way == 0 ? 400 : 503, 1, NULL);
    put_each(&post.scene, { "m1", "ana", "hello" }, { "m2", "ana", "hello" }, { "m3", "ana", "hello" });
    set_online(&post.scene);
    AWAIT(asked(&post) == 3);
    CHECK_NUMBER(0, drain(&post.scene).sent);
    /* After a restart only the store knows of it. */
    scene_close(&post.scene);
    post_open(&post);
    put(&post.scene, "n1", "ben", "hello");
    set_online(&post.scene);
    AWAIT(asked(&post) == 1);
    CHECK_NUMBER(1, drain(&post.scene).sent);
    CHECK_NUMBER(way == 0 ? 2 : 3, counts_of(&post.scene, NULL).queued);
    post_end(&post);
  }
}

TEST(Q22_what_is_sent_without_an_answer_is_not_counted) {
  struct post post;
  begin(&post);
  post.scene.options.direct = true;
  post.scene.options.max_in_flight = 2;
  post_open(&post);
  put(&post.scene, "m1", "ana", "hello");
  put(&post.scene, "m2", "ana", "hello");
  set_online(&post.scene);
  AWAIT(asked(&post) == 2);
  receiver_hold(post.receiver, true);
  put(&post.scene, "d1", "ben", "hello"); /* direct */
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "m1"));
  AWAIT(asked(&post) == 1);
  receiver_hold(post.receiver, false);
  AWAIT(counts_of(&post.scene, NULL).queued == 1);
  AWAIT(counts_of(&post.scene, NULL).sent == 2);
  CHECK_NUMBER(1, asked(&post));
  CHECK_NUMBER(1, drain(&post.scene).sent);
  post_end(&post);
}

TEST(Q22_the_batch_of_a_drain_limits_the_count) {
  struct post post;
  begin(&post);
  post.scene.options.drain_batch = 2;
  post_open(&post);
  put_each(&post.scene, { "m1", "ana", "hello" }, { "m2", "ben", "hello" }, { "m3", "cleo", "hello" });
  set_online(&post.scene);
  AWAIT(asked(&post) == 2);
  CHECK_NUMBER(2, drain(&post.scene).sent);
  post_end(&post);
}

/* Opens a queue that asks for failed messages, too, with `queued` and `failed` ones, offline. */
static void begin_with_failed(struct post *post, int queued, int failed) {
  char id[16];
  begin(post);
  post->scene.options.prompt_for_failed = true;
  post_open(post);
  for (int number = 1; number <= failed; number++) {
    snprintf(id, sizeof id, "f%d", number);
    receiver_answer(post->receiver, id, 400, 1, NULL);
    put(&post->scene, id, "ana", "hello");
  }
  set_online(&post->scene);
  if (failed > 0) drain(&post->scene);
  CHECK_NUMBER(failed, counts_of(&post->scene, NULL).failed);
  set_offline(&post->scene);
  for (int number = 1; number <= queued; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post->scene, id, number % 2 == 1 ? "ana" : "ben", "hello");
  }
}

TEST(Q22_the_prompt_asks_about_failed_messages_too) {
  struct post post;
  struct entry entry;
  begin_with_failed(&post, 5, 2);
  set_online(&post.scene);
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT, &entry) && entry.prompt.failed == 2);
  CHECK_TEXT("Connected. Auto-send 5 queued and 2 failed messages?", entry.prompt_text);
  CHECK(entry.prompt.messages == 5 && entry.prompt.bytes == 35 && entry.prompt.conversations == 2);
  CHECK_NUMBER(2, state_of(&post.scene).prompt_failed);
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "f1"));
  AWAIT(state_of(&post.scene).prompt_failed == 1);
  CHECK_TEXT("Connected. Auto-send 5 queued and 1 failed message?", state_of(&post.scene).prompt.text);
  msgq_report report = drain_with_failed(&post);
  CHECK(report.sent == 6 && report.put_back == 1 && report.remaining == 0 && report.remaining_failed == 0);
  CHECK_NUMBER(0, state_of(&post.scene).prompt_failed);
  post_end(&post);
}

TEST(Q22_a_plain_drain_answers_a_prompt_for_failed_messages_and_leaves_them) {
  struct post post;
  begin_with_failed(&post, 1, 1);
  set_online(&post.scene);
  AWAIT(state_of(&post.scene).prompt_failed == 1);
  CHECK_TEXT("Connected. Auto-send 1 queued and 1 failed message?", state_of(&post.scene).prompt.text);
  size_t before = events(&post, MSGQ_EVENT_PROMPT_WITHDRAWN);
  msgq_report report = drain(&post.scene);
  CHECK(report.sent == 1 && report.put_back == 0 && report.remaining_failed == 1);
  CHECK_NUMBER(before + 1, events(&post, MSGQ_EVENT_PROMPT_WITHDRAWN));
  post_end(&post);
}

TEST_LONG(Q22_failed_messages_alone_raise_a_prompt) {
  struct post post;
  begin_with_failed(&post, 0, 2);
  set_online(&post.scene);
  AWAIT(state_of(&post.scene).prompt_failed == 2);
  CHECK_TEXT("Connected. Auto-send 2 failed messages?", state_of(&post.scene).prompt.text);
  CHECK_NUMBER(0, asked(&post));
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "f1"));
  AWAIT(state_of(&post.scene).prompt_failed == 1);
  CHECK_TEXT("Connected. Auto-send 1 failed message?", state_of(&post.scene).prompt.text);
  /* Those of a paused conversation stay failed. */
  size_t before = events(&post, MSGQ_EVENT_PROMPT_WITHDRAWN);
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, "ana"));
  AWAIT(events(&post, MSGQ_EVENT_PROMPT_WITHDRAWN) == before + 1);
  post_end(&post);
}

TEST(Q22_without_the_option_failed_messages_raise_no_prompt) {
  struct post post;
  begin(&post);
  post_open(&post);
  receiver_answer(post.receiver, "m1", 400, 1, NULL);
  put(&post.scene, "m1", "ana", "hello");
  set_online(&post.scene);
  AWAIT(asked(&post) == 1);
  drain(&post.scene);
  set_offline(&post.scene);
  set_online(&post.scene);
  pause_ms(100);
  CHECK(!state_of(&post.scene).has_prompt && counts_of(&post.scene, NULL).failed == 1);
  post_end(&post);
}

/* A million messages: a third scheduled, a third paused. */
TEST_LONG(Q22_a_million_messages_are_counted) {
  enum { total = 1000000, batch = 10000 };
  struct post post;
  static msgq_draft drafts[batch];
  int64_t later = wall_ms() + 3600000;
  int count = check_times(total, batch);
  begin(&post);
  post_open(&post);
  for (int first = 0; first < count; first += batch) {
    for (int index = 0; index < batch; index++) {
      msgq_draft draft = MSGQ_DRAFT_INIT;
      draft.conversation = index % 3 == 0 ? "ana" : index % 3 == 1 ? "cleo" : "ben";
      draft.body = "hello";
      draft.body_size = 5;
      draft.not_before_ms = index % 3 == 1 ? later : 0;
      drafts[index] = draft;
    }
    REQUIRE_OK(msgq_enqueue_batch(post.scene.queue, drafts, batch, NULL));
  }
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, "ben"));
  int64_t expected = count / batch * ((batch + 2) / 3);
  set_online(&post.scene);
  AWAIT(asked(&post) == expected);
  put(&post.scene, "m1", "ana", "hello");
  AWAIT(asked(&post) == expected + 1);
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, "ben"));
  AWAIT(asked(&post) == expected + 1 + count / batch * (batch / 3));
  CHECK_RESULT(MSGQ_OK, msgq_withdraw_prompt(post.scene.queue));
  post_end(&post);
}

/* Conversations whose only message is scheduled are examined one by one, and all of them get another message after the first ones were. */
TEST_LONG(Q22_a_count_that_a_lost_connection_interrupted_begins_again) {
  enum { total = 20000 };
  static char names[total][8];
  static msgq_draft drafts[total];
  struct post post;
  struct entry entry;
  size_t count = (size_t)check_times(total, 2000);
  begin(&post);
  post_open(&post);
  for (size_t index = 0; index < count; index++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    snprintf(names[index], sizeof names[index], "c%zu", index);
    draft.conversation = names[index];
    draft.body = "hello";
    draft.body_size = 5;
    draft.not_before_ms = wall_ms() + 3600000;
    drafts[index] = draft;
  }
  REQUIRE_OK(msgq_enqueue_batch(post.scene.queue, drafts, count, NULL));
  set_online(&post.scene);
  pause_ms(20);
  set_offline(&post.scene);
  for (size_t index = 0; index < count; index++) drafts[index].not_before_ms = 0;
  REQUIRE_OK(msgq_enqueue_batch(post.scene.queue, drafts, count, NULL));
  set_online(&post.scene);
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT, &entry));
  CHECK_NUMBER(count, entry.prompt.messages);
  CHECK_NUMBER(count, entry.prompt.conversations);
  post_end(&post);
}
