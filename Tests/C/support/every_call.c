#include "every_call.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static atomic_int releases;

static void count_release(void *context) {
  (void)context;
  atomic_fetch_add(&releases, 1);
}

static msgq_verdict unexpected_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery, (void)out;
  abort();
}

static void unexpected_batch(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  (void)context, (void)deliveries, (void)count, (void)outcomes;
  abort();
}

static void unexpected_event(void *context, const msgq_event *event) {
  (void)context, (void)event;
  abort();
}

static void one_message_calls(msgq_queue *queue, msgq_result expected) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  char id[MSGQ_ID_SIZE] = "untouched";
  char ids[2][MSGQ_ID_SIZE] = { "untouched", "untouched" };
  msgq_draft drafts[2] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  msgq_message *message = NULL;
  msgq_ledger *ledger = NULL;
  CHECK_RESULT(expected, msgq_enqueue(queue, &draft, id));
  CHECK_TEXT("untouched", id);
  CHECK_RESULT(expected, msgq_enqueue_batch(queue, drafts, 2, ids));
  CHECK_TEXT("untouched", ids[0]);
  CHECK_TEXT("untouched", ids[1]);
  CHECK_RESULT(expected, msgq_enqueue_bodies(queue, &draft, "ab", 2, (size_t[]) { 1, 1 }, 2, ids));
  CHECK_TEXT("untouched", ids[0]);
  CHECK_TEXT("untouched", ids[1]);
  CHECK_RESULT(expected, msgq_get(queue, "id", &message));
  CHECK(message == NULL);
  CHECK_RESULT(expected, msgq_edit(queue, "id", "body", 4));
  CHECK_RESULT(expected, msgq_edit_message(queue, "id", &draft, -1));
  CHECK_RESULT(expected, msgq_update(queue, "id", &draft));
  CHECK_RESULT(expected, msgq_delete(queue, "id"));
  CHECK_RESULT(expected, msgq_retry(queue, "id"));
  CHECK_RESULT(expected, msgq_send_now(queue, "id"));
  CHECK_RESULT(expected, msgq_mark(queue, "id", MSGQ_STATUS_READ));
  CHECK_RESULT(expected, msgq_wait(queue, "id", 0, &message));
  CHECK(message == NULL);
  CHECK_RESULT(expected, msgq_wait_async(queue, "id", 0, NULL, NULL));
  CHECK_RESULT(expected, msgq_attempts(queue, "id", &ledger));
  CHECK(ledger == NULL);
}

static void history_calls(msgq_queue *queue, msgq_result expected) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  char id[MSGQ_ID_SIZE] = "untouched";
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  msgq_conversation_page *page = NULL;
  msgq_statistics statistics = { .struct_size = sizeof statistics, .sent = 4711 };
  char *text = NULL;
  explanation.until_ms = 4711;
  CHECK_RESULT(expected, msgq_record(queue, &draft, "ben", id));
  CHECK_TEXT("untouched", id);
  msgq_result results[1] = { MSGQ_INTERNAL };
  CHECK_RESULT(expected, msgq_record_batch(queue, &draft, (const char *[]) { "ben" }, 1, results));
  CHECK_RESULT(MSGQ_INTERNAL, results[0]);
  CHECK_RESULT(expected, msgq_mark_batch(queue, (const char *[]) { "id" }, 1, MSGQ_STATUS_READ, results));
  CHECK_RESULT(MSGQ_INTERNAL, results[0]);
  uint64_t count = 4711;
  CHECK_RESULT(expected, msgq_mark_up_to(queue, "id", MSGQ_STATUS_READ, &count));
  CHECK_NUMBER(4711, count);
  CHECK_RESULT(expected, msgq_explain(queue, "id", &explanation));
  CHECK_NUMBER(4711, explanation.until_ms);
  CHECK_RESULT(expected, msgq_conversations(queue, 0, 10, &page));
  CHECK_RESULT(expected, msgq_conversations_by_time(queue, 0, 0, 10, &page));
  CHECK_RESULT(expected, msgq_get_conversation(queue, "ana", &page));
  CHECK(page == NULL);
  CHECK_RESULT(expected, msgq_set_title(queue, "ana", "Ana"));
  CHECK_RESULT(expected, msgq_stats(queue, &statistics));
  CHECK_NUMBER(4711, statistics.sent);
  msgq_minute_page *minutes = NULL;
  CHECK_RESULT(expected, msgq_minutes(queue, &minutes));
  CHECK(minutes == NULL);
  CHECK_RESULT(expected, msgq_stats_text(queue, &text));
  CHECK_RESULT(expected, msgq_stats_text_all(&queue, 1, &text));
  CHECK_RESULT(expected, msgq_banner(queue, NULL, &text));
  CHECK_RESULT(expected, msgq_banner(queue, "ana", &text));
  CHECK(text == NULL);
  msgq_state state = MSGQ_STATE_INIT;
  state.in_flight = 4711;
  CHECK_RESULT(expected, msgq_get_state(queue, &state));
  CHECK_NUMBER(4711, state.in_flight);
}

static void many_messages_calls(msgq_queue *queue, msgq_result expected) {
  msgq_page *list = NULL;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  msgq_filter filter = MSGQ_FILTER_INIT;
  counts.queued = 4711;
  CHECK_RESULT(expected, msgq_list(queue, &filter, &list));
  CHECK(list == NULL);
  CHECK_RESULT(expected, msgq_count(queue, NULL, &counts));
  CHECK_NUMBER(4711, counts.queued);
  CHECK_RESULT(expected, msgq_clear(queue, NULL));
  uint64_t count = 4711;
  CHECK_RESULT(expected, msgq_retry_all(queue, NULL, &count));
  CHECK_RESULT(expected, msgq_retry_all(queue, "ana", NULL));
  CHECK_RESULT(expected, msgq_delete_conversation(queue, "ana", &count));
  CHECK_RESULT(expected, msgq_clear_failed(queue, NULL, &count));
  CHECK_RESULT(expected, msgq_clear_failed_by(queue, &filter, &count));
  CHECK_RESULT(expected, msgq_retry_all_by(queue, NULL, &count));
  msgq_failure_group_page *groups = NULL;
  CHECK_RESULT(expected, msgq_failure_groups(queue, 0, &groups));
  CHECK(groups == NULL);
  msgq_waiting waiting = MSGQ_WAITING_INIT;
  waiting.paused = 4711;
  CHECK_RESULT(expected, msgq_count_waiting(queue, &waiting));
  CHECK_NUMBER(4711, waiting.paused);
  CHECK_NUMBER(4711, count);
  msgq_change_page *changes = NULL;
  CHECK_RESULT(expected, msgq_changes(queue, NULL, 0, &changes));
  CHECK(changes == NULL);
  msgq_hand_over *handed = NULL;
  CHECK_RESULT(expected, msgq_handed_over(queue, "orders", &handed));
  CHECK(handed == NULL);
  CHECK_RESULT(expected, msgq_take_over(queue, NULL, NULL, 0, NULL));
  CHECK_RESULT(expected, msgq_hand_over_done(queue, NULL));
  CHECK_RESULT(expected, msgq_hand_over_forget(queue, "orders", NULL));
  CHECK_RESULT(expected, msgq_backup(queue, "no-such-directory/backup.db"));
}

static void sending_calls(msgq_queue *queue, msgq_result expected) {
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  size_t ran = 4711;
  outcome.verdict = MSGQ_VERDICT_SENT;
  report.sent = 4711;
  CHECK_RESULT(expected, msgq_complete(queue, 1, &outcome));
  msgq_result result = MSGQ_INTERNAL;
  CHECK_RESULT(expected, msgq_complete_batch(queue, (uint64_t[]) { 1 }, &outcome, 1, &result));
  CHECK_RESULT(MSGQ_INTERNAL, result);
  CHECK_RESULT(expected, msgq_drain(queue, NULL, &report));
  CHECK_NUMBER(4711, report.sent);
  CHECK_RESULT(expected, msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false));
  CHECK_RESULT(expected, msgq_set_connectivity_reason(queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_WIFI, false, "refused"));
  CHECK_RESULT(expected, msgq_set_lifecycle(queue, MSGQ_LIFECYCLE_FOREGROUND));
  CHECK_RESULT(expected, msgq_pause(queue, NULL));
  CHECK_RESULT(expected, msgq_pause(queue, "ana"));
  CHECK_RESULT(expected, msgq_resume(queue, NULL));
  CHECK_RESULT(expected, msgq_resume(queue, "ana"));
  CHECK_RESULT(expected, msgq_withdraw_prompt(queue));
  CHECK_RESULT(expected, msgq_request_collect(queue));
  CHECK_RESULT(expected, msgq_poll(queue, 0, &ran));
  CHECK_NUMBER(4711, ran);
  CHECK_NUMBER(-1, msgq_fd(queue));
  int64_t now = 4711;
  CHECK_RESULT(expected, msgq_advance(queue, 1, &now));
  CHECK_NUMBER(4711, now);
}

/* A release function runs exactly once, also when the call fails. */
static void registering_calls(msgq_queue *queue, msgq_result expected) {
  atomic_store(&releases, 0);
  CHECK_RESULT(expected, msgq_set_transport(queue, unexpected_send, NULL, count_release));
  CHECK_NUMBER(1, atomic_load(&releases));
  CHECK_RESULT(expected, msgq_set_event_handler(queue, unexpected_event, NULL, count_release));
  CHECK_NUMBER(2, atomic_load(&releases));
  const msgq_batch_options batches = MSGQ_BATCH_OPTIONS_INIT;
  CHECK_RESULT(expected, msgq_set_batch_transport(queue, unexpected_batch, NULL, count_release, &batches));
  CHECK_NUMBER(3, atomic_load(&releases));
  CHECK_RESULT(expected, msgq_set_transport(queue, unexpected_send, NULL, NULL));
  CHECK_RESULT(expected, msgq_set_event_handler(queue, unexpected_event, NULL, NULL));
}

void every_call_answers(msgq_queue *queue, msgq_result expected) {
  one_message_calls(queue, expected);
  history_calls(queue, expected);
  many_messages_calls(queue, expected);
  sending_calls(queue, expected);
  registering_calls(queue, expected);
}
