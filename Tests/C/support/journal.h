/* An event handler that stores every event in order. */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "msgqueue.h"

struct entry {
  msgq_event_kind kind;
  char id[MSGQ_ID_SIZE]; /* "": none */
  char conversation[MSGQ_ID_SIZE];
  int32_t from;
  int32_t to;
  uint32_t attempt;
  int64_t at_ms;
  msgq_failure_kind failure;
  int32_t code;
  msgq_counts counts;
  msgq_prompt prompt;
  char prompt_text[128];
  bool paused;
  msgq_failure_kind failure_kind;
  msgq_report report;
  msgq_connectivity connectivity;
  msgq_link link;
  bool metered;
  msgq_result result;
  char text[512]; /* "": none */
  pthread_t thread;
};

struct journal {
  pthread_mutex_t lock;
  struct entry *entries;
  size_t count;
  size_t room;
  atomic_int released;
  atomic_int malformed; /* events that break a rule of the header */
};

void journal_begin(struct journal *journal);
void journal_end(struct journal *journal);
/* The msgq_event_fn and its release function. */
void journal_event(void *context, const msgq_event *event);
void journal_release(void *context);

size_t journal_count(struct journal *journal, msgq_event_kind kind);
/* Copies the last event of the kind; returns false when there is none. */
bool journal_last(struct journal *journal, msgq_event_kind kind, struct entry *out);
/* Returns whether the text of an event of the kind contains `text`. */
bool journal_has_text(struct journal *journal, msgq_event_kind kind, const char *text);
/* Returns whether the last status event of the message has this status. */
bool journal_reached(struct journal *journal, const char *id, msgq_status status);
/* Writes the statuses of the message as "none>queued>sending>sent". A "!" marks a change whose `from` is not the status
   before. */
void journal_path(struct journal *journal, const char *id, char *text, size_t size);

#endif
