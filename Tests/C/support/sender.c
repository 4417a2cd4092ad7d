#include "sender.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

void sender_begin(struct sender *sender, uint16_t port) {
  memset(sender, 0, sizeof *sender);
  pthread_mutex_init(&sender->lock, NULL);
  sender->port = port;
}

static msgq_verdict network_failure(msgq_outcome *out, const char *what) {
  bool late = errno == EAGAIN || errno == EWOULDBLOCK;
  out->kind = late ? MSGQ_FAILURE_TIMEOUT : MSGQ_FAILURE_NETWORK;
  snprintf(out->text, sizeof out->text, "%s: %s", what, late ? "no answer in time" : strerror(errno));
  return MSGQ_VERDICT_RETRY;
}

static bool send_all(int connection, const void *bytes, size_t size) {
  const char *next = bytes;
  while (size > 0) {
    ssize_t sent = send(connection, next, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    next += sent;
    size -= (size_t)sent;
  }
  return true;
}

/* Reads the answer up to the blank line; the receiver then closes the connection. */
static bool read_answer(int connection, char *answer, size_t size) {
  size_t filled = 0;
  for (;;) {
    ssize_t got = recv(connection, answer + filled, size - 1 - filled, 0);
    if (got == 0) errno = ECONNRESET;
    if (got <= 0) return false;
    filled += (size_t)got;
    answer[filled] = '\0';
    if (strstr(answer, "\r\n\r\n") != NULL) return true;
    if (filled == size - 1) return false;
  }
}

static msgq_verdict exchange(const struct sender *sender, int connection, const msgq_delivery *delivery, size_t messages,
                             msgq_outcome *out) {
  char head[1024], answer[1024];
  int length = snprintf(head, sizeof head,
                        "POST /messages HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: %s\r\nConversation: %s\r\n"
                        "Messages: %zu\r\nContent-Length: %zu\r\n\r\n",
                        delivery->id, delivery->conversation, messages, delivery->body_size);
  if (!send_all(connection, head, (size_t)length) || !send_all(connection, delivery->body, delivery->body_size)) {
    return network_failure(out, "send");
  }
  if (!read_answer(connection, answer, sizeof answer)) return network_failure(out, "receive");
  out->code = (int32_t)strtol(answer + strcspn(answer, " "), NULL, 10);
  const char *later = strstr(answer, "Retry-After: ");
  if (later != NULL) snprintf(out->retry_after, sizeof out->retry_after, "%.*s", (int)strcspn(later + 13, "\r"), later + 13);
  out->retry_after_queue = later != NULL && sender->retry_after_queue;
  snprintf(out->text, sizeof out->text, "HTTP %d", (int)out->code);
  return MSGQ_VERDICT_HTTP;
}

static msgq_verdict post(struct sender *sender, const msgq_delivery *delivery, size_t messages, msgq_outcome *out) {
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(sender->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  struct timeval timeout = { (time_t)(delivery->timeout_ms / 1000), (suseconds_t)(delivery->timeout_ms % 1000) * 1000 };
  int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return network_failure(out, "socket");
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  bool connected = connect(connection, (struct sockaddr *)&address, sizeof address) == 0;
  msgq_verdict verdict = connected ? exchange(sender, connection, delivery, messages, out) : network_failure(out, "connect");
  close(connection);
  return verdict;
}

/* Adds a conversation to those in flight; counts an overlap when it is there already. */
static size_t enter(struct sender *sender, const char *conversation) {
  size_t place = 0;
  pthread_mutex_lock(&sender->lock);
  for (size_t index = 0; index < 64; index++) {
    if (!sender->used[index]) place = index;
    else if (strcmp(sender->busy[index], conversation) == 0) atomic_fetch_add(&sender->overlaps, 1);
  }
  sender->used[place] = true;
  snprintf(sender->busy[place], sizeof sender->busy[place], "%s", conversation);
  int now = atomic_fetch_add(&sender->in_flight, 1) + 1;
  if (now > atomic_load(&sender->most_in_flight)) atomic_store(&sender->most_in_flight, now);
  pthread_mutex_unlock(&sender->lock);
  return place;
}

static void leave(struct sender *sender, size_t place) {
  pthread_mutex_lock(&sender->lock);
  sender->used[place] = false;
  atomic_fetch_sub(&sender->in_flight, 1);
  pthread_mutex_unlock(&sender->lock);
}

msgq_verdict sender_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct sender *sender = context;
  atomic_fetch_add(&sender->calls, 1);
  size_t place = enter(sender, delivery->conversation);
  msgq_verdict verdict = post(sender, delivery, 1, out);
  leave(sender, place);
  return verdict;
}

void sender_send_batch(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  struct sender *sender = context;
  char ids[32768];
  size_t used = 0;
  msgq_delivery joined = deliveries[0];
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  atomic_fetch_add(&sender->calls, 1);
  for (size_t index = 0; index < count && used < sizeof ids; index++) {
    used += (size_t)snprintf(ids + used, sizeof ids - used, "%s\n", deliveries[index].id);
  }
  joined.body = ids;
  joined.body_size = used < sizeof ids ? used : sizeof ids - 1;
  outcome.verdict = post(sender, &joined, count, &outcome);
  for (size_t index = 0; index < count; index++) outcomes[index] = outcome;
}

void sender_release(void *context) {
  struct sender *sender = context;
  atomic_fetch_add(&sender->released, 1);
}
