/* What nearly every test stands on: a directory of its own, a store in it, an open queue, and a journal of its events. */
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

/* Makes the directory; the options are the defaults with mode manual and direct off: nothing is sent that nobody asked for. */
void scene_begin(struct scene *scene);
/* Opens the queue with scene->options and a journal. */
void scene_open(struct scene *scene);
/* scene_begin and scene_open. */
void scene_begin_open(struct scene *scene);
void scene_close(struct scene *scene);
/* Closes the queue if it is open and takes the directory away. */
void scene_end(struct scene *scene);
/* A path in the scene's directory; of the last four calls. */
const char *scene_file(const struct scene *scene, const char *name);

/* Enqueues; the test ends when that fails. */
void put(struct scene *scene, const char *id, const char *conversation, const char *body);
/* The same with times; 0: none. */
void put_timed(struct scene *scene, const char *id, const char *conversation, int64_t not_before_ms, int64_t expires_at_ms);
/* The status of a message; -1 when there is none. */
int status_of(struct scene *scene, const char *id);
/* Drains to the end and returns the report. */
msgq_report drain(struct scene *scene);
msgq_counts counts_of(struct scene *scene, const char *conversation);
/* Attempts that left, and the failure's kind and code; 0 when there are none. */
uint32_t attempts_of(struct scene *scene, const char *id);
msgq_failure_kind failure_of(struct scene *scene, const char *id);
/* The ids of a page of messages, and of the unsent ones in order, with a space between. */
void ids_of(struct scene *scene, const msgq_filter *filter, char *text, size_t size);
void unsent_of(struct scene *scene, char *text, size_t size);
/* Why it is not sent yet; the whole explanation, and the reason alone. */
msgq_explanation explain(struct scene *scene, const char *id);
msgq_reason reason_of(struct scene *scene, const char *id);
/* The banner of the queue, or of one conversation, says this. */
bool banner_is(struct scene *scene, const char *expected);
bool banner_of(struct scene *scene, const char *conversation, const char *expected);
msgq_state state_of(struct scene *scene);
void set_online(struct scene *scene);
void set_offline(struct scene *scene);
/* Retries after these delays; copied by scene_open. */
void set_ladder(struct scene *scene, const int64_t *ladder, size_t count);

/* An outcome that says no more than this. */
msgq_outcome outcome_of(msgq_verdict verdict);

/* How long after its last attempt's end the message is due, by the queue's word: milliseconds. */
int64_t delay_of(struct scene *scene, const char *id);

#endif
