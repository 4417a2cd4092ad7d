/*
 * A program built with the header of version 0.2 (Tests/fixtures/msgqueue-0.2.h) and run with the current library. It
 * still works, and the library writes nothing beyond the structs of version 0.2.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msgqueue.h"

#if MSGQ_VERSION_NUMBER != 200
#error "this is not the header of version 0.2"
#endif

#define REQUIRE(condition)                                                            \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, msgq_error_detail()); \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

/* A struct followed by guard bytes that must not be written. */
#define GUARDED(type, name, init) \
  struct {                        \
    type known;                   \
    unsigned char guard[64];      \
  } name = { init, { 0 } };       \
  memset(name.guard, 0xa5, sizeof name.guard)

static int untouched(const unsigned char *guard) {
  for (size_t index = 0; index < 64; index++) {
    if (guard[index] != 0xa5) return 0;
  }
  return 1;
}

struct seen {
  int statuses, finished, pairs;
};

static msgq_verdict send_one(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct seen *seen = context;
  REQUIRE(delivery->struct_size >= sizeof *delivery && out->struct_size >= sizeof *out);
  REQUIRE(delivery->attempt == 1 && delivery->body_size == 5 && memcmp(delivery->body, "hello", 5) == 0);
  for (size_t index = 0; index < delivery->metadata_count; index++) {
    seen->pairs += strcmp(delivery->metadata[index].key, "key") == 0;
  }
  out->code = strcmp(delivery->conversation, "ben") == 0 ? 422 : 200;
  return MSGQ_VERDICT_HTTP;
}

static void on_event(void *context, const msgq_event *event) {
  struct seen *seen = context;
  REQUIRE(event->struct_size >= sizeof *event);
  if (event->kind == MSGQ_EVENT_STATUS && event->to == MSGQ_STATUS_FAILED) {
    seen->statuses += event->failure->kind == MSGQ_FAILURE_REJECTED && event->failure->code == 422;
  }
  if (event->kind == MSGQ_EVENT_DRAIN_FINISHED) seen->finished += event->report->sent == 2 && event->report->failed == 1;
}

static void write_and_send(msgq_queue *queue, struct seen *seen) {
  const msgq_pair pair = { "key", "value" };
  msgq_draft drafts[3] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  static const char *const ids[] = { "a", "b", "c" }, *const conversations[] = { "ana", "ben", "ana" };
  for (int index = 0; index < 3; index++) {
    drafts[index].id = ids[index];
    drafts[index].conversation = conversations[index];
    drafts[index].body = "hello";
    drafts[index].body_size = 5;
    drafts[index].metadata = &pair;
    drafts[index].metadata_count = 1;
  }
  REQUIRE(msgq_enqueue(queue, &drafts[0], NULL) == MSGQ_OK);
  REQUIRE(msgq_enqueue_batch(queue, &drafts[1], 2, NULL) == MSGQ_OK);
  GUARDED(msgq_explanation, explanation, MSGQ_EXPLANATION_INIT);
  REQUIRE(msgq_explain(queue, "a", &explanation.known) == MSGQ_OK && untouched(explanation.guard));
  REQUIRE(explanation.known.reason == MSGQ_REASON_NO_TRANSPORT);
  REQUIRE(msgq_set_event_handler(queue, on_event, seen, NULL) == MSGQ_OK);
  REQUIRE(msgq_set_transport(queue, send_one, seen, NULL) == MSGQ_OK);
  GUARDED(msgq_report, report, MSGQ_REPORT_INIT);
  const msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  REQUIRE(msgq_drain(queue, &options, &report.known) == MSGQ_OK && untouched(report.guard));
  REQUIRE(report.known.sent == 2 && report.known.failed == 1 && report.known.stop == MSGQ_STOP_EMPTY);
  REQUIRE(seen->pairs == 3 && seen->statuses == 1 && seen->finished == 1);
}

static void read_back(msgq_queue *queue) {
  GUARDED(msgq_counts, counts, MSGQ_COUNTS_INIT);
  REQUIRE(msgq_count(queue, NULL, &counts.known) == MSGQ_OK && untouched(counts.guard));
  REQUIRE(counts.known.sent == 2 && counts.known.failed == 1);
  GUARDED(msgq_state, state, MSGQ_STATE_INIT);
  REQUIRE(msgq_get_state(queue, &state.known) == MSGQ_OK && untouched(state.guard));
  REQUIRE(state.known.mode == MSGQ_MODE_MANUAL && state.known.has_transport);
  GUARDED(msgq_statistics, statistics, { .struct_size = sizeof(msgq_statistics) });
  REQUIRE(msgq_stats(queue, &statistics.known) == MSGQ_OK && untouched(statistics.guard));
  REQUIRE(statistics.known.sent == 2 && statistics.known.failures[MSGQ_FAILURE_REJECTED] == 1);
  msgq_message *message = NULL;
  REQUIRE(msgq_get(queue, "b", &message) == MSGQ_OK);
  REQUIRE(message->status == MSGQ_STATUS_FAILED && message->failure->code == 422 && message->attempts == 1);
  msgq_message_free(message);
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUSES_ALL;
  msgq_page *page = NULL;
  REQUIRE(msgq_list(queue, &filter, &page) == MSGQ_OK && msgq_list_size(page) == 3);
  REQUIRE(strcmp(msgq_list_at(page, 2)->id, "c") == 0 && msgq_list_at(page, 2)->sent_ms > 0);
  msgq_list_free(page);
  msgq_ledger *ledger = NULL;
  REQUIRE(msgq_attempts(queue, "b", &ledger) == MSGQ_OK && msgq_ledger_size(ledger) == 1);
  REQUIRE(msgq_ledger_at(ledger, 0)->outcome == MSGQ_ATTEMPT_REJECTED);
  msgq_ledger_free(ledger);
  msgq_conversation_page *conversations = NULL;
  REQUIRE(msgq_conversations(queue, 0, 0, &conversations) == MSGQ_OK && msgq_conversations_size(conversations) == 2);
  REQUIRE(msgq_conversations_at(conversations, 1)->counts->failed == 1);
  msgq_conversations_free(conversations);
}

int main(int count, char **arguments) {
  REQUIRE(count == 2);
  msgq_queue *queue = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  struct seen seen = { 0 };
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  options.callbacks = MSGQ_CALLBACKS_POLL;
  REQUIRE(msgq_open(arguments[1], &options, &queue) == MSGQ_OK);
  write_and_send(queue, &seen);
  read_back(queue);
  REQUIRE(msgq_close(queue, -1) == MSGQ_OK);
  GUARDED(msgq_check_report, report, MSGQ_CHECK_REPORT_INIT);
  REQUIRE(msgq_check(arguments[1], &report.known) == MSGQ_OK && untouched(report.guard));
  REQUIRE(report.known.sound && report.known.whole == 3);
  printf("built with 0.2, runs with %s\n", msgq_version());
  return 0;
}
