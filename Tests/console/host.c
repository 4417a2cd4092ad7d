/*
 * A program with a queue that serves a control socket. It reads lines from standard input: "offline",
 * "online", "refuse" and "accept" (what the transport answers), "end".
 *
 *   host STORE
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "msgqueue.h"

static atomic_bool accepts;

static msgq_verdict send_message(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  (void)delivery;
  if (atomic_load(&accepts)) return MSGQ_VERDICT_SENT;
  out->kind = MSGQ_FAILURE_REJECTED;
  out->code = 422;
  strcpy(out->text, "refused by the C program");
  return MSGQ_VERDICT_REJECT;
}

static int check(msgq_result result) {
  if (result == MSGQ_OK) return 0;
  fprintf(stderr, "%s: %s\n", msgq_result_name(result), msgq_error_detail());
  return 1;
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  msgq_queue *queue = NULL;
  if (check(msgq_open(arguments[1], &options, &queue))) return 1;
  if (check(msgq_set_transport(queue, send_message, NULL, NULL))) return 1;
  if (check(msgq_set_connectivity(queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_ETHERNET, false))) return 1;
  if (check(msgq_control_start(queue, NULL))) return 1;
  puts("ready");
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "end\n") != 0) {
    if (strcmp(line, "accept\n") == 0) atomic_store(&accepts, true);
    if (strcmp(line, "refuse\n") == 0) atomic_store(&accepts, false);
    msgq_connectivity to = strcmp(line, "offline\n") == 0  ? MSGQ_CONNECTIVITY_OFFLINE
                           : strcmp(line, "online\n") == 0 ? MSGQ_CONNECTIVITY_ONLINE
                                                           : MSGQ_CONNECTIVITY_UNKNOWN;
    if (to != MSGQ_CONNECTIVITY_UNKNOWN && check(msgq_set_connectivity(queue, to, MSGQ_LINK_ETHERNET, false))) return 1;
  }
  return check(msgq_close(queue, 5000));
}
