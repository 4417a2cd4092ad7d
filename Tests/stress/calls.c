#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void release(void *context) {
  struct side *side = context;
  atomic_fetch_add(&side->released, 1);
}

static void on_event(void *context, const msgq_event *event) {
  struct side *side = context;
  (void)event;
  atomic_fetch_add(&side->events, 1);
}

static void on_drained(void *context, const msgq_report *report) {
  struct side *side = context;
  (void)report;
  atomic_fetch_add(&side->drained, 1);
}

static void on_waited(void *context, msgq_result result, const msgq_message *message) {
  struct side *side = context;
  bool has_ended = result == MSGQ_OK || result == MSGQ_TIMEOUT;
  if (has_ended != (message != NULL) || (has_ended && message->explanation == NULL)) problem("what a wait reports", result, 0);
  atomic_fetch_add(&side->waited, 1);
}

/* Stores the token for a later answer. Without room it is not stored, and the attempt times out. */
static void keep_token(struct side *side, uint64_t token) {
  pthread_mutex_lock(&side->lock);
  if (side->token_count < tokens_room) side->tokens[side->token_count++] = token;
  pthread_mutex_unlock(&side->lock);
}

static msgq_verdict decide(struct side *side, const msgq_delivery *delivery, msgq_outcome *out) {
  unsigned chance = (unsigned)(delivery->token * 2654435761u >> 8) % 100;
  if (side->calm || chance < 55) return MSGQ_VERDICT_SENT;
  if (chance < 70) return keep_token(side, delivery->token), MSGQ_VERDICT_PENDING;
  if (chance < 80) return out->kind = MSGQ_FAILURE_NETWORK, MSGQ_VERDICT_RETRY;
  if (chance < 86) return out->code = 503, MSGQ_VERDICT_HTTP;
  if (chance < 90) return MSGQ_VERDICT_REJECT;
  if (chance < 92) return MSGQ_VERDICT_OFFLINE;
  if (chance < 94) usleep(20000);
  return chance < 97 ? MSGQ_VERDICT_UNKNOWN : MSGQ_VERDICT_SENT;
}

static msgq_verdict transport(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct side *side = context;
  atomic_fetch_add(&side->attempts, 1);
  if (delivery->conversation[0] != 'o') return decide(side, delivery, out);
  int conversation = delivery->conversation[1] - '0';
  unsigned number = (unsigned)strtoul(delivery->id + 1, NULL, 10) + 1;
  if (atomic_exchange(&side->last_started[conversation], number) > number) atomic_fetch_add(&side->disorder, 1);
  return decide(side, delivery, out);
}

void side_begin(struct side *side, bool polled) {
  side->polled = polled;
  pthread_mutex_init(&side->lock, NULL);
  for (int index = 0; index < ordered_count; index++) pthread_mutex_init(&side->ordered[index], NULL);
}

void register_both(struct side *side, msgq_queue *queue) {
  atomic_fetch_add(&side->registered, 2);
  msgq_set_transport(queue, transport, side, release);
  msgq_set_event_handler(queue, on_event, side, release);
}

void resume_all(msgq_queue *queue) {
  char name[8];
  msgq_resume(queue, NULL);
  for (int index = 0; index < free_count; index++) {
    snprintf(name, sizeof name, "f%d", index);
    msgq_resume(queue, name);
  }
}

static void enqueue(struct side *side, const char *conversation, enum state state) {
  char id[32];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  unsigned number = atomic_fetch_add(&side->next, 1);
  if (number >= messages_room) return;
  snprintf(id, sizeof id, "m%u", number);
  draft.id = id;
  draft.conversation = conversation;
  draft.body = id;
  draft.body_size = strlen(id);
  msgq_result result = msgq_enqueue(atomic_load(&side->queue), &draft, NULL);
  unsigned char before = unknown; /* another thread may have deleted it already */
  if (result == MSGQ_OK) atomic_compare_exchange_strong(&side->states[number], &before, (unsigned char)state);
  else if (result != MSGQ_CLOSED) problem("enqueue", result, number);
}

/* Records messages of which other threads record the same, and marks some. They are in a conversation of their own. */
static void record_some(msgq_queue *queue, unsigned *seed) {
  enum { count = 20 };
  msgq_draft drafts[count];
  const char *senders[count], *names[count];
  char ids[count][24];
  msgq_result results[count];
  uint64_t marked = 0;
  unsigned first = (unsigned)rand_r(seed) % 2000;
  for (unsigned index = 0; index < count; index++) {
    snprintf(ids[index], sizeof ids[index], "r%u", first + index);
    names[index] = ids[index];
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].id = ids[index];
    drafts[index].conversation = "recorded";
    if (index % 4 == 0) drafts[index].time_ms = 1700000000000 + rand_r(seed) % 1000;
    senders[index] = (first + index) % 3 == 0 ? NULL : "Ana";
  }
  msgq_result result = msgq_record_batch(queue, drafts, senders, count, results);
  if (result != MSGQ_OK && result != MSGQ_CLOSED) problem("record_batch", result, first);
  for (unsigned index = 0; index < count && result == MSGQ_OK; index++) {
    if (results[index] != MSGQ_OK) problem("the result of a recorded message", results[index], first + index);
  }
  if (rand_r(seed) % 2 == 0) result = msgq_mark_batch(queue, names, count, MSGQ_STATUS_DELIVERED, results);
  else result = msgq_mark_up_to(queue, ids[0], MSGQ_STATUS_READ, &marked);
  /* The queue may have been closed before it recorded them. */
  if (result != MSGQ_OK && result != MSGQ_CLOSED && result != MSGQ_NOT_FOUND) problem("receipts", result, first);
}

static void enqueue_somewhere(struct side *side, unsigned *seed) {
  char name[8];
  int which = rand_r(seed) % 12;
  if (which < ordered_count) {
    snprintf(name, sizeof name, "o%d", which);
    pthread_mutex_lock(&side->ordered[which]);
    enqueue(side, name, stored);
    pthread_mutex_unlock(&side->ordered[which]);
  } else if (which < ordered_count + free_count) {
    snprintf(name, sizeof name, "f%d", which - ordered_count);
    enqueue(side, name, stored);
  } else {
    enqueue(side, "cleared", doubtful);
  }
}

/* Finds a random message of a conversation that all threads may change; "" when the message belongs to another one. */
static void find_message(struct side *side, unsigned *seed, char *id, size_t size, unsigned *number) {
  msgq_message *message = NULL;
  unsigned total = atomic_load(&side->next);
  id[0] = '\0';
  *number = total == 0 ? 0 : total - 1 - (unsigned)rand_r(seed) % (total < 200 ? total : 200);
  char name[32];
  snprintf(name, sizeof name, "m%u", *number);
  if (msgq_get(atomic_load(&side->queue), name, &message) != MSGQ_OK) return;
  if (message->conversation[0] == 'f') snprintf(id, size, "%s", name);
  msgq_message_free(message);
}

static void wait_a_little(struct side *side, msgq_queue *queue, unsigned *seed, const char *id) {
  msgq_message *message = NULL;
  int64_t limit = rand_r(seed) % 20;
  if (rand_r(seed) % 2 == 0) {
    msgq_result result = msgq_wait(queue, id, limit, &message);
    if ((result == MSGQ_OK || result == MSGQ_TIMEOUT) != (message != NULL)) problem("what a wait returns", result, 0);
    msgq_message_free(message);
  } else if (msgq_wait_async(queue, id, rand_r(seed) % 4 == 0 ? -1 : limit, on_waited, side) == MSGQ_OK) {
    atomic_fetch_add(&side->waits, 1);
  }
}

/* Records a message, or updates it. Several threads do so with one id; body and metadata are always those of one call. */
static void change_received(msgq_queue *queue, unsigned *seed) {
  char id[16], value[16];
  snprintf(id, sizeof id, "changed%d", rand_r(seed) % 20);
  snprintf(value, sizeof value, "%d", rand_r(seed));
  msgq_pair pair = { "copy", value };
  msgq_message *message = NULL;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "received";
  draft.body = value;
  draft.body_size = strlen(value);
  draft.metadata = &pair;
  draft.metadata_count = 1;
  draft.time_ms = rand_r(seed) % 2 == 0 ? 0 : 1 + rand_r(seed);
  msgq_result result = msgq_update(queue, id, &draft);
  if (result == MSGQ_NOT_FOUND) result = msgq_record(queue, (draft.id = id, &draft), "Ana", NULL);
  if (result != MSGQ_OK && result != MSGQ_CLOSED) problem("an update", result, 0);
  if (msgq_get(queue, id, &message) != MSGQ_OK) return;
  const char *copy = message->metadata_count == 1 ? message->metadata[0].value : "";
  if (strlen(copy) != message->body_size || memcmp(copy, message->body, message->body_size) != 0) problem("half an update", 0, 0);
  msgq_message_free(message);
}

/* Edits a message after reading it, as two hosts may do at the same time; or updates it, which one's own messages refuse. */
static void change_message(msgq_queue *queue, unsigned *seed, const char *id) {
  msgq_message *message = NULL;
  msgq_pair pair = { "edited", "yes" };
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.body = "edited";
  draft.body_size = 6;
  draft.metadata = &pair;
  draft.metadata_count = 1;
  switch (rand_r(seed) % 3) {
    case 0: msgq_edit(queue, id, "edited", 6); break;
    case 1:
      if (msgq_get(queue, id, &message) == MSGQ_OK) msgq_edit_message(queue, id, &draft, message->edited_ms);
      msgq_message_free(message);
      break;
    default:
      if (msgq_update(queue, id, &draft) == MSGQ_OK) problem("an update of an own message", MSGQ_OK, 0);
      break;
  }
}

static void touch_message(struct side *side, msgq_queue *queue, unsigned *seed) {
  char id[32];
  unsigned number;
  msgq_ledger *ledger = NULL;
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  find_message(side, seed, id, sizeof id, &number);
  if (id[0] == '\0') return;
  switch (rand_r(seed) % 8) {
    case 0: change_message(queue, seed, id); break;
    case 1:
      if (number < messages_room) atomic_store(&side->states[number], doubtful);
      msgq_delete(queue, id);
      break;
    case 2: msgq_retry(queue, id); break;
    case 3: msgq_send_now(queue, id); break;
    case 4: msgq_mark(queue, id, rand_r(seed) % 2 == 0 ? MSGQ_STATUS_DELIVERED : MSGQ_STATUS_READ); break;
    case 5:
      if (msgq_attempts(queue, id, &ledger) == MSGQ_OK) msgq_attempts_free(ledger);
      break;
    case 6: wait_a_little(side, queue, seed, id); break;
    default: msgq_explain(queue, id, &explanation); break;
  }
}

static void read_much(msgq_queue *queue, unsigned *seed) {
  msgq_page *list = NULL;
  msgq_conversation_page *page = NULL;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  msgq_state state = MSGQ_STATE_INIT;
  char *text = NULL;
  msgq_minute_page *minutes = NULL;
  filter.with_reasons = rand_r(seed) % 2 == 0;
  filter.newest_first = rand_r(seed) % 2 == 0;
  filter.statuses = MSGQ_STATUSES_ALL;
  switch (rand_r(seed) % 7) {
    case 0:
      if (msgq_list(queue, &filter, &list) == MSGQ_OK) msgq_list_free(list);
      break;
    case 1:
      if (msgq_conversations(queue, 0, 0, &page) == MSGQ_OK) msgq_conversations_free(page);
      break;
    case 2: msgq_count(queue, rand_r(seed) % 2 == 0 ? NULL : "o1", &counts); break;
    case 3:
      msgq_stats(queue, &statistics);
      if (msgq_minutes(queue, &minutes) == MSGQ_OK) msgq_minutes_free(minutes);
      break;
    case 5: msgq_get_state(queue, &state); break;
    case 4:
      if (msgq_stats_text(queue, &text) == MSGQ_OK) msgq_text_free(text);
      break;
    default:
      if (msgq_banner(queue, rand_r(seed) % 2 == 0 ? NULL : "o1", &text) == MSGQ_OK) msgq_text_free(text);
      break;
  }
}

static void answer_one(struct side *side, msgq_queue *queue, unsigned *seed) {
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  uint64_t token = (uint64_t)rand_r(seed);
  pthread_mutex_lock(&side->lock);
  if (side->token_count > 0) token = side->tokens[--side->token_count];
  pthread_mutex_unlock(&side->lock);
  outcome.verdict = rand_r(seed) % 4 == 0 ? MSGQ_VERDICT_RETRY : MSGQ_VERDICT_SENT;
  msgq_complete(queue, token, &outcome);
  if (rand_r(seed) % 4 == 0) msgq_complete(queue, token, &outcome);
}

static void change_state(struct side *side, msgq_queue *queue, unsigned *seed) {
  char name[8];
  snprintf(name, sizeof name, "f%d", rand_r(seed) % free_count);
  switch (rand_r(seed) % 15) {
    case 0: msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE, false); break;
    case 1: case 2: case 3: msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, rand_r(seed) % 2 == 0); break;
    case 4: msgq_set_lifecycle(queue, rand_r(seed) % 4 == 0 ? MSGQ_LIFECYCLE_BACKGROUND : MSGQ_LIFECYCLE_FOREGROUND); break;
    case 5: msgq_pause(queue, rand_r(seed) % 4 == 0 ? NULL : name); break;
    case 6: case 7: resume_all(queue); break;
    case 8: msgq_clear(queue, "cleared"); break;
    case 9: msgq_monitor_start(queue); break;
    case 10: msgq_monitor_stop(queue); break;
    case 11: msgq_control_start(queue, NULL); break;
    case 12: msgq_control_stop(queue); break;
    case 13: msgq_set_log_level((msgq_log_level)(rand_r(seed) % MSGQ_LOG_DEBUG)); break;
    default: register_both(side, queue); break;
  }
}

static void drain_a_little(struct side *side, msgq_queue *queue, unsigned *seed) {
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  options.timeout_ms = rand_r(seed) % 20;
  if (rand_r(seed) % 5 == 0) {
    msgq_drain(queue, &options, &report);
  } else if (msgq_drain_async(queue, &options, on_drained, side) == MSGQ_OK) {
    atomic_fetch_add(&side->drains, 1);
  }
}

static void back_up(struct side *side, msgq_queue *queue, unsigned *seed) {
  char path[600];
  snprintf(path, sizeof path, "%s-copy-%d-%ld", side->path, rand_r(seed), (long)now_ms());
  if (msgq_backup(queue, path) == MSGQ_OK) unlink(path);
}

void call_at_random(struct side *side, unsigned *seed) {
  msgq_queue *queue = atomic_load(&side->queue);
  int chance = rand_r(seed) % 1000;
  if (chance < 200) enqueue_somewhere(side, seed);
  else if (chance < 400) touch_message(side, queue, seed);
  else if (chance < 550) read_much(queue, seed);
  else if (chance < 650) answer_one(side, queue, seed);
  else if (chance < 670) change_state(side, queue, seed);
  else if (chance < 680) drain_a_little(side, queue, seed);
  else if (chance < 681) back_up(side, queue, seed);
  else if (chance < 690) record_some(queue, seed);
  else if (chance < 700) change_received(queue, seed);
  else if (side->polled) msgq_poll(queue, rand_r(seed) % 50 == 0 ? 1 : 0, NULL);
  else msgq_fd(queue);
}
