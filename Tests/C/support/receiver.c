#include "receiver.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { max_rules = 64, max_requests = 4096, max_request_size = 65536, max_together = 16 };

struct rule {
  char id[MSGQ_ID_SIZE]; /* "": any */
  int status;
  int times;
  char retry_after[64];
};

struct request {
  char id[MSGQ_ID_SIZE];
  char conversation[MSGQ_ID_SIZE];
  char body[128];
  bool accepted;
  struct receiver_time time;
};

struct receiver {
  int listener;
  uint16_t port;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool held;
  bool stopping;
  size_t together;
  size_t most_together;
  size_t delay_every;
  int64_t delay_ms;
  struct rule rules[max_rules];
  size_t rule_count;
  struct request requests[max_requests];
  size_t request_count;
};

double receiver_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Copies the value of a header into `value`; "" when the header is missing. */
static void header_value(const char *head, const char *name, char *value, size_t size) {
  size_t length = strlen(name);
  value[0] = '\0';
  for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
    line += 2;
    if (strncasecmp(line, name, length) != 0 || line[length] != ':') continue;
    const char *start = line + length + 1 + strspn(line + length + 1, " ");
    snprintf(value, size, "%.*s", (int)strcspn(start, "\r"), start);
    return;
  }
}

/* Reads one request; returns false when the connection ends early. */
static bool read_request(int connection, struct request *request) {
  char *buffer = calloc(1, max_request_size + 1);
  size_t filled = 0, wanted = 0;
  char *body = NULL;
  bool whole = false;
  while (buffer != NULL && !whole && filled < max_request_size) {
    ssize_t got = recv(connection, buffer + filled, max_request_size - filled, 0);
    if (got <= 0) break;
    filled += (size_t)got;
    if (body == NULL && (body = strstr(buffer, "\r\n\r\n")) != NULL) {
      char length[32];
      body[2] = '\0';
      body += 4;
      header_value(buffer, "Content-Length", length, sizeof length);
      wanted = (size_t)strtoull(length, NULL, 10);
    }
    whole = body != NULL && filled >= (size_t)(body - buffer) + wanted;
  }
  if (whole) {
    header_value(buffer, "Idempotency-Key", request->id, sizeof request->id);
    header_value(buffer, "Conversation", request->conversation, sizeof request->conversation);
    char messages[32];
    header_value(buffer, "Messages", messages, sizeof messages);
    request->time.messages = messages[0] == '\0' ? 1 : (size_t)strtoull(messages, NULL, 10);
    snprintf(request->body, sizeof request->body, "%.*s", (int)wanted, body);
  }
  free(buffer);
  return whole;
}

/* Returns the first rule for this request and decrements its count; status 200 when there is none. */
static struct rule take_rule(struct receiver *receiver, const char *id) {
  for (size_t index = 0; index < receiver->rule_count; index++) {
    struct rule *rule = &receiver->rules[index];
    if (rule->times == 0 || (rule->id[0] != '\0' && strcmp(rule->id, id) != 0)) continue;
    rule->times--;
    return *rule;
  }
  struct rule ordinary = { "", 200, 0, "" };
  return ordinary;
}

/* Reads a request and stores it. Returns its index, or -1. */
static long take_request(struct receiver *receiver, int connection) {
  struct request request;
  memset(&request, 0, sizeof request);
  if (!read_request(connection, &request)) return -1;
  request.time.arrived = receiver_now();
  pthread_mutex_lock(&receiver->lock);
  if (receiver->request_count == max_requests) receiver->request_count--;
  long place = (long)receiver->request_count++;
  receiver->requests[place] = request;
  pthread_mutex_unlock(&receiver->lock);
  return place;
}

static void answer(struct receiver *receiver, int connection, long place) {
  if (place < 0) return;
  if (receiver->delay_every != 0 && ((size_t)place + 1) % receiver->delay_every == 0) pause_ms(receiver->delay_ms);
  pthread_mutex_lock(&receiver->lock);
  struct request *kept = &receiver->requests[place];
  while (receiver->held && !receiver->stopping) pthread_cond_wait(&receiver->changed, &receiver->lock);
  struct rule rule = take_rule(receiver, kept->id);
  kept->accepted = rule.status / 100 == 2;
  kept->time.answered = receiver_now();
  pthread_mutex_unlock(&receiver->lock);
  char answer[256];
  int length = snprintf(answer, sizeof answer, "HTTP/1.1 %d Answer\r\n%s%s%sContent-Length: 0\r\nConnection: close\r\n\r\n", rule.status,
                        rule.retry_after[0] != '\0' ? "Retry-After: " : "", rule.retry_after, rule.retry_after[0] != '\0' ? "\r\n" : "");
  /* The send fails when the sender was killed; that is not an error of the test. */
  if (send(connection, answer, (size_t)length, MSG_NOSIGNAL) < 0) return;
}

/* Returns whether another connection arrives within 500 ms. */
static bool is_another_coming(struct receiver *receiver) {
  struct pollfd listener = { receiver->listener, POLLIN, 0 };
  return poll(&listener, 1, 500) == 1;
}

static void *run(void *context) {
  struct receiver *receiver = context;
  for (;;) {
    int connections[max_together];
    long places[max_together];
    size_t count = 0;
    do {
      connections[count] = accept4(receiver->listener, NULL, NULL, SOCK_CLOEXEC);
      if (connections[count] < 0) break;
      places[count] = take_request(receiver, connections[count]);
      count++;
    } while (count < receiver->together && is_another_coming(receiver));
    if (count == 0) return NULL;
    if (count > receiver->most_together) receiver->most_together = count;
    for (size_t index = 0; index < count; index++) {
      answer(receiver, connections[index], places[index]);
      close(connections[index]);
    }
  }
}

struct receiver *receiver_start(uint16_t port) {
  struct receiver *receiver = calloc(1, sizeof *receiver);
  REQUIRE(receiver != NULL);
  pthread_mutex_init(&receiver->lock, NULL);
  pthread_cond_init(&receiver->changed, NULL);
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  socklen_t size = sizeof address;
  int on = 1;
  receiver->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(receiver->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  REQUIRE(bind(receiver->listener, (struct sockaddr *)&address, size) == 0);
  REQUIRE(listen(receiver->listener, 128) == 0);
  REQUIRE(getsockname(receiver->listener, (struct sockaddr *)&address, &size) == 0);
  receiver->port = ntohs(address.sin_port);
  REQUIRE(pthread_create(&receiver->thread, NULL, run, receiver) == 0);
  return receiver;
}

uint16_t receiver_port(const struct receiver *receiver) { return receiver->port; }

void receiver_stop(struct receiver *receiver) {
  pthread_mutex_lock(&receiver->lock);
  receiver->stopping = true;
  pthread_cond_broadcast(&receiver->changed);
  pthread_mutex_unlock(&receiver->lock);
  shutdown(receiver->listener, SHUT_RDWR); /* wakes the accept */
  pthread_join(receiver->thread, NULL);
  close(receiver->listener);
  pthread_cond_destroy(&receiver->changed);
  pthread_mutex_destroy(&receiver->lock);
  free(receiver);
}

void receiver_answer(struct receiver *receiver, const char *id, int status, int times, const char *retry_after) {
  pthread_mutex_lock(&receiver->lock);
  bool room = receiver->rule_count < max_rules;
  if (room) {
    struct rule *rule = &receiver->rules[receiver->rule_count++];
    snprintf(rule->id, sizeof rule->id, "%s", id != NULL ? id : "");
    snprintf(rule->retry_after, sizeof rule->retry_after, "%s", retry_after != NULL ? retry_after : "");
    rule->status = status;
    rule->times = times;
  }
  pthread_mutex_unlock(&receiver->lock);
  CHECK(room);
}

void receiver_hold(struct receiver *receiver, bool held) {
  pthread_mutex_lock(&receiver->lock);
  receiver->held = held;
  pthread_cond_broadcast(&receiver->changed);
  pthread_mutex_unlock(&receiver->lock);
}

void receiver_together(struct receiver *receiver, size_t count) { receiver->together = count < max_together ? count : max_together; }

size_t receiver_most_together(struct receiver *receiver) { return receiver->most_together; }

void receiver_delay(struct receiver *receiver, size_t every, int64_t delay_ms) {
  receiver->delay_every = every;
  receiver->delay_ms = delay_ms;
}

size_t receiver_times(struct receiver *receiver, struct receiver_time *times, size_t room) {
  pthread_mutex_lock(&receiver->lock);
  size_t total = receiver->request_count;
  for (size_t index = 0; index < total && index < room; index++) times[index] = receiver->requests[index].time;
  pthread_mutex_unlock(&receiver->lock);
  return total;
}

static size_t count(struct receiver *receiver, const char *id, bool only_accepted) {
  size_t total = 0;
  pthread_mutex_lock(&receiver->lock);
  for (size_t index = 0; index < receiver->request_count; index++) {
    const struct request *request = &receiver->requests[index];
    if ((id == NULL || strcmp(request->id, id) == 0) && (request->accepted || !only_accepted)) total++;
  }
  pthread_mutex_unlock(&receiver->lock);
  return total;
}

size_t receiver_requests(struct receiver *receiver, const char *id) { return count(receiver, id, false); }

size_t receiver_accepted(struct receiver *receiver, const char *id) { return count(receiver, id, true); }

void receiver_order(struct receiver *receiver, const char *conversation, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  pthread_mutex_lock(&receiver->lock);
  for (size_t index = 0; index < receiver->request_count && used < size; index++) {
    const struct request *request = &receiver->requests[index];
    if (!request->accepted || (conversation != NULL && strcmp(request->conversation, conversation) != 0)) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? " " : "", request->id);
  }
  pthread_mutex_unlock(&receiver->lock);
}

void receiver_body(struct receiver *receiver, const char *id, char *text, size_t size) {
  text[0] = '\0';
  pthread_mutex_lock(&receiver->lock);
  for (size_t index = 0; index < receiver->request_count; index++) {
    const struct request *request = &receiver->requests[index];
    if (strcmp(request->id, id) == 0) snprintf(text, size, "%s", request->body);
  }
  pthread_mutex_unlock(&receiver->lock);
}
