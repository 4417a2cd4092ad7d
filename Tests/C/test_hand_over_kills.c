/* A collector that is killed at every change of a file, of the host's database and of the queue's: each message is taken over exactly once,
   whatever becomes of it before the next collector runs. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "scene.h"
#include "stub.h"

enum { messages = 4, limit = 3 };

/* The host: a database with a table of rows to hand over. */
struct host {
  struct scene scene;
  struct stub stub;
  char path[128];
  sqlite3 *database;
};

static void host_run(struct host *host, const char *sql) {
  char *text = NULL;
  if (sqlite3_exec(host->database, sql, NULL, NULL, &text) != SQLITE_OK) fprintf(stderr, "  %s: %s\n", sql, text);
  CHECK(text == NULL);
  sqlite3_free(text);
}

static void host_open(struct host *host) {
  REQUIRE(sqlite3_open(host->path, &host->database) == SQLITE_OK);
  host_run(host, "PRAGMA journal_mode = WAL");
  host_run(host, "PRAGMA synchronous = FULL");
}

static void host_close(struct host *host) {
  REQUIRE(sqlite3_close(host->database) == SQLITE_OK);
  host->database = NULL;
}

static void host_begin(struct host *host, msgq_verdict verdict) {
  scene_begin(&host->scene);
  host->scene.options.keep_sent = 0;
  host->scene.options.remember_ids_ms = 0;
  stub_begin(&host->stub, verdict);
  snprintf(host->path, sizeof host->path, "%s", scene_file(&host->scene, "host.db"));
  host_open(host);
  host_run(host, "CREATE TABLE outbox(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, body TEXT NOT NULL)");
  for (int number = 1; number <= messages; number++) {
    char sql[128];
    snprintf(sql, sizeof sql, "INSERT INTO outbox(id, body) VALUES('m%d', 'body %d')", number, number);
    host_run(host, sql);
  }
  host_close(host);
}

static int64_t host_rows(struct host *host) {
  sqlite3_stmt *statement = NULL;
  REQUIRE(sqlite3_prepare_v2(host->database, "SELECT count(*) FROM outbox", -1, &statement, NULL) == SQLITE_OK);
  REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
  int64_t rows = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return rows;
}

static void host_delete(struct host *host, const char *id) {
  char sql[128];
  snprintf(sql, sizeof sql, "DELETE FROM outbox WHERE id = '%s'", id);
  host_run(host, sql);
}

/* Takes over up to `limit` rows, as the header describes it. Returns how many. */
static int collect(struct host *host) {
  msgq_hand_over *list = NULL;
  msgq_draft drafts[limit];
  msgq_result results[limit];
  char ids[limit][16], bodies[limit][16];
  int count = 0;
  REQUIRE_OK(msgq_handed_over(host->scene.queue, "host", &list));
  host_run(host, "BEGIN IMMEDIATE");
  for (size_t index = 0; index < msgq_handed_over_size(list); index++) host_delete(host, msgq_handed_over_at(list, index)->id);
  host_run(host, "COMMIT");
  REQUIRE_OK(msgq_hand_over_done(host->scene.queue, list));
  sqlite3_stmt *statement = NULL;
  REQUIRE(sqlite3_prepare_v2(host->database, "SELECT id, body FROM outbox ORDER BY number LIMIT 3", -1, &statement, NULL) == SQLITE_OK);
  for (; sqlite3_step(statement) == SQLITE_ROW; count++) {
    snprintf(ids[count], sizeof ids[count], "%s", (const char *)sqlite3_column_text(statement, 0));
    snprintf(bodies[count], sizeof bodies[count], "%s", (const char *)sqlite3_column_text(statement, 1));
    drafts[count] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[count].id = drafts[count].replace_key = ids[count];
    drafts[count].conversation = "ana";
    drafts[count].body = bodies[count];
    drafts[count].body_size = strlen(bodies[count]);
  }
  sqlite3_finalize(statement);
  REQUIRE_OK(msgq_take_over(host->scene.queue, list, drafts, (size_t)count, results));
  host_run(host, "BEGIN IMMEDIATE");
  for (int index = 0; index < count; index++) {
    CHECK(results[index] == MSGQ_OK || results[index] == MSGQ_DUPLICATE);
    host_delete(host, ids[index]);
  }
  host_run(host, "COMMIT");
  REQUIRE_OK(msgq_hand_over_done(host->scene.queue, list));
  msgq_handed_over_free(list);
  return count;
}

/* Collects everything in a process that is killed before its n-th change of a file. Returns whether it was killed. */
static bool collect_until_killed(struct host *host, int change) {
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    scene_open(&host->scene);
    host_open(host);
    fault_change(host->scene.directory, change);
    while (collect(host) > 0) {}
    _exit(check_failures() > 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

/* What happens to the messages that the killed collector had stored. */
struct fate {
  const char *name;
  msgq_verdict verdict;
  void (*happen)(struct host *host);
  bool is_discarded;
};

static void nothing(struct host *host) { (void)host; }
static void send_all(struct host *host) { drain(&host->scene); }
static void clear_all(struct host *host) { REQUIRE_OK(msgq_clear(host->scene.queue, NULL)); }

static void for_each(struct host *host, void (*change)(struct host *host, const char *id)) {
  for (int number = 1; number <= messages; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    if (status_of(&host->scene, id) == MSGQ_STATUS_QUEUED) change(host, id);
  }
}

static void delete_one(struct host *host, const char *id) { REQUIRE_OK(msgq_delete(host->scene.queue, id)); }
static void delete_all(struct host *host) { for_each(host, delete_one); }
static void replace_one(struct host *host, const char *id) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  char newer[16];
  snprintf(newer, sizeof newer, "r%s", id);
  draft.id = newer;
  draft.conversation = "ana";
  draft.replace_key = id;
  REQUIRE_OK(msgq_enqueue(host->scene.queue, &draft, NULL));
}
static void replace_all(struct host *host) { for_each(host, replace_one); }

/* Writes which of the messages are in the queue, queued or failed: "m1 m3". */
static void present(struct host *host, char *text, size_t size) {
  text[0] = '\0';
  for (int number = 1; number <= messages; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    if (status_of(&host->scene, id) != -1) snprintf(text + strlen(text), size - strlen(text), "%s%s", text[0] ? " " : "", id);
  }
}

static bool contains(const char *text, const char *id) { return strstr(text, id) != NULL; }

/* Returns whether the collector was killed. */
static bool check_kill(const struct fate *fate, int change) {
  struct host host;
  char before[64], between[64], after[64];
  host_begin(&host, fate->verdict);
  host.scene.options.refused = fate->is_discarded ? MSGQ_REFUSED_DISCARD : MSGQ_REFUSED_KEEP;
  bool was_killed = collect_until_killed(&host, change);
  stub_open(&host.stub, &host.scene);
  present(&host, before, sizeof before);
  fate->happen(&host);
  present(&host, between, sizeof between);
  host_open(&host);
  while (collect(&host) > 0) {}
  CHECK_NUMBER(0, host_rows(&host));
  host_close(&host);
  present(&host, after, sizeof after);
  bool is_right = true;
  for (int number = 1; number <= messages; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%d", number);
    /* What the killed one had not stored is there now; what it had stored is what the fate made of it. */
    is_right = is_right && contains(after, id) == (contains(before, id) ? contains(between, id) : true);
  }
  if (!CHECK(is_right)) fprintf(stderr, "  %s, change %d: [%s] [%s] [%s]\n", fate->name, change, before, between, after);
  msgq_hand_over *list = NULL;
  REQUIRE_OK(msgq_handed_over(host.scene.queue, "host", &list));
  CHECK_NUMBER(0, msgq_handed_over_size(list));
  msgq_handed_over_free(list);
  scene_end(&host.scene);
  return was_killed;
}

static void check_kills(const struct fate *fate) {
  int change = 1;
  while (check_kill(fate, change) && check_failures() == 0) change++;
  CHECK(change > 20); /* it was killed so often */
}

TEST_ALONE(T3_a_collector_killed_at_any_change_takes_each_message_over_once) {
  check_kills(&(struct fate) { "nothing", MSGQ_VERDICT_SENT, nothing, false });
}

TEST_ALONE(T3_killed_collectors_and_messages_that_were_sent) {
  check_kills(&(struct fate) { "sent", MSGQ_VERDICT_SENT, send_all, false });
}

TEST_ALONE(T3_killed_collectors_and_messages_that_failed) {
  check_kills(&(struct fate) { "failed", MSGQ_VERDICT_REJECT, send_all, false });
}

TEST_ALONE(T3_killed_collectors_and_messages_that_were_discarded) {
  check_kills(&(struct fate) { "discarded", MSGQ_VERDICT_REJECT, send_all, true });
}

TEST_ALONE(T3_killed_collectors_and_messages_that_were_deleted) {
  check_kills(&(struct fate) { "deleted", MSGQ_VERDICT_SENT, delete_all, false });
}

TEST_ALONE(T3_killed_collectors_and_messages_that_were_cleared) {
  check_kills(&(struct fate) { "cleared", MSGQ_VERDICT_SENT, clear_all, false });
}

TEST_ALONE(T3_killed_collectors_and_messages_that_were_replaced) {
  check_kills(&(struct fate) { "replaced", MSGQ_VERDICT_SENT, replace_all, false });
}
