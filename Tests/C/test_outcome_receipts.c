/* A13: a transport that reports at once that the receiver has delivered or read the message. */
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

/* Answers with the receipt that the body names: "delivered", "read", or a number; with another verdict after a "!". */
static msgq_verdict answer(const msgq_delivery *delivery, msgq_outcome *out) {
  char body[32];
  snprintf(body, sizeof body, "%.*s", (int)delivery->body_size, (const char *)delivery->body);
  bool is_sent = body[0] != '!';
  const char *name = is_sent ? body : body + 1;
  CHECK_NUMBER(0, out->receipt);
  if (strcmp(name, "delivered") == 0) out->receipt = MSGQ_STATUS_DELIVERED;
  else if (strcmp(name, "read") == 0) out->receipt = MSGQ_STATUS_READ;
  else sscanf(name, "%ld", &out->receipt);
  return is_sent ? MSGQ_VERDICT_SENT : MSGQ_VERDICT_REJECT;
}

static msgq_verdict send_one(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  return answer(delivery, out);
}

static void send_many(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  (void)context;
  for (size_t index = 0; index < count; index++) outcomes[index].verdict = answer(&deliveries[index], &outcomes[index]);
}

static void begin(struct scene *scene) {
  scene_begin_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, send_one, NULL, NULL));
}

static void check_path(struct scene *scene, const char *id, const char *expected) {
  char path[128];
  int last = status_of(scene, id);
  AWAIT(last < 0 || journal_reached(&scene->journal, id, (msgq_status)last));
  journal_path(&scene->journal, id, path, sizeof path);
  CHECK_TEXT(expected, path);
}

static void check_delivered(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, message->status);
  CHECK(message->sent_ms > 0 && message->delivered_ms == message->sent_ms && message->read_ms == 0);
  msgq_message_free(message);
}

static void check_read(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  CHECK_NUMBER(MSGQ_STATUS_READ, message->status);
  CHECK(message->sent_ms > 0 && message->delivered_ms == 0 && message->read_ms == message->sent_ms);
  msgq_message_free(message);
}

/* The ids of all messages with a status, by the index of the history. */
static void check_listed(struct scene *scene, msgq_status status, const char *expected) {
  char ids[128];
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUS_BIT(status);
  ids_of(scene, &filter, ids, sizeof ids);
  CHECK_TEXT(expected, ids);
}

TEST(A13_an_outcome_reports_delivered_or_read_at_once) {
  struct scene scene;
  begin(&scene);
  put_each(&scene, { "d", "ana", "delivered" }, { "r", "ana", "read" }, { "s", "ana", "0" });
  msgq_report report = drain(&scene);
  CHECK(report.sent == 3 && report.failed == 0 && report.remaining == 0);
  check_delivered(&scene, "d");
  check_read(&scene, "r");
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "s"));
  check_path(&scene, "d", "none>queued>sending>sent>delivered");
  check_path(&scene, "r", "none>queued>sending>sent>read");
  check_path(&scene, "s", "none>queued>sending>sent");
  msgq_counts counts = counts_of(&scene, "ana");
  CHECK(counts.sent == 1 && counts.delivered == 1 && counts.read == 1 && counts.queued == 0);
  CHECK(attempts_of(&scene, "d") == 1);
  check_listed(&scene, MSGQ_STATUS_DELIVERED, "d");
  check_listed(&scene, MSGQ_STATUS_READ, "r");
  check_listed(&scene, MSGQ_STATUS_SENT, "s");
  /* Later receipts follow the same rule as after a plain success. */
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene.queue, "d", MSGQ_STATUS_READ));
  CHECK_RESULT(MSGQ_OK, msgq_mark(scene.queue, "r", MSGQ_STATUS_DELIVERED));
  check_listed(&scene, MSGQ_STATUS_READ, "d r");
  scene_close(&scene);
  scene_open(&scene);
  check_listed(&scene, MSGQ_STATUS_READ, "d r");
  check_listed(&scene, MSGQ_STATUS_DELIVERED, "");
  CHECK_NUMBER(2, counts_of(&scene, NULL).read);
  scene_end(&scene);
}

/* The body is the status, then the name of the receipt. */
static msgq_verdict answer_by_http(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  char body[32], name[32];
  (void)context;
  snprintf(body, sizeof body, "%.*s", (int)delivery->body_size, (const char *)delivery->body);
  CHECK(sscanf(body, "%d %31s", &out->code, name) == 2);
  out->receipt = strcmp(name, "read") == 0 ? MSGQ_STATUS_READ : MSGQ_STATUS_DELIVERED;
  return MSGQ_VERDICT_HTTP;
}

TEST(A13_a_response_by_http_has_a_receipt) {
  struct scene scene;
  begin(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, answer_by_http, NULL, NULL));
  put_each(&scene, { "d", "ana", "200 delivered" }, { "r", "ana", "201 read" }, { "f", "ana", "422 read" });
  msgq_report report = drain(&scene);
  CHECK(report.sent == 2 && report.failed == 1);
  check_delivered(&scene, "d");
  check_read(&scene, "r");
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "f"));
  check_path(&scene, "r", "none>queued>sending>sent>read");
  check_path(&scene, "f", "none>queued>sending>failed");
  scene_end(&scene);
}

/* More messages than one flush of the index of the history has, with the three statuses mixed. */
TEST_LONG(A13_the_history_lists_many_receipts) {
  enum { count = 1800 };
  static const char *const bodies[] = { "0", "delivered", "read" };
  struct scene scene;
  char id[16];
  scene_begin(&scene);
  scene.options.keep_sent = UINT64_MAX;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_one, NULL, NULL));
  int total = check_times(count, count / 10);
  for (int number = 0; number < total; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&scene, id, number % 2 ? "ana" : "ben", bodies[number % 3]);
  }
  CHECK_NUMBER(total, drain(&scene).sent);
  for (int opening = 0; opening < 2; opening++) {
    msgq_filter filter = MSGQ_FILTER_INIT;
    msgq_page *page = NULL;
    filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_DELIVERED);
    filter.limit = 1000;
    REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
    REQUIRE(msgq_list_size(page) == (size_t)total / 3);
    for (size_t index = 0; index < msgq_list_size(page); index++) {
      snprintf(id, sizeof id, "m%zu", 3 * index + 1);
      CHECK_TEXT(id, msgq_list_at(page, index)->id);
    }
    msgq_list_free(page);
    CHECK_NUMBER(total / 3, counts_of(&scene, NULL).read);
    scene_close(&scene);
    scene_open(&scene);
  }
  scene_close(&scene);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
  CHECK(report.sound);
  scene_end(&scene);
}

TEST(A13_a_receipt_without_success_has_no_meaning) {
  struct scene scene;
  begin(&scene);
  put(&scene, "a", "ana", "!read");
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  check_path(&scene, "a", "none>queued>sending>failed");
  scene_end(&scene);
}

struct lines {
  atomic_int warnings;
  char text[MSGQ_LOG_SIZE];
};

static void take_line(void *context, msgq_log_level level, const char *text) {
  struct lines *lines = context;
  if (level != MSGQ_LOG_WARNING || strstr(text, "receipt") == NULL) return;
  snprintf(lines->text, sizeof lines->text, "%s", text);
  atomic_fetch_add(&lines->warnings, 1);
}

TEST(A13_an_invalid_receipt_of_a_transport_is_ignored_with_a_warning) {
  static const char *const bodies[] = { "-1", "1", "2", "5", "99", "4294967299", "-9223372036854775808" };
  static struct lines lines;
  struct scene scene;
  begin(&scene);
  REQUIRE_OK(msgq_set_log(take_line, &lines, NULL));
  const int count = sizeof bodies / sizeof bodies[0];
  for (int index = 0; index < count; index++) put(&scene, (char[]) { (char)('a' + index), 0 }, "ana", bodies[index]);
  CHECK_NUMBER(count, drain(&scene).sent);
  AWAIT(atomic_load(&lines.warnings) == count);
  REQUIRE_OK(msgq_set_log(NULL, NULL, NULL));
  CHECK(strstr(lines.text, "-9223372036854775808") != NULL);
  CHECK_NUMBER(count, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}

TEST(A13_the_receipts_of_a_batch) {
  struct scene scene;
  const msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  scene_begin_open(&scene);
  put_each(&scene, { "d", "ana", "delivered" }, { "x", "ben", "!read" }, { "r", "ana", "read" }, { "s", "cid", "0" });
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, send_many, NULL, NULL, &options));
  msgq_report report = drain(&scene);
  CHECK(report.sent == 3 && report.failed == 1);
  check_delivered(&scene, "d");
  check_read(&scene, "r");
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "s"));
  check_path(&scene, "d", "none>queued>sending>sent>delivered");
  check_path(&scene, "r", "none>queued>sending>sent>read");
  scene_end(&scene);
}

/* The outcome as a program of the last version knows it, without the receipt. */
enum { older_size = offsetof(msgq_outcome, receipt) };

static void send_older(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  (void)context;
  (void)deliveries;
  for (size_t index = 0; index < count; index++) {
    msgq_outcome *outcome = (msgq_outcome *)((char *)outcomes + index * older_size);
    CHECK_NUMBER(older_size, outcome->struct_size);
    outcome->verdict = MSGQ_VERDICT_SENT;
    memset(outcome->text, 'x', sizeof outcome->text); /* up to the end of the struct, with what was padding once */
  }
}

TEST(A13_outcomes_of_older_programs_have_no_receipt) {
  struct scene scene;
  struct stub stub;
  msgq_batch_options options = MSGQ_BATCH_OPTIONS_INIT;
  CHECK(older_size % 8 == 0);
  scene_begin_open(&scene);
  options.outcome_size = older_size;
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, send_older, NULL, NULL, &options));
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ben", "hello" });
  CHECK_NUMBER(2, drain(&scene).sent);
  CHECK_NUMBER(2, counts_of(&scene, NULL).sent);
  scene_close(&scene);
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  stub_open(&stub, &scene);
  put(&scene, "c", "ana", "hello");
  REQUIRE_OK(msgq_send_now(scene.queue, "c"));
  AWAIT(atomic_load(&stub.calls) == 1 && atomic_load(&stub.inside) == 0);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  outcome.struct_size = older_size;
  outcome.receipt = 77; /* not read */
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "c"));
  scene_end(&scene);
}

TEST(A13_completing_an_attempt_with_a_receipt) {
  static const int64_t invalid[] = { -1, MSGQ_STATUS_SENDING, MSGQ_STATUS_SENT, MSGQ_STATUS_FAILED, 6, INT64_MAX, (1LL << 32) + 3 };
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_PENDING);
  put(&scene, "a", "ana", "hello");
  REQUIRE_OK(msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.calls) == 1 && atomic_load(&stub.inside) == 0);
  uint64_t token = atomic_load(&stub.token);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  msgq_result result = MSGQ_INTERNAL;
  for (size_t index = 0; index < sizeof invalid / sizeof invalid[0]; index++) {
    outcome.receipt = invalid[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_complete(scene.queue, token, &outcome));
    CHECK(strstr(msgq_error_detail(), "receipt") != NULL);
    CHECK_RESULT(MSGQ_INVALID, msgq_complete_batch(scene.queue, &token, &outcome, 1, &result));
  }
  CHECK_NUMBER(MSGQ_STATUS_SENDING, status_of(&scene, "a"));
  outcome.receipt = MSGQ_STATUS_READ;
  CHECK_RESULT(MSGQ_OK, msgq_complete_batch(scene.queue, &token, &outcome, 1, &result));
  CHECK_RESULT(MSGQ_OK, result);
  check_read(&scene, "a");
  check_path(&scene, "a", "none>queued>sending>sent>read");
  scene_end(&scene);
}

TEST(A13_a_late_success_with_a_receipt) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_PENDING);
  scene.options.attempt_timeout_ms = 50;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  outcome.receipt = MSGQ_STATUS_DELIVERED;
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  check_delivered(&scene, "a");
  check_path(&scene, "a", "none>queued>sending>failed>sent>delivered");
  check_listed(&scene, MSGQ_STATUS_DELIVERED, "a");
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.delivered == 1 && counts.sent == 0 && counts.failed == 0);
  scene_end(&scene);
}

TEST(A13_without_a_history_the_receipt_is_an_event) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.keep_sent = 0;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_one, NULL, NULL));
  put(&scene, "a", "ana", "read");
  CHECK_NUMBER(1, drain(&scene).sent);
  AWAIT(journal_reached(&scene.journal, "a", MSGQ_STATUS_READ));
  check_path(&scene, "a", "none>queued>sending>sent>read");
  CHECK_NUMBER(-1, status_of(&scene, "a"));
  CHECK_NUMBER(0, counts_of(&scene, NULL).read);
  scene_end(&scene);
}

TEST_LONG(H1_X8_a_late_success_counts_against_keep_sent) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene.options.attempt_timeout_ms = 50;
  scene.options.keep_sent = 64; /* of fewer messages each commit removes the excess */
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  for (int count = 1; count < 64; count++) put(&scene, NULL, "ana", "hello");
  CHECK_NUMBER(64, drain(&scene).sent);
  stub.verdict = MSGQ_VERDICT_PENDING;
  put(&scene, "b", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  msgq_outcome outcome = outcome_of(MSGQ_VERDICT_SENT);
  outcome.receipt = MSGQ_STATUS_READ;
  CHECK_RESULT(MSGQ_OK, msgq_complete(scene.queue, atomic_load(&stub.token), &outcome));
  AWAIT(status_of(&scene, "a") == -1); /* within a second, not only with the next search, which is a minute away */
  CHECK_NUMBER(MSGQ_STATUS_READ, status_of(&scene, "b"));
  scene_end(&scene);
}

/* Sends two messages in a process that is killed before the n-th change of a file, or after the drain. */
static bool kill_at(const struct scene *scene, int number) {
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    msgq_queue *queue = NULL;
    if (msgq_open(scene->path, &scene->options, &queue) != MSGQ_OK) _exit(1);
    if (msgq_set_transport(queue, send_one, NULL, NULL) != MSGQ_OK) _exit(2);
    fault_change(scene->directory, number);
    if (msgq_drain(queue, NULL, NULL) != MSGQ_OK) _exit(3);
    fault_change(NULL, 0);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return WIFSIGNALED(status);
}

static int known_status(struct scene *scene, const char *id, int receipt) {
  int status = status_of(scene, id);
  CHECK(status == MSGQ_STATUS_QUEUED || status == receipt); /* never sent without the receipt */
  return status;
}

TEST_ALONE(A13_a_kill_leaves_success_and_receipt_together) {
  struct scene scene;
  unsigned queued = 0, received = 0;
  bool is_killed = true;
  for (int number = 1; is_killed && number < 60; number++) {
    scene_begin_open(&scene);
    put_each(&scene, { "d", "ana", "delivered" }, { "r", "ben", "read" });
    scene_close(&scene);
    is_killed = kill_at(&scene, number);
    scene_open(&scene);
    int first = known_status(&scene, "d", MSGQ_STATUS_DELIVERED), second = known_status(&scene, "r", MSGQ_STATUS_READ);
    queued += first == MSGQ_STATUS_QUEUED;
    received += first != MSGQ_STATUS_QUEUED;
    check_listed(&scene, MSGQ_STATUS_DELIVERED, first == MSGQ_STATUS_QUEUED ? "" : "d");
    check_listed(&scene, MSGQ_STATUS_READ, second == MSGQ_STATUS_QUEUED ? "" : "r");
    check_listed(&scene, MSGQ_STATUS_SENT, "");
    scene_end(&scene);
  }
  CHECK(!is_killed);
  CHECK(queued > 0 && received > 0);
}
