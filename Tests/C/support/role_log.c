#include "role_log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "msgqueue.h"

static msgq_queue *queue;
static int errors[2]; /* the pipe that replaces standard error */

/* Without escaping, the text would clear the screen and forge a log line. */
static msgq_verdict refuse(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context, (void)delivery;
  snprintf(out->text, sizeof out->text, "gone\x1b[2J\nmsgqueue: forged\x7f\xc2\x9b");
  return MSGQ_VERDICT_RETRY;
}

static bool begin(const char *path) {
  msgq_options options = MSGQ_OPTIONS_INIT;
  options.mode = MSGQ_MODE_MANUAL;
  options.direct = false;
  options.callbacks = MSGQ_CALLBACKS_POLL; /* warnings are written by this thread, which blocks no signal */
  options.exhausted = MSGQ_EXHAUSTED_DISCARD;
  return msgq_open(path, &options, &queue) == MSGQ_OK && msgq_set_transport(queue, refuse, NULL, NULL) == MSGQ_OK;
}

/* Enqueues `count` messages; each is discarded with a warning. */
static bool warn(int count) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  for (int number = 0; number < count; number++) {
    if (msgq_enqueue(queue, &draft, NULL) != MSGQ_OK) return false;
  }
  return msgq_drain(queue, NULL, NULL) == MSGQ_OK;
}

static bool finish(void) { return msgq_close(queue, -1) == MSGQ_OK && puts("done") >= 0 && fflush(stdout) == 0; }

static void warn_and_finish(void) {
  if (!warn(1) || !finish()) _exit(9);
}

static bool make_terminal(void) {
  errors[0] = posix_openpt(O_RDWR | O_NOCTTY);
  if (errors[0] < 0 || grantpt(errors[0]) != 0 || unlockpt(errors[0]) != 0) return false;
  errors[1] = open(ptsname(errors[0]), O_RDWR | O_NOCTTY);
  return errors[1] >= 0;
}

/* Replaces standard error by a pipe, socket or terminal that nothing reads; `full` fills it to the last byte. */
static bool replace_errors(bool made, bool full) {
  static const char rest[4096];
  if (!made) return false;
  fcntl(errors[1], F_SETFL, fcntl(errors[1], F_GETFL) | O_NONBLOCK);
  while (full && write(errors[1], rest, sizeof rest) > 0) continue;
  while (full && write(errors[1], rest, 1) > 0) continue;
  fcntl(errors[1], F_SETFL, fcntl(errors[1], F_GETFL) & ~O_NONBLOCK);
  return dup2(errors[1], STDERR_FILENO) == STDERR_FILENO && close(errors[1]) == 0;
}

/* Empties the full pipe and prints the next lines, which report the number of lost lines. */
static bool lose_and_count(void) {
  static char text[1 << 20];
  ssize_t length = 0;
  if (!warn(3)) return false;
  pause_ms(300); /* the lines were dropped by now */
  while (length == 0 || length == (ssize_t)sizeof text) length = read(errors[0], text, sizeof text);
  if (!warn(1)) return false;
  length = read(errors[0], text, sizeof text - 1);
  return length > 0 && printf("%.*s", (int)length, text) > 0;
}

/* Whether standard error goes to the test. */
static bool is_shown(const char *way) {
  static const char *ways[] = { "shown", "off", "debug", "level" };
  for (size_t index = 0; index < sizeof ways / sizeof *ways; index++) {
    if (strcmp(way, ways[index]) == 0) return true;
  }
  return false;
}

int role_log(const char *path, const char *way) {
  alarm((unsigned)(check_timeout_ms() / 1000));
  signal(SIGPIPE, SIG_DFL);
  if (strcmp(way, "off") == 0 && setenv("MSGQUEUE_LOG", "off", 1) != 0) return 1;
  if (strcmp(way, "debug") == 0 && setenv("MSGQUEUE_LOG", "debug", 1) != 0) return 1;
  if (strcmp(way, "level") == 0 && msgq_set_log_level(MSGQ_LOG_DEBUG) != MSGQ_OK) return 1;
  if (is_shown(way) && dup2(STDOUT_FILENO, STDERR_FILENO) < 0) return 1;
  if (strcmp(way, "atexit") == 0) {
    if (dup2(STDOUT_FILENO, STDERR_FILENO) < 0 || atexit(warn_and_finish) != 0) return 1;
    return begin(path) ? 0 : 2;
  }
  if ((strcmp(way, "full") == 0 || strcmp(way, "counted") == 0) && !replace_errors(pipe(errors) == 0, true)) return 1;
  if (strcmp(way, "socket") == 0 && !replace_errors(socketpair(AF_UNIX, SOCK_STREAM, 0, errors) == 0, true)) return 1;
  if (strcmp(way, "terminal") == 0 && !replace_errors(make_terminal(), true)) return 1;
  if (strcmp(way, "broken") == 0 && (!replace_errors(pipe(errors) == 0, false) || close(errors[0]) != 0)) return 1;
  if (strcmp(way, "closed") == 0 && close(STDERR_FILENO) != 0) return 1;
  if (!begin(path)) return 2;
  if (strcmp(way, "counted") == 0 ? !lose_and_count() : !warn(5)) return 3;
  return finish() ? 0 : 4;
}
