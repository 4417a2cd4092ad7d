/* bindings/c/http.c: what is sent, and what the answers and failures of a server become. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "site.h"

static bool is(const struct attempt *found, msgq_failure_kind kind, msgq_arrival arrival) {
  return found->outcome == MSGQ_ATTEMPT_RETRY && found->kind == kind && found->code == 0 && found->arrival == arrival && found->count == 1;
}

static void print(const char *what, const struct attempt *found) {
  printf("%s: outcome %d, kind %d, code %d, arrival %d, %s\n", what, (int)found->outcome, (int)found->kind, (int)found->code,
         (int)found->arrival, found->text);
}

TEST(B2_http_posts_the_body_with_its_key_and_headers) {
  struct site site;
  site_begin(&site);
  const msgq_pair headers[] = { { "X-One", "1; two" }, { "X-Empty", "" }, { "authorization", "Bearer abc" } };
  site.http.headers = headers;
  site.http.header_count = 3;
  site.http.content_type = "text/plain; charset=utf-8";
  site_use(&site, "/status/200?a=/../b");
  site_put(&site, "id-1", "a\0b\nc", 5, NULL, 0);
  site_put(&site, "id-2", "", 0, NULL, 0);
  CHECK_NUMBER(2, drain(&site.scene).sent);
  CHECK_NUMBER(2, site_count(&site, "\tPOST /status/200?a=/../b HTTP/1.1\t"));
  CHECK_NUMBER(2, site_count(&site, "\tX-One: 1; two\t"));
  CHECK_NUMBER(2, site_count(&site, "\tX-Empty:\t"));
  CHECK_NUMBER(2, site_count(&site, "\tauthorization: Bearer abc\t"));
  CHECK_NUMBER(2, site_count(&site, "\tContent-Type: text/plain; charset=utf-8\t"));
  CHECK_NUMBER(1, site_count(&site, "\tIdempotency-Key: \"id-1\"\t"));
  CHECK_NUMBER(0, site_count(&site, "Expect:"));
  struct attempt first = attempt_of(&site, "id-1");
  CHECK_NUMBER(MSGQ_ATTEMPT_SENT, first.outcome);
  CHECK_NUMBER(200, first.code);
  site_end(&site);
}

TEST(B2_http_the_key_of_any_id_is_one_header) {
  struct site site;
  site_begin(&site);
  site_use(&site, "/status/200");
  char longest[256], line[1024] = "\tIdempotency-Key: %\"";
  for (int index = 0; index < 254; index += 2) memcpy(longest + index, "\xc3\xb3", 2), strcat(line, "%c3%b3");
  longest[254] = '\0';
  strcat(line, "\"\t");
  site_put(&site, "two \"\\ %", "", 0, NULL, 0);
  site_put(&site, "Ż%\"ó", "x", 1, NULL, 0);
  site_put(&site, longest, "x", 1, NULL, 0);
  CHECK_NUMBER(3, drain(&site.scene).sent);
  CHECK_NUMBER(1, site_count(&site, "\tIdempotency-Key: \"two \\\"\\\\ %\"\t"));
  CHECK_NUMBER(1, site_count(&site, "\tIdempotency-Key: %\"%c5%bb%25%22%c3%b3\"\t"));
  CHECK_NUMBER(1, site_count(&site, line));
  CHECK_NUMBER(3, site_count(&site, "\tContent-Type: application/octet-stream\t"));
  site_end(&site);
}

TEST(B2_http_sends_bodies_of_any_size_and_bytes) {
  struct site site;
  site_prepare(&site);
  site.scene.options.limit_body = 64 << 20;
  site_open(&site);
  site_use(&site, "/status/200");
  size_t size = (size_t)check_times(32, 2) << 20;
  char *body = calloc(1, size), line[64];
  REQUIRE(body != NULL);
  site_put(&site, "large", body, size, NULL, 0);
  site_put(&site, "empty", NULL, 0, NULL, 0);
  site_put(&site, "lines", "\r\n\r\nGET / HTTP/1.1\r\n\r\n", 22, NULL, 0);
  free(body);
  CHECK_NUMBER(3, drain(&site.scene).sent);
  snprintf(line, sizeof line, "\tsize=%zu\tzeros=%zu\t", size, size);
  CHECK_NUMBER(1, site_count(&site, line));
  CHECK_NUMBER(1, site_count(&site, "\tsize=0\tzeros=0\tbody="));
  CHECK_NUMBER(1, site_count(&site, "body=0d0a0d0a474554202f20485454502f312e310d0a0d0a"));
  site_end(&site);
}

TEST(B2_http_retry_after_delays_the_next_attempt) {
  static const struct {
    const char *value;
    int64_t least, most;
  } cases[] = {
    { "120", 119000, 121000 },
    { "Fri,+31+Dec+2199+23:59:59+GMT", 604799000, 604801000 },
    { "99999999999999999999", 0, 604801000 },
    { "soon", 900, 1100 },
    { "%C5%BB", 900, 1100 },
    { "", 900, 1100 },
    /* Longer than any date. */
    { "1111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111", 900, 1100 },
  };
  struct site site;
  static const int64_t ladder[] = { 1000 };
  site_prepare(&site);
  set_ladder(&site.scene, ladder, 1);
  site_open(&site);
  for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
    char path[256];
    snprintf(path, sizeof path, "/status/503?retry-after=%s", cases[index].value);
    site_use(&site, path);
    put(&site.scene, "id", "ana", "hello");
    CHECK_NUMBER(MSGQ_STOP_WAITING, drain(&site.scene).stop);
    int64_t delay = delay_of(&site.scene, "id");
    if (!CHECK(delay >= cases[index].least && delay <= cases[index].most)) printf("%s: %lld\n", path, (long long)delay);
    CHECK_RESULT(MSGQ_OK, msgq_delete(site.scene.queue, "id"));
  }
  site_end(&site);
}

TEST(B2_http_what_was_surely_not_sent_is_offline) {
  struct site site;
  site_begin(&site);
  site_use_port(&site, "http", site.server.refusing, "/");
  put(&site.scene, "refused", "ana", "x");
  CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&site.scene).stop);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&site.scene, "refused"));
  CHECK_NUMBER(0, attempts_of(&site.scene, "refused"));
  /* The engine keeps the attempt when a person asked for it. */
  CHECK_RESULT(MSGQ_OK, msgq_send_now(site.scene.queue, "refused"));
  AWAIT(attempt_of(&site, "refused").outcome == MSGQ_ATTEMPT_RETRY);
  struct attempt found = attempt_of(&site, "refused");
  CHECK(is(&found, MSGQ_FAILURE_OFFLINE, MSGQ_ARRIVAL_NO));
  if (!CHECK(strstr(found.text, "onnect") != NULL)) print("refused", &found);
  site.http.url = "http://nobody.invalid/";
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(site.scene.queue, &site.http));
  CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&site.scene).stop);
  site_use(&site, "/status/200");
  CHECK_NUMBER(1, drain(&site.scene).sent);
  site_end(&site);
}

TEST(B2_http_a_connection_that_is_cut_may_have_arrived) {
  static const char *const paths[] = { "/cut/line", "/cut/header", "/cut/body", "/reset/line", "/reset/header", "/reset/body" };
  struct site site;
  site_begin(&site);
  for (size_t index = 0; index < sizeof paths / sizeof paths[0]; index++) {
    struct attempt found = site_try(&site, paths[index], NULL);
    if (!CHECK(is(&found, MSGQ_FAILURE_NETWORK, MSGQ_ARRIVAL_PERHAPS))) print(paths[index], &found);
  }
  /* The connection ends before or after the request was written. */
  site_use_port(&site, "http", site.server.closing, "/");
  struct attempt found = site_try(&site, NULL, NULL);
  if (!CHECK(found.outcome == MSGQ_ATTEMPT_RETRY && found.kind == MSGQ_FAILURE_NETWORK)) print("closing", &found);
  CHECK_NUMBER(2, site_count(&site, "\tPOST "));
  site_end(&site);
}

/* Answers the first request, reads the second one on the same connection, and stops. */
static void *stop_after_a_request(void *context) {
  static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  int listener = *(int *)context, client = accept(listener, NULL, NULL);
  char text[4096];
  for (int requests = 0; requests < 2; requests++) {
    size_t size = 0;
    ssize_t got;
    do {
      got = recv(client, text + size, sizeof text - 1 - size, 0);
      if (got > 0) size += (size_t)got;
      text[size] = '\0';
    } while (got > 0 && strstr(text, "hello") == NULL);
    if (requests == 0) (void)!write(client, answer, sizeof answer - 1);
  }
  close(listener);
  close(client);
  return NULL;
}

/* libcurl connects again then, which fails: the server may have the message all the same. */
TEST(B2_http_a_server_that_stops_after_it_read_a_request_may_have_it) {
  struct site site;
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  socklen_t length = sizeof address;
  pthread_t thread;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
  REQUIRE(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
  REQUIRE(pthread_create(&thread, NULL, stop_after_a_request, &listener) == 0);
  site_begin(&site);
  site_use_port(&site, "http", ntohs(address.sin_port), "/");
  put(&site.scene, "first", "ana", "hello");
  CHECK_NUMBER(1, drain(&site.scene).sent);
  put(&site.scene, "second", "ana", "hello");
  drain(&site.scene);
  pthread_join(thread, NULL);
  struct attempt found = attempt_of(&site, "second");
  if (!CHECK(is(&found, MSGQ_FAILURE_NETWORK, MSGQ_ARRIVAL_PERHAPS))) print("second", &found);
  site_end(&site);
}

static void raw_path(char *path, const void *answer, size_t size) {
  path += sprintf(path, "/raw/");
  for (size_t index = 0; index < size; index++) path += sprintf(path, "%02x", ((const unsigned char *)answer)[index]);
}

/* Replaces \r, \n and \xHH by their bytes, in place. Returns the number of bytes. */
static size_t unescape(char *text) {
  char *end = text;
  for (const char *from = text; *from != '\0'; from++) {
    unsigned byte = (unsigned char)*from;
    if (*from == '\\') {
      from++;
      byte = *from == 'r' ? '\r' : '\n';
      if (*from == 'x' && sscanf(from + 1, "%2x", &byte) == 1) from += 2;
    }
    *end++ = (char)byte;
  }
  return (size_t)(end - text);
}

/* Writes an attempt as the table of answers does. */
static void write_outcome(char *out, size_t room, const struct attempt *found) {
  static const char *const kinds[] = {
    [MSGQ_FAILURE_NETWORK] = "network",       [MSGQ_FAILURE_SERVER] = "server",
    [MSGQ_FAILURE_TIMEOUT] = "timeout",       [MSGQ_FAILURE_REJECTED] = "rejected",
    [MSGQ_FAILURE_NOT_FOUND] = "not_found",   [MSGQ_FAILURE_UNAUTHORIZED] = "unauthorized",
    [MSGQ_FAILURE_RATE_LIMIT] = "rate_limit", [MSGQ_FAILURE_UNKNOWN] = "unknown",
  };
  char code[16] = "";
  const char *kind = (size_t)found->kind < sizeof kinds / sizeof kinds[0] ? kinds[found->kind] : NULL;
  if (found->code != 0) snprintf(code, sizeof code, " %d", (int)found->code);
  if (found->outcome == MSGQ_ATTEMPT_SENT) {
    snprintf(out, room, "sent");
  } else {
    snprintf(out, room, "%s %s%s", found->outcome == MSGQ_ATTEMPT_RETRY ? "retried" : "failed", kind ? kind : "?", code);
  }
}

/* Tests/fixtures/http-answers.txt: the same table in C, Python and Swift. */
TEST(B2_http_each_answer_has_its_outcome) {
  struct site site;
  char line[512], path[2048], outcome[64];
  int count = 0;
  FILE *table = fopen(HTTP_ANSWERS, "r");
  REQUIRE(table != NULL);
  site_begin(&site);
  while (fgets(line, sizeof line, table) != NULL) {
    char *answer = strchr(line, '\t');
    if (line[0] == '#') continue;
    REQUIRE(answer != NULL && strchr(line, '\n') != NULL);
    *strchr(line, '\n') = '\0';
    *answer++ = '\0';
    raw_path(path, answer, unescape(answer));
    struct attempt found = site_try(&site, path, NULL);
    write_outcome(outcome, sizeof outcome, &found);
    if (!CHECK_TEXT(line, outcome) || !CHECK_NUMBER(1, found.count)) print(answer, &found);
    if (found.code == 0 && !CHECK_NUMBER(MSGQ_ARRIVAL_PERHAPS, found.arrival)) print(answer, &found);
    count++;
  }
  fclose(table);
  CHECK(count > 80);
  /* No redirect was followed, and nothing was sent twice. */
  CHECK_NUMBER(count, site_count(&site, "\tPOST "));
  AWAIT(atomic_load(&site.released) == count - 1);
  char many[120 * 22 + 1] = "", many_path[2 * sizeof many + 8];
  for (int index = 0; index < 120; index++) strcat(many, "HTTP/1.1 103 Early\r\n\r\n");
  raw_path(many_path, many, strlen(many));
  struct attempt found = site_try(&site, many_path, NULL);
  if (!CHECK(is(&found, MSGQ_FAILURE_SERVER, MSGQ_ARRIVAL_PERHAPS))) print("120 times 103", &found);
  static const char changed[] = "HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  raw_path(path, changed, sizeof changed - 1);
  found = site_try(&site, path, NULL);
  if (!CHECK(is(&found, MSGQ_FAILURE_SERVER, MSGQ_ARRIVAL_PERHAPS))) print("101", &found);
  site_end(&site);
}

TEST(B2_http_401_is_final_when_the_host_says_so) {
  struct site site;
  msgq_status status;
  site_begin(&site);
  site.http.unauthorized_is_final = true;
  struct attempt found = site_try(&site, "/status/401", &status);
  CHECK_NUMBER(MSGQ_ATTEMPT_REJECTED, found.outcome);
  CHECK_NUMBER(MSGQ_FAILURE_UNAUTHORIZED, found.kind);
  CHECK_NUMBER(401, found.code);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status);
  site_end(&site);
}

TEST(B2_http_a_header_line_without_an_end_is_a_mistake_of_the_server) {
  struct site site;
  site_begin(&site);
  struct attempt found = site_try(&site, "/long", NULL);
  if (!CHECK(is(&found, MSGQ_FAILURE_SERVER, MSGQ_ARRIVAL_PERHAPS))) print("long", &found);
  CHECK(strstr(found.text, "header") != NULL);
  site_end(&site);
}

TEST(B2_http_a_header_that_is_too_large_is_a_mistake_of_the_server) {
  static const char *paths[] = { "/lines/263", "/lines/290", "/lines/600" };
  struct site site;
  site_begin(&site);
  CHECK_NUMBER(200, site_try(&site, "/lines/262", NULL).code);
  for (size_t index = 0; index < sizeof paths / sizeof paths[0]; index++) {
    struct attempt found = site_try(&site, paths[index], NULL);
    if (!CHECK(is(&found, MSGQ_FAILURE_SERVER, MSGQ_ARRIVAL_PERHAPS))) print(paths[index], &found);
    CHECK_TEXT("the header of the answer is too large", found.text);
  }
  site_end(&site);
}

TEST(B2_http_the_text_of_an_answer_is_one_line_of_valid_text) {
  struct site site;
  char path[1024];
  site_begin(&site);
  static const char whole[] = "HTTP/1.1 422 Not\x01 so\xff\r\n\r\n \r\n<p>\xc3\xb3\xc3 \xed\xa0\x80\t\x1b[31m\r\n";
  raw_path(path, whole, sizeof whole - 1);
  CHECK_TEXT("422 Not so?: <p>ó? ??? [31m", site_try(&site, path, NULL).text);
  raw_path(path, "HTTP/1.1 422\r\n\r\n  \r\n", 20);
  CHECK_TEXT("422", site_try(&site, path, NULL).text);
  site_end(&site);
}

TEST(B2_http_an_endless_answer_is_not_read_to_its_end) {
  struct site site;
  site_begin(&site);
  int64_t start = steady_ms();
  CHECK_NUMBER(200, site_try(&site, "/endless", NULL).code);
  CHECK(steady_ms() - start < check_timeout_ms());
  site_end(&site);
}

TEST(B2_http_no_answer_in_time_may_have_arrived) {
  static const char *const paths[] = { "/hang", "/drip", "/slow/5000" };
  struct site site;
  site_prepare(&site);
  site.scene.options.attempt_timeout_ms = check_timeout_ms();
  site_open(&site);
  site.http.timeout_ms = 200;
  for (size_t index = 0; index < sizeof paths / sizeof paths[0]; index++) {
    struct attempt found = site_try(&site, paths[index], NULL);
    if (!CHECK(is(&found, MSGQ_FAILURE_TIMEOUT, MSGQ_ARRIVAL_PERHAPS))) print(paths[index], &found);
    CHECK(strstr(found.text, "imed out") != NULL);
  }
  /* The server's system accepts the connection, so the request is written. */
  site_use_port(&site, "http", site.server.silent, "/");
  struct attempt found = site_try(&site, NULL, NULL);
  if (!CHECK(is(&found, MSGQ_FAILURE_TIMEOUT, MSGQ_ARRIVAL_PERHAPS))) print("silent", &found);
  /* In the handshake of TLS nothing of the request was written. */
  site_use_port(&site, "https", site.server.silent, "/");
  found = site_try(&site, NULL, NULL);
  if (!CHECK(is(&found, MSGQ_FAILURE_TIMEOUT, MSGQ_ARRIVAL_NO))) print("silent with TLS", &found);
  site_end(&site);
}

TEST(B2_http_the_time_out_of_the_attempt_limits_a_request) {
  struct site site;
  site_prepare(&site);
  site.scene.options.attempt_timeout_ms = 300;
  site_open(&site);
  struct attempt found = site_try(&site, "/hang", NULL);
  CHECK_NUMBER(MSGQ_FAILURE_TIMEOUT, found.kind);
  CHECK_NUMBER(MSGQ_ARRIVAL_PERHAPS, found.arrival);
  site_end(&site);
}

TEST(B2_http_a_certificate_that_is_not_trusted_gets_nothing) {
  struct site site;
  site_begin(&site);
  site_use_port(&site, "https", site.server.secure, "/status/200");
  struct attempt found = site_try(&site, NULL, NULL);
  if (!CHECK(is(&found, MSGQ_FAILURE_NETWORK, MSGQ_ARRIVAL_NO))) print("not trusted", &found);
  CHECK(strstr(found.text, "ertificate") != NULL);
  site.http.ca_file = getenv("HTTP_CERTIFICATE");
  site_use_port(&site, "https", site.server.secure, "/status/200");
  CHECK_NUMBER(200, site_try(&site, NULL, NULL).code);
  CHECK_NUMBER(1, site_count(&site, "\tPOST "));
  /* Its name is 127.0.0.1. */
  snprintf(site.url, sizeof site.url, "https://localhost:%d/status/200", site.server.secure);
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(site.scene.queue, &site.http));
  found = site_try(&site, NULL, NULL);
  if (!CHECK(is(&found, MSGQ_FAILURE_NETWORK, MSGQ_ARRIVAL_NO))) print("another name", &found);
  /* A server without TLS, which waits for the end of a line. */
  site.http.timeout_ms = 500;
  site_use_port(&site, "https", site.server.plain, "/status/200");
  found = site_try(&site, NULL, NULL);
  if (!CHECK(is(&found, MSGQ_FAILURE_TIMEOUT, MSGQ_ARRIVAL_NO))) print("without TLS", &found);
  CHECK_NUMBER(1, site_count(&site, "\tPOST "));
  site_end(&site);
}

TEST(B2_B8_http_sends_a_valid_trace_context_only) {
#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"
#define PARENT "00-" TRACE "-" SPAN "-01"
  static const struct {
    const char *parent, *state;
    bool has_parent, has_state;
  } cases[] = {
    { PARENT, NULL, true, false },
    { PARENT, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", true, true },
    { PARENT, "a=1 , b@c=2,\t1-2_3*4/5=x y z", true, true },
    { PARENT, ",a=1,,", true, true },
    { "cc-" TRACE "-" SPAN "-01-what-ever", "a=1", true, true },
    { "cc-" TRACE "-" SPAN "-01", NULL, true, false },
    { "cc-" TRACE "-" SPAN "-01.", NULL, false, false },
    { "00-" TRACE "-" SPAN "-01-x", "a=1", false, false },
    { "ff-" TRACE "-" SPAN "-01", NULL, false, false },
    { "00-00000000000000000000000000000000-" SPAN "-01", NULL, false, false },
    { "00-" TRACE "-0000000000000000-01", NULL, false, false },
    { "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", NULL, false, false },
    { "00-" TRACE "-" SPAN "-0", NULL, false, false },
    { "00-" TRACE "-" SPAN "-0g", NULL, false, false },
    { "", NULL, false, false },
    { PARENT "\r\nX-Evil: 1", NULL, false, false },
    { "cc-" TRACE "-" SPAN "-01-\r\nX-Evil: 1", NULL, false, false },
    { NULL, "a=1", false, false },
    { PARENT, "a=1\r\nX-Evil: 1", true, false },
    { PARENT, "a=1,a=2", true, false },
    { PARENT, "A=1", true, false },
    { PARENT, "a", true, false },
    { PARENT, "a=", true, false },
    { PARENT, "a=b=c", true, false },
    { PARENT, "a=\xc3\xb3", true, false },
    { PARENT, "a@=1", true, false },
    { PARENT, "a@b@c=1", true, false },
    { PARENT, "=1", true, false },
    { PARENT, "", true, false },
    { PARENT, "a1=1,a2=1,a3=1,a4=1,a5=1,a6=1,a7=1,a8=1,a9=1,b1=1,b2=1,b3=1,b4=1,b5=1,b6=1,b7=1,b8=1,b9=1,c1=1,c2=1,c3=1,c4=1,c5=1,c6=1,c7=1,"
              "c8=1,c9=1,d1=1,d2=1,d3=1,d4=1,d5=1,d6=1", true, false },
  };
  struct site site;
  site_begin(&site);
  site_use(&site, "/status/200");
  size_t count = sizeof cases / sizeof cases[0];
  for (size_t index = 0; index < count; index++) {
    msgq_pair pairs[3] = { { "other", "x\r\nX-Evil: 1" } };
    size_t used = 1;
    char id[32];
    snprintf(id, sizeof id, "case-%zu", index);
    if (cases[index].parent != NULL) pairs[used++] = (msgq_pair){ "traceparent", cases[index].parent };
    if (cases[index].state != NULL) pairs[used++] = (msgq_pair){ "tracestate", cases[index].state };
    site_put(&site, id, "x", 1, pairs, used);
  }
  CHECK_NUMBER(count, drain(&site.scene).sent);
  for (size_t index = 0; index < count; index++) {
    char start[1024], whole[2048];
    snprintf(start, sizeof start, "\tIdempotency-Key: \"case-%zu\"\ttraceparent: %.600s\t", index, cases[index].parent);
    snprintf(whole, sizeof whole, "%stracestate: %.600s\t", start, cases[index].state);
    if (!CHECK_NUMBER(cases[index].has_parent, site_count(&site, start))) printf("%s\n", start);
    if (!CHECK_NUMBER(cases[index].has_state, site_count(&site, whole))) printf("%s\n", whole);
  }
  int parents = 0, states = 0;
  for (size_t index = 0; index < count; index++) parents += cases[index].has_parent, states += cases[index].has_state;
  CHECK_NUMBER(parents, site_count(&site, "traceparent"));
  CHECK_NUMBER(states, site_count(&site, "tracestate"));
  CHECK_NUMBER(0, site_count(&site, "Evil"));
  site_end(&site);
}
