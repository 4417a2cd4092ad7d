/* Mode ask: when the prompt is raised, confirmed and withdrawn. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "post.h"

/* Opens a queue in mode ask, offline, with `messages` queued: m1 of 1 byte, m2 of 2 bytes and so on, alternating between ana and ben. */
static void begin_asking(struct post *post, int messages, int64_t prompt_timeout_ms, int64_t online_debounce_ms) {
  post_begin(post);
  post->scene.options.mode = MSGQ_MODE_ASK;
  post->scene.options.prompt_timeout_ms = prompt_timeout_ms;
  post->scene.options.online_debounce_ms = online_debounce_ms;
  post_open(post);
  set_offline(&post->scene);
  for (int number = 1; number <= messages; number++) {
    char id[16], body[16] = "";
    snprintf(id, sizeof id, "m%d", number);
    memset(body, 'x', (size_t)number);
    put(&post->scene, id, number % 2 == 1 ? "ana" : "ben", body);
  }
}

static size_t prompts(struct post *post) { return journal_count(&post->scene.journal, MSGQ_EVENT_PROMPT); }

static size_t withdrawn(struct post *post) { return journal_count(&post->scene.journal, MSGQ_EVENT_PROMPT_WITHDRAWN); }

TEST(Q4_the_prompt_has_a_digest_and_a_drain_confirms_it) {
  struct post post;
  struct entry entry;
  char order[64], unsent[64];
  int64_t before = wall_ms();
  begin_asking(&post, 5, 10000, 0);
  int64_t after = wall_ms();
  set_online(&post.scene);
  AWAIT(prompts(&post) == 1);
  REQUIRE(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT, &entry));
  CHECK_TEXT("Connected. Auto-send 5 queued messages?", entry.prompt_text);
  CHECK(entry.prompt.messages == 5 && entry.prompt.bytes == 15 && entry.prompt.conversations == 2 && entry.prompt.timeout_ms == 10000);
  CHECK(entry.prompt.oldest_ms >= before && entry.prompt.oldest_ms <= after);
  CHECK_NUMBER(MSGQ_REASON_PERSON, reason_of(&post.scene, "m1"));
  /* The answer "Review first" shows the list. */
  unsent_of(&post.scene, unsent, sizeof unsent);
  CHECK_TEXT("m1 m2 m3 m4 m5", unsent);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(5, drain(&post.scene).sent);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("m1 m2 m3 m4 m5", order);
  CHECK(prompts(&post) == 1 && withdrawn(&post) == 1);
  post_end(&post);
}

TEST(Q4_the_prompt_for_one_message_is_singular) {
  struct post post;
  struct entry entry;
  begin_asking(&post, 1, 10000, 0);
  set_online(&post.scene);
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT, &entry));
  CHECK_TEXT("Connected. Auto-send 1 queued message?", entry.prompt_text);
  post_end(&post);
}

TEST(Q4_an_expired_prompt_is_repeated_only_after_the_next_outage) {
  struct post post;
  begin_asking(&post, 2, 100, 0);
  int64_t start = steady_ms();
  set_online(&post.scene);
  AWAIT(withdrawn(&post) == 1);
  CHECK(steady_ms() - start >= 100);
  pause_ms(250);
  CHECK(prompts(&post) == 1 && withdrawn(&post) == 1);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(2, counts_of(&post.scene, NULL).queued);
  set_offline(&post.scene);
  set_online(&post.scene);
  AWAIT(prompts(&post) == 2);
  post_end(&post);
}

TEST(Q4_offline_withdraws_the_prompt) {
  struct post post;
  begin_asking(&post, 2, 60000, 0);
  set_online(&post.scene);
  AWAIT(prompts(&post) == 1);
  CHECK_NUMBER(0, withdrawn(&post));
  set_offline(&post.scene);
  AWAIT(withdrawn(&post) == 1);
  CHECK_NUMBER(2, counts_of(&post.scene, NULL).queued);
  post_end(&post);
}

TEST(Q4_an_empty_queue_withdraws_the_prompt) {
  struct post post;
  begin_asking(&post, 2, 60000, 0);
  set_online(&post.scene);
  AWAIT(prompts(&post) == 1);
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "m1"));
  CHECK_NUMBER(0, withdrawn(&post));
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "m2"));
  AWAIT(withdrawn(&post) == 1);
  /* An empty queue raises no prompt. */
  set_offline(&post.scene);
  set_online(&post.scene);
  pause_ms(50);
  CHECK_NUMBER(1, prompts(&post));
  post_end(&post);
}

TEST(Q4_a_short_connection_raises_no_prompt) {
  struct post post;
  begin_asking(&post, 1, 10000, 60000);
  set_online(&post.scene);
  CHECK_NUMBER(MSGQ_REASON_PERSON, reason_of(&post.scene, "m1"));
  pause_ms(50);
  CHECK_NUMBER(0, prompts(&post));
  set_offline(&post.scene);
  pause_ms(50);
  CHECK(prompts(&post) == 0 && withdrawn(&post) == 0);
  post_end(&post);
}

TEST_LONG(Q4_A5_a_hundred_changes_in_a_second_raise_one_prompt) {
  struct post post;
  begin_asking(&post, 3, 60000, 300);
  for (int change = 0; change < 100; change++) {
    if (change % 2 == 0) set_online(&post.scene);
    else set_offline(&post.scene);
    pause_ms(10);
  }
  CHECK_NUMBER(0, prompts(&post));
  set_online(&post.scene);
  AWAIT(prompts(&post) == 1);
  pause_ms(400);
  CHECK(prompts(&post) == 1 && withdrawn(&post) == 0);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  CHECK_NUMBER(3, drain(&post.scene).sent);
  CHECK_NUMBER(3, receiver_requests(post.receiver, NULL));
  CHECK(prompts(&post) == 1 && withdrawn(&post) == 1);
  post_end(&post);
}

TEST(Q4_a_drain_before_the_prompt_replaces_it) {
  struct post post;
  begin_asking(&post, 3, 60000, 100);
  set_online(&post.scene);
  CHECK_NUMBER(3, drain(&post.scene).sent);
  pause_ms(250);
  CHECK_NUMBER(0, prompts(&post));
  post_end(&post);
}

TEST(Q22_no_withdraws_the_prompt_and_sends_nothing) {
  struct post post;
  begin_asking(&post, 2, 60000, 0);
  CHECK_RESULT(MSGQ_OK, msgq_withdraw_prompt(post.scene.queue)); /* there is none */
  set_online(&post.scene);
  AWAIT(prompts(&post) == 1);
  CHECK(state_of(&post.scene).has_prompt);
  for (int call = 0; call < 2; call++) CHECK_RESULT(MSGQ_OK, msgq_withdraw_prompt(post.scene.queue));
  CHECK(!state_of(&post.scene).has_prompt);
  AWAIT(withdrawn(&post) == 1);
  pause_ms(100);
  CHECK(prompts(&post) == 1 && withdrawn(&post) == 1);
  CHECK_NUMBER(2, counts_of(&post.scene, NULL).queued);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  /* The next return of the connection asks again, and a drain is still a yes. */
  set_offline(&post.scene);
  set_online(&post.scene);
  AWAIT(prompts(&post) == 2);
  CHECK_NUMBER(2, drain(&post.scene).sent);
  post_end(&post);
}
