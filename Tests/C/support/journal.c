#include "journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const char *status_word(int32_t status) {
  static const char *const words[] = { "queued", "sending", "sent", "delivered", "read", "failed" };
  return status == MSGQ_STATUS_NONE ? "none" : status >= 0 && status < 6 ? words[status] : "?";
}

void journal_begin(struct journal *journal) {
  memset(journal, 0, sizeof *journal);
  pthread_mutex_init(&journal->lock, NULL);
}

void journal_end(struct journal *journal) {
  free(journal->entries);
  pthread_mutex_destroy(&journal->lock);
}

static bool well_formed(const msgq_event *event) {
  if (event->struct_size != sizeof *event) return false;
  if ((event->lost_events > 0) != (event->kind == MSGQ_EVENT_RESYNC)) return false;
  switch (event->kind) {
    case MSGQ_EVENT_STATUS: return event->id != NULL && event->conversation != NULL;
    case MSGQ_EVENT_SUMMARY:
    case MSGQ_EVENT_DRAIN_STARTED: return event->counts != NULL && event->counts->struct_size == sizeof *event->counts;
    case MSGQ_EVENT_PROMPT:
    case MSGQ_EVENT_PROMPT_CHANGED:
      return event->prompt != NULL && event->prompt->struct_size == sizeof *event->prompt && event->prompt->text != NULL;
    case MSGQ_EVENT_DRAIN_PROGRESS:
    case MSGQ_EVENT_DRAIN_FINISHED: return event->report != NULL && event->report->struct_size == sizeof *event->report;
    case MSGQ_EVENT_DISCARDED:
      return event->id != NULL && event->failure != NULL && event->failure->struct_size == sizeof *event->failure &&
             event->failure->text != NULL;
    default: return true;
  }
}

static void copy_text(char *to, const char *from) { snprintf(to, MSGQ_ID_SIZE, "%s", from != NULL ? from : ""); }

void journal_event(void *context, const msgq_event *event) {
  struct journal *journal = context;
  struct entry entry;
  memset(&entry, 0, sizeof entry);
  if (!well_formed(event)) atomic_fetch_add(&journal->malformed, 1);
  copy_text(entry.id, event->id);
  copy_text(entry.conversation, event->conversation);
  entry.kind = event->kind;
  entry.from = event->from;
  entry.to = event->to;
  entry.attempt = event->attempt;
  entry.at_ms = event->at_ms;
  entry.connectivity = event->connectivity;
  entry.link = event->link;
  entry.metered = event->metered;
  entry.result = event->result;
  snprintf(entry.text, sizeof entry.text, "%s", event->text != NULL ? event->text : "");
  entry.thread = pthread_self();
  if (event->failure != NULL) entry.failure = event->failure->kind;
  if (event->failure != NULL) entry.code = event->failure->code;
  if (event->counts != NULL) entry.counts = *event->counts;
  if (event->prompt != NULL) {
    entry.prompt = *event->prompt;
    snprintf(entry.prompt_text, sizeof entry.prompt_text, "%s", event->prompt->text != NULL ? event->prompt->text : "");
    entry.prompt.text = NULL; /* valid only until the handler returns */
  }
  entry.paused = event->paused;
  entry.failure_kind = event->failure_kind;
  if (event->report != NULL) entry.report = *event->report;
  pthread_mutex_lock(&journal->lock);
  if (journal->count == journal->room) {
    size_t room = journal->room * 2 + 64;
    struct entry *grown = realloc(journal->entries, room * sizeof *grown);
    if (grown == NULL) abort();
    journal->entries = grown;
    journal->room = room;
  }
  journal->entries[journal->count++] = entry;
  pthread_mutex_unlock(&journal->lock);
}

void journal_release(void *context) {
  struct journal *journal = context;
  atomic_fetch_add(&journal->released, 1);
}

size_t journal_count(struct journal *journal, msgq_event_kind kind) {
  size_t total = 0;
  pthread_mutex_lock(&journal->lock);
  for (size_t index = 0; index < journal->count; index++) total += journal->entries[index].kind == kind;
  pthread_mutex_unlock(&journal->lock);
  return total;
}

bool journal_last(struct journal *journal, msgq_event_kind kind, struct entry *out) {
  bool found = false;
  pthread_mutex_lock(&journal->lock);
  for (size_t index = journal->count; index-- > 0 && !found;) {
    found = journal->entries[index].kind == kind;
    if (found) *out = journal->entries[index];
  }
  pthread_mutex_unlock(&journal->lock);
  return found;
}

bool journal_has_text(struct journal *journal, msgq_event_kind kind, const char *text) {
  bool found = false;
  pthread_mutex_lock(&journal->lock);
  for (size_t index = 0; index < journal->count && !found; index++) {
    found = journal->entries[index].kind == kind && strstr(journal->entries[index].text, text) != NULL;
  }
  pthread_mutex_unlock(&journal->lock);
  return found;
}

bool journal_reached(struct journal *journal, const char *id, msgq_status status) {
  int32_t last = MSGQ_STATUS_NONE;
  pthread_mutex_lock(&journal->lock);
  for (size_t index = 0; index < journal->count; index++) {
    const struct entry *entry = &journal->entries[index];
    if (entry->kind == MSGQ_EVENT_STATUS && strcmp(entry->id, id) == 0) last = entry->to;
  }
  pthread_mutex_unlock(&journal->lock);
  return last == (int32_t)status;
}

void journal_path(struct journal *journal, const char *id, char *text, size_t size) {
  int32_t last = MSGQ_STATUS_NONE;
  size_t used = (size_t)snprintf(text, size, "%s", status_word(last));
  pthread_mutex_lock(&journal->lock);
  for (size_t index = 0; index < journal->count && used < size; index++) {
    const struct entry *entry = &journal->entries[index];
    if (entry->kind != MSGQ_EVENT_STATUS || strcmp(entry->id, id) != 0) continue;
    used += (size_t)snprintf(text + used, size - used, "%s>%s", entry->from == last ? "" : "!", status_word(entry->to));
    last = entry->to;
  }
  pthread_mutex_unlock(&journal->lock);
}
