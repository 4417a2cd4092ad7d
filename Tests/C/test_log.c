/* Log lines: their destinations, and that logging never blocks, ends or misleads a process. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "process.h"
#include "scene.h"

/* ---------------------------------------------------------------- standard error */

/* Runs the role, copies its first line to `line`, and checks its store. */
static void run_role(const char *way, char *line, size_t size) {
  struct scene scene;
  char rest[2048];
  scene_begin(&scene);
  struct child child = child_start("log", scene.path, way);
  child_line(&child, line, size);
  bool is_done = strcmp(line, "done") == 0;
  while (!is_done) {
    child_line(&child, rest, sizeof rest);
    is_done = strcmp(rest, "done") == 0;
    if (rest[0] == '\0') break;
  }
  CHECK(is_done);
  child_line(&child, rest, sizeof rest);
  CHECK_TEXT("", rest);
  CHECK_NUMBER(0, child_wait(&child));
  scene_open(&scene);
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(D13_full_standard_error_blocks_neither_sending_nor_enqueue_nor_close) {
  char line[2048];
  run_role("full", line, sizeof line);
  CHECK_TEXT("done", line);
}

TEST(D13_full_socket_or_terminal_as_standard_error_blocks_nothing) {
  char line[2048];
  run_role("socket", line, sizeof line);
  CHECK_TEXT("done", line);
  run_role("terminal", line, sizeof line);
  CHECK_TEXT("done", line);
}

TEST(D13_MSGQUEUE_LOG_off_turns_the_default_log_off) {
  char line[2048];
  run_role("off", line, sizeof line);
  CHECK_TEXT("done", line);
}

TEST(D13_broken_standard_error_does_not_end_the_process) {
  char line[2048];
  run_role("broken", line, sizeof line);
  CHECK_TEXT("done", line);
}

TEST(D13_closed_standard_error_is_ignored) {
  char line[2048];
  run_role("closed", line, sizeof line);
  CHECK_TEXT("done", line);
}

TEST(D13_lines_lost_by_standard_error_are_counted) {
  char line[2048];
  run_role("counted", line, sizeof line);
  CHECK_TEXT("msgqueue: warning: 3 log lines were lost", line);
}

static void check_shown(const char *line) {
  CHECK(strstr(line, "msgqueue: warning: ") == line);
  CHECK(strstr(line, ": gone\\x1b[2J\\nmsgqueue: forged\\x7f\\x9b") != NULL);
}

TEST(D13_control_characters_are_escaped_on_standard_error) {
  struct scene scene;
  char line[2048], done[16] = "";
  int shown = 0;
  scene_begin(&scene);
  struct child child = child_start("log", scene.path, "shown");
  for (child_line(&child, line, sizeof line); line[0] != '\0'; child_line(&child, line, sizeof line)) {
    if (strcmp(line, "done") == 0) {
      strcpy(done, line);
      continue;
    }
    check_shown(line);
    shown++;
  }
  CHECK_TEXT("done", done);
  CHECK_NUMBER(5, shown); /* including the lines written just before the process ended */
  CHECK_NUMBER(0, child_wait(&child));
  scene_end(&scene);
}

TEST(D13_lines_of_an_exit_handler_are_written) {
  struct scene scene;
  char lines[2][2048];
  scene_begin(&scene);
  struct child child = child_start("log", scene.path, "atexit");
  child_line(&child, lines[0], sizeof lines[0]);
  child_line(&child, lines[1], sizeof lines[1]);
  int first = strcmp(lines[0], "done") == 0 ? 1 : 0;
  check_shown(lines[first]);
  CHECK_TEXT("done", lines[1 - first]);
  CHECK_NUMBER(0, child_wait(&child));
  scene_end(&scene);
}

/* ---------------------------------------------------------------- warnings on demand */

static msgq_verdict refuse(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  snprintf(out->text, sizeof out->text, "r\xc3\xa9""fus\xc3\xa9 %.*s", (int)delivery->body_size, (const char *)delivery->body);
  return MSGQ_VERDICT_RETRY;
}

static void begin(struct scene *scene) {
  scene_begin(scene);
  scene->options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, refuse, NULL, NULL));
}

/* Opens and closes a queue whose transport refuses one message, which writes one warning on this thread. */
static void warn_once(const char *path, const char *body) {
  msgq_options options = MSGQ_OPTIONS_INIT;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_queue *queue = NULL;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  options.callbacks = MSGQ_CALLBACKS_POLL;
  options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  draft.body = body;
  draft.body_size = strlen(body);
  CHECK_RESULT(MSGQ_OK, msgq_open(path, &options, &queue));
  CHECK_RESULT(MSGQ_OK, msgq_set_transport(queue, refuse, NULL, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_enqueue(queue, &draft, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_drain(queue, NULL, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_close(queue, -1));
}

static void warn(struct scene *scene, int count) {
  char body[16];
  for (int number = 0; number < count; number++) {
    snprintf(body, sizeof body, "%d", number);
    put(scene, NULL, "ana", body);
  }
  drain(scene);
}

/* ---------------------------------------------------------------- msgq_set_log */

struct sink {
  atomic_int lines;
  atomic_int released;
  atomic_int inside;
  atomic_int overlaps;
  atomic_bool held;
  atomic_bool calls_in;
  const char *path;
  msgq_log_level level; /* of the last line */
  char text[MSGQ_LOG_SIZE];
  pthread_t thread;
};

static void release_sink(void *context) {
  struct sink *sink = context;
  CHECK_NUMBER(0, atomic_load(&sink->inside));
  atomic_fetch_add(&sink->released, 1);
}

static void on_line(void *context, msgq_log_level level, const char *text) {
  struct sink *sink = context;
  if (atomic_fetch_add(&sink->inside, 1) > 0) atomic_fetch_add(&sink->overlaps, 1);
  sink->level = level;
  sink->thread = pthread_self();
  snprintf(sink->text, sizeof sink->text, "%s", text);
  if (atomic_load(&sink->calls_in)) warn_once(sink->path, "inside"); /* writes log lines, too */
  atomic_fetch_add(&sink->lines, 1);
  while (atomic_load(&sink->held)) pause_ms(1);
  atomic_fetch_sub(&sink->inside, 1);
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), size = strlen(end);
  return length >= size && strcmp(text + length - size, end) == 0;
}

TEST(D13_log_function_receives_level_and_text_and_is_released_once) {
  static struct sink sink;
  struct scene scene;
  begin(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(on_line, &sink, release_sink));
  warn(&scene, 3);
  AWAIT(atomic_load(&sink.lines) == 3);
  CHECK(sink.level == MSGQ_LOG_WARNING && !pthread_equal(sink.thread, pthread_self()));
  CHECK(ends_with(sink.text, " 1 attempt (unknown, code 0): r\xc3\xa9""fus\xc3\xa9 2"));
  CHECK(strstr(sink.text, scene.path) == sink.text);
  CHECK_NUMBER(0, atomic_load(&sink.released));
  /* Setting the same function again is another registration. */
  CHECK_RESULT(MSGQ_OK, msgq_set_log(on_line, &sink, release_sink));
  AWAIT(atomic_load(&sink.released) == 1);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, &sink, release_sink));
  AWAIT(atomic_load(&sink.released) == 3); /* that of the function, and the context set with NULL */
  CHECK_NUMBER(3, atomic_load(&sink.lines));
  CHECK_NUMBER(0, atomic_load(&sink.overlaps));
  scene_end(&scene);
}

TEST(D13_log_function_that_hangs_blocks_no_call) {
  static struct sink stuck, next;
  struct scene scene;
  begin(&scene);
  atomic_store(&stuck.held, true);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(on_line, &stuck, release_sink));
  int64_t start = steady_ms();
  warn(&scene, 5);
  AWAIT(atomic_load(&stuck.inside) == 1);
  put(&scene, "a", "ana", "hello");
  scene_close(&scene);
  CHECK(steady_ms() - start < check_timeout_ms() / 2);
  /* The next function gets the waiting lines. */
  CHECK_RESULT(MSGQ_OK, msgq_set_log(on_line, &next, release_sink));
  AWAIT(atomic_load(&next.lines) == 4);
  CHECK(ends_with(next.text, " 4"));
  CHECK_NUMBER(0, atomic_load(&stuck.released));
  atomic_store(&stuck.held, false);
  AWAIT(atomic_load(&stuck.released) == 1);
  CHECK_NUMBER(1, atomic_load(&stuck.lines));
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  AWAIT(atomic_load(&next.released) == 1);
  scene_end(&scene);
}

TEST_LONG(D13_log_function_may_use_queues_and_gets_no_lines_from_them) {
  static struct sink sink;
  struct scene scene;
  begin(&scene);
  sink.path = scene_file(&scene, "other.db");
  atomic_store(&sink.calls_in, true);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(on_line, &sink, release_sink));
  warn(&scene, 2);
  AWAIT(atomic_load(&sink.lines) == 2);
  pause_ms(100);
  CHECK_NUMBER(2, atomic_load(&sink.lines));
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  AWAIT(atomic_load(&sink.released) == 1);
  scene_end(&scene);
}

static void replace_itself(void *context, msgq_log_level level, const char *text) {
  (void)level, (void)text;
  struct sink *sink = context;
  atomic_fetch_add(&sink->inside, 1);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  CHECK_NUMBER(0, atomic_load(&sink->released));
  atomic_fetch_sub(&sink->inside, 1);
}

TEST(D13_log_function_may_replace_itself) {
  static struct sink sink;
  struct scene scene;
  begin(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(replace_itself, &sink, release_sink));
  warn(&scene, 1);
  AWAIT(atomic_load(&sink.released) == 1);
  scene_end(&scene);
}

TEST(D13_log_thread_ends_when_there_are_no_lines) {
  static struct sink sink;
  struct scene scene;
  CHECK_RESULT(MSGQ_OK, msgq_set_log(on_line, &sink, release_sink));
  begin(&scene);
  warn(&scene, 1);
  AWAIT(atomic_load(&sink.lines) == 1);
  scene_close(&scene);
  AWAIT(process_library_threads() == 0);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  scene_end(&scene);
}

/* ---------------------------------------------------------------- msgq_log_next */

static bool is_readable(int descriptor) {
  struct pollfd watched = { descriptor, POLLIN, 0 };
  return poll(&watched, 1, 0) == 1;
}

TEST_LONG(D13_lines_are_read_and_lost_ones_counted) {
  enum { lines = 256, lost = 44 };
  struct scene scene;
  msgq_log_level level = MSGQ_LOG_DEBUG;
  char text[MSGQ_LOG_SIZE], body[16];
  int descriptor = msgq_log_fd();
  begin(&scene);
  CHECK(descriptor >= 0 && !is_readable(descriptor));
  CHECK_NUMBER(0, msgq_log_next(&level, text, sizeof text));
  CHECK_TEXT("", text);
  warn(&scene, lines + lost);
  CHECK(is_readable(descriptor));
  for (int number = 0; number < lines; number++) {
    size_t length = msgq_log_next(&level, text, sizeof text);
    snprintf(body, sizeof body, " %d", number);
    if (!CHECK(length > 0 && length == strlen(text) && level == MSGQ_LOG_WARNING && ends_with(text, body))) break;
  }
  CHECK(is_readable(descriptor));
  CHECK(msgq_log_next(NULL, text, sizeof text) > 0);
  CHECK_TEXT("44 log lines were lost", text);
  CHECK(!is_readable(descriptor));
  CHECK_NUMBER(0, msgq_log_next(&level, text, sizeof text));
  CHECK_NUMBER(descriptor, msgq_log_fd());
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  scene_end(&scene);
}

TEST(D13_lines_are_truncated_to_the_buffer_between_characters) {
  struct scene scene;
  char text[MSGQ_LOG_SIZE], all[MSGQ_LOG_SIZE];
  begin(&scene);
  CHECK_NUMBER(0, msgq_log_next(NULL, NULL, 0)); /* from now on lines are kept */
  warn(&scene, 4);
  CHECK_NUMBER(0, msgq_log_next(NULL, NULL, sizeof text));
  CHECK_NUMBER(0, msgq_log_next(NULL, text, 0));
  text[0] = 'x';
  CHECK_NUMBER(0, msgq_log_next(NULL, text, 1));
  CHECK_TEXT("", text);
  size_t length = msgq_log_next(NULL, all, sizeof all); /* still the first line */
  CHECK(ends_with(all, " r\xc3\xa9""fus\xc3\xa9 0"));
  /* The buffer ends inside the last "é", two bytes before " 1". */
  memset(text, 'x', sizeof text);
  CHECK_NUMBER(length - 4, msgq_log_next(NULL, text, length - 2));
  CHECK(ends_with(text, " r\xc3\xa9""fus"));
  CHECK_NUMBER(4, msgq_log_next(NULL, text, 5));
  CHECK_NUMBER(4, strlen(text));
  CHECK(msgq_log_next(NULL, text, SIZE_MAX) > 0); /* the last line */
  CHECK_NUMBER(0, msgq_log_next(NULL, text, sizeof text));
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  scene_end(&scene);
}

TEST(D13_msgq_log_next_returns_nothing_while_a_function_is_set) {
  static struct sink sink;
  struct scene scene;
  char text[MSGQ_LOG_SIZE];
  begin(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(on_line, &sink, release_sink));
  CHECK_NUMBER(0, msgq_log_next(NULL, text, sizeof text));
  warn(&scene, 1);
  AWAIT(atomic_load(&sink.lines) == 1);
  CHECK(!is_readable(msgq_log_fd()));
  CHECK_NUMBER(0, msgq_log_next(NULL, text, sizeof text));
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  scene_end(&scene);
}

/* ---------------------------------------------------------------- forks */

TEST(D13_forked_child_reads_only_its_own_lines) {
  struct scene scene;
  char text[MSGQ_LOG_SIZE];
  begin(&scene);
  const char *own = scene_file(&scene, "own.db");
  int mine = msgq_log_fd();
  warn(&scene, 2);
  pid_t child = child_fork();
  if (child == 0) {
    CHECK_NUMBER(0, msgq_log_next(NULL, text, sizeof text));
    int descriptor = msgq_log_fd();
    CHECK(!is_readable(descriptor));
    warn_once(own, "child");
    CHECK(is_readable(descriptor));
    CHECK(msgq_log_next(NULL, text, sizeof text) > 0 && ends_with(text, " child"));
    CHECK_NUMBER(0, msgq_log_next(NULL, text, sizeof text));
    child_end();
  }
  child_await(child);
  CHECK(is_readable(mine));
  CHECK(msgq_log_next(NULL, text, sizeof text) > 0 && ends_with(text, " 0"));
  CHECK(msgq_log_next(NULL, text, sizeof text) > 0 && ends_with(text, " 1"));
  CHECK_NUMBER(0, msgq_log_next(NULL, text, sizeof text));
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  scene_end(&scene);
}

/* The function hangs in the parent during the fork. In the child it is called again, and released without waiting for the call in the
   parent. */
TEST(D13_forked_child_keeps_the_function) {
  static struct sink sink;
  struct scene scene;
  begin(&scene);
  const char *own = scene_file(&scene, "own.db");
  atomic_store(&sink.held, true);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(on_line, &sink, release_sink));
  warn(&scene, 3);
  AWAIT(atomic_load(&sink.inside) == 1);
  pid_t child = child_fork();
  if (child == 0) {
    atomic_store(&sink.held, false);
    atomic_store(&sink.inside, 0);
    atomic_store(&sink.lines, 0);
    warn_once(own, "child");
    AWAIT(atomic_load(&sink.lines) == 1);
    CHECK(ends_with(sink.text, " child"));
    CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
    AWAIT(atomic_load(&sink.released) == 1);
    child_end();
  }
  child_await(child);
  CHECK_NUMBER(0, atomic_load(&sink.released));
  atomic_store(&sink.held, false);
  AWAIT(atomic_load(&sink.lines) == 3);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  AWAIT(atomic_load(&sink.released) == 1);
  scene_end(&scene);
}

/* ---------------------------------------------------------------- many threads */

static atomic_bool stop;

static void count_release(void *context) { atomic_fetch_add((atomic_int *)context, 1); }

static void ignore(void *context, msgq_log_level level, const char *text) { (void)context, (void)level, (void)text; }

static int rounds(void) { return check_times(500, 100); }

static void *set_and_count(void *context) {
  for (int round = 0; round < rounds(); round++) msgq_set_log(ignore, context, count_release);
  return NULL;
}

static void *read_and_reset(void *context) {
  char text[MSGQ_LOG_SIZE];
  while (!atomic_load(&stop)) {
    msgq_set_log(ignore, NULL, NULL);
    msgq_log_next(NULL, text, sizeof text);
  }
  return context;
}

TEST_LONG(D13_functions_are_replaced_while_lines_are_logged) {
  static atomic_int released;
  struct scene scene;
  pthread_t reading, counting[2];
  begin(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(ignore, NULL, NULL));
  atomic_store(&stop, false);
  REQUIRE(pthread_create(&reading, NULL, read_and_reset, NULL) == 0);
  for (int index = 0; index < 2; index++) REQUIRE(pthread_create(&counting[index], NULL, set_and_count, &released) == 0);
  warn(&scene, check_times(200, 30));
  for (int index = 0; index < 2; index++) pthread_join(counting[index], NULL);
  atomic_store(&stop, true);
  pthread_join(reading, NULL);
  CHECK_RESULT(MSGQ_OK, msgq_set_log(NULL, NULL, NULL));
  AWAIT(atomic_load(&released) == 2 * rounds());
  scene_end(&scene);
}
