/*
 * A transport that posts messages with libcurl. See http.h. It is one file, which gives the linker
 * no names but those of http.h, so that a program can compile it as it is.
 *
 *    1. Limits and types          transfer, list, channel, client
 *    2. Lists, time and errors
 *    3. Texts                     UTF-8, the values of headers, the key of a message
 *    4. W3C Trace Context         traceparent, tracestate
 *    5. Messages                  begin: the engine's call
 *    6. Answers                   take_header, take_body: libcurl's calls
 *    7. Connections               before_request: may a kept connection be used?
 *    8. Outcomes                  judge: what an ended request means
 *    9. Credentials               may_ask, authorize
 *   10. Requests                  start, stop, finish
 *   11. The second thread         report: gives the outcomes to the engine
 *   12. The end                   end, release
 *   13. The first thread          run: an epoll loop
 *   14. Options                   take_options
 *   15. Setting the transport     msgq_http_set_transport
 *
 * A message is a transfer. `begin` appends it to `incoming` on a thread of the engine. The first
 * thread starts its request (`active`), and when that has ended decides the outcome (`finished`)
 * and hands it over (`done`). The second thread gives it to the engine and frees the transfer. So
 * neither the network nor the store waits for the other.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SOCK_CLOEXEC, epoll, eventfd */
#endif
#include "http.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if LIBCURL_VERSION_NUM < 0x075100
#error "libcurl 7.81 or later is needed"
#endif

/* ------------------------------------------------------------------------ 1. limits and types */

enum {
  code_too_large = 100, /* CURLE_TOO_LARGE, since libcurl 8.6 */
  most_headers = 64,
  most_interim = 100,            /* answers with a status 1xx before the final one */
  most_head = 256 << 10,         /* bytes of its header, with those of interim answers */
  most_answer = 1 << 20,         /* bytes of an answer that are read */
  most_excerpt = 200,            /* bytes of an answer in the text of an outcome */
  most_idle = 68,                /* easy handles that are kept: max_in_flight and those on demand */
  most_results = 64,             /* outcomes in one call: the engine writes 64 in one commit */
  storage_delay_ms = 200,        /* until outcomes that the engine did not take are offered again */
  closed_check_ms = 100,         /* of a transport that was replaced and has requests in flight */
  longest_timeout_ms = 86400000, /* 1 day */
  refused_for_ms = 1000,         /* a server that refused the credentials is not asked again */
};

/* One message from the call of the transport until the engine has its outcome. */
struct transfer {
  struct transfer *next, *previous;
  struct client *client;
  CURL *easy; /* NULL unless it is in the multi handle */
  uint64_t token;
  int64_t deadline_ms;
  /* The headers of this message; the last one continues with those of every message. */
  struct curl_slist lines[4];
  char *authorization;
  uint64_t bearer_number; /* of the token that was sent */
  bool is_renewed;        /* a token was refused, this is the second request */
  unsigned requests;      /* that libcurl began */
  bool is_cut_off;        /* libcurl would have repeated a request of which a part was sent */
  bool is_stale;          /* its kept connection had bytes that no request asked for */
  bool needs_fresh;       /* the request goes on a new connection */
  bool has_waited;        /* for another one, while the credentials were refused */
  /* The answer. */
  int status;
  unsigned interim;
  size_t head_size;
  bool is_in_head;   /* its first line was read, and not its last one */
  bool has_head;     /* the header of the final answer is complete */
  const char *fault; /* why the header is malformed; NULL: it is not */
  int64_t length;    /* Content-Length; -1: none yet */
  bool is_long;      /* it has more than most_answer bytes */
  size_t received;
  size_t excerpt_size;
  char excerpt[most_excerpt];
  char reason[64];
  char error[CURL_ERROR_SIZE];
  msgq_outcome outcome;
  size_t body_size;
  char *body;
  char bytes[]; /* the lines and the body */
};

/* A list with a head: transfers in the order in which they came. */
struct list {
  struct transfer *first, *last;
};

/* An end of a connection. The family is 0 before it is known. */
struct endpoint {
  sa_family_t family;
  in_port_t port;
  unsigned char address[16];
};

/* A socket of libcurl. Its ends are known when its first request begins. */
struct channel {
  int descriptor;
  struct endpoint local, peer;
};

/* A transport of one queue. */
struct client {
  msgq_queue *queue;
  /* Settings; they do not change. */
  char *url;
  char *ca_file, *certificate_file, *key_file, *key_password;
  char *proxy;
  char proxy_place[300]; /* its host and port, for texts */
  char place[300];       /* the server's, for texts */
  bool is_secure;
  bool unauthorized_is_final;
  long max_connections;
  int64_t timeout_ms;
  struct curl_slist *headers;
  msgq_http_token_fn token;
  void *context;
  void (*release)(void *);

  pthread_t thread, reporter;
  int loop, wake;
  /* `lock` protects the fields up to the empty line. */
  pthread_mutex_t lock;
  pthread_cond_t changed; /* `done` or `is_ending` */
  struct list incoming, done;
  size_t in_flight;  /* those that the engine has no outcome of */
  bool is_released;  /* the engine sends no more */
  bool is_closed;    /* the queue is closed: requests in flight are aborted */
  bool is_detached;  /* the thread frees the client */
  bool is_ending;    /* the reporter ends when nothing is done */

  /* Of the thread. */
  CURLM *multi;
  int64_t timer_ms; /* when libcurl wants to be called; -1: not */
  struct list active, finished; /* finished: not in `done` yet */
  struct channel *channels;
  size_t channel_count, channel_room;
  CURL *idle[most_idle];
  size_t idle_count;
  char *bearer;
  uint64_t bearer_number;
  bool is_bearer_refused;
  /* The credentials were refused. Until `asks_again_ms` that is the outcome of other messages; then
     one at a time finds out whether they still are, and the others wait for it. */
  bool is_refused;
  int64_t asks_again_ms;
  struct transfer *trial;
  struct list waiting;
  char refusal[sizeof ((msgq_outcome *)0)->text];
};

/* ------------------------------------------------------------------ 2. lists, time and errors */

static _Thread_local char detail[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global = CURLE_FAILED_INIT;

static void initialise(void) { global = curl_global_init(CURL_GLOBAL_DEFAULT); }

const char *msgq_http_error_detail(void) { return detail; }

/* Sets the detail and returns the result. */
static msgq_result fail(msgq_result result, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  return result;
}

static int64_t now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void append(struct list *list, struct transfer *transfer) {
  transfer->next = NULL;
  transfer->previous = list->last;
  if (list->last != NULL) list->last->next = transfer;
  else list->first = transfer;
  list->last = transfer;
}

static void take(struct list *list, struct transfer *transfer) {
  if (transfer->previous != NULL) transfer->previous->next = transfer->next;
  else list->first = transfer->next;
  if (transfer->next != NULL) transfer->next->previous = transfer->previous;
  else list->last = transfer->previous;
}

static void free_transfer(struct transfer *transfer) {
  free(transfer->authorization);
  free(transfer);
}

/* It cannot fail: the counter is far from its end. */
static void wake(struct client *client) { (void)eventfd_write(client->wake, 1); }

/* ----------------------------------------------------------------------------------- 3. texts */

/* The length of the UTF-8 character at the beginning of `text`; 0: it is none. */
static size_t character(const unsigned char *text, size_t size) {
  if (size == 0) return 0;
  if (text[0] < 0x80) return 1;
  size_t length = text[0] >= 0xf0 && text[0] <= 0xf4   ? 4
                  : text[0] >= 0xe0 && text[0] <= 0xef ? 3
                  : text[0] >= 0xc2 && text[0] <= 0xdf ? 2
                                                       : 0;
  if (length == 0 || length > size) return 0;
  for (size_t index = 1; index < length; index++) {
    if ((text[index] & 0xc0) != 0x80) return 0;
  }
  /* Too long forms, surrogates, and what is over the last character. */
  if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
      (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f)) {
    return 0;
  }
  return length;
}

/* Appends bytes of a server as one line of UTF-8 to a text of `room` bytes, and cuts what is too
   long. */
static void append_line(char *text, size_t room, const char *bytes, size_t size) {
  size_t used = strlen(text);
  bool is_space = used == 0 || text[used - 1] == ' ';
  for (size_t index = 0; index < size;) {
    const unsigned char *place = (const unsigned char *)bytes + index;
    size_t length = character(place, size - index);
    index += length > 0 ? length : 1;
    if (length == 1 && (*place <= 0x20 || *place == 0x7f)) {
      if (is_space || used + 2 > room) continue;
      text[used++] = ' ';
      is_space = true;
    } else if (length == 0) {
      if (used + 2 > room) break;
      text[used++] = '?';
      is_space = false;
    } else {
      if (used + length + 1 > room) break;
      memcpy(text + used, place, length);
      used += length;
      is_space = false;
    }
    text[used] = '\0';
  }
  if (used > 0 && text[used - 1] == ' ') text[used - 1] = '\0';
}

static bool is_token_character(char value) {
  return isalnum((unsigned char)value) != 0 || (value != '\0' && strchr("!#$%&'*+-.^_`|~", value));
}

static bool is_utf8(const char *text) {
  for (size_t size = strlen(text), length; size > 0; text += length, size -= length) {
    length = character((const unsigned char *)text, size);
    if (length == 0) return false;
  }
  return true;
}

/* Whether a text may be the value of a header: UTF-8, no control character but tab. */
static bool is_value(const char *start) {
  for (const char *text = start; *text != '\0'; text++) {
    unsigned char byte = (unsigned char)*text;
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) return false;
  }
  return is_utf8(start);
}

static bool is_visible(const char *text) {
  for (; *text != '\0'; text++) {
    if (*text <= 0x20 || *text >= 0x7f) return false;
  }
  return true;
}

/* Writes the key of an id as an item of RFC 9651, and returns its end: at most 3 bytes for each of
   the id, and 3. */
static char *write_key(char *out, const char *id) {
  bool is_ascii = true;
  for (const char *place = id; *place != '\0'; place++) {
    if (*place < 0x20 || *place >= 0x7f) is_ascii = false;
  }
  if (!is_ascii) *out++ = '%';
  *out++ = '"';
  for (const char *place = id; *place != '\0'; place++) {
    if (is_ascii) {
      if (*place == '"' || *place == '\\') *out++ = '\\';
      *out++ = *place;
    } else if (*place < 0x20 || *place >= 0x7f || *place == '%' || *place == '"') {
      out += sprintf(out, "%%%02x", (unsigned)(unsigned char)*place);
    } else {
      *out++ = *place;
    }
  }
  *out++ = '"';
  *out = '\0';
  return out;
}

/* ----------------------------------------------------------------------- 4. W3C Trace Context */

/* Whether `count` lower-case hexadecimal digits follow, not all of them 0 if `is_id`. */
static bool has_digits(const char *text, size_t count, bool is_id) {
  bool is_zero = true;
  for (size_t index = 0; index < count; index++) {
    char digit = text[index];
    if (!((digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f'))) return false;
    is_zero = is_zero && digit == '0';
  }
  return !(is_id && is_zero);
}

static bool is_traceparent(const char *text) {
  size_t size = strlen(text);
  if (size < 55 || !is_value(text)) return false;
  if (!has_digits(text, 2, false) || strncmp(text, "ff", 2) == 0) return false;
  if (text[2] != '-' || !has_digits(text + 3, 32, true)) return false;
  if (text[35] != '-' || !has_digits(text + 36, 16, true)) return false;
  if (text[52] != '-' || !has_digits(text + 53, 2, false)) return false;
  /* Later versions may have more fields. */
  return size == 55 || (strncmp(text, "00", 2) != 0 && text[55] == '-' && is_visible(text + 55));
}

static bool is_key_character(char value) {
  return (value >= 'a' && value <= 'z') || (value >= '0' && value <= '9') ||
         (value != '\0' && strchr("_-*/", value));
}

/* The length of the key of a list member: `simple`, or `tenant@system`; 0: it is invalid. */
static size_t key_length(const char *text) {
  size_t length = 0;
  if (!is_key_character(text[0]) || strchr("_-*/", text[0])) return 0;
  while (is_key_character(text[length])) length++;
  if (text[length] != '@') return length <= 256 ? length : 0;
  size_t tenant = length, system = 0;
  const char *place = text + length + 1;
  if (*place < 'a' || *place > 'z') return 0;
  while (is_key_character(place[system])) system++;
  return tenant <= 241 && system <= 14 ? tenant + 1 + system : 0;
}

/* A member of a list: `key=value`. */
struct member {
  const char *key;
  size_t key_length;
};

/* Reads a member, and returns its end; NULL: it is invalid. */
static const char *read_member(const char *text, struct member *member) {
  member->key = text;
  member->key_length = key_length(text);
  if (member->key_length == 0 || text[member->key_length] != '=') return NULL;
  const char *value = text + member->key_length + 1, *end = value, *last = value;
  for (; *end != '\0' && *end != ',' && *end != '\t'; end++) {
    if (*end < 0x20 || *end > 0x7e || *end == '=') return NULL;
    if (*end != ' ') last = end + 1;
  }
  return last == value || last - value > 256 ? NULL : end;
}

static bool has_key(const struct member *members, size_t count, const struct member *wanted) {
  for (size_t index = 0; index < count; index++) {
    if (members[index].key_length == wanted->key_length &&
        strncmp(members[index].key, wanted->key, wanted->key_length) == 0) {
      return true;
    }
  }
  return false;
}

static bool is_tracestate(const char *text) {
  struct member members[32];
  size_t count = 0;
  for (const char *place = text;;) {
    place += strspn(place, " \t");
    if (*place != ',' && *place != '\0') {
      if (count == 32) return false;
      place = read_member(place, &members[count]);
      if (place == NULL || has_key(members, count, &members[count])) return false;
      count++;
      place += strspn(place, " \t");
    }
    if (*place == '\0') return count > 0;
    if (*place++ != ',') return false;
  }
}

/* -------------------------------------------------------------------------------- 5. messages */

static const char *metadata(const msgq_delivery *delivery, const char *key) {
  for (size_t index = 0; index < delivery->metadata_count; index++) {
    if (strcmp(delivery->metadata[index].key, key) == 0) return delivery->metadata[index].value;
  }
  return NULL;
}

/* When a request is given up: its answer must come before the engine ends the attempt. */
static int64_t deadline_of(const struct client *client, const msgq_delivery *delivery) {
  int64_t margin = delivery->timeout_ms / 20;
  int64_t limit = delivery->timeout_ms - (margin < 250 ? margin : 250);
  if (client->timeout_ms > 0 && client->timeout_ms < limit) limit = client->timeout_ms;
  return now_ms() + limit;
}

/* Writes the headers of one message to its bytes, and returns their end. */
static char *write_lines(struct transfer *transfer, const char *id, const char *parent,
                         const char *state) {
  struct curl_slist *lines = transfer->lines;
  size_t count = 0;
  char *place = transfer->bytes;
  lines[count++].data = place;
  place = write_key(stpcpy(place, "Idempotency-Key: "), id) + 1;
  if (parent != NULL) {
    lines[count++].data = place;
    place = stpcpy(stpcpy(place, "traceparent: "), parent) + 1;
  }
  if (state != NULL) {
    lines[count++].data = place;
    place = stpcpy(stpcpy(place, "tracestate: "), state) + 1;
  }
  for (size_t index = 1; index < count; index++) lines[index - 1].next = &lines[index];
  lines[count - 1].next = transfer->client->headers;
  return place;
}

/* Copies a message; NULL: there is no memory. */
static struct transfer *new_transfer(struct client *client, const msgq_delivery *delivery) {
  const char *parent = metadata(delivery, "traceparent");
  if (parent != NULL && !is_traceparent(parent)) parent = NULL;
  /* The state belongs to a parent. */
  const char *state = parent != NULL ? metadata(delivery, "tracestate") : NULL;
  if (state != NULL && !is_tracestate(state)) state = NULL;

  size_t room = strlen(delivery->id) * 3 + 128 + delivery->body_size;
  if (parent != NULL) room += strlen(parent);
  if (state != NULL) room += strlen(state);
  struct transfer *transfer = malloc(sizeof *transfer + room);
  if (transfer == NULL) return NULL;
  memset(transfer, 0, sizeof *transfer);
  transfer->client = client;
  transfer->token = delivery->token;
  transfer->deadline_ms = deadline_of(client, delivery);
  transfer->body = write_lines(transfer, delivery->id, parent, state);
  transfer->body_size = delivery->body_size;
  memcpy(transfer->body, delivery->body, delivery->body_size);
  return transfer;
}

/* Takes a message over and wakes the thread. */
static msgq_verdict begin(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct client *client = context;
  struct transfer *transfer = new_transfer(client, delivery);
  if (transfer == NULL) {
    out->kind = MSGQ_FAILURE_UNKNOWN;
    out->not_sent = true;
    snprintf(out->text, sizeof out->text, "out of memory");
    return MSGQ_VERDICT_RETRY;
  }
  pthread_mutex_lock(&client->lock);
  bool is_first = client->incoming.first == NULL;
  append(&client->incoming, transfer);
  client->in_flight++;
  pthread_mutex_unlock(&client->lock);
  if (is_first) wake(client);
  return MSGQ_VERDICT_PENDING;
}

/* --------------------------------------------------------------------------------- 6. answers */

/* Reads a list of equal numbers: one, or what a proxy made of several headers. -1: it is none. */
static int64_t read_length(const char *text, size_t size) {
  int64_t whole = -1, number = -1;
  for (size_t index = 0; index < size; index++) {
    if (text[index] >= '0' && text[index] <= '9') {
      /* Not two numbers without a comma. */
      if (number >= 0 && (text[index - 1] == ' ' || text[index - 1] == '\t')) return -1;
      int digit = text[index] - '0';
      if (number > (INT64_MAX - digit) / 10) return -1;
      number = (number < 0 ? 0 : number * 10) + digit;
    } else if (text[index] == ',') {
      if (number < 0 || (whole >= 0 && whole != number)) return -1;
      whole = number;
      number = -1;
    } else if (text[index] != ' ' && text[index] != '\t') {
      return -1;
    }
  }
  return whole < 0 || whole == number ? number : -1;
}

static void clear_answer(struct transfer *transfer) {
  transfer->status = 0;
  transfer->interim = 0;
  transfer->head_size = 0;
  transfer->is_in_head = transfer->has_head = transfer->is_long = false;
  transfer->fault = NULL;
  transfer->length = -1;
  transfer->received = transfer->excerpt_size = 0;
  transfer->reason[0] = transfer->error[0] = '\0';
  transfer->requests = 0;
  transfer->is_cut_off = transfer->is_stale = false;
}

/* Begins an answer with its first line, as "HTTP/1.1 200 OK". */
static void take_status(struct transfer *transfer, const char *line, size_t size) {
  const char *space = memchr(line, ' ', size);
  size_t rest = space != NULL ? size - (size_t)(space + 1 - line) : 0;
  transfer->status = 0;
  transfer->length = -1;
  transfer->reason[0] = transfer->outcome.retry_after[0] = '\0';
  if (rest >= 3 && isdigit((unsigned char)space[1]) && isdigit((unsigned char)space[2]) &&
      isdigit((unsigned char)space[3]) && (rest == 3 || space[4] == ' ')) {
    transfer->status = (space[1] - '0') * 100 + (space[2] - '0') * 10 + space[3] - '0';
    append_line(transfer->reason, sizeof transfer->reason, space + 4, rest - 3);
  }
}

/* Ends the header of an interim answer, or of the final one. Returns false if the answer is
   malformed. */
static bool end_head(struct transfer *transfer) {
  transfer->is_in_head = false;
  if (transfer->status >= 200) transfer->has_head = true;
  else if (transfer->status < 100) transfer->fault = "the answer has no status line of HTTP";
  else if (transfer->status == 101) transfer->fault = "the server changed the protocol (101)";
  else if (++transfer->interim >= most_interim) {
    transfer->fault = "too many answers with a status 1xx";
  }
  return transfer->fault == NULL;
}

/* Returns false if the answer is malformed. */
static bool take_length(struct transfer *transfer, const char *value, size_t size) {
  int64_t known = transfer->length;
  transfer->length = read_length(value, size);
  if (transfer->length < 0 || (known >= 0 && known != transfer->length)) {
    transfer->fault = "the answer has no valid Content-Length";
  }
  return transfer->fault == NULL;
}

/* What is longer than any date is a mistake of the server. The first of several counts. */
static void take_retry_after(msgq_outcome *out, const char *value, size_t size) {
  if (size >= sizeof out->retry_after || out->retry_after[0] != '\0') return;
  for (size_t index = 0; index < size; index++) {
    if (value[index] < 0x20 || value[index] > 0x7e) return;
  }
  memcpy(out->retry_after, value, size);
  out->retry_after[size] = '\0';
}

/* Called by libcurl for each line of a header, the empty line at its end included. */
static size_t take_header(char *line, size_t one, size_t size, void *context) {
  struct transfer *transfer = context;
  size_t whole = size * one;
  /* What follows are trailers. */
  if (transfer->has_head) return whole;
  transfer->head_size += whole;
  if (transfer->head_size > most_head) {
    transfer->fault = "the header of the answer is too large";
    return 0;
  }
  while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) size--;
  if (!transfer->is_in_head) {
    transfer->is_in_head = true;
    take_status(transfer, line, size);
    return whole;
  }
  if (size == 0) return end_head(transfer) ? whole : 0;
  const char *colon = memchr(line, ':', size);
  if (colon == NULL) return whole;
  size_t name = (size_t)(colon - line);
  const char *value = colon + 1;
  size_t length = size - name - 1;
  while (length > 0 && (*value == ' ' || *value == '\t')) value++, length--;
  while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t')) length--;
  if (name == 14 && strncasecmp(line, "Content-Length", name) == 0 && transfer->status >= 200) {
    return take_length(transfer, value, length) ? whole : 0;
  }
  if (name == 11 && strncasecmp(line, "Retry-After", name) == 0) {
    take_retry_after(&transfer->outcome, value, length);
  }
  return whole;
}

static size_t take_body(char *bytes, size_t one, size_t size, void *context) {
  struct transfer *transfer = context;
  size_t whole = size * one, room = most_excerpt - transfer->excerpt_size;
  size_t kept = whole < room ? whole : room;
  memcpy(transfer->excerpt + transfer->excerpt_size, bytes, kept);
  transfer->excerpt_size += kept;
  transfer->received += whole;
  if (transfer->received < most_answer) return whole;
  transfer->is_long = true;
  return 0;
}

/* ----------------------------------------------------------------------------- 7. connections */

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *peer) {
  struct client *client = context;
  (void)purpose;
  if (client->channel_count == client->channel_room) {
    size_t room = client->channel_room == 0 ? 16 : client->channel_room * 2;
    struct channel *channels = realloc(client->channels, room * sizeof *channels);
    if (channels == NULL) return CURL_SOCKET_BAD;
    client->channels = channels;
    client->channel_room = room;
  }
  int descriptor = socket(peer->family, peer->socktype | SOCK_CLOEXEC, peer->protocol);
  if (descriptor < 0) return CURL_SOCKET_BAD;
  client->channels[client->channel_count++] = (struct channel){ .descriptor = descriptor };
  return descriptor;
}

static int close_socket(void *context, curl_socket_t descriptor) {
  struct client *client = context;
  for (size_t index = 0; index < client->channel_count; index++) {
    if (client->channels[index].descriptor != descriptor) continue;
    client->channels[index] = client->channels[--client->channel_count];
    break;
  }
  return close(descriptor);
}

static struct endpoint end_of(const struct sockaddr_storage *address) {
  struct endpoint end = { .family = address->ss_family };
  if (end.family == AF_INET) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
    end.port = ntohs(four->sin_port);
    memcpy(end.address, &four->sin_addr, sizeof four->sin_addr);
  } else if (end.family == AF_INET6) {
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
    end.port = ntohs(six->sin6_port);
    memcpy(end.address, &six->sin6_addr, sizeof six->sin6_addr);
  }
  return end;
}

/* Reads an end as libcurl writes it. */
static struct endpoint read_end(const char *text, int port) {
  struct endpoint end = { .port = (in_port_t)port };
  if (inet_pton(AF_INET, text, end.address) == 1) end.family = AF_INET;
  else if (inet_pton(AF_INET6, text, end.address) == 1) end.family = AF_INET6;
  return end;
}

static bool is_end(const struct endpoint *one, const struct endpoint *other) {
  return one->port == other->port && one->family == other->family && one->family != 0 &&
         memcmp(one->address, other->address, sizeof one->address) == 0;
}

/* The connection with these ends; NULL: its ends are not known yet. */
static struct channel *find_channel(struct client *client, const struct endpoint *local,
                                    const struct endpoint *peer) {
  for (size_t index = 0; index < client->channel_count; index++) {
    struct channel *channel = &client->channels[index];
    if (is_end(&channel->local, local) && is_end(&channel->peer, peer)) return channel;
  }
  return NULL;
}

/* Finds the socket of a new connection, and notes its ends. */
static bool note_ends(struct client *client, const struct endpoint *local,
                      const struct endpoint *peer) {
  for (size_t index = 0; index < client->channel_count; index++) {
    struct channel *channel = &client->channels[index];
    struct sockaddr_storage address = { 0 };
    socklen_t room = sizeof address;
    if (channel->local.family != 0) continue;
    if (getsockname(channel->descriptor, (struct sockaddr *)&address, &room) != 0) continue;
    struct endpoint here = end_of(&address);
    if (!is_end(&here, local)) continue;
    room = sizeof address;
    if (getpeername(channel->descriptor, (struct sockaddr *)&address, &room) != 0) continue;
    struct endpoint there = end_of(&address);
    if (!is_end(&there, peer)) continue;
    channel->local = here;
    channel->peer = there;
    return true;
  }
  return false;
}

/* Whether a new request may use a connection: it is new, or there is nothing to read, which libcurl
   would take for the answer. On a new one the server may have sent something of TLS. */
static bool is_clean(struct client *client, const struct endpoint *local,
                     const struct endpoint *peer) {
  struct channel *channel = find_channel(client, local, peer);
  if (channel == NULL) return note_ends(client, local, peer);
  struct pollfd state = { .fd = channel->descriptor, .events = POLLIN | POLLRDHUP };
  return poll(&state, 1, 0) == 0;
}

/* Called by libcurl before it writes a request. libcurl repeats a request when a reused connection
   ends without an answer; the server may have received the first one, so that is for the engine. */
static int before_request(void *context, char *peer, char *local, int peer_port, int local_port) {
  struct transfer *transfer = context;
  long sent = 0;
  if (transfer->requests++ > 0 &&
      (curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &sent) != CURLE_OK || sent != 0)) {
    transfer->is_cut_off = true;
    return CURL_PREREQFUNC_ABORT;
  }
  struct endpoint here = read_end(local, local_port), there = read_end(peer, peer_port);
  if (is_clean(transfer->client, &here, &there) || transfer->needs_fresh) {
    return CURL_PREREQFUNC_OK;
  }
  transfer->is_stale = true;
  return CURL_PREREQFUNC_ABORT;
}

/* -------------------------------------------------------------------------------- 8. outcomes */

static void set_text(struct transfer *transfer, const char *text) {
  transfer->outcome.text[0] = '\0';
  append_line(transfer->outcome.text, sizeof transfer->outcome.text, text, strlen(text));
}

static void set_retry(struct transfer *transfer, msgq_failure_kind kind, bool not_sent,
                      const char *text) {
  transfer->outcome.verdict = MSGQ_VERDICT_RETRY;
  transfer->outcome.kind = kind;
  transfer->outcome.not_sent = not_sent;
  transfer->outcome.retry_after[0] = '\0';
  set_text(transfer, text);
}

static void set_offline(struct transfer *transfer, const char *text) {
  transfer->outcome.verdict = MSGQ_VERDICT_OFFLINE;
  transfer->outcome.kind = MSGQ_FAILURE_OFFLINE;
  set_text(transfer, text);
}

/* The proxy answered, and the server does not have the request. */
static void set_refused_by_proxy(struct transfer *transfer, long status) {
  char text[sizeof transfer->client->proxy_place + 64];
  snprintf(text, sizeof text, "the proxy %s answered %ld", transfer->client->proxy_place, status);
  set_offline(transfer, text);
}

static void set_http(struct transfer *transfer) {
  msgq_outcome *out = &transfer->outcome;
  char start[96];
  out->verdict = MSGQ_VERDICT_HTTP;
  out->code = transfer->status;
  snprintf(start, sizeof start, "%d %s", transfer->status, transfer->reason);
  set_text(transfer, start);
  if (transfer->excerpt_size == 0) return;
  size_t used = strlen(out->text);
  snprintf(out->text + used, sizeof out->text - used, ": ");
  append_line(out->text, sizeof out->text, transfer->excerpt, transfer->excerpt_size);
  /* Nothing but space. */
  if (strlen(out->text) < used + 2) out->text[used] = '\0';
}

/* An answer with a complete header. Its status counts although its body is cut, except 3xx and
   final 4xx. */
static void judge_answer(struct transfer *transfer, CURLcode code, const char *text) {
  int status = transfer->status;
  bool is_retried = status == 408 || status == 425 || status == 429;
  bool is_final = status >= 300 && status < 500 && !is_retried;
  if (code == CURLE_OK || transfer->is_long || !is_final) set_http(transfer);
  else set_retry(transfer, MSGQ_FAILURE_NETWORK, false, text);
}

/* A request without an answer. */
static void judge_failure(struct transfer *transfer, CURLcode code, bool not_sent,
                          const char *text) {
  switch (code) {
  case CURLE_OK:
    set_retry(transfer, MSGQ_FAILURE_NETWORK, false, "the answer ended within its header");
    break;
  case CURLE_COULDNT_RESOLVE_PROXY:
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_CONNECT:
  case CURLE_SSL_CERTPROBLEM: /* of the client */
    /* After a request on a connection that ended without an answer, libcurl connects again. */
    if (not_sent) set_offline(transfer, text);
    else set_retry(transfer, MSGQ_FAILURE_NETWORK, false, text);
    break;
  case CURLE_OPERATION_TIMEDOUT:
    set_retry(transfer, MSGQ_FAILURE_TIMEOUT, not_sent, text);
    break;
  case CURLE_SSL_CONNECT_ERROR:
  case CURLE_SSL_CIPHER:
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CACERT_BADFILE:
  case CURLE_SSL_ISSUER_ERROR:
  case CURLE_SSL_INVALIDCERTSTATUS:
  case CURLE_SEND_ERROR:
  case CURLE_RECV_ERROR:
  case CURLE_GOT_NOTHING:
  case CURLE_PARTIAL_FILE: set_retry(transfer, MSGQ_FAILURE_NETWORK, not_sent, text); break;
  case CURLE_UNSUPPORTED_PROTOCOL: /* the answer is not HTTP/1 or later */
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_FILESIZE_EXCEEDED:
  case CURLE_BAD_CONTENT_ENCODING:
    set_retry(transfer, MSGQ_FAILURE_SERVER, not_sent, text);
    break;
  default: set_retry(transfer, MSGQ_FAILURE_UNKNOWN, not_sent, text);
  }
}

/* Decides the outcome of a request that has ended. */
static void judge(struct transfer *transfer, CURLcode code) {
  const char *text = transfer->error[0] != '\0' ? transfer->error : curl_easy_strerror(code);
  bool has_proxy = transfer->client->proxy != NULL, is_secure = transfer->client->is_secure;
  long sent = 0, proxy_status = 0;
  if (curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &sent) != CURLE_OK) sent = 1;
  /* libcurl counts the request for the tunnel, too. */
  if (transfer->requests == 0) sent = 0;
  (void)curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_CONNECTCODE, &proxy_status);

  if (has_proxy && sent == 0 && proxy_status > 0 && proxy_status / 100 != 2) {
    set_refused_by_proxy(transfer, proxy_status);
  } else if (has_proxy && !is_secure && transfer->has_head && transfer->status == 407) {
    set_refused_by_proxy(transfer, transfer->status);
  } else if (transfer->fault != NULL) {
    set_retry(transfer, MSGQ_FAILURE_SERVER, false, transfer->fault);
  } else if (transfer->has_head) {
    judge_answer(transfer, code, text);
  } else if (transfer->is_cut_off) {
    set_retry(transfer, MSGQ_FAILURE_NETWORK, false, "the connection ended without an answer");
  } else if (sent > 0 && (code == CURLE_OUT_OF_MEMORY || (int)code == code_too_large)) {
    /* libcurl has the same code for a line of a header over its limit. */
    set_retry(transfer, MSGQ_FAILURE_SERVER, false,
              "a line of the answer's header is too long, or there is no memory");
  } else {
    judge_failure(transfer, code, sent == 0, text);
  }
}

/* ----------------------------------------------------------------------------- 9. credentials */

/* Asks for a token in place of one that was refused. */
static bool renew(struct client *client) {
  char token[MSGQ_HTTP_TOKEN_SIZE] = "";
  if (!client->token(client->context, client->bearer, token, sizeof token)) return false;
  token[sizeof token - 1] = '\0';
  if (token[0] == '\0' || !is_visible(token)) return false;
  if (client->bearer != NULL && strcmp(client->bearer, token) == 0) return false;
  char *copy = strdup(token);
  if (copy == NULL) return false;
  free(client->bearer);
  client->bearer = copy;
  client->bearer_number++;
  client->is_bearer_refused = false;
  return true;
}

/* There are no credentials that the server accepts, which is a fault of no message. */
static void set_unauthorized(struct transfer *transfer, const char *text) {
  struct client *client = transfer->client;
  client->is_refused = true;
  client->asks_again_ms = now_ms() + refused_for_ms;
  snprintf(client->refusal, sizeof client->refusal, "%s", text);
  set_offline(transfer, text);
}

static void set_without_token(struct transfer *transfer) {
  const char *text = transfer->client->bearer == NULL
                         ? "there is no bearer token"
                         : "there is no bearer token in place of the one that the server refused";
  if (!transfer->client->unauthorized_is_final) {
    set_unauthorized(transfer, text);
    return;
  }
  transfer->outcome.verdict = MSGQ_VERDICT_REJECT;
  transfer->outcome.kind = MSGQ_FAILURE_UNAUTHORIZED;
  set_text(transfer, text);
}

/* Whether a request may be made. While the server refuses the credentials, the engine attempts each
   message that is the first of its conversation, as when it is offline: few of them go on. Returns
   false when the transfer has its outcome instead. */
static bool may_ask(struct transfer *transfer) {
  struct client *client = transfer->client;
  if (!client->is_refused || client->trial == transfer) return true;
  if (now_ms() < client->asks_again_ms) return set_offline(transfer, client->refusal), false;
  client->trial = transfer;
  return true;
}

static bool must_wait(struct transfer *transfer) {
  struct client *client = transfer->client;
  return client->is_refused && client->trial != NULL && client->trial != transfer &&
         now_ms() >= client->asks_again_ms;
}

/* A transfer has its outcome. */
static void conclude(struct transfer *transfer) {
  struct client *client = transfer->client;
  if (client->trial == transfer) client->trial = NULL;
  if (transfer->outcome.verdict == MSGQ_VERDICT_HTTP) client->is_refused = false;
  append(&client->finished, transfer);
}

/* Adds the header with the token. Returns false when the transfer has its outcome instead. */
static bool authorize(struct transfer *transfer, struct curl_slist **list) {
  struct client *client = transfer->client;
  if ((client->bearer == NULL || client->is_bearer_refused) && !renew(client)) {
    return set_without_token(transfer), false;
  }
  static const char name[] = "Authorization: Bearer ";
  free(transfer->authorization);
  transfer->authorization = malloc(sizeof name + strlen(client->bearer));
  if (transfer->authorization == NULL) {
    return set_retry(transfer, MSGQ_FAILURE_UNKNOWN, true, "out of memory"), false;
  }
  stpcpy(stpcpy(transfer->authorization, name), client->bearer);
  transfer->bearer_number = client->bearer_number;
  transfer->lines[3].data = transfer->authorization;
  transfer->lines[3].next = *list;
  *list = &transfer->lines[3];
  return true;
}

/* ------------------------------------------------------------------------------- 10. requests */

/* For a variable `easy`. */
#define SET(option, value) (curl_easy_setopt(easy, CURLOPT_##option, value) == CURLE_OK)

static CURL *new_easy(struct client *client) {
  CURL *easy = curl_easy_init();
  if (easy == NULL) return NULL;
  bool is_set = SET(URL, client->url) && SET(PATH_AS_IS, 1L) && SET(POST, 1L) &&
                SET(NOSIGNAL, 1L) && SET(FOLLOWLOCATION, 0L) && SET(NOPROXY, "") &&
                SET(PROXY, client->proxy != NULL ? client->proxy : "") &&
                SET(PROXYAUTH, (long)CURLAUTH_BASIC) && SET(SUPPRESS_CONNECT_HEADERS, 1L) &&
                SET(OPENSOCKETFUNCTION, open_socket) && SET(OPENSOCKETDATA, client) &&
                SET(CLOSESOCKETFUNCTION, close_socket) && SET(CLOSESOCKETDATA, client) &&
                SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
                SET(HEADERFUNCTION, take_header) && SET(WRITEFUNCTION, take_body) &&
                SET(PREREQFUNCTION, before_request) && SET(SSL_VERIFYPEER, 1L) &&
                SET(SSL_VERIFYHOST, 2L) && SET(CONNECTTIMEOUT_MS, (long)longest_timeout_ms);
#if LIBCURL_VERSION_NUM >= 0x075500
  is_set = is_set && SET(PROTOCOLS_STR, "http,https");
#else
  is_set = is_set && SET(PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
  /* A thread that resolves a name must not delay the other requests when its own is given up. */
  is_set = is_set && SET(QUICK_EXIT, 1L);
#endif
  if (client->is_secure) {
    is_set = is_set && SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (client->ca_file != NULL) is_set = is_set && SET(CAINFO, client->ca_file);
    if (client->certificate_file != NULL) is_set = is_set && SET(SSLCERT, client->certificate_file);
    if (client->key_file != NULL) is_set = is_set && SET(SSLKEY, client->key_file);
    /* Without a password OpenSSL would ask for it on the terminal. */
    const char *password = client->key_password != NULL ? client->key_password : "";
    if (client->certificate_file != NULL) is_set = is_set && SET(KEYPASSWD, password);
  }
  if (is_set) return easy;
  curl_easy_cleanup(easy);
  return NULL;
}

/* Begins a request. Returns false when the transfer has its outcome instead. */
static bool start(struct transfer *transfer) {
  struct client *client = transfer->client;
  clear_answer(transfer);
  msgq_outcome_init(&transfer->outcome);
  struct curl_slist *list = &transfer->lines[0];
  if (!may_ask(transfer)) return false;
  if (client->token != NULL && !authorize(transfer, &list)) return false;
  int64_t left_ms = transfer->deadline_ms - now_ms();
  if (left_ms <= 0 && transfer->has_waited) {
    transfer->outcome.verdict = MSGQ_VERDICT_SKIPPED;
    return false;
  }
  if (left_ms <= 0) {
    return set_retry(transfer, MSGQ_FAILURE_TIMEOUT, true, "no time was left to connect"), false;
  }
  CURL *easy = client->idle_count > 0 ? client->idle[--client->idle_count] : new_easy(client);
  transfer->easy = easy;
  if (easy != NULL && SET(HTTPHEADER, list) && SET(POSTFIELDS, transfer->body) &&
      SET(POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body_size) &&
      SET(TIMEOUT_MS, (long)left_ms) && SET(ERRORBUFFER, transfer->error) &&
      SET(HEADERDATA, transfer) && SET(WRITEDATA, transfer) && SET(PREREQDATA, transfer) &&
      SET(FRESH_CONNECT, transfer->needs_fresh ? 1L : 0L) && SET(PRIVATE, transfer) &&
      curl_multi_add_handle(client->multi, easy) == CURLM_OK) {
    append(&client->active, transfer);
    return true;
  }
  if (easy != NULL) curl_easy_cleanup(easy);
  transfer->easy = NULL;
  return set_retry(transfer, MSGQ_FAILURE_UNKNOWN, true, "out of memory"), false;
}

#undef SET

static void launch(struct transfer *transfer) {
  if (must_wait(transfer)) {
    transfer->has_waited = true;
    append(&transfer->client->waiting, transfer);
  } else if (!start(transfer)) {
    conclude(transfer);
  }
}

static void launch_waiting(struct client *client) {
  while (client->trial == NULL && client->waiting.first != NULL) {
    struct transfer *transfer = client->waiting.first;
    take(&client->waiting, transfer);
    launch(transfer);
  }
}

/* Takes the request out of libcurl. */
static void stop(struct transfer *transfer) {
  struct client *client = transfer->client;
  take(&client->active, transfer);
  curl_multi_remove_handle(client->multi, transfer->easy);
  curl_easy_setopt(transfer->easy, CURLOPT_ERRORBUFFER, NULL);
  if (client->idle_count < most_idle) client->idle[client->idle_count++] = transfer->easy;
  else curl_easy_cleanup(transfer->easy);
  transfer->easy = NULL;
}

/* The server refused the credentials. With tokens the request is made again with another one, once. */
static void finish_refused(struct transfer *transfer) {
  struct client *client = transfer->client;
  if (transfer->bearer_number == client->bearer_number) client->is_bearer_refused = true;
  if (client->token != NULL && !transfer->is_renewed) {
    transfer->is_renewed = true;
    launch(transfer);
    return;
  }
  if (!client->unauthorized_is_final) {
    char text[sizeof client->place + 32];
    /* The same each time: the engine logs each change of it. */
    snprintf(text, sizeof text, "%s answered 401", client->place);
    msgq_outcome_init(&transfer->outcome);
    set_unauthorized(transfer, text);
  }
  conclude(transfer);
}

/* libcurl has ended the request. */
static void finish(struct transfer *transfer, CURLcode code) {
  if (transfer->is_stale) {
    /* Nothing of the request was written. A new connection is not refused. */
    stop(transfer);
    transfer->needs_fresh = true;
    launch(transfer);
    return;
  }
  judge(transfer, code);
  stop(transfer);
  transfer->needs_fresh = false;
  bool is_refused =
      transfer->outcome.verdict == MSGQ_VERDICT_HTTP && transfer->outcome.code == 401;
  if (is_refused) finish_refused(transfer);
  else conclude(transfer);
}

/* ---------------------------------------------------------------------- 11. the second thread */

/* Hands the transfers that have finished to the reporter. */
static void hand_over(struct client *client) {
  if (client->finished.first == NULL) return;
  pthread_mutex_lock(&client->lock);
  while (client->finished.first != NULL) {
    struct transfer *transfer = client->finished.first;
    take(&client->finished, transfer);
    append(&client->done, transfer);
  }
  pthread_cond_signal(&client->changed);
  pthread_mutex_unlock(&client->lock);
}

/* Gives outcomes to the engine. Returns false when it does not take them for now (MSGQ_STORAGE). */
static bool complete(struct client *client, const uint64_t *tokens, msgq_outcome *outcomes,
                     size_t count) {
  static const msgq_outcome empty = MSGQ_OUTCOME_INIT;
  /* The result for each is OK, or CONFLICT after its time-out: the engine has handled that. */
  msgq_result result = msgq_complete_batch(client->queue, tokens, outcomes, count, NULL);
  if (result == MSGQ_INVALID) {
    /* Not expected: no text of a server is left out of append_line. */
    for (size_t index = 0; index < count; index++) {
      outcomes[index] = empty;
      (void)msgq_complete(client->queue, tokens[index], &outcomes[index]);
    }
    return true;
  }
  return result == MSGQ_OK || result == MSGQ_CLOSED || result == MSGQ_FORKED;
}

/* Waits until something is done, or after the time in milliseconds. With the lock. */
static void wait_for_change(struct client *client, int64_t limit_ms) {
  if (limit_ms < 0) {
    pthread_cond_wait(&client->changed, &client->lock);
    return;
  }
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += (long)limit_ms * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&client->changed, &client->lock, &until);
}

/* Copies the outcomes of the first transfers that are done, and returns their number. With the
   lock. */
static size_t copy_outcomes(struct client *client, uint64_t *tokens, msgq_outcome *outcomes) {
  size_t count = 0;
  for (struct transfer *each = client->done.first; each != NULL && count < most_results;
       each = each->next) {
    tokens[count] = each->token;
    outcomes[count++] = each->outcome;
  }
  return count;
}

/* Frees the first transfers that are done: the engine has their outcomes. With the lock. */
static void free_done(struct client *client, size_t count) {
  for (size_t index = 0; index < count; index++) {
    struct transfer *each = client->done.first;
    take(&client->done, each);
    free_transfer(each);
  }
  client->in_flight -= count;
  if (client->is_released) wake(client);
}

/* The thread. What finishes while it is in the engine is the next batch. */
static void *report(void *context) {
  struct client *client = context;
  uint64_t tokens[most_results];
  msgq_outcome outcomes[most_results];
  pthread_mutex_lock(&client->lock);
  for (;;) {
    while (client->done.first == NULL && !client->is_ending) wait_for_change(client, -1);
    if (client->done.first == NULL) break;
    size_t count = copy_outcomes(client, tokens, outcomes);
    pthread_mutex_unlock(&client->lock);
    bool is_taken = complete(client, tokens, outcomes, count);
    pthread_mutex_lock(&client->lock);
    if (is_taken) free_done(client, count);
    else if (client->is_ending) break;
    else wait_for_change(client, storage_delay_ms);
  }
  pthread_mutex_unlock(&client->lock);
  return NULL;
}

static void end_reporter(struct client *client) {
  pthread_mutex_lock(&client->lock);
  client->is_ending = true;
  pthread_cond_signal(&client->changed);
  pthread_mutex_unlock(&client->lock);
  pthread_join(client->reporter, NULL);
}

/* -------------------------------------------------------------------------------- 12. the end */

static bool is_queue_closed(msgq_queue *queue) {
  msgq_state state = MSGQ_STATE_INIT;
  return msgq_get_state(queue, &state) == MSGQ_CLOSED;
}

static void free_client(struct client *client) {
  if (client->wake >= 0) close(client->wake);
  if (client->loop >= 0) close(client->loop);
  if (client->multi != NULL) curl_multi_cleanup(client->multi);
  curl_slist_free_all(client->headers);
  free(client->url);
  free(client->ca_file);
  free(client->certificate_file);
  free(client->key_file);
  free(client->key_password);
  free(client->proxy);
  free(client->bearer);
  free(client->channels);
  pthread_cond_destroy(&client->changed);
  pthread_mutex_destroy(&client->lock);
  free(client);
}

/* Ends what is left: requests in flight only when the queue is closed. */
static void end(struct client *client) {
  while (client->active.first != NULL) {
    struct transfer *transfer = client->active.first;
    stop(transfer);
    free_transfer(transfer);
  }
  while (client->waiting.first != NULL) {
    struct transfer *transfer = client->waiting.first;
    take(&client->waiting, transfer);
    free_transfer(transfer);
  }
  hand_over(client);
  end_reporter(client);
  while (client->done.first != NULL) {
    struct transfer *transfer = client->done.first;
    take(&client->done, transfer);
    free_transfer(transfer);
  }
  while (client->idle_count > 0) curl_easy_cleanup(client->idle[--client->idle_count]);
  curl_multi_cleanup(client->multi);
  client->multi = NULL;
  void (*release)(void *) = client->release;
  void *context = client->context;
  pthread_mutex_lock(&client->lock);
  bool is_detached = client->is_detached;
  pthread_mutex_unlock(&client->lock);
  if (is_detached) free_client(client);
  if (release != NULL) release(context);
}

/* The engine calls this once: the transport was replaced, or the queue was closed. */
static void release(void *context) {
  struct client *client = context;
  bool is_closed = is_queue_closed(client->queue);
  pthread_t self = pthread_self();
  bool is_own = pthread_equal(self, client->thread) || pthread_equal(self, client->reporter);
  pthread_mutex_lock(&client->lock);
  bool is_joined = !is_own && (is_closed || client->in_flight == 0);
  pthread_t thread = client->thread;
  client->is_released = true;
  client->is_closed = is_closed;
  client->is_detached = !is_joined;
  if (!is_joined) pthread_detach(thread);
  /* While the lock is held the thread does not free the client. */
  wake(client);
  pthread_mutex_unlock(&client->lock);
  if (!is_joined) return;
  pthread_join(thread, NULL);
  free_client(client);
}

/* ----------------------------------------------------------------------- 13. the first thread */

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *context, void *known) {
  struct client *client = context;
  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    /* It fails when libcurl has closed the socket already. */
    epoll_ctl(client->loop, EPOLL_CTL_DEL, socket, NULL);
    return 0;
  }
  struct epoll_event interest = { .data.fd = socket };
  if (what & CURL_POLL_IN) interest.events |= EPOLLIN;
  if (what & CURL_POLL_OUT) interest.events |= EPOLLOUT;
  if (known == NULL) curl_multi_assign(client->multi, socket, client);
  int change = known == NULL ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (epoll_ctl(client->loop, change, socket, &interest) != 0) {
    int other = errno == EEXIST ? EPOLL_CTL_MOD : errno == ENOENT ? EPOLL_CTL_ADD : 0;
    /* Without memory the request ends by its time-out. */
    if (other != 0) epoll_ctl(client->loop, other, socket, &interest);
  }
  return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *context) {
  struct client *client = context;
  (void)multi;
  client->timer_ms = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
  return 0;
}

/* How long the thread may wait, in milliseconds; -1: until something happens. */
static int64_t wait_ms(struct client *client, bool is_released) {
  int64_t wait = -1;
  if (client->timer_ms >= 0) {
    wait = client->timer_ms - now_ms();
    if (wait < 0) wait = 0;
  }
  if (is_released && (wait < 0 || wait > closed_check_ms)) wait = closed_check_ms;
  return wait < longest_timeout_ms ? wait : longest_timeout_ms;
}

/* Calls libcurl for the sockets that are ready and for its timer. */
static void advance(struct client *client, const struct epoll_event *events, int count) {
  int running;
  for (int index = 0; index < count; index++) {
    if (events[index].data.fd == client->wake) {
      eventfd_t value;
      (void)eventfd_read(client->wake, &value);
      continue;
    }
    int mask = (events[index].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
               (events[index].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events[index].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    curl_multi_socket_action(client->multi, events[index].data.fd, mask, &running);
  }
  if (client->timer_ms >= 0 && now_ms() >= client->timer_ms) {
    client->timer_ms = -1;
    curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  }
}

static void collect(struct client *client) {
  int left = 0;
  for (CURLMsg *message; (message = curl_multi_info_read(client->multi, &left)) != NULL;) {
    char *transfer = NULL;
    if (message->msg != CURLMSG_DONE) continue;
    CURLcode code = message->data.result;
    if (curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer) == CURLE_OK) {
      finish((struct transfer *)(void *)transfer, code);
    }
  }
}

/* Starts the requests of the messages that came since the last call. Returns false when the thread
   ends: no more messages come, and none is in flight, or the queue is closed. */
static bool take_incoming(struct client *client, bool *is_released) {
  pthread_mutex_lock(&client->lock);
  struct list incoming = client->incoming;
  client->incoming.first = client->incoming.last = NULL;
  bool is_closed = client->is_closed;
  *is_released = client->is_released;
  size_t in_flight = client->in_flight;
  pthread_mutex_unlock(&client->lock);

  while (incoming.first != NULL) {
    struct transfer *transfer = incoming.first;
    take(&incoming, transfer);
    if (is_closed) free_transfer(transfer);
    else launch(transfer);
  }
  return !*is_released || !(is_closed || in_flight == 0 || is_queue_closed(client->queue));
}

static void *run(void *context) {
  struct client *client = context;
  for (bool is_released; take_incoming(client, &is_released);) {
    hand_over(client);
    struct epoll_event events[64];
    int count = epoll_wait(client->loop, events, 64, (int)wait_ms(client, is_released));
    advance(client, events, count > 0 ? count : 0);
    collect(client);
    launch_waiting(client);
    hand_over(client);
  }
  end(client);
  return NULL;
}

/* -------------------------------------------------------------------------------- 14. options */

/* Copies the caller's options over the defaults. */
static msgq_result read_options(const msgq_http_options *given, msgq_http_options *options) {
  static const msgq_http_options defaults = MSGQ_HTTP_OPTIONS_INIT;
  *options = defaults;
  uint32_t size = given->struct_size;
  /* The first version ends with `release`, the second one with `key_password`. */
  const size_t first = offsetof(msgq_http_options, release) + sizeof given->release;
  const size_t second = offsetof(msgq_http_options, key_password) + sizeof given->key_password;
  bool is_known = size == first || size == second || size >= sizeof *given;
  if (!is_known || size > 65536) {
    return fail(MSGQ_INVALID, "struct_size of msgq_http_options is not possible: %u", size);
  }
  memcpy(options, given, size < sizeof *options ? size : sizeof *options);
  options->struct_size = sizeof *options;
  for (size_t index = sizeof *options; index < size; index++) {
    if (((const char *)given)[index] != 0) {
      return fail(MSGQ_INVALID, "msgq_http_options has a field that this version does not know");
    }
  }
  return MSGQ_OK;
}

/* Checks the URL with libcurl's parser. */
static msgq_result check_url(const char *url, bool *is_secure) {
  if (url == NULL || url[0] == '\0') return fail(MSGQ_INVALID, "url is missing");
  if (!is_visible(url)) {
    return fail(MSGQ_INVALID, "url has a character that must be percent-encoded");
  }
  *is_secure = strncasecmp(url, "https://", 8) == 0;
  if (!*is_secure && strncasecmp(url, "http://", 7) != 0) {
    return fail(MSGQ_INVALID, "url is not one of http or https: %s",
                strchr(url, '@') != NULL ? "it has an @" : url);
  }
  const char *authority = url + (*is_secure ? 8 : 7);
  CURLU *parts = curl_url();
  if (parts == NULL) return fail(MSGQ_STORAGE, "out of memory");
  size_t length = strcspn(authority, "/?#");
  msgq_result result = MSGQ_OK;
  /* No text shows a password, which may be anywhere when a part of it is taken for the end of the
     host. libcurl takes a path for the host that is missing. */
  const char *shown = strchr(url, '@') != NULL ? "it has an @" : url;
  if (memchr(authority, '@', length) != NULL) {
    result = fail(MSGQ_INVALID, "url has a user name; use the header Authorization");
  } else if (length == 0 ||
             curl_url_set(parts, CURLUPART_URL, url, CURLU_PATH_AS_IS) != CURLUE_OK) {
    result = fail(MSGQ_INVALID, "url is not valid: %s", shown);
  } else if (strchr(url, '#') != NULL) {
    result = fail(MSGQ_INVALID, "url has a fragment: %s", shown);
  }
  curl_url_cleanup(parts);
  return result;
}

/* Copies a part of a URL without percent-encoding, if it has that part and there is room. */
static bool copy_part(CURLU *parts, CURLUPart part, char *text, size_t room) {
  char *value = NULL;
  if (curl_url_get(parts, part, &value, CURLU_URLDECODE) != CURLUE_OK) return false;
  bool has_room = strlen(value) < room;
  if (has_room) strcpy(text, value);
  curl_free(value);
  return has_room;
}

/* Checks the URL of the proxy, and writes its host and port. No text contains the URL, which may
   have a password. */
static msgq_result check_proxy(const char *url, char *place, size_t room) {
  char host[256], port[8], path[8], user[256] = "";
  if (!is_visible(url)) {
    return fail(MSGQ_INVALID, "proxy has a character that must be percent-encoded");
  }
  CURLU *parts = curl_url();
  if (parts == NULL) return fail(MSGQ_STORAGE, "out of memory");
  bool is_url = strncasecmp(url, "http://", 7) == 0 && strpbrk(url, "?#") == NULL &&
                curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                copy_part(parts, CURLUPART_HOST, host, sizeof host) &&
                copy_part(parts, CURLUPART_PATH, path, sizeof path) && strcmp(path, "/") == 0;
  bool has_port = is_url && copy_part(parts, CURLUPART_PORT, port, sizeof port);
  (void)copy_part(parts, CURLUPART_USER, user, sizeof user);
  curl_url_cleanup(parts);
  if (!is_url) {
    return fail(MSGQ_INVALID, "proxy is not http://HOST:PORT or http://USER:PASSWORD@HOST:PORT");
  }
  if (!has_port || strcmp(port, "0") == 0) {
    return fail(MSGQ_INVALID, "proxy has no port: %s", host);
  }
  if (strchr(user, ':') != NULL) return fail(MSGQ_INVALID, "the user name of proxy has a colon");
  snprintf(place, room, "%s:%s", host, port);
  return MSGQ_OK;
}

/* Adds a line to the headers of every message. */
static msgq_result add_line(struct client *client, const char *name, const char *value) {
  /* libcurl sends a header without a value when a semicolon is in the place of the colon. */
  bool is_empty = value[strspn(value, " \t")] == '\0';
  size_t size = strlen(name) + strlen(value) + 3;
  char *line = malloc(size);
  if (line == NULL) return fail(MSGQ_STORAGE, "out of memory");
  if (is_empty) snprintf(line, size, "%s;", name);
  else snprintf(line, size, "%s: %s", name, value);
  struct curl_slist *list = curl_slist_append(client->headers, line);
  free(line);
  if (list == NULL) return fail(MSGQ_STORAGE, "out of memory");
  client->headers = list;
  return MSGQ_OK;
}

static msgq_result check_header(const msgq_pair *header, bool has_token) {
  static const char *const own[] = { "Connection",  "Content-Length", "Content-Type",
                                     "Expect",      "Host",           "Idempotency-Key",
                                     "Traceparent", "Tracestate",     "Transfer-Encoding" };
  if (header->key == NULL || header->value == NULL) {
    return fail(MSGQ_INVALID, "a header has no name or no value");
  }
  bool is_name = header->key[0] != '\0';
  for (const char *place = header->key; *place != '\0'; place++) {
    if (!is_token_character(*place)) is_name = false;
  }
  if (!is_name) return fail(MSGQ_INVALID, "the name of a header is not valid");
  for (size_t index = 0; index < sizeof own / sizeof own[0]; index++) {
    if (strcasecmp(header->key, own[index]) == 0) {
      return fail(MSGQ_INVALID, "the header %s is set by the transport", own[index]);
    }
  }
  if (has_token && strcasecmp(header->key, "Authorization") == 0) {
    return fail(MSGQ_INVALID, "the header Authorization is set by the transport");
  }
  if (!is_value(header->value)) {
    return fail(MSGQ_INVALID, "the value of the header %s has a control character or is not UTF-8",
                header->key);
  }
  return MSGQ_OK;
}

static msgq_result take_headers(struct client *client, const msgq_http_options *options) {
  const char *type = options->content_type;
  if (type == NULL) type = "application/octet-stream";
  if (type[0] == '\0' || !is_value(type)) {
    return fail(MSGQ_INVALID, "content_type is empty, has a control character or is not UTF-8");
  }
  if (options->header_count > most_headers) {
    return fail(MSGQ_INVALID, "header_count must be 0 to %d, got %zu", (int)most_headers,
                options->header_count);
  }
  if (options->header_count > 0 && options->headers == NULL) {
    return fail(MSGQ_INVALID, "headers is NULL");
  }
  msgq_result result = add_line(client, "Content-Type", type);
  /* Without it libcurl waits before it sends a long body. */
  struct curl_slist *list = curl_slist_append(client->headers, "Expect:");
  if (list == NULL) return fail(MSGQ_STORAGE, "out of memory");
  client->headers = list;
  for (size_t index = 0; result == MSGQ_OK && index < options->header_count; index++) {
    const msgq_pair *header = &options->headers[index];
    result = check_header(header, options->token != NULL);
    if (result == MSGQ_OK) result = add_line(client, header->key, header->value);
  }
  return result;
}

/* Without this check no message would be sent: libcurl reads the file when it connects. */
static msgq_result check_pem(const char *name, const char *path, const char *mark,
                             const char *content) {
  size_t mark_size = strlen(mark);
  char bytes[16384];
  size_t kept = 0, size;
  bool is_found = false;
  struct stat status;
  if (!is_utf8(path)) return fail(MSGQ_INVALID, "%s is not UTF-8", name);
  /* Before it is opened: a pipe would wait for its writer. */
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
    return fail(MSGQ_INVALID, "%s is not a regular file", name);
  }
  FILE *file = fopen(path, "re");
  if (file == NULL) return fail(MSGQ_INVALID, "%s cannot be read: %s", name, strerror(errno));
  while (!is_found && (size = fread(bytes + kept, 1, sizeof bytes - kept, file)) > 0) {
    size += kept;
    is_found = memmem(bytes, size, mark, mark_size) != NULL;
    kept = size < mark_size ? size : mark_size;
    memmove(bytes, bytes + size - kept, kept);
  }
  int problem = ferror(file) ? errno : 0;
  fclose(file);
  if (is_found) return MSGQ_OK;
  if (problem != 0) {
    return fail(MSGQ_INVALID, "%s cannot be read: %s", name, strerror(problem));
  }
  return fail(MSGQ_INVALID, "%s has no %s in PEM", name, content);
}

/* Checks the files and the proxy. */
static msgq_result check_ways(struct client *client, const msgq_http_options *options) {
  static const char certificate[] = "-----BEGIN CERTIFICATE-----", key[] = " PRIVATE KEY-----";
  const char *own = options->certificate_file;
  const char *own_key = options->key_file != NULL ? options->key_file : own;
  msgq_result result = MSGQ_OK;
  if (own == NULL && (options->key_file != NULL || options->key_password != NULL)) {
    return fail(MSGQ_INVALID, "key_file and key_password need certificate_file");
  }
  if (options->ca_file != NULL) {
    result = check_pem("ca_file", options->ca_file, certificate, "certificate");
  }
  if (result == MSGQ_OK && own != NULL) {
    result = check_pem("certificate_file", own, certificate, "certificate");
  }
  if (result == MSGQ_OK && own_key != NULL) {
    const char *name = options->key_file != NULL ? "key_file" : "certificate_file";
    result = check_pem(name, own_key, key, "private key");
  }
  if (result == MSGQ_OK && options->proxy != NULL) {
    result = check_proxy(options->proxy, client->proxy_place, sizeof client->proxy_place);
  }
  return result;
}

/* Copies a text that may be NULL. Returns false without memory. */
static bool copy(char **out, const char *text) {
  *out = text != NULL ? strdup(text) : NULL;
  return text == NULL || *out != NULL;
}

/* Notes the host and the port of a URL that was checked. */
static void set_place(struct client *client, const char *url) {
  const char *host = strstr(url, "://") + 3;
  snprintf(client->place, sizeof client->place, "%.*s", (int)strcspn(host, "/?"), host);
}

static msgq_result take_options(struct client *client, const msgq_http_options *options) {
  msgq_result result = check_url(options->url, &client->is_secure);
  if (result != MSGQ_OK) return result;
  if (options->max_connections > 1000) {
    return fail(MSGQ_INVALID, "max_connections must be 0 to 1000, got %u",
                options->max_connections);
  }
  if (options->timeout_ms < 0 || options->timeout_ms > longest_timeout_ms) {
    return fail(MSGQ_INVALID, "timeout_ms must be 0 to %d, got %lld", (int)longest_timeout_ms,
                (long long)options->timeout_ms);
  }
  result = check_ways(client, options);
  if (result != MSGQ_OK) return result;
  client->max_connections = options->max_connections == 0 ? 64 : (long)options->max_connections;
  client->timeout_ms = options->timeout_ms;
  client->unauthorized_is_final = options->unauthorized_is_final;
  set_place(client, options->url);
  client->token = options->token;
  client->context = options->context;
  if (!copy(&client->url, options->url) || !copy(&client->ca_file, options->ca_file) ||
      !copy(&client->certificate_file, options->certificate_file) ||
      !copy(&client->key_file, options->key_file) ||
      !copy(&client->key_password, options->key_password) ||
      !copy(&client->proxy, options->proxy)) {
    return fail(MSGQ_STORAGE, "out of memory");
  }
  return take_headers(client, options);
}

/* ------------------------------------------------------------------ 15. setting the transport */

/* Makes the epoll instance, and the descriptor that wakes the first thread. */
static msgq_result make_loop(struct client *client) {
  client->loop = epoll_create1(EPOLL_CLOEXEC);
  client->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event interest = { .events = EPOLLIN, .data.fd = client->wake };
  if (client->loop < 0 || client->wake < 0 ||
      epoll_ctl(client->loop, EPOLL_CTL_ADD, client->wake, &interest) != 0) {
    return fail(MSGQ_STORAGE, "no descriptor for the event loop: %s", strerror(errno));
  }
  return MSGQ_OK;
}

static msgq_result make_multi(struct client *client) {
  CURLM *multi = client->multi = curl_multi_init();
#define SET(option, value) (curl_multi_setopt(multi, CURLMOPT_##option, value) == CURLM_OK)
  bool is_set = multi != NULL && SET(SOCKETFUNCTION, on_socket) && SET(SOCKETDATA, client) &&
                SET(TIMERFUNCTION, on_timer) && SET(TIMERDATA, client) &&
                SET(MAX_TOTAL_CONNECTIONS, client->max_connections) &&
                SET(MAXCONNECTS, client->max_connections);
#undef SET
  return is_set ? MSGQ_OK : fail(MSGQ_STORAGE, "libcurl has no memory or no descriptor");
}

/* Starts the threads, which block all signals: these are for the program's own threads. */
static msgq_result start_threads(struct client *client) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int problem = pthread_create(&client->reporter, NULL, report, client);
  if (problem == 0 && (problem = pthread_create(&client->thread, NULL, run, client)) != 0) {
    end_reporter(client);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return problem == 0 ? MSGQ_OK : fail(MSGQ_STORAGE, "no thread: %s", strerror(problem));
}

/* Makes a client and starts its threads. */
static msgq_result make_client(msgq_queue *queue, const msgq_http_options *options,
                               struct client **out) {
  struct client *client = calloc(1, sizeof *client);
  if (client == NULL) return fail(MSGQ_STORAGE, "out of memory");
  pthread_mutex_init(&client->lock, NULL);
  pthread_cond_init(&client->changed, NULL);
  client->queue = queue;
  client->loop = client->wake = -1;
  client->timer_ms = -1;
  msgq_result result = take_options(client, options);
  if (result == MSGQ_OK) result = make_loop(client);
  if (result == MSGQ_OK) result = make_multi(client);
  if (result == MSGQ_OK) result = start_threads(client);
  if (result == MSGQ_OK) *out = client;
  else free_client(client);
  return result;
}

msgq_result msgq_http_set_transport(msgq_queue *queue, const msgq_http_options *options) {
  msgq_http_options read;
  struct client *client = NULL;
  if (options == NULL) return fail(MSGQ_INVALID, "options is NULL");
  msgq_result result = read_options(options, &read);
  pthread_once(&once, initialise);
  if (result == MSGQ_OK && global != CURLE_OK) {
    result = fail(MSGQ_STORAGE, "libcurl: %s", curl_easy_strerror(global));
  }
  if (result == MSGQ_OK) result = make_client(queue, &read, &client);
  if (result != MSGQ_OK) {
    if (read.release != NULL) read.release(read.context);
    return result;
  }
  /* The engine calls `release` now if it fails. */
  client->release = read.release;
  result = msgq_set_transport(queue, begin, client, release);
  return result == MSGQ_OK ? MSGQ_OK : fail(result, "%s", msgq_error_detail());
}
