/* The durable feed of changes: msgq_changes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

enum { token_size = MSGQ_CHANGE_TOKEN_SIZE };

/* A program that follows the changes, as text: "a queued, a sending, a sent". */
struct follower {
  char token[token_size]; /* "": none yet */
  char *text;
  size_t length, count;
};

static void follower_end(struct follower *follower) { free(follower->text); }

static void append(char **text, size_t *length, const char *line) {
  size_t added = strlen(line);
  *text = realloc(*text, *length + added + 3);
  REQUIRE(*text != NULL);
  *length += (size_t)sprintf(*text + *length, "%s%s", *length == 0 ? "" : ", ", line);
}

static const char *word_of(msgq_status status) {
  static const char *const words[] = { "queued", "sending", "sent", "delivered", "read", "failed" };
  return (size_t)status < sizeof words / sizeof words[0] ? words[status] : "?";
}

static void describe(char *line, size_t size, const char *id, msgq_change_kind kind, msgq_status status, msgq_failure_kind failure, int32_t code) {
  static const char *const kinds[] = { "", "replaced", "discarded", "deleted", "pruned" };
  int used = snprintf(line, size, "%s %s", id, kind == MSGQ_CHANGE_STATUS ? word_of(status) : kinds[kind]);
  if (failure != MSGQ_FAILURE_NONE) snprintf(line + used, size - (size_t)used, " (%d %d)", (int)failure, (int)code);
}

/* Reads the next page. Returns the number of changes. */
static size_t follow_page(struct follower *follower, msgq_queue *queue, uint32_t limit) {
  msgq_change_page *page = NULL;
  REQUIRE_OK(msgq_changes(queue, follower->token[0] == '\0' ? NULL : follower->token, limit, &page));
  size_t size = msgq_changes_size(page);
  for (size_t index = 0; index < size; index++) {
    const msgq_change *change = msgq_changes_at(page, index);
    CHECK(change->struct_size == sizeof *change && change->at_ms > 0 && strlen(change->token) == token_size - 1);
    char line[400];
    describe(line, sizeof line, change->id, change->kind, change->status, change->failure_kind, change->code);
    append(&follower->text, &follower->length, line);
    follower->count++;
  }
  CHECK(msgq_changes_at(page, size) == NULL);
  if (size > 0) CHECK_TEXT(msgq_changes_at(page, size - 1)->token, msgq_changes_next(page));
  snprintf(follower->token, sizeof follower->token, "%s", msgq_changes_next(page));
  msgq_changes_free(page);
  return size;
}

/* Reads all changes that there are. */
static const char *follow(struct follower *follower, msgq_queue *queue) {
  while (follow_page(follower, queue, 7) > 0) {}
  return follower->text == NULL ? "" : follower->text;
}

static void feed_begin(struct stub *stub, struct scene *scene, msgq_verdict verdict) {
  scene_begin(scene);
  scene->options.keep_changes = 1000;
  stub_begin(stub, verdict);
  stub_open(stub, scene);
}

static void reopen(struct stub *stub, struct scene *scene) {
  scene_close(scene);
  stub_open(stub, scene);
}

/* The next session has the option with another value, and no transport. */
static void reopen_keeping(struct scene *scene, uint64_t changes) {
  scene_close(scene);
  scene->options.keep_changes = changes;
  scene_open(scene);
}

/* The next session has a copy in the place of the store. */
static void reopen_copy(struct stub *stub, struct scene *scene, const char *name) {
  scene_close(scene);
  file_copy_to(scene_file(scene, name), scene->path);
  stub_open(stub, scene);
}

static void expect_conflict(msgq_queue *queue, const char *token) {
  msgq_change_page *page = NULL;
  CHECK_RESULT(MSGQ_CONFLICT, msgq_changes(queue, token, 0, &page));
  CHECK(page == NULL && strstr(msgq_error_detail(), "oldest token") != NULL);
}

TEST(T7_a_message_that_is_sent_has_its_changes_in_order) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  CHECK_TEXT("", follow(&follower, scene.queue));
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ben", "hello" });
  CHECK_NUMBER(2, drain(&scene).sent);
  REQUIRE_OK(msgq_mark(scene.queue, "a", MSGQ_STATUS_READ));
  CHECK_TEXT("a queued, b queued, a sending, a sent, b sending, b sent, a read", follow(&follower, scene.queue));
  reopen(&stub, &scene);
  put(&scene, "c", "ana", "hello");
  REQUIRE_OK(msgq_delete(scene.queue, "c"));
  CHECK_TEXT("a queued, b queued, a sending, a sent, b sending, b sent, a read, c queued, c deleted", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_failures_have_their_kind_and_code) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  scene_begin(&scene);
  scene.options.keep_changes = 1000;
  scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub.kind = MSGQ_FAILURE_REJECTED;
  stub.code = -422;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_RETRY;
  stub.kind = MSGQ_FAILURE_SERVER;
  stub.code = 503;
  put(&scene, "b", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).discarded);
  uint64_t count = 0;
  REQUIRE_OK(msgq_clear_failed(scene.queue, NULL, &count));
  CHECK_TEXT("a queued, a sending, a failed (7 -422), b queued, b sending, b discarded (4 503), a deleted", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

/* The status of a message that is gone is the last one that it had. */
TEST(T7_a_message_that_is_gone_after_an_attempt_was_being_sent) {
  struct scene scene;
  struct stub stub;
  msgq_change_page *page = NULL;
  scene_begin(&scene);
  scene.options.keep_changes = 1000;
  scene.options.refused = MSGQ_REFUSED_DISCARD;
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub.kind = MSGQ_FAILURE_REJECTED;
  stub_open(&stub, &scene);
  put(&scene, "sent", "ana", "hello");
  drain(&scene);
  scene_close(&scene);
  scene.options.keep_changes = 1000;
  scene_open(&scene);
  put(&scene, "queued", "ana", "hello");
  REQUIRE_OK(msgq_delete(scene.queue, "queued"));
  REQUIRE_OK(msgq_changes(scene.queue, NULL, 0, &page));
  if (CHECK_NUMBER(5, msgq_changes_size(page))) {
    const msgq_change *discarded = msgq_changes_at(page, 2), *deleted = msgq_changes_at(page, 4);
    CHECK(discarded->kind == MSGQ_CHANGE_DISCARDED && discarded->failure_kind == MSGQ_FAILURE_REJECTED);
    CHECK_NUMBER(MSGQ_STATUS_SENDING, discarded->status);
    CHECK(deleted->kind == MSGQ_CHANGE_DELETED);
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, deleted->status);
  }
  msgq_changes_free(page);
  scene_end(&scene);
}

TEST(T7_clear_pruning_and_the_deletion_of_a_conversation_have_one_change_for_each_message) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  scene_begin(&scene);
  scene.options.keep_changes = 1000;
  scene.options.keep_sent = 0;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).sent);
  put_each(&scene, { "b", "ana", "hello" }, { "c", "ana", "hello" });
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  put_each(&scene, { "d", "ana", "hello" }, { "e", "ben", "hello" });
  REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", NULL));
  CHECK_TEXT(
    "a queued, a sending, a sent, a pruned, b queued, c queued, b deleted, c deleted, d queued, e queued, d deleted",
    follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_replaced_and_dropped_messages_are_changes) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  scene_begin(&scene);
  scene.options.keep_changes = 1000;
  scene.options.limit_messages = 2;
  scene.options.on_full = MSGQ_ON_FULL_DROP_OLDEST;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana";
  draft.replace_key = "key";
  draft.id = "a";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  draft.id = "b";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  put_each(&scene, { "c", "ana", "hello" }, { "d", "ana", "hello" });
  CHECK_TEXT("a queued, a replaced, b queued, c queued, b discarded (11 0), d queued", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_an_expired_message_is_a_change) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_timed(&scene, "a", "ana", 0, 1700000000000);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  CHECK_TEXT("a queued, a failed (9 0)", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_recorded_messages_and_their_receipts_are_changes) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "r";
  draft.conversation = "ana";
  REQUIRE_OK(msgq_record(scene.queue, &draft, "ana", NULL));
  REQUIRE_OK(msgq_mark(scene.queue, "r", MSGQ_STATUS_READ));
  CHECK_TEXT("r delivered, r read", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_an_attempt_that_a_crash_interrupted_ends_with_a_change) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  scene_begin(&scene);
  scene.options.keep_changes = 1000;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    atomic_store(&stub.held, true);
    stub_open(&stub, &scene);
    put(&scene, "a", "ana", "hello");
    msgq_send_now(scene.queue, "a");
    AWAIT(atomic_load(&stub.inside) == 1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  scene_open(&scene);
  CHECK_TEXT("a queued, a sending, a queued (10 0)", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_with_the_option_off_nothing_is_kept_and_the_store_has_no_table) {
  struct scene scene;
  msgq_change_page *page = NULL;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  CHECK_RESULT(MSGQ_INVALID, msgq_changes(scene.queue, NULL, 0, &page));
  CHECK(page == NULL);
  scene_close(&scene);
  CHECK_NUMBER(0, sql_number(scene.path, "SELECT count(*) FROM sqlite_schema WHERE name = 'change'"));
  scene_end(&scene);
}

TEST(T7_bad_arguments_change_nothing) {
  struct scene scene;
  struct stub stub;
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  static const char *const tokens[] = {
    "", "a", "x000000000000000000000000000000000000000000000000", "a00000000000000000000000000000000000000000000000G",
    "a0000000000000000000000000000000000000000000000000", "a0000000000000000ffffffffffffffff0000000000000000", "\xff",
  };
  msgq_change_page *page = NULL;
  for (size_t index = 0; index < sizeof tokens / sizeof tokens[0]; index++) {
    CHECK_RESULT(MSGQ_INVALID, msgq_changes(scene.queue, tokens[index], 0, &page));
  }
  CHECK_RESULT(MSGQ_INVALID, msgq_changes(scene.queue, NULL, 1001, &page));
  CHECK_RESULT(MSGQ_INVALID, msgq_changes(scene.queue, NULL, UINT32_MAX, &page));
  CHECK_RESULT(MSGQ_INVALID, msgq_changes(scene.queue, NULL, 0, NULL));
  CHECK(page == NULL);
  expect_conflict(scene.queue, "a000000000000000000000000000000000000000000000000");
  expect_conflict(scene.queue, "b00000000000000007fffffffffffffff0000000000000000");
  CHECK(msgq_changes_size(NULL) == 0 && msgq_changes_at(NULL, 0) == NULL && msgq_changes_next(NULL) == NULL);
  CHECK(msgq_changes_oldest(NULL) == NULL);
  msgq_changes_free(NULL);
  scene_end(&scene);
}

TEST_LONG(T7_of_more_changes_than_are_kept_the_oldest_go) {
  struct scene scene;
  struct stub stub;
  struct follower early = { .count = 0 }, late = { .count = 0 };
  scene_begin(&scene);
  scene.options.keep_changes = 10;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  put(&scene, "first", "ana", "hello");
  CHECK_TEXT("first queued", follow(&early, scene.queue));
  put_numbered(&scene, 1, 10);
  CHECK_NUMBER(10, (follow(&late, scene.queue), late.count));
  expect_conflict(scene.queue, early.token);
  put_numbered(&scene, 11, 300);
  expect_conflict(scene.queue, late.token);
  struct follower rest = { .count = 0 };
  CHECK_NUMBER(10, (follow(&rest, scene.queue), rest.count));
  CHECK(strncmp(rest.text, "m291 queued, ", 13) == 0);
  scene_close(&scene);
  CHECK(sql_number(scene.path, "SELECT count(*) FROM change") < 100);
  stub_open(&stub, &scene);
  put(&scene, "last", "ana", "hello");
  CHECK_NUMBER(11, (follow(&rest, scene.queue), rest.count));
  follower_end(&early);
  follower_end(&late);
  follower_end(&rest);
  scene_end(&scene);
}

TEST(T7_the_token_of_an_empty_feed_goes_on_from_the_first_change) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  follow(&follower, scene.queue);
  REQUIRE(follower.token[0] != '\0');
  reopen(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_TEXT("a queued", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_after_a_conflict_the_oldest_token_of_a_page_goes_on) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ana", "hello" });
  msgq_change_page *page = NULL;
  REQUIRE_OK(msgq_changes(scene.queue, NULL, 1, &page));
  snprintf(follower.token, sizeof follower.token, "%s", msgq_changes_oldest(page));
  msgq_changes_free(page);
  put(&scene, "c", "ana", "hello");
  CHECK_TEXT("a queued, b queued, c queued", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_a_restored_copy_is_told_apart_also_after_it_went_past_the_token) {
  struct scene scene;
  struct stub stub;
  struct follower early = { .count = 0 }, late = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  follow(&early, scene.queue);
  scene_close(&scene);
  file_copy_to(scene.path, scene_file(&scene, "copy.db"));
  stub_open(&stub, &scene);
  put_numbered(&scene, 4, 6);
  follow(&late, scene.queue);
  reopen_copy(&stub, &scene, "copy.db");
  expect_conflict(scene.queue, late.token);
  put_numbered(&scene, 4, 9);
  expect_conflict(scene.queue, late.token);
  /* What both histories have is no conflict. */
  CHECK_NUMBER(9, (follow(&early, scene.queue), early.count));
  follower_end(&early);
  follower_end(&late);
  scene_end(&scene);
}

TEST(T7_a_backup_goes_on_from_the_tokens_of_its_store) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  follow(&follower, scene.queue);
  REQUIRE_OK(msgq_backup(scene.queue, scene_file(&scene, "backup.db")));
  reopen_copy(&stub, &scene, "backup.db");
  put_numbered(&scene, 4, 4);
  CHECK_NUMBER(4, (follow(&follower, scene.queue), follower.count));
  follower_end(&follower);
  scene_end(&scene);
}

TEST_LONG(T7_a_salvaged_store_has_another_history) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  follow(&follower, scene.queue);
  scene_close(&scene);
  const char *target = scene_file(&scene, "salvaged.db");
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  REQUIRE_OK(msgq_salvage(scene.path, target, &report));
  CHECK(report.sound && report.whole == 3);
  file_copy_to(target, scene.path);
  stub_open(&stub, &scene);
  expect_conflict(scene.queue, follower.token);
  put_numbered(&scene, 4, 6);
  expect_conflict(scene.queue, follower.token);
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_a_session_without_the_option_ends_the_history_and_one_that_changes_nothing_does_not) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  follow(&follower, scene.queue);
  reopen_keeping(&scene, 0);
  reopen_keeping(&scene, 1000);
  CHECK_NUMBER(3, (follow(&follower, scene.queue), follower.count));
  reopen_keeping(&scene, 0);
  put_numbered(&scene, 4, 4);
  reopen_keeping(&scene, 1000);
  expect_conflict(scene.queue, follower.token);
  struct follower again = { .count = 0 };
  put_numbered(&scene, 5, 5);
  CHECK_TEXT("m5 queued", follow(&again, scene.queue));
  follower_end(&follower);
  follower_end(&again);
  scene_end(&scene);
}

TEST(T7_a_tool_that_maintains_the_store_writes_its_changes_too) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 2);
  follow(&follower, scene.queue);
  scene.options.maintenance = true;
  reopen_keeping(&scene, 0);
  REQUIRE_OK(msgq_delete(scene.queue, "m1"));
  scene.options.maintenance = false;
  reopen_keeping(&scene, 1000);
  CHECK_TEXT("m1 queued, m2 queued, m1 deleted", follow(&follower, scene.queue));
  follower_end(&follower);
  scene_end(&scene);
}

TEST(T7_a_closed_store_is_read_with_read_only) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  scene_close(&scene);
  scene.options.keep_changes = 0;
  scene.options.read_only = true;
  struct snapshot before;
  snapshot_take(&before, scene.directory);
  scene_open(&scene);
  CHECK_TEXT("m1 queued, m2 queued, m3 queued", follow(&follower, scene.queue));
  scene_close(&scene);
  CHECK(snapshot_holds(&before, scene.directory));
  snapshot_free(&before);
  scene.options.read_only = false;
  scene.options.keep_changes = 1000;
  scene_open(&scene);
  put_numbered(&scene, 4, 4);
  CHECK_NUMBER(4, (follow(&follower, scene.queue), follower.count));
  follower_end(&follower);
  scene_end(&scene);
}

TEST_ALONE(T7_only_changes_that_survive_a_power_cut_are_returned) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  follow(&follower, scene.queue);
  CHECK_NUMBER(1, drain(&scene).sent);
  /* The outcome is not flushed yet, and cannot be. */
  atomic_store(&fault_sync, true);
  msgq_change_page *page = NULL;
  msgq_result result = msgq_changes(scene.queue, follower.token, 0, &page);
  atomic_store(&fault_sync, false);
  CHECK(result != MSGQ_OK && page == NULL);
  msgq_close(scene.queue, check_timeout_ms());
  scene.queue = NULL;
  follower_end(&follower);
  scene_end(&scene);
}

TEST_LONG(T7_the_feed_takes_a_quarter_of_the_limit_of_the_files_at_most) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.keep_changes = 1000000;
  scene.options.limit_file_bytes = 2 << 20;
  scene.options.keep_sent = 10;
  scene.options.remember_ids_ms = 0;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  enum { each = 200 };
  static const char *const conversations[] = { "a conversation with a name that is so long that its changes take much room",
                                               "another conversation with a name that is so long that its changes take much room" };
  msgq_draft drafts[each];
  for (unsigned round = 0; round < 20; round++) {
    for (unsigned index = 0; index < each; index++) {
      drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
      drafts[index].conversation = conversations[index % 2];
    }
    REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, each, NULL));
    CHECK_NUMBER(each, drain(&scene).sent);
  }
  scene_close(&scene);
  int64_t bytes = sql_number(scene.path, "SELECT sum(length(rows)) FROM change");
  CHECK(bytes > 400 << 10 && bytes <= 528 << 10);
  CHECK(file_size(scene.path) <= 2 << 20);
  scene_end(&scene);
}

TEST(T7_check_reports_a_damaged_feed_and_the_queue_begins_it_again) {
  struct scene scene;
  struct stub stub;
  struct follower follower = { .count = 0 };
  feed_begin(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 3);
  put_numbered(&scene, 4, 6);
  follow(&follower, scene.queue);
  scene_close(&scene);
  sql_run(scene.path, "UPDATE change SET count = count + 1 WHERE first = 2");
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  REQUIRE_OK(msgq_check(scene.path, &report));
  CHECK(!report.sound && report.whole == 6 && strstr(report.text, "changes") != NULL);
  stub_open(&stub, &scene);
  msgq_change_page *page = NULL;
  REQUIRE_OK(msgq_changes(scene.queue, NULL, 0, &page));
  CHECK_NUMBER(0, msgq_changes_size(page));
  msgq_changes_free(page);
  expect_conflict(scene.queue, follower.token);
  struct follower again = { .count = 0 };
  put_numbered(&scene, 7, 7);
  CHECK_TEXT("m7 queued", follow(&again, scene.queue));
  follower_end(&follower);
  follower_end(&again);
  scene_end(&scene);
}

/* All events of single messages, as `describe` writes them. */
struct record {
  pthread_mutex_t lock;
  char *text;
  size_t length;
  atomic_int lost;
};

static void record_event(void *context, const msgq_event *event) {
  struct record *record = context;
  msgq_change_kind kind = MSGQ_CHANGE_STATUS;
  switch (event->kind) {
    case MSGQ_EVENT_STATUS: break;
    case MSGQ_EVENT_REPLACED: kind = MSGQ_CHANGE_REPLACED; break;
    case MSGQ_EVENT_DISCARDED: kind = MSGQ_CHANGE_DISCARDED; break;
    case MSGQ_EVENT_DELETED: kind = MSGQ_CHANGE_DELETED; break;
    case MSGQ_EVENT_RESYNC: atomic_fetch_add(&record->lost, 1); return;
    default: return;
  }
  if (event->id == NULL) return;
  char line[400];
  msgq_failure_kind failure = event->failure == NULL ? MSGQ_FAILURE_NONE : event->failure->kind;
  describe(line, sizeof line, event->id, kind, (msgq_status)event->to, failure, event->failure == NULL ? 0 : event->failure->code);
  pthread_mutex_lock(&record->lock);
  append(&record->text, &record->length, line);
  pthread_mutex_unlock(&record->lock);
}

static msgq_verdict random_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  (void)delivery;
  switch (rand() % 8) {
    case 0: out->kind = MSGQ_FAILURE_SERVER; out->code = 500; return MSGQ_VERDICT_RETRY;
    case 1: out->kind = MSGQ_FAILURE_REJECTED; out->code = 400; return MSGQ_VERDICT_REJECT;
    case 2: return MSGQ_VERDICT_OFFLINE;
    case 3: return MSGQ_VERDICT_SKIPPED;
    case 4: out->receipt = MSGQ_STATUS_DELIVERED; return MSGQ_VERDICT_SENT;
    default: return MSGQ_VERDICT_SENT;
  }
}

static void random_call(struct scene *scene, int *next) {
  char id[32], conversation[8];
  snprintf(id, sizeof id, "m%d", *next == 0 ? 0 : rand() % *next);
  snprintf(conversation, sizeof conversation, "c%d", rand() % 4);
  msgq_draft drafts[3];
  char ids[3][32];
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.timeout_ms = 200;
  switch (rand() % 14) {
    case 0: case 1: case 2: case 3:
      for (int index = 0; index < 3; index++) {
        drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
        snprintf(ids[index], sizeof ids[index], "m%d", (*next)++);
        drafts[index].id = ids[index];
        drafts[index].conversation = conversation;
        if (rand() % 4 == 0) drafts[index].replace_key = "key";
      }
      if (rand() % 4 == 0) {
        msgq_record(scene->queue, &drafts[0], "other", NULL);
      } else {
        msgq_enqueue_batch(scene->queue, drafts, 3, NULL);
      }
      break;
    case 4: msgq_delete(scene->queue, id); break;
    case 5: msgq_retry(scene->queue, id); break;
    case 6: msgq_send_now(scene->queue, id); break;
    case 7: msgq_mark(scene->queue, id, MSGQ_STATUS_DELIVERED); break;
    case 8: msgq_mark_up_to(scene->queue, id, MSGQ_STATUS_READ, NULL); break;
    case 9: msgq_retry_all(scene->queue, NULL, NULL); break;
    case 10:
      msgq_set_connectivity(scene->queue, rand() % 3 == 0 ? MSGQ_CONNECTIVITY_OFFLINE : MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false);
      break;
    default: msgq_drain(scene->queue, &options, &report);
  }
}

/* Each event of a single message is one change, in the same order, over several sessions. What happens after an opening before the handler is set
   has no event, as the end of an interrupted attempt and an expiry, and neither has a pruned message. These do not occur here. */
TEST_ALONE(T7_random_calls_have_one_change_for_each_event_in_the_same_order) {
  const char *given = getenv("MSGQ_SEED");
  unsigned seed = given != NULL ? (unsigned)atoi(given) : (unsigned)getpid();
  printf("  MSGQ_SEED=%u\n", seed);
  srand(seed);
  struct scene scene;
  struct follower follower = { .count = 0 };
  struct record record = { .lock = PTHREAD_MUTEX_INITIALIZER };
  int next = 0;
  scene_begin(&scene);
  scene.options.keep_changes = 1000000;
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.max_in_flight = 4;
  scene.options.limit_messages = 30;
  scene.options.on_full = MSGQ_ON_FULL_DROP_OLDEST;
  static const int64_t ladder[] = { 0, 1 };
  set_ladder(&scene, ladder, 2);
  for (int session = 0; session < 4; session++) {
    scene.options.exhausted = session % 2 == 0 ? MSGQ_EXHAUSTED_KEEP : MSGQ_EXHAUSTED_DISCARD;
    REQUIRE_OK(msgq_open(scene.path, &scene.options, &scene.queue));
    REQUIRE_OK(msgq_set_event_handler(scene.queue, record_event, &record, NULL));
    REQUIRE_OK(msgq_set_transport(scene.queue, random_send, NULL, NULL));
    for (int call = 0; call < 150; call++) {
      random_call(&scene, &next);
      if (rand() % 10 == 0) follow(&follower, scene.queue);
    }
    REQUIRE_OK(msgq_set_transport(scene.queue, NULL, NULL, NULL));
    AWAIT(counts_of(&scene, NULL).sending == 0);
    scene_close(&scene);
  }
  scene_open(&scene);
  const char *changes = follow(&follower, scene.queue);
  CHECK_NUMBER(0, atomic_load(&record.lost));
  if (record.text == NULL || strcmp(record.text, changes) != 0) {
    size_t at = 0;
    while (record.text != NULL && record.text[at] != '\0' && record.text[at] == changes[at]) at++;
    size_t from = at > 200 ? at - 200 : 0;
    printf("  events:  …%.400s\n  changes: …%.400s\n", record.text == NULL ? "" : record.text + from, changes + from);
    CHECK(!"the changes are those of the events");
  }
  CHECK(follower.count > 300);
  free(record.text);
  follower_end(&follower);
  scene_end(&scene);
}
