/* F5: a message with a replace_key takes the place of a queued one of its key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "files.h"
#include "post.h"
#include "stub.h"

static msgq_draft keyed(const char *id, const char *conversation, const char *key, const char *body) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.replace_key = key;
  draft.body = body;
  draft.body_size = strlen(body);
  return draft;
}

static void put_keyed(struct scene *scene, const char *id, const char *conversation, const char *key) {
  msgq_draft draft = keyed(id, conversation, key, id);
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

static bool unsent_is(struct scene *scene, const char *expected) {
  char text[256];
  unsent_of(scene, text, sizeof text);
  return check_text(expected, text, __FILE__, __LINE__, "the unsent messages");
}

static uint64_t place_of(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  uint64_t place = message->sequence;
  msgq_message_free(message);
  return place;
}

TEST(F5_a_message_takes_the_place_of_the_queued_one_of_its_key) {
  struct scene scene;
  struct entry entry;
  scene_begin_open(&scene);
  put(&scene, "before", "ana", "1");
  put_keyed(&scene, "old", "ana", "position");
  put(&scene, "behind", "ana", "2");
  uint64_t place = place_of(&scene, "old");
  put_keyed(&scene, "new", "ana", "position");
  unsent_is(&scene, "before new behind");
  CHECK_NUMBER((int64_t)place, (int64_t)place_of(&scene, "new"));
  CHECK_NUMBER(3, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(3, counts_of(&scene, "ana").queued);
  CHECK_NUMBER(5, counts_of(&scene, NULL).unsent_bytes);
  AWAIT(journal_reached(&scene.journal, "new", MSGQ_STATUS_QUEUED));
  REQUIRE(journal_last(&scene.journal, MSGQ_EVENT_REPLACED, &entry));
  CHECK_TEXT("old", entry.id);
  CHECK_TEXT("ana", entry.conversation);
  CHECK_TEXT("new", entry.text);
  /* The old id is known, and its message is gone. */
  msgq_draft again = keyed("old", "ana", NULL, "again");
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &again, NULL));
  CHECK_NUMBER(-1, status_of(&scene, "old"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_retry(scene.queue, "old"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_edit(scene.queue, "old", "x", 1));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_delete(scene.queue, "old"));
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  CHECK_RESULT(MSGQ_OK, msgq_stats(scene.queue, &statistics));
  CHECK(statistics.enqueued == 4 && statistics.replaced == 1 && statistics.discarded == 0);
  scene_end(&scene);
}

/* `remember_ids_ms` is for replaced messages, too: 0 keeps no id. */
TEST(F5_the_id_of_a_replaced_message_is_refused_as_long_as_ids_are_remembered) {
  for (int is_remembered = 0; is_remembered < 2; is_remembered++) {
    struct scene scene;
    scene_begin(&scene);
    if (!is_remembered) scene.options.remember_ids_ms = 0;
    scene_open(&scene);
    put_keyed(&scene, "old", "ana", "position");
    put_keyed(&scene, "new", "ana", "position");
    msgq_draft again = keyed("old", "ana", NULL, "again");
    CHECK_RESULT(is_remembered ? MSGQ_DUPLICATE : MSGQ_OK, msgq_enqueue(scene.queue, &again, NULL));
    if (is_remembered) CHECK_TEXT("id old was sent or replaced recently and is still remembered", msgq_error_detail());
    CHECK_RESULT(MSGQ_DUPLICATE, msgq_record(scene.queue, &again, "ben", NULL));
    if (is_remembered) CHECK_TEXT("id old belonged to a message that this queue sent or replaced", msgq_error_detail());
    scene_end(&scene);
  }
}

/* Also in the millisecond in which the message is replaced or deleted. */
TEST_LONG(F5_H1_without_a_memory_of_ids_an_id_is_free_at_once) {
  struct scene scene;
  char id[16];
  scene_begin(&scene);
  scene.options.remember_ids_ms = 0;
  scene_open(&scene);
  for (int round = 0; round < 100; round++) {
    snprintf(id, sizeof id, "m%d", round % 2);
    put_keyed(&scene, id, "ana", "position"); /* replaces the other one, which takes this one's id next */
  }
  unsent_is(&scene, "m1");
  msgq_draft hers = keyed("hers", "ana", NULL, "hello");
  for (int round = 0; round < 100; round++) {
    REQUIRE_OK(msgq_record(scene.queue, &hers, "Ana", NULL));
    CHECK_NUMBER(MSGQ_STATUS_DELIVERED, status_of(&scene, "hers"));
    CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "hers"));
  }
  scene_end(&scene);
}

TEST(H2_the_id_of_a_recorded_message_that_was_deleted_is_remembered) {
  struct scene scene;
  scene_begin_open(&scene);
  msgq_draft hers = keyed("hers", "ana", NULL, "hello");
  REQUIRE_OK(msgq_record(scene.queue, &hers, "Ana", NULL));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "hers"));
  CHECK_RESULT(MSGQ_OK, msgq_record(scene.queue, &hers, "Ana", NULL));
  CHECK_NUMBER(-1, status_of(&scene, "hers")); /* not stored again */
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &hers, NULL));
  CHECK_TEXT("id hers belonged to a recorded message and is still remembered", msgq_error_detail());
  scene_end(&scene);
}

TEST(F5_a_key_is_compared_in_its_conversation_only) {
  struct scene scene;
  scene_begin_open(&scene);
  put_keyed(&scene, "a", "ana", "k");
  put_keyed(&scene, "b", "ben", "k");
  put_keyed(&scene, "c", "ana", "K");
  put_keyed(&scene, "d", "ana", "");
  put_keyed(&scene, "e", "ana", "");
  put_keyed(&scene, "f", NULL, "k");
  unsent_is(&scene, "a b c d e f");
  put_keyed(&scene, "g", "ana", "k");
  put_keyed(&scene, "h", "", "k");
  unsent_is(&scene, "g b c d e h");
  scene_end(&scene);
}

TEST(F5_a_key_has_the_limits_of_a_name) {
  struct scene scene;
  char longest[257];
  memset(longest, 'k', sizeof longest);
  longest[255] = '\0';
  scene_begin_open(&scene);
  put_keyed(&scene, "a", "ana", longest);
  put_keyed(&scene, "b", "ana", longest);
  unsent_is(&scene, "b");
  longest[255] = 'k';
  longest[256] = '\0';
  const char *const wrong[] = { longest, "a\nb", "\xc3", "\x7f" };
  for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
    msgq_draft draft = keyed(NULL, "ana", wrong[index], "x");
    CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL));
    CHECK(strstr(msgq_error_detail(), "key") != NULL);
  }
  unsent_is(&scene, "b");
  scene_end(&scene);
}

TEST(F5_an_old_draft_struct_has_no_key) {
  struct scene scene;
  scene_begin_open(&scene);
  for (int number = 0; number < 2; number++) {
    msgq_draft draft = keyed(NULL, "ana", "k", "x");
    draft.struct_size = (uint32_t)offsetof(msgq_draft, replace_key);
    CHECK_RESULT(MSGQ_OK, msgq_enqueue(scene.queue, &draft, NULL));
  }
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(F5_one_that_is_being_sent_is_left_and_the_new_one_stands_behind_it) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_keyed(&scene, "first", "ana", "k");
  put(&scene, "other", "ana", "x");
  atomic_store(&stub.held, true);
  REQUIRE_OK(msgq_send_now(scene.queue, "first"));
  AWAIT(atomic_load(&stub.calls) == 1);
  put_keyed(&scene, "second", "ana", "k");
  unsent_is(&scene, "first other second");
  put_keyed(&scene, "third", "ana", "k");
  unsent_is(&scene, "first other third");
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_REPLACED) == 1);
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&scene, "first"));
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "first") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(2, drain(&scene).sent);
  scene_end(&scene);
}

TEST(F5_two_queued_ones_of_a_key_are_both_replaced) {
  static const int64_t ladder[] = { 600000 };
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  set_ladder(&scene, ladder, 1);
  stub_open(&stub, &scene);
  put_keyed(&scene, "first", "ana", "k");
  atomic_store(&stub.held, true);
  REQUIRE_OK(msgq_send_now(scene.queue, "first"));
  AWAIT(atomic_load(&stub.calls) == 1);
  put_keyed(&scene, "second", "ana", "k");
  atomic_store(&stub.held, false);
  AWAIT(journal_reached(&scene.journal, "first", MSGQ_STATUS_QUEUED) && status_of(&scene, "first") == MSGQ_STATUS_QUEUED &&
        attempts_of(&scene, "first") == 1);
  unsent_is(&scene, "first second");
  uint64_t place = place_of(&scene, "first");
  put_keyed(&scene, "third", "ana", "k");
  unsent_is(&scene, "third");
  CHECK_NUMBER((int64_t)place, (int64_t)place_of(&scene, "third"));
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_REPLACED) == 2);
  msgq_draft again = keyed("second", "ana", NULL, "again");
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &again, NULL));
  CHECK_NUMBER(1, counts_of(&scene, "ana").queued);
  scene_end(&scene);
}

TEST(F5_the_new_message_inherits_no_delay_and_no_attempt) {
  static const int64_t ladder[] = { 600000 };
  struct scene scene;
  struct stub stub;
  msgq_message *message = NULL;
  msgq_ledger *ledger = NULL;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  set_ladder(&scene, ladder, 1);
  stub_open(&stub, &scene);
  put_keyed(&scene, "old", "ana", "k");
  CHECK_NUMBER(1, drain(&scene).remaining);
  REQUIRE_OK(msgq_get(scene.queue, "old", &message));
  CHECK(message->attempts == 1 && message->next_attempt_ms > 0);
  msgq_message_free(message);
  put_keyed(&scene, "new", "ana", "k");
  REQUIRE_OK(msgq_get(scene.queue, "new", &message));
  CHECK(message->attempts == 0 && message->next_attempt_ms == 0 && message->retries_used == 0 && message->last_attempt_ms == 0);
  msgq_message_free(message);
  REQUIRE_OK(msgq_attempts(scene.queue, "new", &ledger));
  CHECK_NUMBER(0, (int64_t)msgq_attempts_size(ledger));
  msgq_attempts_free(ledger);
  stub.verdict = MSGQ_VERDICT_SENT;
  CHECK_NUMBER(1, drain(&scene).sent);
  scene_end(&scene);
}

TEST(F5_paused_scheduled_and_failed_messages) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  /* A paused conversation. */
  REQUIRE_OK(msgq_pause(scene.queue, "ana"));
  put_keyed(&scene, "paused-1", "ana", "k");
  put_keyed(&scene, "paused-2", "ana", "k");
  unsent_is(&scene, "paused-2");
  /* A scheduled message: the new one has the time of its own draft. */
  msgq_draft later = keyed("later", "ben", "k", "x");
  later.not_before_ms = wall_ms() + 3600000;
  REQUIRE_OK(msgq_enqueue(scene.queue, &later, NULL));
  put_keyed(&scene, "now", "ben", "k");
  unsent_is(&scene, "paused-2 now");
  CHECK(reason_of(&scene, "now") != MSGQ_REASON_SCHEDULED);
  /* A failed message stays, and can be retried. */
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "now"));
  put_keyed(&scene, "after", "ben", "k");
  unsent_is(&scene, "paused-2 now after");
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "now"));
  scene_end(&scene);
}

TEST(F5_a_held_message_stays) {
  struct post post;
  char port[8];
  post_begin_open(&post);
  put_keyed(&post.scene, "old", "ana", "k");
  scene_close(&post.scene);
  receiver_hold(post.receiver, true);
  snprintf(port, sizeof port, "%u", (unsigned)receiver_port(post.receiver));
  struct child child = child_start("drain", post.scene.path, port);
  AWAIT(receiver_requests(post.receiver, "old") == 1);
  child_kill(&child);
  receiver_hold(post.receiver, false);
  post.scene.options.hold_interrupted = true;
  post_open(&post);
  put_keyed(&post.scene, "new", "ana", "k");
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "old"));
  unsent_is(&post.scene, "old new");
  post_end(&post);
}

TEST(F5_expiry_and_metadata_are_those_of_the_new_draft) {
  struct scene scene;
  msgq_message *message = NULL;
  msgq_pair pair = { "n", "2" };
  scene_begin_open(&scene);
  int64_t end = wall_ms() + 3600000;
  msgq_draft old = keyed("old", "ana", "k", "x"), new = keyed("new", "ana", "k", "y");
  old.expires_at_ms = end;
  new.expires_at_ms = end + 1;
  new.metadata = &pair;
  new.metadata_count = 1;
  new.unmetered_only = true;
  REQUIRE_OK(msgq_enqueue(scene.queue, &old, NULL));
  REQUIRE_OK(msgq_enqueue(scene.queue, &new, NULL));
  REQUIRE_OK(msgq_get(scene.queue, "new", &message));
  CHECK(message->expires_at_ms == end + 1 && message->metadata_count == 1 && message->unmetered_only);
  msgq_message_free(message);
  scene_end(&scene);
}

TEST_LONG(F5_of_a_batch_the_last_one_wins_in_the_first_place) {
  enum { size = 300 };
  static const int sizes[] = { 4, size };
  struct scene scene;
  for (int time = 0; time < 2; time++) {
    msgq_draft drafts[size];
    char ids[size][MSGQ_ID_SIZE];
    scene_begin_open(&scene);
    int count = sizes[time];
    for (int index = 0; index < count; index++) drafts[index] = keyed(NULL, "ana", index % 2 == 0 ? "k" : NULL, "x");
    REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, (size_t)count, ids));
    CHECK_NUMBER(count / 2 + 1, counts_of(&scene, "ana").queued);
    int last = count - 2;
    for (int index = 0; index < last; index += 2) {
      CHECK_NUMBER(-1, status_of(&scene, ids[index]));
      drafts[0].id = ids[index];
      CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &drafts[0], NULL));
    }
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, ids[last]));
    CHECK(place_of(&scene, ids[last]) < place_of(&scene, ids[1]));
    AWAIT(journal_count(&scene.journal, MSGQ_EVENT_REPLACED) == (size_t)(count / 2 - 1));
    scene_end(&scene);
  }
}

TEST_LONG(F5_replaced_text_is_overwritten_in_the_files) {
  static const char secret[] = "the secret that must not be found again";
  struct scene scene;
  char log[128];
  scene_begin_open(&scene);
  for (int large = 0; large < 2; large++) {
    char *body = calloc(1, 6001);
    memset(body, '.', large ? 6000 : 100);
    memcpy(body + (large ? 3000 : 10), secret, strlen(secret));
    msgq_draft draft = keyed("old", large ? "ben" : "ana", "k", body);
    draft.id = large ? "old-2" : "old-1";
    REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
    free(body);
    put_keyed(&scene, large ? "new-2" : "new-1", large ? "ben" : "ana", "k");
  }
  snprintf(log, sizeof log, "%s-wal", scene.path);
  AWAIT(!file_contains(log, secret) && !file_contains(scene.path, secret));
  scene_close(&scene);
  CHECK(!file_contains(scene.path, secret));
  scene_end(&scene);
}

TEST(F5_replacements_survive_kill_9) {
  struct scene scene;
  scene_begin(&scene);
  for (int time = 0; time < check_times(6, 2); time++) {
    struct child child = child_start("replace", scene.path, "");
    char id[MSGQ_ID_SIZE] = "", before[MSGQ_ID_SIZE];
    for (int number = 0; number < 10 + 7 * time; number++) {
      memcpy(before, id, sizeof before);
      child_line(&child, id, sizeof id);
    }
    child_kill(&child);
    scene_open(&scene);
    msgq_page *page = NULL;
    REQUIRE_OK(msgq_list(scene.queue, NULL, &page));
    /* Exactly one message: the last acknowledged one, or the one that was being stored. */
    REQUIRE(msgq_list_size(page) == 1);
    const msgq_message *message = msgq_list_at(page, 0);
    CHECK_NUMBER(1, (int64_t)message->sequence);
    if (strcmp(message->id, id) != 0) CHECK_NUMBER(-1, status_of(&scene, id));
    msgq_list_free(page);
    CHECK_NUMBER(1, counts_of(&scene, "ana").queued);
    CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
    msgq_draft again = keyed(before, "ana", NULL, "again");
    CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &again, NULL));
    scene_close(&scene);
  }
  scene_end(&scene);
}

TEST(F5_a_replaced_message_is_never_sent) {
  struct post post;
  char order[256];
  post_begin_open(&post);
  for (int number = 0; number < 20; number++) {
    char id[16];
    snprintf(id, sizeof id, "v%d", number);
    put_keyed(&post.scene, id, "ana", "k");
    if (number == 0) put(&post.scene, "next", "ana", "x");
  }
  CHECK_NUMBER(2, drain(&post.scene).sent);
  receiver_order(post.receiver, NULL, order, sizeof order);
  CHECK_TEXT("v19 next", order);
  CHECK_NUMBER(2, (int64_t)receiver_requests(post.receiver, NULL));
  post_end(&post);
}

TEST(F5_a_queued_message_with_a_manual_request_can_be_replaced) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "first", "ana", "x");
  put_keyed(&scene, "old", "ana", "k");
  atomic_store(&stub.held, true);
  REQUIRE_OK(msgq_send_now(scene.queue, "first"));
  AWAIT(atomic_load(&stub.calls) == 1);
  REQUIRE_OK(msgq_send_now(scene.queue, "old")); /* waits for its conversation */
  put_keyed(&scene, "new", "ana", "k");
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "first") == MSGQ_STATUS_SENT);
  /* The request was for the old message. */
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_NUMBER(2, atomic_load(&stub.calls));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "new"));
  scene_end(&scene);
}

TEST(F5_a_first_message_is_sent_directly_when_it_is_replaced_online) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.direct = true;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  set_offline(&scene);
  put_keyed(&scene, "old", "ana", "k");
  put(&scene, "behind", "ana", "x");
  set_online(&scene);
  put_keyed(&scene, "new", "ana", "k");
  AWAIT(status_of(&scene, "new") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "behind"));
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  scene_end(&scene);
}

TEST(F5_a_received_message_has_no_key) {
  struct scene scene;
  scene_begin_open(&scene);
  put_keyed(&scene, "queued", "ana", "k");
  msgq_draft draft = keyed("theirs", "ana", "k", "x");
  CHECK_RESULT(MSGQ_OK, msgq_record(scene.queue, &draft, "ben", NULL));
  unsent_is(&scene, "queued");
  scene_end(&scene);
}
