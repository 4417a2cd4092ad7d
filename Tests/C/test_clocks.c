/* Changes of the system clock, and time namespaces with other offsets. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "process.h"
#include "scene.h"
#include "stub.h"

static struct timespec clock_now(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now;
}

static int64_t nanoseconds(struct timespec time) { return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec; }

static bool set_clock(int64_t time) {
  struct timespec setting = { (time_t)(time / 1000000000), (long)(time % 1000000000) };
  return clock_settime(CLOCK_REALTIME, &setting) == 0;
}

/* Sets the system clock 40 s forward until `stop` is closed, or for 1 s, and then back. Runs in its own process, so that the clock is
   set back even if the test ends early. */
static void shift_clock(int go, int stop) {
  char byte;
  struct pollfd end = { stop, POLLIN, 0 };
  for (int number = 1; number < 32; number++) {
    if (number != SIGKILL && number != SIGSTOP) signal(number, SIG_IGN);
  }
  if (read(go, &byte, 1) != 1) _exit(0); /* the test ended first */
  int64_t ahead = nanoseconds(clock_now(CLOCK_REALTIME)) - nanoseconds(clock_now(CLOCK_MONOTONIC));
  bool done = set_clock(nanoseconds(clock_now(CLOCK_MONOTONIC)) + ahead + 40LL * 1000000000);
  poll(&end, 1, 1000);
  done = set_clock(nanoseconds(clock_now(CLOCK_MONOTONIC)) + ahead) && done;
  _exit(done ? 0 : 1);
}

struct shifter {
  pid_t pid;
  int go, stop;
};

static struct shifter shifter_start(void) {
  int go[2], stop[2];
  REQUIRE(pipe2(go, O_CLOEXEC) == 0 && pipe2(stop, O_CLOEXEC) == 0);
  struct shifter shifter = { fork(), go[1], stop[1] };
  REQUIRE(shifter.pid >= 0);
  if (shifter.pid == 0) {
    close(go[1]);
    close(stop[1]);
    shift_clock(go[0], stop[0]);
  }
  close(go[0]);
  close(stop[0]);
  return shifter;
}

TEST_CLOCK(X5_a_change_of_the_system_clock_takes_effect_at_once) {
  struct scene scene;
  struct stub stub;
  int status = -1;
  struct timespec now = clock_now(CLOCK_REALTIME);
  if (clock_settime(CLOCK_REALTIME, &now) != 0) SKIP("the system does not permit setting the clock");
  struct shifter shifter = shifter_start();
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene.options.mode = MSGQ_MODE_AUTO;
  stub_open(&stub, &scene);
  put_timed(&scene, "later", "ana", wall_ms() + 30000, 0);
  put_timed(&scene, "too late", "ana", wall_ms() + 60000, 0);
  REQUIRE_OK(msgq_pause(scene.queue, "ben"));
  put_timed(&scene, "expires", "ben", 0, wall_ms() + 30000);
  pause_ms(50); /* by then the engine waits for its timer */
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  CHECK(write(shifter.go, "", 1) == 1);
  /* This loop does not call the library, because a call would wake the engine. */
  for (int64_t end = steady_ms() + 800; atomic_load(&stub.calls) == 0 && steady_ms() < end;) pause_ms(1);
  for (int64_t end = steady_ms() + 100; !journal_reached(&scene.journal, "expires", MSGQ_STATUS_FAILED) && steady_ms() < end;) pause_ms(1);
  close(shifter.stop);
  REQUIRE(waitpid(shifter.pid, &status, 0) == shifter.pid);
  CHECK_NUMBER(0, status);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  AWAIT(journal_reached(&scene.journal, "later", MSGQ_STATUS_SENT));
  AWAIT(journal_reached(&scene.journal, "expires", MSGQ_STATUS_FAILED));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "too late"));
  scene_end(&scene);
  close(shifter.go);
}

TEST_CLOCK(M6_setting_the_clock_forward_does_not_end_a_retry_after) {
  struct scene scene;
  struct stub stub;
  int status = -1;
  struct timespec now = clock_now(CLOCK_REALTIME);
  if (clock_settime(CLOCK_REALTIME, &now) != 0) SKIP("the system does not permit setting the clock");
  struct shifter shifter = shifter_start();
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.kind = MSGQ_FAILURE_SERVER;
  stub.retry_after_ms = 20000;
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.backoff = MSGQ_BACKOFF_AUTOMATIC;
  stub_open(&stub, &scene);
  put(&scene, "a", "ana", "hello");
  put_timed(&scene, "b", "ben", wall_ms() + 30000, 0);
  AWAIT(atomic_load(&stub.calls) == 1 && status_of(&scene, "a") == MSGQ_STATUS_QUEUED);
  CHECK(write(shifter.go, "", 1) == 1);
  /* The message with a not-before time is sent now, so the engine has noticed the new time. */
  AWAIT(atomic_load(&stub.calls) == 2);
  pause_ms(100);
  CHECK_NUMBER(2, atomic_load(&stub.calls));
  CHECK_NUMBER(1, attempts_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_REASON_RETRYING, reason_of(&scene, "a"));
  close(shifter.stop);
  REQUIRE(waitpid(shifter.pid, &status, 0) == shifter.pid);
  CHECK_NUMBER(0, status);
  scene_end(&scene);
  close(shifter.go);
}

static bool write_offset(const char *text) {
  int file = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
  if (file >= 0) close(file);
  return written;
}

/* Checks retries and not-before times where CLOCK_BOOTTIME is `seconds` ahead of CLOCK_MONOTONIC. Returns the number of failed checks. */
static int check_timers(int64_t seconds) {
  static const int64_t ladder[] = { 50, 50, 50 };
  struct scene scene;
  struct stub stub;
  int64_t ahead = nanoseconds(clock_now(CLOCK_BOOTTIME)) - nanoseconds(clock_now(CLOCK_MONOTONIC));
  CHECK(llabs(ahead / 1000000000 - seconds) < 500000);
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_RETRY);
  stub.kind = MSGQ_FAILURE_SERVER;
  scene.options.mode = MSGQ_MODE_AUTO;
  set_ladder(&scene, ladder, 3);
  stub_open(&stub, &scene);
  int64_t start = steady_ms(), cpu = process_cpu_ms();
  put(&scene, "a", "ana", "hello");
  AWAIT(atomic_load(&stub.calls) == 4);
  CHECK(steady_ms() - start >= 150 && steady_ms() - start < 150 + check_timeout_ms() / 10);
  AWAIT(journal_reached(&scene.journal, "a", MSGQ_STATUS_FAILED));
  stub.verdict = MSGQ_VERDICT_SENT;
  put_timed(&scene, "b", "ben", wall_ms() + 100, 0);
  AWAIT(journal_reached(&scene.journal, "b", MSGQ_STATUS_SENT));
  CHECK(steady_ms() - start < 150 + check_timeout_ms() / 5);
  CHECK(process_cpu_ms() - cpu < 100); /* with a timer in the past the results are the same, but the engine never sleeps */
  scene_end(&scene);
  return (int)check_failures();
}

static void run_in_time_namespace(const char *offset, int64_t seconds) {
  int status = -1;
  if (unshare(CLONE_NEWTIME) != 0 || !write_offset(offset)) SKIP("the system does not permit a time namespace");
  fflush(NULL);
  pid_t child = fork(); /* children are in the namespace, this process is not */
  if (child == 0) _exit(check_timers(seconds));
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_NUMBER(0, status);
}

TEST_ALONE(retries_are_on_time_with_boottime_ahead_of_monotonic) { run_in_time_namespace("boottime 1000000 0\n", 1000000); }

TEST_ALONE(retries_are_on_time_with_monotonic_ahead_of_boottime) { run_in_time_namespace("monotonic 1000000 0\n", -1000000); }
