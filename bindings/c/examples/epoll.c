/*
 * A queue in an event loop: one thread that never blocks in a call, and three attempts in flight at a time.
 *
 *     cc epoll.c -lmsgqueue -o epoll && ./epoll PORT STORE
 *
 * The program enqueues nine messages, three in each of three conversations, sends all messages of the store by HTTP POST
 * to 127.0.0.1:PORT, and exits when the drain ends. The loop waits for the descriptor of the queue and for its own
 * sockets; the callbacks run only in msgq_poll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <msgqueue.h>

/* One request in flight: the bytes to write, and the answer. */
struct request {
  int socket;
  uint64_t token;
  char *bytes;
  size_t size, written, read;
  char answer[256];
};

static msgq_queue *queue;
static int loop;
static int finished;

/* Ends a request and its attempt. `status` is the HTTP status; 0: the connection was lost. */
static void complete(struct request *request, int status) {
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  outcome.verdict = status > 0 ? MSGQ_VERDICT_HTTP : MSGQ_VERDICT_RETRY;
  outcome.kind = status > 0 ? MSGQ_FAILURE_NONE : MSGQ_FAILURE_NETWORK;
  outcome.code = status;
  snprintf(outcome.text, sizeof outcome.text, "%s", status > 0 ? request->answer : "the connection was lost");
  /* After a time-out the outcome may be refused (MSGQ_CONFLICT). The queue has handled the time-out, so the result is ignored. */
  msgq_complete(queue, request->token, &outcome);
  close(request->socket); /* also removes it from the epoll */
  free(request->bytes);
  free(request);
}

/* Writes and reads as far as possible without blocking. */
static void advance(struct request *request) {
  while (request->written < request->size) {
    ssize_t count = send(request->socket, request->bytes + request->written, request->size - request->written, MSG_NOSIGNAL);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) break;
    request->written += (size_t)count;
  }
  while (request->written == request->size) {
    size_t room = sizeof request->answer - 1 - request->read;
    ssize_t count = room > 0 ? recv(request->socket, request->answer + request->read, room, 0) : 0;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) break; /* the receiver closes the connection after its answer */
    request->read += (size_t)count;
    request->answer[request->read] = '\0';
  }
  int status = 0;
  complete(request, sscanf(request->answer, "HTTP/1.1 %d", &status) == 1 ? status : 0);
}

/* The transport: starts a request. The outcome is reported later with msgq_complete. */
static msgq_verdict begin(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  const struct sockaddr_in *address = context;
  struct request *request = calloc(1, sizeof *request);
  size_t room = delivery->body_size + 1024;
  if (request == NULL || (request->bytes = malloc(room)) == NULL) return free(request), MSGQ_VERDICT_RETRY;
  int head = snprintf(request->bytes, room,
                      "POST /messages HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: %s\r\nConversation: %s\r\n"
                      "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                      delivery->id, delivery->conversation, delivery->body_size);
  memcpy(request->bytes + head, delivery->body, delivery->body_size);
  request->size = (size_t)head + delivery->body_size;
  request->token = delivery->token;
  request->socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct epoll_event interest = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = request };
  if (request->socket < 0 || (connect(request->socket, (const struct sockaddr *)address, sizeof *address) != 0 && errno != EINPROGRESS) ||
      epoll_ctl(loop, EPOLL_CTL_ADD, request->socket, &interest) != 0) {
    out->kind = MSGQ_FAILURE_NETWORK;
    snprintf(out->text, sizeof out->text, "%s", strerror(errno));
    if (request->socket >= 0) close(request->socket);
    free(request->bytes);
    return free(request), MSGQ_VERDICT_RETRY;
  }
  return MSGQ_VERDICT_PENDING;
}

static void on_event(void *context, const msgq_event *event) {
  (void)context;
  if (event->kind == MSGQ_EVENT_STATUS) printf("%s: %s\n", event->id, msgq_status_label((msgq_status)event->to));
}

static void on_drained(void *context, const msgq_report *report) {
  (void)context;
  printf("%llu sent, %llu failed, %llu left\n", (unsigned long long)report->sent, (unsigned long long)report->failed,
         (unsigned long long)report->remaining);
  finished = 1;
}

static void check(msgq_result result) {
  if (result == MSGQ_OK) return;
  fprintf(stderr, "%s: %s\n", msgq_result_name(result), msgq_error_detail());
  exit(1);
}

int main(int count, char **arguments) {
  static const char *const names[] = { "ana", "ben", "cem" };
  if (count != 3) return fprintf(stderr, "epoll PORT STORE\n"), 2;
  struct sockaddr_in receiver = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[1])) };
  receiver.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

  msgq_options options = MSGQ_OPTIONS_INIT;
  options.callbacks = MSGQ_CALLBACKS_POLL;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false; /* only the drain sends */
  options.max_in_flight = 3;
  check(msgq_open(arguments[2], &options, &queue));
  check(msgq_set_event_handler(queue, on_event, NULL, NULL));
  check(msgq_set_transport(queue, begin, &receiver, NULL));
  for (int number = 0; number < 9; number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = names[number % 3];
    draft.body = "hello";
    draft.body_size = 5;
    check(msgq_enqueue(queue, &draft, NULL));
  }

  /* The descriptor of the queue has no request. */
  struct epoll_event interest = { .events = EPOLLIN, .data.ptr = NULL };
  loop = epoll_create1(EPOLL_CLOEXEC);
  if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, msgq_fd(queue), &interest) != 0) return perror("epoll"), 1;
  check(msgq_drain_async(queue, NULL, on_drained, NULL));
  while (!finished) {
    struct epoll_event events[16];
    int ready = epoll_wait(loop, events, 16, -1);
    for (int index = 0; index < ready; index++) {
      if (events[index].data.ptr != NULL) advance(events[index].data.ptr);
      else check(msgq_poll(queue, 0, NULL));
    }
  }
  check(msgq_close(queue, 5000));
  return close(loop);
}
