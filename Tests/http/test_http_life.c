/* bindings/c/http.c: connections, bearer tokens, the end of the transport, and wrong options. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "process.h"
#include "site.h"

TEST(B2_http_connections_are_kept_alive) {
  struct site site;
  site_begin(&site);
  site_use(&site, "/status/200");
  for (int number = 0; number < 50; number++) site_put(&site, NULL, "x", 1, NULL, 0);
  CHECK_NUMBER(50, drain(&site.scene).sent);
  CHECK_NUMBER(50, site_count(&site, "connection=1\t"));
  CHECK_NUMBER(1, site_count(&site, "connection=1\trequest=50\t"));
  site_end(&site);
}

TEST(B2_http_an_ended_connection_is_replaced_without_a_failure) {
  struct site site;
  site_begin(&site);
  site_use(&site, "/leave");
  for (int number = 1; number <= 5; number++) {
    site_put(&site, NULL, "x", 1, NULL, 0);
    CHECK_NUMBER(1, drain(&site.scene).sent);
    pause_ms(50); /* until the end of the connection is here */
  }
  CHECK_NUMBER(5, site_count(&site, "request=1\t"));
  site_end(&site);
}

/* Puts one message into each of `count` conversations. */
static void put_many(struct site *site, int first, int count) {
  for (int number = first; number < first + count; number++) {
    char id[32], conversation[32];
    snprintf(id, sizeof id, "m%d", number);
    snprintf(conversation, sizeof conversation, "c%d", number);
    put(&site->scene, id, conversation, "hello");
  }
}

/* Begins to send `count` messages to a path that does not answer at once; returns when the server has all requests that may be in flight. */
static void start_many(struct site *site, const char *path, int first, int count) {
  char request[64];
  int most = (int)site->scene.options.max_in_flight;
  snprintf(request, sizeof request, "\tPOST %s", path);
  site_use(site, path);
  put_many(site, first, count);
  CHECK_RESULT(MSGQ_OK, msgq_drain_async(site->scene.queue, NULL, NULL, NULL));
  AWAIT(site_count(site, request) == (count < most ? count : most));
}

/* Sends rounds of messages, and lets what nobody asked for arrive between them. */
static void check_extra(const char *scheme, const char *kind, int in_flight) {
  enum { rounds = 4 };
  struct site site;
  char path[32];
  site_begin_wide(&site, (uint32_t)in_flight);
  snprintf(path, sizeof path, "/extra/%s?%d", kind, in_flight);
  bool is_secure = strcmp(scheme, "https") == 0;
  if (is_secure) site.http.ca_file = getenv("HTTP_CERTIFICATE");
  site_use_port(&site, scheme, is_secure ? site.server.secure : site.server.plain, path);
  for (int round = 0; round < rounds; round++) {
    put_many(&site, round * in_flight, in_flight);
    CHECK_NUMBER(in_flight, drain(&site.scene).sent);
    AWAIT(site_count(&site, "unasked") >= (round + 1) * in_flight);
  }
  /* The server has each of them, once and in one attempt. */
  for (int number = 0; number < rounds * in_flight; number++) {
    char id[32], key[64];
    snprintf(id, sizeof id, "m%d", number);
    snprintf(key, sizeof key, "Idempotency-Key: \"m%d\"\t", number);
    if (!CHECK_NUMBER(1, site_count(&site, key))) printf("%s %s %s\n", scheme, kind, id);
    CHECK_NUMBER(1, attempt_of(&site, id).count);
  }
  CHECK_NUMBER(0, site_count(&site, "\trequest=2\t"));
  site_end(&site);
}

TEST(B2_http_an_answer_without_a_request_is_not_the_answer_to_the_next_message) {
  static const char *const kinds[] = { "200", "400", "408", "503", "half", "joined" };
  for (size_t index = 0; index < sizeof kinds / sizeof kinds[0]; index++) {
    check_extra("http", kinds[index], 1);
    /* See http.h for the last one. */
    if (strcmp(kinds[index], "joined") != 0) check_extra("https", kinds[index], 1);
  }
}

TEST(B2_http_answers_without_a_request_on_many_connections_are_not_used) {
  check_extra("http", "200", 8);
  check_extra("http", "408", 8);
}

TEST(B2_http_connections_with_TLS_are_kept_alive) {
  struct site site;
  site_begin(&site);
  site.http.ca_file = getenv("HTTP_CERTIFICATE");
  site_use_port(&site, "https", site.server.secure, "/status/200");
  for (int number = 0; number < 20; number++) site_put(&site, NULL, "x", 1, NULL, 0);
  CHECK_NUMBER(20, drain(&site.scene).sent);
  CHECK_NUMBER(1, site_count(&site, "request=20\t"));
  site_end(&site);
}

/* libcurl would send the second request again on a new connection. */
static void check_not_repeated(const char *body) {
  struct site site;
  site_begin(&site);
  site_use(&site, "/reused");
  put(&site.scene, "first", "ana", "x");
  put(&site.scene, "second", "ana", body);
  msgq_report report = drain(&site.scene);
  CHECK_NUMBER(1, report.sent);
  CHECK_NUMBER(1, report.failed);
  struct attempt found = attempt_of(&site, "second");
  CHECK_NUMBER(MSGQ_FAILURE_NETWORK, found.kind);
  CHECK_NUMBER(MSGQ_ARRIVAL_PERHAPS, found.arrival);
  CHECK_NUMBER(1, site_count(&site, "\"second\""));
  site_end(&site);
}

TEST(B2_http_a_request_that_may_have_arrived_is_not_repeated_by_libcurl) {
  check_not_repeated("hello");
  check_not_repeated("");
}

TEST(B2_http_connections_are_limited) {
  struct site site;
  site_begin_wide(&site, 32);
  site.http.max_connections = 3;
  site_use(&site, "/slow/10");
  put_many(&site, 0, 64);
  CHECK_NUMBER(64, drain(&site.scene).sent);
  CHECK_NUMBER(64, site_count(&site, "connection=1\t") + site_count(&site, "connection=2\t") + site_count(&site, "connection=3\t"));
  site.http.max_connections = 0;
  site_use(&site, "/slow/200");
  put_many(&site, 100, 32);
  CHECK_NUMBER(32, drain(&site.scene).sent);
  /* More than three were used at the same time; how many more depends on how quickly the machine begins the requests. */
  CHECK(site_count(&site, "connection=8\t") > 0);
  site_end(&site);
}

TEST(B2_http_works_with_a_polled_queue_and_a_single_thread) {
  struct site site;
  site_prepare(&site);
  site.scene.options.callbacks = MSGQ_CALLBACKS_POLL;
  site_open(&site);
  site_use(&site, "/status/200");
  put_many(&site, 0, 10);
  CHECK_NUMBER(10, drain(&site.scene).sent);
  site_end(&site);
  CHECK_NUMBER(1, atomic_load(&site.released));
}

/* ---------------------------------------------------------------- bearer tokens */

struct tokens {
  struct site *site;
  const char *const *answers; /* NULL: there is none; the last one again and again */
  int count, calls;
  char refused[64];
  uint32_t in_flight; /* the first call waits until so many attempts are in flight */
};

static bool give(void *context, const char *refused, char *token, size_t size) {
  struct tokens *tokens = context;
  int call = tokens->calls++;
  for (int64_t end = steady_ms() + check_timeout_ms(); call == 0 && tokens->in_flight > 0 && steady_ms() < end; pause_ms(1)) {
    if (state_of(&tokens->site->scene).in_flight >= tokens->in_flight) break;
  }
  const char *answer = tokens->answers[call < tokens->count ? call : tokens->count - 1];
  snprintf(tokens->refused, sizeof tokens->refused, "%s", refused != NULL ? refused : "none");
  if (answer == NULL) return false;
  snprintf(token, size, "%s", answer);
  return true;
}

static void use_tokens(struct site *site, struct tokens *tokens, const char *const *answers, int count, const char *path) {
  memset(tokens, 0, sizeof *tokens);
  tokens->site = site;
  tokens->answers = answers;
  tokens->count = count;
  site->http.token = give;
  site->http.context = tokens;
  site->http.release = NULL;
  site_use(site, path);
}

TEST(B2_http_a_token_is_used_until_it_is_refused) {
  static const char *const answers[] = { "old", "new" };
  struct tokens tokens;
  struct site site;
  site_begin(&site);
  use_tokens(&site, &tokens, answers, 2, "/token/old");
  put_many(&site, 0, 3);
  CHECK_NUMBER(3, drain(&site.scene).sent);
  CHECK_NUMBER(1, tokens.calls);
  CHECK_TEXT("none", tokens.refused);
  use_tokens(&site, &tokens, answers, 2, "/token/new");
  put_many(&site, 3, 3);
  CHECK_NUMBER(3, drain(&site.scene).sent);
  CHECK_NUMBER(2, tokens.calls);
  CHECK_TEXT("old", tokens.refused);
  CHECK_NUMBER(1, attempt_of(&site, "m3").count);
  /* One request was refused. */
  CHECK_NUMBER(7, site_count(&site, "\tPOST "));
  CHECK_NUMBER(4, site_count(&site, "Bearer old\t"));
  site_end(&site);
}

TEST(B2_http_a_token_that_expires_with_many_requests_in_flight_is_renewed_once) {
  static const char *const answers[] = { "old", "new" };
  struct tokens tokens;
  struct site site;
  site_begin_wide(&site, 32);
  use_tokens(&site, &tokens, answers, 2, "/token/new");
  put_many(&site, 0, 200);
  CHECK_NUMBER(200, drain(&site.scene).sent);
  CHECK_NUMBER(2, tokens.calls);
  site_end(&site);
}

/* A server that refused the credentials is not asked again within a second. */
static void wait_a_second(void) { pause_ms(1100); }

TEST(B2_http_refused_tokens_hold_the_queue_and_use_up_no_retry) {
  static const char *const bad[] = { "old", "worse", "good" }, *const same[] = { "old", "old", "good" },
                          *const none[] = { NULL, "good" }, *const gone[] = { "old", NULL, "good" }, *const broken[] = { "a\nb", "good" },
                          *const empty[] = { "", "good" };
  static const struct {
    const char *const *answers;
    int count, requests;
    const char *text;
  } cases[] = { { bad, 3, 2, "answered 401" }, { same, 3, 1, "no bearer token in place" }, { none, 2, 0, "no bearer token" },
                { gone, 3, 1, "no bearer token in place" }, { broken, 2, 0, "no bearer token" }, { empty, 2, 0, "no bearer token" } };
  struct tokens tokens;
  struct site site;
  site_begin_wide(&site, 8);
  for (int index = 0; index < (int)(sizeof cases / sizeof cases[0]); index++) {
    char id[32], path[64];
    snprintf(id, sizeof id, "m%d", index);
    snprintf(path, sizeof path, "/token/good?%d", index);
    int before = site_count(&site, "\tPOST ");
    use_tokens(&site, &tokens, cases[index].answers, cases[index].count, "/token/good");
    put_many(&site, index, 1);
    CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&site.scene).stop);
    CHECK(!state_of(&site.scene).paused);
    CHECK(strstr(state_of(&site.scene).offline_reason, cases[index].text) != NULL);
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&site.scene, id));
    CHECK_NUMBER(0, attempts_of(&site.scene, id));
    CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&site.scene).stop);
    CHECK_NUMBER(cases[index].requests, site_count(&site, "\tPOST ") - before);
    CHECK_NUMBER(cases[index].count - 1, tokens.calls);
    wait_a_second();
    CHECK_NUMBER(1, drain(&site.scene).sent);
    CHECK_NUMBER(cases[index].count, tokens.calls);
  }
  site_end(&site);
}

TEST(B2_http_the_attempt_of_a_person_says_that_the_token_was_refused) {
  static const char *const answers[] = { "old", "worse" };
  struct tokens tokens;
  struct site site;
  site_begin(&site);
  use_tokens(&site, &tokens, answers, 2, "/token/good");
  put(&site.scene, "m", "ana", "x");
  CHECK_RESULT(MSGQ_OK, msgq_send_now(site.scene.queue, "m"));
  AWAIT(attempt_of(&site, "m").outcome == MSGQ_ATTEMPT_RETRY);
  struct attempt found = attempt_of(&site, "m");
  char text[64];
  snprintf(text, sizeof text, "127.0.0.1:%d answered 401", site.server.plain);
  CHECK_NUMBER(MSGQ_FAILURE_OFFLINE, found.kind);
  CHECK_TEXT(text, found.text);
  site_end(&site);
}

TEST(B2_http_many_refused_requests_ask_for_one_token) {
  static const char *const answers[] = { "old", "worse", "good" };
  struct tokens tokens;
  struct site site;
  site_begin_wide(&site, 32);
  use_tokens(&site, &tokens, answers, 3, "/token/good");
  tokens.in_flight = 32;
  put_many(&site, 0, 32);
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_drain(site.scene.queue, &options, NULL));
  AWAIT(state_of(&site.scene).in_flight == 0);
  CHECK_NUMBER(2, tokens.calls);
  CHECK_NUMBER(32, counts_of(&site.scene, NULL).queued);
  wait_a_second();
  CHECK_NUMBER(32, drain(&site.scene).sent);
  CHECK_NUMBER(3, tokens.calls);
  site_end(&site);
}

/* Wrong credentials are in no message: few requests are made, and the queue goes on by itself. */
TEST(B2_http_401_without_a_token_holds_the_queue) {
  struct site site;
  site_prepare(&site);
  site.scene.options.mode = MSGQ_MODE_AUTO;
  site.scene.options.max_in_flight = 8;
  site_open(&site);
  site_use(&site, "/status/401");
  int64_t begin = steady_ms();
  put_many(&site, 0, 200);
  AWAIT(state_of(&site.scene).offline_reason[0] != '\0');
  int64_t seconds = 1 + (steady_ms() - begin) / 1000;
  CHECK(site_count(&site, "\tPOST ") <= 8 + (int)seconds);
  CHECK_NUMBER(0, counts_of(&site.scene, NULL).failed);
  site_end(&site);

  site_prepare(&site);
  site.scene.options.mode = MSGQ_MODE_AUTO;
  site_open(&site);
  site_use(&site, "/sequence/a/401,200");
  put_many(&site, 0, 200);
  AWAIT(counts_of(&site.scene, NULL).sent == 200);
  for (int index = 0; index < 200; index++) {
    char id[32];
    snprintf(id, sizeof id, "m%d", index);
    CHECK_NUMBER(1, attempts_of(&site.scene, id));
  }
  site_end(&site);
}

TEST(M7_B2_http_refused_credentials_pause_the_queue_as_the_engine_decides) {
  static const char *const answers[] = { "old", "worse", "good" };
  struct tokens tokens;
  struct site site;
  site_prepare(&site);
  site.scene.options.pause_on_unauthorized = true;
  site_open(&site);
  site.http.unauthorized_is_final = true;
  use_tokens(&site, &tokens, answers, 3, "/token/good");
  put_many(&site, 0, 5);
  drain(&site.scene);
  CHECK(state_of(&site.scene).paused);
  CHECK_NUMBER(MSGQ_FAILURE_UNAUTHORIZED, attempt_of(&site, "m0").kind);
  CHECK_NUMBER(5, counts_of(&site.scene, NULL).queued);
  CHECK_NUMBER(2, site_count(&site, "\tPOST "));
  CHECK_RESULT(MSGQ_OK, msgq_resume(site.scene.queue, NULL));
  CHECK_NUMBER(5, drain(&site.scene).sent);
  static const char *const none[] = { NULL };
  use_tokens(&site, &tokens, none, 1, "/token/good");
  put_many(&site, 5, 1);
  drain(&site.scene);
  CHECK(state_of(&site.scene).paused);
  CHECK_NUMBER(MSGQ_FAILURE_UNAUTHORIZED, attempt_of(&site, "m5").kind);
  site_end(&site);
}

/* Replaces the transport inside the callback for the token: its release function runs on its own thread. */
static bool replace(void *context, const char *refused, char *token, size_t size) {
  struct tokens *tokens = context;
  (void)refused;
  tokens->calls++;
  snprintf(token, size, "any");
  msgq_http_options options = MSGQ_HTTP_OPTIONS_INIT;
  options.url = tokens->site->url;
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(tokens->site->scene.queue, &options));
  return true;
}

TEST(B2_http_the_transport_can_be_replaced_on_its_own_thread) {
  struct tokens tokens = { 0 };
  struct site site;
  site_begin(&site);
  tokens.site = &site;
  site.http.token = replace;
  site.http.context = &tokens;
  site.http.release = NULL;
  site_use(&site, "/status/200");
  put_many(&site, 0, 5);
  CHECK_NUMBER(5, drain(&site.scene).sent);
  CHECK_NUMBER(1, tokens.calls);
  CHECK_NUMBER(1, site_count(&site, "Bearer any"));
  site_end(&site);
}

/* ---------------------------------------------------------------- the end */

TEST(B2_http_close_aborts_requests_in_flight_after_its_time_out) {
  struct site site;
  site_begin_wide(&site, 16);
  start_many(&site, "/hang", 0, 40);
  int64_t start = steady_ms();
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(site.scene.queue, 100));
  CHECK(steady_ms() - start < check_timeout_ms() / 2);
  /* The thread has ended and released its context. */
  CHECK_NUMBER(1, atomic_load(&site.released));
  site_reopen(&site);
  CHECK_NUMBER(40, counts_of(&site.scene, NULL).queued);
  CHECK_NUMBER(MSGQ_ATTEMPT_UNKNOWN, attempt_of(&site, "m0").outcome);
  site_use(&site, "/status/200");
  CHECK_NUMBER(40, drain(&site.scene).sent);
  CHECK_NUMBER(56, site_count(&site, "\tPOST "));
  site_end(&site);
}

TEST(B2_http_close_waits_for_requests_in_flight) {
  struct site site;
  site_begin_wide(&site, 16);
  start_many(&site, "/slow/300", 0, 16);
  scene_close(&site.scene);
  CHECK_NUMBER(1, atomic_load(&site.released));
  site_reopen(&site);
  CHECK_NUMBER(16, counts_of(&site.scene, NULL).sent);
  site_end(&site);
}

static void on_closed(void *context, msgq_result result) {
  CHECK(result == MSGQ_OK || result == MSGQ_TIMEOUT);
  atomic_fetch_add((atomic_int *)context, 1);
}

TEST(B2_http_an_asynchronous_close_ends_the_transport) {
  for (int turn = 0; turn < 2; turn++) {
    struct site site;
    atomic_int closed = 0;
    site_begin_wide(&site, 8);
    start_many(&site, turn == 0 ? "/hang" : "/slow/100", 0, 8);
    CHECK_RESULT(MSGQ_OK, msgq_close_async(site.scene.queue, turn == 0 ? 100 : 10000, on_closed, &closed));
    AWAIT(atomic_load(&closed) == 1);
    CHECK_NUMBER(1, atomic_load(&site.released));
    site.scene.queue = NULL;
    site_end(&site);
  }
}

TEST(B2_http_a_replaced_transport_completes_its_requests) {
  struct site site;
  site_begin_wide(&site, 8);
  start_many(&site, "/slow/300", 0, 20);
  site_use(&site, "/status/200");
  CHECK_NUMBER(0, atomic_load(&site.released));
  drain(&site.scene);
  AWAIT(counts_of(&site.scene, NULL).sent == 20);
  AWAIT(atomic_load(&site.released) == 1);
  CHECK_NUMBER(8, site_count(&site, "\tPOST /slow"));
  CHECK_NUMBER(12, site_count(&site, "\tPOST /status"));
  /* Replaced with requests that never end; the close ends both. */
  start_many(&site, "/hang", 100, 4);
  CHECK_RESULT(MSGQ_OK, msgq_set_transport(site.scene.queue, NULL, NULL, NULL));
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(site.scene.queue, 50));
  site.scene.queue = NULL;
  AWAIT(atomic_load(&site.released) == 3);
  site_end(&site);
}

TEST_ALONE(B2_http_leaves_no_thread_and_no_descriptor) {
  struct site site;
  site_prepare(&site);
  site_open(&site);
  site_use(&site, "/status/200");
  put_many(&site, 0, 1);
  drain(&site.scene);
  scene_close(&site.scene);
  size_t threads = process_threads(), descriptors = process_descriptors();
  for (int turn = 1; turn <= 20; turn++) {
    site_reopen(&site);
    site_use(&site, "/status/200");
    put_many(&site, turn, 1);
    CHECK_NUMBER(1, drain(&site.scene).sent);
    if (turn % 2 == 0) CHECK_RESULT(MSGQ_OK, msgq_set_transport(site.scene.queue, NULL, NULL, NULL));
    scene_close(&site.scene);
    /* A transport that was removed may end a little later. */
    AWAIT(atomic_load(&site.released) == turn + 1);
  }
  AWAIT(process_threads() <= threads);
  CHECK_NUMBER(descriptors, process_descriptors());
  site_end(&site);
}

TEST_ALONE(B2_http_a_forked_child_does_not_disturb_its_parent) {
  struct site site;
  site_begin_wide(&site, 8);
  start_many(&site, "/slow/300", 0, 8);
  pid_t child = child_fork();
  if (child == 0) {
    CHECK_RESULT(MSGQ_FORKED, msgq_http_set_transport(site.scene.queue, &site.http));
    CHECK_RESULT(MSGQ_FORKED, msgq_set_transport(site.scene.queue, NULL, NULL, NULL));
    CHECK_RESULT(MSGQ_FORKED, msgq_close(site.scene.queue, 0));
    /* The sockets of requests are closed on exec. */
    int sockets = 0;
    for (int number = 3; number < 256; number++) {
      struct sockaddr_in peer;
      socklen_t room = sizeof peer;
      if (getpeername(number, (struct sockaddr *)&peer, &room) != 0 || peer.sin_family != AF_INET) continue;
      sockets++;
      CHECK(fcntl(number, F_GETFD) & FD_CLOEXEC);
    }
    CHECK_NUMBER(8, sockets);
    child_end();
  }
  child_await(child);
  AWAIT(counts_of(&site.scene, NULL).sent == 8);
  CHECK_NUMBER(0, atomic_load(&site.released));
  site_end(&site);
  CHECK_NUMBER(1, atomic_load(&site.released));
}

/* ---------------------------------------------------------------- wrong options */

TEST(B2_http_wrong_urls_are_refused) {
  static const char *const urls[] = {
    NULL, "", "http://", "https://", "http:///path", "127.0.0.1", "//127.0.0.1/", "file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/",
    "httpx://127.0.0.1/", "HTTP//127.0.0.1", "http://127.0.0.1/\r\nX-Evil: 1", "http://127.0.0.1/\n", "http://127.0.0.1/a b", "http://127.0.0.1/\x7f",
    "http://127.0.0.1/\xc3\xb3", "http://user@127.0.0.1/", "http://user:word@127.0.0.1/", "http://@127.0.0.1/", "http://127.0.0.1/#part",
    "http://127.0.0.1#", "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "http://[::1/", " http://127.0.0.1/", "http://a\tb/",
    "http://u:x7q/9zk@127.0.0.1/", "http://u:x7q?9zk@127.0.0.1/", "ftp://u:x7q9zk@127.0.0.1/", "http://u:x7q#9zk@127.0.0.1/",
  };
  struct site site;
  site_begin(&site);
  int count = sizeof urls / sizeof urls[0];
  for (int index = 0; index < count; index++) {
    site.http.url = urls[index];
    if (!CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(site.scene.queue, &site.http))) printf("%s\n", urls[index]);
    CHECK(strncmp(msgq_http_error_detail(), "url ", 4) == 0);
    CHECK(strstr(msgq_http_error_detail(), "x7q") == NULL && strstr(msgq_http_error_detail(), "9zk") == NULL);
    CHECK_NUMBER(index + 1, atomic_load(&site.released));
  }
  CHECK(!state_of(&site.scene).has_transport);
  static const char *const good[] = { "http://127.0.0.1", "HTTPS://127.0.0.1:1/a@b?c@d", "http://[::1]:80/", "http://name?query" };
  for (size_t index = 0; index < sizeof good / sizeof good[0]; index++) {
    site.http.url = good[index];
    CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(site.scene.queue, &site.http));
  }
  site_end(&site);
}

TEST(B2_http_wrong_headers_are_refused) {
  static const msgq_pair wrong[] = {
    { NULL, "x" }, { "X", NULL }, { "", "x" }, { "X Y", "x" }, { "X:", "x" }, { "X\r\nY", "x" }, { "\xc3\xb3", "x" }, { "X", "a\r\nY: b" },
    { "X", "a\n" }, { "X", "\r" }, { "X", "\x01" }, { "X", "\x7f" }, { "X", "\xff" }, { "X", "a\xc3" }, { "host", "a" }, { "CONTENT-LENGTH", "1" }, { "Content-Type", "a/b" },
    { "Connection", "close" }, { "Idempotency-Key", "a" }, { "transfer-encoding", "chunked" }, { "Expect", "100-continue" },
    { "traceparent", "a" }, { "tracestate", "a=1" },
  };
  struct site site;
  site_begin(&site);
  site.http.url = "http://127.0.0.1/";
  site.http.header_count = 1;
  for (size_t index = 0; index < sizeof wrong / sizeof wrong[0]; index++) {
    site.http.headers = &wrong[index];
    if (!CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(site.scene.queue, &site.http))) printf("%s\n", wrong[index].key);
  }
  const msgq_pair authorization = { "AUTHORIZATION", "x" };
  site.http.headers = &authorization;
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(site.scene.queue, &site.http));
  site.http.token = give;
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(site.scene.queue, &site.http));
  site.http.token = NULL;
  site.http.headers = NULL;
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(site.scene.queue, &site.http));
  site.http.header_count = 65;
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(site.scene.queue, &site.http));
  site.http.header_count = 0;
  static const char *const types[] = { "", "a\r\nb", "a\n", "a/\xff", "a/\xed\xa0\x80" };
  for (size_t index = 0; index < sizeof types / sizeof types[0]; index++) {
    site.http.content_type = types[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(site.scene.queue, &site.http));
  }
  site_end(&site);
}

TEST(B2_http_other_wrong_options_are_refused) {
  struct site site;
  site_begin(&site);
  msgq_queue *queue = site.scene.queue;
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, NULL));
  CHECK_TEXT("options is NULL", msgq_http_error_detail());
  site.http.url = "http://127.0.0.1/";
  /* Also one in the middle of a field, and the end of a field that is not the last one of the first version. */
  static const uint32_t sizes[] = { 0, 1, 8, 15, 16, 20, 28, 60, 72, sizeof site.http - 1, 65537, UINT32_MAX };
  for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
    site.http.struct_size = sizes[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
  }
  CHECK_NUMBER(0, atomic_load(&site.released));
  /* A newer program knows more fields, which must be zero. */
  site.http.struct_size = sizeof site.http;
  struct {
    msgq_http_options known;
    uint64_t later;
  } newer = { site.http, 0 };
  newer.known.struct_size = sizeof newer;
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(queue, &newer.known));
  newer.later = 1;
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &newer.known));
  AWAIT(atomic_load(&site.released) == 1);
  static const int64_t times[] = { -1, INT64_MIN, 86400001, INT64_MAX };
  for (size_t index = 0; index < sizeof times / sizeof times[0]; index++) {
    site.http.timeout_ms = times[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
  }
  site.http.timeout_ms = 86400000;
  site.http.max_connections = 1001;
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
  site.http.max_connections = 1000;
  site.http.ca_file = "/nowhere/at/all.pem";
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
  static const char *const files[] = { "/", "/dev/null", "/etc/passwd", "\xff" };
  for (size_t index = 0; index < sizeof files / sizeof files[0]; index++) {
    site.http.ca_file = files[index];
    if (!CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http))) printf("%s\n", files[index]);
    CHECK(strncmp(msgq_http_error_detail(), "ca_file ", 8) == 0);
  }
  /* The mark of a certificate lies over the end of what is read at once. */
  const char *junk = scene_file(&site.scene, "certificates");
  for (int before = 16380; before < 16400; before += 3) {
    FILE *file = fopen(junk, "w");
    REQUIRE(file != NULL);
    fprintf(file, "%*s-----BEGIN CERTIFICATE-----\n", before, "");
    fclose(file);
    site.http.ca_file = junk;
    CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(queue, &site.http));
  }
  site.http.ca_file = NULL;
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(NULL, &site.http));
  CHECK(msgq_http_error_detail()[0] != '\0');
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(queue, &site.http));
  /* A closed queue, and one that only reads. */
  scene_close(&site.scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_http_set_transport(queue, &site.http));
  site.scene.options.read_only = true;
  journal_end(&site.scene.journal);
  journal_begin(&site.scene.journal);
  scene_open(&site.scene);
  int released = atomic_load(&site.released);
  CHECK_RESULT(MSGQ_PERMISSION, msgq_http_set_transport(site.scene.queue, &site.http));
  CHECK_NUMBER(released + 1, atomic_load(&site.released));
  site_end(&site);
}
