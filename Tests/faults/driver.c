#include "driver.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "shim.h"

void driver_note(struct driver *driver, struct event event) {
  pthread_mutex_lock(&driver->lock);
  ledger_apply(&driver->ledger, &event);
  journal_add(driver->journal, &event);
  shim_mark(&event, sizeof event);
  pthread_mutex_unlock(&driver->lock);
}

/* Records results that are never allowed, or not allowed without faults. */
static msgq_result expect(struct driver *driver, const char *call, msgq_result result, bool fine) {
  if (result == MSGQ_INTERNAL || result == MSGQ_CORRUPT || (driver->strict && result != MSGQ_OK && !fine)) {
    journal_problem(driver->journal, "%s returned %s: %.150s", call, msgq_result_name(result), msgq_error_detail());
  }
  return result;
}

/* ------------------------------------------------------------------ callbacks */

static msgq_verdict transport(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct driver *driver = context;
  long number = number_of(delivery->id);
  if (number < 0) return MSGQ_VERDICT_SENT;
  driver_note(driver, (struct event){ .kind = EVENT_START, .number = (uint32_t)number });
  struct message *message = &driver->ledger.messages[number];
  bool known = false;
  for (uint8_t index = 0; index < message->versions_count && !known; index++) {
    known = body_is(delivery->body, delivery->body_size, (uint32_t)number, message->versions[index]);
  }
  if (!known) journal_problem(driver->journal, "the transport got a wrong body for %s", delivery->id);
  msgq_verdict verdict = MSGQ_VERDICT_SENT;
  if (message->starts == 1 && number % 7 == 3) verdict = MSGQ_VERDICT_RETRY;
  if (message->starts == 1 && number % 7 == 5) verdict = MSGQ_VERDICT_REJECT;
  if (verdict != MSGQ_VERDICT_SENT) {
    out->kind = verdict == MSGQ_VERDICT_RETRY ? MSGQ_FAILURE_NETWORK : MSGQ_FAILURE_REJECTED;
    snprintf(out->text, sizeof out->text, "refused by the test");
  }
  driver_note(driver, (struct event){ .kind = EVENT_STOP, .number = (uint32_t)number, .result = (int32_t)verdict });
  return verdict;
}

/* Checks that no later message of the conversation was sent before the first attempt of this one. */
static void check_order(struct driver *driver, uint32_t number) {
  const struct message *message = &driver->ledger.messages[number];
  if (message->starts > 0 || message->reordered) return;
  for (uint32_t later = number + 1; later < driver->ledger.count; later++) {
    const struct message *other = &driver->ledger.messages[later];
    if (other->conversation != message->conversation || other->reordered || !other->was_sent) continue;
    journal_problem(driver->journal, "message m%u was sent before m%u of its conversation", later, number);
    return;
  }
}

/* Sends each message as `transport` does, and stops a conversation at its first retryable failure. */
static void batch_transport(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  struct driver *driver = context;
  const char *stopped = NULL;
  for (size_t index = 0; index < count; index++) {
    const msgq_delivery *delivery = &deliveries[index];
    if (stopped != NULL && strcmp(stopped, delivery->conversation) == 0) {
      outcomes[index].verdict = MSGQ_VERDICT_SKIPPED;
      continue;
    }
    long number = number_of(delivery->id);
    if (number >= 0) check_order(driver, (uint32_t)number);
    outcomes[index].verdict = transport(context, delivery, &outcomes[index]);
    if (outcomes[index].verdict == MSGQ_VERDICT_RETRY) stopped = delivery->conversation;
  }
}

static void handle(void *context, const msgq_event *event) {
  struct driver *driver = context;
  if (event->kind == MSGQ_EVENT_DISCARDED && event->failure->kind == MSGQ_FAILURE_DROPPED && number_of(event->id) >= 0) {
    driver_note(driver, (struct event){ .kind = EVENT_DROPPED, .number = (uint32_t)number_of(event->id) });
  }
  if (event->kind == MSGQ_EVENT_STORAGE && event->result != MSGQ_OK) atomic_fetch_add(&driver->storage_events, 1);
  if (event->kind != MSGQ_EVENT_STATUS || (event->to != MSGQ_STATUS_SENT && event->to != MSGQ_STATUS_FAILED)) return;
  long number = number_of(event->id);
  if (number >= 0) driver_note(driver, (struct event){ .kind = EVENT_KNOWN, .number = (uint32_t)number });
}

/* ------------------------------------------------------------------ calls */

void driver_begin(struct driver *driver, enum scene scene, const char *path, uint64_t seed, struct journal *journal, uint32_t first) {
  memset(driver, 0, sizeof *driver);
  snprintf(driver->path, sizeof driver->path, "%s", path);
  struct promises promises = scene_promises(scene);
  ledger_begin(&driver->ledger, promises);
  pthread_mutex_init(&driver->lock, NULL);
  driver->journal = journal;
  driver->generator = generator_of(seed, (uint64_t)scene, first);
  driver->next = first;
  driver->options = check_options(&promises);
  driver->sends_batches = scene == SCENE_BATCHES || scene == SCENE_CALLS;
  if (scene == SCENE_POLLED) driver->options.callbacks = MSGQ_CALLBACKS_POLL;
  if (promises.drops) {
    driver->options.on_full = MSGQ_ON_FULL_DROP_OLDEST;
    driver->options.limit_messages = 40;
  } else if (promises.is_limited) {
    driver->options.limit_bytes = 60000;
    driver->options.limit_file_bytes = 1 << 20;
  }
  if (promises.prunes) driver->options.keep_sent = scene == SCENE_SPACE ? 50 : 15;
}

void driver_end(struct driver *driver) { ledger_end(&driver->ledger); }

msgq_result driver_open(struct driver *driver) {
  msgq_result result = expect(driver, "open", msgq_open(driver->path, &driver->options, &driver->queue), false);
  if (result != MSGQ_OK) {
    driver->queue = NULL;
    return result;
  }
  msgq_set_event_handler(driver->queue, handle, driver, NULL);
  msgq_batch_options batches = MSGQ_BATCH_OPTIONS_INIT;
  batches.max_messages = 11;
  if (driver->sends_batches) msgq_set_batch_transport(driver->queue, batch_transport, driver, NULL, &batches);
  else msgq_set_transport(driver->queue, transport, driver, NULL);
  msgq_set_connectivity(driver->queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false);
  driver_note(driver, (struct event){ .kind = EVENT_OPENED, .result = (int32_t)result });
  return result;
}

msgq_result driver_close(struct driver *driver) {
  if (driver->queue == NULL) return MSGQ_CLOSED;
  msgq_result result = expect(driver, "close", msgq_close(driver->queue, driver->strict ? 5000 : 500), false);
  driver->queue = NULL;
  driver_note(driver, (struct event){ .kind = EVENT_CLOSED, .result = (int32_t)result });
  return result;
}

static bool is_full(const struct driver *driver, msgq_result result) { return driver->ledger.promises.is_limited && result == MSGQ_FULL; }

static msgq_result enqueue_number(struct driver *driver, uint32_t number) {
  const struct message *message = &driver->ledger.messages[number];
  struct version version = message->versions[0];
  char id[32], conversation[16], key[16];
  char *body = malloc(version.size + 1);
  msgq_draft draft;
  memset(&draft, 0, sizeof draft);
  draft.struct_size = sizeof draft;
  id_of(id, number);
  snprintf(conversation, sizeof conversation, "c%u", message->conversation);
  body_fill(body, number, version);
  draft.id = id;
  draft.conversation = conversation;
  draft.body = body;
  draft.body_size = version.size;
  draft.time_ms = time_of(number);
  if (message->key != 0) {
    snprintf(key, sizeof key, "k%u", message->key);
    draft.replace_key = key;
  }
  msgq_result result, own = MSGQ_OK;
  if (message->is_own) result = msgq_record_batch(driver->queue, &draft, NULL, 1, &own);
  else result = message->is_received ? msgq_record(driver->queue, &draft, "Ana", NULL) : msgq_enqueue(driver->queue, &draft, NULL);
  if (result == MSGQ_OK) result = own;
  expect(driver, message->is_received ? "record" : "enqueue", result,
         (message->maybe && result == MSGQ_DUPLICATE) || is_full(driver, result));
  free(body);
  driver_note(driver, (struct event){ .kind = message->is_received ? EVENT_RECORDED : EVENT_ENQUEUED, .number = number, .result = (int32_t)result });
  return result;
}

static msgq_result enqueue_new(struct driver *driver, enum event_kind kind, uint32_t conversation, uint32_t size, uint32_t key) {
  pthread_mutex_lock(&driver->lock);
  uint32_t number = driver->next++;
  pthread_mutex_unlock(&driver->lock);
  driver_note(driver, (struct event){ .kind = (uint16_t)kind, .number = number, .conversation = (uint16_t)conversation, .size = size, .key = key });
  msgq_result result = enqueue_number(driver, number);
  if (result == MSGQ_UNKNOWN && driver->remember_unknown) driver_enqueue_again(driver, number);
  return result;
}

msgq_result driver_enqueue(struct driver *driver, uint32_t conversation, uint32_t size) {
  return enqueue_new(driver, EVENT_ENQUEUE, conversation, size, 0);
}

msgq_result driver_record(struct driver *driver, uint32_t conversation, uint32_t size) {
  return enqueue_new(driver, EVENT_RECORD, conversation, size, 0);
}

void driver_enqueue_again(struct driver *driver, uint32_t number) {
  const struct message *message = &driver->ledger.messages[number];
  driver_note(driver, (struct event){ .kind = EVENT_ENQUEUE, .number = number, .conversation = message->conversation });
  enqueue_number(driver, number);
}

/* Returns a message near a random number for which `fits` is true; -1: none. */
static long choose(struct driver *driver, bool (*fits)(const struct message *));
static bool is_kept(const struct message *message) { return message->is_done && message->is_received && !message->delete_tried; }

/* Enqueues or records several messages, and records one that is there again. */
static void store_batch(struct driver *driver, enum event_kind kind, uint32_t count, uint32_t size) {
  long known = kind == EVENT_RECORD && !driver->ledger.promises.prunes ? choose(driver, is_kept) : -1;
  msgq_draft *drafts = calloc(count + 1, sizeof *drafts);
  const char **senders = calloc(count + 1, sizeof *senders);
  msgq_result *results = calloc(count + 1, sizeof *results);
  char(*ids)[32] = calloc(count + 1, sizeof *ids), (*conversations)[16] = calloc(count, sizeof *conversations);
  char **bodies = calloc(count, sizeof *bodies);
  uint32_t first = driver->next, batch = ++driver->next_batch + (first << 12);
  driver->next += count;
  for (uint32_t index = 0; index < count; index++) {
    uint32_t number = first + index;
    struct version version = { 0, size / 2 + random_below(&driver->generator, size) };
    struct event event = { .kind = (uint16_t)kind, .number = number, .conversation = (uint16_t)(number % 5), .size = version.size, .batch = batch };
    if (kind == EVENT_RECORD && number % 3 == 1) event.result = 1;
    else senders[index] = "Ana";
    driver_note(driver, event);
    id_of(ids[index], number);
    snprintf(conversations[index], sizeof conversations[index], "c%u", number % 5);
    bodies[index] = malloc(version.size + 1);
    body_fill(bodies[index], number, version);
    drafts[index].struct_size = sizeof *drafts;
    drafts[index].id = ids[index];
    drafts[index].conversation = conversations[index];
    drafts[index].body = bodies[index];
    drafts[index].body_size = version.size;
    drafts[index].time_ms = time_of(number);
  }
  if (known >= 0) {
    id_of(ids[count], (uint32_t)known);
    drafts[count] = drafts[0];
    drafts[count].id = ids[count];
    senders[count] = "Ben";
  }
  bool is_record = kind == EVENT_RECORD;
  msgq_result result = is_record ? msgq_record_batch(driver->queue, drafts, senders, count + (known >= 0 ? 1 : 0), results)
                                 : msgq_enqueue_batch(driver->queue, drafts, count, NULL);
  expect(driver, is_record ? "record_batch" : "enqueue_batch", result, is_full(driver, result));
  for (uint32_t index = 0; index < count; index++) {
    if (result == MSGQ_OK && results[index] != MSGQ_OK) journal_problem(driver->journal, "record_batch refused the new id %s", ids[index]);
    struct event event = { .kind = is_record ? EVENT_RECORDED : EVENT_ENQUEUED, .number = first + index, .result = (int32_t)result };
    driver_note(driver, event);
    free(bodies[index]);
  }
  if (result == MSGQ_OK && results[count] != MSGQ_OK) journal_problem(driver->journal, "record_batch refused %s, which is there", ids[count]);
  free(bodies);
  free(conversations);
  free(ids);
  free(results);
  free(senders);
  free(drafts);
}

void driver_batch(struct driver *driver, uint32_t count, uint32_t size) { store_batch(driver, EVENT_ENQUEUE, count, size); }

/* Makes the change of a received message, or of a queued one with or without metadata. */
static msgq_result change(struct driver *driver, const struct message *message, const char *id, uint32_t number, struct version version,
                          const char *body) {
  char value[16];
  msgq_pair pair = { "version", value };
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_message *before = NULL;
  if (!has_metadata(message, version.version)) return msgq_edit(driver->queue, id, body, version.size);
  snprintf(value, sizeof value, "%u", version.version);
  draft.body = body;
  draft.body_size = version.size;
  draft.metadata = &pair;
  draft.metadata_count = 1;
  if (message->is_received) {
    draft.time_ms = new_time_of(number, version.version);
    return msgq_update(driver->queue, id, &draft);
  }
  /* The time of the last edit, as a host passes it on. */
  int64_t edited = msgq_get(driver->queue, id, &before) == MSGQ_OK ? before->edited_ms : -1;
  msgq_message_free(before);
  return msgq_edit_message(driver->queue, id, &draft, edited);
}

msgq_result driver_edit(struct driver *driver, uint32_t number, uint32_t size) {
  struct message *message = &driver->ledger.messages[number];
  if (message->versions_count >= versions_room - 1) return MSGQ_OK;
  uint32_t newest = 0;
  for (uint8_t index = 0; index < message->versions_count; index++) {
    if (message->versions[index].version > newest) newest = message->versions[index].version;
  }
  struct version version = { newest + 1, size };
  char id[32], *body = malloc(size + 1);
  id_of(id, number);
  body_fill(body, number, version);
  driver_note(driver, (struct event){ .kind = EVENT_EDIT, .number = number, .version = version.version, .size = size });
  msgq_result result = change(driver, message, id, number, version, body);
  bool may_be_gone = driver->ledger.promises.drops || (message->is_received && driver->ledger.promises.prunes);
  expect(driver, "edit", result, is_full(driver, result) || (may_be_gone && result == MSGQ_NOT_FOUND));
  driver_note(driver, (struct event){ .kind = EVENT_EDITED, .number = number, .version = version.version, .size = size, .result = (int32_t)result });
  free(body);
  return result;
}

msgq_result driver_delete(struct driver *driver, uint32_t number) {
  char id[32];
  id_of(id, number);
  driver_note(driver, (struct event){ .kind = EVENT_DELETE, .number = number });
  /* The message may have been pruned since it was chosen, because another thread sends. */
  bool may_be_gone = driver->ledger.promises.prunes;
  msgq_result result = expect(driver, "delete", msgq_delete(driver->queue, id), may_be_gone);
  driver_note(driver, (struct event){ .kind = EVENT_DELETED, .number = number, .result = (int32_t)result });
  return result;
}

msgq_result driver_clear(struct driver *driver, uint32_t conversation) {
  char name[16];
  snprintf(name, sizeof name, "c%u", conversation);
  driver_note(driver, (struct event){ .kind = EVENT_CLEAR, .conversation = (uint16_t)conversation });
  msgq_result result = expect(driver, "clear", msgq_clear(driver->queue, conversation == all_conversations ? NULL : name), false);
  driver_note(driver, (struct event){ .kind = EVENT_CLEARED, .conversation = (uint16_t)conversation, .result = (int32_t)result });
  return result;
}

static void delete_conversation(struct driver *driver, uint32_t conversation) {
  char name[16];
  uint64_t count = 0;
  snprintf(name, sizeof name, "c%u", conversation);
  driver_note(driver, (struct event){ .kind = EVENT_DELETE_CONVERSATION, .conversation = (uint16_t)conversation });
  msgq_result result = expect(driver, "delete_conversation", msgq_delete_conversation(driver->queue, name, &count), false);
  driver_note(driver, (struct event){ .kind = EVENT_CONVERSATION_DELETED, .conversation = (uint16_t)conversation, .result = (int32_t)result });
}

static void clear_failed(struct driver *driver, uint32_t conversation) {
  char name[16];
  uint64_t count = 0;
  snprintf(name, sizeof name, "c%u", conversation);
  driver_note(driver, (struct event){ .kind = EVENT_CLEAR_FAILED, .conversation = (uint16_t)conversation });
  msgq_result result = msgq_clear_failed(driver->queue, conversation == all_conversations ? NULL : name, &count);
  expect(driver, "clear_failed", result, false);
  driver_note(driver, (struct event){ .kind = EVENT_FAILED_CLEARED, .conversation = (uint16_t)conversation, .result = (int32_t)result });
}

static void mark_read(struct driver *driver, uint32_t number) {
  char id[32];
  id_of(id, number);
  driver_note(driver, (struct event){ .kind = EVENT_READ, .number = number });
  msgq_result result = expect(driver, "mark", msgq_mark(driver->queue, id, MSGQ_STATUS_READ), driver->ledger.promises.prunes);
  driver_note(driver, (struct event){ .kind = EVENT_READ_MARKED, .number = number, .result = (int32_t)result });
}

static bool is_sent(const struct message *message);
static bool may_be_read(const struct message *message) { return is_kept(message) || is_sent(message); }

/* One receipt for several messages. */
static void mark_batch(struct driver *driver) {
  enum { most = 8 };
  uint32_t numbers[most], count = 0;
  char ids[most][32];
  const char *names[most];
  msgq_result results[most] = { MSGQ_OK };
  for (uint32_t tries = 0; tries < most; tries++) {
    long number = choose(driver, may_be_read);
    if (number < 0) break;
    numbers[count] = (uint32_t)number;
    id_of(ids[count], (uint32_t)number);
    names[count] = ids[count];
    driver_note(driver, (struct event){ .kind = EVENT_READ, .number = (uint32_t)number });
    count++;
  }
  msgq_result result = expect(driver, "mark_batch", msgq_mark_batch(driver->queue, names, count, MSGQ_STATUS_READ, results), false);
  for (uint32_t index = 0; index < count; index++) {
    if (result == MSGQ_OK) expect(driver, "mark_batch", results[index], driver->ledger.promises.prunes);
    struct event event = { .kind = EVENT_READ_MARKED, .number = numbers[index], .result = (int32_t)(result == MSGQ_OK ? results[index] : result) };
    driver_note(driver, event);
  }
}

/* A receipt for a recorded message and those before it of its side in its conversation. */
static void mark_up_to(struct driver *driver) {
  char id[32];
  long last = choose(driver, is_kept);
  if (last < 0) return;
  const struct message *message = &driver->ledger.messages[last];
  for (uint32_t number = 0; number < driver->ledger.count; number++) {
    const struct message *other = &driver->ledger.messages[number];
    if (!other->is_tried || other->read_tried || other->conversation != message->conversation) continue;
    bool is_other_side = message->is_own ? other->is_received && !other->is_own : !other->is_received || other->is_own;
    if (!is_other_side) driver_note(driver, (struct event){ .kind = EVENT_READ, .number = number });
  }
  driver_note(driver, (struct event){ .kind = EVENT_READ, .number = (uint32_t)last });
  id_of(id, (uint32_t)last);
  msgq_result result = expect(driver, "mark_up_to", msgq_mark_up_to(driver->queue, id, MSGQ_STATUS_READ, NULL), driver->ledger.promises.prunes);
  driver_note(driver, (struct event){ .kind = EVENT_READ_MARKED, .number = (uint32_t)last, .result = (int32_t)result });
}

msgq_result driver_drain(struct driver *driver, uint32_t batch) {
  msgq_drain_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.batch = batch;
  options.timeout_ms = driver->strict ? 8000 : 300;
  return expect(driver, "drain", msgq_drain(driver->queue, &options, NULL), false);
}

/* A drain that includes what is failed. */
static void drain_failed(struct driver *driver, uint32_t conversation) {
  char name[16];
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  snprintf(name, sizeof name, "c%u", conversation);
  options.conversation = conversation == all_conversations ? NULL : name;
  options.include_failed = true;
  options.batch = random_below(&driver->generator, 3) * 5;
  options.timeout_ms = driver->strict ? 8000 : 300;
  driver_note(driver, (struct event){ .kind = EVENT_RETRY_ALL, .conversation = (uint16_t)conversation });
  expect(driver, "drain of failed messages", msgq_drain(driver->queue, &options, NULL), false);
}

static void set_title(struct driver *driver, uint32_t conversation) {
  char name[16], text[32];
  uint32_t title = driver->ledger.titles[conversation % titles_room].tried + 1;
  snprintf(name, sizeof name, "c%u", conversation);
  snprintf(text, sizeof text, "title %u", title);
  driver_note(driver, (struct event){ .kind = EVENT_TITLE, .conversation = (uint16_t)conversation, .version = title });
  msgq_result result = msgq_set_title(driver->queue, name, text);
  expect(driver, "set_title", result, result == MSGQ_NOT_FOUND);
  driver_note(driver, (struct event){ .kind = EVENT_TITLED, .conversation = (uint16_t)conversation, .version = title, .result = (int32_t)result });
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A host that waits for the descriptor for so many milliseconds, and polls when it is readable. */
static void poll_for(struct driver *driver, int duration) {
  struct pollfd descriptor = { .fd = msgq_fd(driver->queue), .events = POLLIN };
  int64_t end = now_ms() + duration, left = duration;
  if (descriptor.fd < 0) return;
  do {
    if (poll(&descriptor, 1, (int)left) == 1) expect(driver, "poll", msgq_poll(driver->queue, 0, NULL), false);
    left = end - now_ms();
  } while (left > 0);
}

static void retry(struct driver *driver, uint32_t number) {
  const struct message *message = &driver->ledger.messages[number];
  char id[32];
  id_of(id, number);
  uint16_t stops = message->stops;
  /* A kill may have undone its last outcome, an earlier call may have put it back, and a full queue may have dropped it since. */
  bool is_uncertain = !message->known || message->ambiguous || message->asked;
  driver_note(driver, (struct event){ .kind = EVENT_RETRY, .number = number });
  msgq_result result = msgq_retry(driver->queue, id);
  bool is_fine = (is_uncertain && result == MSGQ_CONFLICT) || (driver->ledger.promises.drops && result == MSGQ_NOT_FOUND);
  if (expect(driver, "retry", result, is_fine) != MSGQ_OK) return;
  for (int tries = 0; tries < (driver->strict ? 20000 : 1500); tries++) {
    pthread_mutex_lock(&driver->lock);
    bool ended = message->stops > stops && message->known;
    pthread_mutex_unlock(&driver->lock);
    if (ended) return;
    poll_for(driver, 0);
    usleep(100);
  }
}

/* Puts all failed messages back and waits until they were sent. */
static void retry_all(struct driver *driver, uint32_t conversation) {
  char name[16];
  uint64_t count = 0;
  snprintf(name, sizeof name, "c%u", conversation);
  driver_note(driver, (struct event){ .kind = EVENT_RETRY_ALL, .conversation = (uint16_t)conversation });
  if (expect(driver, "retry_all", msgq_retry_all(driver->queue, conversation == all_conversations ? NULL : name, &count), false) != MSGQ_OK) return;
  for (int tries = 0; tries < (driver->strict ? 20000 : 1500) && count > 0; tries++) {
    uint64_t left = 0;
    pthread_mutex_lock(&driver->lock);
    for (uint32_t number = 0; number < driver->ledger.count; number++) {
      const struct message *message = &driver->ledger.messages[number];
      left += message->is_done && !message->delete_tried && message->starts > 0 && (!message->was_sent || !message->known) &&
              (conversation == all_conversations || message->conversation == conversation);
    }
    pthread_mutex_unlock(&driver->lock);
    if (left == 0) return;
    usleep(100);
  }
  if (driver->strict && count > 0) journal_problem(driver->journal, "messages of retry_all are not sent");
}

static void backup(struct driver *driver, bool is_salvaged) {
  char path[4200];
  if (driver->backups == 30) return;
  uint32_t number = driver->backups++;
  snprintf(path, sizeof path, "%s-backup-%u", driver->path, number);
  driver_note(driver, (struct event){ .kind = EVENT_BACKUP, .number = number });
  msgq_result result = expect(driver, "backup", msgq_backup(driver->queue, path), false);
  driver_note(driver, (struct event){ .kind = EVENT_BACKED_UP, .number = number, .result = (int32_t)result });
  if (result != MSGQ_OK || !is_salvaged) return;
  char rescued[4200];
  snprintf(rescued, sizeof rescued, "%s-salvage-%u", driver->path, number);
  driver_note(driver, (struct event){ .kind = EVENT_SALVAGE, .number = number });
  result = expect(driver, "salvage", msgq_salvage(path, rescued, NULL), false);
  driver_note(driver, (struct event){ .kind = EVENT_SALVAGED, .number = number, .result = (int32_t)result });
}

void driver_settle(struct driver *driver) {
  driver_note(driver, (struct event){ .kind = EVENT_CALM });
  if (driver->options.callbacks == MSGQ_CALLBACKS_POLL) poll_for(driver, 1500);
  else usleep(1500000);
  driver_note(driver, (struct event){ .kind = EVENT_SETTLED });
}

/* ------------------------------------------------------------------ choices */

static bool is_queued(const struct message *message) {
  return message->is_done && !message->is_received && !message->delete_tried && message->starts == 0;
}
/* Own messages are recorded, but not updated. */
static bool may_be_updated(const struct message *message) { return is_kept(message) && !message->is_own; }
static bool is_failed(const struct message *message) {
  return message->is_done && !message->delete_tried && message->starts == message->stops && message->stops > 0 && !message->was_sent;
}
static bool is_sent(const struct message *message) {
  return message->is_done && !message->delete_tried && message->was_sent && message->starts == message->stops && !message->read_done;
}
static bool is_present(const struct message *message) { return message->is_done && !message->delete_tried && message->starts == message->stops; }

static long choose(struct driver *driver, bool (*fits)(const struct message *)) {
  uint32_t count = driver->ledger.count;
  if (count == 0) return -1;
  uint32_t start = random_below(&driver->generator, count);
  for (uint32_t step = 0; step < count && step < 400; step++) {
    uint32_t number = (start + step) % count;
    if (fits(&driver->ledger.messages[number])) return (long)number;
  }
  return -1;
}

static uint32_t size_of(struct driver *driver, bool big) {
  struct generator *generator = &driver->generator;
  uint32_t kind = random_below(generator, 10);
  if (big) return kind < 4 ? 1000 + random_below(generator, 4000) : kind < 9 ? 4000 + random_below(generator, 16000) : random_below(generator, 100);
  return kind < 8 ? 20 + random_below(generator, 380) : kind < 9 ? 1024 + random_below(generator, 2000) : 4096 + random_below(generator, 5000);
}

/* ------------------------------------------------------------------ scenes */

static const char *const names[SCENES] = { "mix", "bodies", "history", "volume", "durable", "hold", "clear", "settle", "threads", "space",
                                           "batches", "polled", "calls", "limits", "short", "feed" };

const char *scene_name(enum scene scene) { return names[scene]; }

enum scene scene_named(const char *name) {
  for (enum scene scene = 0; scene < SCENES; scene++) {
    if (strcmp(names[scene], name) == 0) return scene;
  }
  return SCENES;
}

struct promises scene_promises(enum scene scene) {
  return (struct promises){ .durable_outcomes = scene == SCENE_DURABLE,
                            .begins_durable = scene == SCENE_DURABLE || scene == SCENE_HOLD,
                            .holds = scene == SCENE_HOLD,
                            .prunes = scene == SCENE_HISTORY || scene == SCENE_SPACE || scene == SCENE_CALLS || scene == SCENE_LIMITS,
                            .drops = scene == SCENE_CALLS,
                            .is_limited = scene == SCENE_CALLS || scene == SCENE_LIMITS,
                            .follows = scene == SCENE_FEED };
}

/* A token is a letter and three numbers of 16 hexadecimal digits. The events have 32 bits of them in each field. */
bool token_of(char out[MSGQ_CHANGE_TOKEN_SIZE], const struct ledger *ledger) {
  const struct event *first = &ledger->follow[0], *second = &ledger->follow[1];
  if (second->kind == 0) return false;
  snprintf(out, MSGQ_CHANGE_TOKEN_SIZE, "%c%08x%08x%08x%08x%08x%08x", first->conversation, first->version, first->size, second->version, second->size,
           second->batch, second->key);
  return true;
}

/* Reads the next changes, and notes the token after them. */
static void follow(struct driver *driver) {
  char token[MSGQ_CHANGE_TOKEN_SIZE];
  msgq_change_page *page = NULL;
  bool has_token = token_of(token, &driver->ledger);
  msgq_result result = msgq_changes(driver->queue, has_token ? token : NULL, 1 + random_below(&driver->generator, 40), &page);
  if (expect(driver, "changes", result, false) != MSGQ_OK) return;
  unsigned part[6];
  char letter;
  uint32_t count = driver->ledger.followed + (uint32_t)msgq_changes_size(page);
  if (sscanf(msgq_changes_next(page), "%c%8x%8x%8x%8x%8x%8x", &letter, &part[0], &part[1], &part[2], &part[3], &part[4], &part[5]) == 7) {
    driver_note(driver, (struct event){ .kind = EVENT_FOLLOW, .number = count, .conversation = (uint16_t)letter, .version = part[0], .size = part[1] });
    driver_note(driver, (struct event){
                          .kind = EVENT_FOLLOWED, .number = count, .version = part[2], .size = part[3], .batch = part[4], .key = part[5] });
  } else journal_problem(driver->journal, "changes returned the token %s", msgq_changes_next(page));
  msgq_changes_free(page);
}

static void reopen(struct driver *driver) {
  driver_close(driver);
  driver_open(driver);
}

/* With a probability of 30 in 60 makes a call that concerns several messages, and returns true. */
static bool many_step(struct driver *driver) {
  uint32_t choice = random_below(&driver->generator, 60), conversation = random_below(&driver->generator, 5);
  if (choice < 12) enqueue_new(driver, EVENT_ENQUEUE, conversation, size_of(driver, false), 1 + random_below(&driver->generator, 3));
  else if (choice < 16) retry_all(driver, choice < 14 ? all_conversations : conversation);
  else if (choice < 17) backup(driver, true);
  else if (choice < 20) driver_record(driver, conversation, size_of(driver, false));
  else if (choice < 21) delete_conversation(driver, conversation);
  else if (choice < 22) clear_failed(driver, conversation == 0 ? all_conversations : conversation);
  else if (choice < 24) drain_failed(driver, conversation == 0 ? all_conversations : conversation);
  else if (choice < 27) set_title(driver, conversation);
  else if (choice < 28) store_batch(driver, EVENT_RECORD, 2 + random_below(&driver->generator, 12), 200);
  else if (choice < 29) mark_batch(driver);
  else if (choice < 30) mark_up_to(driver);
  return choice < 30;
}

/* Makes one random call. */
void scene_step(struct driver *driver, enum scene scene) {
  bool big = scene == SCENE_BODIES;
  uint32_t choice = random_below(&driver->generator, 100);
  long number;
  if (driver->queue == NULL && driver_open(driver) != MSGQ_OK) return;
  if (driver->ledger.promises.is_limited && many_step(driver)) return;
  if (driver->ledger.promises.follows && random_below(&driver->generator, 4) == 0) {
    follow(driver);
    return;
  }
  if (choice < 45) {
    driver_enqueue(driver, random_below(&driver->generator, 5), size_of(driver, big));
  } else if (choice < 52) {
    driver_batch(driver, 2 + random_below(&driver->generator, 12), big ? 3000 : 200);
  } else if (choice < 53) {
    driver_record(driver, random_below(&driver->generator, 5), size_of(driver, false));
  } else if (choice < 55) {
    /* From 64 messages on a batch writes its index entries at once. */
    bool is_large = random_below(&driver->generator, 8) == 0;
    store_batch(driver, EVENT_RECORD, is_large ? 64 + random_below(&driver->generator, 20) : 2 + random_below(&driver->generator, 12), 200);
  } else if (choice < 66) {
    if ((number = choose(driver, choice < 63 ? is_queued : may_be_updated)) >= 0) driver_edit(driver, (uint32_t)number, size_of(driver, big));
  } else if (choice < 73) {
    if ((number = choose(driver, is_present)) >= 0) driver_delete(driver, (uint32_t)number);
  } else if (choice < 87) {
    driver_drain(driver, 1 + random_below(&driver->generator, scene == SCENE_HISTORY ? 30 : 8));
  } else if (choice < 92) {
    if ((number = choose(driver, is_failed)) >= 0) retry(driver, (uint32_t)number);
  } else if (choice < 93) {
    if ((number = choose(driver, is_sent)) >= 0) mark_read(driver, (uint32_t)number);
  } else if (choice < 94) {
    mark_batch(driver);
  } else if (choice < 95) {
    mark_up_to(driver);
  } else if (choice < 97 || (scene == SCENE_CLEAR && choice < 99)) {
    driver_clear(driver, scene == SCENE_CLEAR && random_below(&driver->generator, 4) == 0 ? all_conversations : random_below(&driver->generator, 5));
  } else {
    reopen(driver);
  }
}

struct enqueuer {
  pthread_t thread;
  struct driver *driver;
  uint32_t conversation;
  unsigned length;
};

static void *enqueue_many(void *context) {
  struct enqueuer *enqueuer = context;
  struct generator generator = generator_of(7, enqueuer->conversation, 0);
  for (unsigned index = 0; index < enqueuer->length; index++) {
    driver_enqueue(enqueuer->driver, enqueuer->conversation, 20 + random_below(&generator, 500));
  }
  return NULL;
}

static void play_threads(struct driver *driver, unsigned length) {
  struct enqueuer enqueuers[4];
  for (uint32_t index = 0; index < 4; index++) {
    enqueuers[index] = (struct enqueuer){ .driver = driver, .conversation = index, .length = length / 4 };
    if (pthread_create(&enqueuers[index].thread, NULL, enqueue_many, &enqueuers[index]) != 0) abort();
  }
  for (unsigned index = 0; index < length / 8; index++) driver_drain(driver, 3);
  for (uint32_t index = 0; index < 4; index++) pthread_join(enqueuers[index].thread, NULL);
}

/* Waits until an idle queue has given back most of the free space of its file. */
static void give_back(struct driver *driver) {
  msgq_statistics statistics;
  for (int tries = 0; tries < 400 && driver->queue != NULL; tries++) {
    memset(&statistics, 0, sizeof statistics);
    statistics.struct_size = sizeof statistics;
    if (msgq_stats(driver->queue, &statistics) != MSGQ_OK) return;
    if (statistics.free_bytes <= 128 << 10) return;
    usleep(50000);
  }
  journal_problem(driver->journal, "%llu bytes of %llu stay free", (unsigned long long)statistics.free_bytes, (unsigned long long)statistics.file_bytes);
}

/* Leaves more free space than the file needs, and closes the queue, which runs VACUUM. */
static void shrink_by_close(struct driver *driver) {
  struct stat before = { 0 }, after = { 0 };
  driver_batch(driver, 500, 3000);
  driver_clear(driver, all_conversations);
  stat(driver->path, &before);
  reopen(driver);
  stat(driver->path, &after);
  if (driver->strict && (before.st_size < 1 << 20 || after.st_size > before.st_size / 2)) {
    journal_problem(driver->journal, "the close made a file of %lld bytes of one of %lld", (long long)after.st_size, (long long)before.st_size);
  }
}

/* A batch is folded, so that its sent messages get entries in the index of the history. */
static void play_space(struct driver *driver, unsigned length) {
  for (unsigned round = 0; round < length / 60 && driver->queue != NULL; round++) {
    driver_batch(driver, 280, 1500);
    driver_drain(driver, 50 + random_below(&driver->generator, 40));
    driver_clear(driver, all_conversations);
    give_back(driver);
    driver_batch(driver, 70, 100);
    driver_drain(driver, 40);
    shrink_by_close(driver);
  }
}

void scene_play_until(struct driver *driver, enum scene scene, unsigned length, unsigned after_fault) {
  driver_open(driver);
  bool has_threads = scene == SCENE_THREADS || scene == SCENE_BATCHES;
  if (has_threads && driver->queue != NULL) play_threads(driver, length);
  if (scene == SCENE_SPACE && driver->queue != NULL) play_space(driver, length);
  for (unsigned index = 0; index < length && !has_threads && scene != SCENE_SPACE; index++) {
    bool has_failed = driver->has_failed != NULL ? driver->has_failed() : shim_fired() > 0;
    if (has_failed && after_fault-- == 0) return;
    scene_step(driver, scene);
    if (scene == SCENE_SHORT && driver->queue != NULL) driver_close(driver);
    if (scene == SCENE_VOLUME) {
      for (unsigned more = 0; more < 12 && driver->queue != NULL; more++) driver_enqueue(driver, more % 5, 200 + more * 30);
    }
    if (scene == SCENE_CLEAR && index % (length / 3 + 1) == length / 6 && driver->queue != NULL) backup(driver, false);
    if (scene == SCENE_POLLED && index % (length / 4 + 1) == length / 8 && driver->queue != NULL) {
      driver_drain(driver, 10);
      if (random_below(&driver->generator, 2) == 0) driver_settle(driver);
      else usleep(1500000); /* nobody polls: nothing is promised about the outcomes */
    }
    if (scene == SCENE_SETTLE && index % (length / 2 + 1) == length / 4 && driver->queue != NULL) {
      driver_drain(driver, 10);
      driver_settle(driver);
    }
  }
}

void scene_play(struct driver *driver, enum scene scene, unsigned length) {
  scene_play_until(driver, scene, length, length);
  if (driver->queue != NULL) driver_close(driver);
}
