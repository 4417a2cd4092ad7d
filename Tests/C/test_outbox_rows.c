/* Rows of an outbox that somebody wrote by hand, or that no queue can keep: they block nothing, and nothing is lost. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "outbox_calls.h"

/* The table without the constraints of the schema, as somebody may have made it by hand. */
static const char loose_schema[] =
    "CREATE TABLE msgq_outbox(number INTEGER PRIMARY KEY AUTOINCREMENT, id UNIQUE, conversation, refused, not_before_ms, expires_at_ms, "
    "time_ms, priority DEFAULT 0, replace_key, unmetered_only DEFAULT 0, metadata, body);"
    "CREATE TABLE msgq_outbox_store(version INTEGER, source TEXT, collected INTEGER);"
    "INSERT INTO msgq_outbox_store VALUES(1, 'by hand', NULL)";

struct row_case {
  const char *column, *value, *reason;
};

static const struct row_case row_cases[] = {
  { "id", "NULL", "id is not a text" },
  { "id", "17", "id is not a text" },
  { "id", "x'6162'", "id is not a text" },
  { "id", "char(97, 0, 98)", "id is not a text" },
  { "conversation", "NULL", "conversation is not a text" },
  { "conversation", "1.5", "conversation is not a text" },
  { "body", "NULL", "body is not a blob" },
  { "body", "'text'", "body is not a blob" },
  { "body", "5", "body is not a blob" },
  { "metadata", "'k'", "metadata is not a blob" },
  { "metadata", "x'6b'", "metadata do not end with a zero byte" },
  { "metadata", "x'6b00'", "metadata have a key without a value" },
  { "replace_key", "7", "replace_key is not a text" },
  { "not_before_ms", "'soon'", "not_before_ms is not an integer" },
  { "expires_at_ms", "1e300", "expires_at_ms is not an integer" },
  { "time_ms", "NULL", "time_ms is not an integer" },
  { "priority", "NULL", "priority is not an integer" },
  { "priority", "9223372036854775807", "priority is not -100 to 100" },
  { "priority", "-9223372036854775808", "priority is not -100 to 100" },
  { "unmetered_only", "2", "unmetered_only is not 0 or 1" },
  { "unmetered_only", "x'00'", "unmetered_only is not an integer" },
  /* What the queue says. */
  { "id", "''", "the id must not be empty" },
  { "id", "'a' || char(10)", "the id is not valid" },
  { "id", "CAST(x'61ff' AS TEXT)", "the id is not valid" },
  { "conversation", "char(7)", "the conversation contains the control character U+0007" },
  { "metadata", "x'ff007600'", "metadata key is not UTF-8" },
};
enum {
  case_count = sizeof row_cases / sizeof *row_cases
};

static void insert_row(struct shop *shop, const char *id, const struct row_case *changed) {
  static const char *const columns[] = { "conversation", "time_ms", "body" }, *const values[] = { "'ana'", "1", "x'00'" };
  char sql[512], names[128] = "", texts[256] = "";
  for (int index = 0; index < 3; index++) {
    if (strcmp(columns[index], changed->column) == 0) continue;
    snprintf(names + strlen(names), sizeof names - strlen(names), ", %s", columns[index]);
    snprintf(texts + strlen(texts), sizeof texts - strlen(texts), ", %s", values[index]);
  }
  if (strcmp(changed->column, "id") == 0) {
    snprintf(sql, sizeof sql, "INSERT INTO msgq_outbox(id%s) VALUES(%s%s)", names, changed->value, texts);
  } else {
    snprintf(sql, sizeof sql, "INSERT INTO msgq_outbox(id, %s%s) VALUES('%s', %s%s)", changed->column, names, id, changed->value, texts);
  }
  shop_run(shop, sql);
}

TEST(T5_rows_that_are_no_messages_are_refused_and_block_none) {
  struct scene scene;
  struct shop shop;
  scene_begin_open(&scene);
  shop_begin(&shop, &scene, loose_schema);
  shop_run(&shop, "INSERT INTO msgq_outbox(id, conversation, time_ms, body) VALUES('before', 'ana', 1, x'00')");
  for (int index = 0; index < case_count; index++) {
    char id[16];
    snprintf(id, sizeof id, "bad%d", index);
    insert_row(&shop, id, &row_cases[index]);
  }
  shop_run(&shop, "INSERT INTO msgq_outbox(id, conversation, time_ms, body) VALUES('behind', 'ana', 1, x'00')");
  CHECK_RESULT(MSGQ_CORRUPT, put_in(shop.database, "new", "ana")); /* an id could be NULL */
  CHECK_NUMBER(2, collect(&scene, &shop));
  UNSENT(&scene, "before behind");
  CHECK_NUMBER(case_count, shop_number(&shop, "SELECT count(*) FROM msgq_outbox WHERE refused <> ''"));
  for (int index = 0; index < case_count; index++) {
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT refused FROM msgq_outbox WHERE number = %d", index + 2);
    CHECK_TEXT(row_cases[index].reason, shop_text(&shop, sql));
  }
  CHECK_NUMBER(0, collect(&scene, &shop)); /* they are not read again */
  end(&scene, &shop);
}

TEST(T5_a_row_that_was_refused_is_moved_when_it_was_repaired) {
  struct scene scene;
  struct shop shop;
  msgq_hand_over *list = NULL;
  begin(&scene, &shop);
  put_one(&shop, "good");
  shop_run(&shop, "UPDATE msgq_outbox SET conversation = char(1)");
  CHECK_NUMBER(0, collect(&scene, &shop));
  CHECK_TEXT("the conversation contains the control character U+0001", shop_text(&shop, "SELECT refused FROM msgq_outbox"));
  /* The queue's list has it, too. */
  char source[64];
  snprintf(source, sizeof source, "%s", shop_text(&shop, "SELECT source FROM msgq_outbox_store"));
  REQUIRE_OK(msgq_handed_over(scene.queue, source, &list));
  REQUIRE(msgq_handed_over_size(list) == 1);
  CHECK_TEXT("good", msgq_handed_over_at(list, 0)->id);
  CHECK_RESULT(MSGQ_INVALID, msgq_handed_over_at(list, 0)->result);
  msgq_handed_over_free(list);
  shop_run(&shop, "UPDATE msgq_outbox SET conversation = 'ana', refused = NULL");
  CHECK_NUMBER(1, collect(&scene, &shop));
  UNSENT(&scene, "good");
  CHECK_NUMBER(0, rows(&shop));
  end(&scene, &shop);
}

static int count_steps(void *count) {
  ++*(int64_t *)count;
  return 0;
}

/* Returns the steps of SQLite of a collection that moves `moved` messages. */
static int64_t steps_of_collect(struct scene *scene, struct shop *shop, size_t moved) {
  int64_t steps = 0;
  sqlite3_progress_handler(shop->database, 1, count_steps, &steps);
  CHECK_NUMBER(moved, collect(scene, shop));
  sqlite3_progress_handler(shop->database, 0, NULL, NULL);
  return steps;
}

TEST(T5_refused_rows_are_not_read_by_each_collection) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  put_one(&shop, "first");
  int64_t few = steps_of_collect(&scene, &shop, 1), none = steps_of_collect(&scene, &shop, 0);
  shop_run(&shop, "WITH n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000)"
                  " INSERT INTO msgq_outbox(id, conversation, time_ms, refused, body) SELECT 'r' || x, 'ana', 1, 'by hand', zeroblob(100) FROM n");
  put_one(&shop, "last");
  CHECK(steps_of_collect(&scene, &shop, 1) < few + 200);
  CHECK(steps_of_collect(&scene, &shop, 0) < none + 200);
  CHECK_NUMBER(2000, rows(&shop));
  end(&scene, &shop);
}

TEST(T5_what_the_queue_refuses_for_good_is_failed_there_and_gone_here) {
  struct scene scene;
  struct shop shop;
  scene_begin(&scene);
  scene.options.limit_body = 4;
  scene_open(&scene);
  shop_begin(&shop, &scene, msgq_outbox_schema());
  put_one(&shop, "long-body");
  put_one(&shop, "good");
  shop_run(&shop, "UPDATE msgq_outbox SET priority = 2000000000 WHERE id = 'good'");
  CHECK_NUMBER(2, collect(&scene, &shop));
  CHECK_NUMBER(0, rows(&shop));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "long-body"));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "good"));
  CHECK_NUMBER(MSGQ_FAILURE_LOCAL, failure_of(&scene, "long-body"));
  end(&scene, &shop);
}

/* It is alone because it needs a gigabyte of memory for a moment. */
TEST_ALONE(T5_a_body_over_every_limit_stays_in_the_outbox_with_the_reason) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  shop_run(&shop, "INSERT INTO msgq_outbox(id, conversation, time_ms, body) VALUES('large', 'ana', 1, zeroblob(300000000))");
  put_one(&shop, "behind");
  CHECK_NUMBER(1, collect(&scene, &shop));
  UNSENT(&scene, "behind");
  CHECK_NUMBER(300000000, shop_number(&shop, "SELECT length(body) FROM msgq_outbox"));
  CHECK_TEXT("the body has 300000000 bytes; the limit is 268435456 bytes", shop_text(&shop, "SELECT refused FROM msgq_outbox"));
  CHECK_NUMBER(0, collect(&scene, &shop));
  end(&scene, &shop);
}
