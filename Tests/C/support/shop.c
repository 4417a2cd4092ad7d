#include "shop.h"

#include <stdio.h>
#include <string.h>

sqlite3 *shop_connect(const struct shop *shop) {
  sqlite3 *database = NULL;
  REQUIRE(sqlite3_open(shop->path, &database) == SQLITE_OK);
  REQUIRE(shop_try(database, "PRAGMA journal_mode = WAL") == SQLITE_OK);
  return database;
}

void shop_begin(struct shop *shop, const struct scene *scene, const char *schema) {
  snprintf(shop->path, sizeof shop->path, "%s", scene_file(scene, "shop.db"));
  shop->database = shop_connect(shop);
  shop_run(shop, "CREATE TABLE orders(number INTEGER PRIMARY KEY, text TEXT)");
  shop_run(shop, schema);
}

void shop_end(struct shop *shop) {
  REQUIRE(sqlite3_close(shop->database) == SQLITE_OK); /* BUSY: a statement was left */
  shop->database = NULL;
}

int shop_try(sqlite3 *database, const char *sql) { return sqlite3_exec(database, sql, NULL, NULL, NULL); }

void shop_run(struct shop *shop, const char *sql) {
  if (shop_try(shop->database, sql) == SQLITE_OK) return;
  fprintf(stderr, "  %s: %s\n", sql, sqlite3_errmsg(shop->database));
  REQUIRE(!"the statement failed");
}

static sqlite3_stmt *first_row(struct shop *shop, const char *sql, int *code) {
  sqlite3_stmt *statement = NULL;
  REQUIRE(sqlite3_prepare_v2(shop->database, sql, -1, &statement, NULL) == SQLITE_OK);
  *code = sqlite3_step(statement);
  REQUIRE(*code == SQLITE_ROW || *code == SQLITE_DONE);
  return statement;
}

int64_t shop_number(struct shop *shop, const char *sql) {
  int code = 0;
  sqlite3_stmt *statement = first_row(shop, sql, &code);
  int64_t number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
  sqlite3_finalize(statement);
  return number;
}

const char *shop_text(struct shop *shop, const char *sql) {
  static char text[1024];
  int code = 0;
  sqlite3_stmt *statement = first_row(shop, sql, &code);
  const char *found = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  snprintf(text, sizeof text, "%s", found != NULL ? found : "");
  sqlite3_finalize(statement);
  return text;
}
