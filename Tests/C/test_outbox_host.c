/* The library and the host's database: it never opens, closes or hooks it, and says what is wrong with it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
#include "outbox_calls.h"

/* The number of descriptors of this process that are open on a file whose name contains `name`. */
static int descriptors(const char *name) {
  int count = 0;
  DIR *directory = opendir("/proc/self/fd");
  REQUIRE(directory != NULL);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[300], target[300] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
    if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, name) != NULL) count++;
  }
  closedir(directory);
  return count;
}

/* What another process gets when it begins to write. POSIX locks do not count within one process. */
static int other_process(const char *path) {
  int status = 0;
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    /* The lock is asked for without SQLite, which does not permit a connection of the parent: byte 120 of the file of shared memory is
       the lock to write. */
    char shared[160];
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 120, .l_len = 1 };
    snprintf(shared, sizeof shared, "%s-shm", path);
    int file = open(shared, O_RDWR);
    _exit(file < 0 ? 9 : fcntl(file, F_GETLK, &lock) != 0 ? 8 : lock.l_type == F_UNLCK ? 0 : 1);
  }
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_ALONE(T6_the_locks_of_the_host_are_kept_whatever_the_queue_opens_and_closes) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  put_one(&shop, "a");
  CHECK_NUMBER(0, other_process(shop.path));
  sqlite3 *other = shop_connect(&shop);
  int before = descriptors("shop.db");
  CHECK(before > 0);
  CHECK_NUMBER(1, collect(&scene, &shop));
  put_one(&shop, "c");
  shop_run(&shop, "BEGIN IMMEDIATE");
  CHECK_NUMBER(1, other_process(shop.path));
  put_one(&shop, "b");
  size_t moved = 0;
  CHECK_RESULT(MSGQ_BUSY, msgq_outbox_collect(other, scene.queue, 10, &moved));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_outbox_collect(shop.database, scene.queue, 10, &moved));
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(1, other_process(shop.path));
  shop_run(&shop, "COMMIT");
  CHECK_NUMBER(0, other_process(shop.path));
  CHECK_NUMBER(2, collect(&scene, &shop));
  CHECK_NUMBER(before, descriptors("shop.db"));
  REQUIRE(sqlite3_close(other) == SQLITE_OK);
  end(&scene, &shop);
}

static int commits, rollbacks, updates;
static int on_commit(void *context) { return (void)context, commits++, 0; }
static void on_rollback(void *context) { (void)context, rollbacks++; }
static void on_update(void *context, int kind, const char *database, const char *table, sqlite3_int64 row) {
  (void)context, (void)kind, (void)database, (void)row;
  if (strcmp(table, "msgq_outbox") == 0) updates++;
}

TEST(T6_the_hooks_of_the_host_stay_its_own) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  commits = rollbacks = updates = 0;
  sqlite3_commit_hook(shop.database, on_commit, &commits);
  sqlite3_rollback_hook(shop.database, on_rollback, &rollbacks);
  sqlite3_update_hook(shop.database, on_update, &updates);
  put_one(&shop, "a");
  CHECK_NUMBER(1, commits);
  CHECK_NUMBER(1, updates);
  CHECK_NUMBER(1, collect(&scene, &shop));
  CHECK_NUMBER(3, commits);
  CHECK_NUMBER(2, updates);
  CHECK_NUMBER(0, rollbacks);
  CHECK(sqlite3_commit_hook(shop.database, NULL, NULL) == &commits);
  CHECK(sqlite3_rollback_hook(shop.database, NULL, NULL) == &rollbacks);
  CHECK(sqlite3_update_hook(shop.database, NULL, NULL) == &updates);
  CHECK(sqlite3_next_stmt(shop.database, NULL) == NULL); /* no statement is left */
  end(&scene, &shop);
}

TEST(T6_synchronous_is_put_back) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  for (int level = 0; level <= 3; level++) {
    char sql[64], id[16];
    snprintf(sql, sizeof sql, "PRAGMA synchronous = %d", level);
    shop_run(&shop, sql);
    snprintf(id, sizeof id, "m%d", level);
    put_one(&shop, id);
    int syncs = fault_syncs;
    CHECK_NUMBER(1, collect(&scene, &shop));
    CHECK(fault_syncs >= syncs + 3); /* two transactions of the host, one of the queue */
    CHECK_NUMBER(level, shop_number(&shop, "PRAGMA synchronous"));
  }
  /* Also when it fails. */
  shop_run(&shop, "PRAGMA synchronous = 1; CREATE TRIGGER t BEFORE UPDATE ON msgq_outbox_store BEGIN SELECT RAISE(ROLLBACK, 'no'); END");
  put_one(&shop, "last");
  CHECK_RESULT(MSGQ_CONFLICT, msgq_outbox_collect(shop.database, scene.queue, 10, NULL));
  CHECK_NUMBER(1, shop_number(&shop, "PRAGMA synchronous"));
  CHECK_NUMBER(1, sqlite3_get_autocommit(shop.database));
  CHECK_NUMBER(1, rows(&shop));
  end(&scene, &shop);
}

/* Checks what put and collect answer, and that they change nothing. */
static void check_refused(struct scene *scene, struct shop *shop, msgq_result expected, const char *text) {
  size_t moved = 99;
  int changes = sqlite3_total_changes(shop->database);
  msgq_result put_result = put_in(shop->database, "new", "ana");
  if (!CHECK_RESULT(expected, put_result)) fprintf(stderr, "  put: %s: %s\n", text, msgq_outbox_error_detail());
  msgq_result result = msgq_outbox_collect(shop->database, scene->queue, 10, &moved);
  bool is_right = CHECK_RESULT(expected, result) & CHECK(strstr(msgq_outbox_error_detail(), text) != NULL);
  if (!is_right) fprintf(stderr, "  collect: %s: %s\n", text, msgq_outbox_error_detail());
  CHECK_NUMBER(0, moved);
  CHECK_NUMBER(changes, sqlite3_total_changes(shop->database));
  CHECK_NUMBER(1, sqlite3_get_autocommit(shop->database));
}

TEST_LONG(T6_a_database_that_has_no_outbox_of_this_version_is_left_as_it_is) {
  static const struct {
    const char *sql;
    msgq_result expected;
    const char *text;
  } cases[] = {
    { "DROP TABLE msgq_outbox", MSGQ_NOT_FOUND, "no outbox" },
    { "DROP TABLE msgq_outbox_store", MSGQ_NOT_FOUND, "no outbox" },
    { "DROP TABLE msgq_outbox; DROP TABLE msgq_outbox_store", MSGQ_NOT_FOUND, "no outbox" },
    { "UPDATE msgq_outbox_store SET version = 2", MSGQ_TOO_NEW, "version 2" },
    { "UPDATE msgq_outbox_store SET version = 9223372036854775807", MSGQ_TOO_NEW, "version 9223372036854775807" },
    { "UPDATE msgq_outbox_store SET version = 0", MSGQ_CORRUPT, "no version" },
    { "UPDATE msgq_outbox_store SET version = 'x'", MSGQ_CORRUPT, "no version" },
    { "DELETE FROM msgq_outbox_store", MSGQ_CORRUPT, "no row" },
    { "ALTER TABLE msgq_outbox RENAME COLUMN body TO content", MSGQ_CORRUPT, "not those of an outbox" },
    { "DROP TABLE msgq_outbox; CREATE TABLE msgq_outbox(number, text)", MSGQ_CORRUPT, "not those of an outbox" },
    { "DROP TABLE msgq_outbox; CREATE VIEW msgq_outbox AS SELECT * FROM orders", MSGQ_NOT_FOUND, "no outbox" },
    { "DROP TABLE msgq_outbox; CREATE TABLE msgq_outbox(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, conversation, refused, "
      "not_before_ms, expires_at_ms, time_ms, priority, replace_key, unmetered_only, metadata, body)",
      MSGQ_CORRUPT, "ON CONFLICT" },
  };
  for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
    struct scene scene;
    struct shop shop;
    begin(&scene, &shop);
    shop_run(&shop, cases[index].sql);
    check_refused(&scene, &shop, cases[index].expected, cases[index].text);
    end(&scene, &shop);
  }
}

/* Rows are deleted by number, so a table where it is no key is not touched. */
TEST(T6_rows_are_only_deleted_where_a_number_names_one) {
  static const char *const columns[] = { "number INTEGER", "number INTEGER PRIMARY KEY" };
  for (int index = 0; index < 2; index++) {
    struct scene scene;
    struct shop shop;
    char sql[512];
    begin(&scene, &shop);
    snprintf(sql, sizeof sql,
             "DROP TABLE msgq_outbox; CREATE TABLE msgq_outbox(%s, id TEXT NOT NULL UNIQUE, conversation TEXT, refused TEXT, not_before_ms, "
             "expires_at_ms, time_ms, priority, replace_key, unmetered_only, metadata, body)",
             columns[index]);
    shop_run(&shop, sql);
    put_one(&shop, "a");
    CHECK_RESULT(MSGQ_CORRUPT, msgq_outbox_collect(shop.database, scene.queue, 10, NULL));
    CHECK(strstr(msgq_outbox_error_detail(), "AUTOINCREMENT") != NULL);
    CHECK_NUMBER(1, rows(&shop));
    end(&scene, &shop);
  }
}

TEST(T6_tables_of_other_schemas_do_not_take_the_place_of_the_outbox) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  shop_run(&shop, "CREATE TEMP TABLE msgq_outbox(x); CREATE TEMP TABLE msgq_outbox_store(x)");
  put_one(&shop, "a");
  CHECK_NUMBER(1, shop_number(&shop, "SELECT count(*) FROM main.msgq_outbox"));
  CHECK_NUMBER(1, collect(&scene, &shop));
  CHECK_NUMBER(0, shop_number(&shop, "SELECT count(*) FROM main.msgq_outbox"));
  end(&scene, &shop);
}

TEST(T6_a_database_in_utf_16_is_read) {
  struct scene scene;
  struct shop shop;
  scene_begin_open(&scene);
  snprintf(shop.path, sizeof shop.path, "%s", scene_file(&scene, "wide.db"));
  REQUIRE(sqlite3_open(shop.path, &shop.database) == SQLITE_OK);
  shop_run(&shop, "PRAGMA encoding = 'UTF-16'");
  shop_run(&shop, msgq_outbox_schema());
  const msgq_pair pair = { "k\xc3\xa9y", "\xf0\x9f\x98\x80" };
  msgq_draft draft = draft_of("m\xc3\xa9", "\xe6\x97\xa5");
  draft.metadata = &pair;
  draft.metadata_count = 1;
  REQUIRE_OK(msgq_outbox_put(shop.database, &draft, NULL));
  CHECK_NUMBER(1, collect(&scene, &shop));
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "m\xc3\xa9", &message));
  CHECK_TEXT("\xe6\x97\xa5", message->conversation);
  CHECK(message->body_size == 3 && memcmp(message->body, "m\xc3\xa9", 3) == 0);
  REQUIRE(message->metadata_count == 1);
  CHECK_TEXT("\xf0\x9f\x98\x80", message->metadata[0].value);
  msgq_message_free(message);
  CHECK_NUMBER(0, rows(&shop));
  end(&scene, &shop);
}

TEST(T6_a_database_that_can_only_be_read_is_left_as_it_is) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  put_one(&shop, "a");
  shop_run(&shop, "PRAGMA query_only = 1");
  check_refused(&scene, &shop, MSGQ_PERMISSION, "readonly");
  CHECK_NUMBER(SQLITE_READONLY, msgq_outbox_sqlite_code());
  shop_run(&shop, "PRAGMA query_only = 0");
  sqlite3 *connection = shop.database;
  REQUIRE(sqlite3_open_v2(shop.path, &shop.database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
  check_refused(&scene, &shop, MSGQ_PERMISSION, "read");
  REQUIRE(sqlite3_close(shop.database) == SQLITE_OK);
  shop.database = connection;
  CHECK_NUMBER(1, collect(&scene, &shop));
  end(&scene, &shop);
}

TEST_LONG(T6_a_lock_that_is_held_is_told_and_loses_nothing) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  sqlite3 *other = shop_connect(&shop);
  put_one(&shop, "a");
  REQUIRE(shop_try(other, "BEGIN IMMEDIATE") == SQLITE_OK);
  sqlite3_busy_timeout(shop.database, 200); /* the host's own, which counts */
  int64_t begin_ms = steady_ms();
  check_refused(&scene, &shop, MSGQ_BUSY, "locked");
  CHECK(steady_ms() - begin_ms >= 400);
  CHECK_NUMBER(SQLITE_BUSY, msgq_outbox_sqlite_code());
  REQUIRE(shop_try(other, "COMMIT") == SQLITE_OK);
  CHECK_NUMBER(1, collect(&scene, &shop));
  REQUIRE(sqlite3_close(other) == SQLITE_OK);
  end(&scene, &shop);
}

TEST(T6_a_damaged_database_is_told) {
  struct scene scene;
  struct shop shop;
  begin(&scene, &shop);
  for (int number = 0; number < 300; number++)
    put_one(&shop, (char[]){ 'a', (char)('0' + number / 100), (char)('0' + number / 10 % 10), (char)('0' + number % 10), 0 });
  shop_end(&shop);
  /* Every page but the first two, which have the schema. */
  FILE *file = fopen(shop.path, "r+b");
  REQUIRE(file != NULL && fseek(file, 0, SEEK_END) == 0);
  long size = ftell(file);
  REQUIRE(fseek(file, 3 * 4096, SEEK_SET) == 0);
  for (long index = 3 * 4096; index < size; index++) REQUIRE(fputc(0x5a, file) != EOF);
  REQUIRE(fclose(file) == 0);
  REQUIRE(sqlite3_open(shop.path, &shop.database) == SQLITE_OK);
  CHECK_RESULT(MSGQ_CORRUPT, msgq_outbox_collect(shop.database, scene.queue, 10, NULL));
  CHECK_NUMBER(SQLITE_CORRUPT, msgq_outbox_sqlite_code() & 0xff);
  CHECK_NUMBER(1, sqlite3_get_autocommit(shop.database));
  UNSENT(&scene, "");
  end(&scene, &shop);
}

TEST(T6_a_full_disk_of_the_host_is_told_and_loses_nothing) {
  struct scene scene;
  struct shop shop;
  static char body[100000];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  begin(&scene, &shop);
  put_one(&shop, "a");
  shop_run(&shop, "BEGIN IMMEDIATE; PRAGMA max_page_count = 12");
  draft.body = body;
  draft.body_size = sizeof body;
  CHECK_RESULT(MSGQ_STORAGE, msgq_outbox_put(shop.database, &draft, NULL));
  CHECK_NUMBER(SQLITE_FULL, msgq_outbox_sqlite_code());
  if (sqlite3_get_autocommit(shop.database) == 0) shop_run(&shop, "ROLLBACK");
  CHECK_NUMBER(1, collect(&scene, &shop));
  end(&scene, &shop);
}

/* What outbox.c calls of SQLite: nothing that opens, closes, configures or hooks a connection. */
TEST_ALONE(T6_no_function_that_opens_closes_or_hooks_is_called) {
  static const char permitted[] =
      " bind_blob64 bind_int64 bind_null bind_text64 changes column_blob column_bytes column_int column_int64 column_text column_type "
      "db_readonly errcode errmsg extended_errcode finalize get_autocommit last_insert_rowid prepare_v2 reset set_last_insert_rowid step "
      "table_column_metadata ";
  char command[512], line[256];
  int count = 0, length = (int)(strrchr(child_program, '/') - child_program);
  snprintf(command, sizeof command, "nm -u -P '%.*s/outbox-c11.o'", length, child_program);
  FILE *names = popen(command, "r");
  REQUIRE(names != NULL);
  while (fgets(line, sizeof line, names) != NULL) {
    char name[256];
    if (strncmp(line, "sqlite3_", 8) != 0) continue;
    count++;
    line[strcspn(line + 8, " ") + 8] = '\0';
    snprintf(name, sizeof name, " %s ", line + 8);
    if (strstr(permitted, name) == NULL) CHECK_TEXT("", line);
  }
  CHECK_NUMBER(0, pclose(names));
  CHECK(count > 15);
}
