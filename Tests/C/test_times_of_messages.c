/* The messages' own times, and the titles of conversations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

#define MINUTE INT64_C(60000)
#define WEEK (7 * 24 * 60 * MINUTE)
#define LAST_TIME INT64_C(253402300799999)

/* Records a message of Eve with this time; 0: now. Returns its time. */
static int64_t record_at(struct scene *scene, const char *id, const char *conversation, int64_t time) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_message *message = NULL;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = id;
  draft.body_size = strlen(id);
  draft.time_ms = time;
  REQUIRE_OK(msgq_record(scene->queue, &draft, "eve", NULL));
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  int64_t kept = message->time_ms;
  if (time != 0) CHECK_NUMBER(time, kept);
  if (time == 0) CHECK_NUMBER(message->created_ms, kept);
  msgq_message_free(message);
  return kept;
}

static msgq_result enqueue_at(struct scene *scene, const char *id, const char *conversation, int64_t time) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = "hello";
  draft.body_size = 5;
  draft.time_ms = time;
  return msgq_enqueue(scene->queue, &draft, NULL);
}

static msgq_filter by_time(const char *conversation) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.conversation = conversation;
  filter.statuses = MSGQ_STATUSES_ALL;
  filter.order = MSGQ_ORDER_TIME;
  return filter;
}

static bool list_is(struct scene *scene, const msgq_filter *filter, const char *expected) {
  char text[512];
  ids_of(scene, filter, text, sizeof text);
  if (strcmp(expected, text) != 0) fprintf(stderr, "  listed: %s\n", text);
  return strcmp(expected, text) == 0;
}

TEST(H10_messages_are_listed_in_the_order_of_their_own_times) {
  struct scene scene;
  scene_begin_open(&scene);
  int64_t now = record_at(&scene, "now", "ana", 0);
  record_at(&scene, "week", "ana", now - WEEK);
  record_at(&scene, "ben", "ben", now - MINUTE);
  REQUIRE_OK(enqueue_at(&scene, "hour", "ana", now - 60 * MINUTE));
  record_at(&scene, "future", "ana", LAST_TIME);
  record_at(&scene, "first", "ana", 1);
  msgq_filter filter = by_time("ana");
  CHECK(list_is(&scene, &filter, "first week hour now future"));
  filter.newest_first = true;
  CHECK(list_is(&scene, &filter, "future now hour week first"));
  filter.conversation = NULL;
  CHECK(list_is(&scene, &filter, "future now ben hour week first"));
  filter.statuses = 0;
  CHECK(list_is(&scene, &filter, "hour"));
  /* The sequence stays the order of sending. */
  filter = by_time("ana");
  filter.order = MSGQ_ORDER_SEQUENCE;
  CHECK(list_is(&scene, &filter, "now week hour future first"));
  scene_close(&scene);
  scene_open(&scene);
  filter = by_time(NULL);
  CHECK(list_is(&scene, &filter, "first week hour ben now future"));
  scene_end(&scene);
}

/* A transport that adds the ids of its messages to a text. */
static msgq_verdict note_id(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  char *text = context;
  (void)out;
  snprintf(text + strlen(text), 64 - strlen(text), "%s ", delivery->id);
  return MSGQ_VERDICT_SENT;
}

TEST(H10_sending_follows_the_sequence_whatever_the_times) {
  struct scene scene;
  static char sent[64];
  sent[0] = 0;
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, note_id, sent, NULL));
  set_online(&scene);
  REQUIRE_OK(enqueue_at(&scene, "a", "ana", LAST_TIME));
  REQUIRE_OK(enqueue_at(&scene, "b", "ana", 5));
  REQUIRE_OK(enqueue_at(&scene, "c", "ana", 0));
  REQUIRE_OK(enqueue_at(&scene, "d", "ana", 3));
  CHECK_NUMBER(4, drain(&scene).sent);
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUSES_ALL;
  CHECK(list_is(&scene, &filter, "a b c d"));
  CHECK_TEXT("a b c d ", sent);
  filter = by_time(NULL);
  CHECK(list_is(&scene, &filter, "d b c a"));
  scene_end(&scene);
}

TEST(H10_pages_continue_behind_a_time_and_a_sequence) {
  struct scene scene;
  scene_begin_open(&scene);
  char id[8];
  /* Of each time three. */
  for (int number = 0; number < 30; number++) {
    snprintf(id, sizeof id, "m%02d", number);
    record_at(&scene, id, "ana", 1000 + (number * 7) % 10);
  }
  for (int backward = 0; backward < 2; backward++) {
    msgq_filter filter = by_time("ana");
    filter.newest_first = backward;
    filter.limit = 4;
    int count = 0;
    int64_t last = backward ? LAST_TIME : 0;
    for (;;) {
      msgq_page *page = NULL;
      REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
      size_t size = msgq_list_size(page);
      if (size == 0) {
        msgq_list_free(page);
        break;
      }
      for (size_t index = 0; index < size; index++) {
        const msgq_message *message = msgq_list_at(page, index);
        CHECK(backward ? message->time_ms <= last : message->time_ms >= last);
        last = message->time_ms;
        count++;
      }
      const msgq_message *end = msgq_list_at(page, size - 1);
      filter.after = end->sequence;
      filter.after_time_ms = end->time_ms;
      /* The cursor stays valid without its message. */
      if (backward) REQUIRE_OK(msgq_delete(scene.queue, end->id));
      msgq_list_free(page);
    }
    CHECK_NUMBER(30, count);
  }
  /* Without a sequence the page begins at the time. */
  msgq_filter filter = by_time("ana");
  filter.after_time_ms = 1009;
  filter.limit = 1;
  msgq_page *page = NULL;
  for (int newest_first = 0; newest_first < 2; newest_first++) {
    filter.newest_first = newest_first;
    REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
    if (CHECK(msgq_list_size(page) == 1)) CHECK_NUMBER(1009, msgq_list_at(page, 0)->time_ms);
    msgq_list_free(page);
  }
  scene_end(&scene);
}

/* Checks a page of conversations: names, and the ids of their newest messages. */
static void check_conversations(msgq_conversation_page *page, const char *names, const char *ids) {
  char found[128] = "", newest[128] = "";
  for (size_t index = 0; index < msgq_conversations_size(page); index++) {
    const msgq_conversation *entry = msgq_conversations_at(page, index);
    snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", index ? " " : "", entry->name);
    snprintf(newest + strlen(newest), sizeof newest - strlen(newest), "%s%s", index ? " " : "", entry->last->id);
  }
  CHECK_TEXT(names, found);
  CHECK_TEXT(ids, newest);
  msgq_conversations_free(page);
}

TEST(H10_conversations_show_the_newest_message_by_time) {
  struct scene scene;
  scene_begin_open(&scene);
  int64_t now = record_at(&scene, "newest", "ana", 0);
  record_at(&scene, "b", "ben", now - WEEK);
  record_at(&scene, "last week", "ana", now - WEEK);
  record_at(&scene, "c", "cem", now - 2 * WEEK);
  for (int round = 0; round < 2; round++) {
    msgq_conversation_page *page = NULL;
    REQUIRE_OK(msgq_conversations(scene.queue, 0, 0, &page));
    check_conversations(page, "cem ana ben", "c newest b");
    REQUIRE_OK(msgq_conversations_by_time(scene.queue, 0, 0, 0, &page));
    check_conversations(page, "ana ben cem", "newest b c");
    /* In pages of one. */
    int64_t time = 0;
    uint64_t before = 0, last = 0;
    const char *by_time[] = { "ana", "ben", "cem", NULL }, *by_sequence[] = { "cem", "ana", "ben", NULL };
    for (int index = 0; index < 4; index++) {
      REQUIRE_OK(msgq_conversations_by_time(scene.queue, time, before, 1, &page));
      CHECK_NUMBER(by_time[index] ? 1 : 0, msgq_conversations_size(page));
      if (by_time[index] && msgq_conversations_size(page) == 1) {
        CHECK_TEXT(by_time[index], msgq_conversations_at(page, 0)->name);
        time = msgq_conversations_at(page, 0)->last->time_ms;
        before = msgq_conversations_at(page, 0)->last->sequence;
      }
      msgq_conversations_free(page);
      REQUIRE_OK(msgq_conversations(scene.queue, last, 1, &page));
      CHECK_NUMBER(by_sequence[index] ? 1 : 0, msgq_conversations_size(page));
      if (by_sequence[index] && msgq_conversations_size(page) == 1) {
        CHECK_TEXT(by_sequence[index], msgq_conversations_at(page, 0)->name);
        last = msgq_conversations_at(page, 0)->last->sequence;
      }
      msgq_conversations_free(page);
    }
    scene_close(&scene);
    scene_open(&scene);
  }
  REQUIRE_OK(msgq_delete(scene.queue, "newest"));
  msgq_conversation_page *page = NULL;
  REQUIRE_OK(msgq_conversations_by_time(scene.queue, 0, 0, 0, &page));
  check_conversations(page, "ana ben cem", "last week b c");
  scene_end(&scene);
}

/* Records four conversations, of which the second of the list, ana, has a newest message whose sequence is below those of the others; reads
   the first two and returns that sequence, which continues the list. */
static uint64_t read_two_conversations(struct scene *scene) {
  msgq_conversation_page *page = NULL;
  int64_t now = record_at(scene, "newest", "ana", 0);
  record_at(scene, "b", "ben", now - WEEK);
  record_at(scene, "d", "dan", now - WEEK);
  record_at(scene, "last week", "ana", now - WEEK);
  record_at(scene, "c", "cem", now - WEEK);
  REQUIRE_OK(msgq_conversations(scene->queue, 0, 2, &page));
  REQUIRE(msgq_conversations_size(page) == 2);
  uint64_t before = msgq_conversations_at(page, 1)->last->sequence;
  check_conversations(page, "cem ana", "c newest");
  return before;
}

static void check_behind(struct scene *scene, uint64_t before, const char *names, const char *ids) {
  msgq_conversation_page *page = NULL;
  REQUIRE_OK(msgq_conversations(scene->queue, before, 0, &page));
  check_conversations(page, names, ids);
}

TEST(H10_a_page_of_conversations_continues_behind_a_message_that_is_gone) {
  struct scene scene;
  scene_begin_open(&scene);
  uint64_t before = read_two_conversations(&scene);
  check_behind(&scene, before, "dan ben", "d b");
  REQUIRE_OK(msgq_delete(scene.queue, "newest"));
  check_behind(&scene, before, "dan ben", "d b");
  REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", NULL));
  check_behind(&scene, before, "dan ben", "d b");
  scene_end(&scene);
}

TEST(H10_a_page_of_conversations_continues_behind_a_message_that_is_not_the_newest_any_more) {
  struct scene scene;
  scene_begin_open(&scene);
  uint64_t before = read_two_conversations(&scene);
  record_at(&scene, "tomorrow", "ana", wall_ms() + 24 * 60 * MINUTE);
  check_behind(&scene, before, "dan ben", "d b");
  /* One with an earlier time moves the conversation to the first place, too. */
  record_at(&scene, "older", "ana", wall_ms() - 2 * WEEK);
  check_behind(&scene, before, "dan ben", "d b");
  /* After a restart none is skipped. */
  scene_close(&scene);
  scene_open(&scene);
  check_behind(&scene, before, "cem dan ben", "c d b");
  scene_end(&scene);
}

TEST(H10_keep_sent_keeps_the_newest_by_time) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.keep_sent = 3;
  scene_open(&scene);
  int64_t now = record_at(&scene, "n1", "ana", 0);
  const char *ids[] = { "n2", "n3", "n4", "n5", "o1", "o2", "o3" };
  for (int index = 0; index < 7; index++)
    record_at(&scene, ids[index], "ana", index < 4 ? now + index + 1 : now - WEEK + index);
  REQUIRE_OK(msgq_mark(scene.queue, "n1", MSGQ_STATUS_READ));
  for (int index = 0; index < 7; index++) REQUIRE_OK(msgq_mark(scene.queue, ids[index], MSGQ_STATUS_READ));
  AWAIT(counts_of(&scene, NULL).received == 3);
  msgq_filter filter = by_time(NULL);
  CHECK(list_is(&scene, &filter, "n3 n4 n5"));
  scene_end(&scene);
}

TEST(H10_bad_times_and_cursors_are_refused) {
  struct scene scene;
  scene_begin_open(&scene);
  const int64_t times[] = { -1, INT64_MIN, LAST_TIME + 1, INT64_MAX };
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.body = "x";
  draft.body_size = 1;
  for (int index = 0; index < 4; index++) {
    draft.time_ms = times[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL));
    CHECK_RESULT(MSGQ_INVALID, msgq_record(scene.queue, &draft, "eve", NULL));
    CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, &draft, 1, NULL));
    msgq_conversation_page *conversations = NULL;
    CHECK_RESULT(MSGQ_INVALID, msgq_conversations_by_time(scene.queue, times[index], 1, 1, &conversations));
    msgq_filter filter = by_time(NULL);
    filter.after_time_ms = times[index];
    filter.after = 1;
    msgq_page *page = NULL;
    CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
    CHECK(page == NULL && conversations == NULL);
  }
  msgq_page *page = NULL;
  msgq_filter filter = by_time(NULL);
  filter.after = 7;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  filter = by_time(NULL);
  filter.order = MSGQ_ORDER_SEQUENCE;
  filter.after_time_ms = 7;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  filter = by_time(NULL);
  filter.order = (msgq_list_order)9;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  msgq_conversation_page *conversations = NULL;
  CHECK_RESULT(MSGQ_INVALID, msgq_conversations_by_time(scene.queue, 0, 7, 1, &conversations));
  CHECK_RESULT(MSGQ_INVALID, msgq_conversations_by_time(scene.queue, 0, 0, 1001, &conversations));
  CHECK_RESULT(MSGQ_INVALID, msgq_conversations_by_time(scene.queue, 0, 0, 1, NULL));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

static const char *title_of(struct scene *scene, const char *conversation, char out[256]) {
  msgq_conversation_page *page = NULL;
  REQUIRE_OK(msgq_conversations(scene->queue, 0, 0, &page));
  strcpy(out, "(not listed)");
  for (size_t index = 0; index < msgq_conversations_size(page); index++) {
    const msgq_conversation *entry = msgq_conversations_at(page, index);
    if (strcmp(entry->name, conversation) == 0) snprintf(out, 256, "%s", entry->title ? entry->title : "(none)");
  }
  msgq_conversations_free(page);
  return out;
}

TEST(H14_a_conversation_has_a_title) {
  struct scene scene;
  scene_begin_open(&scene);
  char title[256], longest[257];
  put_each(&scene, { "a", "ana", "hello" }, { "b", "", "hello" });
  CHECK_TEXT("(none)", title_of(&scene, "ana", title));
  REQUIRE_OK(msgq_set_title(scene.queue, "ana", "Ana \xc3\x84nne"));
  REQUIRE_OK(msgq_set_title(scene.queue, "", "Notes"));
  CHECK_TEXT("Ana \xc3\x84nne", title_of(&scene, "ana", title));
  scene_close(&scene);
  scene_open(&scene);
  CHECK_TEXT("Notes", title_of(&scene, "", title));
  REQUIRE_OK(msgq_set_title(scene.queue, "ana", "Ana"));
  CHECK_TEXT("Ana", title_of(&scene, "ana", title));
  REQUIRE_OK(msgq_set_title(scene.queue, "ana", ""));
  CHECK_TEXT("(none)", title_of(&scene, "ana", title));
  REQUIRE_OK(msgq_set_title(scene.queue, "nobody", NULL));
  memset(longest, 'x', 256);
  longest[256] = 0;
  CHECK_RESULT(MSGQ_INVALID, msgq_set_title(scene.queue, "ana", longest));
  longest[255] = 0;
  CHECK_RESULT(MSGQ_OK, msgq_set_title(scene.queue, "ana", longest));
  CHECK_RESULT(MSGQ_INVALID, msgq_set_title(scene.queue, "ana", "a\nb"));
  CHECK_RESULT(MSGQ_INVALID, msgq_set_title(scene.queue, "ana", "\xff"));
  CHECK_RESULT(MSGQ_INVALID, msgq_set_title(scene.queue, NULL, "x"));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_set_title(scene.queue, "nobody", "x"));
  CHECK_TEXT(longest, title_of(&scene, "ana", title));
  scene_end(&scene);
}

TEST(H14_a_title_goes_with_its_conversation_and_from_the_disk) {
  struct scene scene;
  scene_begin_open(&scene);
  char title[256];
  uint64_t count = 0;
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ben", "hello" });
  REQUIRE_OK(msgq_set_title(scene.queue, "ana", "a private title"));
  REQUIRE_OK(msgq_set_title(scene.queue, "ben", "a replaced title"));
  REQUIRE_OK(msgq_set_title(scene.queue, "ben", "Ben"));
  REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", &count));
  CHECK_NUMBER(1, count);
  static const char *const files[] = { "outbox.db", "outbox.db-wal" };
  for (int index = 0; index < 2; index++) {
    CHECK(!file_contains(scene_file(&scene, files[index]), "a private title"));
    CHECK(!file_contains(scene_file(&scene, files[index]), "a replaced title"));
  }
  put(&scene, "c", "ana", "hello");
  CHECK_TEXT("(none)", title_of(&scene, "ana", title));
  CHECK_TEXT("Ben", title_of(&scene, "ben", title));
  /* Also that of a conversation without messages. */
  REQUIRE_OK(msgq_set_title(scene.queue, "ana", "Ana"));
  REQUIRE_OK(msgq_delete(scene.queue, "c"));
  REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", &count));
  CHECK_NUMBER(0, count);
  put(&scene, "d", "ana", "hello");
  CHECK_TEXT("(none)", title_of(&scene, "ana", title));
  scene_end(&scene);
}

TEST(H14_a_title_survives_pruning_backup_and_salvage) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_sent = 0;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  char title[256];
  put(&scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_set_title(scene.queue, "ana", "Ana"));
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_TEXT("(not listed)", title_of(&scene, "ana", title));
  put(&scene, "b", "ana", "hello");
  CHECK_TEXT("Ana", title_of(&scene, "ana", title));
  char copy[96], salvaged[96];
  snprintf(copy, sizeof copy, "%s", scene_file(&scene, "copy.db"));
  snprintf(salvaged, sizeof salvaged, "%s", scene_file(&scene, "salvaged.db"));
  REQUIRE_OK(msgq_backup(scene.queue, copy));
  scene_close(&scene);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  REQUIRE_OK(msgq_salvage(copy, salvaged, &report));
  memcpy(scene.path, salvaged, sizeof salvaged);
  scene_open(&scene);
  CHECK_TEXT("Ana", title_of(&scene, "ana", title));
  scene_end(&scene);
}
