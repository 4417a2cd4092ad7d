/* Groups of failed messages, and what queued messages wait for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "stores.h"
#include "stub.h"

enum { most_groups = 16 };

struct group {
  msgq_failure_kind kind;
  int32_t code;
  uint64_t count;
};

/* Sends what is queued, which then fails with this kind and code. */
static void fail_with(struct scene *scene, struct stub *stub, msgq_failure_kind kind, int32_t code) {
  stub->verdict = MSGQ_VERDICT_REJECT;
  (stub->kind = kind, stub->code = code);
  drain(scene);
}

/* Fills a queue: 3 messages with server 503, 2 with server 500, 1 with timeout and no code; one of them in the conversation "ben". */
static void fill(struct scene *scene, struct stub *stub) {
  put_each(scene, { "a1", "ana", "1" }, { "b1", "ben", "2" }, { "a2", "ana", "3" });
  fail_with(scene, stub, MSGQ_FAILURE_SERVER, 503);
  put_each(scene, { "a3", "ana", "4" }, { "a4", "ana", "5" });
  fail_with(scene, stub, MSGQ_FAILURE_SERVER, 500);
  put(scene, "b2", "ben", "6");
  fail_with(scene, stub, MSGQ_FAILURE_TIMEOUT, 0);
}

static void begin(struct scene *scene, struct stub *stub) {
  stub_begin_open(stub, scene, MSGQ_VERDICT_REJECT);
  fill(scene, stub);
}

static size_t groups_of(struct scene *scene, struct group *groups) {
  msgq_failure_group_page *page = NULL;
  REQUIRE_OK(msgq_failure_groups(scene->queue, most_groups, &page));
  size_t count = msgq_failure_groups_size(page);
  for (size_t index = 0; index < count; index++) {
    const msgq_failure_group *group = msgq_failure_groups_at(page, index);
    CHECK_NUMBER(sizeof *group, group->struct_size);
    CHECK(group->first_ms > 0 && group->first_ms <= group->last_ms && group->last_ms <= wall_ms());
    groups[index] = (struct group) { group->kind, group->code, group->count };
  }
  CHECK(msgq_failure_groups_at(page, count) == NULL);
  msgq_failure_groups_free(page);
  return count;
}

static void check_groups(struct scene *scene, const struct group *expected, size_t count) {
  struct group found[most_groups];
  size_t size = groups_of(scene, found);
  CHECK_NUMBER(count, size);
  for (size_t index = 0; index < count && index < size; index++) {
    CHECK_NUMBER(expected[index].kind, found[index].kind);
    CHECK_NUMBER(expected[index].code, found[index].code);
    CHECK_NUMBER(expected[index].count, found[index].count);
  }
}

#define CHECK_GROUPS(scene, ...) \
  check_groups((scene), (const struct group[]) { __VA_ARGS__ }, sizeof((const struct group[]) { __VA_ARGS__ }) / sizeof(struct group))

static const struct group server_503 = { MSGQ_FAILURE_SERVER, 503, 3 };
static const struct group server_500 = { MSGQ_FAILURE_SERVER, 500, 2 };
static const struct group timeout_0 = { MSGQ_FAILURE_TIMEOUT, 0, 1 };

/* The ids of the failed messages that a filter selects, by pages of two. */
static const char *failed_of(struct scene *scene, msgq_filter filter) {
  static char text[256];
  text[0] = '\0';
  filter.limit = 2;
  for (;;) {
    msgq_page *page = NULL;
    REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
    size_t size = msgq_list_size(page);
    for (size_t index = 0; index < size; index++) {
      const msgq_message *message = msgq_list_at(page, index);
      CHECK_NUMBER(MSGQ_STATUS_FAILED, message->status);
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? " " : "", message->id);
      filter.after = message->sequence;
    }
    msgq_list_free(page);
    if (size < filter.limit) return text;
  }
}

static msgq_filter by(msgq_failure_kind kind, const int32_t *code) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  (filter.failure_kind = kind, filter.failure_code = code);
  return filter;
}

static const int32_t none = 0, unavailable = 503, internal = 500;

TEST(I9_failed_messages_are_counted_by_kind_and_code) {
  struct scene scene;
  struct stub stub;
  struct group found[most_groups];
  int64_t before = wall_ms();
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  CHECK_NUMBER(0, groups_of(&scene, found));
  fill(&scene, &stub);
  CHECK_GROUPS(&scene, server_503, server_500, timeout_0);
  msgq_failure_group_page *page = NULL;
  REQUIRE_OK(msgq_failure_groups(scene.queue, 1, &page));
  CHECK_NUMBER(1, msgq_failure_groups_size(page));
  CHECK(msgq_failure_groups_at(page, 0)->first_ms >= before);
  CHECK(msgq_failure_groups_at(page, 0)->text != NULL);
  msgq_failure_groups_free(page);
  scene_close(&scene);
  scene.options.maintenance = true;
  scene_open(&scene);
  CHECK_GROUPS(&scene, server_503, server_500, timeout_0);
  scene_end(&scene);
}

TEST(I9_a_filter_selects_failed_messages_by_kind_code_and_conversation) {
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub);
  put(&scene, "queued", "ana", "7");
  CHECK_TEXT("a1 b1 a2", failed_of(&scene, by(MSGQ_FAILURE_SERVER, &unavailable)));
  CHECK_TEXT("a1 b1 a2 a3 a4", failed_of(&scene, by(MSGQ_FAILURE_SERVER, NULL)));
  CHECK_TEXT("a3 a4", failed_of(&scene, by(MSGQ_FAILURE_NONE, &internal)));
  CHECK_TEXT("b2", failed_of(&scene, by(MSGQ_FAILURE_NONE, &none)));
  CHECK_TEXT("", failed_of(&scene, by(MSGQ_FAILURE_NETWORK, NULL)));
  msgq_filter filter = by(MSGQ_FAILURE_SERVER, NULL);
  filter.conversation = "ana";
  CHECK_TEXT("a1 a2 a3 a4", failed_of(&scene, filter));
  filter.newest_first = true;
  CHECK_TEXT("a4 a3 a2 a1", failed_of(&scene, filter));
  filter.conversation = "nobody";
  CHECK_TEXT("", failed_of(&scene, filter));
  scene_end(&scene);
}

TEST(I9_a_filter_by_failure_needs_failed_messages_in_order) {
  struct scene scene;
  msgq_page *page = NULL;
  uint64_t count = 4711;
  scene_begin_open(&scene);
  msgq_filter filter = by((msgq_failure_kind)99, NULL);
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  CHECK_RESULT(MSGQ_INVALID, msgq_clear_failed_by(scene.queue, &filter, &count));
  filter = by(MSGQ_FAILURE_SERVER, NULL);
  filter.order = MSGQ_ORDER_TIME;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  filter.order = MSGQ_ORDER_SEQUENCE;
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_QUEUED);
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  CHECK_RESULT(MSGQ_INVALID, msgq_clear_failed_by(scene.queue, &filter, &count));
  CHECK_RESULT(MSGQ_INVALID, msgq_retry_all_by(scene.queue, &filter, &count));
  msgq_failure_group_page *groups = NULL;
  CHECK_RESULT(MSGQ_INVALID, msgq_failure_groups(scene.queue, 1001, &groups));
  CHECK_RESULT(MSGQ_INVALID, msgq_failure_groups(scene.queue, 1, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_count_waiting(scene.queue, NULL));
  CHECK(page == NULL && groups == NULL);
  CHECK_NUMBER(4711, count);
  CHECK_NUMBER(0, msgq_failure_groups_size(NULL));
  CHECK(msgq_failure_groups_at(NULL, 0) == NULL);
  msgq_failure_groups_free(NULL);
  scene_end(&scene);
}

TEST(I9_a_group_is_retried_and_the_others_stay_failed) {
  struct scene scene;
  struct stub stub;
  uint64_t count = 0;
  begin(&scene, &stub);
  stub.verdict = MSGQ_VERDICT_SENT;
  msgq_filter filter = by(MSGQ_FAILURE_SERVER, &unavailable);
  filter.conversation = "ben";
  REQUIRE_OK(msgq_retry_all_by(scene.queue, &filter, &count));
  CHECK_NUMBER(1, count);
  AWAIT(status_of(&scene, "b1") == MSGQ_STATUS_SENT);
  CHECK_GROUPS(&scene, { MSGQ_FAILURE_SERVER, 500, 2 }, { MSGQ_FAILURE_SERVER, 503, 2 }, timeout_0);
  filter.conversation = NULL;
  REQUIRE_OK(msgq_retry_all_by(scene.queue, &filter, &count));
  CHECK_NUMBER(2, count);
  AWAIT(counts_of(&scene, NULL).sent == 3);
  CHECK_GROUPS(&scene, server_500, timeout_0);
  CHECK_NUMBER(3, counts_of(&scene, NULL).failed);
  REQUIRE_OK(msgq_retry_all_by(scene.queue, NULL, NULL));
  AWAIT(counts_of(&scene, NULL).sent == 6);
  struct group found[most_groups];
  CHECK_NUMBER(0, groups_of(&scene, found));
  scene_end(&scene);
}

TEST(I9_a_message_that_fails_differently_changes_its_group) {
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub);
  (stub.verdict = MSGQ_VERDICT_REJECT, stub.kind = MSGQ_FAILURE_NOT_FOUND, stub.code = 404);
  REQUIRE_OK(msgq_retry(scene.queue, "a1"));
  AWAIT(failure_of(&scene, "a1") == MSGQ_FAILURE_NOT_FOUND);
  CHECK_GROUPS(&scene, { MSGQ_FAILURE_SERVER, 500, 2 }, { MSGQ_FAILURE_SERVER, 503, 2 }, timeout_0, { MSGQ_FAILURE_NOT_FOUND, 404, 1 });
  CHECK_TEXT("a1", failed_of(&scene, by(MSGQ_FAILURE_NOT_FOUND, NULL)));
  set_offline(&scene);
  REQUIRE_OK(msgq_retry(scene.queue, "a1"));
  AWAIT(failure_of(&scene, "a1") == MSGQ_FAILURE_OFFLINE);
  CHECK_TEXT("a1", failed_of(&scene, by(MSGQ_FAILURE_OFFLINE, NULL)));
  CHECK_TEXT("", failed_of(&scene, by(MSGQ_FAILURE_NOT_FOUND, NULL)));
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "late";
  draft.expires_at_ms = wall_ms() + 1;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  AWAIT(status_of(&scene, "late") == MSGQ_STATUS_FAILED);
  CHECK_TEXT("late", failed_of(&scene, by(MSGQ_FAILURE_EXPIRED, &none)));
  scene_end(&scene);
}

TEST(I9_a_group_is_deleted_with_its_text_and_one_event) {
  struct scene scene;
  struct stub stub;
  uint64_t count = 0;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  put(&scene, "secret", "ana", "the secret body");
  fail_with(&scene, &stub, MSGQ_FAILURE_REJECTED, 422);
  fill(&scene, &stub);
  const int32_t code = 422;
  msgq_filter filter = by(MSGQ_FAILURE_REJECTED, &code);
  filter.conversation = "ben";
  REQUIRE_OK(msgq_clear_failed_by(scene.queue, &filter, &count));
  CHECK_NUMBER(0, count);
  filter.conversation = NULL;
  REQUIRE_OK(msgq_clear_failed_by(scene.queue, &filter, &count));
  CHECK_NUMBER(1, count);
  CHECK_NUMBER(-1, status_of(&scene, "secret"));
  CHECK_GROUPS(&scene, server_503, server_500, timeout_0);
  struct entry entry;
  AWAIT(journal_last(&scene.journal, MSGQ_EVENT_DELETED, &entry));
  CHECK(entry.id[0] == '\0' && entry.conversation[0] == '\0');
  scene_close(&scene);
  CHECK_NUMBER(-1, file_find(scene.path, "the secret body", 0));
  scene_open(&scene);
  REQUIRE_OK(msgq_clear_failed_by(scene.queue, NULL, &count));
  CHECK_NUMBER(6, count);
  scene_end(&scene);
}

TEST_LONG(I9_a_backup_and_a_salvaged_store_have_the_groups) {
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub);
  REQUIRE_OK(msgq_backup(scene.queue, scene_file(&scene, "copy.db")));
  CHECK_RESULT(MSGQ_OK, msgq_close(scene.queue, -1));
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_check(scene_file(&scene, "copy.db"), &report));
  CHECK(report.sound);
  CHECK_RESULT(MSGQ_OK, msgq_salvage(scene.path, scene_file(&scene, "new.db"), &report));
  CHECK(report.sound);
  for (int place = 0; place < 2; place++) {
    REQUIRE_OK(msgq_open(scene_file(&scene, place ? "new.db" : "copy.db"), &scene.options, &scene.queue));
    CHECK_GROUPS(&scene, server_503, server_500, timeout_0);
    CHECK_RESULT(MSGQ_OK, msgq_close(scene.queue, -1));
  }
  scene.queue = NULL;
  scene_end(&scene);
}

TEST(I9_queued_messages_are_counted_by_what_they_wait_for) {
  static const int64_t ladder[] = { 3600000 };
  struct scene scene;
  struct stub stub;
  msgq_waiting waiting = MSGQ_WAITING_INIT;
  int64_t later = wall_ms() + 86400000;
  scene_begin(&scene);
  set_ladder(&scene, ladder, 1);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub_open(&stub, &scene);
  put_each(&scene, { "r1", "ana", "1" }, { "r2", "ben", "2" });
  drain(&scene);
  put_timed(&scene, "s1", "cem", later, 0);
  put_timed(&scene, "s2", "ana", later + 1000, 0);
  put(&scene, "q", "dan", "3");
  REQUIRE_OK(msgq_count_waiting(scene.queue, &waiting));
  CHECK_NUMBER(5, waiting.queued);
  CHECK_NUMBER(0, waiting.paused);
  CHECK_NUMBER(2, waiting.scheduled);
  CHECK_NUMBER(2, waiting.retrying);
  CHECK_NUMBER(later, waiting.next_scheduled_ms);
  CHECK(waiting.next_retry_ms > wall_ms() && waiting.next_retry_ms <= wall_ms() + 3600000);
  REQUIRE_OK(msgq_pause(scene.queue, "cem"));
  REQUIRE_OK(msgq_pause(scene.queue, "ben"));
  REQUIRE_OK(msgq_count_waiting(scene.queue, &waiting));
  CHECK_NUMBER(2, waiting.paused);
  CHECK_NUMBER(1, waiting.scheduled);
  CHECK_NUMBER(1, waiting.retrying);
  CHECK_NUMBER(later + 1000, waiting.next_scheduled_ms);
  REQUIRE_OK(msgq_pause(scene.queue, NULL));
  REQUIRE_OK(msgq_count_waiting(scene.queue, &waiting));
  CHECK_NUMBER(5, waiting.paused);
  CHECK_NUMBER(0, waiting.scheduled + waiting.retrying);
  CHECK_NUMBER(0, waiting.next_scheduled_ms + waiting.next_retry_ms);
  scene_end(&scene);
}

/* Each queued message is counted once, and one that is being sent waits for nothing. */
TEST(I9_a_message_counts_for_one_reason_and_not_while_it_is_sent) {
  static const int64_t ladder[] = { 3600000 };
  struct scene scene;
  struct stub stub;
  msgq_waiting waiting = MSGQ_WAITING_INIT;
  int64_t later = wall_ms() + 86400000;
  scene_begin(&scene);
  set_ladder(&scene, ladder, 1);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub_open(&stub, &scene);
  put_timed(&scene, "both", "ana", later, 0);
  put(&scene, "retrying", "ben", "1");
  REQUIRE_OK(msgq_send_now(scene.queue, "both"));
  AWAIT(attempts_of(&scene, "both") == 1 && status_of(&scene, "both") == MSGQ_STATUS_QUEUED);
  CHECK_NUMBER(MSGQ_REASON_SCHEDULED, explain(&scene, "both").reason);
  drain(&scene);
  put_timed(&scene, "scheduled", "cem", later, 0);
  put(&scene, "next", "dan", "2");
  for (int sending = 0; sending < 2; sending++) {
    REQUIRE_OK(msgq_count_waiting(scene.queue, &waiting));
    CHECK_NUMBER(sending ? 1 : 2, waiting.scheduled);
    CHECK_NUMBER(sending ? 0 : 1, waiting.retrying);
    CHECK((waiting.next_retry_ms != 0) == !sending);
    if (sending) break;
    atomic_store(&stub.held, true);
    REQUIRE_OK(msgq_send_now(scene.queue, "scheduled"));
    REQUIRE_OK(msgq_send_now(scene.queue, "retrying"));
    AWAIT(status_of(&scene, "scheduled") == MSGQ_STATUS_SENDING && status_of(&scene, "retrying") == MSGQ_STATUS_SENDING);
  }
  /* Also beside a paused conversation, for which the entries are read. */
  REQUIRE_OK(msgq_pause(scene.queue, "dan"));
  REQUIRE_OK(msgq_count_waiting(scene.queue, &waiting));
  CHECK(waiting.paused == 1 && waiting.scheduled == 1 && waiting.retrying == 0);
  atomic_store(&stub.held, false);
  scene_end(&scene);
}

/* The ids of the messages that wait for `reason`, page by page of two. */
static const char *waiting_of(struct scene *scene, msgq_reason reason, const char *conversation, bool newest_first) {
  static char text[256];
  msgq_filter filter = MSGQ_FILTER_INIT;
  (filter.waiting_for = &reason, filter.conversation = conversation, filter.newest_first = newest_first, filter.limit = 2);
  for (text[0] = '\0';;) {
    msgq_page *page = NULL;
    if (msgq_list(scene->queue, &filter, &page) != MSGQ_OK) return "refused";
    size_t size = msgq_list_size(page);
    for (size_t index = 0; index < size; index++) {
      const msgq_message *message = msgq_list_at(page, index);
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? " " : "", message->id);
      filter.after = message->sequence;
      if (reason == MSGQ_REASON_SCHEDULED) filter.after_time_ms = message->not_before_ms;
      if (reason == MSGQ_REASON_RETRYING) filter.after_time_ms = message->next_attempt_ms;
    }
    msgq_list_free(page);
    if (size < filter.limit) return text;
  }
}

TEST(I9_a_filter_selects_queued_messages_by_what_they_wait_for) {
  static const int64_t ladder[] = { 3600000 };
  struct scene scene;
  struct stub stub;
  int64_t later = wall_ms() + 86400000;
  scene_begin(&scene);
  set_ladder(&scene, ladder, 1);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub_open(&stub, &scene);
  put_each(&scene, { "r1", "ana", "1" }, { "r2", "ben", "2" }, { "r3", "eva", "3" });
  drain(&scene);
  /* The same time twice, and not in the order of the sequences. */
  put_timed(&scene, "s3", "cem", later + 1000, 0);
  put_timed(&scene, "s1", "cem", later, 0);
  put_timed(&scene, "s2", "ana", later, 0);
  put(&scene, "q", "ben", "4");
  CHECK_TEXT("s1 s2 s3", waiting_of(&scene, MSGQ_REASON_SCHEDULED, NULL, false));
  CHECK_TEXT("s3 s2 s1", waiting_of(&scene, MSGQ_REASON_SCHEDULED, NULL, true));
  CHECK_TEXT("r1 r2 r3", waiting_of(&scene, MSGQ_REASON_RETRYING, NULL, false));
  CHECK_TEXT("", waiting_of(&scene, MSGQ_REASON_PAUSED, NULL, false));
  /* As msgq_count_waiting counts: what is paused waits for that alone, online or not. */
  REQUIRE_OK(msgq_pause(scene.queue, "cem"));
  REQUIRE_OK(msgq_pause(scene.queue, "ben"));
  set_offline(&scene);
  CHECK_TEXT("r2 s3 s1 q", waiting_of(&scene, MSGQ_REASON_PAUSED, NULL, false));
  CHECK_TEXT("q s1 s3 r2", waiting_of(&scene, MSGQ_REASON_PAUSED, NULL, true));
  CHECK_TEXT("r2 q", waiting_of(&scene, MSGQ_REASON_PAUSED, "ben", false));
  CHECK_TEXT("", waiting_of(&scene, MSGQ_REASON_PAUSED, "ana", false));
  CHECK_TEXT("s2", waiting_of(&scene, MSGQ_REASON_SCHEDULED, NULL, false));
  CHECK_TEXT("r1 r3", waiting_of(&scene, MSGQ_REASON_RETRYING, NULL, false));
  REQUIRE_OK(msgq_pause(scene.queue, NULL));
  CHECK_TEXT("r1 r2 r3 s3 s1 s2 q", waiting_of(&scene, MSGQ_REASON_PAUSED, NULL, false));
  CHECK_TEXT("", waiting_of(&scene, MSGQ_REASON_SCHEDULED, NULL, false));
  scene_end(&scene);
}

/* Names are compared by their bytes, also where two look the same. */
TEST(I9_D10_names_that_look_the_same_are_different) {
  static const char composed[] = "caf\xc3\xa9", decomposed[] = "cafe\xcc\x81";
  struct scene scene;
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_begin_open(&scene);
  put_each(&scene, { "d1", decomposed, "1" }, { "c1", composed, "2" }, { "d2", decomposed, "3" });
  REQUIRE_OK(msgq_pause(scene.queue, decomposed));
  CHECK_TEXT("", waiting_of(&scene, MSGQ_REASON_PAUSED, composed, false));
  CHECK_TEXT("d1 d2", waiting_of(&scene, MSGQ_REASON_PAUSED, decomposed, false));
  scene_close(&scene);
  REQUIRE_OK(msgq_check(scene.path, &report));
  CHECK(report.sound);
  scene_end(&scene);
}

TEST(I9_a_filter_by_reason_is_refused_where_it_cannot_be_kept) {
  struct scene scene;
  msgq_page *page = NULL;
  const msgq_reason scheduled = MSGQ_REASON_SCHEDULED, paused = MSGQ_REASON_PAUSED;
  scene_begin_open(&scene);
  CHECK_TEXT("refused", waiting_of(&scene, MSGQ_REASON_NONE, NULL, false));
  CHECK_TEXT("refused", waiting_of(&scene, MSGQ_REASON_BEHIND, NULL, false));
  CHECK_TEXT("refused", waiting_of(&scene, (msgq_reason)99, NULL, false));
  CHECK_TEXT("refused", waiting_of(&scene, MSGQ_REASON_SCHEDULED, "ana", false));
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.waiting_for = &scheduled;
  filter.order = MSGQ_ORDER_TIME;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  filter.order = MSGQ_ORDER_SEQUENCE;
  filter.after = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  filter.after_time_ms = -1;
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  (filter.after = 0, filter.after_time_ms = 0, filter.failure_kind = MSGQ_FAILURE_SERVER);
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  filter.failure_kind = MSGQ_FAILURE_NONE;
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED);
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  (filter.statuses = 0, filter.waiting_for = &paused, filter.after_time_ms = 1);
  CHECK_RESULT(MSGQ_INVALID, msgq_list(scene.queue, &filter, &page));
  CHECK(page == NULL);
  scene_end(&scene);
}
