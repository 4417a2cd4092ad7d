/* msgq_get_state, banners and explanations. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "drainer.h"
#include "faults.h"
#include "post.h"
#include "stub.h"

static const int64_t one_hour[] = { 3600000 };

/* Checks the reason of the state, and that its text is a sentence. */
static msgq_state check_state(struct scene *scene, msgq_reason expected) {
  msgq_state state = state_of(scene);
  size_t length = strlen(state.text);
  CHECK_NUMBER(expected, state.reason);
  CHECK_NUMBER(sizeof state, state.struct_size);
  CHECK_NUMBER(sizeof state.prompt, state.prompt.struct_size);
  CHECK(length > 5 && state.text[length - 1] == '.');
  return state;
}

static bool is_close(int64_t expected_ms, int64_t actual_ms) {
  return actual_ms <= expected_ms && actual_ms > expected_ms - 6 * check_timeout_ms();
}

TEST(Q20_the_state_reports_connectivity_lifecycle_and_pauses) {
  struct scene scene;
  struct stub stub;
  scene_begin_open(&scene);
  msgq_state state = check_state(&scene, MSGQ_REASON_NO_TRANSPORT);
  CHECK(state.connectivity == MSGQ_CONNECTIVITY_UNKNOWN && state.link == MSGQ_LINK_NONE && !state.metered);
  CHECK(state.lifecycle == MSGQ_LIFECYCLE_FOREGROUND && state.mode == MSGQ_MODE_MANUAL);
  CHECK(!state.paused && !state.draining && !state.has_transport && !state.has_prompt && !state.storage_trouble);
  CHECK(state.storage == MSGQ_OK && state.in_flight == 0 && state.paused_conversations == 0 && state.until_ms == 0);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  state = check_state(&scene, MSGQ_REASON_NONE);
  CHECK(state.has_transport);
  CHECK_TEXT("Nothing is waiting to be sent.", state.text);
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, true));
  CHECK_RESULT(MSGQ_OK, msgq_set_lifecycle(scene.queue, MSGQ_LIFECYCLE_BACKGROUND));
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, "ana"));
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, "ben"));
  state = check_state(&scene, MSGQ_REASON_NONE);
  CHECK(state.connectivity == MSGQ_CONNECTIVITY_ONLINE && state.link == MSGQ_LINK_CELLULAR && state.metered);
  CHECK(state.lifecycle == MSGQ_LIFECYCLE_BACKGROUND && state.paused_conversations == 2 && !state.paused);
  CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, "ana"));
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, NULL));
  state = check_state(&scene, MSGQ_REASON_PAUSED);
  CHECK(state.paused && state.paused_conversations == 1);
  CHECK_TEXT("Sending is paused.", state.text);
  set_offline(&scene);
  state = check_state(&scene, MSGQ_REASON_OFFLINE);
  CHECK_TEXT("You're offline.", state.text);
  put(&scene, "a", "ana", "1");
  CHECK_TEXT("You're offline. 1 message queued.", state_of(&scene).text);
  CHECK_RESULT(MSGQ_OK, msgq_set_transport(scene.queue, NULL, NULL, NULL));
  state = check_state(&scene, MSGQ_REASON_NO_TRANSPORT);
  CHECK(!state.has_transport);
  scene_end(&scene);
}

TEST(Q20_the_prompt_in_the_state_equals_the_prompt_event) {
  struct post post;
  struct entry entry;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_ASK;
  post.scene.options.online_debounce_ms = 0;
  post.scene.options.prompt_timeout_ms = 3600000;
  post_open(&post);
  set_offline(&post.scene);
  put(&post.scene, "m1", "ana", "1");
  put(&post.scene, "m2", "ben", "22");
  CHECK(!state_of(&post.scene).has_prompt);
  CHECK_TEXT("You're offline. 2 messages queued.", state_of(&post.scene).text);
  set_online(&post.scene);
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT, &entry)); /* its messages are counted first */
  msgq_state state = check_state(&post.scene, MSGQ_REASON_PERSON);
  CHECK(state.has_prompt && state.prompt.messages == entry.prompt.messages && state.prompt.bytes == entry.prompt.bytes);
  CHECK(state.prompt.oldest_ms == entry.prompt.oldest_ms && state.prompt.conversations == entry.prompt.conversations);
  CHECK(state.prompt.timeout_ms == entry.prompt.timeout_ms && state.prompt.messages == 2 && state.prompt.bytes == 3);
  CHECK(is_close(wall_ms() + 3600000, state.prompt.expires_ms));
  CHECK_TEXT(entry.prompt_text, state.prompt.text);
  CHECK_TEXT("Waiting for your confirmation.", state.text);
  CHECK_TEXT("Waiting for your confirmation.", explain(&post.scene, "m1").text);
  put(&post.scene, "m3", "ana", "333");
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_PROMPT_CHANGED, &entry));
  state = state_of(&post.scene);
  CHECK(state.prompt.messages == 3 && entry.prompt.messages == 3 && state.prompt.bytes == 6 && entry.prompt.bytes == 6);
  CHECK_NUMBER(3, drain(&post.scene).sent);
  state = check_state(&post.scene, MSGQ_REASON_NONE);
  CHECK(!state.has_prompt && state.prompt.messages == 0 && state.prompt.expires_ms == 0 && state.prompt.text[0] == '\0');
  post_end(&post);
}

TEST(Q20_an_expired_or_withdrawn_prompt_is_not_in_the_state) {
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_ASK;
  post.scene.options.online_debounce_ms = 0;
  post.scene.options.prompt_timeout_ms = 100;
  post_open(&post);
  set_offline(&post.scene);
  put(&post.scene, "m1", "ana", "1");
  set_online(&post.scene);
  AWAIT(!state_of(&post.scene).has_prompt);
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_PROMPT_WITHDRAWN) == 1);
  CHECK_TEXT("Waiting for you to send 1 message.", check_state(&post.scene, MSGQ_REASON_PERSON).text);
  CHECK_TEXT("Waiting for you to send it.", explain(&post.scene, "m1").text);
  set_offline(&post.scene);
  CHECK(!state_of(&post.scene).has_prompt);
  post_end(&post);
}

TEST(Q20_A7_the_state_during_a_drain) {
  struct post post;
  pthread_t thread;
  post_begin_open(&post);
  struct drainer drainer = { .queue = post.scene.queue };
  put(&post.scene, "a1", "ana", "1");
  put(&post.scene, "a2", "ana", "2");
  CHECK_TEXT("Waiting for you to send 2 messages.", check_state(&post.scene, MSGQ_REASON_PERSON).text);
  receiver_hold(post.receiver, true);
  REQUIRE(pthread_create(&thread, NULL, drainer_run, &drainer) == 0);
  AWAIT(receiver_requests(post.receiver, "a1") == 1);
  msgq_state state = check_state(&post.scene, MSGQ_REASON_SENDING);
  CHECK(state.draining && state.in_flight == 1);
  CHECK_TEXT("1 message is being sent.", state.text);
  CHECK(banner_of(&post.scene, "ana", "Sending 2 messages\xe2\x80\xa6"));
  CHECK(banner_of(&post.scene, "ben", ""));
  receiver_hold(post.receiver, false);
  pthread_join(thread, NULL);
  CHECK_NUMBER(2, drainer.report.sent);
  state = check_state(&post.scene, MSGQ_REASON_NONE);
  CHECK(!state.draining && state.in_flight == 0);
  post_end(&post);
}

TEST(Q20_the_state_reports_until_when_the_queue_waits) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.online_debounce_ms = 0;
  set_ladder(&scene, one_hour, 1);
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.kind = MSGQ_FAILURE_SERVER;
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  int64_t tomorrow = wall_ms() + 86400000;
  put_timed(&scene, "later", "ben", tomorrow, 0);
  msgq_state state = check_state(&scene, MSGQ_REASON_SCHEDULED);
  CHECK(state.until_ms >= tomorrow - 10 && state.until_ms <= tomorrow + 10);
  CHECK_TEXT("The next message is scheduled to be sent in 24 h.", state.text);
  put(&scene, "a", "ana", "1");
  AWAIT(attempts_of(&scene, "a") == 1 && status_of(&scene, "a") == MSGQ_STATUS_QUEUED);
  /* The message that is due first, in more than a minute, so that no timer is set yet. */
  state = check_state(&scene, MSGQ_REASON_RETRYING);
  CHECK(is_close(wall_ms() + 3600000, state.until_ms));
  CHECK(strncmp(state.text, "The last attempt failed. The next one is in ", 44) == 0);
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "a"));
  check_state(&scene, MSGQ_REASON_SCHEDULED);
  CHECK_RESULT(MSGQ_OK, msgq_set_lifecycle(scene.queue, MSGQ_LIFECYCLE_BACKGROUND));
  /* In the background the text says that nothing is sent until the queue runs. */
  CHECK(strncmp(check_state(&scene, MSGQ_REASON_SCHEDULED).text, "Sending resumes the next time the queue runs, in ", 48) == 0);
  CHECK_RESULT(MSGQ_OK, msgq_set_lifecycle(scene.queue, MSGQ_LIFECYCLE_FOREGROUND));
  CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, "ben"));
  CHECK_TEXT("Sending is paused in 1 conversation.", check_state(&scene, MSGQ_REASON_PAUSED).text);
  CHECK_RESULT(MSGQ_OK, msgq_resume(scene.queue, "ben"));
  check_state(&scene, MSGQ_REASON_SCHEDULED);
  /* The receiver sends a Retry-After for the whole queue. */
  stub.retry_after_ms = 1800000;
  stub.retry_after_queue = true;
  put(&scene, "b", "cem", "2");
  AWAIT(attempts_of(&scene, "b") == 1 && status_of(&scene, "b") == MSGQ_STATUS_QUEUED);
  state = check_state(&scene, MSGQ_REASON_RETRYING);
  CHECK(is_close(wall_ms() + 3600000, state.until_ms));
  /* A new message waits for that time. */
  put(&scene, "c", "dana", "3");
  state = check_state(&scene, MSGQ_REASON_HOLDING);
  CHECK(is_close(wall_ms() + 1800000, state.until_ms));
  CHECK(strncmp(state.text, "Sending resumes in ", 19) == 0);
  scene_end(&scene);
}

TEST(Q20_the_state_on_metered_and_new_links) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.online_debounce_ms = 3600000;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, true));
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.unmetered_only = true;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_TEXT("Waiting for an unmetered connection.", check_state(&scene, MSGQ_REASON_METERED).text);
  set_offline(&scene);
  CHECK_TEXT("You're offline. 1 message queued.", check_state(&scene, MSGQ_REASON_OFFLINE).text);
  set_online(&scene);
  CHECK(is_close(wall_ms() + 3600000, check_state(&scene, MSGQ_REASON_HOLDING).until_ms));
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  scene_end(&scene);
}

TEST(Q20_the_state_with_a_failed_message_that_blocks_others) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.final_failure = MSGQ_FINAL_BLOCK;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  put(&scene, "a1", "ana", "1");
  put(&scene, "a2", "ana", "2");
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  AWAIT(status_of(&scene, "a1") == MSGQ_STATUS_FAILED && atomic_load(&stub.inside) == 0);
  AWAIT(state_of(&scene).reason == MSGQ_REASON_BLOCKED);
  CHECK_TEXT("A failed message blocks the messages behind it. Retry or delete it.", check_state(&scene, MSGQ_REASON_BLOCKED).text);
  CHECK(banner_is(&scene, "1 message queued. 1 message failed."));
  scene_end(&scene);
}

TEST_ALONE(Q20_storage_trouble_is_set_and_cleared) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "1");
  struct rlimit before = forbid_growth(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  static char body[400000];
  draft.body = body;
  draft.body_size = sizeof body;
  msgq_result result = msgq_enqueue(scene.queue, &draft, NULL);
  msgq_state state = MSGQ_STATE_INIT;
  msgq_result asked = msgq_get_state(scene.queue, &state);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(result == MSGQ_STORAGE || result == MSGQ_UNKNOWN);
  CHECK_RESULT(MSGQ_OK, asked);
  CHECK(state.storage == result && state.storage_trouble);
  struct entry entry;
  AWAIT(journal_last(&scene.journal, MSGQ_EVENT_STORAGE, &entry) && entry.result == result);
  put(&scene, "b", "ana", "2");
  state = state_of(&scene);
  CHECK(state.storage == MSGQ_OK && !state.storage_trouble);
  CHECK_NUMBER(2, drain(&scene).sent);
  scene_end(&scene);
}

TEST_ALONE(Q20_a_message_whose_outcome_cannot_be_written_is_sending) {
  struct scene scene;
  struct stub stub;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "a", "ana", "1");
  put(&scene, "b", "ana", "2");
  put(&scene, "c", "ben", "3");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) == 1 && atomic_load(&stub.inside) == 0);
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  outcome.verdict = MSGQ_VERDICT_SENT;
  msgq_counts all = MSGQ_COUNTS_INIT, ana = MSGQ_COUNTS_INIT, ben = MSGQ_COUNTS_INIT;
  msgq_state state = MSGQ_STATE_INIT;
  struct rlimit before = forbid_growth(&scene);
  msgq_result answered = msgq_complete(scene.queue, atomic_load(&stub.token), &outcome);
  msgq_result asked = msgq_get_state(scene.queue, &state);
  msgq_status status = status_of(&scene, "a");
  msgq_result counted = msgq_count(scene.queue, NULL, &all);
  if (counted == MSGQ_OK) counted = msgq_count(scene.queue, "ana", &ana);
  if (counted == MSGQ_OK) counted = msgq_count(scene.queue, "ben", &ben);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK_RESULT(MSGQ_OK, answered);
  CHECK_RESULT(MSGQ_OK, asked);
  CHECK(state.storage_trouble);
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status);
  CHECK_RESULT(MSGQ_OK, counted);
  CHECK(all.sending == 1 && all.queued == 2 && all.sent == 0);
  CHECK(ana.sending == 1 && ana.queued == 1 && ana.sent == 0);
  CHECK(ben.sending == 0 && ben.queued == 1);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

TEST(Q20_a_read_only_queue_has_a_state) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "1");
  scene_close(&scene);
  scene.options.read_only = true;
  scene.options.mode = MSGQ_MODE_AUTO;
  scene_open(&scene);
  msgq_state state = check_state(&scene, MSGQ_REASON_NO_TRANSPORT);
  CHECK_TEXT("The store is open for reading only. Nothing is sent from it.", state.text);
  CHECK_TEXT(state.text, explain(&scene, "a").text);
  CHECK(!state.has_transport && !state.draining && state.storage == MSGQ_OK);
  set_offline(&scene);
  CHECK_NUMBER(MSGQ_CONNECTIVITY_OFFLINE, state_of(&scene).connectivity);
  CHECK(banner_of(&scene, "ana", "You're offline. 1 message queued."));
  CHECK(banner_of(&scene, "nobody", "You're offline."));
  scene_end(&scene);
}

TEST(Q2_Q19_the_banner_of_one_conversation_counts_its_messages) {
  struct post post;
  post_begin_open(&post);
  receiver_answer(post.receiver, "b1", 400, 1, NULL);
  put(&post.scene, "b1", "ben", "1");
  drain(&post.scene);
  set_offline(&post.scene);
  put(&post.scene, "a1", "ana", "1");
  put(&post.scene, "a2", "ana", "2");
  put(&post.scene, "b2", "ben", "3");
  CHECK(banner_is(&post.scene, "You're offline. 3 messages queued. 1 message failed."));
  CHECK(banner_of(&post.scene, "ana", "You're offline. 2 messages queued."));
  CHECK(banner_of(&post.scene, "ben", "You're offline. 1 message queued. 1 message failed."));
  CHECK(banner_of(&post.scene, "cem", "You're offline."));
  set_online(&post.scene);
  CHECK(banner_of(&post.scene, "ana", "2 messages queued."));
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, "ana"));
  CHECK(banner_of(&post.scene, "ana", "Sending is paused. 2 messages queued."));
  CHECK(banner_of(&post.scene, "ben", "1 message queued. 1 message failed."));
  CHECK(banner_is(&post.scene, "3 messages queued. 1 message failed."));
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, NULL));
  CHECK(banner_is(&post.scene, "Sending is paused. 3 messages queued. 1 message failed."));
  post_end(&post);
}

TEST_LONG(H7_Q2_texts_promise_sending_only_if_it_happens) {
  static const struct {
    msgq_mode mode;
    const char *banner, *explanation;
  } modes[] = {
    { MSGQ_MODE_AUTO, "You're offline. Messages will send when connected.", "You're offline. It will be sent when connected." },
    { MSGQ_MODE_ASK, "You're offline.", "You're offline. Waiting for you to send it." },
    { MSGQ_MODE_MANUAL, "You're offline.", "You're offline. Waiting for you to send it." },
  };
  for (size_t index = 0; index < sizeof modes / sizeof modes[0]; index++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    scene.options.mode = modes[index].mode;
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    stub_open(&stub, &scene);
    set_offline(&scene);
    CHECK(banner_is(&scene, modes[index].banner));
    CHECK_TEXT(modes[index].banner, state_of(&scene).text);
    for (int number = 1; number <= 3; number++) {
      char id[8];
      snprintf(id, sizeof id, "m%d", number);
      put(&scene, id, "ana", "hello");
      CHECK_TEXT(number == 1 || modes[index].mode == MSGQ_MODE_AUTO ? modes[index].explanation
                                                                    : "You're offline. Another message of this conversation goes first.",
                 explain(&scene, id).text);
    }
    CHECK(banner_is(&scene, modes[index].mode == MSGQ_MODE_AUTO ? "You're offline. 3 messages queued. They will be sent when connected."
                                                                : "You're offline. 3 messages queued."));
    CHECK_RESULT(MSGQ_OK, msgq_pause(scene.queue, NULL));
    CHECK_TEXT("You're offline. Sending is paused.", explain(&scene, "m1").text);
    CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
    CHECK(banner_is(&scene, "You're offline."));
    scene_end(&scene);
  }
}

TEST(X1_offline_explanations_say_what_happens_when_connected) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  set_offline(&scene);
  put_timed(&scene, "later", "ana", wall_ms() + 7200000 + 1800000, 0);
  CHECK_TEXT("You're offline. It will be sent when connected, in 3 h at the earliest.", explain(&scene, "later").text);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "large";
  draft.conversation = "ben";
  draft.unmetered_only = true;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_TEXT("You're offline. Waiting for an unmetered connection.", explain(&scene, "large").text);
  put(&scene, "c", "cem", "1");
  CHECK_RESULT(MSGQ_OK, msgq_set_lifecycle(scene.queue, MSGQ_LIFECYCLE_BACKGROUND));
  CHECK_TEXT("You're offline. It will be sent the next time the queue runs.", explain(&scene, "c").text);
  CHECK_NUMBER(MSGQ_REASON_OFFLINE, reason_of(&scene, "c"));
  scene_end(&scene);
}

TEST(A7_connectivity_labels) {
  CHECK_TEXT("Unknown", msgq_connectivity_label(MSGQ_CONNECTIVITY_UNKNOWN));
  CHECK_TEXT("Offline", msgq_connectivity_label(MSGQ_CONNECTIVITY_OFFLINE));
  CHECK_TEXT("Online", msgq_connectivity_label(MSGQ_CONNECTIVITY_ONLINE));
  CHECK(msgq_connectivity_label(MSGQ_CONNECTIVITY_ONLINE) == msgq_connectivity_label(MSGQ_CONNECTIVITY_ONLINE));
  static const int invalid[] = { 3, 255, -1, 2147483647 };
  for (size_t index = 0; index < sizeof invalid / sizeof invalid[0]; index++) {
    CHECK_TEXT("", msgq_connectivity_label((msgq_connectivity)invalid[index]));
  }
}

TEST(A7_the_banner_counts_a_manual_send_without_the_backlog) {
  struct post post;
  post_begin_open(&post);
  put(&post.scene, "a1", "ana", "1");
  put(&post.scene, "b1", "ben", "2");
  put(&post.scene, "b2", "ben", "3");
  receiver_hold(post.receiver, true);
  CHECK_RESULT(MSGQ_OK, msgq_send_now(post.scene.queue, "a1"));
  AWAIT(receiver_requests(post.receiver, "a1") == 1);
  CHECK(banner_is(&post.scene, "Sending 1 message\xe2\x80\xa6 2 messages queued."));
  CHECK(banner_of(&post.scene, "ben", "2 messages queued."));
  receiver_hold(post.receiver, false);
  AWAIT(status_of(&post.scene, "a1") == MSGQ_STATUS_SENT);
  post_end(&post);
}
