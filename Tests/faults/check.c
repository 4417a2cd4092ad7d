#include "check.h"

#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAIL(...) return snprintf(why, room, __VA_ARGS__), false

static const char *const status_words[] = { "queued", "sending", "sent", "delivered", "read", "failed" };

long number_of(const char *id) {
  char *end = NULL;
  if (id == NULL || id[0] != 'm') return -1;
  long number = strtol(id + 1, &end, 10);
  return *end == '\0' && number >= 0 && number < messages_room ? number : -1;
}

void id_of(char out[32], uint32_t number) { snprintf(out, 32, "m%06u", number); }

int64_t time_of(uint32_t number) { return number % 3 == 0 ? INT64_C(1000000000000) + number * INT64_C(7919) % 100000 * 1000 : 0; }

int64_t new_time_of(uint32_t number, uint32_t version) {
  return number % 4 == 1 ? 0 : INT64_C(1000000000000) + (number * INT64_C(7919) + version * INT64_C(104729)) % 100000 * 1000;
}

bool has_metadata(const struct message *message, uint32_t version) { return version > 0 && (message->is_received || version % 2 == 0); }

/* Whether body, metadata and time are those of one version: a change is made as a whole or not at all. */
static bool is_version(const struct message *message, const msgq_message *item, uint32_t number, struct version version) {
  if (!body_is(item->body, item->body_size, number, version)) return false;
  unsigned long written = 0;
  if (item->metadata_count > 1) return false;
  if (item->metadata_count == 1) written = strtoul(item->metadata[0].value, NULL, 10);
  if (has_metadata(message, version.version) ? written != version.version : written > version.version || written % 2 != 0) return false;
  int64_t changed = message->is_received && version.version > 0 ? new_time_of(number, version.version) : 0;
  int64_t time = changed != 0 ? changed : time_of(number);
  if ((version.version > 0) != (item->edited_ms > 0)) return false;
  return item->time_ms == (time != 0 ? time : item->created_ms);
}

msgq_options check_options(const struct promises *promises) {
  msgq_options options;
  memset(&options, 0, sizeof options);
  msgq_options_init(&options);
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  options.keep_sent = 100000000;
  options.keep_sent_ms = -1;
  options.hold_interrupted = promises->holds;
  options.durable_outcomes = promises->durable_outcomes;
  options.online_debounce_ms = 0;
  options.max_in_flight = 8;
  options.keep_changes = promises->follows ? 1000000 : 0;
  return options;
}

/* Returns the statuses that the message may have, as bits. */
static uint32_t allowed_statuses(const struct ledger *ledger, const struct message *message) {
  uint32_t final = 0, sent = MSGQ_STATUS_BIT(MSGQ_STATUS_SENT) | MSGQ_STATUS_BIT(MSGQ_STATUS_DELIVERED) | MSGQ_STATUS_BIT(MSGQ_STATUS_READ);
  uint32_t queued = MSGQ_STATUS_BIT(MSGQ_STATUS_QUEUED), failed = MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED);
  if (message->is_received) {
    if (message->read_done) return MSGQ_STATUS_BIT(MSGQ_STATUS_READ);
    if (!message->read_tried) return MSGQ_STATUS_BIT(message->is_own ? MSGQ_STATUS_SENT : MSGQ_STATUS_DELIVERED);
    return message->is_own ? sent & ~MSGQ_STATUS_BIT(MSGQ_STATUS_DELIVERED) : sent & ~MSGQ_STATUS_BIT(MSGQ_STATUS_SENT);
  }
  if (message->read_done) return MSGQ_STATUS_BIT(MSGQ_STATUS_READ);
  /* The engine writes the beginning of an attempt before it calls the transport, which records the start. */
  if (message->starts == 0) return queued | (ledger->promises.holds ? failed : 0);
  if (message->stops > 0) final = message->verdict == MSGQ_VERDICT_SENT ? sent : message->verdict == MSGQ_VERDICT_OFFLINE ? queued : failed;
  if (message->starts == message->stops && message->durable) return final | (message->asked ? queued : 0);
  /* The store may have the outcome, only the beginning, or neither. */
  if (ledger->promises.holds && ledger->promises.begins_durable) return final | failed;
  return final | queued | (ledger->promises.holds || message->starts > 1 ? failed : 0);
}

static bool check_message(const struct ledger *ledger, const msgq_message *item, long number, unsigned flags, char *why, size_t room) {
  const struct message *message = &ledger->messages[number];
  char conversation[16];
  if (number >= (long)ledger->count || !message->is_tried) FAIL("message %s was never enqueued", item->id);
  if (message->refusal != MSGQ_OK && !message->is_done) {
    FAIL("message %s is stored although enqueue returned %s", item->id, msgq_result_name((msgq_result)message->refusal));
  }
  if (message->delete_done) FAIL("message %s exists although it was deleted", item->id);
  snprintf(conversation, sizeof conversation, "c%u", message->conversation);
  if (strcmp(item->conversation, conversation) != 0) FAIL("message %s is in conversation %s", item->id, item->conversation);
  bool known_body = false;
  for (uint8_t index = 0; index < message->versions_count && !known_body; index++) {
    known_body = is_version(message, item, (uint32_t)number, message->versions[index]);
  }
  if (!known_body) {
    FAIL("message %s (%s) has a wrong body of %zu bytes (%.60s), the metadata %s and the time %lld; version %u of %u bytes was acknowledged",
         item->id, status_words[item->status], item->body_size, item->failure != NULL ? item->failure->text : "",
         item->metadata_count > 0 ? item->metadata[0].value : "none", (long long)item->time_ms, message->versions[0].version,
         message->versions[0].size);
  }
  if (flags & CHECK_NO_OUTCOMES) return true;
  uint32_t allowed = allowed_statuses(ledger, message);
  if (!(allowed & MSGQ_STATUS_BIT(item->status))) {
    FAIL("message %s is %s (%.80s); %u attempts began, %u ended, verdict %d, %s", item->id, status_words[item->status],
         item->failure != NULL ? item->failure->text : "", message->starts, message->stops, message->verdict,
         message->durable ? "durable" : "not durable");
  }
  if (item->status == MSGQ_STATUS_FAILED && message->starts > message->stops && message->stops == 0 && item->failure != NULL &&
      item->failure->kind != MSGQ_FAILURE_UNKNOWN) {
    FAIL("message %s failed with kind %d although the outcome of its attempt is unknown", item->id, item->failure->kind);
  }
  return true;
}

/* Checks that a message for which the transport was called has an attempt. */
static bool check_begin(msgq_queue *queue, const char *id, char *why, size_t room) {
  msgq_ledger *attempts = NULL;
  msgq_result result = msgq_attempts(queue, id, &attempts);
  if (result != MSGQ_OK) FAIL("attempts of %s: %s", id, msgq_result_name(result));
  size_t count = msgq_attempts_size(attempts);
  msgq_attempts_free(attempts);
  if (count == 0) FAIL("the transport was called for message %s, which has no attempt", id);
  return true;
}

struct seen {
  unsigned char *numbers;
  uint64_t sequence, bytes, total[6];
  uint32_t last[256]; /* the last number of each conversation plus 1 */
  uint32_t oldest;    /* the first number that is queued and in its own place */
};

static bool see(msgq_queue *queue, const struct ledger *ledger, struct seen *seen, const msgq_message *item, unsigned flags, char *why,
                size_t room) {
  if (item->sequence <= seen->sequence) FAIL("the list is not in order at %s", item->id);
  seen->sequence = item->sequence;
  if ((unsigned)item->status < 6) seen->total[item->status]++;
  if (item->status == MSGQ_STATUS_QUEUED || item->status == MSGQ_STATUS_SENDING || item->status == MSGQ_STATUS_FAILED) seen->bytes += item->body_size;
  if (strncmp(item->id, "new-", 4) == 0) return true;
  long number = number_of(item->id);
  if (number < 0) FAIL("unknown id %s", item->id);
  if (seen->numbers[number]) FAIL("message %s is listed twice", item->id);
  seen->numbers[number] = 1;
  if (!check_message(ledger, item, number, flags, why, room)) return false;
  const struct message *message = &ledger->messages[number];
  if (!message->reordered) {
    if (item->status == MSGQ_STATUS_QUEUED && message->starts == 0 && (uint32_t)number < seen->oldest) seen->oldest = (uint32_t)number;
    uint32_t *last = &seen->last[message->conversation % 256];
    if ((uint32_t)number + 1 <= *last) FAIL("message %s is listed after m%06u", item->id, *last - 1);
    *last = (uint32_t)number + 1;
  }
  bool began = message->starts > 0 && (message->starts > message->stops || !message->durable);
  return !(flags & CHECK_BEGINS) || !ledger->promises.begins_durable || !began || check_begin(queue, item->id, why, room);
}

static bool list_all(msgq_queue *queue, const struct ledger *ledger, struct seen *seen, unsigned flags, char *why, size_t room) {
  msgq_filter filter;
  memset(&filter, 0, sizeof filter);
  filter.struct_size = sizeof filter;
  filter.statuses = MSGQ_STATUSES_ALL;
  filter.limit = 1000;
  for (;;) {
    msgq_page *list = NULL;
    msgq_result result = msgq_list(queue, &filter, &list);
    if (result != MSGQ_OK) FAIL("list: %s: %s", msgq_result_name(result), msgq_error_detail());
    size_t size = msgq_list_size(list);
    bool good = true;
    for (size_t index = 0; index < size && good; index++) good = see(queue, ledger, seen, msgq_list_at(list, index), flags, why, room);
    if (size > 0) filter.after = msgq_list_at(list, size - 1)->sequence;
    msgq_list_free(list);
    if (!good) return false;
    if (size < filter.limit) return true;
  }
}

/* Checks that the lists of one status have the messages that the list of all has. */
static bool check_lists(msgq_queue *queue, const struct seen *seen, msgq_list_order order, char *why, size_t room) {
  for (unsigned status = 0; status < 6; status++) {
    int64_t last = 0;
    msgq_filter filter;
    memset(&filter, 0, sizeof filter);
    filter.struct_size = sizeof filter;
    filter.statuses = MSGQ_STATUS_BIT(status);
    filter.limit = 1000;
    filter.without_bodies = true;
    filter.order = order;
    uint64_t count = 0;
    size_t size;
    do {
      msgq_page *list = NULL;
      msgq_result result = msgq_list(queue, &filter, &list);
      if (result != MSGQ_OK) FAIL("list of %s: %s: %s", status_words[status], msgq_result_name(result), msgq_error_detail());
      size = msgq_list_size(list);
      if (size > 0) filter.after = msgq_list_at(list, size - 1)->sequence;
      if (size > 0 && order == MSGQ_ORDER_TIME) filter.after_time_ms = msgq_list_at(list, size - 1)->time_ms;
      for (size_t index = 0; index < size && order == MSGQ_ORDER_TIME; index++) {
        int64_t time = msgq_list_at(list, index)->time_ms;
        if (time < last) FAIL("the list of %s is not in order at %s", status_words[status], msgq_list_at(list, index)->id);
        last = time;
      }
      count += size;
      msgq_list_free(list);
    } while (size == filter.limit);
    if (count != seen->total[status]) {
      FAIL("the list of %s has %llu messages, the list of all %llu", status_words[status], (unsigned long long)count,
           (unsigned long long)seen->total[status]);
    }
  }
  return true;
}

/* Returns whether the message may have been there and be gone. */
static bool was_removed(const struct ledger *ledger, uint32_t number) {
  const struct message *message = &ledger->messages[number];
  return message->delete_tried || message->replacer > 0 || (ledger->promises.drops && message->starts == 0) ||
         (ledger->promises.prunes && message->was_sent);
}

/* A full queue drops the oldest first. */
static bool may_be_dropped(const struct ledger *ledger, const struct seen *seen, uint32_t number) {
  const struct message *message = &ledger->messages[number];
  return ledger->promises.drops && (message->starts == 0 || message->asked) && (message->reordered || number < seen->oldest);
}

static bool check_missing(const struct ledger *ledger, const struct seen *seen, char *why, size_t room) {
  for (uint32_t number = 0; number < ledger->count; number++) {
    const struct message *message = &ledger->messages[number];
    if (!message->is_done || seen->numbers[number] || message->delete_tried) continue;
    if (ledger->promises.prunes && (message->was_sent || message->is_received)) continue;
    if (message->replacer > 0 && seen->numbers[message->replacer - 1]) continue;
    if (message->replacer > 0 && was_removed(ledger, message->replacer - 1)) continue;
    if (may_be_dropped(ledger, seen, number)) continue;
    FAIL("message m%06u was acknowledged and is missing", number);
  }
  /* A batch is stored completely or not at all. */
  for (uint32_t number = 0, present = 0, absent = 0, batch = 0; number < ledger->count; number++) {
    const struct message *message = &ledger->messages[number];
    if (message->batch != batch) present = absent = 0;
    batch = message->batch;
    if (batch == 0 || message->is_done || message->delete_tried || message->was_sent || message->reordered) continue;
    /* The history's limits remove sent messages, and received ones that were read. */
    if (ledger->promises.prunes && (message->is_own || message->read_tried)) continue;
    if (!seen->numbers[number] && may_be_dropped(ledger, seen, number)) continue;
    if (seen->numbers[number]) present++;
    else absent++;
    if (present > 0 && absent > 0) FAIL("batch %u is stored in part", batch);
  }
  return true;
}

static bool check_counts(msgq_queue *queue, const struct seen *seen, char *why, size_t room) {
  msgq_counts counts;
  memset(&counts, 0, sizeof counts);
  counts.struct_size = sizeof counts;
  msgq_result result = msgq_count(queue, NULL, &counts);
  if (result != MSGQ_OK) FAIL("counts: %s", msgq_result_name(result));
  uint64_t listed = seen->total[2] + seen->total[3] + seen->total[4];
  uint64_t counted = counts.sent + counts.delivered + counts.read;
  /* Received messages have their own count. */
  if (counts.queued != seen->total[0] || counts.failed != seen->total[5] || counts.sending != 0 ||
      (counted != listed && counted + counts.received != listed)) {
    FAIL("counts say %llu queued, %llu failed, %llu sent; the list has %llu, %llu, %llu", (unsigned long long)counts.queued,
         (unsigned long long)counts.failed, (unsigned long long)counted, (unsigned long long)seen->total[0],
         (unsigned long long)seen->total[5], (unsigned long long)listed);
  }
  if (counts.unsent_bytes != seen->bytes) {
    FAIL("counts say %llu unsent bytes; the list has %llu", (unsigned long long)counts.unsent_bytes, (unsigned long long)seen->bytes);
  }
  return true;
}

/* Checks the titles of the conversations that have messages. */
static bool check_titles(msgq_queue *queue, const struct ledger *ledger, char *why, size_t room) {
  msgq_conversation_page *page = NULL;
  msgq_result result = msgq_conversations(queue, 0, 1000, &page);
  if (result != MSGQ_OK) FAIL("conversations: %s", msgq_result_name(result));
  bool good = true;
  for (size_t index = 0; index < msgq_conversations_size(page) && good; index++) {
    const msgq_conversation *item = msgq_conversations_at(page, index);
    unsigned conversation = 0, number = 0;
    if (sscanf(item->name, "c%u", &conversation) != 1 || conversation >= titles_room) continue;
    const struct title *title = &ledger->titles[conversation];
    if (item->title != NULL && sscanf(item->title, "title %u", &number) != 1) number = UINT32_MAX;
    good = number == 0 ? title->done == 0 || title->may_be_gone : number >= title->done && number <= title->tried;
    if (!good) {
      snprintf(why, room, "conversation %s has the title %.40s; %u to %u are possible", item->name, item->title != NULL ? item->title : "(none)",
               title->done, title->tried);
    }
  }
  msgq_conversations_free(page);
  return good;
}

/* The last change of each message. */
struct last_changes {
  struct last_change {
    char id[32];
    msgq_change_kind kind;
    msgq_status status;
  } *entries;
  size_t count;
};

/* Counts the changes after a token, and notes the last one of each message. */
static bool count_changes(msgq_queue *queue, const char *after, size_t *count, struct last_changes *last, char *why, size_t room) {
  char token[MSGQ_CHANGE_TOKEN_SIZE] = "";
  if (after != NULL) snprintf(token, sizeof token, "%s", after);
  for (size_t size = 1; size > 0;) {
    msgq_change_page *page = NULL;
    msgq_result result = msgq_changes(queue, token[0] == '\0' ? NULL : token, 1000, &page);
    if (result != MSGQ_OK) FAIL("changes after %s: %s: %s", token, msgq_result_name(result), msgq_error_detail());
    size = msgq_changes_size(page);
    for (size_t index = 0; index < size && last != NULL; index++) {
      const msgq_change *change = msgq_changes_at(page, index);
      size_t place = 0;
      while (place < last->count && strcmp(last->entries[place].id, change->id) != 0) place++;
      if (place == last->count) {
        last->entries = realloc(last->entries, ++last->count * sizeof *last->entries);
        snprintf(last->entries[place].id, sizeof last->entries[place].id, "%s", change->id);
      }
      last->entries[place].kind = change->kind;
      last->entries[place].status = change->status;
    }
    *count += size;
    snprintf(token, sizeof token, "%s", msgq_changes_next(page));
    msgq_changes_free(page);
  }
  return true;
}

/* A follower goes on from the last token that it was given, without a gap and without a repeat; and the last change of each message is what the
   store says of it. */
static bool check_changes(msgq_queue *queue, const struct ledger *ledger, const struct seen *seen, char *why, size_t room) {
  char token[MSGQ_CHANGE_TOKEN_SIZE];
  struct last_changes last = { NULL, 0 };
  size_t all = 0, rest = 0, present = 0, listed = 0;
  if (!ledger->promises.follows) return true;
  bool good = count_changes(queue, NULL, &all, &last, why, room);
  if (good && token_of(token, ledger)) {
    good = count_changes(queue, token, &rest, NULL, why, room);
    if (good && all != ledger->followed + rest) {
      snprintf(why, room, "%u changes were followed, %zu come after them, and %zu are there", ledger->followed, rest, all);
      good = false;
    }
  }
  for (size_t index = 0; index < last.count && good; index++) {
    const struct last_change *entry = &last.entries[index];
    msgq_message *message = NULL;
    msgq_result result = msgq_get(queue, entry->id, &message);
    bool is_there = entry->kind == MSGQ_CHANGE_STATUS;
    present += is_there;
    good = is_there ? result == MSGQ_OK && message->status == entry->status : result == MSGQ_NOT_FOUND;
    if (!good) {
      snprintf(why, room, "the last change of %s is %d to %s, but it is %s", entry->id, (int)entry->kind, status_words[entry->status],
               result == MSGQ_OK ? status_words[message->status] : msgq_result_name(result));
    }
    msgq_message_free(message);
  }
  free(last.entries);
  for (size_t status = 0; status < sizeof seen->total / sizeof seen->total[0]; status++) listed += seen->total[status];
  if (good && listed != present) {
    snprintf(why, room, "%zu messages are listed, %zu by their changes", listed, present);
    good = false;
  }
  return good;
}

bool check_queue(msgq_queue *queue, const struct ledger *ledger, unsigned flags, char *why, size_t room) {
  struct seen seen;
  memset(&seen, 0, sizeof seen);
  seen.numbers = calloc(1, messages_room);
  seen.oldest = UINT32_MAX;
  bool good = list_all(queue, ledger, &seen, flags, why, room) && check_lists(queue, &seen, MSGQ_ORDER_SEQUENCE, why, room) &&
              check_lists(queue, &seen, MSGQ_ORDER_TIME, why, room) && check_missing(ledger, &seen, why, room) &&
              check_counts(queue, &seen, why, room) && check_titles(queue, ledger, why, room) &&
              check_changes(queue, ledger, &seen, why, room);
  free(seen.numbers);
  return good;
}

static bool check_new(msgq_queue *queue, const char *id, char *why, size_t room) {
  msgq_draft draft;
  memset(&draft, 0, sizeof draft);
  draft.struct_size = sizeof draft;
  draft.id = id;
  draft.conversation = "new";
  draft.body = "afterwards";
  draft.body_size = 10;
  msgq_result result = msgq_enqueue(queue, &draft, NULL);
  if (result != MSGQ_OK) FAIL("enqueue afterwards: %s: %s", msgq_result_name(result), msgq_error_detail());
  return true;
}

bool check_derived(const char *path, char *why, size_t room) {
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  if (msgq_check(path, &report) == MSGQ_OK && strstr(report.text, "agree with") != NULL) FAIL("check: %s", report.text);
  return true;
}

static bool check_sound(const char *path, char *why, size_t room) {
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  msgq_result result = msgq_check(path, &report);
  if (result != MSGQ_OK) FAIL("check: %s: %s", msgq_result_name(result), msgq_error_detail());
  if (!report.sound) FAIL("check of a whole store: %s", report.text);
  return true;
}

struct complaints {
  atomic_int count;
  char text[200]; /* of the first one */
};

static void note_complaint(void *context, const msgq_event *event) {
  struct complaints *complaints = context;
  if (event->kind != MSGQ_EVENT_STORAGE || event->result == MSGQ_OK) return;
  if (atomic_fetch_add(&complaints->count, 1) == 0) snprintf(complaints->text, sizeof complaints->text, "%s", event->text);
}

/* A copy that is salvaged of a store that a power cut left. */
static bool check_salvage(const char *path, const struct ledger *ledger, char *why, size_t room) {
  char copy[4200];
  snprintf(copy, sizeof copy, "%s-of-image", path);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  msgq_result result = msgq_salvage(path, copy, &report);
  if (result != MSGQ_OK) FAIL("salvage: %s: %s", msgq_result_name(result), msgq_error_detail());
  if (!report.sound) FAIL("salvage of a whole store: %s", report.text);
  size_t used = strlen(why);
  struct ledger copied = *ledger;
  /* Salvage keeps no changes. */
  copied.promises.follows = false;
  bool good = check_store(copy, &copied, CHECK_ENQUEUE | CHECK_DERIVED | CHECK_WHOLE, why, room);
  if (!good && (used = strlen(why)) + 12 < room) snprintf(why + used, room - used, " (salvaged)");
  return good;
}

bool check_store(const char *path, const struct ledger *ledger, unsigned flags, char *why, size_t room) {
  if (flags & CHECK_DERIVED && !check_derived(path, why, room)) return false;
  if (flags & CHECK_WHOLE && access(path, F_OK) == 0 && !check_sound(path, why, room)) return false;
  if (flags & CHECK_SALVAGE && access(path, F_OK) == 0 && !check_salvage(path, ledger, why, room)) return false;
  msgq_options options = check_options(&ledger->promises);
  struct complaints complaints = { 0 };
  options.refuse_lost_tail = flags & CHECK_WHOLE;
  msgq_queue *queue = NULL;
  msgq_result result = msgq_open(path, &options, &queue);
  if (result != MSGQ_OK) FAIL("open: %s: %s", msgq_result_name(result), msgq_error_detail());
  if (flags & CHECK_WHOLE) msgq_set_event_handler(queue, note_complaint, &complaints, NULL);
  bool good = check_queue(queue, ledger, flags, why, room);
  if (good && (flags & CHECK_ENQUEUE)) good = check_new(queue, "new-1", why, room);
  result = msgq_close(queue, 5000);
  if (good && result != MSGQ_OK) FAIL("close: %s", msgq_result_name(result));
  if (good && atomic_load(&complaints.count) > 0) FAIL("a whole store was reported as damaged: %s", complaints.text);
  if (!good || !(flags & CHECK_REOPEN)) return good;
  result = msgq_open(path, &options, &queue);
  if (result != MSGQ_OK) FAIL("second open: %s: %s", msgq_result_name(result), msgq_error_detail());
  msgq_message *message = NULL;
  result = msgq_get(queue, "new-1", &message);
  good = result == MSGQ_OK;
  if (!good) snprintf(why, room, "message enqueued afterwards: %s", msgq_result_name(result));
  msgq_message_free(message);
  if (good) good = check_queue(queue, ledger, flags, why, room);
  msgq_close(queue, 5000);
  return good;
}

static bool check_copies(const char *store, const struct ledger *ledger, const char *kind, uint32_t tried, uint32_t done, char *why, size_t room) {
  for (uint32_t number = 0; number < tried; number++) {
    char path[4200];
    msgq_queue *queue = NULL;
    snprintf(path, sizeof path, "%s-%s-%u", store, kind, number);
    if (access(path, F_OK) != 0) {
      if (!(done & 1u << number)) continue;
      FAIL("the finished %s %u is missing", kind, number);
    }
    msgq_options options = check_options(&ledger->promises);
    msgq_result result = msgq_open(path, &options, &queue);
    if (result != MSGQ_OK) FAIL("%s %u: %s: %s", kind, number, msgq_result_name(result), msgq_error_detail());
    msgq_close(queue, 1000);
  }
  return true;
}

bool check_backups(const char *path, const struct ledger *ledger, char *why, size_t room) {
  return check_copies(path, ledger, "backup", ledger->backups_tried, ledger->backups_done, why, room) &&
         check_copies(path, ledger, "salvage", ledger->salvages_tried, ledger->salvages_done, why, room);
}
