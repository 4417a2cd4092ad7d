#include "stores.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"

void put_numbered(struct scene *scene, unsigned first, unsigned last) {
  for (unsigned number = first; number <= last; number++) {
    char id[16], body[32];
    snprintf(id, sizeof id, "m%u", number);
    snprintf(body, sizeof body, "body %u", number);
    put(scene, id, "ana", body);
  }
}

void crash_after(const struct scene *scene, unsigned first, unsigned last) {
  char range[32], line[64];
  snprintf(range, sizeof range, "%u-%u", first, last);
  struct child child = child_start("write", scene->path, range);
  child_line(&child, line, sizeof line);
  CHECK_TEXT("written", line);
  child_kill(&child);
  REQUIRE(file_exists(log_of(scene)));
}

void close_after(struct scene *scene, unsigned first, unsigned last) {
  scene_open(scene);
  put_numbered(scene, first, last);
  scene_close(scene);
}

void check_numbered(struct scene *scene, unsigned first, unsigned last) {
  uint64_t after = 0;
  unsigned number = first;
  for (;;) {
    msgq_filter filter = MSGQ_FILTER_INIT;
    msgq_page *list = NULL;
    filter.after = after;
    REQUIRE_OK(msgq_list(scene->queue, &filter, &list));
    if (msgq_list_size(list) == 0) {
      msgq_list_free(list);
      break;
    }
    for (size_t index = 0; index < msgq_list_size(list); index++, number++) {
      char id[16], body[32];
      const msgq_message *message = msgq_list_at(list, index);
      snprintf(id, sizeof id, "m%u", number);
      snprintf(body, sizeof body, "body %u", number);
      CHECK_TEXT(id, message->id);
      CHECK_NUMBER(MSGQ_STATUS_QUEUED, message->status);
      CHECK(message->body_size == strlen(body) && memcmp(message->body, body, strlen(body)) == 0);
      CHECK(message->sequence > after);
      after = message->sequence;
    }
    msgq_list_free(list);
  }
  CHECK_NUMBER(last + 1, number);
  CHECK_NUMBER(last - first + 1, counts_of(scene, NULL).queued);
}

msgq_result open_elsewhere(const char *path, char detail[512]) {
  struct child child = child_start("open", path, "");
  child_line(&child, detail, 512);
  return (msgq_result)child_wait(&child);
}

static const char *beside(const struct scene *scene, const char *suffix) {
  static char names[4][128];
  static unsigned turn;
  char *name = names[turn++ % 4];
  snprintf(name, sizeof names[0], "%s%s", scene->path, suffix);
  return name;
}

const char *log_of(const struct scene *scene) { return beside(scene, "-wal"); }
const char *tail_of(const struct scene *scene) { return beside(scene, "-tail"); }

void check_refused(const struct scene *scene, msgq_result expected, const char *text) {
  struct snapshot before;
  msgq_queue *queue = NULL;
  snapshot_take(&before, scene->directory);
  CHECK_RESULT(expected, msgq_open(scene->path, &scene->options, &queue));
  CHECK(queue == NULL);
  if (queue != NULL) msgq_close(queue, 0);
  if (text != NULL && strstr(msgq_error_detail(), text) == NULL) {
    fprintf(stderr, "  the detail is \"%s\"\n", msgq_error_detail());
    CHECK(!"the error detail contains the expected text");
  }
  CHECK(snapshot_holds(&before, scene->directory));
  snapshot_free(&before);
}

void await_storage_event(struct scene *scene, const char *text) {
  struct entry entry;
  REQUIRE_OK(msgq_set_event_handler(scene->queue, journal_event, &scene->journal, journal_release));
  int64_t end = steady_ms() + check_timeout_ms();
  while (!journal_has_text(&scene->journal, MSGQ_EVENT_STORAGE, text) && steady_ms() < end) pause_ms(1);
  if (journal_has_text(&scene->journal, MSGQ_EVENT_STORAGE, text)) return;
  bool any = journal_last(&scene->journal, MSGQ_EVENT_STORAGE, &entry);
  fprintf(stderr, "  expected a storage event with \"%s\"; the last one is \"%s\"\n", text, any ? entry.text : "(none)");
  CHECK(!"a storage event has the expected text");
}

static void run(const char *path, const char *sql, int keep_log) {
  sqlite3 *store = NULL;
  char *problem = NULL, index[160];
  REQUIRE(sqlite3_open(path, &store) == SQLITE_OK);
  if (keep_log) REQUIRE(sqlite3_db_config(store, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK);
  if (!CHECK_NUMBER(SQLITE_OK, sqlite3_exec(store, sql, NULL, NULL, &problem))) fprintf(stderr, "  %s\n", problem);
  sqlite3_free(problem);
  CHECK(sqlite3_close(store) == SQLITE_OK);
  snprintf(index, sizeof index, "%s-shm", path);
  unlink(index);
}

void sql_run(const char *path, const char *sql) { run(path, sql, 0); }
void sql_run_in_log(const char *path, const char *sql) { run(path, sql, 1); }

int64_t sql_number(const char *path, const char *sql) {
  sqlite3 *store = NULL;
  sqlite3_stmt *statement = NULL;
  REQUIRE(sqlite3_open_v2(path, &store, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
  REQUIRE(sqlite3_prepare_v2(store, sql, -1, &statement, NULL) == SQLITE_OK);
  REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
  int64_t number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(store);
  return number;
}
