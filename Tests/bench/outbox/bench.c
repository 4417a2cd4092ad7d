/*
 * The cost of the host's outbox, in interleaved rounds: a put against a bare insertion into the same table, both in a transaction with an
 * order, and with 100 of them in one transaction; then the messages that a collection moves in a second.
 *
 *     bench DIRECTORY [ROUNDS]
 */
#include <outbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  batch = 100,
  body_size = 200
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, msgq_outbox_error_detail());
  exit(1);
}

static void run(sqlite3 *database, const char *sql) { must(sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK, sql); }

/* The same row, as a host would write it itself. */
static void bare(sqlite3 *database, const char *id, const char *body) {
  static const char sql[] = "INSERT INTO msgq_outbox(id, conversation, body, metadata, not_before_ms, expires_at_ms, time_ms, priority, replace_key, "
                            "unmetered_only) VALUES(?1, 'ana', ?3, NULL, NULL, NULL, ?2, 0, NULL, 0)";
  sqlite3_stmt *statement = NULL;
  must(sqlite3_prepare_v2(database, sql, -1, &statement, NULL) == SQLITE_OK, "prepare");
  sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
  sqlite3_bind_int64(statement, 2, 1700000000000);
  sqlite3_bind_blob(statement, 3, body, body_size, SQLITE_STATIC);
  must(sqlite3_step(statement) == SQLITE_DONE, "insert");
  sqlite3_finalize(statement);
}

static void put(sqlite3 *database, const char *id, const char *body) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = "ana";
  draft.body = body;
  draft.body_size = body_size;
  must(msgq_outbox_put(database, &draft, NULL) == MSGQ_OK, "put");
}

static void order(sqlite3 *database) { run(database, "INSERT INTO orders(text) VALUES('two chairs and a table')"); }

/* Returns the messages per second. */
static double measure(sqlite3 *database, void (*insert)(sqlite3 *, const char *, const char *), int transactions, int in_each) {
  static long number;
  char id[64], body[body_size];
  memset(body, 'x', sizeof body);
  double begin = now();
  for (int transaction = 0; transaction < transactions; transaction++) {
    run(database, "BEGIN IMMEDIATE");
    for (int message = 0; message < in_each; message++) {
      order(database);
      snprintf(id, sizeof id, "01932c5a-8f00-7abc-8000-%012ld", number++);
      insert(database, id, body);
    }
    run(database, "COMMIT");
  }
  return transactions * in_each / (now() - begin);
}

static int compare(const void *first, const void *second) {
  double a = *(const double *)first, b = *(const double *)second;
  return (a > b) - (a < b);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return values[count / 2];
}

static void compare_puts(sqlite3 *database, const char *name, int transactions, int in_each, int rounds) {
  double bares[64], puts[64], ratios[64];
  for (int round = 0; round < rounds; round++) {
    bool is_first = round % 2 == 0;
    double first = measure(database, is_first ? bare : put, transactions, in_each);
    double second = measure(database, is_first ? put : bare, transactions, in_each);
    bares[round] = is_first ? first : second;
    puts[round] = is_first ? second : first;
    ratios[round] = puts[round] / bares[round];
    run(database, "DELETE FROM msgq_outbox; DELETE FROM orders");
  }
  printf("%-28s bare %9.0f/s, put %9.0f/s, put/bare %.3f\n", name, median(bares, rounds), median(puts, rounds), median(ratios, rounds));
}

/* 100 messages in a transaction, by one call. */
static double measure_batch(sqlite3 *database, int transactions) {
  static long number;
  static char ids[batch][64], body[body_size];
  msgq_draft drafts[batch];
  double begin = now();
  for (int transaction = 0; transaction < transactions; transaction++) {
    run(database, "BEGIN IMMEDIATE");
    for (int message = 0; message < batch; message++) {
      order(database);
      snprintf(ids[message], sizeof ids[message], "01932c5a-8f00-7abc-9000-%012ld", number++);
      drafts[message] = (msgq_draft)MSGQ_DRAFT_INIT;
      drafts[message].id = ids[message];
      drafts[message].conversation = "ana";
      drafts[message].body = body;
      drafts[message].body_size = body_size;
    }
    must(msgq_outbox_put_batch(database, drafts, batch, NULL) == MSGQ_OK, "put");
    run(database, "COMMIT");
  }
  return transactions * batch / (now() - begin);
}

static void compare_batches(sqlite3 *database, int rounds) {
  double ratios[64];
  for (int round = 0; round < rounds; round++) {
    double first = round % 2 == 0 ? measure(database, bare, 100, batch) : measure_batch(database, 100);
    double second = round % 2 == 0 ? measure_batch(database, 100) : measure(database, bare, 100, batch);
    ratios[round] = round % 2 == 0 ? second / first : first / second;
    run(database, "DELETE FROM msgq_outbox; DELETE FROM orders");
  }
  printf("%-28s put_batch/bare %.3f\n", "100 in a transaction", median(ratios, rounds));
}

static void collections(sqlite3 *database, msgq_queue *queue, int rounds) {
  double rates[64];
  for (int round = 0; round < rounds; round++) {
    size_t moved = 0;
    measure(database, put, 200, batch);
    double begin = now();
    must(msgq_outbox_collect(database, queue, 1000000, &moved) == MSGQ_OK, "collect");
    rates[round] = (double)moved / (now() - begin);
    must(msgq_clear(queue, NULL) == MSGQ_OK, "clear");
  }
  printf("%-28s %9.0f messages/s\n", "collect", median(rates, rounds));
}

int main(int count, char **arguments) {
  static const char *const modes[] = { "NORMAL", "FULL" };
  char path[512], sql[128];
  sqlite3 *database = NULL;
  msgq_queue *queue = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  setvbuf(stdout, NULL, _IOLBF, 0);
  int rounds = count > 2 ? atoi(arguments[2]) : 7;
  if (count < 2 || rounds < 1 || rounds > 64) return 2;
  snprintf(path, sizeof path, "%s/shop.db", arguments[1]);
  must(sqlite3_open(path, &database) == SQLITE_OK, path);
  run(database, "PRAGMA journal_mode = WAL; CREATE TABLE orders(number INTEGER PRIMARY KEY, text TEXT)");
  run(database, msgq_outbox_schema());
  for (int mode = 0; mode < 2; mode++) {
    snprintf(sql, sizeof sql, "PRAGMA synchronous = %s", modes[mode]);
    run(database, sql);
    for (int in_each = 1; in_each <= batch; in_each *= batch) {
      char name[64];
      snprintf(name, sizeof name, "%s, %d in a transaction", modes[mode], in_each);
      compare_puts(database, name, mode == 1 || in_each > 1 ? 100 : 2000, in_each, rounds);
    }
  }
  compare_batches(database, rounds);
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  snprintf(path, sizeof path, "%s/queue.db", arguments[1]);
  must(msgq_open(path, &options, &queue) == MSGQ_OK, path);
  collections(database, queue, rounds);
  return msgq_close(queue, 1000) != MSGQ_OK || sqlite3_close(database) != SQLITE_OK;
}
