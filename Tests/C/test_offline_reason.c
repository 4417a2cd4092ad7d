/* Why there is no connection: where the reason comes from, where it is shown, and what is left out of it. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "scene.h"
#include "stub.h"

#define REFUSED "connection refused by 127.0.0.1:4222"

static void report(struct scene *scene, msgq_connectivity connectivity, const char *reason) {
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity_reason(scene->queue, connectivity, MSGQ_LINK_WIFI, false, reason));
}

static void offline_as(struct scene *scene, const char *expected, const char *reason) {
  report(scene, MSGQ_CONNECTIVITY_OFFLINE, reason);
  CHECK_TEXT(expected, state_of(scene).offline_reason);
}

/* ---------------------------------------------------------------- a transport that says why */

struct wire {
  msgq_verdict verdict;
  const char *text;
};

static msgq_verdict wire_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  const struct wire *wire = context;
  (void)delivery;
  snprintf(out->text, sizeof out->text, "%s", wire->text);
  return wire->verdict;
}

static void wire_open(struct wire *wire, struct scene *scene, msgq_mode mode) {
  scene_begin(scene);
  scene->options.mode = mode;
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, wire_send, wire, NULL));
}

/* ---------------------------------------------------------------- the host says why */

TEST(Q20_X1_the_reason_that_the_host_gives_is_in_the_state_the_explanation_and_the_event) {
  struct scene scene;
  struct stub stub;
  struct entry entry;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  CHECK_TEXT("", state_of(&scene).offline_reason);
  offline_as(&scene, REFUSED, REFUSED);
  CHECK_TEXT("You're offline: " REFUSED ". 1 message queued.", state_of(&scene).text);
  CHECK_NUMBER(MSGQ_REASON_OFFLINE, state_of(&scene).reason);
  CHECK_TEXT("You're offline: " REFUSED ". Waiting for you to send it.", explain(&scene, "a").text);
  CHECK(banner_is(&scene, "You're offline. 1 message queued."));
  AWAIT(journal_has_text(&scene.journal, MSGQ_EVENT_CONNECTIVITY, REFUSED));
  /* Another reason is another event; the same one is none. */
  offline_as(&scene, "TLS expected", "TLS expected");
  offline_as(&scene, "TLS expected", "TLS expected");
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_CONNECTIVITY) == 2);
  /* Without a reason, or online, there is none. */
  set_offline(&scene);
  CHECK_TEXT("", state_of(&scene).offline_reason);
  CHECK_TEXT("You're offline. 1 message queued.", state_of(&scene).text);
  offline_as(&scene, REFUSED, REFUSED);
  report(&scene, MSGQ_CONNECTIVITY_ONLINE, REFUSED);
  CHECK_TEXT("", state_of(&scene).offline_reason);
  AWAIT(journal_last(&scene.journal, MSGQ_EVENT_CONNECTIVITY, &entry) && entry.connectivity == MSGQ_CONNECTIVITY_ONLINE);
  CHECK_TEXT("", entry.text);
  CHECK_RESULT(MSGQ_INVALID, msgq_set_connectivity_reason(scene.queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE, false, "\xff"));
  CHECK_NUMBER(MSGQ_CONNECTIVITY_ONLINE, state_of(&scene).connectivity);
  scene_end(&scene);
}

TEST(R15_Q20_a_retry_while_offline_fails_with_the_reason) {
  struct scene scene;
  struct stub stub;
  msgq_message *message;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(1, drain(&scene).failed);
  offline_as(&scene, REFUSED, REFUSED);
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  REQUIRE_OK(msgq_get(scene.queue, "a", &message));
  CHECK_TEXT("not connected: " REFUSED, message->failure->text);
  msgq_message_free(message);
  scene_end(&scene);
}

/* ---------------------------------------------------------------- the transport says why */

TEST(Q20_X1_the_text_of_an_attempt_that_ends_as_offline_is_the_reason_until_another_ends_otherwise) {
  struct scene scene;
  struct wire wire = { MSGQ_VERDICT_OFFLINE, REFUSED };
  wire_open(&wire, &scene, MSGQ_MODE_MANUAL);
  put(&scene, "a", "ana", "hello");
  CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&scene).stop);
  CHECK_TEXT(REFUSED, state_of(&scene).offline_reason);
  CHECK_TEXT("Not connected: " REFUSED ". Waiting for you to send 1 message.", state_of(&scene).text);
  CHECK_TEXT("Not connected: " REFUSED ". Waiting for you to send it.", explain(&scene, "a").text);
  wire.text = "";
  drain(&scene);
  CHECK_TEXT("", state_of(&scene).offline_reason);
  wire.text = REFUSED;
  drain(&scene);
  CHECK_TEXT(REFUSED, state_of(&scene).offline_reason);
  /* Any other outcome shows that there is a connection. */
  wire = (struct wire) { MSGQ_VERDICT_RETRY, "busy" };
  drain(&scene);
  CHECK_TEXT("", state_of(&scene).offline_reason);
  scene_end(&scene);
}

TEST(Q20_what_the_host_reports_counts_more_than_the_text_of_an_attempt) {
  struct scene scene;
  struct wire wire = { MSGQ_VERDICT_OFFLINE, REFUSED };
  wire_open(&wire, &scene, MSGQ_MODE_MANUAL);
  put(&scene, "a", "ana", "hello");
  drain(&scene);
  CHECK_TEXT(REFUSED, state_of(&scene).offline_reason);
  offline_as(&scene, "aeroplane mode", "aeroplane mode");
  set_online(&scene);
  CHECK_TEXT("", state_of(&scene).offline_reason);
  scene_end(&scene);
}

TEST(X1_automatic_sending_says_why_it_waits_after_an_attempt_that_ended_as_offline) {
  struct scene scene;
  struct wire wire = { MSGQ_VERDICT_OFFLINE, REFUSED };
  wire_open(&wire, &scene, MSGQ_MODE_AUTO);
  put(&scene, "a", "ana", "hello");
  AWAIT(state_of(&scene).reason == MSGQ_REASON_HOLDING);
  CHECK_NUMBER(0, strncmp(state_of(&scene).text, "Not connected: " REFUSED ". Sending resumes in ", 70));
  CHECK_NUMBER(0, strncmp(explain(&scene, "a").text, "Not connected: " REFUSED ". Sending resumes in ", 70));
  scene_end(&scene);
}

/* ---------------------------------------------------------------- the log */

static atomic_int warnings, others;
static char line[MSGQ_LOG_SIZE];

static void on_line(void *context, msgq_log_level level, const char *text) {
  (void)context;
  snprintf(line, sizeof line, "%s", text);
  atomic_fetch_add(level == MSGQ_LOG_WARNING ? &warnings : &others, 1);
}

TEST(Q20_D13_each_change_of_the_reason_is_one_line_of_the_log) {
  struct scene scene;
  struct wire wire = { MSGQ_VERDICT_OFFLINE, REFUSED };
  wire_open(&wire, &scene, MSGQ_MODE_MANUAL);
  REQUIRE_OK(msgq_set_log(on_line, NULL, NULL));
  put(&scene, "a", "ana", "hello");
  for (int round = 0; round < 5; round++) drain(&scene);
  /* A relay reports the same reason to its queue. */
  for (int round = 0; round < 5; round++) offline_as(&scene, REFUSED, REFUSED);
  offline_as(&scene, "connection refused by 127.0.0.1:4", "connection refused by 127.0.0.1:4");
  AWAIT(atomic_load(&warnings) == 1);
  char expected[256];
  snprintf(expected, sizeof expected, "%s: not connected: " REFUSED, scene.path);
  CHECK_TEXT(expected, line);
  set_offline(&scene);
  set_online(&scene);
  for (int round = 0; round < 5; round++) drain(&scene);
  AWAIT(atomic_load(&warnings) == 2);
  wire.verdict = MSGQ_VERDICT_SENT;
  CHECK_NUMBER(1, drain(&scene).sent);
  AWAIT(atomic_load(&others) == 1);
  snprintf(expected, sizeof expected, "%s: connected again", scene.path);
  CHECK_TEXT(expected, line);
  /* Being offline without a reason is no line. */
  set_offline(&scene);
  set_online(&scene);
  REQUIRE_OK(msgq_set_log(NULL, NULL, NULL));
  CHECK_NUMBER(2, atomic_load(&warnings));
  CHECK_NUMBER(1, atomic_load(&others));
  scene_end(&scene);
}

/* ---------------------------------------------------------------- what is left out */

TEST(Q20_a_reason_is_one_line_of_at_most_255_bytes) {
  struct scene scene;
  struct stub stub;
  char raw[2000], state_text[300];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put(&scene, "a", "ana", "hello");
  offline_as(&scene, "two lines and\\x1b[31m \\u202ered", "  two\r\nlines\tand\x1b[31m \xe2\x80\xae" "red\n");
  offline_as(&scene, "", " \n\t ");
  for (size_t index = 0; index + 2 < sizeof raw; index += 2) memcpy(raw + index, "\xc3\xa9", 2);
  raw[sizeof raw - 2] = '\0';
  report(&scene, MSGQ_CONNECTIVITY_OFFLINE, raw);
  msgq_state state = state_of(&scene);
  CHECK_NUMBER(255, strlen(state.offline_reason));
  CHECK_TEXT("\xc3\xa9\xe2\x80\xa6", state.offline_reason + 255 - 5);
  /* What follows the reason in a sentence is never cut off. */
  snprintf(state_text, sizeof state_text, "%s", state.text);
  CHECK(strlen(state_text) < 255 && strstr(state_text, "\xe2\x80\xa6 1 message queued."));
  CHECK(strstr(explain(&scene, "a").text, "\xe2\x80\xa6 Waiting for you to send it."));
  scene_end(&scene);
}

TEST(Q20_a_reason_contains_no_credentials) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  offline_as(&scene, "cannot connect to nats://127.0.0.1:4222", "cannot connect to nats://ana:secret@127.0.0.1:4222");
  offline_as(&scene, "nats://a:1,nats://b:2", "nats://token@a:1,nats://u:p@b:2");
  offline_as(&scene, "'redis://host:6379/0' failed", "'redis://:pa/ss@w?rd@host:6379/0' failed");
  offline_as(&scene, "host:5672',", "('ana:secret@host:5672',");
  offline_as(&scene, "https://host/a?x=1&access_token=\xe2\x80\xa6&y=2", "https://host/a?x=1&access_token=s3/cr=et&y=2");
  offline_as(&scene, "PASSWORD=\xe2\x80\xa6 refused", "PASSWORD=secret refused");
  /* What is none stays. */
  offline_as(&scene, "https://host:8443/@ana?at=5 for ana@example.com", "https://host:8443/@ana?at=5 for ana@example.com");
  offline_as(&scene, "[Errno 111] Connect call failed ('::1', 4222, 0, 0)", "[Errno 111] Connect call failed ('::1', 4222, 0, 0)");
  scene_end(&scene);
}
