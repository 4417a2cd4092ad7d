/* Stores after a crash, and changes of their files. */
#ifndef STORES_H
#define STORES_H

#include "files.h"
#include "scene.h"

/* Enqueues the messages "m<first>" to "m<last>" with the bodies "body <number>" in the conversation "ana". */
void put_numbered(struct scene *scene, unsigned first, unsigned last);
/* The same in a process that is then killed: the write-ahead log and the file "-tail" remain beside the store. */
void crash_after(const struct scene *scene, unsigned first, unsigned last);
/* The same with a queue that is then closed. */
void close_after(struct scene *scene, unsigned first, unsigned last);
/* Checks that exactly those messages are unsent: queued, whole, and in order. */
void check_numbered(struct scene *scene, unsigned first, unsigned last);

/* Opens the path in another process; returns the result and its error detail. */
msgq_result open_elsewhere(const char *path, char detail[512]);

/* Return the paths of the write-ahead log and of the file "-tail" of a store; valid until the fourth next call. */
const char *log_of(const struct scene *scene);
const char *tail_of(const struct scene *scene);

/* Checks that msgq_open returns `expected` with a detail that contains `text` (NULL: any) and changes no file. */
void check_refused(const struct scene *scene, msgq_result expected, const char *text);
/* Sets the event handler again and waits for a storage event whose text contains `text`. */
void await_storage_event(struct scene *scene, const char *text);

/* Runs SQL on the file of the store with SQLite, as another program would. */
void sql_run(const char *path, const char *sql);
/* The same without a checkpoint at the end. */
void sql_run_in_log(const char *path, const char *sql);
int64_t sql_number(const char *path, const char *sql);

#endif
