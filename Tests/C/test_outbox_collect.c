/* From the host's database to the queue: msgq_outbox_collect. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "faults.h"
#include "outbox_calls.h"
#include "stub.h"

TEST_LONG(T1_collect_moves_at_most_the_limit) {
  struct scene scene;
  struct shop shop;
  size_t moved = 99;
  begin(&scene, &shop);
  put_many(&shop, 2300, "ana");
  REQUIRE_OK(msgq_outbox_collect(shop.database, scene.queue, 1, &moved));
  CHECK_NUMBER(1, moved);
  CHECK_NUMBER(2299, rows(&shop));
  REQUIRE_OK(msgq_outbox_collect(shop.database, scene.queue, 1500, &moved)); /* in two rounds */
  CHECK_NUMBER(1500, moved);
  CHECK_NUMBER(799, rows(&shop));
  CHECK_NUMBER(799, collect(&scene, &shop));
  CHECK_NUMBER(2300, counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_collect(shop.database, scene.queue, 0, &moved));
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_collect(shop.database, scene.queue, 1000001, &moved));
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_collect(NULL, scene.queue, 1, &moved));
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_collect(shop.database, NULL, 1, NULL));
  end(&scene, &shop);
}

TEST(T1_an_outbox_without_rows_costs_no_write) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  put_one(&shop, "a");
  CHECK_NUMBER(1, collect(&scene, &shop));
  int syncs = fault_syncs;
  int changes = sqlite3_total_changes(shop.database);
  for (int time = 0; time < 3; time++) CHECK_NUMBER(0, collect(&scene, &shop));
  CHECK_NUMBER(syncs, fault_syncs);
  CHECK_NUMBER(changes, sqlite3_total_changes(shop.database));
  end(&scene, &shop);
}

TEST(T4_messages_are_taken_over_in_the_order_of_their_commits) {
  struct scene scene;
  struct shop shop;
  sqlite3 *connections[4];
  begin(&scene, &shop);
  for (int index = 0; index < 4; index++) connections[index] = shop_connect(&shop);
  char expected[2][512] = { "", "" };
  for (int number = 0; number < 40; number++) {
    sqlite3 *connection = connections[number * 7 % 4];
    char id[16];
    bool is_second = number % 3 == 0, is_undone = number % 5 == 4;
    snprintf(id, sizeof id, "%s%d", is_second ? "b" : "a", number);
    REQUIRE(shop_try(connection, "BEGIN IMMEDIATE") == SQLITE_OK);
    REQUIRE_OK(put_in(connection, id, is_second ? "ben" : "ana"));
    REQUIRE(shop_try(connection, is_undone ? "ROLLBACK" : "COMMIT") == SQLITE_OK);
    char *text = expected[is_second];
    if (!is_undone) snprintf(text + strlen(text), sizeof *expected - strlen(text), "%s%s", text[0] ? " " : "", id);
    if (number % 11 == 10) {
      size_t moved = 0;
      REQUIRE_OK(msgq_outbox_collect(connection, scene.queue, 3, &moved));
      CHECK(moved > 0);
    }
  }
  collect(&scene, &shop);
  for (int index = 0; index < 2; index++) {
    char ids[512];
    msgq_filter filter = MSGQ_FILTER_INIT;
    filter.conversation = index == 1 ? "ben" : "ana";
    filter.limit = 100;
    ids_of(&scene, &filter, ids, sizeof ids);
    CHECK_TEXT(expected[index], ids);
  }
  for (int index = 0; index < 4; index++) REQUIRE(sqlite3_close(connections[index]) == SQLITE_OK);
  end(&scene, &shop);
}

/* A queue that sends, and keeps nothing of what was sent. */
static void begin_forgetful(struct scene *scene, struct stub *stub, struct shop *shop) {
  scene_begin(scene);
  scene->options.keep_sent = 0;
  scene->options.remember_ids_ms = 0;
  stub_begin(stub, MSGQ_VERDICT_SENT);
  stub_open(stub, scene);
  shop_begin(shop, scene, msgq_outbox_schema());
}

/* The row would be collected again and again, and its message sent as often. */
TEST(T3_a_trigger_that_keeps_rows_makes_no_message_be_sent_twice) {
  struct scene scene;
  struct stub stub;
  struct shop shop;
  begin_forgetful(&scene, &stub, &shop);
  put_one(&shop, "a");
  shop_run(&shop, "CREATE TRIGGER keep BEFORE DELETE ON msgq_outbox BEGIN SELECT RAISE(IGNORE); END");
  size_t moved = 0;
  for (int round = 0; round < 3; round++) {
    /* With a limit of 1 nothing is read after the deletion. */
    CHECK_RESULT(MSGQ_CONFLICT, msgq_outbox_collect(shop.database, scene.queue, round == 0 ? 1 : 100, &moved));
    CHECK_NUMBER(round == 0 ? 1 : 0, moved);
    CHECK_TEXT("the outbox: a trigger keeps a row that was collected as it is", msgq_outbox_error_detail());
    CHECK_NUMBER(1, rows(&shop));
    CHECK_NUMBER(1, sqlite3_get_autocommit(shop.database));
    drain(&scene);
  }
  shop_run(&shop, "DROP TRIGGER keep");
  CHECK_NUMBER(0, collect(&scene, &shop));
  CHECK_NUMBER(0, rows(&shop));
  drain(&scene);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  end(&scene, &shop);
}

TEST(T5_a_trigger_that_keeps_a_refused_row_makes_no_collection_endless) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  put_one(&shop, "a");
  shop_run(&shop, "UPDATE msgq_outbox SET unmetered_only = 2; CREATE TRIGGER keep BEFORE UPDATE ON msgq_outbox BEGIN SELECT RAISE(IGNORE); END");
  size_t moved = 0;
  CHECK_RESULT(MSGQ_CONFLICT, msgq_outbox_collect(shop.database, scene.queue, 10, &moved));
  CHECK_NUMBER(0, moved);
  CHECK_NUMBER(1, rows(&shop));
  shop_run(&shop, "DROP TRIGGER keep");
  CHECK_NUMBER(0, collect(&scene, &shop));
  CHECK_NUMBER(1, rows(&shop));
  end(&scene, &shop);
}

TEST(T3_what_became_of_a_message_matters_to_no_collection) {
  struct scene scene;
  struct stub stub;
  struct shop shop;
  begin_forgetful(&scene, &stub, &shop);
  put_one(&shop, "a");
  put_one(&shop, "b");
  put_one(&shop, "c");
  /* The transaction that would delete the rows fails, as after a crash. */
  shop_run(&shop, "CREATE TRIGGER keep BEFORE DELETE ON msgq_outbox BEGIN SELECT RAISE(ABORT, 'kept'); END");
  size_t moved = 0;
  CHECK_RESULT(MSGQ_CONFLICT, msgq_outbox_collect(shop.database, scene.queue, 2, &moved));
  CHECK_NUMBER(2, moved);
  CHECK_TEXT("the outbox: kept", msgq_outbox_error_detail());
  CHECK_NUMBER(SQLITE_CONSTRAINT_TRIGGER, msgq_outbox_sqlite_code());
  CHECK_NUMBER(3, rows(&shop));
  CHECK_NUMBER(1, sqlite3_get_autocommit(shop.database));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "a"));
  CHECK_NUMBER(1, drain(&scene).sent);
  shop_run(&shop, "DROP TRIGGER keep");
  CHECK_NUMBER(1, collect(&scene, &shop));
  UNSENT(&scene, "c");
  CHECK_NUMBER(0, rows(&shop));
  end(&scene, &shop);
}

TEST(T3_a_full_queue_takes_what_it_has_room_for) {
  struct scene scene;
  struct shop shop;
  size_t moved = 0;
  scene_begin(&scene);
  scene.options.limit_messages = 7;
  scene_open(&scene);
  shop_begin(&shop, &scene, msgq_outbox_schema());
  put_many(&shop, 20, "ana");
  CHECK_RESULT(MSGQ_FULL, msgq_outbox_collect(shop.database, scene.queue, 100, &moved));
  CHECK_NUMBER(7, moved);
  CHECK_NUMBER(13, rows(&shop));
  CHECK_RESULT(MSGQ_FULL, msgq_outbox_collect(shop.database, scene.queue, 100, &moved));
  CHECK_NUMBER(0, moved);
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  CHECK_RESULT(MSGQ_FULL, msgq_outbox_collect(shop.database, scene.queue, 100, &moved));
  CHECK_NUMBER(7, moved);
  CHECK_NUMBER(6, rows(&shop));
  end(&scene, &shop);
}

TEST(T3_a_row_that_is_larger_than_the_queue_blocks_no_other) {
  struct scene scene;
  struct shop shop;
  size_t moved = 0;
  static char body[2000];
  scene_begin(&scene);
  scene.options.limit_bytes = sizeof body - 1;
  scene_open(&scene);
  shop_begin(&shop, &scene, msgq_outbox_schema());
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana", draft.body = body, draft.body_size = sizeof body;
  REQUIRE_OK(msgq_outbox_put(shop.database, &draft, NULL));
  put_many(&shop, 3, "ana");
  CHECK_RESULT(MSGQ_OK, msgq_outbox_collect(shop.database, scene.queue, 100, &moved));
  CHECK_NUMBER(3, counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_OK, msgq_outbox_collect(shop.database, scene.queue, 100, &moved));
  CHECK_NUMBER(0, moved);
  end(&scene, &shop);
}

TEST(T3_a_closed_queue_leaves_the_rows) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  put_one(&shop, "a");
  msgq_queue *queue = scene.queue;
  scene_close(&scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_outbox_collect(shop.database, queue, 100, NULL));
  CHECK_NUMBER(1, rows(&shop));
  scene.options.read_only = true;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_PERMISSION, msgq_outbox_collect(shop.database, scene.queue, 100, NULL));
  CHECK_NUMBER(1, rows(&shop));
  end(&scene, &shop);
}

struct collecting {
  struct scene *scene;
  struct shop *shop;
  atomic_bool is_ending;
  atomic_int moved, refused;
};

static void *collect_at_once(void *context) {
  struct collecting *collecting = context;
  sqlite3 *database = shop_connect(collecting->shop);
  sqlite3_busy_timeout(database, 20000);
  while (!collecting->is_ending) {
    size_t moved = 0;
    msgq_result result = msgq_outbox_collect(database, collecting->scene->queue, 7, &moved);
    if (result != MSGQ_OK && result != MSGQ_CONFLICT && result != MSGQ_BUSY) {
      fprintf(stderr, "  %s\n", msgq_outbox_error_detail());
      CHECK_RESULT(MSGQ_OK, result);
    }
    collecting->refused += result != MSGQ_OK;
    collecting->moved += (int)moved;
  }
  CHECK(sqlite3_close(database) == SQLITE_OK);
  return NULL;
}

TEST_LONG(T3_T4_two_collectors_at_once_move_each_message_once_and_in_order) {
  struct scene scene;
  struct shop shop;
  pthread_t threads[2];
  int count = check_times(400, 60);
  scene_begin(&scene);
  scene.options.remember_ids_ms = 0;
  scene_open(&scene);
  shop_begin(&shop, &scene, msgq_outbox_schema());
  sqlite3_busy_timeout(shop.database, 20000);
  struct collecting collecting = { &scene, &shop, false, 0, 0 };
  for (int index = 0; index < 2; index++) REQUIRE(pthread_create(&threads[index], NULL, collect_at_once, &collecting) == 0);
  for (int number = 0; number < count; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%06d", number);
    CHECK_RESULT(MSGQ_OK, put_in(shop.database, id, number % 2 == 0 ? "ana" : "ben"));
  }
  AWAIT(rows(&shop) == 0);
  collecting.is_ending = true;
  for (int index = 0; index < 2; index++) pthread_join(threads[index], NULL);
  CHECK_NUMBER(0, collect(&scene, &shop));
  CHECK_NUMBER(count, counts_of(&scene, NULL).queued);
  for (int index = 0; index < 2; index++) {
    msgq_filter filter = MSGQ_FILTER_INIT;
    msgq_page *list = NULL;
    filter.conversation = index == 0 ? "ana" : "ben";
    filter.limit = 1000;
    REQUIRE_OK(msgq_list(scene.queue, &filter, &list));
    CHECK_NUMBER(count / 2, msgq_list_size(list));
    for (size_t place = 1; place < msgq_list_size(list); place++) {
      CHECK(strcmp(msgq_list_at(list, place - 1)->id, msgq_list_at(list, place)->id) < 0);
    }
    msgq_list_free(list);
  }
  end(&scene, &shop);
}
