/* Invalid arguments: handles, pointers, tokens, enumerators. */
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "every_call.h"
#include "scene.h"
#include "stub.h"

TEST(bad_handle_null) { every_call_answers(NULL, MSGQ_INVALID); }

TEST(bad_handles_that_are_invalid) {
  struct scene scene;
  char memory[256];
  memset(memory, 0x5a, sizeof memory);
  scene_begin_open(&scene);
  /* The library must not dereference any of them: some are invalid addresses, some point to memory of the test. */
  void *const garbage[] = { (void *)(uintptr_t)1, (void *)(uintptr_t)0xdeadbeef, (void *)UINTPTR_MAX, (void *)INTPTR_MAX,
                            memory, &scene, (char *)scene.queue + (1 << 20), (void *)((uintptr_t)scene.queue ^ ((uintptr_t)1 << 40)) };
  for (size_t index = 0; index < sizeof garbage / sizeof garbage[0]; index++) {
    every_call_answers(garbage[index], MSGQ_INVALID);
    CHECK_RESULT(MSGQ_INVALID, msgq_close(garbage[index], 0));
  }
  put(&scene, "a", "ana", "hello");
  scene_end(&scene);
}

TEST(bad_open_with_null_pointers) {
  struct scene scene;
  msgq_queue *queue = NULL;
  scene_begin(&scene);
  CHECK_RESULT(MSGQ_INVALID, msgq_open(NULL, &scene.options, &queue));
  CHECK_RESULT(MSGQ_INVALID, msgq_open(scene.path, &scene.options, NULL));
  CHECK(queue == NULL);
  scene_end(&scene);
}

TEST(bad_null_pointers) {
  struct scene scene;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  msgq_message *message = NULL;
  msgq_ledger *ledger = NULL;
  char *text = NULL;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, NULL, 2, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, NULL, "ab", 2, (size_t[]) { 1, 1 }, 2, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, NULL, 2, (size_t[]) { 1, 1 }, 2, NULL));
  draft.replace_key = "key";
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "ab", 2, (size_t[]) { 1, 1 }, 2, NULL));
  draft.replace_key = NULL;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "ab", 2, NULL, 2, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_get(scene.queue, NULL, &message));
  CHECK_RESULT(MSGQ_INVALID, msgq_get(scene.queue, "a", NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_edit(scene.queue, NULL, "x", 1));
  CHECK_RESULT(MSGQ_INVALID, msgq_edit(scene.queue, "a", NULL, 1));
  CHECK_RESULT(MSGQ_INVALID, msgq_delete(scene.queue, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_retry(scene.queue, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_send_now(scene.queue, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_mark(scene.queue, NULL, MSGQ_STATUS_READ));
  CHECK_RESULT(MSGQ_INVALID, msgq_attempts(scene.queue, NULL, &ledger));
  CHECK_RESULT(MSGQ_INVALID, msgq_attempts(scene.queue, "a", NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_count(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_backup(scene.queue, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_complete(scene.queue, 1, NULL));
  msgq_outcome sent = outcome_of(MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, NULL, &sent, 1, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, (uint64_t[]) { 1 }, NULL, 1, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, (uint64_t[]) { 1 }, &sent, SIZE_MAX, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, (uint64_t[]) { 1 }, &sent, 1000001, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_record(scene.queue, NULL, "ben", NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_record(scene.queue, &draft, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_explain(scene.queue, NULL, &explanation));
  CHECK_RESULT(MSGQ_INVALID, msgq_explain(scene.queue, "a", NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_conversations(scene.queue, 0, 0, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_stats(scene.queue, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_stats_text(scene.queue, NULL));
  msgq_queue *twice[] = { scene.queue, scene.queue };
  CHECK_RESULT(MSGQ_INVALID, msgq_stats_text_all(twice, 2, &text));
  CHECK_RESULT(MSGQ_INVALID, msgq_stats_text_all(twice, 1, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_stats_text_all(NULL, 1, &text));
  CHECK_RESULT(MSGQ_INVALID, msgq_stats_text_all(twice, 1001, &text));
  CHECK_RESULT(MSGQ_INVALID, msgq_stats_text_all(twice, SIZE_MAX, &text));
  CHECK_RESULT(MSGQ_INVALID, msgq_banner(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_banner(scene.queue, "\xff", &text));
  CHECK_RESULT(MSGQ_INVALID, msgq_banner(scene.queue, "a\nb", &text));
  CHECK(text == NULL);
  CHECK_RESULT(MSGQ_INVALID, msgq_get_state(scene.queue, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_relative_time(0, 0, NULL, 16));
  CHECK(message == NULL && ledger == NULL);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(5, counts_of(&scene, NULL).unsent_bytes);
  scene_end(&scene);
}

TEST(bad_null_to_free_and_size_functions) {
  msgq_text_free(NULL);
  msgq_conversations_free(NULL);
  CHECK_NUMBER(0, msgq_conversations_size(NULL));
  CHECK(msgq_conversations_at(NULL, 0) == NULL);
}

TEST(bad_draft_pointers) {
  struct scene scene;
  const msgq_pair no_key[] = { { NULL, "value" } };
  const msgq_pair no_value[] = { { "key", NULL } };
  scene_begin_open(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.body_size = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL));
  draft = (msgq_draft)MSGQ_DRAFT_INIT;
  draft.metadata_count = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL));
  draft.metadata = no_key;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL));
  draft.metadata = no_value;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(bad_tokens) {
  struct scene scene;
  struct stub stub;
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  scene_begin_open(&scene);
  outcome.verdict = MSGQ_VERDICT_SENT;
  static const uint64_t unknown[] = { 0, 1, 4711, UINT64_MAX };
  for (size_t index = 0; index < sizeof unknown / sizeof unknown[0]; index++) {
    CHECK_RESULT(MSGQ_NOT_FOUND, msgq_complete(scene.queue, unknown[index], &outcome));
  }
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) == 1);
  outcome.verdict = MSGQ_VERDICT_PENDING;
  CHECK_RESULT(MSGQ_INVALID, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  outcome.verdict = (msgq_verdict)99;
  CHECK_RESULT(MSGQ_INVALID, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&scene, "a"));
  outcome.verdict = MSGQ_VERDICT_SENT;
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  scene_end(&scene);
}

TEST(bad_outcome_texts_without_a_terminator) {
  struct scene scene;
  struct stub stub;
  msgq_message *message = NULL;
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_PENDING);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) == 1);
  outcome.verdict = MSGQ_VERDICT_REJECT;
  memset(outcome.text, 'x', sizeof outcome.text);
  memset(outcome.retry_after, '9', sizeof outcome.retry_after);
  outcome.text[10] = (char)0xff; /* text from a receiver need not be UTF-8 */
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  REQUIRE_OK(msgq_get(scene.queue, "a", &message));
  REQUIRE(message->failure != NULL);
  CHECK_NUMBER(MSGQ_FAILURE_REJECTED, message->failure->kind); /* the kind of a rejection that sets none */
  CHECK(strncmp("xxxxxxxxxx", message->failure->text, 10) == 0 && strlen(message->failure->text) < 1024);
  msgq_message_free(message);
  scene_end(&scene);
}

TEST(bad_enum_and_range_arguments) {
  struct scene scene;
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *list = NULL;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_INVALID, msgq_mark(scene.queue, "a", MSGQ_STATUS_SENT));
  CHECK_RESULT(MSGQ_INVALID, msgq_mark(scene.queue, "a", MSGQ_STATUS_QUEUED));
  CHECK_RESULT(MSGQ_INVALID, msgq_mark(scene.queue, "a", MSGQ_STATUS_FAILED));
  CHECK_RESULT(MSGQ_INVALID, msgq_mark(scene.queue, "a", (msgq_status)99));
  CHECK_RESULT(MSGQ_INVALID, msgq_set_connectivity(scene.queue, (msgq_connectivity)99, MSGQ_LINK_WIFI, false));
  CHECK_RESULT(MSGQ_INVALID, msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, (msgq_link)99, false));
  filter.limit = 1001;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &list));
  filter.limit = 50;
  filter.statuses = 0x40;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &list));
  filter.statuses = 0;
  filter.conversation = "\xff";
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &list));
  CHECK(list == NULL);
  msgq_conversation_page *page = NULL;
  CHECK_RESULT(MSGQ_INVALID, msgq_conversations(scene.queue, 0, 1001, &page));
  CHECK(page == NULL);
  CHECK_RESULT(MSGQ_INVALID, msgq_set_lifecycle(scene.queue, (msgq_lifecycle)99));
  CHECK_TEXT("", msgq_status_label((msgq_status)99));
  CHECK_TEXT("", msgq_status_icon((msgq_status)99));
  CHECK_TEXT("", msgq_failure_text((msgq_failure_kind)99));
  CHECK_TEXT("", msgq_status_label((msgq_status)-1));
  CHECK_TEXT("", msgq_status_icon((msgq_status)-1));
  CHECK_TEXT("", msgq_failure_text((msgq_failure_kind)-1));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(bad_buffer_sizes_for_a_relative_time) {
  char text[16];
  for (size_t size = 0; size <= sizeof "Just now"; size++) {
    memset(text, '#', sizeof text);
    CHECK_RESULT(size < sizeof "Just now" ? MSGQ_TOO_LARGE : MSGQ_OK, msgq_relative_time(1000, 1000, text, size));
    for (size_t index = size; index < sizeof text; index++) CHECK(text[index] == '#');
    CHECK(size == sizeof "Just now" || text[0] == '#');
  }
  CHECK_RESULT(MSGQ_OK, msgq_relative_time(1000, 1000, text, SIZE_MAX));
  CHECK_RESULT(MSGQ_OK, msgq_relative_time(1000, 1000, text, SIZE_MAX / 2 + 1));
}

