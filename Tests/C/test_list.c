/* Pages of messages, counts, msgq_clear. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

enum { many = 120 };

/* Enqueues 120 messages m000 to m119 in three conversations, in rotation. */
static void put_many(struct scene *scene) {
  static const char *const names[] = { "ana", "ben", "cem" };
  for (int number = 0; number < many; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%03d", number);
    put(scene, id, names[number % 3], "hello");
  }
}

/* Reads all pages and checks the numbers of the messages: first, first + step, and so on. */
static void read_pages(struct scene *scene, msgq_filter filter, int first, int step, int expected) {
  int seen = 0;
  for (;;) {
    msgq_page *page = NULL;
    REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
    size_t size = msgq_list_size(page);
    for (size_t index = 0; index < size; index++, seen++) {
      char id[16];
      const msgq_message *message = msgq_list_at(page, index);
      snprintf(id, sizeof id, "m%03d", first + seen * step);
      CHECK_TEXT(id, message->id);
      filter.after = message->sequence;
    }
    CHECK(msgq_list_at(page, size) == NULL);
    msgq_list_free(page);
    if (size < filter.limit) break;
  }
  CHECK_NUMBER(expected, seen);
}

TEST(Q5_pages_go_through_all_messages_in_order) {
  struct scene scene;
  msgq_filter filter = MSGQ_FILTER_INIT;
  scene_begin_open(&scene);
  put_many(&scene);
  filter.limit = 17;
  read_pages(&scene, filter, 0, 1, many);
  filter.newest_first = true;
  read_pages(&scene, filter, many - 1, -1, many);
  filter.conversation = "ben";
  read_pages(&scene, filter, many - 2, -3, many / 3);
  filter.newest_first = false;
  read_pages(&scene, filter, 1, 3, many / 3);
  filter.conversation = "nobody";
  read_pages(&scene, filter, 0, 1, 0);
  scene_end(&scene);
}

TEST(Q5_a_page_has_fifty_messages_by_default) {
  struct scene scene;
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  scene_begin_open(&scene);
  put_many(&scene);
  REQUIRE_OK(msgq_list(scene.queue, NULL, &page));
  CHECK_NUMBER(50, msgq_list_size(page));
  msgq_list_free(page);
  filter.limit = 0;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  CHECK_NUMBER(50, msgq_list_size(page));
  msgq_list_free(page);
  filter.limit = 1000;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  CHECK_NUMBER(many, msgq_list_size(page));
  msgq_list_free(page);
  CHECK_NUMBER(0, msgq_list_size(NULL));
  CHECK(msgq_list_at(NULL, 0) == NULL);
  msgq_list_free(NULL);
  scene_end(&scene);
}

TEST(Q5_a_preview_is_cut_between_characters) {
  struct scene scene;
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  char body[3 * 150 + 1] = "", expected[3 * 100 + 1] = "";
  scene_begin_open(&scene);
  for (int index = 0; index < 150; index++) memcpy(body + index * 3, "\xe2\x98\x83", 4);
  memcpy(expected, body, 300);
  put(&scene, "a", "ana", body);
  filter.without_bodies = true;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  REQUIRE(msgq_list_size(page) == 1);
  const msgq_message *message = msgq_list_at(page, 0);
  CHECK(strncmp(expected, message->preview, 300) == 0);
  CHECK_NUMBER(300, strlen(message->preview));
  CHECK(message->body == NULL);
  CHECK_NUMBER(450, message->body_size);
  CHECK_TEXT("ana", message->conversation);
  CHECK(message->created_ms > 0);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, message->status);
  msgq_list_free(page);
  filter.without_bodies = false;
  REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
  message = msgq_list_at(page, 0);
  CHECK(message->body != NULL && memcmp(body, message->body, 450) == 0);
  msgq_list_free(page);
  scene_end(&scene);
}

TEST(Q5_statuses_can_be_filtered) {
  struct scene scene;
  struct stub stub;
  msgq_page *page = NULL;
  msgq_filter filter = MSGQ_FILTER_INIT;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "sent", "ana", "one");
  drain(&scene);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(&scene, "failed", "ana", "two");
  drain(&scene);
  put(&scene, "queued", "ana", "three");
  static const struct {
    uint32_t statuses;
    size_t expected;
  } cases[] = {
    { 0, 2 },
    { MSGQ_STATUSES_UNSENT, 2 },
    { MSGQ_STATUSES_ALL, 3 },
    { MSGQ_STATUS_BIT(MSGQ_STATUS_SENT), 1 },
    { MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED) | MSGQ_STATUS_BIT(MSGQ_STATUS_SENT), 2 },
    { MSGQ_STATUS_BIT(MSGQ_STATUS_READ), 0 },
  };
  for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
    filter.statuses = cases[index].statuses;
    REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
    CHECK_NUMBER(cases[index].expected, msgq_list_size(page));
    msgq_list_free(page);
  }
  scene_end(&scene);
}

TEST(M10_counts_follow_every_change) {
  struct scene scene;
  struct stub stub;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "12345");
  put(&scene, "b", "ben", "123");
  put(&scene, "c", "ben", "1");
  CHECK_NUMBER(3, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(9, counts_of(&scene, NULL).unsent_bytes);
  CHECK_NUMBER(2, counts_of(&scene, "ben").queued);
  CHECK_NUMBER(0, counts_of(&scene, "nobody").queued);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  msgq_report report = drain(&scene);
  CHECK_NUMBER(sizeof report, report.struct_size);
  CHECK_NUMBER(3, report.sent);
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.queued == 0 && counts.sending == 0 && counts.sent == 3 && counts.failed == 0 && counts.unsent_bytes == 0);
  /* The summary event has the same counts. */
  struct entry entry;
  AWAIT(journal_last(&scene.journal, MSGQ_EVENT_SUMMARY, &entry) && entry.counts.sent == 3 && entry.counts.queued == 0);
  scene_end(&scene);
}

TEST(M10_the_queue_can_be_cleared) {
  struct scene scene;
  scene_begin_open(&scene);
  put_many(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(0, counts_of(&scene, NULL).unsent_bytes);
  CHECK_NUMBER(-1, status_of(&scene, "m000"));
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
  scene_end(&scene);
}

/* Enqueues each message in its own conversation, so that many can be in flight. */
static void put_apart(struct scene *scene, size_t count) {
  static msgq_draft drafts[2000];
  static char ids[2000][8];
  for (size_t index = 0; index < count; index++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    snprintf(ids[index], sizeof ids[index], "m%04zu", index);
    draft.id = draft.conversation = ids[index];
    draft.body = "hello";
    draft.body_size = 5;
    drafts[index] = draft;
  }
  REQUIRE_OK(msgq_enqueue_batch(scene->queue, drafts, count, NULL));
}

/* The tokens of the attempts in flight. */
struct pending {
  atomic_int count;
  _Atomic uint64_t tokens[128];
};

static msgq_verdict keep_pending(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct pending *pending = context;
  (void)out;
  atomic_store(&pending->tokens[atomic_load(&pending->count)], delivery->token);
  atomic_fetch_add(&pending->count, 1);
  return MSGQ_VERDICT_PENDING;
}

TEST_LONG(D11_clear_removes_all_messages_except_those_in_flight) {
  enum { on_demand = 4, in_flight = 64 + on_demand };
  const int total = check_times(2000, 300);
  static struct pending pending;
  struct scene scene;
  char id[8];
  scene_begin(&scene);
  scene.options.max_in_flight = 64;
  scene.options.attempt_timeout_ms = scene.options.on_demand_timeout_ms = 600000;
  scene_open(&scene);
  put_apart(&scene, (size_t)total);
  atomic_store(&pending.count, 0);
  REQUIRE_OK(msgq_set_transport(scene.queue, keep_pending, &pending, NULL));
  REQUIRE_OK(msgq_drain_async(scene.queue, NULL, NULL, NULL));
  AWAIT(atomic_load(&pending.count) == 64);
  for (int index = 0; index < on_demand; index++) {
    snprintf(id, sizeof id, "m%04d", 200 + index);
    CHECK_RESULT(MSGQ_OK, msgq_send_now(scene.queue, id));
  }
  AWAIT(atomic_load(&pending.count) == in_flight);
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(in_flight, counts_of(&scene, NULL).sending);
  /* A message in flight is removed when its attempt fails; nothing else is attempted. */
  for (int index = 0; index < in_flight; index++) {
    msgq_outcome outcome = MSGQ_OUTCOME_INIT;
    outcome.verdict = MSGQ_VERDICT_RETRY;
    outcome.kind = MSGQ_FAILURE_TIMEOUT;
    CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&pending.tokens[index]), &outcome));
  }
  AWAIT(counts_of(&scene, NULL).sending == 0);
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(0, counts_of(&scene, NULL).unsent_bytes);
  CHECK_NUMBER(in_flight, atomic_load(&pending.count));
  scene_end(&scene);
}

TEST(Q17_clearing_a_conversation_drops_its_unsent_messages) {
  struct scene scene;
  struct stub stub;
  struct entry entry;
  char unsent[64];
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  put(&scene, "sent", "ana", "zero");
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  drain(&scene);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(&scene, "failed", "ana", "one");
  drain(&scene);
  put(&scene, "a", "ana", "to be dropped");
  put(&scene, "b", "ben", "to be kept");
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, "ana"));
  unsent_of(&scene, unsent, sizeof unsent);
  CHECK_TEXT("b", unsent);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "sent"));
  AWAIT(journal_last(&scene.journal, MSGQ_EVENT_DELETED, &entry));
  CHECK_TEXT("", entry.id);
  CHECK_TEXT("ana", entry.conversation);
  scene_close(&scene);
  CHECK(!file_contains(scene.path, "to be dropped"));
  scene_open(&scene);
  unsent_of(&scene, unsent, sizeof unsent);
  CHECK_TEXT("b", unsent);
  scene_end(&scene);
}

/* Two normal forms of one word: equal as Swift strings, but different bytes. */
static const char composed[] = "caf\xc3\xa9", decomposed[] = "cafe\xcc\x81";

TEST(names_are_compared_byte_by_byte) {
  struct scene scene;
  struct stub stub;
  const msgq_pair metadata[] = { { composed, "1" }, { decomposed, "2" } };
  scene_begin_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  put(&scene, composed, composed, "one");
  put(&scene, decomposed, decomposed, "two");
  CHECK_NUMBER(1, counts_of(&scene, composed).queued);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.metadata = metadata;
  draft.metadata_count = 2;
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, composed));
  CHECK_NUMBER(-1, status_of(&scene, composed));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(2, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, decomposed));
  CHECK_NUMBER(1, counts_of(&scene, decomposed).failed);
  CHECK_NUMBER(0, counts_of(&scene, composed).failed);
  scene_end(&scene);
}
