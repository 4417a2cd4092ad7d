/* What counts before the first report of connectivity. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "post.h"

/* Begins a scene whose store has two messages of a process that was killed. */
static void begin_after_kill(struct post *post, msgq_mode mode) {
  post_begin(post);
  post->scene.options.mode = mode;
  post->scene.options.online_debounce_ms = 0;
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    scene_open(&post->scene);
    set_offline(&post->scene);
    put_each(&post->scene, { "a", "ana", "hello" }, { "b", "ben", "hello" });
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  post->scene.options.direct = true;
}

/* Sets the transport before it reports connectivity, which is the order that caused attempts and prompts. */
static void open_offline(struct post *post) {
  post->scene.options.initial_connectivity = MSGQ_CONNECTIVITY_OFFLINE;
  post_open(post);
}

static size_t prompts(struct post *post) { return journal_count(&post->scene.journal, MSGQ_EVENT_PROMPT); }

TEST_ALONE(Q21_a_queue_that_begins_offline_raises_no_prompt_before_the_first_report) {
  struct post post;
  begin_after_kill(&post, MSGQ_MODE_ASK);
  open_offline(&post);
  put(&post.scene, "c", "cem", "hello"); /* direct */
  CHECK(banner_is(&post.scene, "You're offline. 3 messages queued."));
  msgq_state state = state_of(&post.scene);
  CHECK(state.connectivity == MSGQ_CONNECTIVITY_OFFLINE && state.link == MSGQ_LINK_NONE && state.reason == MSGQ_REASON_OFFLINE);
  CHECK_NUMBER(MSGQ_REASON_OFFLINE, reason_of(&post.scene, "a"));
  CHECK_NUMBER(MSGQ_STOP_OFFLINE, drain(&post.scene).stop);
  REQUIRE_OK(msgq_send_now(post.scene.queue, "a"));
  AWAIT(failure_of(&post.scene, "a") == MSGQ_FAILURE_OFFLINE);
  pause_ms(100);
  CHECK(prompts(&post) == 0 && receiver_requests(post.receiver, NULL) == 0);
  set_online(&post.scene);
  AWAIT(prompts(&post) == 1);
  CHECK_NUMBER(3, drain(&post.scene).sent);
  CHECK_NUMBER(1, prompts(&post));
  post_end(&post);
}

TEST_ALONE(Q21_a_queue_that_begins_offline_sends_nothing_by_itself_before_the_first_report) {
  struct post post;
  begin_after_kill(&post, MSGQ_MODE_AUTO);
  post.scene.options.online_debounce_ms = 300;
  open_offline(&post);
  put(&post.scene, "c", "ana", "hello");
  pause_ms(100);
  CHECK_NUMBER(0, receiver_requests(post.receiver, NULL));
  /* The first report is a return of the connection, which has to last. */
  int64_t start = steady_ms();
  set_online(&post.scene);
  AWAIT(receiver_requests(post.receiver, NULL) > 0);
  CHECK(steady_ms() - start >= 300);
  AWAIT(counts_of(&post.scene, NULL).sent == 3);
  post_end(&post);
}

TEST_ALONE(Q21_by_default_a_queue_counts_as_online_before_the_first_report) {
  struct post post;
  begin_after_kill(&post, MSGQ_MODE_ASK);
  post_open(&post);
  CHECK_NUMBER(MSGQ_CONNECTIVITY_UNKNOWN, state_of(&post.scene).connectivity);
  AWAIT(prompts(&post) == 1);
  post_end(&post);
}

TEST(Q21_a_queue_may_begin_online) {
  struct post post;
  post_begin(&post);
  post.scene.options.direct = true;
  post.scene.options.initial_connectivity = MSGQ_CONNECTIVITY_ONLINE;
  post_open(&post);
  put(&post.scene, "a", "ana", "hello");
  AWAIT(status_of(&post.scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(MSGQ_CONNECTIVITY_ONLINE, state_of(&post.scene).connectivity);
  post_end(&post);
}

TEST(Q21_an_unknown_connectivity_is_refused) {
  static const int64_t values[] = { -1, 3, 4294967296, 4294967297, INT64_MAX, INT64_MIN };
  struct scene scene;
  msgq_queue *queue = NULL;
  scene_begin(&scene);
  for (size_t index = 0; index < sizeof values / sizeof *values; index++) {
    scene.options.initial_connectivity = values[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_open(scene.path, &scene.options, &queue));
  }
  scene_end(&scene);
}

/* Returns how many lines of the log say that there was no report. */
static int warnings(struct scene *scene) {
  char text[MSGQ_LOG_SIZE];
  msgq_log_level level;
  int count = 0;
  CHECK_RESULT(MSGQ_OK, msgq_poll(scene->queue, 0, NULL));
  while (msgq_log_next(&level, text, sizeof text) > 0) {
    count += level == MSGQ_LOG_WARNING && strstr(text, "connectivity was not reported within 60 s") != NULL;
  }
  return count;
}

TEST_ALONE(Q21_one_line_of_the_log_says_that_no_report_came_within_a_minute) {
  struct scene scene;
  msgq_log_level level;
  char text[MSGQ_LOG_SIZE];
  scene_begin(&scene);
  msgq_log_next(&level, text, sizeof text); /* keeps the lines from now on */
  for (int way = 0; way < 4; way++) {
    scene.options.callbacks = MSGQ_CALLBACKS_POLL;
    scene.options.initial_connectivity = way == 3 ? MSGQ_CONNECTIVITY_UNKNOWN : MSGQ_CONNECTIVITY_OFFLINE;
    scene_open(&scene);
    if (way == 1) set_offline(&scene); /* a report that changes nothing */
    if (way == 2) set_online(&scene);
    atomic_fetch_add(&fault_boot_shift_ms, 58000);
    CHECK_NUMBER(0, warnings(&scene));
    atomic_fetch_add(&fault_boot_shift_ms, 2000);
    CHECK_NUMBER(way == 0 ? 1 : 0, warnings(&scene));
    atomic_fetch_add(&fault_boot_shift_ms, 120000);
    CHECK_NUMBER(0, warnings(&scene));
    scene_close(&scene);
  }
  scene_end(&scene);
}
