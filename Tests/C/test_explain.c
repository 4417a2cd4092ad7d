/* msgq_explain: every reason, its text, and that it agrees with what a drain does. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"
#include "drainer.h"
#include "faults.h"
#include "post.h"
#include "stub.h"

static const int64_t one_hour[] = { 3600000 };

/* Checks the reason, and that the text is a sentence. */
static msgq_explanation check_reason(struct scene *scene, const char *id, msgq_reason expected) {
  msgq_explanation explanation = explain(scene, id);
  size_t length = strlen(explanation.text);
  CHECK_NUMBER(expected, explanation.reason);
  CHECK_NUMBER(sizeof explanation, explanation.struct_size);
  CHECK(length > 5 && explanation.text[length - 1] == '.');
  CHECK((explanation.behind[0] != '\0') == (expected == MSGQ_REASON_BEHIND || expected == MSGQ_REASON_BLOCKED));
  return explanation;
}

TEST(X1_reasons_manual_offline_paused_failed_and_no_transport) {
  struct post post;
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  post_begin(&post);
  scene_open(&post.scene);
  put(&post.scene, "a1", "ana", "1");
  put(&post.scene, "a2", "ana", "2");
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_explain(post.scene.queue, "nobody", &explanation));
  check_reason(&post.scene, "a1", MSGQ_REASON_NO_TRANSPORT);
  REQUIRE_OK(msgq_set_transport(post.scene.queue, sender_send, &post.sender, sender_release));
  explanation = check_reason(&post.scene, "a1", MSGQ_REASON_PERSON);
  CHECK_TEXT("Waiting for you to send it.", explanation.text);
  explanation = check_reason(&post.scene, "a2", MSGQ_REASON_BEHIND);
  CHECK_TEXT("a1", explanation.behind);
  set_offline(&post.scene);
  explanation = check_reason(&post.scene, "a1", MSGQ_REASON_OFFLINE);
  CHECK_TEXT("You're offline. Waiting for you to send it.", explanation.text);
  check_reason(&post.scene, "a2", MSGQ_REASON_OFFLINE);
  set_online(&post.scene);
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, NULL));
  check_reason(&post.scene, "a1", MSGQ_REASON_PAUSED);
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, NULL));
  CHECK_NUMBER(2, drain(&post.scene).sent);
  check_reason(&post.scene, "a1", MSGQ_REASON_NONE);
  receiver_answer(post.receiver, "bad", 400, 1, NULL);
  put(&post.scene, "bad", "ben", "3");
  drain(&post.scene);
  check_reason(&post.scene, "bad", MSGQ_REASON_FAILED);
  /* A retry while paused queues the message. */
  CHECK_RESULT(MSGQ_OK, msgq_pause(post.scene.queue, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "bad"));
  check_reason(&post.scene, "bad", MSGQ_REASON_PAUSED);
  CHECK_RESULT(MSGQ_OK, msgq_resume(post.scene.queue, NULL));
  check_reason(&post.scene, "bad", MSGQ_REASON_PERSON);
  CHECK_NUMBER(1, drain(&post.scene).sent);
  check_reason(&post.scene, "bad", MSGQ_REASON_NONE);
  post_end(&post);
}

/* So many messages that wait for a time block those behind them. */
TEST_LONG(X1_M14_behind_more_scheduled_messages_than_are_passed_over) {
  enum { passed = 1024 };
  struct scene scene;
  struct stub stub;
  msgq_message *message = NULL;
  char id[16];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  for (int number = 0; number < passed; number++) {
    snprintf(id, sizeof id, "s%d", number);
    put_timed(&scene, id, "ana", wall_ms() + 86400000, 0);
  }
  put(&scene, "free", "ana", "1");
  CHECK_NUMBER(1, drain(&scene).sent);
  put_timed(&scene, "one more", "ana", wall_ms() + 86400000, 0);
  put(&scene, "blocked", "ana", "2");
  for (int round = 0; round < 2; round++) {
    msgq_explanation explanation = explain(&scene, "blocked");
    CHECK_NUMBER(MSGQ_REASON_BEHIND, explanation.reason);
    CHECK_TEXT("one more", explanation.behind);
    CHECK_RESULT(MSGQ_OK, msgq_wait(scene.queue, "blocked", -1, &message)); /* at once */
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, message->status);
    msgq_message_free(message);
    CHECK_NUMBER(0, drain(&scene).sent);
  }
  REQUIRE_OK(msgq_delete(scene.queue, "s7"));
  CHECK_NUMBER(1, drain(&scene).sent);
  scene_end(&scene);
}

TEST(X1_reasons_sending_next_and_behind) {
  struct post post;
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_AUTO;
  post_open(&post);
  receiver_hold(post.receiver, true);
  put(&post.scene, "a1", "ana", "1");
  AWAIT(receiver_requests(post.receiver, "a1") == 1);
  put(&post.scene, "a2", "ana", "2");
  put(&post.scene, "b1", "ben", "3");
  check_reason(&post.scene, "a1", MSGQ_REASON_SENDING);
  CHECK_TEXT("a1", check_reason(&post.scene, "a2", MSGQ_REASON_BEHIND).behind);
  check_reason(&post.scene, "b1", MSGQ_REASON_NEXT); /* one attempt at a time, and this is the next */
  receiver_hold(post.receiver, false);
  AWAIT(counts_of(&post.scene, NULL).sent == 3);
  post_end(&post);
}

TEST(X1_reasons_retrying_scheduled_holding_metered_and_trigger) {
  struct post post;
  struct scene *scene = &post.scene;
  post_begin(&post);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.online_debounce_ms = 3600000;
  set_ladder(scene, one_hour, 1);
  post_open(&post);
  receiver_answer(post.receiver, "a", 503, 1, NULL);
  put(scene, "a", "ana", "1");
  AWAIT(receiver_requests(post.receiver, "a") == 1 && status_of(scene, "a") == MSGQ_STATUS_QUEUED);
  msgq_explanation explanation = check_reason(scene, "a", MSGQ_REASON_RETRYING);
  CHECK(explanation.until_ms > wall_ms() + 3600000 - 6 * check_timeout_ms() && explanation.until_ms <= wall_ms() + 3600000);
  CHECK_TEXT("a", (put(scene, "a2", "ana", "2"), check_reason(scene, "a2", MSGQ_REASON_BEHIND)).behind);
  int64_t tomorrow = wall_ms() + 86400000;
  put_timed(scene, "b", "ben", tomorrow, 0);
  CHECK_NUMBER(tomorrow, check_reason(scene, "b", MSGQ_REASON_SCHEDULED).until_ms);
  set_offline(scene);
  set_online(scene); /* the debounce delay of one hour begins */
  put(scene, "c", "cem", "3");
  explanation = check_reason(scene, "c", MSGQ_REASON_HOLDING);
  CHECK(explanation.until_ms > wall_ms() + 3600000 - 6 * check_timeout_ms() && explanation.until_ms <= wall_ms() + 3600000);
  check_reason(scene, "b", MSGQ_REASON_SCHEDULED);
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene->queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, true));
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "d";
  draft.conversation = "dana";
  draft.unmetered_only = true;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
  check_reason(scene, "d", MSGQ_REASON_METERED);
  CHECK_RESULT(MSGQ_OK, msgq_set_lifecycle(scene->queue, MSGQ_LIFECYCLE_BACKGROUND));
  check_reason(scene, "c", MSGQ_REASON_TRIGGER);
  CHECK_NUMBER(1, receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST_LONG(X1_a_message_between_expiry_and_failure_is_expired) {
  struct scene scene;
  struct stub stub;
  enum { many = 300 };
  bool seen = false;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  /* The engine fails expired messages in small steps; between two steps the last message is explained. */
  int64_t end = steady_ms() + check_timeout_ms();
  for (int round = 0; !seen && steady_ms() < end; round++) {
    static char ids[many][24];
    static msgq_draft drafts[many];
    for (int number = 0; number < many; number++) {
      snprintf(ids[number], sizeof ids[number], "r%d-%d", round, number);
      drafts[number] = (msgq_draft)MSGQ_DRAFT_INIT;
      drafts[number].id = drafts[number].conversation = ids[number];
      drafts[number].expires_at_ms = wall_ms() - 1;
    }
    REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, many, NULL));
    msgq_reason reason;
    do {
      reason = reason_of(&scene, ids[many - 1]);
      CHECK(reason == MSGQ_REASON_EXPIRED || reason == MSGQ_REASON_FAILED);
      seen = seen || reason == MSGQ_REASON_EXPIRED;
    } while (reason == MSGQ_REASON_EXPIRED && steady_ms() < end);
  }
  CHECK(seen);
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  scene_end(&scene);
}

static void explain_unwritable_store(bool listed_before) {
  struct scene scene;
  struct stub stub;
  char unsent[64];
  pthread_t thread;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  if (listed_before) unsent_of(&scene, unsent, sizeof unsent);
  struct drainer drainer = { .queue = scene.queue };
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  msgq_page *list = NULL;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  struct rlimit before = forbid_growth(&scene);
  bool started = pthread_create(&thread, NULL, drainer_run, &drainer) == 0;
  for (int64_t end = steady_ms() + check_timeout_ms() / 5; !atomic_load(&drainer.done) && steady_ms() < end;) pause_ms(1);
  bool ended = atomic_load(&drainer.done);
  /* Any other call wakes a hung drain, so that this test ends. */
  msgq_result explained = msgq_explain(scene.queue, "a", &explanation);
  msgq_result listed = msgq_list(scene.queue, NULL, &list);
  msgq_result counted = msgq_count(scene.queue, NULL, &counts);
  int calls = atomic_load(&stub.calls);
  setrlimit(RLIMIT_FSIZE, &before);
  REQUIRE(started);
  pthread_join(thread, NULL);
  CHECK(ended);
  CHECK_RESULT(MSGQ_OK, drainer.result);
  CHECK_NUMBER(MSGQ_STOP_STORAGE, drainer.report.stop);
  CHECK_RESULT(MSGQ_OK, explained);
  CHECK_NUMBER(MSGQ_REASON_STORAGE, explanation.reason);
  CHECK(explanation.until_ms > 0 && strlen(explanation.text) > 10);
  CHECK_RESULT(MSGQ_OK, listed);
  CHECK_NUMBER(1, msgq_list_size(list));
  msgq_list_free(list);
  CHECK_RESULT(MSGQ_OK, counted);
  CHECK_NUMBER(1, counts.queued);
  CHECK_NUMBER(0, calls); /* an attempt must be on disk before it begins */
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_STORAGE) >= 1);
  int64_t end = steady_ms() + check_timeout_ms();
  while (drain(&scene).stop == MSGQ_STOP_STORAGE && steady_ms() < end) pause_ms(10);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(X1_reason_storage_while_the_store_cannot_be_written) { explain_unwritable_store(true); }

TEST(X1_reason_storage_while_the_store_cannot_be_written_before_the_first_list) { explain_unwritable_store(false); }

TEST(A1_sending_resumes_by_itself_when_the_store_can_be_written_again) {
  struct scene scene;
  struct stub stub;
  char unsent[64];
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  set_offline(&scene);
  put(&scene, "a", "ana", "hello");
  unsent_of(&scene, unsent, sizeof unsent);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  struct rlimit before = forbid_growth(&scene);
  set_online(&scene);
  pause_ms(100);
  int calls = atomic_load(&stub.calls);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK_NUMBER(0, calls);
  /* This loop does not call the library, because a call would wake the engine. */
  int64_t end = steady_ms() + check_timeout_ms() / 3;
  while (atomic_load(&stub.calls) == 0 && steady_ms() < end) pause_ms(1);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

/* ------------------------------------------------------------------ random cases */

enum { messages = 14 };

struct random_case {
  struct post post;
  uint32_t random;
  int count;
  char ids[messages][8];
  msgq_explanation explained[messages];
};

/* A linear congruential generator, so that a seed reproduces a failure. */
static uint32_t random_below(struct random_case *test, uint32_t sides) {
  test->random = test->random * 1664525u + 1013904223u;
  return (test->random >> 16) % sides;
}

static void compose(struct random_case *test, int count) {
  static const char *const names[] = { "ana", "ben", "cem" };
  for (int index = 0; index < count; index++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    char *id = test->ids[test->count++];
    snprintf(id, sizeof test->ids[0], "m%02d", test->count - 1);
    draft.id = id;
    draft.conversation = names[random_below(test, 3)];
    if (random_below(test, 6) == 0) draft.not_before_ms = wall_ms() + 3600000;
    draft.unmetered_only = random_below(test, 6) == 0;
    REQUIRE_OK(msgq_enqueue(test->post.scene.queue, &draft, NULL));
    uint32_t choice = random_below(test, 4);
    if (choice < 2) receiver_answer(test->post.receiver, id, choice == 0 ? 400 : 503, 1, NULL);
  }
}

static int index_of(const struct random_case *test, const char *id) {
  for (int index = 0; index < test->count; index++) {
    if (strcmp(test->ids[index], id) == 0) return index;
  }
  return -1;
}

static bool can_be_sent(msgq_reason reason) { return reason == MSGQ_REASON_PERSON || reason == MSGQ_REASON_NEXT; }

static void explain_all(struct random_case *test) {
  for (int index = 0; index < test->count; index++) test->explained[index] = explain(&test->post.scene, test->ids[index]);
}

/* Checks that the drain did what the explanations said. `made` has the number of requests before the drain. */
static void check_against(struct random_case *test, const size_t *made) {
  for (int index = 0; index < test->count; index++) {
    const msgq_explanation *explained = &test->explained[index];
    bool tried = receiver_requests(test->post.receiver, test->ids[index]) > made[index];
    bool right = true;
    if (can_be_sent(explained->reason)) right = tried;
    else if (explained->reason != MSGQ_REASON_BEHIND) right = !tried;
    else {
      int before = index_of(test, explained->behind);
      REQUIRE(before >= 0 && before < index);
      /* It was sent only if the message before it was tried and does not block it any more. */
      right = !tried || receiver_requests(test->post.receiver, test->ids[before]) > made[before];
    }
    if (!CHECK(right)) fprintf(stderr, "  %s was %s: %s\n", test->ids[index], tried ? "tried" : "not tried", explained->text);
  }
}

static void run_random_case(uint32_t seed) {
  static struct random_case test;
  memset(&test, 0, sizeof test);
  test.random = seed * 2654435761u + 1;
  struct scene *scene = &test.post.scene;
  post_begin(&test.post);
  scene->options.strict_order = random_below(&test, 2) == 0;
  scene->options.final_failure = random_below(&test, 2) == 0 ? MSGQ_FINAL_BLOCK : MSGQ_FINAL_STEP_ASIDE;
  scene->options.unmetered_only = random_below(&test, 8) == 0;
  set_ladder(scene, one_hour, 1);
  post_open(&test.post);
  for (int round = 0; round < 2; round++) {
    compose(&test, messages / 2);
    bool metered = random_below(&test, 3) == 0;
    CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene->queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_CELLULAR, metered));
    if (random_below(&test, 3) == 0) CHECK_RESULT(MSGQ_OK, msgq_pause(scene->queue, "ben"));
    else CHECK_RESULT(MSGQ_OK, msgq_resume(scene->queue, "ben"));
    if (random_below(&test, 8) == 0) set_offline(scene);
    size_t made[messages];
    for (int index = 0; index < test.count; index++) made[index] = receiver_requests(test.post.receiver, test.ids[index]);
    explain_all(&test);
    drain(scene);
    check_against(&test, made);
    /* After the drain no message is left that a drain would send. */
    explain_all(&test);
    for (int index = 0; index < test.count; index++) {
      CHECK(!can_be_sent(test.explained[index].reason));
      if (test.explained[index].reason == MSGQ_REASON_BLOCKED) CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(scene, test.explained[index].behind));
      if (test.explained[index].reason == MSGQ_REASON_BEHIND) CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(scene, test.explained[index].behind));
    }
  }
  post_end(&test.post);
}

TEST_LONG(X1_explanations_match_what_a_drain_does) {
  const uint32_t last = (uint32_t)check_times(40, 5);
  for (uint32_t seed = 1; seed <= last; seed++) {
    unsigned before = check_failures();
    run_random_case(seed);
    if (check_failures() > before) fprintf(stderr, "  (seed %u)\n", seed);
  }
}
