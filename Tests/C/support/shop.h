/* A host with a SQLite database of its own: a table of orders, and room for an outbox. */
#ifndef SHOP_H
#define SHOP_H

#include <sqlite3.h>

#include "scene.h"

struct shop {
  char path[128];
  sqlite3 *database; /* NULL: not open */
};

/* Makes the database in the directory of the scene, in WAL mode, and runs `schema` in it. */
void shop_begin(struct shop *shop, const struct scene *scene, const char *schema);
/* Opens another connection of the same database. */
sqlite3 *shop_connect(const struct shop *shop);
void shop_end(struct shop *shop);

/* Runs statements; the test ends when that fails. */
void shop_run(struct shop *shop, const char *sql);
/* The same with a connection. Returns the code of SQLite instead. */
int shop_try(sqlite3 *database, const char *sql);
/* Returns the first number of a query, and -1 when it has no row. */
int64_t shop_number(struct shop *shop, const char *sql);
/* Returns the first text of a query; valid until the next call. */
const char *shop_text(struct shop *shop, const char *sql);

#endif
