#include "site.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "files.h"

void server_begin(struct server *server, const char *log) {
  int input[2], output[2];
  char line[128] = "";
  REQUIRE(pipe(input) == 0 && pipe(output) == 0);
  server->pid = fork();
  REQUIRE(server->pid >= 0);
  if (server->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    close(input[0]), close(input[1]), close(output[0]), close(output[1]);
    /* Without a certificate: there is no port for TLS. */
    execlp("python3", "python3", HTTP_SERVER, log, getenv("HTTP_CERTIFICATE"), getenv("HTTP_KEY"), getenv("HTTP_CLIENT"), (char *)NULL);
    _exit(127);
  }
  close(input[0]), close(output[1]);
  server->input = input[1];
  size_t filled = 0;
  while (filled + 1 < sizeof line && read(output[0], line + filled, 1) == 1 && line[filled] != '\n') filled++;
  close(output[0]);
  REQUIRE(sscanf(line, "%d %d %d %d %d %d %d", &server->plain, &server->closing, &server->silent, &server->refusing, &server->proxy,
                 &server->secure, &server->mutual) == 7);
}

void server_end(struct server *server) {
  CHECK(kill(server->pid, SIGKILL) == 0);
  CHECK(waitpid(server->pid, NULL, 0) == server->pid);
  close(server->input);
}

static void count_release(void *context) { atomic_fetch_add(&((struct site *)context)->released, 1); }

void site_prepare(struct site *site) {
  memset(site, 0, sizeof *site);
  scene_begin(&site->scene);
  server_begin(&site->server, scene_file(&site->scene, "requests"));
  static const msgq_http_options defaults = MSGQ_HTTP_OPTIONS_INIT;
  site->http = defaults;
  site->http.context = site;
  site->http.release = count_release;
}

void site_open(struct site *site) {
  scene_open(&site->scene);
  set_online(&site->scene);
}

void site_begin(struct site *site) {
  site_prepare(site);
  site_open(site);
}

void site_begin_wide(struct site *site, uint32_t max_in_flight) {
  site_prepare(site);
  site->scene.options.max_in_flight = max_in_flight;
  site_open(site);
}

void site_reopen(struct site *site) {
  site->scene.queue = NULL;
  journal_end(&site->scene.journal);
  journal_begin(&site->scene.journal);
  site_open(site);
}

void site_end(struct site *site) {
  scene_end(&site->scene);
  server_end(&site->server);
}

void site_use_port(struct site *site, const char *scheme, int port, const char *path) {
  snprintf(site->url, sizeof site->url, "%s://127.0.0.1:%d%s", scheme, port, path);
  site->http.url = site->url;
  CHECK_RESULT(MSGQ_OK, msgq_http_set_transport(site->scene.queue, &site->http));
}

void site_use(struct site *site, const char *path) { site_use_port(site, "http", site->server.plain, path); }

int site_count(struct site *site, const char *text) {
  int count = 0;
  struct file_copy log = file_read(scene_file(&site->scene, "requests"));
  for (char *line = log.bytes, *end; line != NULL && line < log.bytes + log.size; line = end + 1) {
    if ((end = memchr(line, '\n', (size_t)(log.bytes + log.size - line))) == NULL) break;
    *end = '\0';
    if (strstr(line, text) != NULL) count++;
  }
  file_copy_free(&log);
  return count;
}

struct attempt attempt_of(struct site *site, const char *id) {
  struct attempt found = { 0 };
  msgq_ledger *ledger = NULL;
  REQUIRE_OK(msgq_attempts(site->scene.queue, id, &ledger));
  found.count = msgq_attempts_size(ledger);
  const msgq_attempt *last = found.count > 0 ? msgq_attempts_at(ledger, found.count - 1) : NULL;
  if (last != NULL) {
    found.outcome = last->outcome;
    found.kind = last->kind;
    found.code = last->code;
    found.arrival = last->arrival;
    snprintf(found.text, sizeof found.text, "%s", last->text);
  }
  msgq_attempts_free(ledger);
  return found;
}

struct attempt site_try(struct site *site, const char *path, msgq_status *status) {
  static int number;
  char id[32];
  snprintf(id, sizeof id, "try-%d", ++number);
  if (path != NULL) site_use(site, path);
  put(&site->scene, id, "ana", "hello");
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.timeout_ms = check_timeout_ms();
  CHECK_RESULT(MSGQ_OK, msgq_drain(site->scene.queue, &options, NULL));
  struct attempt found = attempt_of(site, id);
  if (status != NULL) *status = (msgq_status)status_of(&site->scene, id);
  CHECK_RESULT(MSGQ_OK, msgq_clear(site->scene.queue, "ana"));
  return found;
}

void site_put(struct site *site, const char *id, const void *body, size_t size, const msgq_pair *metadata, size_t count) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = "ana";
  draft.body = body;
  draft.body_size = size;
  draft.metadata = metadata;
  draft.metadata_count = count;
  REQUIRE_OK(msgq_enqueue(site->scene.queue, &draft, NULL));
}
