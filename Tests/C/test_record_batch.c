/* H12: many messages are recorded in one call: received ones, and one's own that another device sent. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "faults.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

enum { room = 16 };

/* A batch that is being built. */
struct batch {
  size_t count;
  msgq_draft drafts[room];
  const char *senders[room];
  msgq_result results[room];
};

/* Adds a message; `sender` NULL: one's own. Returns its draft, of which a test may change more. */
static msgq_draft *add(struct batch *batch, const char *id, const char *conversation, const char *sender) {
  msgq_draft *draft = &batch->drafts[batch->count];
  *draft = (msgq_draft)MSGQ_DRAFT_INIT;
  draft->id = id;
  draft->conversation = conversation;
  draft->body = id;
  draft->body_size = id == NULL ? 0 : strlen(id);
  batch->results[batch->count] = MSGQ_INTERNAL;
  batch->senders[batch->count++] = sender;
  return draft;
}

static msgq_result record(struct scene *scene, struct batch *batch) {
  return msgq_record_batch(scene->queue, batch->drafts, batch->senders, batch->count, batch->results);
}

/* Records one received message by a batch, and returns its result. */
static msgq_result record_one(struct scene *scene, const char *id) {
  struct batch batch = { .count = 0 };
  add(&batch, id, "ana", "Ana");
  REQUIRE_OK(record(scene, &batch));
  return batch.results[0];
}

static bool all_is(struct scene *scene, const char *conversation, msgq_list_order order, const char *expected) {
  char text[512];
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.conversation = conversation;
  filter.statuses = MSGQ_STATUSES_ALL;
  filter.order = order;
  ids_of(scene, &filter, text, sizeof text);
  return strcmp(expected, text) == 0;
}

/* Checks the closed store of the scene, and opens it again. */
static void check_store(struct scene *scene) {
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_close(scene);
  REQUIRE_OK(msgq_check(scene->path, &report));
  CHECK_TEXT("", report.sound ? "" : report.text);
  scene_open(scene);
}

TEST(H12_received_messages_are_recorded_together) {
  struct scene scene;
  struct stub stub;
  struct batch batch = { .count = 0 };
  const msgq_pair pairs[] = { { "lang", "de" } };
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "mine", "ana", "how are you?");
  msgq_draft *draft = add(&batch, "a", "ana", "Ana");
  draft->metadata = pairs;
  draft->metadata_count = 1;
  draft->time_ms = 1700000000000;
  draft->not_before_ms = -5; /* what concerns sending is not read */
  draft->priority = 1000;
  draft->replace_key = "\xff";
  add(&batch, "b", "ben", "Ben");
  add(&batch, NULL, "ana", "Ana");
  int64_t before = wall_ms();
  REQUIRE_OK(record(&scene, &batch));
  for (size_t index = 0; index < batch.count; index++) CHECK_RESULT(MSGQ_OK, batch.results[index]);
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "a", &message));
  CHECK_TEXT("Ana", message->sender);
  CHECK(message->body_size == 1 && memcmp(message->body, "a", 1) == 0);
  CHECK(message->metadata_count == 1 && strcmp(message->metadata[0].value, "de") == 0);
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, message->status);
  CHECK_NUMBER(1700000000000, message->time_ms);
  CHECK(message->created_ms >= before && message->delivered_ms == message->created_ms && message->read_ms == 0);
  CHECK(message->sent_ms == 0 && message->attempts == 0 && message->priority == 0 && message->not_before_ms == 0);
  msgq_message_free(message);
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.received == 3 && counts.unread == 3 && counts.queued == 1 && counts.sent == 0);
  CHECK_NUMBER(2, (int64_t)counts_of(&scene, "ana").received);
  CHECK_NUMBER(1, drain(&scene).sent); /* only what was enqueued is sent */
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  REQUIRE_OK(msgq_record_batch(scene.queue, NULL, NULL, 0, NULL));
  check_store(&scene);
  scene_end(&scene);
}

TEST(H12_own_messages_of_another_device_are_sent_and_never_unread) {
  struct scene scene;
  struct stub stub;
  struct batch batch = { .count = 0 };
  msgq_message *message = NULL;
  msgq_ledger *ledger = NULL;
  char path[64];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  add(&batch, "mine", "ana", NULL)->time_ms = 1700000000000;
  add(&batch, "hers", "ana", "Ana")->time_ms = 1700000000001;
  int64_t before = wall_ms();
  REQUIRE_OK(record(&scene, &batch));
  CHECK(batch.results[0] == MSGQ_OK && batch.results[1] == MSGQ_OK);
  REQUIRE_OK(msgq_get(scene.queue, "mine", &message));
  CHECK(message->sender == NULL && message->status == MSGQ_STATUS_SENT && message->time_ms == 1700000000000);
  CHECK(message->sent_ms >= before && message->sent_ms <= wall_ms() && message->delivered_ms == 0 && message->read_ms == 0);
  CHECK(message->attempts == 0 && message->last_attempt_ms == 0 && message->failure == NULL && message->failure_before == NULL);
  msgq_message_free(message);
  msgq_counts counts = counts_of(&scene, "ana");
  CHECK(counts.sent == 1 && counts.received == 1 && counts.unread == 1 && counts.queued == 0 && counts.unsent_bytes == 0);
  REQUIRE_OK(msgq_attempts(scene.queue, "mine", &ledger));
  CHECK_NUMBER(0, msgq_attempts_size(ledger));
  msgq_attempts_free(ledger);
  CHECK_NUMBER(MSGQ_REASON_NONE, reason_of(&scene, "mine"));
  REQUIRE_OK(msgq_wait(scene.queue, "mine", 0, &message));
  CHECK_NUMBER(MSGQ_STATUS_SENT, message->status);
  msgq_message_free(message);
  CHECK_NUMBER(0, drain(&scene).sent);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_edit(scene.queue, "mine", "x", 1));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_retry(scene.queue, "mine"));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_send_now(scene.queue, "mine"));
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  /* Receipts of the receiver move it, as a message that was sent here. */
  REQUIRE_OK(msgq_mark(scene.queue, "mine", MSGQ_STATUS_DELIVERED));
  CHECK(counts_of(&scene, NULL).delivered == 1 && counts_of(&scene, NULL).sent == 0);
  REQUIRE_OK(msgq_mark(scene.queue, "mine", MSGQ_STATUS_READ));
  REQUIRE_OK(msgq_get(scene.queue, "mine", &message));
  CHECK(message->delivered_ms >= message->sent_ms && message->read_ms >= message->delivered_ms);
  msgq_message_free(message);
  CHECK(counts_of(&scene, NULL).read == 1 && counts_of(&scene, NULL).unread == 1);
  AWAIT(journal_reached(&scene.journal, "mine", MSGQ_STATUS_READ));
  journal_path(&scene.journal, "mine", path, sizeof path);
  CHECK_TEXT("none>sent>delivered>read", path);
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  check_store(&scene);
  CHECK_NUMBER(MSGQ_STATUS_READ, status_of(&scene, "mine"));
  CHECK(all_is(&scene, "ana", MSGQ_ORDER_TIME, "mine hers"));
  scene_end(&scene);
}

TEST(H12_without_senders_all_are_ones_own) {
  struct scene scene;
  struct batch batch = { .count = 0 };
  scene_begin_open(&scene);
  add(&batch, "a", "ana", "ignored");
  add(&batch, "b", "ana", "ignored");
  REQUIRE_OK(msgq_record_batch(scene.queue, batch.drafts, NULL, batch.count, NULL));
  CHECK(counts_of(&scene, NULL).sent == 2 && counts_of(&scene, NULL).received == 0);
  scene_end(&scene);
}

TEST(H12_each_draft_has_its_result) {
  struct scene scene;
  struct stub stub;
  struct batch batch = { .count = 0 };
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_each(&scene, { "sent", "ana", "1" }, { "deleted", "ana", "2" });
  CHECK_NUMBER(2, drain(&scene).sent);
  put_each(&scene, { "queued", "ana", "3" }, { "unsent", "ana", "4" });
  REQUIRE_OK(msgq_delete(scene.queue, "deleted"));
  REQUIRE_OK(msgq_delete(scene.queue, "unsent"));
  add(&batch, "old", "ana", "Ana");
  add(&batch, "old-own", "ana", NULL);
  add(&batch, "gone", "ana", "Ana");
  add(&batch, "gone-own", "ana", NULL);
  REQUIRE_OK(record(&scene, &batch));
  REQUIRE_OK(msgq_delete(scene.queue, "gone"));
  REQUIRE_OK(msgq_delete(scene.queue, "gone-own"));
  batch = (struct batch){ .count = 0 };
  struct { const char *id, *sender; msgq_result expected; } rows[] = {
    { "old", "somebody else", MSGQ_OK }, { "old-own", NULL, MSGQ_OK },    { "gone", "Ana", MSGQ_DUPLICATE }, { "gone-own", NULL, MSGQ_DUPLICATE },
    { "sent", NULL, MSGQ_DUPLICATE },    { "queued", "Ana", MSGQ_DUPLICATE }, { "deleted", NULL, MSGQ_DUPLICATE }, { "unsent", "Ana", MSGQ_OK },
    { "new", "Ana", MSGQ_OK },           { "new", "Ben", MSGQ_OK },       { "new", NULL, MSGQ_OK },          { "last", NULL, MSGQ_OK },
  };
  for (size_t index = 0; index < sizeof rows / sizeof rows[0]; index++) add(&batch, rows[index].id, "ana", rows[index].sender);
  batch.drafts[0].body = "another body";
  REQUIRE_OK(record(&scene, &batch));
  for (size_t index = 0; index < batch.count; index++) {
    if (!CHECK_RESULT(rows[index].expected, batch.results[index])) printf("%zu: %s\n", index, rows[index].id);
  }
  /* What was there is left, and of those of one id the first one counts. */
  CHECK(all_is(&scene, "ana", MSGQ_ORDER_SEQUENCE, "sent queued old old-own unsent new last"));
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "old", &message));
  CHECK_TEXT("Ana", message->sender);
  CHECK_TEXT("old", message->preview);
  msgq_message_free(message);
  REQUIRE_OK(msgq_get(scene.queue, "new", &message));
  CHECK_TEXT("Ana", message->sender);
  msgq_message_free(message);
  /* A second time nothing changes. */
  msgq_counts counts = counts_of(&scene, NULL);
  REQUIRE_OK(record(&scene, &batch));
  for (size_t index = 0; index < batch.count; index++) CHECK_RESULT(rows[index].expected, batch.results[index]);
  msgq_counts after = counts_of(&scene, NULL);
  CHECK(counts.received == after.received && counts.sent == after.sent && counts.queued == after.queued);
  /* An id of the history is no longer free for a message to send. */
  msgq_draft draft = MSGQ_DRAFT_INIT;
  const char *taken[] = { "last", "gone-own", "gone" };
  for (size_t index = 0; index < 3; index++) {
    draft.id = taken[index];
    CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene.queue, &draft, NULL));
  }
  /* msgq_record agrees: what is recorded is there, whoever wrote it. */
  draft.id = "last";
  CHECK_RESULT(MSGQ_OK, msgq_record(scene.queue, &draft, "Ana", NULL));
  draft.id = "gone-own";
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_record(scene.queue, &draft, "Ana", NULL));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "last"));
  check_store(&scene);
  scene_end(&scene);
}

TEST(H12_an_id_is_free_again_when_it_is_forgotten) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.remember_ids_ms = 0;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_OK, record_one(&scene, "a"));
  scene_close(&scene);
  scene.options.remember_ids_ms = 1;
  scene_open(&scene);
  REQUIRE_OK(msgq_delete(scene.queue, "a"));
  pause_ms(20);
  CHECK_RESULT(MSGQ_OK, record_one(&scene, "a"));
  CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).received);
  scene_end(&scene);
}

TEST(H12_pruned_messages_are_not_recorded_again) {
  struct scene scene;
  struct batch batch = { .count = 0 };
  scene_begin(&scene);
  scene.options.keep_sent = 1;
  scene_open(&scene);
  add(&batch, "a", "ana", NULL);
  add(&batch, "b", "ana", "Ana");
  add(&batch, "c", "ana", NULL);
  REQUIRE_OK(record(&scene, &batch));
  /* One's own count against keep_sent, unread ones do not. */
  AWAIT(all_is(&scene, "ana", MSGQ_ORDER_SEQUENCE, "b c"));
  REQUIRE_OK(record(&scene, &batch));
  CHECK_RESULT(MSGQ_DUPLICATE, batch.results[0]);
  CHECK(batch.results[1] == MSGQ_OK && batch.results[2] == MSGQ_OK);
  CHECK(all_is(&scene, "ana", MSGQ_ORDER_SEQUENCE, "b c"));
  scene_end(&scene);
}

/* Checks that the call is refused, names the draft, and changes nothing. */
static void check_refused_batch(struct scene *scene, struct batch *batch, msgq_result expected, const char *detail) {
  CHECK_RESULT(expected, record(scene, batch));
  if (!CHECK(strstr(msgq_error_detail(), detail) != NULL)) printf("%s instead of %s\n", msgq_error_detail(), detail);
  for (size_t index = 0; index < batch->count; index++) CHECK_RESULT(MSGQ_INTERNAL, batch->results[index]);
  msgq_counts counts = counts_of(scene, NULL);
  CHECK(counts.received == 1 && counts.sent == 0 && counts.queued == 0);
}

static struct batch two(void) {
  struct batch batch = { .count = 0 };
  add(&batch, "a", "ana", "Ana");
  add(&batch, "b", "ana", "Ana");
  return batch;
}

TEST(H12_an_invalid_draft_is_named_by_its_index_and_nothing_is_stored) {
  struct scene scene;
  char name[300];
  memset(name, 'x', 299);
  name[299] = '\0';
  scene_begin(&scene);
  scene.options.limit_body = 4;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_OK, record_one(&scene, "old"));
  struct { const char *id, *conversation, *sender, *detail; } rows[] = {
    { "", "ana", "Ana", "draft 1: " },     { "\xff", "ana", "Ana", "draft 1: " },  { name, "ana", "Ana", "draft 1: " },
    { "b\n", "ana", "Ana", "draft 1: " },  { "b", "\xff", "Ana", "draft 1: " },    { "b", name, "Ana", "draft 1: " },
    { "b", "ana", "", "draft 1: sender" }, { "b", "ana", "\xff", "draft 1: " },    { "b", "ana", name, "draft 1: sender" },
    { "b", "ana", "A\n", "draft 1: " },
  };
  for (size_t index = 0; index < sizeof rows / sizeof rows[0]; index++) {
    struct batch batch = two();
    batch.drafts[1].id = rows[index].id;
    batch.drafts[1].conversation = rows[index].conversation;
    batch.senders[1] = rows[index].sender;
    check_refused_batch(&scene, &batch, MSGQ_INVALID, rows[index].detail);
  }
  const int64_t times[] = { -1, INT64_MIN, INT64_MAX, 253402300800000 };
  for (size_t index = 0; index < 4; index++) {
    struct batch batch = two();
    batch.drafts[1].time_ms = times[index];
    check_refused_batch(&scene, &batch, MSGQ_INVALID, "draft 1: the time must be");
  }
  struct batch batch = two();
  batch.drafts[1].body = "12345";
  batch.drafts[1].body_size = 5;
  check_refused_batch(&scene, &batch, MSGQ_TOO_LARGE, "draft 1: the body has 5 bytes");
  batch = two();
  batch.drafts[1].body = NULL;
  check_refused_batch(&scene, &batch, MSGQ_INVALID, "draft 1: ");
  batch = two();
  batch.drafts[1].metadata_count = 1;
  check_refused_batch(&scene, &batch, MSGQ_INVALID, "draft 1: ");
  batch.drafts[1].metadata_count = SIZE_MAX;
  check_refused_batch(&scene, &batch, MSGQ_TOO_LARGE, "draft 1: ");
  batch = two();
  batch.drafts[1].struct_size = 48;
  check_refused_batch(&scene, &batch, MSGQ_INVALID, "struct_size of draft 1");
  batch.drafts[0].struct_size = 0;
  check_refused_batch(&scene, &batch, MSGQ_INVALID, "struct_size of msgq_draft");
  batch = two();
  batch.count = 1;
  batch.senders[0] = "";
  check_refused_batch(&scene, &batch, MSGQ_INVALID, "sender must not be empty");
  scene_end(&scene);
}

TEST(H12_a_wrong_array_is_refused) {
  struct scene scene;
  struct batch batch = two();
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_INVALID, msgq_record_batch(NULL, batch.drafts, batch.senders, 2, batch.results));
  CHECK_RESULT(MSGQ_INVALID, msgq_record_batch(scene.queue, NULL, batch.senders, 2, batch.results));
  const size_t counts[] = { SIZE_MAX, SIZE_MAX / sizeof(msgq_draft) + 1, (size_t)INT64_MAX, 1000001 };
  for (size_t index = 0; index < 4; index++) {
    CHECK_RESULT(MSGQ_INVALID, msgq_record_batch(scene.queue, batch.drafts, batch.senders, counts[index], batch.results));
    CHECK(strstr(msgq_error_detail(), "count must be 0 to 1000000") != NULL);
  }
  CHECK(batch.results[0] == MSGQ_INTERNAL && batch.results[1] == MSGQ_INTERNAL);
  CHECK_NUMBER(0, (int64_t)counts_of(&scene, NULL).received);
  /* Drafts of an older, smaller struct. */
  struct { char bytes[2 * offsetof(msgq_draft, metadata)]; } older;
  for (size_t index = 0; index < 2; index++) {
    batch.drafts[index].struct_size = (uint32_t)offsetof(msgq_draft, metadata);
    memcpy(older.bytes + index * offsetof(msgq_draft, metadata), &batch.drafts[index], offsetof(msgq_draft, metadata));
  }
  REQUIRE_OK(msgq_record_batch(scene.queue, (const msgq_draft *)(const void *)older.bytes, batch.senders, 2, batch.results));
  CHECK(all_is(&scene, "ana", MSGQ_ORDER_SEQUENCE, "a b"));
  scene_end(&scene);
}

TEST(H12_limits_of_the_queue_hold_for_what_is_new) {
  struct scene scene;
  static char body[100000];
  struct batch batch = { .count = 0 };
  scene_begin(&scene);
  scene.options.limit_messages = 1;
  scene.options.limit_bytes = 10;
  scene.options.limit_file_bytes = 1 << 20;
  scene.options.on_full = MSGQ_ON_FULL_DROP_OLDEST;
  scene_open(&scene);
  put(&scene, "queued", "ana", "stays");
  for (int index = 0; index < 4; index++) {
    msgq_draft *draft = add(&batch, (const char *[]) { "a", "b", "c", "d" }[index], "ana", index % 2 == 0 ? "Ana" : NULL);
    draft->body = body;
    draft->body_size = sizeof body;
  }
  batch.count = 2;
  REQUIRE_OK(record(&scene, &batch)); /* limits of unsent messages do not count */
  for (int full = 0; full < 20; full++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", full);
    msgq_draft draft = batch.drafts[0];
    draft.id = id;
    if (msgq_record(scene.queue, &draft, "Ana", NULL) != MSGQ_OK) break;
  }
  msgq_counts before = counts_of(&scene, NULL);
  batch.count = 4;
  CHECK_RESULT(MSGQ_FULL, record(&scene, &batch));
  msgq_counts after = counts_of(&scene, NULL);
  CHECK(before.received == after.received && before.sent == after.sent);
  CHECK_NUMBER(1, (int64_t)after.queued); /* nothing is dropped for the history */
  /* What is there needs no room. */
  batch.count = 2;
  REQUIRE_OK(record(&scene, &batch));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "queued"));
  scene_end(&scene);
}

TEST_ALONE(H12_after_a_failed_flush_the_batch_may_be_repeated) {
  struct scene scene;
  struct batch batch = two();
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_OK, record_one(&scene, "old"));
  atomic_store(&fault_sync, true);
  CHECK_RESULT(MSGQ_UNKNOWN, record(&scene, &batch));
  CHECK(batch.results[0] == MSGQ_INTERNAL);
  atomic_store(&fault_sync, false);
  msgq_close(scene.queue, 0);
  scene.queue = NULL;
  scene_open(&scene);
  REQUIRE_OK(record(&scene, &batch));
  CHECK(batch.results[0] == MSGQ_OK && batch.results[1] == MSGQ_OK);
  CHECK(all_is(&scene, "ana", MSGQ_ORDER_SEQUENCE, "old a b"));
  scene_end(&scene);
}

TEST(H12_an_older_page_appears_above_a_newer_one) {
  struct scene scene;
  struct batch newer = { .count = 0 }, older = { .count = 0 };
  scene_begin_open(&scene);
  add(&newer, "today", "ana", "Ana")->time_ms = 1700000005000;
  add(&newer, "reply", "ana", NULL)->time_ms = 1700000006000;
  add(&older, "last-week", "ana", "Ana")->time_ms = 1600000001000;
  add(&older, "monday", "ana", NULL)->time_ms = 1600000002000;
  REQUIRE_OK(record(&scene, &newer));
  REQUIRE_OK(record(&scene, &older));
  for (int round = 0; round < 2; round++) {
    CHECK(all_is(&scene, "ana", MSGQ_ORDER_TIME, "last-week monday today reply"));
    CHECK(all_is(&scene, "ana", MSGQ_ORDER_SEQUENCE, "today reply last-week monday"));
    msgq_conversation_page *page = NULL;
    REQUIRE_OK(msgq_conversations(scene.queue, 0, 0, &page));
    REQUIRE(msgq_conversations_size(page) == 1);
    CHECK_TEXT("reply", msgq_conversations_at(page, 0)->last->id);
    msgq_conversations_free(page);
    check_store(&scene);
  }
  scene_end(&scene);
}

TEST(H12_X14_each_message_of_a_batch_has_its_event) {
  struct scene scene;
  struct batch batch = { .count = 0 };
  struct entry entry;
  char path[64];
  scene_begin_open(&scene);
  add(&batch, "hers", "ana", "Ana");
  add(&batch, "mine", "ana", NULL);
  add(&batch, "hers", "ana", "Ana");
  REQUIRE_OK(record(&scene, &batch));
  AWAIT(journal_reached(&scene.journal, "hers", MSGQ_STATUS_DELIVERED) && journal_reached(&scene.journal, "mine", MSGQ_STATUS_SENT));
  CHECK(journal_last(&scene.journal, MSGQ_EVENT_STATUS, &entry));
  CHECK_TEXT("ana", entry.conversation);
  CHECK(entry.from == MSGQ_STATUS_NONE && entry.attempt == 0 && entry.at_ms > 0);
  REQUIRE_OK(record(&scene, &batch)); /* a repetition changes nothing and has no event */
  REQUIRE_OK(msgq_mark(scene.queue, "hers", MSGQ_STATUS_READ));
  AWAIT(journal_reached(&scene.journal, "hers", MSGQ_STATUS_READ));
  CHECK_NUMBER(3, journal_count(&scene.journal, MSGQ_EVENT_STATUS));
  journal_path(&scene.journal, "hers", path, sizeof path);
  CHECK_TEXT("none>delivered>read", path);
  CHECK_NUMBER(0, atomic_load(&scene.journal.malformed));
  AWAIT(journal_last(&scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.received == 1 && entry.counts.sent == 1);
  scene_end(&scene);
}

/* Records a batch inside callbacks. */
struct caller {
  struct scene *scene;
  atomic_int results[2];
};

static msgq_result record_inside(struct scene *scene, const char *id) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_result result = MSGQ_INTERNAL;
  draft.id = id;
  draft.conversation = "inside";
  const char *sender = "Ana";
  msgq_result called = msgq_record_batch(scene->queue, &draft, &sender, 1, &result);
  return called == MSGQ_OK ? result : called;
}

static void on_event(void *context, const msgq_event *event) {
  struct caller *caller = context;
  if (event->kind != MSGQ_EVENT_STATUS || strcmp(event->id, "message") != 0 || event->to != MSGQ_STATUS_SENT) return;
  atomic_store(&caller->results[0], (int)record_inside(caller->scene, "by-event"));
}

static msgq_verdict on_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct caller *caller = context;
  (void)delivery, (void)out;
  atomic_store(&caller->results[1], (int)record_inside(caller->scene, "by-transport"));
  return MSGQ_VERDICT_SENT;
}

TEST(H12_batches_are_recorded_inside_callbacks) {
  for (int polled = 0; polled < 2; polled++) {
    struct scene scene;
    struct caller caller = { .scene = &scene };
    atomic_store(&caller.results[0], -1);
    atomic_store(&caller.results[1], -1);
    scene_begin(&scene);
    scene.options.callbacks = polled ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
    scene_open(&scene);
    REQUIRE_OK(msgq_set_event_handler(scene.queue, on_event, &caller, NULL));
    REQUIRE_OK(msgq_set_transport(scene.queue, on_send, &caller, NULL));
    put(&scene, "message", "ana", "hello");
    CHECK_NUMBER(1, drain(&scene).sent);
    AWAIT(atomic_load(&caller.results[0]) == MSGQ_OK || (polled && msgq_poll(scene.queue, 0, NULL) != MSGQ_OK));
    CHECK_NUMBER(MSGQ_OK, atomic_load(&caller.results[1]));
    CHECK_NUMBER(2, (int64_t)counts_of(&scene, "inside").received);
    scene_end(&scene);
  }
}
