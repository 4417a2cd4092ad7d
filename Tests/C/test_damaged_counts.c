/* The counts match the messages of the store after any damage of a message and any operation on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "stores.h"
#include "stub.h"

static uint64_t state;

static unsigned any(unsigned below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((state >> 33) % below);
}

static const char *const conversations[] = { "ana", "ben", "cem", "filler" };
enum { conversation_count = 4 };

/* Makes a closed store: unsent and failed messages in "ana", sent ones in "ben", received ones in "cem". `large`: too large to be checked
   completely by msgq_open. */
static void begin(struct scene *scene, bool large) {
  static char body[16384];
  struct stub stub;
  scene_begin_open(scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene->queue, stub_send, &stub, NULL));
  put(scene, "s1", "ben", "sent one");
  put(scene, "s2", "ben", "sent two");
  put(scene, "s3", "ben", "sent three");
  REQUIRE(drain(scene).sent == 3);
  REQUIRE_OK(msgq_mark(scene->queue, "s3", MSGQ_STATUS_DELIVERED));
  put(scene, "f1", "ana", "refused");
  stub.verdict = MSGQ_VERDICT_REJECT;
  REQUIRE(drain(scene).failed == 1);
  put_numbered(scene, 1, 4);
  for (unsigned number = 1; number <= 2; number++) {
    msgq_draft received = MSGQ_DRAFT_INIT;
    received.id = number == 1 ? "h1" : "h2";
    received.conversation = "cem";
    received.body = "hello";
    received.body_size = 5;
    REQUIRE_OK(msgq_record(scene->queue, &received, "Cem", NULL));
  }
  for (unsigned number = 0; large && number < 140; number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = "filler";
    draft.body = body;
    draft.body_size = sizeof body;
    REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
  }
  scene_close(scene);
}

/* Damages a row, either with its index entries or without them, as a wrong write of a page would. */
static void damage(const char *path, const char *update, bool is_only_the_row) {
  char sql[1024];
  snprintf(sql, sizeof sql,
           "PRAGMA writable_schema = 1; CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message';"
           "DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message'; PRAGMA writable_schema = RESET; %s;"
           "PRAGMA writable_schema = 1; INSERT INTO sqlite_schema SELECT * FROM kept; PRAGMA writable_schema = RESET",
           update);
  sql_run(path, is_only_the_row ? sql : update);
}

static void random_damage(char *sql, size_t size, const char *id) {
  static const char *const changes[] = {
    "status = 0", "status = 2", "status = 3", "status = 4", "status = 5", "status = 6", "status = 7", "status = 99", "status = 1",
    "conversation = 'ben'", "conversation = 'nobody'", "conversation = 'ana'", "sender = 'X'", "sender = NULL", "sender = ''",
    "body_size = 3", "body_size = -5", "body_size = 9223372036854775807", "body_size = 0", "body = x'00'", "body = NULL",
    "metadata = '{'", "attempts = 7", "attempts = -1", "flags = 15", "created_at = 5", "edited_at = -1", "due_at = 99999999999999",
    "sent_at = 7", "state_hash = 1", "content_hash = 1", "named = 0", "expires_at = 5", "retries_used = 3", "indexed = 0",
    "priority = 1", "replace_key = 'k'", "delivered_at = 3",
  };
  snprintf(sql, size, "UPDATE message SET %s WHERE id = '%s'", changes[any(sizeof changes / sizeof changes[0])], id);
}

/* Returns how many messages retention may delete. Unread messages are kept. */
static uint64_t prunable(struct scene *scene) {
  msgq_counts counts = counts_of(scene, NULL);
  return counts.sent + counts.delivered + counts.read + counts.received - counts.unread;
}

enum operation { op_delete, op_clear, op_clear_all, op_mark, op_edit, op_drain, op_prune, op_count };
static const char *const operation_names[] = { "delete", "clear", "clear all", "mark", "edit", "drain", "prune" };

/* Performs the operation. Returns whether it found the message for certain. */
static bool perform(struct scene *scene, enum operation operation, const char *id) {
  struct stub stub;
  msgq_drain_options soon = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  soon.timeout_ms = 2000;
  switch (operation) {
    case op_delete: return msgq_delete(scene->queue, id) == MSGQ_OK; /* a damaged id is not found */
    case op_clear: CHECK_RESULT(MSGQ_OK, msgq_clear(scene->queue, "ana")); break;
    case op_clear_all: CHECK_RESULT(MSGQ_OK, msgq_clear(scene->queue, NULL)); break;
    case op_mark: (void)msgq_mark(scene->queue, id, MSGQ_STATUS_READ); break;
    case op_edit: (void)msgq_edit(scene->queue, id, "changed", 7); break;
    case op_prune: AWAIT(prunable(scene) <= 1); break;
    case op_drain:
      stub_begin(&stub, MSGQ_VERDICT_SENT);
      CHECK_RESULT(MSGQ_OK, msgq_set_transport(scene->queue, stub_send, &stub, NULL));
      CHECK_RESULT(MSGQ_OK, msgq_drain(scene->queue, &soon, &report));
      CHECK_RESULT(MSGQ_OK, msgq_set_transport(scene->queue, NULL, NULL, NULL));
      break;
    default: break;
  }
  return false;
}

struct all_counts {
  msgq_counts of[conversation_count + 1];
};

static struct all_counts counts_of_all(struct scene *scene) {
  struct all_counts all;
  all.of[conversation_count] = counts_of(scene, NULL);
  for (size_t index = 0; index < conversation_count; index++) all.of[index] = counts_of(scene, conversations[index]);
  return all;
}

static bool is_equal(const msgq_counts *left, const msgq_counts *right) {
  return left->queued == right->queued && left->sent == right->sent && left->delivered == right->delivered && left->read == right->read &&
         left->failed == right->failed && left->received == right->received && left->unread == right->unread &&
         left->unsent_bytes == right->unsent_bytes;
}

static bool are_equal(const struct all_counts *before, const struct all_counts *after) {
  bool equal = true;
  for (size_t index = 0; index <= conversation_count; index++) equal = equal && is_equal(&before->of[index], &after->of[index]);
  return equal;
}

static void check_equal(const struct all_counts *before, const struct all_counts *after) {
  for (size_t index = 0; index <= conversation_count; index++) {
    const msgq_counts *left = &before->of[index], *right = &after->of[index];
    if (CHECK(is_equal(left, right))) continue;
    for (int turn = 0; turn < 2; turn++, left = right) {
      fprintf(stderr, "  %s %s: queued %llu sent %llu delivered %llu read %llu failed %llu received %llu unread %llu bytes %llu\n",
              index < conversation_count ? conversations[index] : "all", turn == 0 ? "open" : "after a crash",
              (unsigned long long)left->queued, (unsigned long long)left->sent, (unsigned long long)left->delivered,
              (unsigned long long)left->read, (unsigned long long)left->failed, (unsigned long long)left->received,
              (unsigned long long)left->unread, (unsigned long long)left->unsent_bytes);
    }
  }
}

/* Returns the counts that the store would have after a crash at this moment. */
static struct all_counts counts_after_a_crash(const struct scene *scene) {
  struct scene copy;
  scene_begin(&copy);
  copy.options.keep_sent_ms = -1; /* so that damaged times do not matter */
  copy.options.keep_sent = scene->options.keep_sent;
  file_copy_to(scene->path, copy.path);
  if (file_exists(log_of(scene))) file_copy_to(log_of(scene), log_of(&copy));
  if (file_exists(tail_of(scene))) file_copy_to(tail_of(scene), tail_of(&copy));
  scene_open(&copy);
  struct all_counts all = counts_of_all(&copy);
  scene_close(&copy);
  scene_end(&copy);
  return all;
}

/* Checks that the stored counts match the rows. */
static void check_rows(const char *path) {
  CHECK_NUMBER(0, sql_number(path,
                             "SELECT count(*) FROM (SELECT name, queued, failed, sent, delivered, \"read\", received, unread FROM conversation "
                             "WHERE queued + failed + sent + delivered + \"read\" + received != 0 EXCEPT "
                             "SELECT conversation, sum(status = 0), sum(status = 5), sum(status = 2), sum(status = 3), sum(status = 4), "
                             "sum(status IN (6, 7)), sum(status = 6) FROM message GROUP BY conversation)"));
  CHECK_NUMBER(0, sql_number(path, "SELECT sum(queued) + sum(failed) != (SELECT count(*) FROM message WHERE status IN (0, 5)) FROM conversation"));
}

static void run_case(const struct scene *whole, bool large, unsigned number) {
  static const char *const ids[] = { "m1", "m2", "m4", "f1", "s1", "s3", "h1", "h2" };
  struct scene scene;
  char sql[256];
  unsigned failures = check_failures();
  state = number * 7919u + 17;
  for (int turn = 0; turn < 8; turn++) (void)any(2);
  const char *id = ids[any(8)];
  enum operation operation = (enum operation)any(op_count);
  bool is_only_the_row = any(2) == 0;
  random_damage(sql, sizeof sql, id);
  scene_begin(&scene);
  file_copy_to(whole->path, scene.path);
  damage(scene.path, sql, is_only_the_row);
  scene.options.keep_sent_ms = -1;
  if (operation == op_prune) scene.options.keep_sent = 1;
  scene_open(&scene);
  bool is_deleted = perform(&scene, operation, id);
  struct all_counts open, after;
  /* The indexes are checked in the background after the open, here and in the copy; until then the counts may differ. */
  int64_t end = steady_ms() + 2000;
  do {
    open = counts_of_all(&scene);
    after = counts_after_a_crash(&scene);
  } while (!are_equal(&open, &after) && steady_ms() < end);
  check_equal(&open, &after);
  for (size_t index = 0; index <= conversation_count; index++) {
    CHECK(open.of[index].queued < 1000 && open.of[index].failed < 1000 && open.of[index].sent < 1000 && open.of[index].received < 1000);
  }
  scene_close(&scene);
  /* In a large store a damaged message keeps its old count until it is deleted or the store is cleared. */
  if (!large || is_deleted || operation == op_clear_all) check_rows(scene.path);
  if (!large || is_deleted) {
    scene_open(&scene);
    after = counts_of_all(&scene);
    check_equal(&open, &after);
  }
  scene_end(&scene);
  if (check_failures() > failures) {
    fprintf(stderr, "  case %u: %s after %s%s\n", number, operation_names[operation], sql, is_only_the_row ? ", without the indexes" : "");
  }
}

static void run_cases(bool large, unsigned first) {
  struct scene whole;
  begin(&whole, large);
  const unsigned last = first + (unsigned)check_times(150, 6) - 1;
  for (unsigned number = first; number <= last; number++) run_case(&whole, large, number);
  scene_end(&whole);
}

TEST_LONG(D10_counts_match_the_rows_after_any_operation_on_a_damaged_message) { run_cases(false, 1); }
TEST_LONG(D10_counts_match_after_any_operation_on_a_damaged_message_of_a_large_store) { run_cases(true, 1001); }

TEST_LONG(D11_damaged_messages_are_not_counted_after_clear) {
  static const char *const changes[] = {
    "sender = 'X'", "body_size = 3", "body_size = -7", "conversation = 'ben'", "conversation = 'nobody'", "status = 5", "body = x'00'",
  };
  struct scene whole;
  begin(&whole, false);
  for (size_t index = 0; index < sizeof changes / sizeof changes[0]; index++) {
    for (int is_only_the_row = 0; is_only_the_row < 2; is_only_the_row++) {
      struct scene scene;
      char sql[128];
      unsigned failures = check_failures();
      scene_begin(&scene);
      file_copy_to(whole.path, scene.path);
      snprintf(sql, sizeof sql, "UPDATE message SET %s WHERE id = 'm2'", changes[index]);
      damage(scene.path, sql, is_only_the_row);
      scene_open(&scene);
      CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
      struct all_counts all = counts_of_all(&scene);
      for (size_t place = 0; place <= conversation_count; place++) {
        CHECK(all.of[place].queued == 0 && all.of[place].failed == 0 && all.of[place].unsent_bytes == 0);
      }
      CHECK(all.of[conversation_count].sent == 2 && all.of[conversation_count].received == 2 && all.of[conversation_count].unread == 2);
      scene_close(&scene);
      check_rows(scene.path);
      if (check_failures() > failures) fprintf(stderr, "  after %s\n", sql);
      scene_end(&scene);
    }
  }
  scene_end(&whole);
}

TEST(D10_a_damaged_message_that_is_pruned_is_reported) {
  struct scene scene;
  begin(&scene, false);
  damage(scene.path, "UPDATE message SET attempts = 7 WHERE id = 's1'", true);
  scene.options.keep_sent_ms = -1;
  scene.options.keep_sent = 1;
  scene_open(&scene);
  AWAIT(prunable(&scene) <= 1);
  await_storage_event(&scene, "removed from the history");
  CHECK_NUMBER(-1, status_of(&scene, "s1"));
  scene_close(&scene);
  check_rows(scene.path);
  scene_end(&scene);
}

/* Removes m2 from the index `index`, and only from it. */
static void remove_from_index(const char *path, const char *index) {
  char sql[1400];
  snprintf(sql, sizeof sql,
           "PRAGMA writable_schema = 1; CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message';"
           "DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message' AND name <> '%s'; PRAGMA writable_schema = RESET;"
           "UPDATE message SET status = 2 WHERE id = 'm2';"
           "PRAGMA writable_schema = 1; DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message'; PRAGMA writable_schema = RESET;"
           "UPDATE message SET status = 0 WHERE id = 'm2';"
           "PRAGMA writable_schema = 1; INSERT INTO sqlite_schema SELECT * FROM kept; PRAGMA writable_schema = RESET",
           index);
  sql_run(path, sql);
}

/* The store is too large to be checked completely by msgq_open. A scheduled message keeps the queue from becoming empty. */
static void send_hidden(const char *index) {
  struct scene scene;
  struct stub stub;
  begin(&scene, true);
  scene_open(&scene);
  put_timed(&scene, "later", "dan", wall_ms() + 86400000, 0);
  scene_close(&scene);
  remove_from_index(scene.path, index);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene_open(&scene);
  set_online(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  AWAIT(status_of(&scene, "m2") == MSGQ_STATUS_SENT);
  await_storage_event(&scene, "index");
  scene_end(&scene);
}

TEST_LONG(D10_a_message_missing_in_the_index_of_queued_messages_is_sent_and_reported) { send_hidden("message_ordered"); }
TEST_LONG(D10_a_message_missing_in_the_index_of_a_conversation_is_sent_and_reported) { send_hidden("message_waiting"); }

/* The indexes of many queued messages are compared in short steps, with enqueues between the steps. */
TEST_ALONE(D10_enqueues_are_not_delayed_while_the_indexes_are_compared) {
  const size_t count = 100000;
  struct scene scene;
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  REQUIRE(drafts != NULL);
  for (size_t index = 0; index < count; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].conversation = conversations[index % conversation_count];
  }
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, count, NULL));
  free(drafts);
  scene_close(&scene);
  int64_t began = steady_ms();
  scene_open(&scene);
  CHECK(steady_ms() - began < check_timeout_ms() / 10);
  /* 200,000 entries in steps of 2,000, one every 5 ms at most. */
  int64_t end = steady_ms() + 1000, longest = 0;
  unsigned number = 0;
  while (steady_ms() < end) {
    char id[16];
    snprintf(id, sizeof id, "n%u", ++number);
    int64_t start = steady_ms();
    put(&scene, id, number % 2 == 0 ? "ana" : "new", "meanwhile");
    if (number % 3 == 0) CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, id));
    int64_t took = steady_ms() - start;
    if (took > longest) longest = took;
  }
  if (!CHECK(longest < check_timeout_ms() / 20)) fprintf(stderr, "  %lld ms\n", (long long)longest);
  CHECK_NUMBER((int64_t)count + number - number / 3, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  scene_end(&scene);
}
