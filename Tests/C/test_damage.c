/* Damage is never shown as intact data: ids, counts, the state row, impossible numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "stores.h"
#include "stub.h"

static int64_t page_size(const struct scene *scene) { return sql_number(scene->path, "PRAGMA page_size"); }

static int64_t page_of(const struct scene *scene, const char *object) {
  char sql[128];
  snprintf(sql, sizeof sql, "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", object);
  return (sql_number(scene->path, sql) - 1) * page_size(scene);
}

/* Flips one bit in the index of ids, and only there, so that "wanted-c" becomes "wanted-b". */
static void flip_in_index(struct scene *scene) {
  int64_t page = page_of(scene, "message_named");
  int64_t place = file_find(scene->path, "wanted-c", page);
  REQUIRE(place >= page && place < page + page_size(scene));
  file_flip(scene->path, place + 7);
}

static void check_ids(struct scene *scene) {
  msgq_message *message = NULL;
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_get(scene->queue, "wanted-b", &message));
  CHECK(message == NULL);
  if (message != NULL) fprintf(stderr, "  wanted-b returned %s\n", message->id);
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_delete(scene->queue, "wanted-b"));
  REQUIRE_OK(msgq_get(scene->queue, "wanted-c", &message));
  CHECK_TEXT("wanted-c", message->id);
  CHECK(memcmp(message->body, "hello c", 7) == 0);
  msgq_message_free(message);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "wanted-c";
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue(scene->queue, &draft, NULL));
}

TEST(D10_a_flipped_bit_in_the_id_index_never_returns_another_message) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "wanted-c", "ana", "hello c");
  put(&scene, "other", "ana", "hello");
  scene_close(&scene);
  flip_in_index(&scene);
  scene_open(&scene);
  await_storage_event(&scene, "index");
  check_ids(&scene);
  scene_close(&scene);
  CHECK_NUMBER(1, sql_number(scene.path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"));
  scene_end(&scene);
}

/* A store that is too large to be checked completely by each msgq_open. */
TEST_LONG(D10_a_flipped_bit_in_the_id_index_of_a_large_store_never_returns_another_message) {
  static char body[16384];
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "wanted-c", "ana", "hello c");
  for (unsigned number = 0; number < 200; number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = "ben";
    draft.body = body;
    draft.body_size = sizeof body;
    REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  }
  scene_close(&scene);
  REQUIRE(file_size(scene.path) > 2 << 20);
  flip_in_index(&scene);
  scene_open(&scene);
  check_ids(&scene);
  scene_end(&scene);
}

/* Makes a closed store: 4 queued and 1 failed in "ana", 2 sent in "ben", 1 received and unread in "cem". */
static void begin_mixed(struct scene *scene) {
  struct stub stub;
  scene_begin_open(scene);
  put(scene, "s1", "ben", "sent one");
  put(scene, "s2", "ben", "sent two");
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene->queue, stub_send, &stub, NULL));
  CHECK_NUMBER(2, drain(scene).sent);
  put(scene, "f1", "ana", "refused");
  stub.verdict = MSGQ_VERDICT_REJECT;
  CHECK_NUMBER(1, drain(scene).failed);
  put_numbered(scene, 1, 4);
  msgq_draft received = MSGQ_DRAFT_INIT;
  received.id = "h1";
  received.conversation = "cem";
  received.body = "hello";
  received.body_size = 5;
  REQUIRE_OK(msgq_record(scene->queue, &received, "Cem", NULL));
  REQUIRE_OK(msgq_set_transport(scene->queue, NULL, NULL, NULL));
  scene_close(scene);
}

static void check_mixed_counts(struct scene *scene) {
  msgq_counts all = counts_of(scene, NULL), ana = counts_of(scene, "ana"), ben = counts_of(scene, "ben"), cem = counts_of(scene, "cem");
  CHECK(all.queued == 4 && all.failed == 1 && all.sent == 2 && all.received == 1 && all.unread == 1);
  CHECK_NUMBER(4 * 6 + 7, all.unsent_bytes);
  CHECK(ana.queued == 4 && ana.failed == 1 && ana.sent == 0);
  CHECK(ben.queued == 0 && ben.sent == 2);
  CHECK(cem.received == 1 && cem.unread == 1 && cem.queued == 0);
}

static void check_after_sql(const char *sql, const char *reported) {
  struct scene scene;
  begin_mixed(&scene);
  sql_run(scene.path, sql);
  scene_open(&scene);
  unsigned failures = check_failures();
  check_mixed_counts(&scene);
  if (reported != NULL) await_storage_event(&scene, reported);
  put(&scene, "new", "ana", "new");
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "new"));
  scene_close(&scene);
  /* The next open reports nothing, because the store was repaired. */
  size_t before = journal_count(&scene.journal, MSGQ_EVENT_STORAGE);
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "new"));
  scene_close(&scene);
  CHECK_NUMBER(before, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  if (check_failures() > failures) fprintf(stderr, "  after %s\n", sql);
  scene_end(&scene);
}

TEST_LONG(D10_a_damaged_state_row_is_rebuilt_and_reported) {
  static const char *const changes[] = {
    "UPDATE state SET queued = 77, unsent_bytes = 1",
    "UPDATE state SET queued = -9223372036854775807 - 1",
    "UPDATE state SET sequence_ceiling = 0",
    "UPDATE state SET sequence_ceiling = 9223372036854775807",
    "UPDATE state SET folded_through = 1000000",
    "UPDATE state SET folded_through = -1",
    "UPDATE state SET is_clean = 9",
    "UPDATE state SET boot_id = 'another'",
    "DELETE FROM state",
  };
  for (size_t index = 0; index < sizeof changes / sizeof changes[0]; index++) check_after_sql(changes[index], "state");
}

TEST_LONG(D10_altered_counts_of_a_conversation_are_recounted) {
  check_after_sql("UPDATE conversation SET queued = 99 WHERE name = 'ana'", NULL);
  check_after_sql("UPDATE conversation SET sent = sent + 1, unsent_bytes = 7", NULL);
  check_after_sql("UPDATE conversation SET queued = -9223372036854775807 - 1, failed = 9223372036854775807", NULL);
}

TEST(D10_a_rebuilt_state_row_reuses_no_sequence_number) {
  struct scene scene;
  msgq_message *message = NULL;
  begin_mixed(&scene);
  int64_t last = sql_number(scene.path, "SELECT max(seq) FROM message");
  sql_run(scene.path, "UPDATE state SET sequence_ceiling = 1");
  scene_open(&scene);
  put(&scene, "new", "ana", "new");
  REQUIRE_OK(msgq_get(scene.queue, "new", &message));
  CHECK((int64_t)message->sequence > last);
  msgq_message_free(message);
  scene_end(&scene);
}

/* Returns whether the result is one of those that a call for a damaged message may return. Its id may be empty. */
static bool is_answer(msgq_result result, const char *id) {
  return result == MSGQ_OK || result == MSGQ_CORRUPT || result == MSGQ_NOT_FOUND || (result == MSGQ_INVALID && id[0] == '\0');
}

/* Calls every reading function on a store with an impossible number, and checks that no wrong data is returned. */
static void read_all(struct scene *scene) {
  static const char *const bodies[] = { "sent one", "sent two", "refused", "body 1", "body 2", "body 3", "body 4", "hello" };
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *list = NULL;
  msgq_conversation_page *page = NULL;
  filter.statuses = MSGQ_STATUSES_ALL;
  msgq_result result = msgq_list(scene->queue, &filter, &list);
  CHECK(result == MSGQ_OK || result == MSGQ_CORRUPT);
  for (size_t index = 0; index < msgq_list_size(list); index++) {
    const msgq_message *message = msgq_list_at(list, index);
    bool is_whole = false;
    for (size_t number = 0; number < 8; number++) {
      is_whole = is_whole || (message->body_size == strlen(bodies[number]) && memcmp(message->body, bodies[number], message->body_size) == 0);
    }
    bool is_shown_damaged = message->status == MSGQ_STATUS_FAILED && message->failure != NULL && strstr(message->failure->text, "damaged") != NULL;
    if (!CHECK(is_whole || is_shown_damaged)) fprintf(stderr, "  %s has %zu bytes\n", message->id, message->body_size);
    CHECK(message->attempts < 1000);
    msgq_message *again = NULL;
    msgq_ledger *ledger = NULL;
    msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
    result = msgq_get(scene->queue, message->id, &again);
    CHECK(is_answer(result, message->id));
    msgq_message_free(again);
    result = msgq_attempts(scene->queue, message->id, &ledger);
    CHECK(is_answer(result, message->id));
    msgq_attempts_free(ledger);
    result = msgq_explain(scene->queue, message->id, &explanation);
    CHECK(is_answer(result, message->id));
  }
  msgq_list_free(list);
  msgq_counts counts = MSGQ_COUNTS_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_count(scene->queue, NULL, &counts));
  CHECK(counts.queued <= 8 && counts.failed <= 8 && counts.sent <= 8 && counts.received <= 8 && counts.unsent_bytes < 1 << 20);
  result = msgq_conversations(scene->queue, 0, 0, &page);
  CHECK(result == MSGQ_OK || result == MSGQ_CORRUPT);
  msgq_conversations_free(page);
}

TEST_ALONE(D10_impossible_numbers_are_refused_or_shown_as_damaged) {
  static const char *const changes[] = {
    "UPDATE message SET body_size = 9223372036854775807 WHERE id = 'm1'",
    "UPDATE message SET body_size = -1 WHERE id = 'm1'",
    "UPDATE message SET body_size = 7 WHERE id = 'm1'",
    "UPDATE message SET attempts = 9223372036854775807 WHERE id = 'm1'",
    "UPDATE message SET attempts = -1 WHERE id = 'm1'",
    "UPDATE message SET retries_used = 9223372036854775807 WHERE id = 'm1'",
    "UPDATE message SET status = 1 WHERE id = 'm1'",
    "UPDATE message SET status = 2 WHERE id = 'm1'",
    "UPDATE message SET status = 99 WHERE id = 'm1'",
    "UPDATE message SET created_at = -9223372036854775807 - 1 WHERE id = 'm1'",
    "UPDATE message SET due_at = 9223372036854775807, due_delay = -9223372036854775807 - 1 WHERE id = 'm1'",
    "UPDATE message SET not_before = 9223372036854775807 WHERE id = 'm1'",
    "UPDATE message SET expires_at = -9223372036854775807 - 1 WHERE id = 'm1'",
    "UPDATE message SET sent_at = 9223372036854775807, sent_duration = -9223372036854775807 - 1 WHERE id = 's1'",
    "UPDATE message SET sent_code = 9223372036854775807 WHERE id = 's1'",
    "UPDATE message SET flags = 9223372036854775807 WHERE id = 'm1'",
    "UPDATE message SET conversation = 'ben' WHERE id = 'm1'",
    "UPDATE message SET body = NULL WHERE id = 'm1'",
    "UPDATE message SET body = x'00' WHERE id = 'm1'",
    "UPDATE message SET metadata = '{\"a\":' WHERE id = 'm1'",
    "UPDATE message SET seq = 9223372036854775807 WHERE id = 'm1'",
    "UPDATE message SET seq = -9223372036854775807 - 1 WHERE id = 'm1'",
    "UPDATE message SET seq = 0 WHERE id = 'm1'",
    "UPDATE message SET id = '' WHERE id = 'm1'",
    "UPDATE message SET indexed = 0 WHERE id = 'm1'",
    "UPDATE attempt SET number = 9223372036854775807, duration = -9223372036854775807 - 1",
    "UPDATE attempt SET outcome = 99, kind = 99, code = 9223372036854775807, arrival = 99",
    "INSERT INTO in_flight VALUES(9223372036854775807, 1, 1)",
    "INSERT INTO in_flight VALUES((SELECT seq FROM message WHERE id = 'm1'), 9223372036854775807, -9223372036854775807 - 1)",
    "INSERT INTO in_flight VALUES((SELECT seq FROM message WHERE id = 's1'), -1, 0)",
    "UPDATE conversation SET last_seq = 9223372036854775807",
    "INSERT INTO conversation(name, queued, sent, delivered, \"read\", failed, received, unread, unsent_bytes, last_seq) "
    "VALUES('none', 9223372036854775807, 9223372036854775807, 1, 1, 1, 1, 1, 1, 1)",
    "INSERT INTO recent VALUES('x', 9223372036854775807, 9)",
    "UPDATE state SET hold_until = 9223372036854775807, hold_delay = 9223372036854775807",
    "PRAGMA user_version = -1",
    "PRAGMA user_version = 0",
  };
  for (size_t index = 0; index < sizeof changes / sizeof changes[0]; index++) {
    struct scene scene;
    unsigned failures = check_failures();
    begin_mixed(&scene);
    sql_run(scene.path, changes[index]);
    msgq_result result = msgq_open(scene.path, &scene.options, &scene.queue);
    CHECK(result == MSGQ_OK || result == MSGQ_CORRUPT || result == MSGQ_TOO_NEW);
    if (scene.queue != NULL) {
      struct stub stub;
      read_all(&scene);
      stub_begin(&stub, MSGQ_VERDICT_SENT);
      CHECK_RESULT(MSGQ_OK, msgq_set_transport(scene.queue, stub_send, &stub, NULL));
      msgq_report report = MSGQ_REPORT_INIT;
      msgq_drain_options soon = MSGQ_DRAIN_OPTIONS_INIT;
      soon.timeout_ms = 2000;
      result = msgq_drain(scene.queue, &soon, &report);
      CHECK(result == MSGQ_OK);
      read_all(&scene);
      msgq_close(scene.queue, 1000);
      scene.queue = NULL;
    }
    if (check_failures() > failures) fprintf(stderr, "  after %s\n", changes[index]);
    scene_end(&scene);
  }
}

TEST_LONG(D10_a_damaged_message_is_never_sent_and_the_others_are) {
  static const char *const changes[] = {
    "UPDATE message SET body = x'626f64792039' WHERE id = 'm2'", /* "body 9" */
    "UPDATE message SET attempts = 3 WHERE id = 'm2'",
    "UPDATE message SET conversation = 'ben' WHERE id = 'm2'",
    "UPDATE message SET id = 'm9' WHERE id = 'm2'",
  };
  for (size_t index = 0; index < sizeof changes / sizeof changes[0]; index++) {
    struct scene scene;
    struct stub stub;
    unsigned failures = check_failures();
    scene_begin(&scene);
    close_after(&scene, 1, 4);
    sql_run(scene.path, changes[index]);
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    stub_open(&stub, &scene);
    CHECK_NUMBER(3, drain(&scene).sent);
    CHECK_NUMBER(3, atomic_load(&stub.calls));
    CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "m1"));
    CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "m3"));
    CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "m4"));
    CHECK_NUMBER(1, counts_of(&scene, NULL).failed);
    AWAIT(journal_count(&scene.journal, MSGQ_EVENT_STORAGE) > 0);
    if (check_failures() > failures) fprintf(stderr, "  after %s\n", changes[index]);
    scene_end(&scene);
  }
}

TEST(D10_R3_a_request_by_hand_for_a_damaged_message_is_refused) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  put_numbered(&scene, 1, 1);
  CHECK_NUMBER(1, drain(&scene).failed);
  put_numbered(&scene, 2, 2);
  scene_close(&scene);
  sql_run(scene.path, "UPDATE message SET body = x'00'");
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  CHECK_RESULT(MSGQ_CORRUPT, msgq_retry(scene.queue, "m1"));
  CHECK_RESULT(MSGQ_CORRUPT, msgq_send_now(scene.queue, "m2"));
  CHECK_NUMBER(1, counts_of(&scene, NULL).failed);
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "m1"));
  scene_end(&scene);
}

TEST_LONG(D10_retry_all_counts_a_damaged_message_only_if_its_state_is_whole) {
  static const struct {
    const char *change;
    int64_t count;
  } cases[] = {
    { "UPDATE message SET attempts = 3 WHERE id = 'm1'", 1 },
    { "UPDATE message SET body = x'00' WHERE id = 'm1'", 2 },
  };
  for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
    struct scene scene;
    struct stub stub;
    uint64_t count = 0;
    stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
    put_numbered(&scene, 1, 2);
    CHECK_NUMBER(2, drain(&scene).failed);
    scene_close(&scene);
    sql_run(scene.path, cases[index].change);
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    stub_open(&stub, &scene);
    CHECK_RESULT(MSGQ_OK, msgq_retry_all(scene.queue, NULL, &count));
    CHECK_NUMBER(cases[index].count, count);
    AWAIT(status_of(&scene, "m2") == MSGQ_STATUS_SENT);
    AWAIT(counts_of(&scene, NULL).failed == 1);
    CHECK_NUMBER(1, atomic_load(&stub.calls));
    scene_end(&scene);
  }
}

/* A body is read when it is sent. Then its damage is known, and the message is not put back again. */
TEST(D10_R3_retry_all_and_a_drain_leave_a_message_that_failed_for_its_damage) {
  struct scene scene;
  struct stub stub;
  uint64_t count = 0;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 2);
  scene_close(&scene);
  sql_run(scene.path, "UPDATE message SET body = x'00' WHERE id = 'm1'");
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub_open(&stub, &scene);
  drain(&scene);
  CHECK_NUMBER(2, counts_of(&scene, NULL).failed);
  CHECK_RESULT(MSGQ_OK, msgq_retry_all(scene.queue, NULL, &count));
  CHECK_NUMBER(1, count);
  AWAIT(atomic_load(&stub.calls) == 2 && status_of(&scene, "m2") == MSGQ_STATUS_FAILED);
  stub.verdict = MSGQ_VERDICT_SENT;
  options.include_failed = true;
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, &options, NULL));
  AWAIT(status_of(&scene, "m2") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(3, atomic_load(&stub.calls));
  CHECK_NUMBER(1, counts_of(&scene, NULL).failed);
  scene_end(&scene);
}

/* The schema is text on the first pages of the file. */
TEST_LONG(D2_D10_a_flipped_bit_in_the_schema_is_refused_or_harmless) {
  struct scene scene;
  begin_mixed(&scene);
  struct file_copy before = file_read(scene.path);
  int refused = 0, opened = 0;
  const int64_t page = page_size(&scene);
  for (int64_t place = 100; place < (int64_t)before.size; place += check_times(7, 31)) {
    if (memmem(before.bytes + place / page * page, (size_t)page, "CREATE", 6) == NULL) continue;
    file_flip(scene.path, place);
    struct snapshot damaged;
    snapshot_take(&damaged, scene.directory);
    unsigned failures = check_failures();
    msgq_result result = msgq_open(scene.path, &scene.options, &scene.queue);
    CHECK(result == MSGQ_OK || result == MSGQ_CORRUPT);
    if (result == MSGQ_OK) CHECK_RESULT(MSGQ_OK, msgq_close(scene.queue, -1));
    else CHECK(snapshot_holds(&damaged, scene.directory));
    if (check_failures() > failures) fprintf(stderr, "  byte %lld: %s\n", (long long)place, msgq_error_detail());
    scene.queue = NULL;
    refused += result == MSGQ_CORRUPT;
    opened += result == MSGQ_OK;
    snapshot_free(&damaged);
    unlink(log_of(&scene));
    unlink(tail_of(&scene));
    file_write(scene.path, before.bytes, before.size);
    if (check_failures() > failures + 8) break;
  }
  CHECK(refused > 20 && opened > 20);
  file_copy_free(&before);
  scene_end(&scene);
}
