/* What the store derives from its messages: msgq_check reports each part that differs, and an open repairs it. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "stores.h"
#include "stub.h"

/* Makes a closed store in which every table and every index has rows. `large`: too large to be checked completely by msgq_open. */
static void begin(struct scene *scene, bool large) {
  static char body[16384];
  static const int64_t ladder[] = { 3600000 };
  struct stub stub;
  scene_begin(scene);
  set_ladder(scene, ladder, 1);
  scene_open(scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene->queue, stub_send, &stub, NULL));
  put(scene, "gone", "ben", "removed");
  put(scene, NULL, "ben", "removed, too");
  put(scene, "s1", "ben", "sent one");
  put(scene, "s2", "ben", "sent two");
  CHECK_NUMBER(4, drain(scene).sent);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(scene, "f1", "ana", "refused");
  CHECK_NUMBER(1, drain(scene).failed);
  stub.verdict = MSGQ_VERDICT_RETRY;
  put(scene, "r1", "fay", "tried again later");
  drain(scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(scene, "r1"));
  put_numbered(scene, 1, 4);
  put_timed(scene, "later", "dan", wall_ms() + 43200000, wall_ms() + 86400000);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "urgent";
  draft.conversation = "dan";
  draft.priority = 3;
  draft.replace_key = "key";
  draft.body = body;
  draft.body_size = sizeof body;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
  msgq_draft received = MSGQ_DRAFT_INIT;
  received.id = "h1";
  received.conversation = "cem";
  REQUIRE_OK(msgq_record(scene->queue, &received, "Cem", NULL));
  received.id = "t1";
  received.time_ms = wall_ms() - 604800000;
  REQUIRE_OK(msgq_record(scene->queue, &received, "Cem", NULL));
  received.id = "t2";
  received.conversation = "eva";
  REQUIRE_OK(msgq_record(scene->queue, &received, "Eva", NULL));
  received.id = "t3";
  received.time_ms = 0;
  REQUIRE_OK(msgq_record(scene->queue, &received, "Eva", NULL));
  for (unsigned number = 0; large && number < 140; number++) {
    msgq_draft filler = MSGQ_DRAFT_INIT;
    filler.conversation = "filler";
    filler.body = body;
    filler.body_size = sizeof body;
    REQUIRE_OK(msgq_enqueue(scene->queue, &filler, NULL));
  }
  scene_close(scene);
  scene->options.keep_sent = 2;
  scene_open(scene);
  AWAIT(status_of(scene, "gone") == -1 && counts_of(scene, NULL).sent == 2);
  scene->options.keep_sent = -1;
  scene_close(scene);
}

static msgq_check_report check_of(const char *path) {
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_check(path, &report));
  return report;
}

/* Runs SQL without the indexes of a table, so that these keep what they have. */
static void change_without_indexes(const char *path, const char *table, const char *update) {
  char sql[1600];
  snprintf(sql, sizeof sql,
           "PRAGMA writable_schema = 1;"
           "CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE type = 'index' AND tbl_name = '%s' AND sql IS NOT NULL;"
           "DELETE FROM sqlite_schema WHERE name IN (SELECT name FROM kept); PRAGMA writable_schema = RESET; %s;"
           "PRAGMA writable_schema = 1; INSERT INTO sqlite_schema SELECT * FROM kept; PRAGMA writable_schema = RESET",
           table, update);
  sql_run(path, sql);
}

struct damage {
  const char *sql;
  /* The table whose indexes do not follow the change; NULL: they do. */
  const char *table;
  /* What msgq_check says. */
  const char *text;
};

static const struct damage damages[] = {
  { "UPDATE conversation SET last_seq = 1, proof = proof + 29 * (1 - last_seq) WHERE name = 'ana'", NULL, "table conversation" },
  { "UPDATE conversation SET last_seq = last_seq + 1000, proof = proof + 29000 WHERE name = 'ben'", NULL, "table conversation" },
  { "UPDATE conversation SET last_seq = 0, proof = proof - 29 * last_seq WHERE name = 'cem'", NULL, "table conversation" },
  { "UPDATE conversation SET queued = queued + 1, proof = proof + 3 WHERE name = 'ana'", NULL, "counts" },
  { "UPDATE conversation SET sent = 0, proof = proof - 5 * sent WHERE name = 'ben'", NULL, "counts" },
  { "UPDATE conversation SET unsent_bytes = 1, proof = proof + 23 * (1 - unsent_bytes) WHERE name = 'ana'", NULL, "totals" },
  { "UPDATE conversation SET queued = queued + 1, failed = failed - 1, proof = proof + 3 - 13 WHERE name = 'ana'", NULL, "totals" },
  { "UPDATE conversation SET queued = queued + 1, proof = proof + 3 WHERE name = 'ana';"
    "UPDATE conversation SET queued = queued - 1, proof = proof - 3 WHERE name = 'dan'", NULL, "the counts do not agree" },
  { "UPDATE conversation SET proof = proof + 1 WHERE name = 'ana'", NULL, "counts of conversations are damaged" },
  { "DELETE FROM conversation WHERE name = 'cem'", NULL, "counts" },
  { "INSERT INTO conversation VALUES('nobody', 0, 0, 0, 0, 0, 0, 0, 0, 3, 87, 0, 0)", NULL, "table conversation" },
  { "UPDATE message SET indexed = 0 WHERE id = 'm2'", NULL, "column indexed" },
  { "UPDATE message SET time_at = 0 WHERE id = 't3'", NULL, "column time_at" },
  { "UPDATE conversation SET last_time = last_time + 1, proof = proof + 31 WHERE name = 'eva'", NULL, "table conversation" },
  { "UPDATE conversation SET (last_time, time_seq, proof) = (SELECT time_at, seq, proof + 31 * (time_at - last_time)"
    " + 37 * (seq - time_seq) FROM message WHERE id = 't1') WHERE name = 'cem'", NULL, "table conversation" },
  { "UPDATE conversation SET (last_time, time_seq, proof) = (SELECT time_at, seq, proof + 31 * (time_at - last_time)"
    " + 37 * (seq - time_seq) FROM message WHERE id = 't2') WHERE name = 'eva'", NULL, "table conversation" },
  { "UPDATE conversation SET last_time = 0, time_seq = 0, proof = proof - 31 * last_time - 37 * time_seq WHERE name = 'eva'", NULL,
    "table conversation" },
  { "UPDATE conversation SET last_time = 9, time_seq = 1, proof = proof + 279 + 37 WHERE name = 'ana'", NULL, "table conversation" },
  { "DELETE FROM history WHERE seq = (SELECT seq FROM message WHERE id = 's1')", NULL, "table history" },
  { "INSERT INTO history VALUES(2, 1000)", NULL, "table history" },
  { "UPDATE history SET status = 3 WHERE status = 2", NULL, "table history" },
  { "DELETE FROM history_in WHERE conversation = 'cem'", NULL, "table history_in" },
  { "INSERT INTO history_in SELECT 'ana', 2, seq FROM message WHERE id = 's1'", NULL, "table history_in" },
  { "INSERT INTO attempt VALUES(1000, 1, 1, 1, 2, 1, 0, 0, '')", NULL, "table attempt" },
  { "INSERT INTO large_body VALUES(1000, x'00')", NULL, "table large_body" },
  { "INSERT INTO large_body SELECT seq, x'00' FROM message WHERE id = 'm1'", NULL, "table large_body" },
  { "INSERT INTO in_flight VALUES(1000, 1, 1)", NULL, "table in_flight" },
  { "INSERT INTO recent_own VALUES(-3, 1, 1, 1)", NULL, "table recent_own" },
  { "DELETE FROM failure", NULL, "table failure" },
  { "UPDATE failure SET code = code + 1", NULL, "table failure" },
  { "UPDATE failure SET conversation = 'ben'", NULL, "table failure" },
  { "UPDATE failure SET failed_at = failed_at + 1", NULL, "table failure" },
  { "INSERT INTO failure SELECT seq, 4, 503, 1, conversation FROM message WHERE id = 'm1'", NULL, "table failure" },
  { "DELETE FROM failure_count", NULL, "table failure" },
  { "UPDATE failure_count SET count = count + 1, proof = proof + 3", NULL, "table failure_count" },
  { "UPDATE failure_count SET last_at = last_at + 1", NULL, "table failure_count" },
  { "INSERT INTO failure_count VALUES(1, 0, 0, 0, 0, 11)", NULL, "table failure_count" },
  { "UPDATE failure SET code = code + 1", "failure", "failure_group" },
  { "UPDATE failure SET conversation = 'ben'", "failure", "failure_group_in" },
  { "UPDATE conversation SET last_seq = 3 WHERE name = 'ana'", "conversation", "conversation_recent" },
  { "UPDATE conversation SET last_time = 3 WHERE name = 'eva'", "conversation", "conversation_time" },
  { "UPDATE recent SET gone_at = gone_at + 1", "recent", "recent_gone" },
};
enum { damage_count = sizeof damages / sizeof damages[0] };

static void do_damage(const char *path, const struct damage *damage) {
  if (damage->table == NULL) sql_run(path, damage->sql);
  else change_without_indexes(path, damage->table, damage->sql);
}

/* Indexes of the messages, a message that is in each, and changes that remove it from the index and put it back. */
static const struct index_entry {
  const char *index, *away, *back;
} entries[] = {
  { "message_conversation", "indexed = 0 WHERE id = 's1'", "indexed = 1 WHERE id = 's1'" },
  { "message_ordered", "status = 2 WHERE id = 'm2'", "status = 0 WHERE id = 'm2'" },
  { "message_waiting", "status = 2 WHERE id = 'm2'", "status = 0 WHERE id = 'm2'" },
  { "message_named", "named = 0 WHERE id = 'm2'", "named = 1 WHERE id = 'm2'" },
  { "message_expiring", "status = 2 WHERE id = 'later'", "status = 0 WHERE id = 'later'" },
  { "message_failed", "status = 2 WHERE id = 'f1'", "status = 5 WHERE id = 'f1'" },
  { "message_failed_in", "status = 2 WHERE id = 'f1'", "status = 5 WHERE id = 'f1'" },
  { "message_replace", "status = 2 WHERE id = 'urgent'", "status = 0 WHERE id = 'urgent'" },
  { "message_priority", "status = 2 WHERE id = 'urgent'", "status = 0 WHERE id = 'urgent'" },
  { "message_deferred", "status = 2 WHERE id = 'later'", "status = 0 WHERE id = 'later'" },
  { "message_due", "status = 2 WHERE id = 'r1'", "status = 0 WHERE id = 'r1'" },
  { "message_time", "indexed = 0 WHERE id = 't1'", "indexed = 1 WHERE id = 't1'" },
  { "message_time_in", "indexed = 0 WHERE id = 't1'", "indexed = 1 WHERE id = 't1'" },
};
enum { entry_count = sizeof entries / sizeof entries[0] };

/* Removes the message from the index, and only from it. */
static void remove_entry(const char *path, const struct index_entry *entry) {
  char sql[2400];
  snprintf(sql, sizeof sql,
           "PRAGMA writable_schema = 1; CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message';"
           "DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message' AND name <> '%s'; PRAGMA writable_schema = RESET;"
           "UPDATE message SET %s; PRAGMA writable_schema = 1;"
           "DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message'; PRAGMA writable_schema = RESET; UPDATE message SET %s;"
           "PRAGMA writable_schema = 1; INSERT INTO sqlite_schema SELECT * FROM kept; PRAGMA writable_schema = RESET",
           entry->index, entry->away, entry->back);
  sql_run(path, sql);
}

/* Calls `body` with each damaged store, which is a small one. */
static void for_each_damage(void (*body)(struct scene *scene, const char *text)) {
  struct scene scene;
  begin(&scene, false);
  struct snapshot before;
  snapshot_take(&before, scene.directory);
  for (size_t index = 0; index < damage_count + entry_count; index += (size_t)check_times(1, 2)) {
    unsigned failures = check_failures();
    const char *text;
    if (index < damage_count) {
      do_damage(scene.path, &damages[index]);
      text = damages[index].text;
    } else {
      remove_entry(scene.path, &entries[index - damage_count]);
      text = entries[index - damage_count].index;
    }
    body(&scene, text);
    if (check_failures() > failures) {
      fprintf(stderr, "  after %s: %s\n", index < damage_count ? damages[index].sql : text, check_of(scene.path).text);
    }
    snapshot_restore(&before, scene.directory);
  }
  snapshot_free(&before);
  scene_end(&scene);
}

static void check_is_reported(struct scene *scene, const char *text) {
  msgq_check_report report = check_of(scene->path);
  CHECK(!report.sound);
  CHECK_NUMBER(14, report.whole);
  CHECK_NUMBER(0, report.damaged);
  CHECK(strstr(report.text, text) != NULL);
}

TEST_LONG(D15_check_reports_everything_that_differs_from_the_messages) { for_each_damage(check_is_reported); }

static void check_is_repaired(struct scene *scene, const char *text) {
  (void)text;
  size_t before = journal_count(&scene->journal, MSGQ_EVENT_STORAGE);
  scene_open(scene);
  AWAIT(journal_count(&scene->journal, MSGQ_EVENT_STORAGE) > before);
  CHECK_NUMBER(7, counts_of(scene, NULL).queued);
  CHECK_NUMBER(5, counts_of(scene, "ana").queued + counts_of(scene, "ana").failed);
  scene_close(scene);
  CHECK_TEXT("14 messages, no damage found.", check_of(scene->path).text);
  before = journal_count(&scene->journal, MSGQ_EVENT_STORAGE);
  scene_open(scene);
  scene_close(scene);
  CHECK_NUMBER(before, journal_count(&scene->journal, MSGQ_EVENT_STORAGE));
}

TEST_LONG(D10_D15_an_open_repairs_everything_that_differs_from_the_messages) { for_each_damage(check_is_repaired); }

/* The newest messages of the conversations of a store of any size are compared in the background after each open. */
TEST_LONG(D10_D15_a_wrong_newest_message_in_a_large_store_is_repaired_after_the_open) {
  struct scene scene;
  begin(&scene, true);
  REQUIRE(file_size(scene.path) > 2 << 20);
  CHECK(check_of(scene.path).sound);
  sql_run(scene.path, "UPDATE conversation SET last_seq = last_seq - 1, proof = proof - 29 WHERE name = 'ana'");
  CHECK(strstr(check_of(scene.path).text, "the table conversation does not agree with the messages") != NULL);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene_open(&scene);
  await_storage_event(&scene, "index");
  scene_close(&scene);
  CHECK_TEXT("154 messages, no damage found.", check_of(scene.path).text);
  scene_end(&scene);
}

/* A change of the derived tables that no constraint allows shows that they are damaged. */
static void check_failing_change(const char *update) {
  struct scene scene;
  struct stub stub;
  begin(&scene, true);
  sql_run(scene.path, update);
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  put(&scene, "f2", "gil", "refused, too");
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.conversation = "gil";
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene.queue, &options, &report));
  CHECK_NUMBER(1, report.failed);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "f2"));
  CHECK_NUMBER(2, counts_of(&scene, NULL).failed);
  scene_close(&scene);
  CHECK_TEXT("155 messages, no damage found.", check_of(scene.path).text);
  scene_end(&scene);
}

TEST_LONG(D10_D15_a_count_of_failures_that_overflows_is_rebuilt) {
  check_failing_change("UPDATE failure_count SET count = 9223372036854775807");
}

TEST_LONG(D10_D15_a_count_of_a_conversation_that_overflows_is_rebuilt) {
  check_failing_change("INSERT INTO conversation VALUES('gil', 9223372036854775807, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)");
}

/* The name of a conversation is not valid UTF-8, so that it is read as another one than the one that the index has. */
TEST(D10_Q12_a_damaged_name_of_a_conversation_delays_no_other_message) {
  static const char *const names[] = { "ana", "support", "ben", "uwe", "zoe" };
  struct scene scene;
  struct stub stub;
  scene_begin_open(&scene);
  for (size_t index = 0; index < 5; index++) put(&scene, names[index], names[index], "hello");
  scene_close(&scene);
  sql_run(scene.path, "UPDATE message SET conversation = CAST(x'f3' || 'upport' AS TEXT) WHERE id = 'support'");
  scene_open(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  drain(&scene);
  for (size_t index = 0; index < 5; index++) {
    if (index != 1) CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, names[index]));
  }
  CHECK_NUMBER(4, atomic_load(&stub.calls));
  CHECK_NUMBER(1, counts_of(&scene, NULL).failed);
  REQUIRE_OK(msgq_delete(scene.queue, "support"));
  CHECK_NUMBER(0, counts_of(&scene, NULL).failed);
  scene_close(&scene);
  CHECK_TEXT("4 messages, no damage found.", check_of(scene.path).text);
  scene_end(&scene);
}
