/* History: sent and recorded messages, conversations, pruning. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "post.h"
#include "stores.h"
#include "stub.h"

static void record(struct scene *scene, const char *id, const char *conversation, const char *sender, const char *body) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = body;
  draft.body_size = strlen(body);
  REQUIRE_OK(msgq_record(scene->queue, &draft, sender, NULL));
}

/* Records a message and marks it as read. Unread messages are not pruned and do not count against keep_sent. */
static void record_read(struct scene *scene, const char *id, const char *conversation, const char *sender, const char *body) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  char given[MSGQ_ID_SIZE];
  draft.id = id;
  draft.conversation = conversation;
  draft.body = body;
  draft.body_size = strlen(body);
  REQUIRE_OK(msgq_record(scene->queue, &draft, sender, given));
  REQUIRE_OK(msgq_mark(scene->queue, given, MSGQ_STATUS_READ));
}

/* Returns the result of enqueueing a message with this id. */
static msgq_result put_again(struct scene *scene, const char *id) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  return msgq_enqueue(scene->queue, &draft, NULL);
}

/* Writes the ids of all messages, oldest first. */
static void all_ids(struct scene *scene, const char *conversation, char *text, size_t size) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.conversation = conversation;
  filter.statuses = MSGQ_STATUSES_ALL;
  ids_of(scene, &filter, text, size);
}

static bool all_is(struct scene *scene, const char *expected) {
  char text[512];
  all_ids(scene, NULL, text, sizeof text);
  return strcmp(expected, text) == 0;
}

/* Sends m<first> to m<last>. */
static void send_some(struct post *post, int first, int last) {
  for (int number = first; number <= last; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    put(&post->scene, id, "ana", "hello");
  }
  drain(&post->scene);
}

TEST(H1_keep_sent_limits_the_history_and_keeps_unsent_messages) {
  struct post post;
  char unsent[64];
  post_begin(&post);
  post.scene.options.keep_sent = 3;
  post_open(&post);
  receiver_answer(post.receiver, "failed", 400, 1, NULL);
  put(&post.scene, "failed", "ana", "an old failure");
  drain(&post.scene);
  put(&post.scene, "queued", "cem", "waits");
  REQUIRE_OK(msgq_pause(post.scene.queue, "cem"));
  send_some(&post, 1, 8);
  AWAIT(counts_of(&post.scene, NULL).sent == 3);
  CHECK(all_is(&post.scene, "failed queued m6 m7 m8"));
  unsent_of(&post.scene, unsent, sizeof unsent);
  CHECK_TEXT("failed queued", unsent);
  CHECK_NUMBER(8, receiver_accepted(post.receiver, NULL)); /* pruning affected only the history */
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(post.scene.queue, "m6", &message));
  CHECK(message->body_size == 5 && memcmp(message->body, "hello", 5) == 0 && message->sent_ms > 0);
  msgq_message_free(message);
  /* Recorded messages are history, too. */
  record_read(&post.scene, "r1", "ana", "ben", "hi");
  AWAIT(all_is(&post.scene, "failed queued m7 m8 r1"));
  CHECK(counts_of(&post.scene, NULL).sent == 2 && counts_of(&post.scene, NULL).received == 1);
  post_end(&post);
}

TEST(H1_keep_sent_zero_keeps_unsent_messages) {
  struct post post;
  post_begin(&post);
  post.scene.options.keep_sent = 0;
  post_open(&post);
  receiver_answer(post.receiver, "failed", 400, 1, NULL);
  put(&post.scene, "failed", "ana", "1");
  put(&post.scene, "sent", "ana", "2");
  drain(&post.scene);
  put(&post.scene, "queued", "ana", "3");
  AWAIT(all_is(&post.scene, "failed queued"));
  CHECK_RESULT(MSGQ_OK, msgq_retry(post.scene.queue, "failed"));
  AWAIT(all_is(&post.scene, "queued"));
  CHECK_NUMBER(2, receiver_requests(post.receiver, "failed"));
  struct entry entry; /* pruning is reported only by the counts of the summary event */
  AWAIT(journal_last(&post.scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.sent == 0 && entry.counts.queued == 1);
  CHECK_NUMBER(0, journal_count(&post.scene.journal, MSGQ_EVENT_DELETED));
  post_end(&post);
}

TEST_LONG(H1_history_is_pruned_by_age) {
  struct post post;
  post_begin_open(&post);
  receiver_answer(post.receiver, "failed", 400, 1, NULL);
  put(&post.scene, "failed", "ana", "1");
  send_some(&post, 1, 4);
  put(&post.scene, "queued", "ana", "2");
  record_read(&post.scene, "r1", "ana", "ben", "hi");
  scene_close(&post.scene);
  pause_ms(200);
  post.scene.options.keep_sent_ms = -1; /* no limit */
  post_open(&post);
  pause_ms(50);
  CHECK(all_is(&post.scene, "failed m1 m2 m3 m4 queued r1"));
  scene_close(&post.scene);
  post.scene.options.keep_sent_ms = 100;
  post_open(&post);
  AWAIT(all_is(&post.scene, "failed queued"));
  CHECK_RESULT(MSGQ_DUPLICATE, put_again(&post.scene, "m2"));
  post_end(&post);
}

TEST(H1_Q14_a_pruned_id_is_refused_while_it_is_remembered) {
  struct post post;
  post_begin(&post);
  post.scene.options.keep_sent = 1;
  post_open(&post);
  send_some(&post, 1, 3);
  AWAIT(all_is(&post.scene, "m3"));
  CHECK_RESULT(MSGQ_DUPLICATE, put_again(&post.scene, "m1")); /* pruned */
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "m3"));
  CHECK_RESULT(MSGQ_DUPLICATE, put_again(&post.scene, "m3")); /* deleted */
  put(&post.scene, "unsent", "ana", "x");
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "unsent"));
  CHECK_RESULT(MSGQ_OK, put_again(&post.scene, "unsent")); /* never sent: no duplicate */
  /* Ids are remembered across a restart, for the time of remember_ids_ms. */
  scene_close(&post.scene);
  post_open(&post);
  CHECK_RESULT(MSGQ_DUPLICATE, put_again(&post.scene, "m1"));
  CHECK_RESULT(MSGQ_DUPLICATE, put_again(&post.scene, "m3"));
  CHECK_NUMBER(1, counts_of(&post.scene, NULL).queued);
  scene_close(&post.scene);
  post.scene.options.remember_ids_ms = 50;
  post_open(&post);
  pause_ms(100);
  CHECK_RESULT(MSGQ_OK, put_again(&post.scene, "m1"));
  CHECK_RESULT(MSGQ_OK, put_again(&post.scene, "m3"));
  post_end(&post);
}

TEST(H2_a_recorded_message_is_stored_once_and_never_sent) {
  struct post post;
  char text[128];
  msgq_message *message = NULL;
  msgq_ledger *ledger = NULL;
  post_begin_open(&post);
  put(&post.scene, "mine", "ana", "how are you?");
  record(&post.scene, "hers", "ana", "Ana", "fine");
  record(&post.scene, "hers", "ana", "somebody else", "not this"); /* the second call changes nothing */
  put(&post.scene, "mine-2", "ana", "good");
  all_ids(&post.scene, "ana", text, sizeof text);
  CHECK_TEXT("mine hers mine-2", text); /* sent and received messages in one list */
  REQUIRE_OK(msgq_get(post.scene.queue, "hers", &message));
  CHECK_TEXT("Ana", message->sender);
  CHECK_TEXT("fine", message->preview);
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, message->status);
  CHECK(message->attempts == 0 && message->failure == NULL && message->sent_ms == 0 && message->created_ms > 0);
  msgq_message_free(message);
  REQUIRE_OK(msgq_get(post.scene.queue, "mine", &message));
  CHECK(message->sender == NULL);
  msgq_message_free(message);
  msgq_counts counts = counts_of(&post.scene, "ana");
  CHECK(counts.received == 1 && counts.unread == 1 && counts.queued == 2 && counts.delivered == 0);
  CHECK_NUMBER(2, drain(&post.scene).sent);
  CHECK_NUMBER(0, receiver_requests(post.receiver, "hers"));
  CHECK_NUMBER(MSGQ_REASON_NONE, reason_of(&post.scene, "hers"));
  REQUIRE_OK(msgq_attempts(post.scene.queue, "hers", &ledger));
  CHECK_NUMBER(0, msgq_attempts_size(ledger));
  msgq_attempts_free(ledger);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_edit(post.scene.queue, "hers", "x", 1));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_retry(post.scene.queue, "hers"));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_send_now(post.scene.queue, "hers"));
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "hers", MSGQ_STATUS_DELIVERED));
  CHECK_NUMBER(1, counts_of(&post.scene, NULL).unread);
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "hers", MSGQ_STATUS_READ));
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "hers", MSGQ_STATUS_DELIVERED));
  CHECK(counts_of(&post.scene, NULL).unread == 0 && counts_of(&post.scene, NULL).received == 1);
  CHECK_RESULT(MSGQ_OK, msgq_clear(post.scene.queue, NULL));
  CHECK_NUMBER(MSGQ_STATUS_READ, status_of(&post.scene, "hers"));
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "hers"));
  CHECK_NUMBER(0, counts_of(&post.scene, NULL).received);
  post_end(&post);
}

TEST(X14_a_recorded_message_has_its_event) {
  struct scene scene;
  struct entry entry;
  char path[64];
  scene_begin_open(&scene);
  record(&scene, "hers", "ana", "Ana", "fine");
  AWAIT(journal_reached(&scene.journal, "hers", MSGQ_STATUS_DELIVERED));
  CHECK(journal_last(&scene.journal, MSGQ_EVENT_STATUS, &entry));
  CHECK_TEXT("ana", entry.conversation);
  CHECK_NUMBER(MSGQ_STATUS_NONE, entry.from);
  CHECK_NUMBER(0, entry.attempt);
  record(&scene, "hers", "ana", "Ana", "fine"); /* a repetition changes nothing and has no event */
  REQUIRE_OK(msgq_mark(scene.queue, "hers", MSGQ_STATUS_READ));
  AWAIT(journal_reached(&scene.journal, "hers", MSGQ_STATUS_READ));
  journal_path(&scene.journal, "hers", path, sizeof path);
  CHECK_TEXT("none>delivered>read", path);
  scene_end(&scene);
}

TEST(H2_sent_and_recorded_messages_share_one_id_namespace) {
  struct scene scene;
  char id[MSGQ_ID_SIZE] = "";
  scene_begin(&scene);
  scene.options.limit_body = 4;
  scene_open(&scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "mine";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_record(scene.queue, &draft, "ben", id));
  CHECK_TEXT("", id);
  draft.id = "theirs";
  draft.not_before_ms = wall_ms() + 3600000; /* has no effect on a recorded message */
  draft.expires_at_ms = wall_ms() - 1;
  draft.unmetered_only = true;
  CHECK_RESULT(MSGQ_OK, msgq_record(scene.queue, &draft, "ben", id));
  CHECK_TEXT("theirs", id);
  CHECK_RESULT(MSGQ_DUPLICATE, put_again(&scene, "theirs"));
  draft.id = NULL;
  CHECK_RESULT(MSGQ_OK, msgq_record(scene.queue, &draft, "ben", id));
  CHECK_NUMBER(36, strlen(id));
  draft.body = "12345";
  draft.body_size = 5;
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_record(scene.queue, &draft, "ben", NULL));
  pause_ms(20);
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, status_of(&scene, "theirs"));
  CHECK(counts_of(&scene, NULL).received == 2 && counts_of(&scene, NULL).queued == 1);
  scene_end(&scene);
}

enum { rows = 200, page_size = 9 };

static int number_of(const msgq_message *message) {
  int number = -1;
  sscanf(message->id, "h%d", &number);
  return number;
}

/* Pages through conversation "ana". Between two pages one message on each side of the cursor is deleted and one is added. Every other
   message must be seen exactly once, in order. */
static void page_while_messages_change(struct scene *scene, bool newest_first) {
  bool deleted[rows] = { false }, seen[rows] = { false };
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.conversation = "ana";
  filter.statuses = MSGQ_STATUSES_ALL;
  filter.limit = page_size;
  filter.newest_first = newest_first;
  uint64_t last = newest_first ? UINT64_MAX : 0;
  int extra = 0;
  for (;;) {
    msgq_page *page = NULL;
    int first_number = -1;
    REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
    size_t size = msgq_list_size(page);
    for (size_t index = 0; index < size; index++) {
      const msgq_message *message = msgq_list_at(page, index);
      CHECK(newest_first ? message->sequence < last : message->sequence > last);
      last = filter.after = message->sequence;
      int number = number_of(message);
      if (number < 0) continue; /* a message that was added meanwhile; paging forwards sees it at the end */
      CHECK(number < rows && !seen[number] && !deleted[number]);
      seen[number] = true;
      if (first_number < 0) first_number = number;
    }
    msgq_list_free(page);
    if (size < page_size) break;
    if (first_number < 0) continue;
    /* Deletes a seen message (sometimes the cursor) and an unseen one, and adds a new one. */
    int ahead = newest_first ? first_number - 2 * page_size : first_number + 2 * page_size;
    int behind = newest_first ? first_number - (page_size - 1) : first_number + (page_size - 1);
    const int numbers[] = { ahead, behind };
    for (size_t index = 0; index < 2; index++) {
      char id[16];
      if (numbers[index] < 0 || numbers[index] >= rows || deleted[numbers[index]]) continue;
      snprintf(id, sizeof id, "h%d", numbers[index]);
      if (msgq_delete(scene->queue, id) == MSGQ_OK) deleted[numbers[index]] = true;
    }
    char id[16];
    snprintf(id, sizeof id, "new%d-%d", newest_first, extra++);
    if (extra < 30) record(scene, id, "ana", "ben", "meanwhile");
  }
  for (int number = 0; number < rows; number++) CHECK(seen[number] || deleted[number]);
}

static void fill_history(struct scene *scene) {
  for (int number = 0; number < rows; number++) {
    char id[16];
    snprintf(id, sizeof id, "h%d", number);
    record(scene, id, "ana", "ben", "hello");
    if (number % 3 == 0) record(scene, NULL, "cem", "cem", "another conversation");
  }
}

TEST_LONG(H3_paging_backwards_while_messages_are_added_and_deleted) {
  struct scene scene;
  scene_begin_open(&scene);
  fill_history(&scene);
  page_while_messages_change(&scene, true);
  scene_end(&scene);
}

TEST_LONG(H3_paging_forwards_while_messages_are_added_and_deleted) {
  struct scene scene;
  scene_begin_open(&scene);
  fill_history(&scene);
  page_while_messages_change(&scene, false);
  scene_end(&scene);
}

TEST_LONG(H3_a_cursor_stays_valid_while_history_is_pruned) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_sent = 60;
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  for (int number = 0; number < 60; number++) record_read(&scene, NULL, "ana", "ben", "hello");
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUSES_ALL;
  filter.newest_first = true;
  filter.limit = 20;
  msgq_page *page = NULL;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  REQUIRE(msgq_list_size(page) == 20);
  uint64_t cursor = msgq_list_at(page, 19)->sequence;
  msgq_list_free(page);
  for (int number = 0; number < 30; number++) record_read(&scene, NULL, "ana", "ben", "newer"); /* the oldest 30 are pruned */
  AWAIT(counts_of(&scene, NULL).received == 60);
  filter.after = cursor;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  CHECK_NUMBER(10, msgq_list_size(page)); /* 60 minus 20 seen minus 30 pruned */
  for (size_t index = 0; index < msgq_list_size(page); index++) CHECK(msgq_list_at(page, index)->sequence < cursor);
  msgq_list_free(page);
  filter.newest_first = false; /* and in the other direction */
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  CHECK(msgq_list_size(page) == 20 && msgq_list_at(page, 0)->sequence > cursor);
  msgq_list_free(page);
  scene_end(&scene);
}

/* Writes the names of a page of conversations, separated by spaces. */
static void names_of(struct scene *scene, uint64_t before, uint32_t limit, char *text, size_t size) {
  msgq_conversation_page *page = NULL;
  size_t used = 0;
  text[0] = '\0';
  REQUIRE_OK(msgq_conversations(scene->queue, before, limit, &page));
  for (size_t index = 0; index < msgq_conversations_size(page) && used < size; index++) {
    used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? " " : "", msgq_conversations_at(page, index)->name);
  }
  CHECK(msgq_conversations_at(page, msgq_conversations_size(page)) == NULL);
  msgq_conversations_free(page);
}

static void check_last(struct scene *scene, size_t index, const char *name, const char *id, const char *preview) {
  msgq_conversation_page *page = NULL;
  REQUIRE_OK(msgq_conversations(scene->queue, 0, 0, &page));
  const msgq_conversation *conversation = msgq_conversations_at(page, index);
  REQUIRE(conversation != NULL);
  CHECK_NUMBER(sizeof *conversation, conversation->struct_size);
  CHECK_NUMBER(sizeof *conversation->counts, conversation->counts->struct_size);
  CHECK_NUMBER(sizeof *conversation->last, conversation->last->struct_size);
  CHECK_TEXT(name, conversation->name);
  CHECK_TEXT(id, conversation->last->id);
  CHECK_TEXT(preview, conversation->last->preview);
  CHECK(conversation->last->body == NULL && conversation->last->created_ms > 0);
  msgq_counts counts = counts_of(scene, name);
  const msgq_counts *listed = conversation->counts;
  CHECK(counts.queued == listed->queued && counts.sending == listed->sending && counts.failed == listed->failed);
  CHECK(counts.sent == listed->sent && counts.delivered == listed->delivered && counts.read == listed->read);
  CHECK(counts.received == listed->received && counts.unread == listed->unread && counts.unsent_bytes == listed->unsent_bytes);
  msgq_conversations_free(page);
}

TEST(H4_conversations_newest_first_with_their_counts) {
  struct post post;
  char names[64];
  post_begin_open(&post);
  names_of(&post.scene, 0, 0, names, sizeof names);
  CHECK_TEXT("", names);
  receiver_answer(post.receiver, "a1", 400, 1, NULL);
  put(&post.scene, "a1", "ana", "fails");
  put(&post.scene, "b1", "ben", "goes");
  drain(&post.scene);
  record(&post.scene, "c1", "cem", "Cem", "hello from Cem");
  record(&post.scene, "a2", "ana", "Ana", "hello from Ana");
  names_of(&post.scene, 0, 0, names, sizeof names);
  CHECK_TEXT("ana cem ben", names);
  check_last(&post.scene, 0, "ana", "a2", "hello from Ana");
  check_last(&post.scene, 1, "cem", "c1", "hello from Cem");
  check_last(&post.scene, 2, "ben", "b1", "goes");
  put(&post.scene, "b2", "ben", "newest");
  names_of(&post.scene, 0, 0, names, sizeof names);
  CHECK_TEXT("ben ana cem", names);
  check_last(&post.scene, 0, "ben", "b2", "newest");
  msgq_counts counts = counts_of(&post.scene, "ana");
  CHECK(counts.failed == 1 && counts.received == 1 && counts.unread == 1);
  counts = counts_of(&post.scene, "ben");
  CHECK(counts.queued == 1 && counts.sent == 1);
  CHECK_RESULT(MSGQ_OK, msgq_mark(post.scene.queue, "a2", MSGQ_STATUS_READ));
  CHECK_RESULT(MSGQ_OK, msgq_edit(post.scene.queue, "b2", "edited", 6));
  check_last(&post.scene, 0, "ben", "b2", "edited");
  check_last(&post.scene, 1, "ana", "a2", "hello from Ana");
  /* When the newest message is deleted, the one before it becomes the last; a conversation without messages is not listed. */
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "b2"));
  names_of(&post.scene, 0, 0, names, sizeof names);
  CHECK_TEXT("ana cem ben", names);
  check_last(&post.scene, 2, "ben", "b1", "goes");
  CHECK_RESULT(MSGQ_OK, msgq_delete(post.scene.queue, "c1"));
  put(&post.scene, "a3", "ana", "to be cleared");
  CHECK_RESULT(MSGQ_OK, msgq_clear(post.scene.queue, "ana"));
  check_last(&post.scene, 0, "ana", "a2", "hello from Ana");
  names_of(&post.scene, 0, 0, names, sizeof names);
  CHECK_TEXT("ana ben", names);
  scene_close(&post.scene);
  post_open(&post);
  names_of(&post.scene, 0, 0, names, sizeof names);
  CHECK_TEXT("ana ben", names);
  check_last(&post.scene, 0, "ana", "a2", "hello from Ana");
  post_end(&post);
}

TEST(H4_a_cleared_conversation_of_unsent_messages_is_not_listed) {
  struct scene scene;
  char names[64];
  scene_begin_open(&scene);
  put_each(&scene, { "a", "ana", "1" }, { "b", "ben", "2" }, { "n", "", "the conversation without a name" });
  names_of(&scene, 0, 0, names, sizeof names);
  CHECK_TEXT("ben ana", names); /* after the conversation with the empty name */
  check_last(&scene, 0, "", "n", "the conversation without a name");
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, "ben"));
  names_of(&scene, 0, 0, names, sizeof names);
  CHECK_TEXT("ana", names);
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
  names_of(&scene, 0, 0, names, sizeof names);
  CHECK_TEXT("", names);
  scene_end(&scene);
}

TEST(H4_conversations_are_listed_in_pages) {
  struct scene scene;
  enum { conversations = 25 };
  int seen = 0;
  scene_begin_open(&scene);
  for (int number = 0; number < conversations; number++) {
    char name[16];
    snprintf(name, sizeof name, "c%02d", number);
    record(&scene, NULL, name, "ben", "1");
  }
  for (uint64_t before = 0;;) {
    msgq_conversation_page *page = NULL;
    REQUIRE_OK(msgq_conversations(scene.queue, before, 4, &page));
    size_t size = msgq_conversations_size(page);
    for (size_t index = 0; index < size; index++, seen++) {
      char name[16];
      const msgq_conversation *conversation = msgq_conversations_at(page, index);
      snprintf(name, sizeof name, "c%02d", conversations - 1 - seen);
      CHECK_TEXT(name, conversation->name);
      before = conversation->last->sequence;
    }
    msgq_conversations_free(page);
    if (size < 4) break;
    record(&scene, NULL, "meanwhile", "ben", "a newer conversation does not move the pages");
  }
  CHECK_NUMBER(conversations, seen);
  scene_end(&scene);
}

TEST(H5_history_can_be_read_offline_after_kill_9) {
  struct post post;
  char port[8], line[32], text[128];
  post_begin(&post);
  snprintf(port, sizeof port, "%u", (unsigned)receiver_port(post.receiver));
  struct child child = child_start("converse", post.scene.path, port);
  child_line(&child, line, sizeof line);
  CHECK_TEXT("conversed", line);
  child_kill(&child);
  post_open(&post);
  set_offline(&post.scene);
  all_ids(&post.scene, "ana", text, sizeof text);
  CHECK_TEXT("theirs-1 ours-1 theirs-2 ours-2", text);
  CHECK_NUMBER(MSGQ_STATUS_READ, status_of(&post.scene, "theirs-1"));
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, status_of(&post.scene, "ours-1"));
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, status_of(&post.scene, "theirs-2"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&post.scene, "ours-2"));
  msgq_counts counts = counts_of(&post.scene, "ana");
  CHECK(counts.received == 2 && counts.unread == 1 && counts.delivered == 1 && counts.queued == 1);
  check_last(&post.scene, 0, "ana", "ours-2", "waits");
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(post.scene.queue, "theirs-1", &message));
  CHECK_TEXT("Ana", message->sender);
  CHECK_TEXT("hello", message->preview);
  msgq_message_free(message);
  CHECK(banner_is(&post.scene, "You're offline. 1 message queued."));
  post_end(&post);
}

static void send_all(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  (void)context, (void)deliveries;
  for (size_t index = 0; index < count; index++) outcomes[index].verdict = MSGQ_VERDICT_SENT;
}

/* Enqueues one message in each of these conversations: c0 to c<count - 1>. */
static void put_one_each(struct scene *scene, int count) {
  for (int number = 0; number < count; number++) {
    char name[16];
    snprintf(name, sizeof name, "c%d", number);
    put(scene, NULL, name, "hello");
  }
}

/* One step of pruning removes messages that are in the indexes already, and others of the same conversations that are not. */
TEST_LONG(H1_H4_pruned_conversations_are_not_listed_and_hide_no_others) {
  enum { kept = 150, pruned = 100 };
  struct scene scene;
  char names[64];
  scene_begin(&scene);
  scene.options.keep_sent = kept;
  scene_open(&scene);
  msgq_batch_options batches = MSGQ_BATCH_OPTIONS_INIT;
  batches.max_messages = 1000;
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, send_all, NULL, NULL, &batches));
  REQUIRE_OK(msgq_pause(scene.queue, "old"));
  for (int number = 0; number < kept; number++) put(&scene, NULL, "old", "waits");
  put_one_each(&scene, pruned);
  REQUIRE_OK(msgq_clear(scene.queue, "nobody")); /* adds the messages so far to the indexes */
  put_one_each(&scene, pruned);
  for (int number = 0; number < kept; number++) put(&scene, NULL, "new", "hello");
  CHECK_NUMBER(2 * pruned + kept, (int64_t)drain(&scene).sent);
  AWAIT(counts_of(&scene, NULL).sent == kept);
  names_of(&scene, 0, 50, names, sizeof names);
  CHECK_TEXT("new old", names);
  names_of(&scene, 0, 1, names, sizeof names);
  CHECK_TEXT("new", names);
  scene_close(&scene);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
  CHECK_TEXT("300 messages, no damage found.", report.text);
  CHECK_NUMBER(2, sql_number(scene.path, "SELECT count(*) FROM conversation"));
  scene_open(&scene);
  names_of(&scene, 0, 50, names, sizeof names);
  CHECK_TEXT("new old", names);
  scene_end(&scene);
}

TEST(D10_H4_a_damaged_newest_message_hides_no_conversation) {
  struct scene scene;
  char names[64];
  scene_begin_open(&scene);
  put_each(&scene, { "a", "ana", "1" }, { "b", "ben", "2" }, { "c", "cem", "3" }, { "d", "ben", "4" });
  scene_close(&scene);
  sql_run(scene.path, "UPDATE message SET body = x'35' WHERE id = 'd'");
  scene_open(&scene);
  names_of(&scene, 0, 1, names, sizeof names);
  CHECK_TEXT("ben", names);
  names_of(&scene, 0, 50, names, sizeof names);
  CHECK_TEXT("ben cem ana", names);
  msgq_conversation_page *page = NULL;
  REQUIRE_OK(msgq_conversations(scene.queue, 0, 1, &page));
  REQUIRE(msgq_conversations_size(page) == 1);
  const msgq_conversation *damaged = msgq_conversations_at(page, 0);
  CHECK_TEXT("d", damaged->last->id);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, damaged->last->status);
  CHECK_TEXT("", damaged->last->preview);
  CHECK_NUMBER(2, (int64_t)damaged->counts->queued);
  msgq_conversations_free(page);
  scene_end(&scene);
}
