/* Messages in the host's own transaction: msgq_outbox_put. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "outbox_calls.h"

TEST(T1_a_message_exists_exactly_when_the_transaction_of_the_host_commits) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  shop_run(&shop, "BEGIN IMMEDIATE; INSERT INTO orders VALUES(1, 'kept')");
  put_one(&shop, "kept");
  shop_run(&shop, "COMMIT; BEGIN IMMEDIATE; INSERT INTO orders VALUES(2, 'undone')");
  put_one(&shop, "undone");
  shop_run(&shop, "ROLLBACK; BEGIN IMMEDIATE; INSERT INTO orders VALUES(3, 'outer'); SAVEPOINT first");
  put_one(&shop, "outer");
  shop_run(&shop, "SAVEPOINT second");
  put_one(&shop, "inner");
  shop_run(&shop, "ROLLBACK TO second; RELEASE second; RELEASE first; SAVEPOINT third");
  put_one(&shop, "released");
  shop_run(&shop, "RELEASE third; COMMIT");
  put_one(&shop, "alone"); /* a transaction of its own */
  CHECK_NUMBER(4, rows(&shop));
  CHECK_NUMBER(4, collect(&scene, &shop));
  UNSENT(&scene, "kept outer released alone");
  CHECK_NUMBER(0, rows(&shop));
  CHECK_NUMBER(2, shop_number(&shop, "SELECT count(*) FROM orders"));
  CHECK_NUMBER(0, collect(&scene, &shop));
  end(&scene, &shop);
}

TEST(T1_an_open_transaction_is_not_collected_by_another_connection) {
  struct scene scene;
  struct shop shop;
  size_t moved = 99;
  begin(&scene, &shop);
  sqlite3 *other = shop_connect(&shop);
  put_one(&shop, "before");
  shop_run(&shop, "BEGIN IMMEDIATE");
  put_one(&shop, "open");
  CHECK_RESULT(MSGQ_BUSY, msgq_outbox_collect(other, scene.queue, 10, &moved));
  CHECK_NUMBER(SQLITE_BUSY, msgq_outbox_sqlite_code());
  CHECK_NUMBER(0, moved);
  UNSENT(&scene, "");
  shop_run(&shop, "COMMIT");
  REQUIRE_OK(msgq_outbox_collect(other, scene.queue, 10, &moved));
  CHECK_NUMBER(2, moved);
  REQUIRE(sqlite3_close(other) == SQLITE_OK);
  end(&scene, &shop);
}

TEST(T1_every_value_of_a_draft_arrives) {
  struct scene scene;
  struct shop shop;
  char id[MSGQ_ID_SIZE];
  const msgq_pair pairs[] = { { "k\xc3\xa9y", "v'); DROP TABLE orders; --" }, { "empty", "" } };
  msgq_draft draft = MSGQ_DRAFT_INIT;
  begin(&scene, &shop);
  draft.id = "a'b\"c";
  draft.conversation = "ana'; DROP TABLE msgq_outbox; --";
  draft.body = "\0binary\xff";
  draft.body_size = 8;
  draft.metadata = pairs;
  draft.metadata_count = 2;
  draft.not_before_ms = 4102444800000;
  draft.expires_at_ms = 4102444900000;
  draft.unmetered_only = true;
  draft.replace_key = "key'";
  draft.priority = -7;
  draft.time_ms = 1700000000000;
  REQUIRE_OK(msgq_outbox_put(shop.database, &draft, id));
  CHECK_TEXT("a'b\"c", id);
  draft = (msgq_draft)MSGQ_DRAFT_INIT;
  REQUIRE_OK(msgq_outbox_put(shop.database, &draft, id));
  CHECK_NUMBER(36, strlen(id));
  CHECK(id[14] == '7' && strchr("89ab", id[19]) != NULL);
  int64_t before = wall_ms();
  CHECK_NUMBER(2, collect(&scene, &shop));
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "a'b\"c", &message));
  CHECK_TEXT("ana'; DROP TABLE msgq_outbox; --", message->conversation);
  CHECK(message->body_size == 8 && memcmp(message->body, "\0binary\xff", 8) == 0);
  CHECK_NUMBER(2, message->metadata_count);
  for (size_t index = 0; index < message->metadata_count; index++) {
    const msgq_pair *expected = &pairs[strcmp(message->metadata[index].key, "empty") == 0];
    CHECK_TEXT(expected->key, message->metadata[index].key);
    CHECK_TEXT(expected->value, message->metadata[index].value);
  }
  CHECK_NUMBER(4102444800000, message->not_before_ms);
  CHECK_NUMBER(4102444900000, message->expires_at_ms);
  CHECK(message->unmetered_only);
  CHECK_NUMBER(-7, message->priority);
  CHECK_NUMBER(1700000000000, message->time_ms);
  msgq_message_free(message);
  REQUIRE_OK(msgq_get(scene.queue, id, &message));
  CHECK_TEXT("", message->conversation);
  CHECK_NUMBER(0, message->body_size);
  CHECK(message->time_ms > 0 && message->time_ms <= before); /* when it was put */
  msgq_message_free(message);
  draft = draft_of("newer", "ana'; DROP TABLE msgq_outbox; --");
  draft.replace_key = "key'";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_NUMBER(-1, status_of(&scene, "a'b\"c"));
  end(&scene, &shop);
}

TEST(T1_durations_count_from_the_put) {
  struct scene scene;
  struct shop shop;
  msgq_draft draft = draft_of("a", "ana");
  begin(&scene, &shop);
  int64_t before = wall_ms();
  draft.delay_ms = 1000000;
  draft.expiry_ms = 2000000;
  REQUIRE_OK(msgq_outbox_put(shop.database, &draft, NULL));
  int64_t after = wall_ms();
  int64_t start = shop_number(&shop, "SELECT not_before_ms FROM msgq_outbox");
  CHECK(start >= before + 1000000 && start <= after + 1000000);
  CHECK_NUMBER(start + 2000000, shop_number(&shop, "SELECT expires_at_ms FROM msgq_outbox"));
  draft = draft_of("b", "ana");
  draft.expiry_ms = 1;
  REQUIRE_OK(msgq_outbox_put(shop.database, &draft, NULL));
  AWAIT(wall_ms() > after + 10);
  CHECK_NUMBER(2, collect(&scene, &shop));
  AWAIT(status_of(&scene, "b") == MSGQ_STATUS_FAILED); /* it expired in the outbox */
  CHECK_NUMBER(MSGQ_FAILURE_EXPIRED, failure_of(&scene, "b"));
  end(&scene, &shop);
}

TEST(T1_a_second_put_of_an_id_is_a_duplicate_and_the_transaction_goes_on) {
  struct scene scene;
  struct shop shop;
  char id[MSGQ_ID_SIZE] = "unchanged";
  msgq_draft draft = draft_of("a", "ben");
  begin(&scene, &shop);
  shop_run(&shop, "BEGIN IMMEDIATE; INSERT INTO orders VALUES(17, 'kept')");
  put_one(&shop, "a");
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_outbox_put(shop.database, &draft, id));
  CHECK_TEXT("unchanged", id);
  CHECK_TEXT("id a is in the outbox", msgq_outbox_error_detail());
  CHECK_NUMBER(SQLITE_OK, msgq_outbox_sqlite_code());
  CHECK_NUMBER(0, sqlite3_get_autocommit(shop.database));
  CHECK_NUMBER(17, sqlite3_last_insert_rowid(shop.database));
  put_one(&shop, "b");
  CHECK_NUMBER(17, sqlite3_last_insert_rowid(shop.database));
  shop_run(&shop, "COMMIT");
  CHECK_NUMBER(2, collect(&scene, &shop));
  UNSENT(&scene, "a b");
  /* The queue knows the id, so the row of a later put is no second message. */
  put_one(&shop, "a");
  CHECK_NUMBER(1, collect(&scene, &shop));
  CHECK_NUMBER(0, rows(&shop));
  UNSENT(&scene, "a b");
  end(&scene, &shop);
}

TEST(T1_put_returns_what_sqlite_says_of_a_lock) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  sqlite3 *other = shop_connect(&shop);
  REQUIRE(shop_try(other, "BEGIN IMMEDIATE") == SQLITE_OK);
  CHECK_RESULT(MSGQ_BUSY, put_in(shop.database, "a", "ana"));
  CHECK_NUMBER(SQLITE_BUSY, msgq_outbox_sqlite_code());
  CHECK_NUMBER(SQLITE_BUSY, sqlite3_errcode(shop.database));
  REQUIRE(shop_try(other, "INSERT INTO orders VALUES(1, 'other'); COMMIT") == SQLITE_OK);
  /* A transaction that has read gets it whatever the busy time-out. */
  sqlite3_busy_timeout(shop.database, 100000);
  shop_run(&shop, "BEGIN");
  CHECK_NUMBER(1, shop_number(&shop, "SELECT count(*) FROM orders"));
  REQUIRE(shop_try(other, "INSERT INTO orders VALUES(2, 'other')") == SQLITE_OK);
  CHECK_RESULT(MSGQ_BUSY, put_in(shop.database, "a", "ana"));
  CHECK_NUMBER(SQLITE_BUSY_SNAPSHOT, msgq_outbox_sqlite_code());
  CHECK_NUMBER(SQLITE_BUSY_SNAPSHOT, sqlite3_extended_errcode(shop.database));
  shop_run(&shop, "ROLLBACK; BEGIN IMMEDIATE");
  put_one(&shop, "a");
  shop_run(&shop, "COMMIT");
  CHECK_NUMBER(1, rows(&shop));
  REQUIRE(sqlite3_close(other) == SQLITE_OK);
  end(&scene, &shop);
}

/* A value of a draft that no queue could keep. */
#define REFUSED(result, field, value)                                       \
  do {                                                                      \
    msgq_draft refused = draft_of("a", "ana");                              \
    refused.field = (value);                                                \
    CHECK_RESULT((result), msgq_outbox_put(shop.database, &refused, NULL)); \
    CHECK(msgq_outbox_error_detail()[0] != '\0');                           \
  } while (0)

TEST(T1_put_refuses_what_no_queue_could_keep) {
  struct scene scene;
  struct shop shop;
  char longest[257];
  msgq_draft draft = draft_of("a", "ana");
  memset(longest, 'x', 256);
  longest[256] = '\0';
  begin(&scene, &shop);
  shop_run(&shop, "BEGIN IMMEDIATE");
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put(NULL, &draft, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put(shop.database, NULL, NULL));
  REFUSED(MSGQ_INVALID, struct_size, 0);
  REFUSED(MSGQ_INVALID, struct_size, 8);
  REFUSED(MSGQ_INVALID, id, "");
  REFUSED(MSGQ_INVALID, id, longest);
  REFUSED(MSGQ_INVALID, id, "a\nb");
  REFUSED(MSGQ_INVALID, id, "a\xc2\x85");
  REFUSED(MSGQ_INVALID, id, "a\xff");
  REFUSED(MSGQ_INVALID, id, "a\xed\xa0\x80");
  REFUSED(MSGQ_INVALID, id, "a\xc3");
  REFUSED(MSGQ_INVALID, conversation, longest);
  REFUSED(MSGQ_INVALID, conversation, "\x7f");
  REFUSED(MSGQ_INVALID, replace_key, "\t");
  REFUSED(MSGQ_INVALID, body, NULL);
  REFUSED(MSGQ_TOO_LARGE, body_size, ((size_t)256 << 20) + 1);
  REFUSED(MSGQ_TOO_LARGE, body_size, SIZE_MAX);
  REFUSED(MSGQ_INVALID, metadata_count, 1);
  REFUSED(MSGQ_INVALID, not_before_ms, -1);
  REFUSED(MSGQ_INVALID, expires_at_ms, INT64_MIN);
  REFUSED(MSGQ_INVALID, priority, 101);
  REFUSED(MSGQ_INVALID, priority, INT32_MIN);
  REFUSED(MSGQ_INVALID, time_ms, -1);
  REFUSED(MSGQ_INVALID, time_ms, 253402300800000);
  REFUSED(MSGQ_INVALID, delay_ms, -1);
  REFUSED(MSGQ_INVALID, delay_ms, INT64_MAX);
  REFUSED(MSGQ_INVALID, expiry_ms, 315619200001);
  draft.delay_ms = draft.not_before_ms = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put(shop.database, &draft, NULL));
  draft = draft_of("a", "ana");
  draft.expiry_ms = draft.expires_at_ms = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put(shop.database, &draft, NULL));
  draft = draft_of("a", "ana");
  draft.not_before_ms = draft.expires_at_ms = 5;
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put(shop.database, &draft, NULL));
  CHECK_NUMBER(0, rows(&shop));
  /* The largest values are none of these. */
  draft = draft_of("a", "ana");
  draft.not_before_ms = INT64_MAX - 1;
  draft.expiry_ms = 315619200000;
  longest[255] = '\0';
  draft.id = draft.conversation = draft.replace_key = longest;
  REQUIRE_OK(msgq_outbox_put(shop.database, &draft, NULL));
  CHECK(shop_number(&shop, "SELECT expires_at_ms FROM msgq_outbox") == INT64_MAX);
  shop_run(&shop, "COMMIT");
  CHECK_NUMBER(1, collect(&scene, &shop));
  end(&scene, &shop);
}

TEST(T1_put_refuses_metadata_that_no_queue_could_keep) {
  struct scene scene;
  struct shop shop;
  static msgq_pair many[1025];
  static char large[(16 << 20) + 1];
  static const struct {
    msgq_pair pair;
    msgq_result expected;
  } cases[] = { { { NULL, "v" }, MSGQ_INVALID },   { { "k", NULL }, MSGQ_INVALID },       { { "", "v" }, MSGQ_INVALID },
                { { "\xff", "v" }, MSGQ_INVALID }, { { "k", "\xc0\x80" }, MSGQ_INVALID }, { { "k", large }, MSGQ_TOO_LARGE } };
  memset(large, 'x', sizeof large - 1);
  for (size_t index = 0; index < 1025; index++) many[index] = (msgq_pair){ "k", "v" };
  begin(&scene, &shop);
  for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
    msgq_draft draft = draft_of("a", "ana");
    draft.metadata = &cases[index].pair;
    draft.metadata_count = 1;
    if (!CHECK_RESULT(cases[index].expected, msgq_outbox_put(shop.database, &draft, NULL))) fprintf(stderr, "  case %zu\n", index);
  }
  msgq_draft draft = draft_of("a", "ana");
  draft.metadata = many;
  draft.metadata_count = 1025;
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_outbox_put(shop.database, &draft, NULL));
  CHECK_NUMBER(0, rows(&shop));
  end(&scene, &shop);
}

TEST_LONG(T1_a_metadata_key_that_is_too_large_is_refused) {
  enum { size = (16 << 20) + 4096 };
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  char *key = malloc(size + 1);
  REQUIRE(key != NULL);
  memset(key, 'k', size);
  key[size] = '\0';
  msgq_pair pair = { key, "" };
  msgq_draft draft = draft_of("a", "ana");
  draft.metadata = &pair;
  draft.metadata_count = 1;
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_outbox_put(shop.database, &draft, NULL));
  CHECK_NUMBER(0, rows(&shop));
  key[16 << 20] = '\0';
  CHECK_RESULT(MSGQ_OK, msgq_outbox_put(shop.database, &draft, NULL));
  free(key);
  end(&scene, &shop);
}

TEST(T1_a_metadata_key_twice_is_refused) {
  struct scene scene;
  struct shop shop;
  char keys[1024][8];
  msgq_pair pairs[1024];
  begin(&scene, &shop);
  for (int index = 0; index < 1024; index++) {
    snprintf(keys[index], sizeof keys[index], "k%d", index);
    pairs[index] = (msgq_pair){ keys[index], "v" };
  }
  msgq_draft draft = draft_of("a", "ana");
  draft.metadata = pairs;
  draft.metadata_count = 1024;
  pairs[1023].key = "k7";
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put(shop.database, &draft, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &draft, NULL)); /* as the queue does */
  CHECK_NUMBER(0, rows(&shop));
  pairs[1023].key = keys[1023];
  CHECK_RESULT(MSGQ_OK, msgq_outbox_put(shop.database, &draft, NULL));
  CHECK_NUMBER(1, collect(&scene, &shop));
  end(&scene, &shop);
}

TEST(T1_the_last_row_of_the_host_stays_its_own_when_a_put_fails) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  sqlite3 *other = NULL;
  shop_run(&shop, "PRAGMA journal_mode = DELETE; INSERT INTO orders VALUES(77, 'own')");
  REQUIRE(sqlite3_open(shop.path, &other) == SQLITE_OK);
  REQUIRE(shop_try(other, "BEGIN; SELECT * FROM orders") == SQLITE_OK);
  REQUIRE(sqlite3_busy_timeout(shop.database, 0) == SQLITE_OK);
  CHECK_RESULT(MSGQ_BUSY, put_in(shop.database, "busy", "ana")); /* its commit, behind the reader */
  CHECK_NUMBER(77, sqlite3_last_insert_rowid(shop.database));
  CHECK_NUMBER(SQLITE_BUSY, sqlite3_errcode(shop.database));
  REQUIRE(sqlite3_close(other) == SQLITE_OK);
  shop_run(&shop, "CREATE TRIGGER refusal AFTER INSERT ON msgq_outbox BEGIN SELECT RAISE(ABORT, 'no'); END");
  CHECK_RESULT(MSGQ_CONFLICT, put_in(shop.database, "refused", "ana"));
  CHECK_NUMBER(77, sqlite3_last_insert_rowid(shop.database));
  CHECK_NUMBER(0, rows(&shop));
  end(&scene, &shop);
}

TEST(T6_the_schema_makes_its_tables_also_behind_temporary_ones) {
  struct scene scene;
  struct shop shop;
  scene_begin_open(&scene);
  shop_begin(&shop, &scene,
             "CREATE TEMP TABLE msgq_outbox(version, source); CREATE TEMP TABLE msgq_outbox_store(version, source)");
  shop_run(&shop, msgq_outbox_schema());
  shop_run(&shop, msgq_outbox_schema());
  put_one(&shop, "a");
  CHECK_NUMBER(0, shop_number(&shop, "SELECT count(*) FROM temp.msgq_outbox_store"));
  CHECK_NUMBER(1, collect(&scene, &shop));
  UNSENT(&scene, "a");
  end(&scene, &shop);
}

TEST(T1_programs_of_earlier_versions_put_the_fields_that_they_know) {
  struct scene scene;
  struct shop shop;
  msgq_draft draft = draft_of("a", "ana");
  begin(&scene, &shop);
  draft.priority = 99; /* beyond what this program knows */
  draft.struct_size = offsetof(msgq_draft, replace_key);
  REQUIRE_OK(msgq_outbox_put(shop.database, &draft, NULL));
  CHECK_NUMBER(0, shop_number(&shop, "SELECT priority FROM msgq_outbox"));
  struct {
    msgq_draft draft;
    int64_t later;
  } newer = { draft_of("b", "ana"), 0 };
  newer.draft.struct_size = sizeof newer;
  REQUIRE_OK(msgq_outbox_put(shop.database, &newer.draft, NULL));
  newer.draft.id = "c";
  newer.later = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put(shop.database, &newer.draft, NULL));
  CHECK_NUMBER(2, collect(&scene, &shop));
  end(&scene, &shop);
}

TEST(T1_a_batch_is_put_whole_or_not_at_all) {
  struct scene scene;
  struct shop shop;
  char ids[3][MSGQ_ID_SIZE];
  begin(&scene, &shop);
  msgq_draft good[] = { draft_of("a", "ana"), draft_of("b", "ana"), draft_of("c", "ben") };
  msgq_draft bad[] = { draft_of("d", "ana"), draft_of("b", "ana"), draft_of("e", "ben") };
  CHECK_RESULT(MSGQ_OK, msgq_outbox_put_batch(shop.database, NULL, 0, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put_batch(shop.database, NULL, 1, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put_batch(NULL, good, 3, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put_batch(shop.database, good, SIZE_MAX, NULL));
  /* Without a transaction of the host. */
  REQUIRE_OK(msgq_outbox_put_batch(shop.database, good, 3, ids));
  CHECK_TEXT("c", ids[2]);
  CHECK_NUMBER(1, sqlite3_get_autocommit(shop.database));
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_outbox_put_batch(shop.database, bad, 3, NULL));
  CHECK_TEXT("1: id b is in the outbox", msgq_outbox_error_detail());
  CHECK_NUMBER(1, sqlite3_get_autocommit(shop.database));
  CHECK_NUMBER(3, rows(&shop));
  /* Inside of one. */
  shop_run(&shop, "BEGIN IMMEDIATE; INSERT INTO orders VALUES(1, 'kept')");
  put_one(&shop, "before");
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_outbox_put_batch(shop.database, bad, 3, NULL));
  bad[1].id = "f";
  bad[2].priority = 1000;
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put_batch(shop.database, bad, 3, NULL));
  CHECK(strncmp(msgq_outbox_error_detail(), "2: the priority", 15) == 0);
  bad[2].struct_size--;
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_put_batch(shop.database, bad, 3, NULL));
  CHECK_NUMBER(4, rows(&shop));
  bad[2] = draft_of("", "ben");
  bad[2].id = NULL;
  REQUIRE_OK(msgq_outbox_put_batch(shop.database, bad, 3, ids));
  CHECK_NUMBER(36, strlen(ids[2]));
  CHECK_NUMBER(0, sqlite3_get_autocommit(shop.database));
  shop_run(&shop, "COMMIT");
  CHECK_NUMBER(7, collect(&scene, &shop));
  CHECK(sqlite3_next_stmt(shop.database, NULL) == NULL);
  end(&scene, &shop);
}
