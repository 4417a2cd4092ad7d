/* Drains that include the failed messages. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "files.h"
#include "post.h"
#include "stub.h"

/* Opens a queue with m1 to m4 of ana and n1 of ben, of which m1, m3 and n1 have failed. */
static void begin(struct post *post, msgq_mode mode) {
  post_begin(post);
  post->scene.options.mode = mode;
  post->scene.options.online_debounce_ms = 0;
  post_open(post);
  receiver_answer(post->receiver, "m1", 400, 1, NULL);
  receiver_answer(post->receiver, "m3", 400, 1, NULL);
  receiver_answer(post->receiver, "n1", 400, 1, NULL);
  put_each(&post->scene, { "m1", "ana", "hello" }, { "m3", "ana", "hello" }, { "n1", "ben", "hello" });
  drain(&post->scene);
  AWAIT(counts_of(&post->scene, NULL).failed == 3);
  set_offline(&post->scene);
  put_each(&post->scene, { "m4", "ana", "hello" }, { "m5", "ana", "hello" });
}

static msgq_report drain_with_failed(msgq_queue *queue, const char *conversation) {
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  options.include_failed = true;
  options.conversation = conversation;
  CHECK_RESULT(MSGQ_OK, msgq_drain(queue, &options, &report));
  return report;
}

static msgq_report drain_failed(struct post *post, const char *conversation) {
  return drain_with_failed(post->scene.queue, conversation);
}

TEST_LONG(Q23_a_drain_with_the_failed_messages_sends_them_in_their_places) {
  static const msgq_mode modes[] = { MSGQ_MODE_MANUAL, MSGQ_MODE_ASK };
  for (int way = 0; way < 2; way++) {
    struct post post;
    char order[64];
    begin(&post, modes[way]);
    set_online(&post.scene);
    msgq_report report = drain_failed(&post, NULL);
    CHECK(report.stop == MSGQ_STOP_EMPTY && report.sent == 5 && report.put_back == 3 && report.failed == 0);
    CHECK(report.remaining == 0 && report.remaining_failed == 0);
    receiver_order(post.receiver, "ana", order, sizeof order);
    CHECK_TEXT("m1 m3 m4 m5", order);
    CHECK_NUMBER(0, drain_failed(&post, NULL).put_back);
    post_end(&post);
  }
}

TEST(Q23_one_report_has_what_failed_again) {
  struct post post;
  begin(&post, MSGQ_MODE_MANUAL);
  receiver_answer(post.receiver, "m3", 400, 1, NULL);
  set_online(&post.scene);
  size_t before = journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED);
  msgq_report report = drain_failed(&post, NULL);
  CHECK(report.sent == 4 && report.failed == 1 && report.put_back == 3 && report.remaining_failed == 1);
  CHECK_NUMBER(before + 1, journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "m3"));
  post_end(&post);
}

TEST(Q23_a_plain_drain_leaves_the_failed_messages) {
  struct post post;
  begin(&post, MSGQ_MODE_MANUAL);
  set_online(&post.scene);
  msgq_report report = drain(&post.scene);
  CHECK(report.sent == 2 && report.put_back == 0 && report.remaining_failed == 3);
  post_end(&post);
}

TEST(Q23_a_drain_of_one_conversation_takes_its_failed_messages) {
  struct post post;
  begin(&post, MSGQ_MODE_MANUAL);
  set_online(&post.scene);
  msgq_report report = drain_failed(&post, "ben");
  CHECK(report.sent == 1 && report.put_back == 1 && report.remaining_failed == 0);
  CHECK_NUMBER(2, counts_of(&post.scene, NULL).failed);
  report = drain_failed(&post, "nobody");
  CHECK(report.stop == MSGQ_STOP_EMPTY && report.put_back == 0);
  post_end(&post);
}

TEST(Q23_offline_or_paused_the_failed_messages_stay_failed) {
  struct post post;
  char path[128];
  begin(&post, MSGQ_MODE_MANUAL);
  msgq_report report = drain_failed(&post, NULL);
  CHECK(report.stop == MSGQ_STOP_OFFLINE && report.put_back == 0 && report.remaining_failed == 3);
  set_online(&post.scene);
  REQUIRE_OK(msgq_pause(post.scene.queue, NULL));
  report = drain_failed(&post, NULL);
  CHECK(report.stop == MSGQ_STOP_PAUSED && report.put_back == 0 && report.remaining_failed == 3);
  REQUIRE_OK(msgq_resume(post.scene.queue, NULL));
  REQUIRE_OK(msgq_pause(post.scene.queue, "ana"));
  report = drain_failed(&post, "ana");
  CHECK(report.stop == MSGQ_STOP_PAUSED && report.put_back == 0);
  journal_path(&post.scene.journal, "m1", path, sizeof path);
  CHECK_TEXT("none>queued>sending>failed", path);
  /* What is not paused is sent. */
  report = drain_failed(&post, NULL);
  CHECK(report.sent == 1 && report.put_back == 1 && report.remaining_failed == 2);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "m1"));
  post_end(&post);
}

static void drained(void *context, const msgq_report *report) { *(msgq_report *)context = *report; }

TEST(Q23_a_drain_with_the_failed_messages_does_not_join_one_without) {
  struct post post;
  msgq_report with = MSGQ_REPORT_INIT, without = MSGQ_REPORT_INIT, joined = MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  begin(&post, MSGQ_MODE_MANUAL);
  with.stop = without.stop = joined.stop = MSGQ_STOP_STARTED;
  receiver_hold(post.receiver, true);
  set_online(&post.scene);
  REQUIRE_OK(msgq_drain_async(post.scene.queue, &options, drained, &without));
  AWAIT(receiver_requests(post.receiver, "m4") == 1);
  options.include_failed = true;
  REQUIRE_OK(msgq_drain_async(post.scene.queue, &options, drained, &with));
  options.conversation = "ben";
  REQUIRE_OK(msgq_drain_async(post.scene.queue, &options, drained, &joined));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&post.scene, "m1"));
  receiver_hold(post.receiver, false);
  AWAIT(journal_count(&post.scene.journal, MSGQ_EVENT_DRAIN_FINISHED) == 3);
  scene_close(&post.scene); /* the reports have been given */
  CHECK(without.sent == 2 && without.put_back == 0 && without.remaining_failed == 3);
  CHECK(with.sent == 3 && with.put_back == 3 && with.remaining_failed == 0);
  CHECK(memcmp(&with, &joined, sizeof with) == 0);
  post_end(&post);
}

TEST_LONG(Q23_many_failed_messages_are_put_back_before_the_first_is_sent) {
  enum { count = 600 };
  struct post post;
  char id[16];
  post_begin(&post);
  post.scene.options.mode = MSGQ_MODE_MANUAL;
  post_open(&post);
  receiver_answer(post.receiver, NULL, 400, count, NULL);
  for (int number = 0; number < count; number++) {
    snprintf(id, sizeof id, "m%d", number);
    put(&post.scene, id, "ana", "hello");
  }
  CHECK_NUMBER(count, drain(&post.scene).failed);
  msgq_report report = drain_failed(&post, NULL);
  CHECK(report.sent == count && report.put_back == count && report.remaining_failed == 0);
  post_end(&post);
}

/* More than one transaction puts back. */
enum { many_failed = 300 };

/* Makes a store with failed messages and closes it. */
static void fill_with_failed(struct scene *scene, struct stub *stub, struct snapshot *before) {
  char id[16];
  stub_begin_open(stub, scene, MSGQ_VERDICT_REJECT);
  for (int number = 0; number < many_failed; number++) {
    snprintf(id, sizeof id, "m%03d", number);
    put(scene, id, "ana", "hello");
  }
  CHECK_NUMBER(many_failed, drain(scene).failed);
  scene_close(scene);
  stub->verdict = MSGQ_VERDICT_SENT;
  snapshot_take(before, scene->directory);
}

/* Returns how many are no longer failed; they must be the first ones. */
static unsigned put_back_of(struct scene *scene) {
  msgq_filter filter = MSGQ_FILTER_INIT;
  msgq_page *page = NULL;
  unsigned count = 0;
  filter.limit = many_failed;
  filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_QUEUED) | MSGQ_STATUS_BIT(MSGQ_STATUS_SENDING) | MSGQ_STATUS_BIT(MSGQ_STATUS_SENT) |
                    MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED);
  REQUIRE_OK(msgq_list(scene->queue, &filter, &page));
  CHECK_NUMBER(many_failed, msgq_list_size(page));
  while (count < msgq_list_size(page) && msgq_list_at(page, count)->status != MSGQ_STATUS_FAILED) count++;
  for (size_t index = count; index < msgq_list_size(page); index++) {
    if (!CHECK(msgq_list_at(page, index)->status == MSGQ_STATUS_FAILED)) break;
  }
  msgq_list_free(page);
  return count;
}

TEST_LONG(Q23_a_store_that_rejects_writes_ends_the_drain_and_leaves_a_whole_prefix) {
  struct scene scene;
  struct stub stub;
  struct snapshot before;
  unsigned none = 0, some = 0;
  fill_with_failed(&scene, &stub, &before);
  for (int number = 1; number <= 41; number += check_times(2, 8)) {
    snapshot_restore(&before, scene.directory);
    stub_open(&stub, &scene);
    atomic_store(&stub.calls, 0);
    fault_error(scene.directory, number, 1 << 30, ENOSPC);
    msgq_report report = drain_with_failed(scene.queue, NULL);
    bool has_failed = fault_errors() > 0;
    if (has_failed) CHECK_NUMBER(MSGQ_STOP_STORAGE, report.stop);
    /* Whether the last transaction is on the disk is not known if its flush failed. Each puts 256 messages back, or those that are left. */
    uint64_t put_back = put_back_of(&scene);
    bool is_unknown = state_of(&scene).storage == MSGQ_UNKNOWN && put_back > report.put_back;
    uint64_t left = many_failed - report.put_back;
    CHECK_NUMBER(report.put_back + (is_unknown ? (left < 256 ? left : 256) : 0), put_back);
    none += has_failed && report.put_back == 0;
    some += has_failed && report.put_back > 0;
    fault_error("", 0, 0, 0);
    if (atomic_load(&stub.calls) > 0) {
      /* All were put back. That a close reports lost outcomes is not the subject. */
      (void)msgq_close(scene.queue, check_timeout_ms());
      scene.queue = NULL;
      break;
    }
    scene_close(&scene);
    stub_open(&stub, &scene);
    report = drain_with_failed(scene.queue, NULL);
    CHECK(report.remaining == 0 && report.remaining_failed == 0);
    CHECK_NUMBER(many_failed, counts_of(&scene, NULL).sent);
    scene_close(&scene);
  }
  CHECK(none > 0 && some > 0);
  snapshot_free(&before);
  scene_end(&scene);
}

TEST_LONG(Q23_a_kill_during_the_drain_leaves_a_whole_prefix) {
  struct scene scene;
  struct stub stub;
  struct snapshot before;
  unsigned kills = 0, puts = 0;
  fill_with_failed(&scene, &stub, &before);
  for (int number = 1; number <= 41; number += check_times(4, 8)) {
    snapshot_restore(&before, scene.directory);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      stub_open(&stub, &scene);
      fault_change(scene.directory, number);
      drain_with_failed(scene.queue, NULL);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    kills += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    stub_open(&stub, &scene);
    unsigned back = put_back_of(&scene);
    puts += back > 0;
    msgq_report report = drain_with_failed(scene.queue, NULL);
    CHECK_NUMBER(many_failed - back, report.put_back);
    CHECK(report.remaining == 0 && report.remaining_failed == 0);
    CHECK_NUMBER(many_failed, counts_of(&scene, NULL).sent);
    scene_close(&scene);
  }
  CHECK(kills == (unsigned)check_times(11, 6) && puts > 0 && puts < kills);
  snapshot_free(&before);
  scene_end(&scene);
}
