/*
 * A program that stores orders in its own SQLite database, and their messages in the same transaction. A thread with a connection of its own
 * collects them whenever the queue asks for it.
 *
 *     sources=$(pkg-config --variable=sources msgqueue)
 *     cc -I$sources shop.c $sources/outbox.c $(pkg-config --cflags --libs msgqueue sqlite3) -pthread -o shop
 *     ./shop QUEUE        makes the queue QUEUE and the database QUEUE-shop
 */
#include <outbox.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  customers = 3,
  orders = 12
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_asked = true; /* a crash may have left rows */
static bool is_ending;

struct shop {
  char path[512];
  msgq_queue *queue;
};

static void end_with(const char *text) {
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static sqlite3 *connect_to(const struct shop *shop) {
  sqlite3 *database = NULL;
  if (sqlite3_open(shop->path, &database) != SQLITE_OK) end_with(sqlite3_errmsg(database));
  sqlite3_busy_timeout(database, 5000);
  return database;
}

static bool run(sqlite3 *database, const char *sql) {
  return sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* Stores an order and its message: both or neither. */
static bool place_order(sqlite3 *database, int number) {
  static const char *const names[customers] = { "ana", "ben", "cem" };
  char text[64];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = names[number % customers];
  draft.body = text;
  draft.body_size = (size_t)snprintf(text, sizeof text, "order %d", number);
  bool good = run(database, "BEGIN IMMEDIATE") &&
              run(database, "INSERT INTO orders DEFAULT VALUES") &&
              msgq_outbox_put(database, &draft, NULL) == MSGQ_OK && run(database, "COMMIT");
  if (!good && sqlite3_get_autocommit(database) == 0) run(database, "ROLLBACK");
  return good;
}

/* The queue's events, on a thread of the library: wakes the thread that has a connection. */
static void on_event(void *context, const msgq_event *event) {
  (void)context;
  if (event->kind != MSGQ_EVENT_COLLECT && event->kind != MSGQ_EVENT_RESYNC) return;
  pthread_mutex_lock(&lock);
  is_asked = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void *collect(void *context) {
  const struct shop *shop = context;
  sqlite3 *database = connect_to(shop);
  for (bool goes_on = true; goes_on;) {
    size_t moved = 0;
    pthread_mutex_lock(&lock);
    while (!is_asked && !is_ending) pthread_cond_wait(&changed, &lock);
    is_asked = false;
    goes_on = !is_ending; /* and collects a last time */
    pthread_mutex_unlock(&lock);
    /* BUSY, FULL and others pass: the rows stay, and the queue asks again. */
    if (msgq_outbox_collect(database, shop->queue, 1000000, &moved) != MSGQ_OK)
      fprintf(stderr, "%s\n", msgq_outbox_error_detail());
  }
  sqlite3_close(database);
  return NULL;
}

static msgq_verdict send_one(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)out;
  printf("to %s: %.*s\n", delivery->conversation, (int)delivery->body_size,
         (const char *)delivery->body);
  return MSGQ_VERDICT_SENT;
}

int main(int count, char **arguments) {
  struct shop shop;
  pthread_t collector;
  if (count != 2) end_with("usage: shop QUEUE");
  snprintf(shop.path, sizeof shop.path, "%s-shop", arguments[1]);
  sqlite3 *database = connect_to(&shop);
  if (!run(database, "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS orders(number INTEGER "
                     "PRIMARY KEY)") ||
      !run(database, msgq_outbox_schema())) {
    end_with(sqlite3_errmsg(database));
  }
  if (msgq_open(arguments[1], NULL, &shop.queue) != MSGQ_OK) end_with(msgq_error_detail());
  msgq_set_event_handler(shop.queue, on_event, NULL, NULL);
  msgq_set_transport(shop.queue, send_one, NULL, NULL);
  if (pthread_create(&collector, NULL, collect, &shop) != 0) end_with("no thread");
  for (int number = 0; number < orders; number++) {
    if (!place_order(database, number)) end_with(msgq_outbox_error_detail());
    msgq_request_collect(shop.queue); /* after the commit */
  }
  pthread_mutex_lock(&lock);
  is_ending = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
  pthread_join(collector, NULL);
  msgq_drain(shop.queue, NULL, NULL);
  sqlite3_close(database);
  return msgq_close(shop.queue, 5000) != MSGQ_OK;
}
