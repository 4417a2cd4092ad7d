/* Stores as a crash leaves them, and what happens to their files. */
#ifndef STORES_H
#define STORES_H

#include "files.h"
#include "scene.h"

/* Enqueues the messages "m<first>" to "m<last>" with the bodies "body <number>" in the conversation "ana". */
void put_numbered(struct scene *scene, unsigned first, unsigned last);
/* The same by a process that is then killed: the log and the side record lie beside the store. */
void crash_after(const struct scene *scene, unsigned first, unsigned last);
/* The same by a queue that is closed in order. */
void close_after(struct scene *scene, unsigned first, unsigned last);
/* Those messages are queued, whole, and in order; and nothing else is unsent. */
void check_numbered(struct scene *scene, unsigned first, unsigned last);

/* The open queue in another process: what its opening of the path answered, and with what detail. */
msgq_result open_elsewhere(const char *path, char detail[512]);

/* The names of the files of a store: of the last four calls. */
const char *log_of(const struct scene *scene);
const char *tail_of(const struct scene *scene);

/* Opens the store, which must be refused so, with a detail that holds `text` (NULL: any), and with every file as it was. */
void check_refused(const struct scene *scene, msgq_result expected, const char *text);
/* An open queue is told of trouble with this text in it; the handler is set anew for that. */
void check_told(struct scene *scene, const char *text);

/* Runs SQL in the store's file by SQLite itself, as another program would; the test ends when that fails. */
void sql_run(const char *path, const char *sql);
/* The same without copying the log into the database. */
void sql_run_in_log(const char *path, const char *sql);
int64_t sql_number(const char *path, const char *sql);

#endif
