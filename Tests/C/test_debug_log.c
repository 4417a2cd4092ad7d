/* Lines of the log at the level MSGQ_LOG_DEBUG: one for each step, without bodies, and only when they are wanted. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "scene.h"
#include "stub.h"

/* No line may contain it: it is a part of every body and of the metadata. */
#define SECRET "s3cret"

/* A transport whose verdicts the ids of the messages name: "busy-1" and "offline-1" are sent by the second attempt. */
static msgq_verdict send_as_named(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  out->code = 503;
  if (strncmp(delivery->id, "busy", 4) == 0 && delivery->attempt == 1) {
    snprintf(out->text, sizeof out->text, "no room\nmsgqueue: forged");
    return MSGQ_VERDICT_HTTP;
  }
  out->code = 0;
  snprintf(out->text, sizeof out->text, "too old");
  if (strncmp(delivery->id, "refused", 7) == 0) return MSGQ_VERDICT_REJECT;
  snprintf(out->text, sizeof out->text, "no route");
  if (strncmp(delivery->id, "offline", 7) == 0) return MSGQ_VERDICT_OFFLINE;
  out->text[0] = '\0';
  return MSGQ_VERDICT_SENT;
}

/* Begins a scene whose lines are read by this test, at the level debug. */
static void begin(struct scene *scene) {
  scene_begin(scene);
  CHECK(msgq_log_fd() >= 0);
  CHECK_RESULT(MSGQ_OK, msgq_set_log_level(MSGQ_LOG_DEBUG));
}

/* Restores the level and the destination. */
static void end(struct scene *scene) {
  scene_end(scene);
  CHECK_RESULT(MSGQ_OK, msgq_set_log_level(MSGQ_LOG_INFO));
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
}

static void put_secret(struct scene *scene, const char *id, const char *conversation) {
  msgq_pair metadata = { "key", SECRET };
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = SECRET;
  draft.body_size = strlen(SECRET);
  draft.metadata = &metadata;
  draft.metadata_count = 1;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

/* Takes the next line, whose level is debug unless it is of another; returns its text after the path of the store. */
static const char *next_line(struct scene *scene, msgq_log_level expected) {
  static char text[MSGQ_LOG_SIZE];
  msgq_log_level level = MSGQ_LOG_ERROR;
  size_t prefix = strlen(scene->path);
  if (msgq_log_next(&level, text, sizeof text) == 0) return "";
  CHECK_NUMBER(expected, level);
  CHECK(strstr(text, SECRET) == NULL);
  bool is_prefixed = strncmp(text, scene->path, prefix) == 0 && strncmp(text + prefix, ": ", 2) == 0;
  return is_prefixed ? text + prefix + 2 : text;
}

#define CHECK_LINE(scene, expected) CHECK_TEXT(expected, next_line((scene), MSGQ_LOG_DEBUG))

/* Waits for this line, and skips those before it. */
static void await_line(struct scene *scene, const char *expected) {
  int64_t limit = steady_ms() + check_timeout_ms();
  char text[MSGQ_LOG_SIZE];
  while (steady_ms() < limit) {
    if (msgq_log_next(NULL, text, sizeof text) == 0) {
      pause_ms(1);
      continue;
    }
    CHECK(strstr(text, SECRET) == NULL);
    if (strstr(text, expected) != NULL && strncmp(text, scene->path, strlen(scene->path)) == 0) return;
  }
  CHECK_TEXT(expected, text);
  check_end_test();
}

/* ---------------------------------------------------------------- what has a line */

TEST(M15_each_step_of_a_message_is_one_line) {
  struct scene scene;
  begin(&scene);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_as_named, NULL, NULL));
  put_secret(&scene, "busy", "ana");
  CHECK_LINE(&scene, "message busy: enqueued in conversation \"ana\", 6 bytes");
  put_secret(&scene, "refused", "");
  CHECK_LINE(&scene, "message refused: enqueued, 6 bytes");
  put_secret(&scene, "sent", "cem");
  CHECK_LINE(&scene, "message sent: enqueued in conversation \"cem\", 6 bytes");
  drain(&scene);
  CHECK_LINE(&scene, "drain started: 3 queued, 0 being sent, 0 failed");
  CHECK_LINE(&scene, "message busy: attempt 1 begins");
  CHECK_LINE(&scene, "message busy: attempt 1 ended: failed (server, code 503): no room\\nmsgqueue: forged");
  CHECK_LINE(&scene, "message refused: attempt 1 begins");
  CHECK_LINE(&scene, "message refused: attempt 1 ended: failed (rejected): too old");
  CHECK_LINE(&scene, "message sent: attempt 1 begins");
  CHECK_LINE(&scene, "message sent: attempt 1 ended: sent");
  CHECK_LINE(&scene, "drain finished (empty): 1 sent, 2 failed, 0 discarded, 0 put back, 0 remaining");
  REQUIRE_OK(msgq_mark(scene.queue, "sent", MSGQ_STATUS_READ));
  CHECK_LINE(&scene, "message sent: read, was sent");
  REQUIRE_OK(msgq_retry(scene.queue, "busy"));
  AWAIT(status_of(&scene, "busy") == MSGQ_STATUS_SENT);
  CHECK_LINE(&scene, "message busy: attempt 2 begins, was failed");
  CHECK_LINE(&scene, "message busy: attempt 2 ended: sent");
  REQUIRE_OK(msgq_delete(scene.queue, "refused"));
  CHECK_LINE(&scene, "message refused: deleted");
  CHECK_LINE(&scene, "");
  end(&scene);
}

TEST(M15_a_call_with_several_messages_has_one_line_with_their_number) {
  struct scene scene;
  char ids[300][MSGQ_ID_SIZE], expected[MSGQ_LOG_SIZE];
  size_t sizes[300];
  char bodies[300 * 6];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  begin(&scene);
  scene_open(&scene);
  draft.conversation = "ana";
  for (int number = 0; number < 300; number++) {
    sizes[number] = 6;
    memcpy(bodies + 6 * number, SECRET, 6);
  }
  REQUIRE_OK(msgq_enqueue_bodies(scene.queue, &draft, bodies, sizeof bodies, sizes, 300, ids));
  snprintf(expected, sizeof expected, "300 messages enqueued, the first is message %s in conversation \"ana\"", ids[0]);
  CHECK_LINE(&scene, expected);
  CHECK_LINE(&scene, "");
  end(&scene);
}

TEST(M15_connectivity_and_prompts_have_lines) {
  struct scene scene;
  begin(&scene);
  scene.options.mode = MSGQ_MODE_ASK;
  scene.options.online_debounce_ms = 0;
  scene.options.prompt_timeout_ms = 60000;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_connectivity_reason(scene.queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE, false, "airplane mode"));
  CHECK_TEXT("not connected: airplane mode", next_line(&scene, MSGQ_LOG_WARNING));
  CHECK_LINE(&scene, "connectivity: offline: airplane mode");
  REQUIRE_OK(msgq_set_transport(scene.queue, send_as_named, NULL, NULL));
  put_secret(&scene, "sent", "ana");
  put_secret(&scene, "offline", "ben");
  CHECK_LINE(&scene, "message sent: enqueued in conversation \"ana\", 6 bytes");
  CHECK_LINE(&scene, "message offline: enqueued in conversation \"ben\", 6 bytes");
  REQUIRE_OK(msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, true));
  CHECK_TEXT("connected again", next_line(&scene, MSGQ_LOG_INFO));
  CHECK_LINE(&scene, "connectivity: online, link wifi, metered");
  await_line(&scene, "prompt raised: 2 messages, 12 bytes, 2 conversations");
  REQUIRE_OK(msgq_withdraw_prompt(scene.queue));
  await_line(&scene, "prompt withdrawn");
  drain(&scene);
  await_line(&scene, "message sent: attempt 1 ended: sent");
  await_line(&scene, "message offline: attempt 1 ended: queued (offline): no route");
  await_line(&scene, "drain finished (offline): 1 sent, 0 failed, 0 discarded, 0 put back, 1 remaining");
  end(&scene);
}

TEST(M15_other_changes_of_the_queue_have_lines) {
  struct scene scene;
  char id[MSGQ_ID_SIZE];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  begin(&scene);
  scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_as_named, NULL, NULL));
  draft.conversation = "ana";
  draft.body = SECRET;
  draft.body_size = 6;
  draft.id = "received";
  REQUIRE_OK(msgq_record(scene.queue, &draft, "ana", id));
  CHECK_LINE(&scene, "message received: recorded in conversation \"ana\"");
  draft.replace_key = "position";
  draft.id = "old";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_LINE(&scene, "message old: enqueued in conversation \"ana\", 6 bytes");
  draft.id = "busy-new";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_LINE(&scene, "message old: replaced by message busy-new");
  CHECK_LINE(&scene, "message busy-new: enqueued in conversation \"ana\", 6 bytes");
  REQUIRE_OK(msgq_pause(scene.queue, "ana"));
  CHECK_LINE(&scene, "paused in conversation \"ana\"");
  REQUIRE_OK(msgq_resume(scene.queue, "ana"));
  CHECK_LINE(&scene, "resumed in conversation \"ana\"");
  drain(&scene);
  CHECK_LINE(&scene, "drain started: 1 queued, 0 being sent, 0 failed");
  CHECK_LINE(&scene, "message busy-new: attempt 1 begins");
  CHECK(strncmp(next_line(&scene, MSGQ_LOG_WARNING), "message busy-new is discarded", 29) == 0);
  CHECK_LINE(&scene, "message busy-new: discarded (server, code 503): no room\\nmsgqueue: forged");
  CHECK_LINE(&scene, "drain finished (empty): 0 sent, 0 failed, 1 discarded, 0 put back, 0 remaining");
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  CHECK_LINE(&scene, "messages deleted");
  end(&scene);
}

TEST(M15_the_outcome_of_a_message_that_was_cleared_has_its_reason) {
  struct scene scene;
  struct stub stub;
  begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_HTTP);
  stub.code = 500;
  atomic_store(&stub.held, true);
  stub_open(&stub, &scene);
  put_secret(&scene, "a", "ana");
  REQUIRE_OK(msgq_send_now(scene.queue, "a"));
  AWAIT(atomic_load(&stub.inside) == 1);
  REQUIRE_OK(msgq_clear(scene.queue, NULL));
  atomic_store(&stub.held, false);
  await_line(&scene, "message a: attempt 1 ended: not sent (server, code 500): stub says 500, and deleted because it was cleared");
  await_line(&scene, "message a: deleted");
  end(&scene);
}

TEST_ALONE(M15_an_attempt_that_the_end_of_a_process_interrupted_has_a_line) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    atomic_store(&stub.held, true);
    stub_open(&stub, &scene);
    put_secret(&scene, "a", "ana");
    msgq_send_now(scene.queue, "a");
    AWAIT(atomic_load(&stub.inside) == 1);
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  CHECK(msgq_log_fd() >= 0);
  CHECK_RESULT(MSGQ_OK, msgq_set_log_level(MSGQ_LOG_DEBUG));
  scene_open(&scene);
  await_line(&scene, "message a: attempt 1 was interrupted: queued");
  end(&scene);
}

/* ---------------------------------------------------------------- levels */

/* Enqueues and drains one message that is discarded, which is a warning and 5 lines of the level debug; returns the lines. */
static int count_lines(struct scene *scene) {
  char text[MSGQ_LOG_SIZE];
  int lines = 0;
  static int round;
  char id[32];
  snprintf(id, sizeof id, "busy-%d", round++);
  put_secret(scene, id, "ana");
  drain(scene);
  while (msgq_log_next(NULL, text, sizeof text) > 0) lines++;
  return lines;
}

TEST(M15_a_level_leaves_out_the_lines_below_it) {
  struct scene scene;
  begin(&scene);
  scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_as_named, NULL, NULL));
  CHECK_NUMBER(6, count_lines(&scene));
  for (int level = MSGQ_LOG_WARNING; level <= MSGQ_LOG_INFO; level++) {
    CHECK_RESULT(MSGQ_OK, msgq_set_log_level((msgq_log_level)level));
    CHECK_NUMBER(1, count_lines(&scene));
  }
  CHECK_RESULT(MSGQ_OK, msgq_set_log_level(MSGQ_LOG_ERROR));
  CHECK_NUMBER(0, count_lines(&scene));
  end(&scene);
}

TEST(M15_a_level_that_does_not_exist_changes_nothing) {
  struct scene scene;
  begin(&scene);
  scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_as_named, NULL, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_set_log_level((msgq_log_level)4));
  CHECK_TEXT("invalid level: 4", msgq_error_detail());
  CHECK_RESULT(MSGQ_INVALID, msgq_set_log_level((msgq_log_level)-1));
  CHECK_TEXT("invalid level: -1", msgq_error_detail());
  CHECK_NUMBER(6, count_lines(&scene));
  end(&scene);
}

TEST(M15_by_default_no_line_of_the_level_debug_is_made) {
  struct scene scene;
  scene_begin(&scene);
  CHECK(msgq_log_fd() >= 0);
  scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_as_named, NULL, NULL));
  CHECK_NUMBER(1, count_lines(&scene));
  end(&scene);
}

TEST_LONG(M15_lines_of_the_level_debug_never_take_the_place_of_others) {
  enum { kept = 256, others = 200 };
  struct scene scene;
  char text[MSGQ_LOG_SIZE], id[32];
  msgq_log_level level;
  int debug = 0, warnings = 0, losses = 0;
  begin(&scene);
  scene.options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_as_named, NULL, NULL));
  for (int number = 0; number < kept + 50; number++) put_secret(&scene, NULL, "ana");
  for (int number = 0; number < others; number++) {
    snprintf(id, sizeof id, "busy-%d", number);
    put_secret(&scene, id, "ben");
  }
  drain(&scene);
  while (msgq_log_next(&level, text, sizeof text) > 0) {
    if (level == MSGQ_LOG_WARNING) {
      snprintf(id, sizeof id, "message busy-%d is", warnings);
      warnings++;
      CHECK(strstr(text, id) != NULL);
    } else if (strstr(text, "lost") != NULL) {
      CHECK_NUMBER(MSGQ_LOG_DEBUG, level);
      losses++;
    } else {
      debug++;
    }
  }
  CHECK(warnings == others && debug == kept && losses > 0);
  end(&scene);
}

/* ---------------------------------------------------------------- standard error */

/* Runs the role of the log in a child whose standard error is read; returns how many of its lines begin with each word. */
static void run_role(const char *way, int *warnings, int *debug) {
  struct scene scene;
  char line[2048];
  *warnings = *debug = 0;
  scene_begin(&scene);
  struct child child = child_start("log", scene.path, way);
  for (child_line(&child, line, sizeof line); line[0] != '\0'; child_line(&child, line, sizeof line)) {
    if (strncmp(line, "msgqueue: warning: ", 19) == 0) ++*warnings;
    if (strncmp(line, "msgqueue: debug: ", 17) == 0) ++*debug;
  }
  CHECK_NUMBER(0, child_wait(&child));
  scene_end(&scene);
}

TEST(M15_the_variable_and_the_level_show_every_line_on_standard_error) {
  int warnings, debug;
  run_role("debug", &warnings, &debug);
  CHECK(warnings == 5 && debug == 5 + 1 + 2 * 5 + 1);
  run_role("level", &warnings, &debug);
  CHECK(warnings == 5 && debug == 5 + 1 + 2 * 5 + 1);
  run_role("shown", &warnings, &debug);
  CHECK(warnings == 5 && debug == 0);
}

/* ---------------------------------------------------------------- threads */

static atomic_int received;

static void count_line(void *context, msgq_log_level level, const char *text) {
  (void)context, (void)level;
  CHECK(strstr(text, SECRET) == NULL);
  atomic_fetch_add(&received, 1);
}

static atomic_bool stop;

static void *change_level(void *context) {
  for (int round = 0; !atomic_load(&stop); round++) msgq_set_log_level(round % 2 == 0 ? MSGQ_LOG_DEBUG : MSGQ_LOG_ERROR);
  return context;
}

TEST_LONG(M15_the_level_changes_while_messages_are_sent) {
  struct scene scene;
  pthread_t changing;
  int messages = check_times(500, 50);
  begin(&scene);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, send_as_named, NULL, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_set_log(count_line, NULL, NULL));
  atomic_store(&stop, false);
  REQUIRE(pthread_create(&changing, NULL, change_level, NULL) == 0);
  for (int number = 0; number < messages; number++) put_secret(&scene, NULL, "ana");
  CHECK_NUMBER(messages, drain(&scene).sent);
  atomic_store(&stop, true);
  pthread_join(changing, NULL);
  CHECK_RESULT(MSGQ_OK, msgq_set_log_level(MSGQ_LOG_DEBUG));
  int before = atomic_load(&received);
  put_secret(&scene, NULL, "ana");
  AWAIT(atomic_load(&received) > before);
  end(&scene);
}
