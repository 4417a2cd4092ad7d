/*
 * An outbox in the host's own SQLite database. See outbox.h. It is one file, which gives the linker
 * no names but those of outbox.h, so that a program can compile it as it is.
 *
 *    1. Errors
 *    2. Texts                UTF-8, names, ids
 *    3. Statements
 *    4. The tables           the schema, and whether it is there
 *    5. Putting
 *    6. Rows                 a row of the table as a draft
 *    7. Collecting
 *    8. Asking the owner of the queue
 *
 * Two databases cannot commit together. So the queue remembers the ids that it has taken over until
 * the rows are deleted here (msgq_take_over in msgqueue.h), and each transaction of the collector
 * deletes what the one before it handed over. What a crash leaves in between is in the list of
 * msgq_handed_over, with which every collection begins.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* getentropy, strnlen, struct ucred, O_PATH */
#endif
#include "outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if SQLITE_VERSION_NUMBER < 3024000
#error "SQLite 3.24 or later is needed"
#endif

enum {
  version = 1,
  longest_name = 255,       /* bytes of an id, a conversation, a key */
  most_pairs = 1024,        /* of metadata */
  most_metadata = 16 << 20, /* bytes that a queue keeps */
  most_body = 256 << 20,    /* bytes that a queue keeps */
  most_rows = 1000,         /* in one round */
  most_bytes = 16 << 20,    /* of the rows of one round, beyond the first */
  most_limit = 1000000,
  synchronous_extra = 3,
  longest_kick_ms = 1000,
  least_draft = offsetof(msgq_draft, unmetered_only), /* the fields that a draft has at least */
  most_draft = 1 << 16,
};

static const int64_t last_time_ms = 253402300799999; /* the end of the year 9999 */
static const int64_t longest_ms = 315619200000;      /* 10 years */

/* ---------------------------------------------------------------------------------- 1. errors */

static _Thread_local char detail[1024];
static _Thread_local int sqlite_code;

const char *msgq_outbox_error_detail(void) { return detail; }

int msgq_outbox_sqlite_code(void) { return sqlite_code; }

/* Sets the detail and returns the result. */
static msgq_result fail(msgq_result result, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  sqlite_code = SQLITE_OK;
  return result;
}

/* A failure that is reported after other calls. */
struct failure {
  msgq_result result;
  int code;
  char text[sizeof detail];
};

static struct failure failure_of(msgq_result result) {
  struct failure failure = { .result = result, .code = sqlite_code };
  memcpy(failure.text, detail, sizeof detail);
  return failure;
}

static msgq_result fail_again(const struct failure *failure) {
  memcpy(detail, failure->text, sizeof detail);
  sqlite_code = failure->code;
  return failure->result;
}

/* The same for a call of the queue that failed. */
static msgq_result fail_queue(msgq_result result) {
  return fail(result, "%s", msgq_error_detail());
}

static msgq_result fail_memory(void) { return fail(MSGQ_STORAGE, "out of memory"); }

static msgq_result result_of(int code) {
  switch (code & 0xff) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED: return MSGQ_BUSY;
  case SQLITE_PERM:
  case SQLITE_READONLY:
  case SQLITE_AUTH: return MSGQ_PERMISSION;
  case SQLITE_ERROR: /* a statement that does not fit the tables */
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB: return MSGQ_CORRUPT;
  case SQLITE_TOOBIG: return MSGQ_TOO_LARGE;
  case SQLITE_CONSTRAINT:
  case SQLITE_INTERRUPT:
  case SQLITE_ABORT: return MSGQ_CONFLICT;
  default: return MSGQ_STORAGE;
  }
}

/* The same for a call of SQLite that returned `code`. */
static msgq_result fail_sqlite(sqlite3 *db, int code, const char *what) {
  int extended = sqlite3_extended_errcode(db);
  msgq_result result = fail(result_of(code), "%s: %s", what, sqlite3_errmsg(db));
  sqlite_code = (extended & 0xff) == (code & 0xff) ? extended : code;
  return result;
}

/* ----------------------------------------------------------------------------------- 2. texts */

/* The length of the UTF-8 character at the beginning of `text`, which ends with a zero byte, and
   its number; 0: it is none. */
static size_t character(const unsigned char *text, uint32_t *number) {
  static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
  unsigned char first = text[0];
  size_t length = first < 0x80   ? 1
                  : first < 0xc0 ? 0
                  : first < 0xe0 ? 2
                  : first < 0xf0 ? 3
                  : first < 0xf8 ? 4
                                 : 0;
  uint32_t value = length == 1   ? first
                   : length == 2 ? first & 0x1fu
                   : length == 3 ? first & 0x0fu
                                 : first & 0x07u;
  for (size_t index = 1; index < length; index++) {
    if ((text[index] & 0xc0) != 0x80) return 0;
    value = value << 6 | (text[index] & 0x3fu);
  }
  if (length > 1 &&
      (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)))
    return 0;
  *number = value;
  return length;
}

static bool is_utf8(const char *text) {
  uint32_t number = 0;
  for (const unsigned char *place = (const unsigned char *)text; *place != 0;) {
    size_t length = character(place, &number);
    if (length == 0) return false;
    place += length;
  }
  return true;
}

/* An id, a conversation or a key. */
static msgq_result check_name(const char *text, const char *what) {
  uint32_t number = 0;
  if (strnlen(text, longest_name + 1) > longest_name) {
    return fail(MSGQ_INVALID, "the %s has more than %d bytes", what, longest_name);
  }
  for (const unsigned char *place = (const unsigned char *)text; *place != 0;) {
    if (*place >= 0x20 && *place < 0x7f) {
      place++;
      continue;
    }
    size_t length = character(place, &number);
    if (length == 0) return fail(MSGQ_INVALID, "the %s is not UTF-8", what);
    if (number < 0xa0) {
      return fail(MSGQ_INVALID, "the %s contains the control character U+%04X", what,
                  (unsigned)number);
    }
    place += length;
  }
  return MSGQ_OK;
}

static int64_t now_ms(void) {
  struct timespec time = { 0, 0 };
  clock_gettime(CLOCK_REALTIME, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* A UUID of version 7. Its random bits are the system's, because those of SQLite are the same in
   two processes after a fork. */
static msgq_result make_id(int64_t now, char id[MSGQ_ID_SIZE]) {
  unsigned char bytes[16];
  if (getentropy(bytes + 6, sizeof bytes - 6) != 0) {
    return fail(MSGQ_STORAGE, "no random number for an id");
  }
  for (int index = 0; index < 6; index++)
    bytes[index] = (unsigned char)((uint64_t)now >> (40 - 8 * index));
  bytes[6] = (unsigned char)(0x70 | (bytes[6] & 0x0f));
  bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f));
  static const char digits[] = "0123456789abcdef";
  char *place = id;
  for (int index = 0; index < 16; index++) {
    if (index == 4 || index == 6 || index == 8 || index == 10) *place++ = '-';
    *place++ = digits[bytes[index] >> 4];
    *place++ = digits[bytes[index] & 0x0f];
  }
  *place = '\0';
  return MSGQ_OK;
}

/* ------------------------------------------------------------------------------ 3. statements */

static msgq_result prepare(sqlite3 *db, const char *sql, const char *what, sqlite3_stmt **out) {
  int code = sqlite3_prepare_v2(db, sql, -1, out, NULL);
  return code == SQLITE_OK ? MSGQ_OK : fail_sqlite(db, code, what);
}

/* Runs a statement that returns no row, and makes it ready for the next run. */
static msgq_result run(sqlite3 *db, sqlite3_stmt *statement, const char *what) {
  int code = sqlite3_step(statement);
  msgq_result result =
      code == SQLITE_DONE || code == SQLITE_ROW ? MSGQ_OK : fail_sqlite(db, code, what);
  sqlite3_reset(statement);
  return result;
}

static msgq_result run_text(sqlite3 *db, const char *sql, const char *what) {
  sqlite3_stmt *statement = NULL;
  msgq_result result = prepare(db, sql, what, &statement);
  if (result == MSGQ_OK) result = run(db, statement, what);
  sqlite3_finalize(statement);
  return result;
}

/* Runs a statement after an error, which is the one to report. */
static void run_quietly(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK) sqlite3_step(statement);
  sqlite3_finalize(statement);
}

/* Returns the code of SQLite. */
static int bind_text(sqlite3_stmt *statement, int place, const char *text) {
  if (text == NULL) return sqlite3_bind_null(statement, place);
  return sqlite3_bind_text64(statement, place, text, strlen(text), SQLITE_STATIC, SQLITE_UTF8);
}

static int bind_number(sqlite3_stmt *statement, int place, int64_t number, bool is_null) {
  return is_null ? sqlite3_bind_null(statement, place)
                 : sqlite3_bind_int64(statement, place, number);
}

/* ------------------------------------------------------------------------------ 4. the tables */

/* The index finds the rows that wait without reading those that were refused. What is large comes
   last, so that tables of an earlier version, which have no index, are read without overflow pages.
   `collected` gives each transaction of the collector something to write: a commit without a changed
   page flushes nothing. */
const char *msgq_outbox_schema(void) {
  return "CREATE TABLE IF NOT EXISTS main.msgq_outbox(\n"
         "  number INTEGER PRIMARY KEY AUTOINCREMENT,\n"
         "  id TEXT NOT NULL UNIQUE,\n"
         "  conversation TEXT NOT NULL,\n"
         "  refused TEXT,\n"
         "  not_before_ms INTEGER,\n"
         "  expires_at_ms INTEGER,\n"
         "  time_ms INTEGER NOT NULL,\n"
         "  priority INTEGER NOT NULL DEFAULT 0,\n"
         "  replace_key TEXT,\n"
         "  unmetered_only INTEGER NOT NULL DEFAULT 0,\n"
         "  metadata BLOB,\n"
         "  body BLOB NOT NULL\n"
         ");\n"
         "CREATE INDEX IF NOT EXISTS main.msgq_outbox_waiting\n"
         "  ON msgq_outbox(number) WHERE refused IS NULL;\n"
         "CREATE TABLE IF NOT EXISTS main.msgq_outbox_store(\n"
         "  version INTEGER NOT NULL,\n"
         "  source TEXT NOT NULL,\n"
         "  collected INTEGER NOT NULL DEFAULT 0\n"
         ");\n"
         "INSERT INTO main.msgq_outbox_store(version, source)\n"
         "  SELECT 1, lower(hex(randomblob(16)))\n"
         "  WHERE NOT EXISTS (SELECT 1 FROM main.msgq_outbox_store);\n";
}

/* One statement, which also checks the version: with another one the id is NULL, which the table does
   not permit. The conflict is named, so that it can only be prepared where ids are unique. */
static const char put_sql[] =
    "INSERT INTO main.msgq_outbox(id, conversation, body, time_ms, not_before_ms, expires_at_ms,"
    " metadata, priority, replace_key, unmetered_only)"
    " VALUES((SELECT ?1 FROM main.msgq_outbox_store WHERE version = 1),"
    " ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
    " ON CONFLICT(id) DO NOTHING";

/* The same for a draft that has nothing else: a shorter statement, whose parameters have no names, is
   prepared faster. An id that is there is an error, after which `put_sql` says what it means. */
static const char plain_put_sql[] =
    "INSERT INTO main.msgq_outbox(id,conversation,body,time_ms)"
    "VALUES((SELECT ? FROM main.msgq_outbox_store WHERE version=1),?,?,?)";

/* Says why a statement about the tables could not be prepared. */
static msgq_result explain_tables(sqlite3 *db, msgq_result result) {
  if (sqlite_code != SQLITE_ERROR) return result;
  char said[sizeof detail / 2];
  snprintf(said, sizeof said, "%.*s", (int)sizeof said - 1, detail);
  sqlite3_stmt *statement = NULL;
  msgq_result looked = prepare(db,
                               "SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND"
                               " lower(name) IN ('msgq_outbox', 'msgq_outbox_store')",
                               "the outbox", &statement);
  if (looked != MSGQ_OK) return looked;
  int code = sqlite3_step(statement);
  int count = code == SQLITE_ROW ? sqlite3_column_int(statement, 0) : 0;
  if (code != SQLITE_ROW) looked = fail_sqlite(db, code, "the outbox");
  sqlite3_finalize(statement);
  if (looked != MSGQ_OK) return looked;
  result = count < 2
               ? fail(MSGQ_NOT_FOUND, "the database has no outbox: run msgq_outbox_schema() in it")
               : fail(MSGQ_CORRUPT, "the tables are not those of an outbox: %s", said);
  sqlite_code = SQLITE_ERROR;
  return result;
}

static msgq_result check_version(sqlite3_stmt *statement) {
  if (sqlite3_column_type(statement, 0) != SQLITE_INTEGER ||
      sqlite3_column_int64(statement, 0) < version) {
    return fail(MSGQ_CORRUPT, "msgq_outbox_store has no version");
  }
  int64_t found = sqlite3_column_int64(statement, 0);
  if (found > version) {
    return fail(MSGQ_TOO_NEW, "the outbox has version %lld; this program knows version %d",
                (long long)found, version);
  }
  return MSGQ_OK;
}

/* Reads a text without a zero byte; NULL: it is none. */
static const char *text_of(sqlite3_stmt *statement, int column, size_t *size) {
  if (sqlite3_column_type(statement, column) != SQLITE_TEXT) return NULL;
  const char *text = (const char *)sqlite3_column_text(statement, column);
  if (text == NULL) return NULL;
  *size = (size_t)sqlite3_column_bytes(statement, column);
  return memchr(text, 0, *size) == NULL ? text : NULL;
}

/* Checks that the tables are those of an outbox of this version; `source`, unless NULL, receives
   its name. */
static msgq_result check_tables(sqlite3 *db, char source[MSGQ_ID_SIZE]) {
  sqlite3_stmt *statement = NULL;
  msgq_result result =
      prepare(db, "SELECT version FROM main.msgq_outbox_store LIMIT 2", "the outbox", &statement);
  if (result != MSGQ_OK) return explain_tables(db, result);
  int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) {
    result = check_version(statement);
    if (result == MSGQ_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
      result = fail(MSGQ_CORRUPT, "msgq_outbox_store has more than one row");
    }
  } else if (code == SQLITE_DONE) result = fail(MSGQ_CORRUPT, "msgq_outbox_store has no row");
  if (code != SQLITE_ROW && code != SQLITE_DONE) result = fail_sqlite(db, code, "the outbox");
  sqlite3_finalize(statement);
  if (result != MSGQ_OK || source == NULL) return result;

  result =
      prepare(db, "SELECT source, collected FROM main.msgq_outbox_store", "the outbox", &statement);
  if (result != MSGQ_OK) return explain_tables(db, result);
  size_t size = 0;
  code = sqlite3_step(statement);
  const char *text = code == SQLITE_ROW ? text_of(statement, 0, &size) : NULL;
  if (code != SQLITE_ROW && code != SQLITE_DONE) result = fail_sqlite(db, code, "the outbox");
  else if (text == NULL || size == 0 || size > longest_name) {
    result = fail(MSGQ_CORRUPT, "msgq_outbox_store has no name of this source");
  } else memcpy(source, text, size + 1);
  sqlite3_finalize(statement);
  return result;
}

/* Checks the columns. Rows are deleted by number and by id, so each must name one row: only the
   primary key of a table can be AUTOINCREMENT. */
static msgq_result check_columns(sqlite3 *db) {
  sqlite3_stmt *statement = NULL;
  msgq_result result = prepare(db, put_sql, "the outbox", &statement);
  sqlite3_finalize(statement);
  if (result != MSGQ_OK) return explain_tables(db, result);
  int is_key = 0, is_numbered = 0;
  int code = sqlite3_table_column_metadata(db, "main", "msgq_outbox", "number", NULL, NULL, NULL,
                                           &is_key, &is_numbered);
  if (code == SQLITE_OK && is_key && is_numbered) return MSGQ_OK;
  return fail(MSGQ_CORRUPT,
              "the tables are not those of an outbox: number is not an AUTOINCREMENT primary key");
}

/* --------------------------------------------------------------------------------- 5. putting */

static msgq_result check_times(const msgq_draft *draft) {
  if (draft->time_ms < 0 || draft->time_ms > last_time_ms) {
    return fail(MSGQ_INVALID, "time_ms must be 0 to %lld, got %lld", (long long)last_time_ms,
                (long long)draft->time_ms);
  }
  if (draft->not_before_ms < 0) return fail(MSGQ_INVALID, "not_before_ms must not be negative");
  if (draft->expires_at_ms < 0) return fail(MSGQ_INVALID, "expires_at_ms must not be negative");
  if (draft->delay_ms < 0 || draft->delay_ms > longest_ms || draft->expiry_ms < 0 ||
      draft->expiry_ms > longest_ms) {
    return fail(MSGQ_INVALID, "delay_ms and expiry_ms must be 0 to %lld (10 years)",
                (long long)longest_ms);
  }
  if (draft->delay_ms > 0 && draft->not_before_ms > 0) {
    return fail(MSGQ_INVALID, "not_before_ms and delay_ms must not both be given");
  }
  if (draft->expiry_ms > 0 && draft->expires_at_ms > 0) {
    return fail(MSGQ_INVALID, "expires_at_ms and expiry_ms must not both be given");
  }
  return MSGQ_OK;
}

/* Sets the times in place of the durations. */
static msgq_result set_times(msgq_draft *draft, int64_t now) {
  if (draft->time_ms == 0) draft->time_ms = now < 1 ? 1 : now > last_time_ms ? last_time_ms : now;
  if (draft->delay_ms > 0) draft->not_before_ms = now + draft->delay_ms;
  if (draft->expiry_ms > 0) {
    int64_t start = draft->not_before_ms > 0 ? draft->not_before_ms : now;
    draft->expires_at_ms =
        start > INT64_MAX - draft->expiry_ms ? INT64_MAX : start + draft->expiry_ms;
  }
  if (draft->expires_at_ms > 0 && draft->expires_at_ms <= draft->not_before_ms) {
    return fail(MSGQ_INVALID, "the message must expire after its not-before time");
  }
  return MSGQ_OK;
}

/* Copies a draft, of which an older program knows fewer fields, and checks it. */
static msgq_result read_draft(const msgq_draft *given, msgq_draft *draft) {
  static const msgq_draft blank = MSGQ_DRAFT_INIT;
  *draft = blank;
  size_t size = given->struct_size;
  if (size < least_draft) return fail(MSGQ_INVALID, "struct_size is %zu", size);
  for (size_t index = sizeof *draft; index < size; index++) {
    if (((const unsigned char *)given)[index] != 0)
      return fail(MSGQ_INVALID, "struct_size is %zu", size);
  }
  memcpy(draft, given, size < sizeof *draft ? size : sizeof *draft);
  if (draft->conversation == NULL) draft->conversation = "";
  if (draft->replace_key != NULL && draft->replace_key[0] == '\0') draft->replace_key = NULL;
  if (draft->body == NULL && draft->body_size > 0) return fail(MSGQ_INVALID, "body is NULL");
  if (draft->metadata == NULL && draft->metadata_count > 0)
    return fail(MSGQ_INVALID, "metadata is NULL");
  if (draft->body_size > most_body) {
    return fail(MSGQ_TOO_LARGE, "the body has %zu bytes; the limit is %d bytes", draft->body_size,
                most_body);
  }
  if (draft->priority < -100 || draft->priority > 100) {
    return fail(MSGQ_INVALID, "the priority must be -100 to 100, got %d", (int)draft->priority);
  }
  msgq_result result = check_times(draft);
  if (result == MSGQ_OK && draft->id != NULL) {
    result = draft->id[0] == '\0' ? fail(MSGQ_INVALID, "the id must not be empty")
                                  : check_name(draft->id, "id");
  }
  if (result == MSGQ_OK) result = check_name(draft->conversation, "conversation");
  if (result == MSGQ_OK && draft->replace_key != NULL)
    result = check_name(draft->replace_key, "replace key");
  return result;
}

/* Whether pair `index` has the key of a pair before it. */
static bool is_repeated(const msgq_draft *draft, size_t index) {
  for (size_t earlier = 0; earlier < index; earlier++) {
    if (strcmp(draft->metadata[earlier].key, draft->metadata[index].key) == 0) return true;
  }
  return false;
}

/* Writes the metadata as they are stored: each key and each value, followed by a zero byte. `out`
   receives NULL when there are none. */
static msgq_result pack_metadata(const msgq_draft *draft, char **out, size_t *out_size) {
  size_t size = 0;
  *out = NULL;
  *out_size = 0;
  if (draft->metadata_count == 0) return MSGQ_OK;
  if (draft->metadata_count > most_pairs) {
    return fail(MSGQ_TOO_LARGE, "the message has %zu metadata pairs; the limit is %d",
                draft->metadata_count, most_pairs);
  }
  for (size_t index = 0; index < draft->metadata_count; index++) {
    const msgq_pair *pair = &draft->metadata[index];
    if (pair->key == NULL || pair->value == NULL)
      return fail(MSGQ_INVALID, "metadata pair %zu is NULL", index);
    if (pair->key[0] == '\0') return fail(MSGQ_INVALID, "a metadata key must not be empty");
    size += strnlen(pair->key, most_metadata + 1) + strnlen(pair->value, most_metadata + 1);
    if (size > most_metadata)
      return fail(MSGQ_TOO_LARGE, "the metadata have more than %d bytes", most_metadata);
    if (!is_utf8(pair->key) || !is_utf8(pair->value)) {
      return fail(MSGQ_INVALID, "metadata pair %zu is not UTF-8", index);
    }
    if (is_repeated(draft, index))
      return fail(MSGQ_INVALID, "metadata pair %zu has the key of another one", index);
  }
  size += draft->metadata_count * 2;
  char *text = malloc(size), *place = text;
  if (text == NULL) return fail_memory();
  for (size_t index = 0; index < draft->metadata_count; index++) {
    const char *parts[] = { draft->metadata[index].key, draft->metadata[index].value };
    for (int part = 0; part < 2; part++) {
      size_t length = strlen(parts[part]) + 1;
      memcpy(place, parts[part], length);
      place += length;
    }
  }
  *out = text;
  *out_size = size;
  return MSGQ_OK;
}

/* A draft that can be inserted. */
struct ready {
  msgq_draft draft;
  char id[MSGQ_ID_SIZE];
  char *metadata;
  size_t metadata_size;
};

/* Checks a draft and completes it. `ready` receives what `free` must be given, also after an error. */
static msgq_result make_ready(const msgq_draft *given, struct ready *ready) {
  int64_t now = now_ms();
  ready->metadata = NULL;
  ready->metadata_size = 0;
  msgq_result result = read_draft(given, &ready->draft);
  if (result == MSGQ_OK) result = set_times(&ready->draft, now);
  if (result == MSGQ_OK && ready->draft.id == NULL) {
    result = make_id(now, ready->id);
    ready->draft.id = ready->id;
  }
  if (result == MSGQ_OK)
    result = pack_metadata(&ready->draft, &ready->metadata, &ready->metadata_size);
  return result;
}

/* Whether `plain_put_sql` inserts all of it. */
static bool is_plain(const struct ready *ready) {
  const msgq_draft *draft = &ready->draft;
  return ready->metadata == NULL && draft->not_before_ms == 0 && draft->expires_at_ms == 0 &&
         draft->priority == 0 && draft->replace_key == NULL && !draft->unmetered_only;
}

/* Binds what every statement has. Returns the code of SQLite. */
static int bind_content(sqlite3_stmt *statement, const msgq_draft *draft) {
  int code = bind_text(statement, 1, draft->id);
  if (code == SQLITE_OK) code = bind_text(statement, 2, draft->conversation);
  /* A pointer that is NULL would be bound as NULL. */
  if (code == SQLITE_OK)
    code = sqlite3_bind_blob64(statement, 3, draft->body_size > 0 ? draft->body : "",
                               draft->body_size, SQLITE_STATIC);
  if (code == SQLITE_OK) code = sqlite3_bind_int64(statement, 4, draft->time_ms);
  return code;
}

static int bind_all(sqlite3_stmt *statement, const struct ready *ready) {
  const msgq_draft *draft = &ready->draft;
  int codes[] = {
    bind_content(statement, draft),
    bind_number(statement, 5, draft->not_before_ms, draft->not_before_ms == 0),
    bind_number(statement, 6, draft->expires_at_ms, draft->expires_at_ms == 0),
    ready->metadata == NULL
        ? sqlite3_bind_null(statement, 7)
        : sqlite3_bind_blob64(statement, 7, ready->metadata, ready->metadata_size, SQLITE_STATIC),
    bind_number(statement, 8, draft->priority, false),
    bind_text(statement, 9, draft->replace_key),
    bind_number(statement, 10, draft->unmetered_only ? 1 : 0, false),
  };
  for (size_t index = 0; index < sizeof codes / sizeof *codes; index++) {
    if (codes[index] != SQLITE_OK) return codes[index];
  }
  return SQLITE_OK;
}

/* Prepares a statement that inserts a row. */
static msgq_result prepare_put(sqlite3 *db, const char *sql, sqlite3_stmt **out) {
  int is_required = 0;
  msgq_result result = prepare(db, sql, "the outbox", out);
  if (result != MSGQ_OK) return explain_tables(db, result);
  int code = sqlite3_table_column_metadata(db, "main", "msgq_outbox", "id", NULL, NULL,
                                           &is_required, NULL, NULL);
  if (code == SQLITE_OK && is_required) return MSGQ_OK;
  sqlite3_finalize(*out);
  *out = NULL;
  return fail(MSGQ_CORRUPT, "the tables are not those of an outbox: id may be NULL");
}

/* Runs an insertion. `is_stored` receives whether there is a row more. What belongs to the host's
   connection beside its data is left as it was. Returns the code of SQLite. */
static int run_put(sqlite3 *db, sqlite3_stmt *statement, int bound, bool *is_stored) {
  sqlite3_int64 last = sqlite3_last_insert_rowid(db);
  int code = bound == SQLITE_OK ? sqlite3_step(statement) : bound;
  *is_stored = code == SQLITE_DONE && sqlite3_changes(db) > 0;
  sqlite3_set_last_insert_rowid(db, last);
  return code;
}

/* Inserts the row by `put_sql`. */
static msgq_result insert(sqlite3 *db, sqlite3_stmt *statement, const struct ready *ready) {
  bool is_stored = false;
  int code = run_put(db, statement, bind_all(statement, ready), &is_stored);
  msgq_result result = code == SQLITE_DONE ? MSGQ_OK : fail_sqlite(db, code, "the outbox");
  sqlite3_reset(statement);
  if (is_stored) return MSGQ_OK;
  if (result == MSGQ_OK) {
    result = check_tables(db, NULL);
    if (result != MSGQ_OK) return result;
    return fail(MSGQ_DUPLICATE, "id %s is in the outbox", ready->draft.id);
  }
  if (sqlite_code != SQLITE_CONSTRAINT_NOTNULL) return result;
  /* The version, or a trigger of the host. */
  struct failure first = failure_of(result);
  result = check_tables(db, NULL);
  return result != MSGQ_OK ? result : fail_again(&first);
}

/* Inserts the row by `plain_put_sql`. `is_left` receives whether `put_sql` must do it, or say why it
   cannot. */
static msgq_result insert_plain(sqlite3 *db, const struct ready *ready, bool *is_left) {
  sqlite3_stmt *statement = NULL;
  bool is_stored = false;
  *is_left = false;
  msgq_result result = prepare_put(db, plain_put_sql, &statement);
  if (result != MSGQ_OK) return result;
  int code = run_put(db, statement, bind_content(statement, &ready->draft), &is_stored);
  /* After the other constraints nothing is stored, and the transaction is as it was. */
  int kind = sqlite3_extended_errcode(db);
  *is_left = code == SQLITE_CONSTRAINT &&
             (kind == SQLITE_CONSTRAINT_UNIQUE || kind == SQLITE_CONSTRAINT_NOTNULL);
  if (!is_stored && !*is_left) result = fail_sqlite(db, code, "the outbox");
  sqlite3_finalize(statement);
  return result;
}

/* Inserts the row by a statement of its own. */
static msgq_result insert_one(sqlite3 *db, const struct ready *ready) {
  sqlite3_stmt *statement = NULL;
  if (is_plain(ready)) {
    bool is_left = false;
    msgq_result result = insert_plain(db, ready, &is_left);
    if (!is_left) return result;
  }
  msgq_result result = prepare_put(db, put_sql, &statement);
  if (result == MSGQ_OK) result = insert(db, statement, ready);
  sqlite3_finalize(statement);
  return result;
}

/* Checks a draft and inserts its row; by `statement`, unless NULL. */
static msgq_result put_one(sqlite3 *db, sqlite3_stmt *statement, const msgq_draft *given,
                           char *id_out) {
  struct ready ready;
  msgq_result result = make_ready(given, &ready);
  if (result == MSGQ_OK)
    result = statement != NULL ? insert(db, statement, &ready) : insert_one(db, &ready);
  if (result == MSGQ_OK && id_out != NULL)
    memmove(id_out, ready.draft.id, strlen(ready.draft.id) + 1);
  free(ready.metadata);
  return result;
}

msgq_result msgq_outbox_put(sqlite3 *db, const msgq_draft *draft, char id_out[MSGQ_ID_SIZE]) {
  if (db == NULL) return fail(MSGQ_INVALID, "db is NULL");
  if (draft == NULL) return fail(MSGQ_INVALID, "draft is NULL");
  return put_one(db, NULL, draft, id_out);
}

/* Puts the drafts up to the first that fails. */
static msgq_result put_each(sqlite3 *db, const msgq_draft *drafts, size_t count,
                            char (*ids_out)[MSGQ_ID_SIZE]) {
  sqlite3_stmt *statement = NULL;
  size_t size = drafts->struct_size;
  msgq_result result = prepare_put(db, put_sql, &statement);
  for (size_t index = 0; result == MSGQ_OK && index < count; index++) {
    const void *place = (const char *)drafts + index * size;
    result = ((const msgq_draft *)place)->struct_size == size
                 ? put_one(db, statement, place, ids_out != NULL ? ids_out[index] : NULL)
                 : fail(MSGQ_INVALID, "struct_size differs");
    if (result == MSGQ_OK) continue;
    char said[sizeof detail - 32];
    snprintf(said, sizeof said, "%.*s", (int)sizeof said - 1, detail);
    snprintf(detail, sizeof detail, "%zu: %s", index, said);
  }
  sqlite3_finalize(statement);
  return result;
}

msgq_result msgq_outbox_put_batch(sqlite3 *db, const msgq_draft *drafts, size_t count,
                                  char (*ids_out)[MSGQ_ID_SIZE]) {
  if (db == NULL) return fail(MSGQ_INVALID, "db is NULL");
  if (count > most_limit) return fail(MSGQ_INVALID, "count must be 0 to %d", most_limit);
  if (count == 0) return MSGQ_OK;
  if (drafts == NULL) return fail(MSGQ_INVALID, "drafts is NULL");
  if (drafts->struct_size < least_draft || drafts->struct_size > most_draft) {
    return fail(MSGQ_INVALID, "struct_size is %zu", (size_t)drafts->struct_size);
  }
  bool is_alone = sqlite3_get_autocommit(db) != 0;
  msgq_result result =
      run_text(db, is_alone ? "BEGIN IMMEDIATE" : "SAVEPOINT msgq_outbox_put", "the outbox");
  if (result != MSGQ_OK) return result;
  result = put_each(db, drafts, count, ids_out);
  if (result == MSGQ_OK) {
    result = run_text(db, is_alone ? "COMMIT" : "RELEASE msgq_outbox_put", "the outbox");
  }
  if (result == MSGQ_OK || sqlite3_get_autocommit(db) != 0) return result;
  if (!is_alone) run_quietly(db, "ROLLBACK TO msgq_outbox_put");
  run_quietly(db, is_alone ? "ROLLBACK" : "RELEASE msgq_outbox_put");
  return result;
}

/* ------------------------------------------------------------------------------------ 6. rows */

/* A row that was read, with what the queue is asked about it. */
struct row {
  int64_t number;
  const char *refused; /* static: why it is not a draft; NULL: it is */
  char *reason;        /* why the queue cannot keep it */
  char *texts;
  msgq_pair *pairs;
  msgq_draft draft;
  bool is_taken;
};

static void free_row(struct row *row) {
  free(row->reason);
  free(row->texts);
  free(row->pairs);
}

enum column {
  column_number,
  column_id,
  column_conversation,
  column_not_before,
  column_expires_at,
  column_time,
  column_priority,
  column_replace_key,
  column_unmetered_only,
  column_metadata,
  column_body,
};

static const char read_sql[] =
    "SELECT number, id, conversation, not_before_ms, expires_at_ms, time_ms, priority, replace_key,"
    " unmetered_only, metadata, body FROM main.msgq_outbox WHERE refused IS NULL ORDER BY number";

static bool is_null(sqlite3_stmt *statement, enum column column) {
  return sqlite3_column_type(statement, column) == SQLITE_NULL;
}

/* Reads a number; 0 for NULL. Returns false if it is none. */
static bool read_number(sqlite3_stmt *statement, enum column column, bool may_be_null,
                        int64_t *out) {
  if (is_null(statement, column) && may_be_null) return *out = 0, true;
  if (sqlite3_column_type(statement, column) != SQLITE_INTEGER) return false;
  *out = sqlite3_column_int64(statement, column);
  return true;
}

static const char *read_numbers(sqlite3_stmt *statement, msgq_draft *draft) {
  int64_t priority = 0, unmetered_only = 0;
  if (!read_number(statement, column_not_before, true, &draft->not_before_ms))
    return "not_before_ms is not an integer";
  if (!read_number(statement, column_expires_at, true, &draft->expires_at_ms))
    return "expires_at_ms is not an integer";
  if (!read_number(statement, column_time, false, &draft->time_ms))
    return "time_ms is not an integer";
  if (!read_number(statement, column_priority, false, &priority))
    return "priority is not an integer";
  if (!read_number(statement, column_unmetered_only, false, &unmetered_only))
    return "unmetered_only is not an integer";
  if (priority < INT32_MIN || priority > INT32_MAX) return "priority is not -100 to 100";
  if (unmetered_only < 0 || unmetered_only > 1) return "unmetered_only is not 0 or 1";
  draft->priority = (int32_t)priority;
  draft->unmetered_only = unmetered_only == 1;
  return NULL;
}

/* Finds the keys and the values in the stored metadata, which end with a zero byte. */
static const char *read_pairs(const char *text, size_t size, struct row *row) {
  size_t ends = 0;
  if (size == 0) return NULL;
  if (text[size - 1] != '\0') return "metadata do not end with a zero byte";
  for (size_t index = 0; index < size; index++) ends += text[index] == '\0';
  if (ends % 2 != 0) return "metadata have a key without a value";
  row->pairs = malloc(ends / 2 * sizeof *row->pairs);
  if (row->pairs == NULL) return NULL;
  for (size_t index = 0; index < ends / 2; index++) {
    row->pairs[index].key = text;
    text += strlen(text) + 1;
    row->pairs[index].value = text;
    text += strlen(text) + 1;
  }
  row->draft.metadata = row->pairs;
  row->draft.metadata_count = ends / 2;
  return NULL;
}

/* Appends bytes and a zero byte to the texts of a row. */
static char *append(char **place, const void *bytes, size_t size) {
  char *begin = *place;
  if (size > 0) memcpy(begin, bytes, size);
  begin[size] = '\0';
  *place += size + 1;
  return begin;
}

/* Copies the row of a statement, which is finalized before the queue is asked. `refused` is set if
   it is not a message. */
static msgq_result read_row(sqlite3 *db, sqlite3_stmt *statement, struct row *row, size_t *bytes) {
  static const msgq_draft blank = MSGQ_DRAFT_INIT;
  *row = (struct row){ .number = sqlite3_column_int64(statement, column_number), .draft = blank };
  size_t id_size = 0, conversation_size = 0, key_size = 0;
  const char *id = text_of(statement, column_id, &id_size);
  const char *conversation = text_of(statement, column_conversation, &conversation_size);
  const char *key = text_of(statement, column_replace_key, &key_size);
  /* The types, before a value is converted. */
  int metadata_type = sqlite3_column_type(statement, column_metadata);
  int body_type = sqlite3_column_type(statement, column_body);
  const void *metadata = sqlite3_column_blob(statement, column_metadata);
  size_t metadata_size = (size_t)sqlite3_column_bytes(statement, column_metadata);
  const void *body = sqlite3_column_blob(statement, column_body);
  size_t body_size = (size_t)sqlite3_column_bytes(statement, column_body);
  if ((sqlite3_errcode(db) & 0xff) == SQLITE_NOMEM)
    return fail_sqlite(db, SQLITE_NOMEM, "the outbox");
  row->refused =
      id == NULL                                                     ? "id is not a text"
      : conversation == NULL                                         ? "conversation is not a text"
      : key == NULL && !is_null(statement, column_replace_key)       ? "replace_key is not a text"
      : metadata_type != SQLITE_NULL && metadata_type != SQLITE_BLOB ? "metadata is not a blob"
      : body_type != SQLITE_BLOB                                     ? "body is not a blob"
                                 : read_numbers(statement, &row->draft);
  if (row->refused != NULL) return MSGQ_OK;
  size_t size = id_size + conversation_size + key_size + metadata_size + body_size + 5;
  char *place = row->texts = malloc(size);
  if (row->texts == NULL) return fail_memory();
  row->draft.id = append(&place, id, id_size);
  row->draft.conversation = append(&place, conversation, conversation_size);
  if (key != NULL) row->draft.replace_key = append(&place, key, key_size);
  const char *stored = append(&place, metadata, metadata_size);
  row->draft.body = append(&place, body, body_size);
  row->draft.body_size = body_size;
  row->refused = read_pairs(stored, metadata_size, row);
  if (row->refused == NULL && row->draft.metadata_count == 0 && metadata_size > 0)
    return fail_memory();
  *bytes += size;
  return MSGQ_OK;
}

/* ------------------------------------------------------------------------------ 7. collecting */

struct collector {
  sqlite3 *db;
  msgq_queue *queue;
  char source[MSGQ_ID_SIZE];
  msgq_hand_over *list;
  bool has_looked; /* the rows of the list are not deleted yet */
  struct row *rows;
  size_t count;
};

static void free_rows(struct collector *collector) {
  for (size_t index = 0; index < collector->count; index++) free_row(&collector->rows[index]);
  collector->count = 0;
}

/* Looks at what was handed over. Its rows are deleted by the next transaction. */
static msgq_result look(struct collector *collector) {
  msgq_hand_over *list = NULL;
  msgq_result result = msgq_handed_over(collector->queue, collector->source, &list);
  if (result != MSGQ_OK) return fail_queue(result);
  msgq_handed_over_free(collector->list);
  collector->list = list;
  collector->has_looked = true;
  return MSGQ_OK;
}

/* Whether the queue has, or had, messages whose rows may be here. */
static bool is_open(const struct collector *collector) {
  /* Those that could not be kept are the last ones. */
  const msgq_handed *first = msgq_handed_over_at(collector->list, 0);
  return first != NULL && first->result == MSGQ_OK;
}

static msgq_result has_rows(sqlite3 *db, bool *out) {
  sqlite3_stmt *statement = NULL;
  msgq_result result =
      prepare(db, "SELECT EXISTS (SELECT 1 FROM main.msgq_outbox WHERE refused IS NULL)",
              "the outbox", &statement);
  if (result != MSGQ_OK) return result;
  int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) *out = sqlite3_column_int(statement, 0) != 0;
  else result = fail_sqlite(db, code, "the outbox");
  sqlite3_finalize(statement);
  return result;
}

/* Makes the commit of this transaction flush the earlier ones with it. */
static msgq_result mark(struct collector *collector) {
  sqlite3_stmt *statement = NULL;
  msgq_result result = prepare(
      collector->db,
      "UPDATE main.msgq_outbox_store SET collected = CASE collected WHEN 0 THEN 1 ELSE 0 END"
      " WHERE version = 1 AND source = ?1 COLLATE BINARY",
      "the outbox", &statement);
  if (result != MSGQ_OK) return result;
  int code = bind_text(statement, 1, collector->source);
  result = code == SQLITE_OK ? run(collector->db, statement, "the outbox")
                             : fail_sqlite(collector->db, code, "the outbox");
  sqlite3_finalize(statement);
  if (result == MSGQ_OK && sqlite3_changes(collector->db) != 1) {
    result = fail(MSGQ_CONFLICT, "msgq_outbox_store was changed by another program");
  }
  return result;
}

/* After a deletion or a refusal that changed no row: the host may have deleted the row before, but a
   trigger of the host must not keep it, because it would be collected again. Finds the row by its
   id, or (NULL) by its number. */
static msgq_result check_is_gone(sqlite3 *db, const char *id, sqlite3_int64 number) {
  sqlite3_stmt *kept = NULL;
  msgq_result result =
      prepare(db,
              id != NULL ? "SELECT 1 FROM main.msgq_outbox WHERE id = ?1 COLLATE BINARY"
                         : "SELECT 1 FROM main.msgq_outbox WHERE number = ?1 AND refused IS NULL",
              "the outbox", &kept);
  if (result != MSGQ_OK) return result;
  int code = id != NULL ? bind_text(kept, 1, id) : sqlite3_bind_int64(kept, 1, number);
  if (code == SQLITE_OK) code = sqlite3_step(kept);
  if (code == SQLITE_ROW)
    result = fail(MSGQ_CONFLICT, "the outbox: a trigger keeps a row that was collected as it is");
  else if (code != SQLITE_DONE) result = fail_sqlite(db, code, "the outbox");
  sqlite3_finalize(kept);
  return result;
}

/* Deletes the rows of what the list has. A collector that was interrupted left them. */
static msgq_result delete_listed(struct collector *collector) {
  sqlite3_stmt *statement = NULL;
  if (!collector->has_looked) return MSGQ_OK;
  msgq_result result =
      prepare(collector->db, "DELETE FROM main.msgq_outbox WHERE id = ?1 COLLATE BINARY",
              "the outbox", &statement);
  for (size_t index = 0; result == MSGQ_OK && index < msgq_handed_over_size(collector->list);
       index++) {
    const msgq_handed *handed = msgq_handed_over_at(collector->list, index);
    if (handed->result != MSGQ_OK) break;
    int code = bind_text(statement, 1, handed->id);
    result = code == SQLITE_OK ? run(collector->db, statement, "the outbox")
                               : fail_sqlite(collector->db, code, "the outbox");
    if (result == MSGQ_OK && sqlite3_changes(collector->db) == 0)
      result = check_is_gone(collector->db, handed->id, 0);
  }
  sqlite3_finalize(statement);
  return result;
}

/* Deletes the rows of the round before, or writes why they were refused. */
static msgq_result settle_rows(struct collector *collector) {
  sqlite3 *db = collector->db;
  sqlite3_stmt *removal = NULL, *refusal = NULL;
  msgq_result result =
      prepare(db, "DELETE FROM main.msgq_outbox WHERE number = ?1", "the outbox", &removal);
  if (result == MSGQ_OK)
    result = prepare(db, "UPDATE main.msgq_outbox SET refused = ?2 WHERE number = ?1", "the outbox",
                     &refusal);
  for (size_t index = 0; result == MSGQ_OK && index < collector->count; index++) {
    const struct row *row = &collector->rows[index];
    const char *reason = row->refused != NULL ? row->refused : row->reason;
    if (!row->is_taken && reason == NULL) continue;
    sqlite3_stmt *statement = row->is_taken ? removal : refusal;
    int code = sqlite3_bind_int64(statement, 1, row->number);
    if (code == SQLITE_OK && !row->is_taken) code = bind_text(statement, 2, reason);
    result =
        code == SQLITE_OK ? run(db, statement, "the outbox") : fail_sqlite(db, code, "the outbox");
    if (result == MSGQ_OK && sqlite3_changes(db) == 0)
      result = check_is_gone(db, NULL, row->number);
  }
  sqlite3_finalize(removal);
  sqlite3_finalize(refusal);
  return result;
}

/* Reads the next rows. Nobody else writes while this transaction is open, so that its commit flushes
   every row that is read. */
static msgq_result read_rows(struct collector *collector, size_t limit) {
  sqlite3_stmt *statement = NULL;
  size_t bytes = 0;
  int code = SQLITE_DONE;
  msgq_result result = prepare(collector->db, read_sql, "the outbox", &statement);
  if (limit > most_rows) limit = most_rows;
  while (result == MSGQ_OK && collector->count < limit && bytes < most_bytes) {
    code = sqlite3_step(statement);
    if (code != SQLITE_ROW) break;
    struct row *row = &collector->rows[collector->count];
    result = read_row(collector->db, statement, row, &bytes);
    if (result == MSGQ_OK) collector->count++;
    else free_row(row);
  }
  if (result == MSGQ_OK && code != SQLITE_ROW && code != SQLITE_DONE)
    result = fail_sqlite(collector->db, code, "the outbox");
  sqlite3_finalize(statement);
  return result;
}

/* One transaction of the host's database: deletes what the queue has, and reads what is next. */
static msgq_result turn(struct collector *collector, size_t limit) {
  msgq_result result = run_text(collector->db, "BEGIN IMMEDIATE", "the outbox");
  if (result != MSGQ_OK) return result;
  result = mark(collector);
  if (result == MSGQ_OK) result = delete_listed(collector);
  if (result == MSGQ_OK) result = settle_rows(collector);
  free_rows(collector);
  if (result == MSGQ_OK && limit > 0) result = read_rows(collector, limit);
  if (result == MSGQ_OK) result = run_text(collector->db, "COMMIT", "the commit of the outbox");
  if (result == MSGQ_OK) return MSGQ_OK;
  free_rows(collector);
  /* An error may have ended the transaction. The first error is the one to report. */
  if (sqlite3_get_autocommit(collector->db) == 0) run_quietly(collector->db, "ROLLBACK");
  return result;
}

/* Keeps the reasons of the queue for what it could not keep, from a new look. */
static msgq_result note_reasons(struct collector *collector, struct row **asked,
                                const msgq_result *results, size_t count) {
  bool is_any = false;
  for (size_t index = 0; index < count; index++) is_any = is_any || !asked[index]->is_taken;
  if (!is_any) return MSGQ_OK;
  msgq_result result = look(collector);
  if (result != MSGQ_OK) return result;
  for (size_t index = 0; index < count; index++) {
    struct row *row = asked[index];
    if (row->is_taken) continue;
    /* The list shows an id that is not valid in another form. */
    const char *reason =
        results[index] == MSGQ_TOO_LARGE ? "the message is too large" : "the id is not valid";
    for (size_t place = msgq_handed_over_size(collector->list); place-- > 0;) {
      const msgq_handed *handed = msgq_handed_over_at(collector->list, place);
      if (handed->result == MSGQ_OK) break;
      if (strcmp(handed->id, row->draft.id) == 0) reason = handed->text;
    }
    row->reason = strdup(reason);
    if (row->reason == NULL) return fail_memory();
  }
  return MSGQ_OK;
}

/* Hands the rows over to the queue. `moved` receives how many it has. */
static msgq_result take_over(struct collector *collector, size_t *moved) {
  msgq_draft *drafts = malloc(collector->count * sizeof *drafts);
  msgq_result *results = malloc(collector->count * sizeof *results);
  struct row **asked = malloc(collector->count * sizeof *asked);
  size_t count = 0;
  msgq_result result = drafts != NULL && results != NULL && asked != NULL ? MSGQ_OK : fail_memory();
  for (size_t index = 0; result == MSGQ_OK && index < collector->count; index++) {
    struct row *row = &collector->rows[index];
    if (row->refused != NULL) continue;
    asked[count] = row;
    drafts[count++] = row->draft;
  }
  if (result == MSGQ_OK && count > 0) {
    result = msgq_take_over(collector->queue, collector->list, drafts, count, results);
    /* There may be room for some of them. */
    while (result == MSGQ_FULL && count > 1) {
      count /= 2;
      result = msgq_take_over(collector->queue, collector->list, drafts, count, results);
    }
    if (result != MSGQ_OK) fail_queue(result);
  }
  for (size_t index = 0; result == MSGQ_OK && index < count; index++) {
    asked[index]->is_taken = results[index] == MSGQ_OK || results[index] == MSGQ_DUPLICATE;
    if (asked[index]->is_taken) (*moved)++;
  }
  if (result == MSGQ_OK) result = note_reasons(collector, asked, results, count);
  free(asked);
  free(results);
  free(drafts);
  return result;
}

/* Moves messages in rounds. Each transaction deletes what the round before it moved. */
static msgq_result move(struct collector *collector, size_t limit, size_t *moved) {
  for (;;) {
    bool is_handed = is_open(collector) || collector->count > 0;
    msgq_result result = turn(collector, limit - *moved);
    if (result != MSGQ_OK) return result;
    if (is_handed) {
      result = msgq_hand_over_done(collector->queue, collector->list);
      if (result != MSGQ_OK) return fail_queue(result);
    }
    collector->has_looked = false;
    if (collector->count == 0) return MSGQ_OK;
    result = take_over(collector, moved);
    if (result != MSGQ_OK) return result;
  }
}

static msgq_result synchronous(sqlite3 *db, int *level) {
  sqlite3_stmt *statement = NULL;
  msgq_result result = prepare(db, "PRAGMA main.synchronous", "synchronous", &statement);
  if (result != MSGQ_OK) return result;
  int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) *level = sqlite3_column_int(statement, 0);
  else result = fail_sqlite(db, code, "synchronous");
  sqlite3_finalize(statement);
  return result;
}

static msgq_result set_synchronous(sqlite3 *db, int level) {
  char sql[64];
  snprintf(sql, sizeof sql, "PRAGMA main.synchronous = %d", level);
  return run_text(db, sql, "synchronous");
}

/* Moves messages with commits that survive a power cut. */
static msgq_result move_durably(struct collector *collector, size_t limit, size_t *moved) {
  int before = 0;
  msgq_result result = synchronous(collector->db, &before);
  if (result != MSGQ_OK) return result;
  if (before < synchronous_extra) result = set_synchronous(collector->db, synchronous_extra);
  if (result != MSGQ_OK) return result;
  result = move(collector, limit, moved);
  if (before >= synchronous_extra) return result;
  struct failure first = failure_of(result);
  msgq_result restored = set_synchronous(collector->db, before);
  return result == MSGQ_OK ? restored : fail_again(&first);
}

msgq_result msgq_outbox_collect(sqlite3 *db, msgq_queue *queue, size_t limit, size_t *moved) {
  struct collector collector = { .db = db, .queue = queue };
  size_t count = 0;
  bool is_waiting = false;
  if (moved != NULL) *moved = 0;
  if (db == NULL) return fail(MSGQ_INVALID, "db is NULL");
  if (queue == NULL) return fail(MSGQ_INVALID, "queue is NULL");
  if (limit < 1 || limit > most_limit)
    return fail(MSGQ_INVALID, "limit must be 1 to %d", most_limit);
  if (sqlite3_get_autocommit(db) == 0)
    return fail(MSGQ_CONFLICT, "the connection is inside a transaction");
  if (sqlite3_db_readonly(db, "main") != 0)
    return fail(MSGQ_PERMISSION, "the database can only be read");
  msgq_result result = check_tables(db, collector.source);
  if (result == MSGQ_OK) result = check_columns(db);
  if (result == MSGQ_OK) result = look(&collector);
  if (result == MSGQ_OK) result = has_rows(db, &is_waiting);
  if (result == MSGQ_OK && (is_waiting || is_open(&collector))) {
    collector.rows = malloc(most_rows * sizeof *collector.rows);
    result = collector.rows == NULL ? fail_memory() : move_durably(&collector, limit, &count);
  }
  free_rows(&collector);
  free(collector.rows);
  msgq_handed_over_free(collector.list);
  if (moved != NULL) *moved = count;
  return result;
}

/* ---------------------------------------------------------------- 8. asking the owner of the queue */

static msgq_result fail_system(const char *path) {
  int error = errno;
  msgq_result result = error == ENOENT || error == ECONNREFUSED ? MSGQ_NOT_FOUND
                       : error == EACCES || error == EPERM      ? MSGQ_PERMISSION
                                                                : MSGQ_STORAGE;
  return fail(result, "%s: %s", path, strerror(error));
}

static int64_t steady_ms(void) {
  struct timespec time = { 0, 0 };
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Writes the address of the control socket. A path that is too long for one is reached through the
   directory, whose descriptor `directory` receives; -1: none. */
static msgq_result control_address(const char *store, struct sockaddr_un *address, int *directory) {
  static const char suffix[] = "-control";
  size_t size = strlen(store);
  const char *slash = strrchr(store, '/');
  const char *name = slash != NULL ? slash + 1 : store;
  *directory = -1;
  *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
  if (size + sizeof suffix <= sizeof address->sun_path) {
    memcpy(address->sun_path, store, size);
    memcpy(address->sun_path + size, suffix, sizeof suffix);
    return MSGQ_OK;
  }
  char *path = slash != NULL ? strndup(store, (size_t)(slash - store) + 1) : strdup(".");
  if (path == NULL) return fail_memory();
  *directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  msgq_result result = *directory < 0 ? fail_system(path) : MSGQ_OK;
  free(path);
  if (result != MSGQ_OK) return result;
  int length = snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%.90s%s",
                        *directory, name, suffix);
  if (strlen(name) <= 90 && length > 0 && (size_t)length < sizeof address->sun_path) return MSGQ_OK;
  close(*directory);
  *directory = -1;
  return fail(MSGQ_INVALID, "the name of the store is too long for a socket");
}

/* Connects to the socket of this user, or of root. `out` receives the descriptor. */
static msgq_result connect_control(const char *store, int *out) {
  struct sockaddr_un address;
  int directory = -1;
  msgq_result result = control_address(store, &address, &directory);
  if (result != MSGQ_OK) return result;
  int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (peer < 0 || connect(peer, (struct sockaddr *)&address, sizeof address) != 0) {
    result =
        errno == EAGAIN ? fail(MSGQ_TIMEOUT, "the owner of %s is busy", store) : fail_system(store);
  }
  struct ucred other = { 0, 0, 0 };
  socklen_t size = sizeof other;
  if (result == MSGQ_OK && getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0)
    result = fail_system(store);
  if (result == MSGQ_OK && other.uid != geteuid() && other.uid != 0) {
    result = fail(MSGQ_PERMISSION, "the socket of %s belongs to another user", store);
  }
  if (directory >= 0) close(directory);
  if (result == MSGQ_OK) *out = peer;
  else if (peer >= 0) close(peer);
  return result;
}

/* Waits until the socket can be read or written. */
static msgq_result await_peer(int peer, short events, int64_t end) {
  for (;;) {
    int64_t left = end - steady_ms();
    struct pollfd one = { peer, events, 0 };
    if (left <= 0) return fail(MSGQ_TIMEOUT, "the owner of the queue does not answer");
    int count = poll(&one, 1, (int)left);
    if (count > 0) return MSGQ_OK;
    if (count < 0 && errno != EINTR) return fail_system("poll");
  }
}

/* Reads a line, of which `line` receives the beginning. */
static msgq_result read_line(int peer, char *line, size_t room, int64_t end) {
  size_t length = 0;
  for (;;) {
    char byte = 0;
    msgq_result result = await_peer(peer, POLLIN, end);
    if (result != MSGQ_OK) return result;
    ssize_t count = recv(peer, &byte, 1, 0);
    if (count == 0) return fail(MSGQ_NOT_FOUND, "the owner of the queue has closed the connection");
    if (count < 0 && errno != EAGAIN && errno != EINTR) return fail_system("the control socket");
    if (count == 1 && byte == '\n') break;
    if (count == 1 && length + 1 < room) line[length++] = byte;
  }
  line[length] = '\0';
  return MSGQ_OK;
}

/* What an answer says. */
static msgq_result read_answer(const char *line) {
  if (strstr(line, "\"result\":{") != NULL) return MSGQ_OK;
  for (int number = MSGQ_INVALID; number <= MSGQ_INTERNAL; number++) {
    char code[64];
    snprintf(code, sizeof code, "\"code\":\"%s\"",
             msgq_result_name((msgq_result)number) + strlen("MSGQ_"));
    if (strstr(line, code) != NULL)
      return fail((msgq_result)number, "the owner of the queue answered %s", line);
  }
  return fail(MSGQ_INTERNAL, "the owner of the queue answered %s", line);
}

static msgq_result ask(int peer) {
  static const char request[] = "{\"id\":1,\"call\":\"request_collect\"}\n";
  int64_t end = steady_ms() + longest_kick_ms;
  char line[512];
  msgq_result result = read_line(peer, line, sizeof line, end);
  if (result != MSGQ_OK) return result;
  if (strstr(line, "\"protocol\":1,") == NULL && strstr(line, "\"protocol\":1}") == NULL) {
    return fail(MSGQ_TOO_NEW, "the owner of the queue has another protocol");
  }
  for (size_t sent = 0; sent < sizeof request - 1;) {
    result = await_peer(peer, POLLOUT, end);
    if (result != MSGQ_OK) return result;
    ssize_t count = send(peer, request + sent, sizeof request - 1 - sent, MSG_NOSIGNAL);
    if (count > 0) sent += (size_t)count;
    else if (count < 0 && errno != EAGAIN && errno != EINTR)
      return fail_system("the control socket");
  }
  result = read_line(peer, line, sizeof line, end);
  return result == MSGQ_OK ? read_answer(line) : result;
}

msgq_result msgq_outbox_kick(const char *store_path) {
  int peer = -1;
  if (store_path == NULL || store_path[0] == '\0')
    return fail(MSGQ_INVALID, "store_path is NULL or empty");
  msgq_result result = connect_control(store_path, &peer);
  if (result != MSGQ_OK) return result;
  result = ask(peer);
  close(peer);
  return result;
}
