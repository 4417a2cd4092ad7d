/* Random calls with random arguments, for libFuzzer: each input is decoded to calls of the C functions on an empty store. */
#include <dirent.h>
#include <fcntl.h>
#include <msgqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[256], path[300];
static const uint8_t *input;
static size_t left;

static uint8_t byte(void) { return left == 0 ? 0 : (left--, *input++); }
static uint32_t number(void) {
  uint32_t value = byte();
  if (value < 200) return value;
  return value < 230 ? value << 8 | byte() : (uint32_t)byte() << 24 | (uint32_t)byte() << 16 | (uint32_t)byte() << 8 | byte();
}
static int64_t wide(void) {
  uint8_t kind = byte();
  if (kind < 100) return kind;
  if (kind < 140) return -(int64_t)byte();
  if (kind < 180) return (int64_t)number() << 16;
  return kind < 200 ? INT64_MAX : kind < 210 ? INT64_MIN : (int64_t)((uint64_t)number() << 32 | number());
}

/* Returns a string for one call: one of a few short names, bytes of the input, or NULL. */
static char texts[8][600];
static int texts_next;
static const char *text(void) {
  char *out = texts[texts_next++ % 8];
  uint8_t kind = byte();
  if (kind < 160) {
    snprintf(out, sizeof texts[0], "m%u", kind % 12);
    return out;
  }
  if (kind < 170) return NULL;
  size_t size = kind < 250 ? byte() % 64 : 500;
  for (size_t index = 0; index < size; index++) out[index] = (char)byte();
  out[size] = '\0';
  return out;
}

static uint8_t bytes[70000];
static size_t size(void) {
  uint8_t kind = byte();
  return kind < 200 ? kind : kind < 250 ? (size_t)kind * 40 : (size_t)(kind - 249) * 11000;
}

static void empty(void) {
  DIR *stream = opendir(directory);
  if (stream == NULL) abort();
  for (struct dirent *entry; (entry = readdir(stream)) != NULL;) unlinkat(dirfd(stream), entry->d_name, 0);
  closedir(stream);
}

static msgq_verdict transport(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  unsigned *calls = context;
  static const msgq_verdict verdicts[] = { MSGQ_VERDICT_SENT, MSGQ_VERDICT_RETRY, MSGQ_VERDICT_REJECT, MSGQ_VERDICT_HTTP, MSGQ_VERDICT_UNKNOWN, MSGQ_VERDICT_SENT };
  volatile uint8_t sum = 0;
  for (size_t index = 0; index < delivery->body_size; index++) sum = (uint8_t)(sum + ((const uint8_t *)delivery->body)[index]);
  out->code = (int32_t)(*calls * 37 % 600);
  snprintf(out->retry_after, sizeof out->retry_after, "%u", *calls % 3);
  return verdicts[(*calls)++ % 6];
}

static void handle(void *context, const msgq_event *event) {
  volatile size_t length = event->id != NULL ? strlen(event->id) : 0;
  (void)context, (void)length;
}

static msgq_draft a_draft(msgq_pair *pairs) {
  msgq_draft draft;
  memset(&draft, 0, sizeof draft);
  draft.struct_size = byte() < 240 ? sizeof draft : number() % (sizeof draft + 1);
  draft.id = text();
  draft.conversation = text();
  draft.body_size = size();
  draft.body = byte() < 245 ? bytes : NULL;
  if (byte() > 200) {
    draft.metadata_count = byte() % 4;
    for (size_t index = 0; index < draft.metadata_count; index++) pairs[index] = (msgq_pair){ text(), text() };
    draft.metadata = pairs;
  }
  if (byte() > 220) draft.not_before_ms = wide();
  if (byte() > 220) draft.expires_at_ms = wide();
  if (byte() > 180) draft.time_ms = byte() < 100 ? wide() : 1700000000000 + number();
  return draft;
}

static msgq_options some_options(void) {
  msgq_options options = MSGQ_OPTIONS_INIT;
  static const int64_t ladder[] = { 1, 2, 5 };
  uint8_t kind = byte();
  options.mode = kind % 4 == 3 ? (msgq_mode)number() : MSGQ_MODE_MANUAL;
  options.callbacks = kind & 16 ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
  options.hold_interrupted = kind & 32;
  options.durable_outcomes = kind & 64;
  options.online_debounce_ms = 0;
  options.attempt_timeout_ms = 20;
  options.on_demand_timeout_ms = 20;
  if (kind > 200) {
    options.backoff = MSGQ_BACKOFF_LADDER;
    options.ladder_ms = ladder;
    options.ladder_count = 3;
    options.keep_sent = byte() % 5;
    options.limit_messages = byte() % 20;
    options.max_in_flight = number() % 70;
    options.jitter = byte() / 100.0;
  }
  return options;
}

static void overwrite_bytes(void) {
  char name[320];
  snprintf(name, sizeof name, "%s%s", path, byte() % 2 == 0 ? "" : "-wal");
  int handle = open(name, O_RDWR | O_CLOEXEC);
  struct stat status;
  if (handle < 0) return;
  if (fstat(handle, &status) == 0 && status.st_size > 0) {
    for (int count = byte() % 8; count >= 0; count--) {
      off_t place = (off_t)((uint64_t)number() * 131 % (uint64_t)status.st_size);
      uint8_t value = byte();
      if (pwrite(handle, &value, 1, place) != 1) break;
    }
  }
  close(handle);
}

static unsigned calls;

static msgq_queue *open_queue(void) {
  msgq_queue *queue = NULL;
  msgq_options options = some_options();
  if (msgq_open(path, &options, &queue) != MSGQ_OK) return NULL;
  msgq_set_event_handler(queue, handle, NULL, NULL);
  msgq_set_transport(queue, transport, &calls, NULL);
  return queue;
}

static void read_some(msgq_queue *queue) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *list = NULL;
  filter.statuses = byte() < 200 ? MSGQ_STATUSES_ALL : number();
  filter.after = byte() < 200 ? byte() : (uint64_t)wide();
  filter.limit = byte() < 200 ? 50 : number();
  filter.newest_first = byte() & 1;
  filter.without_bodies = byte() & 1;
  if (byte() > 200) filter.conversation = text();
  if (byte() > 150) filter.order = byte() < 200 ? MSGQ_ORDER_TIME : (msgq_list_order)number();
  if (filter.order == MSGQ_ORDER_TIME && byte() > 100) filter.after_time_ms = wide();
  if (msgq_list(queue, &filter, &list) != MSGQ_OK) return;
  for (size_t index = 0; index <= msgq_list_size(list); index++) {
    const msgq_message *message = msgq_list_at(list, index);
    volatile size_t length = message != NULL ? strlen(message->id) + strlen(message->preview) : 0;
    (void)length;
  }
  msgq_list_free(list);
}

static void call(msgq_queue **queue) {
  msgq_pair pairs[4];
  char id[MSGQ_ID_SIZE];
  switch (byte() % 33) {
    case 0: case 1: case 2: case 3: {
      msgq_draft draft = a_draft(pairs);
      msgq_enqueue(*queue, byte() < 250 ? &draft : NULL, byte() & 1 ? id : NULL);
      break;
    }
    case 4: {
      msgq_draft drafts[5];
      size_t count = byte() % 6;
      for (size_t index = 0; index < count; index++) drafts[index] = a_draft(pairs);
      msgq_enqueue_batch(*queue, drafts, count, NULL);
      break;
    }
    case 5: {
      msgq_draft draft = a_draft(pairs);
      msgq_draft drafts[5] = { draft };
      const char *senders[5] = { text(), text(), text(), NULL, text() };
      msgq_result results[5];
      size_t count = byte() % 6;
      for (size_t index = 1; index < count; index++) drafts[index] = a_draft(pairs);
      msgq_record(*queue, &draft, text(), NULL);
      msgq_record_batch(*queue, drafts, byte() < 240 ? senders : NULL, count, byte() & 1 ? results : NULL);
      break;
    }
    case 6: {
      msgq_draft draft = a_draft(pairs);
      const char *message = text();
      if (byte() & 1) draft.id = draft.conversation = NULL;
      switch (byte() % 3) {
        case 0: msgq_edit(*queue, message, bytes, size()); break;
        case 1: msgq_edit_message(*queue, message, byte() < 250 ? &draft : NULL, byte() < 128 ? -1 : byte() < 200 ? 0 : wide()); break;
        default: msgq_update(*queue, message, byte() < 250 ? &draft : NULL); break;
      }
      break;
    }
    case 7: msgq_delete(*queue, text()); break;
    case 8: msgq_retry(*queue, text()); break;
    case 9: msgq_send_now(*queue, text()); break;
    case 10: {
      const char *ids[3] = { text(), text(), text() };
      msgq_result results[3];
      uint64_t count = 0;
      msgq_mark(*queue, text(), (msgq_status)number());
      msgq_mark_batch(*queue, ids, byte() % 4, (msgq_status)(byte() % 7), results);
      msgq_mark_up_to(*queue, text(), byte() < 200 ? MSGQ_STATUS_READ : (msgq_status)number(), &count);
      break;
    }
    case 11: {
      msgq_message *message = NULL;
      if (msgq_get(*queue, text(), &message) == MSGQ_OK) msgq_message_free(message);
      break;
    }
    case 12: read_some(*queue); break;
    case 13: {
      msgq_conversation_page *page = NULL;
      msgq_set_title(*queue, text(), text());
      msgq_result result = byte() & 1 ? msgq_conversations(*queue, (uint64_t)wide(), number(), &page)
                                      : msgq_conversations_by_time(*queue, wide(), (uint64_t)wide(), number(), &page);
      if (result != MSGQ_OK) break;
      for (size_t index = 0; index <= msgq_conversations_size(page); index++) msgq_conversations_at(page, index);
      msgq_conversations_free(page);
      break;
    }
    case 14: {
      msgq_counts counts = MSGQ_COUNTS_INIT;
      msgq_count(*queue, text(), &counts);
      break;
    }
    case 15: msgq_clear(*queue, text()); break;
    case 16: {
      msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
      const char *id = text();
      msgq_message *message = NULL;
      msgq_explain(*queue, id, &explanation);
      msgq_wait(*queue, id, byte() % 4, &message);
      msgq_message_free(message);
      msgq_wait_async(*queue, id, wide(), NULL, NULL);
      break;
    }
    case 17: {
      msgq_ledger *ledger = NULL;
      if (msgq_attempts(*queue, text(), &ledger) != MSGQ_OK) break;
      for (size_t index = 0; index <= msgq_attempts_size(ledger); index++) msgq_attempts_at(ledger, index);
      msgq_attempts_free(ledger);
      break;
    }
    case 18: {
      char copy[320];
      snprintf(copy, sizeof copy, "%s-copy-%u", path, byte() % 3);
      msgq_backup(*queue, copy);
      break;
    }
    case 19: {
      char *out = NULL;
      if (msgq_stats_text(*queue, &out) == MSGQ_OK) msgq_text_free(out);
      if (msgq_stats_text_all(queue, byte() % 2, &out) == MSGQ_OK) msgq_text_free(out);
      if (msgq_banner(*queue, text(), &out) == MSGQ_OK) msgq_text_free(out);
      msgq_state state = MSGQ_STATE_INIT;
      msgq_get_state(*queue, &state);
      break;
    }
    case 20: case 21: case 22: {
      msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
      options.batch = byte() < 250 ? byte() % 20 : number();
      options.timeout_ms = 30;
      msgq_drain(*queue, &options, NULL);
      break;
    }
    case 23: msgq_pause(*queue, text()); break;
    case 24: msgq_resume(*queue, text()); break;
    case 25: msgq_set_connectivity(*queue, (msgq_connectivity)(byte() % 4), (msgq_link)number(), byte() & 1); break;
    case 26: msgq_set_lifecycle(*queue, (msgq_lifecycle)number()); break;
    case 27: msgq_poll(*queue, 0, NULL); break;
    case 28: {
      msgq_outcome outcome = MSGQ_OUTCOME_INIT;
      outcome.verdict = (msgq_verdict)number();
      uint64_t tokens[3] = { (uint64_t)wide(), (uint64_t)wide(), byte() };
      msgq_outcome outcomes[3] = { outcome, outcome, MSGQ_OUTCOME_INIT };
      msgq_complete(*queue, tokens[0], &outcome);
      msgq_complete_batch(*queue, tokens, outcomes, byte() % 4, NULL);
      break;
    }
    case 29: {
      char out[16];
      msgq_relative_time(wide(), wide(), out, byte() % 17);
      msgq_status_label((msgq_status)number());
      msgq_status_icon((msgq_status)number());
      msgq_failure_text((msgq_failure_kind)number());
      msgq_result_name((msgq_result)number());
      break;
    }
    case 30:
      msgq_close(*queue, 200);
      *queue = open_queue();
      break;
    case 31: {
      static const char bodies[64];
      msgq_draft draft = a_draft(pairs);
      size_t sizes[4], count = byte() % 5;
      for (size_t index = 0; index < 4; index++) sizes[index] = byte() < 200 ? byte() % 20 : (size_t)number();
      if (byte() < 200) draft.id = NULL, draft.body_size = 0;
      msgq_enqueue_bodies(*queue, &draft, bodies, byte() % (sizeof bodies + 1), sizes, count, NULL);
      break;
    }
    default:
      msgq_close(*queue, 200);
      overwrite_bytes();
      *queue = open_queue();
      break;
  }
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  (void)count, (void)arguments;
  const char *base = getenv("FAULTS_DIRECTORY");
  snprintf(directory, sizeof directory, "%s/fuzz-XXXXXX", base != NULL ? base : "/tmp");
  if (mkdtemp(directory) == NULL) abort();
  snprintf(path, sizeof path, "%s/store.db", directory);
  for (size_t index = 0; index < sizeof bytes; index++) bytes[index] = (uint8_t)(index * 7 + index / 256);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
  input = data;
  left = count;
  empty();
  msgq_queue *queue = open_queue();
  for (int index = 0; index < 60 && left > 0; index++) {
    call(&queue);
    if (queue == NULL) {
      /* A refused store stays refused: use a new one for the other calls. */
      empty();
      queue = open_queue();
    }
  }
  msgq_close(queue, 200);
  return 0;
}
