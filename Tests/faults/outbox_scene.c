#include "outbox_scene.h"

#include <msgqueue.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../bindings/c/outbox.h"
#include "shim.h"

const char *fate_name(enum fate fate) {
  static const char *const names[] = { "queued", "sending", "sent", "failed", "deleted", "cleared", "discarded", "replaced", "pruned", "forgotten" };
  return names[fate];
}

const char *host_mode_name(enum host_mode mode) {
  static const char *const names[] = { "normal", "full", "rollback" };
  return names[mode];
}

void mark_apply(struct marks *marks, struct mark mark) {
  switch (mark.kind) {
  case MARK_COMMITTED: marks->committed[mark.number] = true; break;
  case MARK_TAKEN: marks->taken[mark.number] = true; break;
  case MARK_FATED: marks->fated[mark.number] = true; break;
  case MARK_FATE: marks->fate_begun = true; break;
  }
}

/* ------------------------------------------------------------------ the host and its queue */

struct host {
  const struct outbox_scene *scene;
  sqlite3 *database;
  msgq_queue *queue;
  int calls[messages_end]; /* of the transport */
  char *why;
  size_t room;
};

static void note(struct host *host, enum mark_kind kind, uint32_t number) {
  struct mark mark = { kind, number };
  mark_apply(host->scene->marks, mark);
  shim_mark(&mark, sizeof mark);
}

/* Keeps the first problem. */
static bool problem(struct host *host, const char *what, const char *text) {
  if (host->why[0] == '\0') snprintf(host->why, host->room, "%s: %.200s", what, text);
  return false;
}

static bool run(struct host *host, const char *sql) {
  if (sqlite3_exec(host->database, sql, NULL, NULL, NULL) == SQLITE_OK) return true;
  return problem(host, sql, sqlite3_errmsg(host->database));
}

static int64_t number_of(struct host *host, const char *sql) {
  sqlite3_stmt *statement = NULL;
  int64_t number = -1;
  if (sqlite3_prepare_v2(host->database, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
    number = sqlite3_column_int64(statement, 0);
  } else problem(host, sql, sqlite3_errmsg(host->database));
  sqlite3_finalize(statement);
  return number;
}

static bool works(struct host *host, const char *call, msgq_result result) { return result == MSGQ_OK || problem(host, call, msgq_error_detail()); }

static const char *id_of(uint32_t number) {
  static char id[16];
  snprintf(id, sizeof id, "m%u", number);
  return id;
}

static msgq_verdict transport(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct host *host = context;
  unsigned number = 0;
  if (sscanf(delivery->id, "m%u", &number) == 1 && number < messages_end) host->calls[number]++;
  out->kind = MSGQ_FAILURE_REJECTED;
  switch (host->scene->fate) {
  case FATE_SENDING: return MSGQ_VERDICT_PENDING;
  case FATE_FAILED:
  case FATE_DISCARDED: return MSGQ_VERDICT_REJECT;
  default: return MSGQ_VERDICT_SENT;
  }
}

static bool open_queue(struct host *host) {
  enum fate fate = host->scene->fate;
  char path[4200];
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  options.callbacks = MSGQ_CALLBACKS_POLL;
  options.durable_outcomes = true;
  options.collect_interval_ms = 0;
  if (fate == FATE_DISCARDED) options.refused = MSGQ_REFUSED_DISCARD;
  if (fate == FATE_PRUNED || fate == FATE_FORGOTTEN) options.keep_sent = 0;
  if (fate == FATE_FORGOTTEN || fate == FATE_REPLACED) options.remember_ids_ms = 0;
  snprintf(path, sizeof path, "%s/store.db", host->scene->directory);
  return works(host, "open", msgq_open(path, &options, &host->queue)) &&
         works(host, "transport", msgq_set_transport(host->queue, transport, host, NULL));
}

static bool open_host(struct host *host) {
  static const char *const modes[] = { "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
                                       "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
                                       "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL" };
  char path[4200];
  snprintf(path, sizeof path, "%s/shop.db", host->scene->directory);
  if (sqlite3_open(path, &host->database) != SQLITE_OK) return problem(host, path, "open failed");
  return run(host, modes[host->scene->mode]);
}

static bool close_all(struct host *host) {
  if (host->queue != NULL) {
    msgq_result result = msgq_close(host->queue, 0);
    if (result != MSGQ_TIMEOUT) works(host, "close", result);
  }
  if (host->database != NULL && sqlite3_close(host->database) != SQLITE_OK) problem(host, "shop.db", "close failed");
  return host->why[0] == '\0';
}

void outbox_prepare(const struct outbox_scene *scene) {
  char why[512] = "";
  struct host host = { .scene = scene, .why = why, .room = sizeof why };
  bool good =
      open_host(&host) && run(&host, "CREATE TABLE orders(number INTEGER PRIMARY KEY)") && run(&host, msgq_outbox_schema()) && open_queue(&host);
  if (!close_all(&host) || !good) {
    fprintf(stderr, "outbox: %s\n", why);
    abort();
  }
}

/* ------------------------------------------------------------------ the scene */

/* An order and its message in one transaction. */
static bool order(struct host *host, uint32_t number) {
  char sql[128];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = draft.replace_key = id_of(number);
  draft.conversation = "ana";
  draft.body = id_of(number);
  draft.body_size = strlen(id_of(number));
  snprintf(sql, sizeof sql, "BEGIN IMMEDIATE; INSERT INTO orders VALUES(%u)", number);
  if (!run(host, sql)) return false;
  msgq_result result = msgq_outbox_put(host->database, &draft, NULL);
  if (result != MSGQ_OK) return problem(host, "put", msgq_outbox_error_detail());
  if (!run(host, number == undone ? "ROLLBACK" : "COMMIT")) return false;
  if (number != undone) note(host, MARK_COMMITTED, number);
  return true;
}

static bool collect(struct host *host, size_t limit, msgq_result expected, size_t *moved) {
  msgq_result result = msgq_outbox_collect(host->database, host->queue, limit, moved);
  return result == expected || problem(host, "collect", msgq_outbox_error_detail());
}

static void note_taken(struct host *host, uint32_t first, uint32_t end) {
  for (uint32_t number = first; number < end; number++) {
    if (number != undone) note(host, MARK_TAKEN, number);
  }
}

static int status_of(struct host *host, uint32_t number) {
  msgq_message *message = NULL;
  msgq_result result = msgq_get(host->queue, id_of(number), &message);
  if (result != MSGQ_OK && result != MSGQ_NOT_FOUND) problem(host, "get", msgq_error_detail());
  int status = result == MSGQ_OK ? (int)message->status : -1;
  msgq_message_free(message);
  return status;
}

static bool replace(struct host *host, uint32_t number) {
  char newer[16];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  snprintf(newer, sizeof newer, "r%u", number);
  draft.id = newer;
  draft.conversation = "ana";
  draft.replace_key = id_of(number);
  msgq_result result = msgq_enqueue(host->queue, &draft, NULL);
  return result == MSGQ_DUPLICATE || works(host, "replace", result);
}

/* Lets the fate happen to the messages that are queued. */
static bool happen(struct host *host) {
  msgq_report report = { .struct_size = sizeof report };
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  uint64_t ran = 0;
  switch (host->scene->fate) {
  case FATE_QUEUED: return true;
  case FATE_CLEARED: return works(host, "clear", msgq_clear(host->queue, NULL));
  case FATE_DELETED:
  case FATE_REPLACED:
    for (uint32_t number = 1; number < messages_end; number++) {
      if (status_of(host, number) != MSGQ_STATUS_QUEUED) continue;
      bool good = host->scene->fate == FATE_REPLACED ? replace(host, number) : works(host, "delete", msgq_delete(host->queue, id_of(number)));
      if (!good) return false;
    }
    return true;
  case FATE_SENDING:
    for (uint32_t number = 1; number < messages_end; number++) {
      if (status_of(host, number) != MSGQ_STATUS_QUEUED) continue;
      return works(host, "send_now", msgq_send_now(host->queue, id_of(number))) && works(host, "poll", msgq_poll(host->queue, 0, &ran));
    }
    return true;
  default: return works(host, "drain", msgq_drain(host->queue, &options, &report));
  }
}

/* While the trigger is there, no row can be deleted: the collector is interrupted between the two transactions. */
static const char keep_sql[] = "CREATE TEMP TRIGGER keep BEFORE DELETE ON main.msgq_outbox BEGIN SELECT RAISE(ABORT, 'kept'); END";

static bool play(struct host *host) {
  size_t moved = 0;
  for (uint32_t number = 1; number < 5; number++) {
    if (!order(host, number)) return false;
  }
  if (!collect(host, 2, MSGQ_OK, &moved)) return false;
  note_taken(host, 1, 3);
  if (!order(host, 5) || !run(host, keep_sql) || !collect(host, 100, MSGQ_CONFLICT, &moved)) return false;
  note_taken(host, 3, 6);
  if (!order(host, 6)) return false;
  note(host, MARK_FATE, 0);
  if (!happen(host)) return false;
  for (uint32_t number = 1; number < 6; number++) {
    int status = status_of(host, number);
    if (number != undone && status != MSGQ_STATUS_QUEUED && status != MSGQ_STATUS_SENDING) note(host, MARK_FATED, number);
  }
  if (!run(host, "DROP TRIGGER keep") || !collect(host, 100, MSGQ_OK, &moved)) return false;
  note_taken(host, 6, 7);
  if (!order(host, 7) || !collect(host, 100, MSGQ_OK, &moved)) return false;
  note_taken(host, 7, 8);
  return order(host, 8); /* it waits in the outbox when the host ends */
}

int outbox_play(const struct outbox_scene *scene) {
  char why[512] = "";
  struct host host = { .scene = scene, .why = why, .room = sizeof why };
  bool good = open_host(&host) && open_queue(&host) && play(&host);
  if (!close_all(&host) || !good) {
    fprintf(stderr, "outbox: %s\n", why);
    return 1;
  }
  return 0;
}

/* ------------------------------------------------------------------ after the crash */

/* Where a message is. */
struct place {
  bool has_order, is_in_outbox, is_handed;
  int status;
};

static bool find(struct host *host, struct place places[messages_end]) {
  char source[256] = "";
  msgq_hand_over *list = NULL;
  sqlite3_stmt *statement = NULL;
  memset(places, 0, messages_end * sizeof *places);
  for (uint32_t number = 1; number < messages_end; number++) {
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM orders WHERE number = %u", number);
    places[number].has_order = number_of(host, sql) == 1;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM msgq_outbox WHERE id = '%s'", id_of(number));
    places[number].is_in_outbox = number_of(host, sql) == 1;
    places[number].status = status_of(host, number);
  }
  if (sqlite3_prepare_v2(host->database, "SELECT source FROM msgq_outbox_store", -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    snprintf(source, sizeof source, "%s", (const char *)sqlite3_column_text(statement, 0));
  }
  sqlite3_finalize(statement);
  if (!works(host, "handed over", msgq_handed_over(host->queue, source, &list))) return false;
  for (size_t index = 0; index < msgq_handed_over_size(list); index++) {
    unsigned number = 0;
    const msgq_handed *handed = msgq_handed_over_at(list, index);
    if (handed->result != MSGQ_OK) problem(host, "refused", handed->text);
    if (sscanf(handed->id, "m%u", &number) == 1 && number < messages_end) places[number].is_handed = true;
  }
  msgq_handed_over_free(list);
  return host->why[0] == '\0';
}

/* Whether the fate leaves the message in the queue. */
static bool is_kept(enum fate fate) { return fate <= FATE_FAILED; }

/* Compares what the crash left with what was acknowledged. */
static void check_left(struct host *host, const struct place *place, uint32_t number) {
  const struct marks *marks = host->scene->marks;
  bool is_in_queue = place->status >= 0 || place->is_handed;
  if (!place->has_order && (place->is_in_outbox || is_in_queue)) problem(host, id_of(number), "the message is there without its order");
  if (number == undone && place->has_order) problem(host, id_of(number), "the transaction was rolled back");
  if (host->scene->mode == HOST_FULL && marks->committed[number] && !place->has_order) problem(host, id_of(number), "the commit is lost");
  bool may_be_gone = marks->fate_begun && !is_kept(host->scene->fate) && number < 6;
  if (place->has_order && !place->is_in_outbox && place->status < 0 && !may_be_gone) problem(host, id_of(number), "the message is lost");
  if (marks->taken[number] && place->status < 0 && !may_be_gone) problem(host, id_of(number), "the queue has lost it");
  /* An attempt that was not answered begins again. */
  if (marks->fated[number] && place->status == MSGQ_STATUS_QUEUED) problem(host, id_of(number), "the fate is lost");
}

/* Compares what there is after the collection with what was there before. */
static void check_after(struct host *host, const struct place *left, int between, const struct place *after, uint32_t number) {
  bool is_taken = left->status >= 0 || left->is_handed || host->scene->marks->taken[number];
  int expected = is_taken ? between : left->has_order ? MSGQ_STATUS_QUEUED : -1;
  char text[128];
  snprintf(text, sizeof text, "%s: status %d, expected %d (%d, %d)", id_of(number), after->status, expected, left->status, between);
  if (after->status != expected) problem(host, "after the collection", text);
  if (after->is_in_outbox || after->is_handed) problem(host, id_of(number), "it is still handed over");
}

bool outbox_verify(const struct outbox_scene *scene, char *why, size_t room) {
  struct host host = { .scene = scene, .why = why, .room = room };
  struct place left[messages_end], after[messages_end];
  int between[messages_end];
  size_t moved = 0;
  why[0] = '\0';
  bool good = open_host(&host) && open_queue(&host) && find(&host, left);
  for (uint32_t number = 1; good && number < messages_end; number++) check_left(&host, &left[number], number);
  good = good && why[0] == '\0' && happen(&host);
  for (uint32_t number = 1; good && number < messages_end; number++) between[number] = status_of(&host, number);
  good = good && collect(&host, 100, MSGQ_OK, &moved) && find(&host, after);
  for (uint32_t number = 1; good && number < messages_end; number++) {
    check_after(&host, &left[number], between[number], &after[number], number);
    if (host.calls[number] > 1) problem(&host, id_of(number), "it was sent twice");
  }
  return close_all(&host) && good && why[0] == '\0';
}
