/* The fixture of most tests: a temporary directory, a store in it, an open queue, and a journal of its events. */
#ifndef SCENE_H
#define SCENE_H

#include "check.h"
#include "journal.h"
#include "msgqueue.h"

struct scene {
  char directory[64];
  char path[96];
  msgq_options options;
  msgq_queue *queue; /* NULL: not open */
  struct journal journal;
};

/* Makes the directory. The options are the defaults with mode manual and direct off, so that nothing is sent automatically. */
void scene_begin(struct scene *scene);
/* Opens the queue with scene->options and a journal. */
void scene_open(struct scene *scene);
/* scene_begin and scene_open. */
void scene_begin_open(struct scene *scene);
void scene_close(struct scene *scene);
/* Closes the queue if it is open and removes the directory. */
void scene_end(struct scene *scene);
/* Returns a path in the directory; valid until the fourth next call. */
const char *scene_file(const struct scene *scene, const char *name);

/* Enqueues a message; the test ends when that fails. */
void put(struct scene *scene, const char *id, const char *conversation, const char *body);
/* Enqueues messages in this order: put_each(&scene, { "a", "ana", "hello" }, { "b", "ben", "hello" }). */
#define put_each(scene, ...) \
  put_rows((scene), (const struct row[]) { __VA_ARGS__ }, sizeof((const struct row[]) { __VA_ARGS__ }) / sizeof(struct row))
struct row {
  const char *id, *conversation, *body;
};
void put_rows(struct scene *scene, const struct row *rows, size_t count);
/* put with times in milliseconds since 1970; 0: none. */
void put_timed(struct scene *scene, const char *id, const char *conversation, int64_t not_before_ms, int64_t expires_at_ms);
/* Returns the result of enqueueing a body of `size` bytes. */
msgq_result put_body_of(struct scene *scene, const char *id, size_t size);
/* Returns the status of a message; -1 when there is no such message. */
int status_of(struct scene *scene, const char *id);
/* Drains without a timeout and returns the report. */
msgq_report drain(struct scene *scene);
msgq_counts counts_of(struct scene *scene, const char *conversation);
/* Return the number of attempts that left the queue, and the kind of the last failure; 0 when there is none. */
uint32_t attempts_of(struct scene *scene, const char *id);
msgq_failure_kind failure_of(struct scene *scene, const char *id);
/* Write the ids of a page of messages, and of the unsent messages in order, separated by spaces. */
void ids_of(struct scene *scene, const msgq_filter *filter, char *text, size_t size);
void unsent_of(struct scene *scene, char *text, size_t size);
/* Return the explanation of a message, and its reason alone. */
msgq_explanation explain(struct scene *scene, const char *id);
msgq_reason reason_of(struct scene *scene, const char *id);
/* Return whether the banner of the queue, or of one conversation, is this text. */
bool banner_is(struct scene *scene, const char *expected);
bool banner_of(struct scene *scene, const char *conversation, const char *expected);
msgq_state state_of(struct scene *scene);
void set_online(struct scene *scene);
void set_offline(struct scene *scene);
/* Sets a ladder of retry delays; scene_open copies it. */
void set_ladder(struct scene *scene, const int64_t *ladder, size_t count);

/* Returns an outcome with only the verdict set. */
msgq_outcome outcome_of(msgq_verdict verdict);

/* Returns the milliseconds from the last attempt of the message to its next one, by the times that the queue reports. */
int64_t delay_of(struct scene *scene, const char *id);

#endif
