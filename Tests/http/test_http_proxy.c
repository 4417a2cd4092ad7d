/* bindings/c/http.c: proxies, and certificates of the client. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "site.h"

/* Sets a transport to a path of the server through its proxy. `user`: as "name:password@", or "". */
static void use_proxy(struct site *site, const char *user, const char *scheme, const char *path) {
  static char proxy[512];
  bool is_secure = strcmp(scheme, "https") == 0;
  snprintf(proxy, sizeof proxy, "http://%s127.0.0.1:%d", user, site->server.proxy);
  site->http.proxy = proxy;
  if (is_secure) site->http.ca_file = getenv("HTTP_CERTIFICATE");
  site_use_port(site, scheme, is_secure ? site->server.secure : site->server.plain, path);
}

TEST(B2_http_a_proxy_forwards_requests_or_passes_connections_on) {
  static const char *const schemes[] = { "http", "https" };
  /* It would say that this address needs no proxy. */
  setenv("no_proxy", "127.0.0.1", 1);
  setenv("NO_PROXY", "*", 1);
  for (size_t index = 0; index < 2; index++) {
    struct site site;
    char line[128];
    site_begin(&site);
    const msgq_pair header = { "Authorization", "Bearer secret" };
    site.http.headers = &header;
    site.http.header_count = 1;
    use_proxy(&site, "ana:p%40ss%2F%C3%BC@", schemes[index], "/status/200?a={b}&c=/../");
    for (int number = 0; number < 3; number++) site_put(&site, NULL, "x", 1, NULL, 0);
    CHECK_NUMBER(3, drain(&site.scene).sent);
    CHECK_NUMBER(3, site_count(&site, "\tPOST /status/200?a={b}&c=/../ HTTP/1.1\t"));
    /* The server does not learn the password. */
    CHECK_NUMBER(index == 0 ? 3 : 1, site_count(&site, "Proxy-Authorization: Basic YW5hOnBAc3Mvw7w="));
    if (index == 0) {
      snprintf(line, sizeof line, "\tPOST http://127.0.0.1:%d/status/200?a={b}&c=/../ HTTP/1.1\t", site.server.plain);
      CHECK_NUMBER(3, site_count(&site, line));
    } else {
      /* The tunnel is kept; the proxy reads nothing of the messages. */
      snprintf(line, sizeof line, "\tCONNECT 127.0.0.1:%d HTTP/1.1\t", site.server.secure);
      CHECK_NUMBER(1, site_count(&site, line));
      CHECK_NUMBER(1, site_count(&site, "request=3\t"));
      CHECK_NUMBER(3, site_count(&site, "Bearer secret"));
      CHECK_NUMBER(3, site_count(&site, "Idempotency-Key"));
    }
    site_end(&site);
  }
  unsetenv("no_proxy");
  unsetenv("NO_PROXY");
}

TEST(B2_http_the_answer_of_a_proxy_is_not_that_of_the_server) {
  static const struct {
    const char *user, *scheme;
    int status;
  } cases[] = {
    { "ana:wrong@", "http", 407 },       { "ana:wrong@", "https", 407 },      { "status-403@", "https", 403 }, { "status-404@", "https", 404 },
    { "status-502:x@", "https", 502 },   { "status-503:x@", "https", 503 },   { "status-301:x@", "https", 301 },
    { "status-100:x@", "https", 100 },
  };
  struct site site;
  site_begin(&site);
  put(&site.scene, "id", "ana", "x");
  for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
    char text[128];
    snprintf(text, sizeof text, "the proxy 127.0.0.1:%d answered %d", site.server.proxy, cases[index].status);
    use_proxy(&site, cases[index].user, cases[index].scheme, "/status/200");
    /* It holds the queue; no message fails. */
    CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&site.scene).stop);
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&site.scene, "id"));
    CHECK_NUMBER(0, attempts_of(&site.scene, "id"));
    CHECK_TEXT(text, state_of(&site.scene).offline_reason);
    CHECK_NUMBER(1, site_count(&site, "proxy\t") - (int)index);
  }
  CHECK_NUMBER(0, site_count(&site, "\trequest="));
  use_proxy(&site, "", "https", "/status/407");
  struct attempt found = site_try(&site, NULL, NULL);
  CHECK_NUMBER(MSGQ_ATTEMPT_REJECTED, found.outcome);
  CHECK_NUMBER(407, found.code);
  site_end(&site);
}

TEST(B2_http_a_proxy_that_breaks_or_is_silent_gets_no_message) {
  static const char *const users[] = { "raw-@", "raw-485454502f312e31203230@", "raw-6e6f6e73656e73650d0a0d0a@" };
  struct site site;
  site_begin(&site);
  for (size_t index = 0; index < sizeof users / sizeof users[0]; index++) {
    use_proxy(&site, users[index], "https", "/status/200");
    struct attempt found = site_try(&site, NULL, NULL);
    if (!CHECK(found.outcome == MSGQ_ATTEMPT_RETRY && found.arrival == MSGQ_ARRIVAL_NO)) printf("%s: %s\n", users[index], found.text);
  }
  site.http.timeout_ms = 300;
  use_proxy(&site, "hang@", "https", "/status/200");
  struct attempt found = site_try(&site, NULL, NULL);
  CHECK_NUMBER(MSGQ_FAILURE_TIMEOUT, found.kind);
  CHECK_NUMBER(MSGQ_ARRIVAL_NO, found.arrival);
  /* Of a request that the proxy has, nobody knows. */
  use_proxy(&site, "hang@", "http", "/status/200");
  CHECK_NUMBER(MSGQ_ARRIVAL_PERHAPS, site_try(&site, NULL, NULL).arrival);
  site.http.timeout_ms = 0;
  put(&site.scene, "id", "ana", "x");
  static const char *const nobody[] = { "http://nobody.invalid:3128", NULL };
  char refusing[64];
  snprintf(refusing, sizeof refusing, "http://127.0.0.1:%d", site.server.refusing);
  for (size_t index = 0; index < 2; index++) {
    site.http.proxy = nobody[index] != NULL ? nobody[index] : refusing;
    site_use(&site, "/status/200");
    CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&site.scene).stop);
  }
  CHECK_NUMBER(0, site_count(&site, "\tconnection=1\trequest="));
  site_end(&site);
}

TEST(B2_http_the_certificate_of_a_server_behind_a_proxy_is_verified) {
  struct site site;
  site_begin(&site);
  use_proxy(&site, "", "https", "/status/200");
  site.http.ca_file = NULL;
  site_use_port(&site, "https", site.server.secure, "/status/200");
  struct attempt found = site_try(&site, NULL, NULL);
  CHECK_NUMBER(MSGQ_FAILURE_NETWORK, found.kind);
  CHECK_NUMBER(MSGQ_ARRIVAL_NO, found.arrival);
  CHECK(strstr(found.text, "ertificate") != NULL);
  CHECK_NUMBER(0, site_count(&site, "Idempotency-Key"));
  site_end(&site);
}

TEST(B2_http_a_client_has_a_certificate) {
  struct site site;
  site_begin(&site);
  site.http.ca_file = getenv("HTTP_CERTIFICATE");
  site_use_port(&site, "https", site.server.mutual, "/status/200");
  CHECK_NUMBER(MSGQ_ATTEMPT_RETRY, site_try(&site, NULL, NULL).outcome);
  site.http.certificate_file = getenv("HTTP_CLIENT");
  site.http.key_file = getenv("HTTP_CLIENT_OPEN_KEY");
  site_use_port(&site, "https", site.server.mutual, "/status/200");
  CHECK_NUMBER(200, site_try(&site, NULL, NULL).code);
  site.http.key_file = getenv("HTTP_CLIENT_KEY");
  site.http.key_password = "pass word";
  site_use_port(&site, "https", site.server.mutual, "/status/200");
  CHECK_NUMBER(200, site_try(&site, NULL, NULL).code);
  use_proxy(&site, "", "https", "/status/200");
  site_use_port(&site, "https", site.server.mutual, "/status/200");
  CHECK_NUMBER(200, site_try(&site, NULL, NULL).code);
  site.http.proxy = NULL;
  /* A wrong password or none, and the key of another certificate, are no fault of a message. Nobody is asked for a password. */
  put(&site.scene, "id", "ana", "x");
  int input = dup(STDIN_FILENO), ends[2];
  CHECK(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO && write(ends[1], "pass word\n", 10) == 10);
  for (int turn = 0; turn < 3; turn++) {
    site.http.key_password = turn == 0 ? "wrong" : NULL;
    site.http.key_file = turn < 2 ? getenv("HTTP_CLIENT_KEY") : getenv("HTTP_KEY");
    site_use_port(&site, "https", site.server.mutual, "/status/200");
    CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&site.scene).stop);
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&site.scene, "id"));
  }
  CHECK(input < 0 || dup2(input, STDIN_FILENO) == STDIN_FILENO);
  close(input);
  close(ends[0]);
  close(ends[1]);
  CHECK_NUMBER(3, site_count(&site, "\tPOST "));
  site_end(&site);
}

TEST(B2_http_wrong_proxies_and_certificates_are_refused) {
  static const char *const proxies[] = {
    "", "127.0.0.1:1", "https://u:hidden@127.0.0.1:1", "socks5://127.0.0.1:1", "http://u:hidden@proxy", "http://u:hidden@proxy:0",
    "http://u:hidden@proxy:99999", "http://u:hidden@proxy:1/path", "http://u:hidden@proxy:1?a", "http://u:hidden@proxy:1#a",
    "http://a%3Ab:hidden@proxy:1", "http://u:hidden @proxy:1", "http://u:hidden\xc3\xb3@proxy:1", "http://[::1:hidden", "http://:1",
  };
  struct site site;
  site_begin(&site);
  msgq_queue *queue = site.scene.queue;
  site.http.url = "https://127.0.0.1/";
  for (size_t index = 0; index < sizeof proxies / sizeof proxies[0]; index++) {
    site.http.proxy = proxies[index];
    if (!CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http))) printf("%s\n", proxies[index]);
    if (!CHECK(strstr(msgq_http_error_detail(), "proxy") != NULL)) printf("%s\n", msgq_http_error_detail());
    CHECK(strstr(msgq_http_error_detail(), "hidden") == NULL);
  }
  static const char *const good[] = { "http://proxy:3128", "HTTP://u:p@[::1]:1/", "http://u@proxy:1" };
  for (size_t index = 0; index < sizeof good / sizeof good[0]; index++) {
    site.http.proxy = good[index];
    if (!CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(queue, &site.http))) printf("%s: %s\n", good[index], msgq_http_error_detail());
  }
  site.http.proxy = NULL;
  static const char *const files[] = { "/nowhere/at/all.pem", "/", "/dev/null", "/etc/passwd", "\xff" };
  for (size_t index = 0; index < sizeof files / sizeof files[0]; index++) {
    site.http.certificate_file = files[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
    CHECK(strncmp(msgq_http_error_detail(), "certificate_file ", 17) == 0);
    site.http.certificate_file = getenv("HTTP_CLIENT");
    site.http.key_file = files[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
    CHECK(strncmp(msgq_http_error_detail(), "key_file ", 9) == 0);
    site.http.key_file = NULL;
  }
  /* The file of the certificate has no key. */
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
  site.http.certificate_file = NULL;
  site.http.key_password = "x";
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
  site.http.key_password = NULL;
  /* A program that was compiled with the first version of the header. */
  site.http.struct_size = offsetof(msgq_http_options, proxy);
  site.http.proxy = "nonsense";
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(queue, &site.http));
  site.http.struct_size += sizeof site.http.proxy;
  CHECK_RESULT(MSGQ_INVALID, msgq_http_set_transport(queue, &site.http));
  /* The second version. */
  site.http.struct_size = offsetof(msgq_http_options, unauthorized_is_final);
  site.http.proxy = NULL;
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(queue, &site.http));
  site_end(&site);
}
