/* Enqueues while offline, sends when online, and checks each step:
   cc small.c -lmsgqueue -o small && ./small STORE */
#include <msgqueue.h>
#include <stdio.h>

static int changes; /* events: queued, sending, sent */

static msgq_verdict send_one(void *context, const msgq_delivery *delivery, msgq_outcome *outcome) {
  (void)context, (void)outcome;
  printf("to %s: %.*s\n", delivery->conversation, (int)delivery->body_size, (char *)delivery->body);
  return MSGQ_VERDICT_SENT;
}

static void on_event(void *context, const msgq_event *event) {
  (void)context;
  if (event->kind == MSGQ_EVENT_STATUS) printf("%s\n", msgq_status_label(event->to)), changes++;
}

#define CHECK(condition) \
  if (!(condition)) return printf("%s: failed %s\n", #condition, msgq_error_detail()), 1

int main(int count, char **arguments) {
  msgq_queue *queue;
  msgq_options options = MSGQ_OPTIONS_INIT;
  msgq_draft draft = { sizeof draft, .conversation = "ana", .body = "hello", .body_size = 5 };
  msgq_report report = MSGQ_REPORT_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  options.initial_connectivity = MSGQ_CONNECTIVITY_OFFLINE; /* until the first report */
  CHECK(msgq_open(count > 1 ? arguments[1] : "outbox.db", &options, &queue) == MSGQ_OK);
  CHECK(msgq_set_event_handler(queue, on_event, NULL, NULL) == MSGQ_OK);
  CHECK(msgq_set_transport(queue, send_one, NULL, NULL) == MSGQ_OK);
  CHECK(msgq_enqueue(queue, &draft, NULL) == MSGQ_OK); /* on disk now */
  CHECK(msgq_drain(queue, NULL, &report) == MSGQ_OK && report.stop == MSGQ_STOP_OFFLINE);
  CHECK(msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false) == MSGQ_OK);
  CHECK(msgq_drain(queue, NULL, &report) == MSGQ_OK && report.sent == 1 && report.remaining == 0);
  CHECK(msgq_close(queue, 5000) == MSGQ_OK);
  CHECK(changes == 3);
  return puts("all checks passed"), 0;
}
