/* Messages that change: msgq_update of received ones, msgq_edit_message of queued and failed ones (H11). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "files.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

#define LAST_TIME INT64_C(253402300799999)

static const msgq_pair one_pair[] = { { "kind", "text" } };
static const msgq_pair two_pairs[] = { { "kind", "changed" }, { "lang", "de" } };

static msgq_draft draft_of(const char *body, const msgq_pair *metadata, size_t count) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.body = body;
  draft.body_size = strlen(body);
  draft.metadata = metadata;
  draft.metadata_count = count;
  return draft;
}

/* Records a message of Eve with one pair of metadata; `time` 0: now. */
static void record(struct scene *scene, const char *id, const char *body, int64_t time) {
  msgq_draft draft = draft_of(body, one_pair, 1);
  draft.id = id;
  draft.conversation = "ana";
  draft.time_ms = time;
  REQUIRE_OK(msgq_record(scene->queue, &draft, "eve", NULL));
}

static msgq_message *get(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  return message;
}

static int64_t edited_of(struct scene *scene, const char *id) {
  msgq_message *message = get(scene, id);
  int64_t edited = message->edited_ms;
  msgq_message_free(message);
  return edited;
}

static bool has_content(const msgq_message *message, const char *body, const msgq_pair *metadata, size_t count) {
  if (message->body_size != strlen(body) || memcmp(message->body, body, message->body_size) != 0) return false;
  if (message->metadata_count != count) return false;
  for (size_t index = 0; index < count; index++) {
    if (strcmp(message->metadata[index].key, metadata[index].key) != 0) return false;
    if (strcmp(message->metadata[index].value, metadata[index].value) != 0) return false;
  }
  return true;
}

static bool is_content_of(struct scene *scene, const char *id, const char *body, const msgq_pair *metadata, size_t count) {
  msgq_message *message = get(scene, id);
  bool is = has_content(message, body, metadata, count);
  msgq_message_free(message);
  return is;
}

/* Checks that all but body, metadata, time and the time of the edit is as before. */
static void check_same_message(const msgq_message *before, const msgq_message *after) {
  CHECK_TEXT(before->id, after->id);
  CHECK_TEXT(before->conversation, after->conversation);
  CHECK_TEXT(before->sender ? before->sender : "", after->sender ? after->sender : "");
  CHECK_NUMBER(before->status, after->status);
  CHECK_NUMBER(before->sequence, after->sequence);
  CHECK_NUMBER(before->created_ms, after->created_ms);
  CHECK_NUMBER(before->delivered_ms, after->delivered_ms);
  CHECK_NUMBER(before->read_ms, after->read_ms);
  CHECK_NUMBER(before->attempts, after->attempts);
  CHECK_NUMBER(before->priority, after->priority);
  CHECK_NUMBER(before->not_before_ms, after->not_before_ms);
  CHECK_NUMBER(before->expires_at_ms, after->expires_at_ms);
}

TEST(H11_an_update_changes_body_metadata_and_time_in_place) {
  struct scene scene;
  struct entry entry;
  scene_begin_open(&scene);
  record(&scene, "a", "helo", 5000);
  record(&scene, "b", "next", 6000);
  REQUIRE_OK(msgq_mark(scene.queue, "a", MSGQ_STATUS_READ));
  msgq_counts counts = counts_of(&scene, "ana");
  msgq_message *before = get(&scene, "a");
  CHECK_NUMBER(0, before->edited_ms);
  msgq_draft draft = draft_of("hello", two_pairs, 2);
  draft.id = "a";
  draft.conversation = "ana";
  draft.time_ms = 7000;
  int64_t start = wall_ms();
  REQUIRE_OK(msgq_update(scene.queue, "a", &draft));
  for (int round = 0; round < 2; round++) {
    msgq_message *after = get(&scene, "a");
    CHECK(has_content(after, "hello", two_pairs, 2));
    CHECK_TEXT("hello", after->preview);
    CHECK_NUMBER(7000, after->time_ms);
    CHECK(after->edited_ms >= start && after->edited_ms <= wall_ms());
    CHECK_NUMBER(MSGQ_STATUS_READ, after->status);
    check_same_message(before, after);
    msgq_message_free(after);
    msgq_counts now = counts_of(&scene, "ana");
    CHECK_NUMBER(counts.received, now.received);
    CHECK_NUMBER(counts.unread, now.unread);
    CHECK_NUMBER(counts.queued + counts.sent + counts.failed, now.queued + now.sent + now.failed);
    CHECK_NUMBER(counts.unsent_bytes, now.unsent_bytes);
    AWAIT(journal_count(&scene.journal, MSGQ_EVENT_EDITED) == 1);
    CHECK(journal_last(&scene.journal, MSGQ_EVENT_EDITED, &entry));
    CHECK_TEXT("a", entry.id);
    CHECK_TEXT("ana", entry.conversation);
    scene_close(&scene);
    scene_open(&scene);
  }
  msgq_message_free(before);
  scene_end(&scene);
}

TEST(H11_an_update_keeps_what_the_draft_leaves_out) {
  struct scene scene;
  scene_begin_open(&scene);
  record(&scene, "a", "one", 5000);
  msgq_draft draft = draft_of("two", NULL, 0);
  REQUIRE_OK(msgq_update(scene.queue, "a", &draft));
  CHECK(is_content_of(&scene, "a", "two", one_pair, 1));
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, status_of(&scene, "a"));
  CHECK_NUMBER(1, counts_of(&scene, NULL).unread);
  /* A pointer without pairs removes them, and an empty body is one, too. */
  draft = draft_of("", one_pair, 0);
  REQUIRE_OK(msgq_update(scene.queue, "a", &draft));
  CHECK(is_content_of(&scene, "a", "", NULL, 0));
  msgq_message *message = get(&scene, "a");
  CHECK_NUMBER(5000, message->time_ms);
  msgq_message_free(message);
  /* A draft of an older, smaller version has no metadata. */
  draft = draft_of("three", two_pairs, 2);
  REQUIRE_OK(msgq_update(scene.queue, "a", &draft));
  draft = draft_of("four", NULL, 0);
  draft.struct_size = offsetof(msgq_draft, metadata);
  REQUIRE_OK(msgq_update(scene.queue, "a", &draft));
  CHECK(is_content_of(&scene, "a", "four", two_pairs, 2));
  scene_end(&scene);
}

TEST(H11_an_own_message_is_not_updated) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "sent", "ana", "x");
  CHECK_NUMBER(1, drain(&scene).sent);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(&scene, "failed", "ana", "x");
  CHECK_NUMBER(1, drain(&scene).failed);
  put(&scene, "queued", "ana", "x");
  static const char *const ids[] = { "sent", "failed", "queued" };
  for (int index = 0; index < 3; index++) {
    msgq_draft draft = draft_of("changed", two_pairs, 2);
    CHECK_RESULT(MSGQ_CONFLICT, msgq_update(scene.queue, ids[index], &draft));
    CHECK(is_content_of(&scene, ids[index], "x", NULL, 0));
    CHECK_NUMBER(0, edited_of(&scene, ids[index]));
  }
  msgq_draft draft = draft_of("changed", NULL, 0);
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_update(scene.queue, "nobody", &draft));
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_EDITED));
  scene_end(&scene);
}

/* A function that changes the message "a" with a draft. */
typedef msgq_result (*change_fn)(msgq_queue *queue, const char *id, const msgq_draft *draft);

static msgq_result edit_any(msgq_queue *queue, const char *id, const msgq_draft *draft) { return msgq_edit_message(queue, id, draft, -1); }

static const struct {
  const char *name;
  change_fn make;
  bool is_update;
} changes[] = { { "msgq_edit_message", edit_any, false }, { "msgq_update", msgq_update, true } };

/* Stores the message "a", which the change may change. */
static void put_changeable(struct scene *scene, bool is_update) {
  msgq_draft draft = draft_of("first", one_pair, 1);
  draft.id = "a";
  draft.conversation = "ana";
  REQUIRE_OK(is_update ? msgq_record(scene->queue, &draft, "eve", NULL) : msgq_enqueue(scene->queue, &draft, NULL));
}

/* Checks that a draft is refused and nothing changes. */
#define REFUSE(expected, change, ...)                                        \
  do {                                                                       \
    msgq_draft draft = draft_of("changed", two_pairs, 2);                    \
    __VA_ARGS__;                                                             \
    CHECK_RESULT(expected, (change)(scene.queue, "a", &draft));              \
    CHECK(is_content_of(&scene, "a", "first", one_pair, 1));                 \
    CHECK_NUMBER(0, edited_of(&scene, "a"));                                 \
  } while (0)

TEST(H11_a_wrong_draft_changes_nothing) {
  for (int index = 0; index < 2; index++) {
    struct scene scene;
    unsigned failures = check_failures();
    change_fn change = changes[index].make;
    char id[257];
    memset(id, 'x', 256);
    id[256] = 0;
    scene_begin(&scene);
    scene.options.limit_body = 10;
    scene.options.limit_metadata = 20;
    scene_open(&scene);
    put_changeable(&scene, changes[index].is_update);
    msgq_draft fine = draft_of("changed", two_pairs, 2);
    CHECK_RESULT(MSGQ_INVALID, change(NULL, "a", &fine));
    CHECK_RESULT(MSGQ_INVALID, change(scene.queue, NULL, &fine));
    CHECK_RESULT(MSGQ_INVALID, change(scene.queue, "", &fine));
    CHECK_RESULT(MSGQ_INVALID, change(scene.queue, id, &fine));
    CHECK_RESULT(MSGQ_INVALID, change(scene.queue, "a\xff", &fine));
    CHECK_RESULT(MSGQ_INVALID, change(scene.queue, "a", NULL));
    CHECK_RESULT(MSGQ_NOT_FOUND, change(scene.queue, "b", &fine));
    REFUSE(MSGQ_INVALID, change, draft.id = "b");
    REFUSE(MSGQ_INVALID, change, draft.id = "\xff");
    REFUSE(MSGQ_INVALID, change, draft.conversation = "ben");
    REFUSE(MSGQ_INVALID, change, draft.conversation = "");
    REFUSE(MSGQ_INVALID, change, draft.not_before_ms = 1);
    REFUSE(MSGQ_INVALID, change, draft.expires_at_ms = LAST_TIME);
    REFUSE(MSGQ_INVALID, change, draft.unmetered_only = true);
    REFUSE(MSGQ_INVALID, change, draft.replace_key = "k");
    REFUSE(MSGQ_INVALID, change, draft.priority = -1);
    REFUSE(MSGQ_INVALID, change, draft.time_ms = -1);
    REFUSE(MSGQ_INVALID, change, draft.time_ms = LAST_TIME + 1);
    REFUSE(MSGQ_INVALID, change, draft.time_ms = INT64_MIN);
    if (!changes[index].is_update) REFUSE(MSGQ_INVALID, change, draft.time_ms = 5);
    REFUSE(MSGQ_INVALID, change, draft.body = NULL);
    REFUSE(MSGQ_INVALID, change, draft.metadata = NULL);
    REFUSE(MSGQ_INVALID, change, draft.metadata = ((const msgq_pair[]) { { "k", "1" }, { "k", "2" } }));
    REFUSE(MSGQ_INVALID, change, draft.metadata = ((const msgq_pair[]) { { "", "1" }, { "k", "2" } }));
    REFUSE(MSGQ_INVALID, change, draft.metadata = ((const msgq_pair[]) { { "k", NULL }, { "l", "2" } }));
    REFUSE(MSGQ_INVALID, change, draft.metadata = ((const msgq_pair[]) { { "k", "\xff" }, { "l", "2" } }));
    REFUSE(MSGQ_TOO_LARGE, change, draft.metadata = ((const msgq_pair[]) { { "k", "0123456789" }, { "l", "0123456789" } }));
    REFUSE(MSGQ_TOO_LARGE, change, draft.metadata_count = SIZE_MAX);
    REFUSE(MSGQ_TOO_LARGE, change, draft.metadata_count = 1025);
    REFUSE(MSGQ_TOO_LARGE, change, draft = draft_of("eleven byte", NULL, 0));
    REFUSE(MSGQ_TOO_LARGE, change, draft.body_size = SIZE_MAX);
    REFUSE(MSGQ_INVALID, change, draft.struct_size = 0);
    REFUSE(MSGQ_INVALID, change, draft.struct_size = UINT32_MAX);
    CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_EDITED));
    /* What must be the same is accepted, and "" is no replace key. */
    fine.id = "a";
    fine.conversation = "ana";
    fine.replace_key = "";
    CHECK_RESULT(MSGQ_OK, change(scene.queue, "a", &fine));
    CHECK(is_content_of(&scene, "a", "changed", two_pairs, 2));
    if (check_failures() > failures) fprintf(stderr, "  of %s\n", changes[index].name);
    scene_end(&scene);
  }
}

TEST(H11_an_edit_changes_body_and_metadata_of_queued_and_failed_messages) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  put(&scene, "failed", "ana", "no");
  CHECK_NUMBER(1, drain(&scene).failed);
  msgq_draft queued = draft_of("maybe", one_pair, 1);
  queued.id = "queued";
  queued.conversation = "ana";
  queued.priority = 7;
  queued.replace_key = "k";
  queued.time_ms = 5000;
  REQUIRE_OK(msgq_enqueue(scene.queue, &queued, NULL));
  static const char *const ids[] = { "failed", "queued" };
  for (int index = 0; index < 2; index++) {
    msgq_message *before = get(&scene, ids[index]);
    msgq_draft draft = draft_of("better", two_pairs, 2);
    REQUIRE_OK(msgq_edit_message(scene.queue, ids[index], &draft, 0));
    msgq_message *after = get(&scene, ids[index]);
    CHECK(has_content(after, "better", two_pairs, 2));
    CHECK_NUMBER(before->time_ms, after->time_ms);
    check_same_message(before, after);
    msgq_message_free(before);
    msgq_message_free(after);
  }
  CHECK_NUMBER(12, counts_of(&scene, NULL).unsent_bytes);
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_EDITED) == 2);
  /* msgq_edit leaves the metadata as they are. */
  REQUIRE_OK(msgq_edit(scene.queue, "queued", "best", 4));
  CHECK(is_content_of(&scene, "queued", "best", two_pairs, 2));
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_EDITED) == 3);
  scene_end(&scene);
}

/* Notes the body and the metadata that it is given, as "body kind". */
static msgq_verdict note_content(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  char *text = context;
  (void)out;
  snprintf(text, 64, "%.*s %s", (int)delivery->body_size, (const char *)delivery->body,
           delivery->metadata_count > 0 ? delivery->metadata[0].value : "none");
  return MSGQ_VERDICT_SENT;
}

TEST(H11_what_is_sent_is_what_the_edit_says) {
  struct scene scene;
  static char sent[64];
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "first");
  msgq_draft draft = draft_of("second", two_pairs, 2);
  REQUIRE_OK(msgq_edit_message(scene.queue, "a", &draft, -1));
  REQUIRE_OK(msgq_set_transport(scene.queue, note_content, sent, NULL));
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_TEXT("second changed", sent);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_edit_message(scene.queue, "a", &draft, -1));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_edit_message(scene.queue, "a", &draft, edited_of(&scene, "a")));
  scene_end(&scene);
}

TEST(H11_an_edit_after_another_one_is_refused) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "first");
  msgq_draft mine = draft_of("mine", one_pair, 1), theirs = draft_of("theirs", two_pairs, 2);
  REQUIRE_OK(msgq_edit_message(scene.queue, "a", &theirs, edited_of(&scene, "a")));
  int64_t edited = edited_of(&scene, "a");
  CHECK(edited > 0);
  const int64_t others[] = { 0, edited - 1, edited + 1, INT64_MAX };
  for (int index = 0; index < 4; index++) CHECK_RESULT(MSGQ_CONFLICT, msgq_edit_message(scene.queue, "a", &mine, others[index]));
  CHECK(strstr(msgq_error_detail(), "edited") != NULL);
  CHECK_RESULT(MSGQ_INVALID, msgq_edit_message(scene.queue, "a", &mine, -2));
  CHECK_RESULT(MSGQ_INVALID, msgq_edit_message(scene.queue, "a", &mine, INT64_MIN));
  CHECK(is_content_of(&scene, "a", "theirs", two_pairs, 2));
  CHECK_NUMBER(edited, edited_of(&scene, "a"));
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_EDITED) > 0);
  CHECK_NUMBER(1, journal_count(&scene.journal, MSGQ_EVENT_EDITED));
  scene_close(&scene);
  scene_open(&scene);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_edit_message(scene.queue, "a", &mine, 0));
  CHECK_RESULT(MSGQ_OK, msgq_edit_message(scene.queue, "a", &mine, edited));
  CHECK(is_content_of(&scene, "a", "mine", one_pair, 1));
  CHECK_RESULT(MSGQ_OK, msgq_edit_message(scene.queue, "a", &theirs, -1));
  scene_end(&scene);
}

TEST(H11_the_time_of_the_edit_grows_with_every_change) {
  struct scene scene;
  scene_begin(&scene);
  /* The clock stands still. */
  REQUIRE_OK(msgq_open_simulated(scene.path, &scene.options, 1700000000000, 1, &scene.queue));
  put(&scene, "a", "ana", "x");
  record(&scene, "r", "x", 0);
  int64_t last = 0;
  for (int round = 0; round < 6; round++) {
    msgq_draft draft = draft_of("y", NULL, 0);
    REQUIRE_OK(round % 2 == 0 ? msgq_edit(scene.queue, "a", "x", 1) : msgq_edit_message(scene.queue, "a", &draft, last));
    REQUIRE_OK(msgq_update(scene.queue, "r", &draft));
    int64_t edited = edited_of(&scene, "a");
    CHECK(edited > last);
    CHECK_NUMBER(1700000000000 + round, edited);
    CHECK_NUMBER(edited, edited_of(&scene, "r"));
    last = edited;
  }
  /* A clock that was set back. */
  scene_close(&scene);
  REQUIRE_OK(msgq_open_simulated(scene.path, &scene.options, 1600000000000, 1, &scene.queue));
  REQUIRE_OK(msgq_edit(scene.queue, "a", "z", 1));
  CHECK_NUMBER(last + 1, edited_of(&scene, "a"));
  scene_end(&scene);
}

TEST(H11_every_change_has_one_event_after_it) {
  struct scene scene;
  struct entry entry;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "x");
  record(&scene, "r", "x", 0);
  msgq_draft draft = draft_of("changed", NULL, 0);
  for (size_t round = 0; round < 5; round++) {
    REQUIRE_OK(msgq_edit(scene.queue, "a", "x", 1));
    REQUIRE_OK(msgq_edit_message(scene.queue, "a", &draft, -1));
    REQUIRE_OK(msgq_update(scene.queue, "r", &draft));
    CHECK_RESULT(MSGQ_CONFLICT, msgq_edit_message(scene.queue, "a", &draft, 0));
    CHECK_RESULT(MSGQ_CONFLICT, msgq_update(scene.queue, "a", &draft));
    CHECK_RESULT(MSGQ_CONFLICT, msgq_edit(scene.queue, "r", "x", 1));
  }
  put(&scene, "last", "ana", "x");
  AWAIT(journal_reached(&scene.journal, "last", MSGQ_STATUS_QUEUED));
  CHECK_NUMBER(15, journal_count(&scene.journal, MSGQ_EVENT_EDITED));
  CHECK(journal_last(&scene.journal, MSGQ_EVENT_EDITED, &entry));
  CHECK_TEXT("r", entry.id);
  CHECK_TEXT("ana", entry.conversation);
  CHECK_NUMBER(MSGQ_EVENT_REPLACED + 1, MSGQ_EVENT_EDITED);
  scene_end(&scene);
}

TEST(H11_a_message_that_is_being_sent_is_not_edited) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_RETRY);
  atomic_store(&stub.held, true);
  put(&scene, "a", "ana", "first");
  REQUIRE_OK(msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.inside) == 1);
  msgq_draft draft = draft_of("second", two_pairs, 2);
  CHECK_RESULT(MSGQ_BUSY, msgq_edit_message(scene.queue, "a", &draft, -1));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_update(scene.queue, "a", &draft));
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  CHECK(is_content_of(&scene, "a", "first", NULL, 0));
  CHECK_RESULT(MSGQ_OK, msgq_edit_message(scene.queue, "a", &draft, 0));
  CHECK(is_content_of(&scene, "a", "second", two_pairs, 2));
  scene_end(&scene);
}

TEST_LONG(H11_a_damaged_message_is_not_changed) {
  static const char *const damages[] = {
    "UPDATE message SET body = x'00'", "UPDATE message SET metadata = '{}'", "UPDATE message SET metadata = '{'",
    "UPDATE message SET edited_at = 7", "UPDATE message SET time_at = 7", "UPDATE message SET state_hash = 1",
  };
  for (size_t index = 0; index < sizeof damages / sizeof damages[0]; index++) {
    struct scene scene;
    unsigned failures = check_failures();
    scene_begin_open(&scene);
    record(&scene, "r", "first", 0);
    msgq_draft draft = draft_of("first", one_pair, 1);
    draft.id = "a";
    REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
    scene_close(&scene);
    sql_run(scene.path, damages[index]);
    int64_t before = sql_number(scene.path, "SELECT sum(content_hash % 1000003) FROM message");
    scene_open(&scene);
    draft.id = NULL;
    CHECK_RESULT(MSGQ_CORRUPT, msgq_edit_message(scene.queue, "a", &draft, -1));
    CHECK_RESULT(MSGQ_CORRUPT, msgq_update(scene.queue, "r", &draft));
    CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_EDITED));
    scene_close(&scene);
    CHECK_NUMBER(before, sql_number(scene.path, "SELECT sum(content_hash % 1000003) FROM message"));
    if (check_failures() > failures) fprintf(stderr, "  after %s\n", damages[index]);
    scene_end(&scene);
  }
}

TEST(H11_limits_hold_for_changes) {
  struct scene scene;
  char *body = calloc(1, 1 << 20);
  scene_begin(&scene);
  scene.options.limit_bytes = 100;
  scene_open(&scene);
  REQUIRE_OK(put_body_of(&scene, "a", 60));
  record(&scene, "r", "first", 0);
  msgq_draft draft = draft_of("", NULL, 0);
  draft.body = body;
  draft.body_size = 101;
  CHECK_RESULT(MSGQ_FULL, msgq_edit_message(scene.queue, "a", &draft, -1));
  CHECK_NUMBER(60, counts_of(&scene, NULL).unsent_bytes);
  /* Received messages do not count. */
  CHECK_RESULT(MSGQ_OK, msgq_update(scene.queue, "r", &draft));
  CHECK_NUMBER(60, counts_of(&scene, NULL).unsent_bytes);
  draft.body_size = 100;
  CHECK_RESULT(MSGQ_OK, msgq_edit_message(scene.queue, "a", &draft, -1));
  scene_close(&scene);
  scene.options.limit_bytes = 0;
  scene.options.limit_file_bytes = 600000;
  scene_open(&scene);
  draft.body_size = 1 << 20;
  CHECK_RESULT(MSGQ_FULL, msgq_edit_message(scene.queue, "a", &draft, -1));
  CHECK_RESULT(MSGQ_FULL, msgq_update(scene.queue, "r", &draft));
  char *value = malloc(700001);
  memset(value, 'x', 700000);
  value[700000] = 0;
  scene_close(&scene);
  scene.options.limit_metadata = 1 << 20;
  scene_open(&scene);
  msgq_pair large = { "k", value };
  draft = draft_of("x", &large, 1);
  CHECK_RESULT(MSGQ_FULL, msgq_edit_message(scene.queue, "a", &draft, -1));
  CHECK_RESULT(MSGQ_FULL, msgq_update(scene.queue, "r", &draft));
  CHECK_NUMBER(100, counts_of(&scene, NULL).unsent_bytes);
  msgq_message *message = get(&scene, "r");
  CHECK_NUMBER(101, message->body_size);
  CHECK_NUMBER(1, message->metadata_count);
  msgq_message_free(message);
  /* Less is always possible. */
  draft = draft_of("x", NULL, 0);
  CHECK_RESULT(MSGQ_OK, msgq_edit_message(scene.queue, "a", &draft, -1));
  CHECK_RESULT(MSGQ_OK, msgq_update(scene.queue, "r", &draft));
  free(value);
  free(body);
  scene_end(&scene);
}

TEST(H11_R4_the_text_before_a_change_is_erased_from_disk) {
  struct scene scene;
  char large[3000];
  static const msgq_pair secret[] = { { "key", "a secret value" } };
  memset(large, 'x', sizeof large);
  memcpy(large, "a secret large body", 19);
  scene_begin_open(&scene);
  msgq_draft draft = draft_of("a secret body", secret, 1);
  draft.id = "r";
  REQUIRE_OK(msgq_record(scene.queue, &draft, "eve", NULL));
  draft.id = "a";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  draft.id = "l";
  draft.body = large;
  draft.body_size = sizeof large;
  REQUIRE_OK(msgq_record(scene.queue, &draft, "eve", NULL));
  CHECK(file_contains(log_of(&scene), "secret") || file_contains(scene.path, "secret"));
  draft = draft_of("public", two_pairs, 2);
  REQUIRE_OK(msgq_update(scene.queue, "r", &draft));
  REQUIRE_OK(msgq_update(scene.queue, "l", &draft));
  REQUIRE_OK(msgq_edit_message(scene.queue, "a", &draft, 0));
  for (int round = 0; round < 2; round++) {
    CHECK(!file_exists(log_of(&scene)) || !file_contains(log_of(&scene), "secret"));
    CHECK(!file_contains(scene.path, "secret"));
    if (round == 0) scene_close(&scene);
  }
  scene_end(&scene);
}

/* Returns the time of message number `n` as the test knows it. */
struct known {
  int64_t time;
  uint64_t sequence;
  int number;
};

static int compare(const void *left, const void *right) {
  const struct known *a = left, *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Checks the list by time, in pages, and the newest message of each conversation, against what the test knows. */
static void check_order_by_time(struct scene *scene, const struct known *known, int count) {
  struct known *sorted = malloc((size_t)count * sizeof *sorted);
  memcpy(sorted, known, (size_t)count * sizeof *sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, compare);
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUSES_ALL;
  filter.order = MSGQ_ORDER_TIME;
  filter.limit = 37;
  int seen = 0;
  for (;;) {
    msgq_page *page = NULL;
    REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
    size_t size = msgq_list_size(page);
    for (size_t index = 0; index < size; index++, seen++) {
      const msgq_message *message = msgq_list_at(page, index);
      REQUIRE(seen < count);
      CHECK_NUMBER(sorted[seen].sequence, message->sequence);
      CHECK_NUMBER(sorted[seen].time, message->time_ms);
    }
    if (size > 0) {
      filter.after = msgq_list_at(page, size - 1)->sequence;
      filter.after_time_ms = msgq_list_at(page, size - 1)->time_ms;
    }
    msgq_list_free(page);
    if (size < 37) break;
  }
  CHECK_NUMBER(count, seen);
  msgq_conversation_page *page = NULL;
  REQUIRE_OK(msgq_conversations_by_time(scene->queue, 0, 0, 0, &page));
  for (size_t index = 0; index < msgq_conversations_size(page); index++) {
    const msgq_conversation *entry = msgq_conversations_at(page, index);
    int number = entry->name[1] - '0';
    const struct known *newest = NULL;
    for (int place = 0; place < count; place++) {
      if (sorted[place].number % 5 == number) newest = &sorted[place];
    }
    REQUIRE(newest != NULL);
    CHECK_NUMBER(newest->sequence, entry->last->sequence);
  }
  CHECK_NUMBER(5, msgq_conversations_size(page));
  msgq_conversations_free(page);
  free(sorted);
}

TEST_LONG(H11_H10_lists_by_time_follow_updates) {
  enum { most = 700 };
  struct scene scene;
  static struct known known[most];
  const int count = check_times(most, 150);
  unsigned seed = 11;
  scene_begin_open(&scene);
  int64_t now = wall_ms();
  for (int number = 0; number < count; number++) {
    char id[16], conversation[16];
    snprintf(id, sizeof id, "m%d", number);
    snprintf(conversation, sizeof conversation, "c%d", number % 5);
    msgq_draft draft = draft_of("x", NULL, 0);
    draft.id = id;
    draft.conversation = conversation;
    REQUIRE_OK(msgq_record(scene.queue, &draft, "eve", NULL));
    msgq_message *message = get(&scene, id);
    known[number] = (struct known) { message->time_ms, message->sequence, number };
    msgq_message_free(message);
  }
  for (int round = 0; round < 4; round++) {
    for (int change = 0; change < 12 * (round + 1); change++) {
      char id[16];
      int number = rand_r(&seed) % count;
      snprintf(id, sizeof id, "m%d", number);
      msgq_draft draft = draft_of("y", NULL, 0);
      draft.time_ms = rand_r(&seed) % 4 == 0 ? 0 : now - 100000 + rand_r(&seed) % 200000;
      REQUIRE_OK(msgq_update(scene.queue, id, &draft));
      if (draft.time_ms != 0) known[number].time = draft.time_ms;
    }
    check_order_by_time(&scene, known, count);
    scene_close(&scene);
    msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
    REQUIRE_OK(msgq_check(scene.path, &report));
    if (!CHECK(report.sound)) fprintf(stderr, "  %s\n", report.text);
    scene_open(&scene);
    check_order_by_time(&scene, known, count);
  }
  scene_end(&scene);
}

TEST(H11_keep_sent_prunes_by_the_time_of_the_update) {
  struct scene scene;
  scene_begin_open(&scene);
  for (int number = 0; number < 6; number++) {
    char id[8];
    snprintf(id, sizeof id, "m%d", number);
    record(&scene, id, "x", 1000 + number);
    REQUIRE_OK(msgq_mark(scene.queue, id, MSGQ_STATUS_READ));
  }
  /* The oldest becomes the newest, and the newest the oldest. */
  msgq_draft draft = draft_of("x", NULL, 0);
  draft.time_ms = 5000;
  REQUIRE_OK(msgq_update(scene.queue, "m0", &draft));
  draft.time_ms = 5;
  REQUIRE_OK(msgq_update(scene.queue, "m5", &draft));
  scene_close(&scene);
  scene.options.keep_sent = 3;
  scene_open(&scene);
  AWAIT(counts_of(&scene, NULL).received == 3);
  msgq_filter filter = MSGQ_FILTER_INIT;
  char ids[64];
  filter.statuses = MSGQ_STATUSES_ALL;
  filter.order = MSGQ_ORDER_TIME;
  ids_of(&scene, &filter, ids, sizeof ids);
  CHECK_TEXT("m3 m4 m0", ids);
  scene_end(&scene);
}

TEST(H11_a_change_survives_backup_and_salvage) {
  struct scene scene;
  char copy[96], salvaged[96];
  scene_begin_open(&scene);
  record(&scene, "r", "first", 5000);
  put(&scene, "a", "ana", "first");
  msgq_draft draft = draft_of("second", two_pairs, 2);
  REQUIRE_OK(msgq_edit_message(scene.queue, "a", &draft, 0));
  draft.time_ms = 9000;
  REQUIRE_OK(msgq_update(scene.queue, "r", &draft));
  int64_t edited = edited_of(&scene, "r");
  snprintf(copy, sizeof copy, "%s", scene_file(&scene, "copy.db"));
  snprintf(salvaged, sizeof salvaged, "%s", scene_file(&scene, "salvaged.db"));
  REQUIRE_OK(msgq_backup(scene.queue, copy));
  scene_close(&scene);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  REQUIRE_OK(msgq_salvage(copy, salvaged, &report));
  CHECK(report.sound);
  memcpy(scene.path, salvaged, sizeof salvaged);
  scene_open(&scene);
  CHECK(is_content_of(&scene, "a", "second", two_pairs, 2));
  CHECK(is_content_of(&scene, "r", "second", two_pairs, 2));
  CHECK_NUMBER(edited, edited_of(&scene, "r"));
  msgq_message *message = get(&scene, "r");
  CHECK_NUMBER(9000, message->time_ms);
  msgq_message_free(message);
  scene_end(&scene);
}

/* Edits inside the transport and inside the event handler are calls like any other. */
static void edit_in_handler(void *context, const msgq_event *event) {
  struct scene *scene = context;
  msgq_draft draft = draft_of("edited inside", NULL, 0);
  if (event->kind == MSGQ_EVENT_STATUS && event->from == MSGQ_STATUS_NONE && strcmp(event->id, "r") == 0) {
    CHECK_RESULT(MSGQ_OK, msgq_update(scene->queue, "r", &draft));
  }
  journal_event(&scene->journal, event);
}

TEST(H11_Q15_a_change_inside_a_callback) {
  struct scene scene;
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_set_event_handler(scene.queue, edit_in_handler, &scene, NULL));
  record(&scene, "r", "first", 0);
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_EDITED) == 1);
  CHECK(is_content_of(&scene, "r", "edited inside", one_pair, 1));
  scene_end(&scene);
}
