/* One message: enqueue, get, edit, delete, mark. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

TEST(Q1_a_message_enqueued_offline_is_queued) {
  struct scene scene;
  char path[64];
  scene_begin(&scene);
  scene.options.direct = true;
  scene_open(&scene);
  struct stub stub;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  REQUIRE_OK(msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE, false));
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  AWAIT(journal_reached(&scene.journal, "a", MSGQ_STATUS_QUEUED));
  journal_path(&scene.journal, "a", path, sizeof path);
  CHECK_TEXT("none>queued", path);
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  scene_end(&scene);
}

TEST(M1_a_message_carries_body_metadata_and_times) {
  struct scene scene;
  msgq_message *message = NULL;
  const msgq_pair metadata[] = { { "type", "text" }, { "empty", "" }, { "line\nbreak", "snow \xe2\x98\x83" } };
  const char body[] = { 'a', '\0', (char)0xff, 'z' };
  int64_t before = wall_ms();
  scene_begin_open(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "a";
  draft.conversation = "an\xc3\xa4";
  draft.body = body;
  draft.body_size = sizeof body;
  draft.metadata = metadata;
  draft.metadata_count = 3;
  draft.not_before_ms = before + 3600000;
  draft.expires_at_ms = before + 7200000;
  draft.unmetered_only = true;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  scene_close(&scene);
  scene_open(&scene);
  REQUIRE_OK(msgq_get(scene.queue, "a", &message));
  CHECK_NUMBER(sizeof *message, message->struct_size);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, message->status);
  CHECK_TEXT("a", message->id);
  CHECK_TEXT("an\xc3\xa4", message->conversation);
  CHECK_NUMBER(sizeof body, message->body_size);
  CHECK(memcmp(body, message->body, sizeof body) == 0);
  CHECK_NUMBER(3, message->metadata_count);
  for (size_t index = 0; index < 3 && message->metadata_count == 3; index++) {
    CHECK_TEXT(metadata[index].key, message->metadata[index].key);
    CHECK_TEXT(metadata[index].value, message->metadata[index].value);
  }
  CHECK(message->sequence > 0);
  CHECK(message->created_ms >= before && message->created_ms <= wall_ms());
  CHECK_NUMBER(before + 3600000, message->not_before_ms);
  CHECK_NUMBER(before + 7200000, message->expires_at_ms);
  CHECK(message->unmetered_only);
  CHECK(message->edited_ms == 0 && message->sent_ms == 0 && message->next_attempt_ms == 0 && message->last_attempt_ms == 0);
  CHECK(message->attempts == 0 && message->failure == NULL);
  msgq_message_free(message);
  msgq_message_free(NULL);
  scene_end(&scene);
}

TEST(message_from_an_empty_draft_is_empty) {
  struct scene scene;
  msgq_message *message = NULL;
  char id[MSGQ_ID_SIZE];
  scene_begin_open(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, id));
  REQUIRE_OK(msgq_get(scene.queue, id, &message));
  CHECK_NUMBER(0, message->body_size);
  CHECK(message->body != NULL);
  CHECK_TEXT("", message->conversation);
  CHECK_TEXT("", message->preview);
  msgq_message_free(message);
  scene_end(&scene);
}

TEST(message_ids_from_the_queue_are_uuid_version_7) {
  struct scene scene;
  char first[MSGQ_ID_SIZE], second[MSGQ_ID_SIZE];
  scene_begin_open(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, first));
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, second));
  CHECK_NUMBER(36, strlen(first));
  CHECK(first[8] == '-' && first[13] == '-' && first[18] == '-' && first[23] == '-');
  CHECK(first[14] == '7' && strchr("89ab", first[19]) != NULL);
  CHECK(strcmp(first, second) != 0 && strncmp(first, second, 13) <= 0); /* the time is the first part */
  scene_end(&scene);
}

TEST(Q14_an_existing_id_is_a_duplicate) {
  struct scene scene;
  struct stub stub;
  char out[MSGQ_ID_SIZE] = "untouched";
  msgq_message *message = NULL;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "the first");
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "a";
  draft.conversation = "ben";
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &draft, out));
  CHECK_TEXT("untouched", out);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &draft, out));
  scene_close(&scene);
  scene_open(&scene);
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &draft, out));
  REQUIRE_OK(msgq_get(scene.queue, "a", &message));
  CHECK_NUMBER(MSGQ_STATUS_SENT, message->status);
  CHECK_TEXT("ana", message->conversation);
  CHECK_NUMBER(9, message->body_size);
  msgq_message_free(message);
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(Q6_an_edit_keeps_id_and_place) {
  struct scene scene;
  msgq_message *message = NULL;
  char unsent[64];
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "one");
  put(&scene, "b", "ana", "two");
  put(&scene, "c", "ana", "three");
  REQUIRE_OK(msgq_get(scene.queue, "b", &message));
  uint64_t sequence = message->sequence;
  msgq_message_free(message);
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "b", "edited", 6));
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "c", NULL, 0));
  REQUIRE_OK(msgq_get(scene.queue, "b", &message));
  CHECK_NUMBER(sequence, message->sequence);
  CHECK_TEXT("edited", message->preview);
  CHECK(message->edited_ms >= message->created_ms);
  msgq_message_free(message);
  unsent_of(&scene, unsent, sizeof unsent);
  CHECK_TEXT("a b c", unsent);
  CHECK_NUMBER(3 + 6, counts_of(&scene, NULL).unsent_bytes);
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_edit(scene.queue, "d", "x", 1));
  scene_end(&scene);
}

TEST(X6_a_message_in_flight_is_busy) {
  struct scene scene;
  struct stub stub;
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  atomic_store(&stub.held, true);
  put(&scene, "a", "ana", "one");
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  REQUIRE_OK(msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.inside) == 1);
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&scene, "a"));
  CHECK_RESULT(MSGQ_BUSY, msgq_edit(scene.queue, "a", "other", 5));
  CHECK_RESULT(MSGQ_BUSY, msgq_delete(scene.queue, "a"));
  CHECK_RESULT(MSGQ_BUSY, msgq_retry(scene.queue, "a"));
  CHECK_RESULT(MSGQ_BUSY, msgq_send_now(scene.queue, "a"));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark(scene.queue, "a", MSGQ_STATUS_READ));
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "a"));
  scene_end(&scene);
}

TEST(R4_delete_removes_the_message_from_disk) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "a body to be deleted");
  put(&scene, "b", "ana", "a body to be kept");
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "a"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_delete(scene.queue, "a"));
  CHECK_NUMBER(-1, status_of(&scene, "a"));
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_DELETED) == 1);
  scene_close(&scene);
  CHECK(!file_contains(scene.path, "a body to be deleted"));
  CHECK(file_contains(scene.path, "a body to be kept"));
  scene_open(&scene);
  CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(R6_A9_statuses_move_forward_only) {
  struct scene scene;
  struct stub stub;
  char path[128];
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "one");
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark(scene.queue, "a", MSGQ_STATUS_DELIVERED));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  drain(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene.queue, "a", MSGQ_STATUS_DELIVERED));
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene.queue, "a", MSGQ_STATUS_DELIVERED));
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene.queue, "a", MSGQ_STATUS_READ));
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene.queue, "a", MSGQ_STATUS_DELIVERED));
  CHECK_NUMBER(MSGQ_STATUS_READ, status_of(&scene, "a"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_mark(scene.queue, "b", MSGQ_STATUS_READ));
  AWAIT(journal_reached(&scene.journal, "a", MSGQ_STATUS_READ));
  journal_path(&scene.journal, "a", path, sizeof path);
  CHECK_TEXT("none>queued>sending>sent>delivered>read", path);
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(1, counts_of(&scene, "ana").read);
  scene_end(&scene);
}

TEST(message_batch_is_all_or_nothing) {
  struct scene scene;
  char ids[3][MSGQ_ID_SIZE] = { "-", "-", "-" };
  char unsent[256], expected[256];
  msgq_draft drafts[3] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  scene_begin_open(&scene);
  put(&scene, "there", "ana", "one");
  drafts[0].id = "new";
  drafts[1].id = "there";
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue_batch(scene.queue, drafts, 3, ids));
  CHECK_TEXT("-", ids[0]);
  drafts[1].id = "new"; /* twice in one batch */
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue_batch(scene.queue, drafts, 3, NULL));
  drafts[1].id = "bad\n";
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, drafts, 3, NULL));
  CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
  drafts[1].id = NULL;
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, 3, ids));
  CHECK_TEXT("new", ids[0]);
  snprintf(expected, sizeof expected, "there new %.36s %.36s", ids[1], ids[2]);
  unsent_of(&scene, unsent, sizeof unsent);
  CHECK_TEXT(expected, unsent);
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_batch(scene.queue, drafts, 0, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_batch(scene.queue, NULL, 0, NULL));
  CHECK_NUMBER(4, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(message_bodies_become_messages_that_are_otherwise_alike) {
  enum { count = 200 };
  struct scene scene;
  static char bodies[count * 2000], ids[count][MSGQ_ID_SIZE];
  size_t sizes[count], total = 0;
  const msgq_pair metadata[] = { { "type", "text" } };
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana";
  draft.metadata = metadata;
  draft.metadata_count = 1;
  draft.not_before_ms = wall_ms() + 3600000;
  draft.expires_at_ms = wall_ms() + 7200000;
  draft.unmetered_only = true;
  /* Empty bodies too, and bodies that are stored in a table of their own. */
  for (size_t index = 0; index < count; index++) {
    sizes[index] = index * 37 % 2000;
    memset(bodies + total, (int)('a' + index % 26), sizes[index]);
    total += sizes[index];
  }
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_enqueue_bodies(scene.queue, &draft, bodies, total, sizes, count, ids));
  scene_close(&scene);
  scene_open(&scene);
  size_t start = 0;
  uint64_t sequence = 0;
  for (size_t index = 0; index < count; index++) {
    msgq_message *message = NULL;
    REQUIRE_OK(msgq_get(scene.queue, ids[index], &message));
    CHECK(message->sequence > sequence);
    sequence = message->sequence;
    CHECK_TEXT("ana", message->conversation);
    CHECK_NUMBER(sizes[index], message->body_size);
    CHECK(message->body_size != sizes[index] || memcmp(bodies + start, message->body, sizes[index]) == 0);
    CHECK_NUMBER(1, message->metadata_count);
    CHECK_NUMBER(draft.not_before_ms, message->not_before_ms);
    CHECK_NUMBER(draft.expires_at_ms, message->expires_at_ms);
    CHECK(message->unmetered_only);
    start += sizes[index];
    msgq_message_free(message);
  }
  CHECK_NUMBER(count, counts_of(&scene, "ana").queued);
  CHECK_NUMBER((long long)total, counts_of(&scene, "ana").unsent_bytes);
  scene_end(&scene);
}

TEST(message_bodies_that_do_not_fit_their_sizes_change_nothing) {
  struct scene scene;
  char ids[3][MSGQ_ID_SIZE] = { "-", "-", "-" };
  msgq_draft draft = MSGQ_DRAFT_INIT, named = MSGQ_DRAFT_INIT, with_body = MSGQ_DRAFT_INIT;
  size_t sizes[3] = { 1, 0, 2 };
  named.id = "a";
  with_body.body = "abc";
  with_body.body_size = 3;
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "ab", 2, sizes, 3, ids));
  CHECK_TEXT("body 2 has 2 bytes, but only 1 are left", msgq_error_detail());
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "abcd", 4, sizes, 3, ids));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "abc", 3, sizes, 0, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "abc", 3, sizes, 1000001, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "abc", 3, sizes, SIZE_MAX, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "abc", SIZE_MAX, sizes, 3, ids));
  /* Sizes whose sum wraps around to 3. */
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "abc", 3, (size_t[]) { SIZE_MAX, 4 }, 2, ids));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "abc", 3, (size_t[]) { SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 4 }, 2, ids));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &named, "abc", 3, sizes, 3, ids));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &with_body, "abc", 3, sizes, 3, ids));
  draft.conversation = "a\nb";
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_bodies(scene.queue, &draft, "abc", 3, sizes, 3, ids));
  draft.conversation = NULL;
  CHECK_TEXT("-", ids[0]);
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_bodies(scene.queue, &draft, NULL, 0, NULL, 0, NULL));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_bodies(scene.queue, &draft, NULL, 0, (size_t[]) { 0 }, 1, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_bodies(scene.queue, &draft, "abc", 3, sizes, 3, ids));
  CHECK_NUMBER(4, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}
