#include "ledger.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void ledger_begin(struct ledger *ledger, struct promises promises) {
  memset(ledger, 0, sizeof *ledger);
  ledger->promises = promises;
  /* Unused pages of the mapping take no memory. */
  ledger->messages = mmap(NULL, messages_room * sizeof(struct message), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (ledger->messages == MAP_FAILED) abort();
}

void ledger_end(struct ledger *ledger) {
  if (ledger->messages != NULL) munmap(ledger->messages, messages_room * sizeof(struct message));
  ledger->messages = NULL;
}

void ledger_copy(struct ledger *to, const struct ledger *from) {
  ledger_begin(to, from->promises);
  struct message *messages = to->messages;
  memcpy(messages, from->messages, from->count * sizeof *messages);
  *to = *from;
  to->messages = messages;
}

/* Returns whether a call with this result may have changed something. */
static bool may_have_happened(int32_t result) { return result == MSGQ_UNKNOWN; }

static void forget_version(struct message *message, uint32_t version) {
  for (uint8_t index = 0; index < message->versions_count; index++) {
    if (message->versions[index].version != version) continue;
    memmove(&message->versions[index], &message->versions[index + 1],
            (size_t)(message->versions_count - index - 1) * sizeof(struct version));
    message->versions_count--;
    return;
  }
}

static bool is_certainly_unsent(const struct message *message) {
  return message->is_done && !message->is_received && !message->was_sent && message->starts == message->stops;
}

static void clear(struct ledger *ledger, const struct event *event) {
  for (uint32_t number = 0; number < ledger->count; number++) {
    struct message *message = &ledger->messages[number];
    if (!message->is_tried || message->is_received) continue;
    if (event->conversation != all_conversations && message->conversation != event->conversation) continue;
    if (event->kind == EVENT_CLEAR) {
      if (!(message->was_sent && message->durable)) message->delete_tried = true;
    } else if (event->result == MSGQ_OK && is_certainly_unsent(message)) {
      message->delete_done = true;
    }
  }
}

/* Whether a call that deletes several messages concerns this one. Failed messages have at least one attempt. */
static bool is_concerned(const struct message *message, const struct event *event, bool only_failed) {
  if (!message->is_tried || (event->conversation != all_conversations && message->conversation != event->conversation)) return false;
  return !only_failed || (!message->is_received && message->starts > 0 && !(message->was_sent && message->durable));
}

/* Whether the message is failed in the store, whatever happened before. */
static bool is_certainly_failed(const struct message *message) {
  return is_certainly_unsent(message) && message->stops > 0 && message->known && !message->asked;
}

/* Before the call they may be deleted. After it they are, or after an error that says that nothing was changed none of them. */
static void delete_several(struct ledger *ledger, const struct event *event, bool only_failed, bool has_returned) {
  for (uint32_t number = 0; number < ledger->count; number++) {
    struct message *message = &ledger->messages[number];
    if (!is_concerned(message, event, only_failed)) continue;
    if (!has_returned) {
      message->delete_tried_before = message->delete_tried;
      message->delete_tried = true;
    } else if (event->result == MSGQ_OK) {
      if (!only_failed || is_certainly_failed(message)) message->delete_done = true;
    } else if (event->result == MSGQ_BUSY) {
      message->delete_tried = message->delete_tried_before;
    }
  }
}

/* A message of a key: before the call it may replace the queued one of the key, after it, it has. */
static void replace(struct ledger *ledger, uint32_t number, bool is_done) {
  const struct message *newer = &ledger->messages[number];
  for (uint32_t other = 0; other < number && newer->key != 0; other++) {
    struct message *message = &ledger->messages[other];
    if (message->key != newer->key || message->conversation != newer->conversation || !message->is_tried) continue;
    if (!is_done) {
      if (!(message->was_sent && message->durable)) message->replacer = number + 1;
    } else if (message->replacer == number + 1) {
      message->delete_tried = true;
      if (message->is_done && message->starts == 0) message->delete_done = true;
    }
  }
}

static void retry_all(struct ledger *ledger, uint16_t conversation) {
  for (uint32_t number = 0; number < ledger->count; number++) {
    struct message *message = &ledger->messages[number];
    if (!message->is_tried || message->is_received || message->starts == 0 || (message->was_sent && message->durable)) continue;
    if (conversation == all_conversations || message->conversation == conversation) message->asked = message->reordered = true;
  }
}

static void settle(struct ledger *ledger) {
  for (uint32_t number = 0; number < ledger->count; number++) {
    struct message *message = &ledger->messages[number];
    if (message->stops > 0 && message->starts == message->stops && !message->ambiguous) message->known = message->durable = true;
  }
}

/* Marks outcomes that the previous process did not report. */
static void begin_process(struct ledger *ledger) {
  for (uint32_t number = 0; number < ledger->count; number++) {
    struct message *message = &ledger->messages[number];
    if (message->stops > 0 && !message->known) message->ambiguous = true;
  }
}

void ledger_without_power_cut(struct ledger *ledger) {
  ledger->promises.begins_durable = true;
  for (uint32_t number = 0; number < ledger->count; number++) {
    struct message *message = &ledger->messages[number];
    if (message->known) message->durable = true;
  }
}

static void apply_to_title(struct title *title, const struct event *event) {
  switch (event->kind) {
    case EVENT_TITLE: title->tried = event->version; break;
    case EVENT_TITLED:
      if (event->result == MSGQ_OK) *title = (struct title){ .done = event->version, .tried = event->version };
      break;
    case EVENT_DELETE_CONVERSATION: title->may_be_gone = true; break;
    default:
      if (event->result == MSGQ_OK) *title = (struct title){ 0 };
  }
}

void ledger_apply(struct ledger *ledger, const struct event *event) {
  if (event->number >= messages_room) abort();
  struct message *message = &ledger->messages[event->number];
  struct version version = { event->version, event->size };
  switch (event->kind) {
    case EVENT_FOLLOW: ledger->following = *event; break;
    case EVENT_FOLLOWED:
      ledger->followed = event->number;
      ledger->follow[0] = ledger->following;
      ledger->follow[1] = *event;
      break;
    case EVENT_ENQUEUE:
    case EVENT_RECORD:
      if (event->number >= ledger->count) ledger->count = event->number + 1;
      if (!message->is_tried) {
        message->is_tried = true;
        message->is_received = event->kind == EVENT_RECORD;
        message->is_own = event->kind == EVENT_RECORD && event->result == 1;
        message->conversation = event->conversation;
        message->batch = event->batch;
        message->key = event->key;
        message->reordered = event->key != 0;
        message->versions[0] = version;
        message->versions_count = 1;
      } else {
        message->reordered = true;
      }
      message->refusal = MSGQ_OK;
      replace(ledger, event->number, false);
      break;
    case EVENT_ENQUEUED:
    case EVENT_RECORDED:
      /* A duplicate is stored, too. */
      if (event->result == MSGQ_OK || event->result == MSGQ_DUPLICATE) message->is_done = true;
      if (event->result == MSGQ_OK) replace(ledger, event->number, true);
      else if (may_have_happened(event->result)) message->maybe = true;
      else if (!message->maybe && !message->is_done) message->refusal = event->result;
      break;
    case EVENT_EDIT:
      if (message->versions_count < versions_room) message->versions[message->versions_count++] = version;
      break;
    case EVENT_EDITED:
      if (event->result == MSGQ_OK) {
        message->versions[0] = version;
        message->versions_count = 1;
      } else if (!may_have_happened(event->result)) {
        forget_version(message, event->version);
      }
      break;
    case EVENT_DELETE: message->delete_tried = true; break;
    case EVENT_DELETED:
      if (event->result == MSGQ_OK) message->delete_done = true;
      else if (!may_have_happened(event->result) && event->result != MSGQ_NOT_FOUND) message->delete_tried = message->delete_done;
      break;
    case EVENT_CLEAR:
    case EVENT_CLEARED: clear(ledger, event); break;
    case EVENT_READ: message->read_tried = true; break;
    case EVENT_READ_MARKED:
      if (event->result == MSGQ_OK) message->read_done = true;
      break;
    case EVENT_RETRY: message->asked = true; break;
    case EVENT_START:
      if (message->was_sent && !message->ambiguous) message->resent = ledger->resent = true;
      message->starts++;
      message->ambiguous = false;
      message->known = message->durable = false;
      break;
    case EVENT_STOP:
      message->stops = message->starts;
      message->asked = false;
      message->verdict = event->result;
      if (event->result == MSGQ_VERDICT_SENT) message->was_sent = true;
      break;
    case EVENT_KNOWN:
      if (message->stops == 0 || message->stops != message->starts) break;
      message->known = true;
      if (ledger->promises.durable_outcomes) message->durable = true;
      break;
    case EVENT_CALM: break;
    case EVENT_SETTLED: settle(ledger); break;
    case EVENT_CLOSED:
      if (event->result == MSGQ_OK) settle(ledger);
      else begin_process(ledger); /* the error means that outcomes are not saved */
      break;
    case EVENT_OPENED:
      begin_process(ledger);
      break;
    case EVENT_BACKUP: ledger->backups_tried = event->number + 1; break;
    case EVENT_BACKED_UP:
      if (event->result == MSGQ_OK) ledger->backups_done |= 1u << event->number;
      break;
    case EVENT_SALVAGE: ledger->salvages_tried = event->number + 1; break;
    case EVENT_SALVAGED:
      if (event->result == MSGQ_OK) ledger->salvages_done |= 1u << event->number;
      break;
    case EVENT_RETRY_ALL: retry_all(ledger, event->conversation); break;
    case EVENT_DELETE_CONVERSATION:
    case EVENT_CONVERSATION_DELETED:
      delete_several(ledger, event, false, event->kind == EVENT_CONVERSATION_DELETED);
      apply_to_title(&ledger->titles[event->conversation % titles_room], event);
      break;
    case EVENT_TITLE:
    case EVENT_TITLED: apply_to_title(&ledger->titles[event->conversation % titles_room], event); break;
    case EVENT_CLEAR_FAILED:
    case EVENT_FAILED_CLEARED: delete_several(ledger, event, true, event->kind == EVENT_FAILED_CLEARED); break;
    case EVENT_DROPPED: message->delete_tried = message->delete_done = true; break;
    default: break;
  }
}

/* ------------------------------------------------------------------ the shared list */

struct journal *journal_make(uint32_t room) {
  struct journal *journal = mmap(NULL, sizeof *journal + room * sizeof(struct event), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (journal == MAP_FAILED) abort();
  journal->room = room;
  return journal;
}

void journal_free(struct journal *journal) {
  if (journal != NULL) munmap(journal, sizeof *journal + journal->room * sizeof(struct event));
}

void journal_clear(struct journal *journal) {
  atomic_store(&journal->count, 0);
  atomic_store(&journal->problem_count, 0);
  journal->problem[0] = '\0';
}

void journal_add(struct journal *journal, const struct event *event) {
  if (journal == NULL) return;
  uint32_t place = atomic_fetch_add(&journal->count, 1);
  if (place >= journal->room) abort();
  journal->events[place] = *event;
}

void journal_problem(struct journal *journal, const char *format, ...) {
  if (journal == NULL || atomic_fetch_add(&journal->problem_count, 1) > 0) return;
  va_list values;
  va_start(values, format);
  vsnprintf(journal->problem, sizeof journal->problem, format, values);
  va_end(values);
}

void journal_replay(const struct journal *journal, struct ledger *ledger) {
  uint32_t count = atomic_load(&journal->count);
  for (uint32_t index = 0; index < count; index++) {
    if (journal->events[index].kind != 0) ledger_apply(ledger, &journal->events[index]);
  }
}

/* ------------------------------------------------------------------ bodies */

static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/* Bodies are text, so that previews and dumps are readable. */
static char letter(uint32_t number, struct version version, uint32_t block, uint32_t place) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  uint64_t value = mix(((uint64_t)number << 32) ^ ((uint64_t)version.version << 20) ^ version.size ^ ((uint64_t)block << 40) ^
                       0x9e3779b97f4a7c15u);
  return letters[(value >> (place * 5 % 58)) & 63];
}

void body_fill(void *out, uint32_t number, struct version version) {
  char *bytes = out;
  for (uint32_t index = 0; index < version.size; index++) bytes[index] = letter(number, version, index / 12, index % 12);
}

bool body_is(const void *bytes, size_t size, uint32_t number, struct version version) {
  const char *given = bytes;
  if (size != version.size) return false;
  for (uint32_t index = 0; index < version.size; index++) {
    if (given[index] != letter(number, version, index / 12, index % 12)) return false;
  }
  return true;
}

/* ------------------------------------------------------------------ random numbers */

struct generator generator_of(uint64_t seed, uint64_t stream, uint64_t number) {
  return (struct generator){ mix(mix(mix(seed + 1) + stream + 1) + number + 1) };
}

uint64_t random_next(struct generator *generator) {
  generator->state += 0x9e3779b97f4a7c15u;
  return mix(generator->state);
}

uint32_t random_below(struct generator *generator, uint32_t end) { return end == 0 ? 0 : (uint32_t)(random_next(generator) % end); }
