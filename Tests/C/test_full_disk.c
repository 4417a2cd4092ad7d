/* A full disk: enqueue is refused, everything that sends or frees space works, and nothing is sent twice. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "stores.h"
#include "stub.h"

/* Mounts a tmpfs on the directory of the scene, in a mount namespace that ends with the process. */
static void begin_small_disk(struct scene *scene, const char *size) {
  char options[64];
  snprintf(options, sizeof options, "size=%s,mode=0700", size);
  scene_begin(scene);
  bool mounted = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                 mount("small", scene->directory, "tmpfs", 0, options) == 0;
  if (!mounted) {
    scene_end(scene);
    SKIP("mounting a small disk needs root");
  }
}

static void end_small_disk(struct scene *scene) {
  if (scene->queue != NULL) scene_close(scene);
  CHECK(umount2(scene->directory, MNT_DETACH) == 0);
  scene_end(scene);
}

/* Fills the disk to the last byte. */
static void fill_disk(struct scene *scene) {
  static char block[4096];
  int file = open(scene_file(scene, "filler"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  REQUIRE(file >= 0);
  for (size_t size = sizeof block; size > 0; size /= 2) {
    while (write(file, block, size) == (ssize_t)size) continue;
  }
  close(file);
}

static void empty_disk(struct scene *scene) { CHECK(unlink(scene_file(scene, "filler")) == 0); }

static msgq_result enqueue(struct scene *scene, const char *id, size_t size) {
  static const char body[16384];
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = "ana";
  draft.body = body;
  draft.body_size = size;
  return msgq_enqueue(scene->queue, &draft, NULL);
}

/* Enqueues until the disk is full; returns the number of accepted messages. */
static unsigned enqueue_until_full(struct scene *scene) {
  for (unsigned number = 1;; number++) {
    char id[16];
    snprintf(id, sizeof id, "m%u", number);
    msgq_result result = enqueue(scene, id, 2000);
    if (result == MSGQ_OK) continue;
    CHECK_NUMBER(MSGQ_STORAGE, result);
    CHECK(strstr(msgq_error_detail(), "full") != NULL);
    return number - 1;
  }
}

static size_t listed(struct scene *scene) {
  size_t total = 0;
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.limit = 1000;
  msgq_page *list = NULL;
  CHECK_RESULT(MSGQ_OK, msgq_list(scene->queue, &filter, &list));
  total = msgq_list_size(list);
  msgq_list_free(list);
  return total;
}

static void check_full(struct scene *scene) {
  CHECK_RESULT(MSGQ_STORAGE, enqueue(scene, "too much", 2000));
  CHECK_NUMBER(-1, status_of(scene, "too much"));
}

static void check_body_size(struct scene *scene, const char *id, size_t expected) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  CHECK_NUMBER(expected, message->body_size);
  msgq_message_free(message);
}

/* A truncation of the database would release the blocks reserved after its end, and another program could take them. */
TEST_LONG(D9_a_checkpoint_does_not_release_the_reserved_space) {
  struct scene scene;
  struct stat before, after;
  scene_begin_open(&scene);
  REQUIRE_OK(enqueue(&scene, "first", 2000)); /* the first change of a session is checkpointed at once */
  CHECK(stat(scene.path, &before) == 0);
  atomic_store(&fault_truncations, 0);
  for (int i = 0; i < check_times(4000, 1000); i++) REQUIRE_OK(enqueue(&scene, NULL, (size_t)check_times(2000, 8000)));
  CHECK(stat(scene.path, &after) == 0);
  CHECK(after.st_size > before.st_size + (2 << 20)); /* the log was copied to the database */
  CHECK_NUMBER(0, atomic_load(&fault_truncations));
  scene_end(&scene);
}

TEST_ALONE(D9_a_full_disk_refuses_enqueue_and_everything_else_works) {
  struct scene scene;
  struct stub stub;
  begin_small_disk(&scene, "768k");
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene_open(&scene);
  msgq_draft received = MSGQ_DRAFT_INIT;
  static char large[400000];
  received.id = "received";
  REQUIRE_OK(msgq_record(scene.queue, &received, "eve", NULL));
  unsigned count = enqueue_until_full(&scene);
  CHECK(count >= 20);
  fill_disk(&scene);
  check_full(&scene);
  /* An update that needs more is refused, and changes nothing; one that does not is possible. */
  received.body = large;
  received.body_size = sizeof large;
  CHECK_RESULT(MSGQ_STORAGE, msgq_update(scene.queue, "received", &received));
  check_body_size(&scene, "received", 0);
  received.body_size = 0;
  CHECK_RESULT(MSGQ_OK, msgq_update(scene.queue, "received", &received));
  CHECK_NUMBER(count, listed(&scene));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "m1"));
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "m2", "shorter", 7));
  CHECK_NUMBER(count - 1, listed(&scene));
  scene_close(&scene);
  fill_disk(&scene); /* the close deleted the log */
  scene_open(&scene);
  check_full(&scene);
  CHECK_NUMBER(count - 1, listed(&scene));
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(count - 1, drain(&scene).sent);
  CHECK_NUMBER(count - 1, atomic_load(&stub.calls));
  scene_close(&scene);
  /* All outcomes were stored, so nothing is sent again. */
  empty_disk(&scene);
  stub_open(&stub, &scene);
  CHECK_NUMBER(count - 1, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(0, drain(&scene).sent);
  CHECK_NUMBER(count - 1, atomic_load(&stub.calls));
  REQUIRE_OK(enqueue(&scene, "after", 2000));
  end_small_disk(&scene);
}

TEST_ALONE(D9_a_queue_on_a_full_disk_accepts_messages_again_when_space_is_freed) {
  struct scene scene;
  begin_small_disk(&scene, "768k");
  scene_open(&scene);
  put_numbered(&scene, 1001, 1003);
  fill_disk(&scene);
  unsigned count = enqueue_until_full(&scene); /* reserved space can still be used */
  check_full(&scene);
  empty_disk(&scene);
  REQUIRE_OK(enqueue(&scene, "again", 2000));
  CHECK_NUMBER(count + 4, listed(&scene));
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(count + 4, listed(&scene));
  end_small_disk(&scene);
}

TEST_ALONE(D9_a_full_disk_can_be_cleared) {
  struct scene scene;
  begin_small_disk(&scene, "768k");
  scene_open(&scene);
  CHECK(enqueue_until_full(&scene) >= 20);
  fill_disk(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, "ana"));
  CHECK_NUMBER(0, listed(&scene));
  REQUIRE_OK(enqueue(&scene, "in the freed space", 2000));
  end_small_disk(&scene);
}

TEST_ALONE(D9_a_crash_on_a_full_disk_loses_nothing_and_sends_nothing_twice) {
  struct scene scene;
  struct stub stub;
  begin_small_disk(&scene, "768k");
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  crash_after(&scene, 1, 40);
  fill_disk(&scene);
  scene_open(&scene);
  check_numbered(&scene, 1, 40);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(40, drain(&scene).sent);
  scene_close(&scene);
  stub_open(&stub, &scene);
  CHECK_NUMBER(0, drain(&scene).sent);
  CHECK_NUMBER(40, atomic_load(&stub.calls));
  end_small_disk(&scene);
}

/* Enqueues messages of several conversations, `size` to 4 * `size` bytes each, until the disk is full; returns their number. */
static unsigned enqueue_small_until_full(struct scene *scene, size_t size) {
  static const char *const conversations[] = {"ana", "ben", "cem", "dana", "eve"};
  static const char body[16384];
  for (unsigned number = 0;; number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = conversations[number % 5];
    draft.body = body;
    draft.body_size = size + number * 37 % (3 * size + 1);
    msgq_result result = msgq_enqueue(scene->queue, &draft, NULL);
    if (result == MSGQ_OK) continue;
    CHECK_NUMBER(MSGQ_STORAGE, result);
    return number;
  }
}

/* Checks that all messages of a full disk are sent or fail, and that closing and opening keep the outcomes. */
static void check_small_disk_drains(const char *disk, size_t size, msgq_verdict verdict, bool is_filled) {
  struct scene scene;
  struct stub stub;
  begin_small_disk(&scene, disk);
  stub_begin(&stub, verdict);
  scene_open(&scene);
  unsigned count = enqueue_small_until_full(&scene, size);
  if (is_filled) fill_disk(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  msgq_report report = drain(&scene);
  CHECK_NUMBER(MSGQ_STOP_EMPTY, report.stop);
  CHECK_NUMBER(count, verdict == MSGQ_VERDICT_SENT ? report.sent : report.failed);
  CHECK_NUMBER(count, atomic_load(&stub.calls));
  scene_close(&scene);
  stub_open(&stub, &scene);
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK_NUMBER(count, verdict == MSGQ_VERDICT_SENT ? counts.sent : counts.failed);
  CHECK_NUMBER(0, drain(&scene).sent);
  CHECK_NUMBER(count, atomic_load(&stub.calls));
  end_small_disk(&scene);
}

TEST_ALONE(D9_a_drain_sends_all_small_messages_of_a_full_disk) {
  check_small_disk_drains("1m", 100, MSGQ_VERDICT_SENT, false);
  check_small_disk_drains("1m", 200, MSGQ_VERDICT_REJECT, false);
  check_small_disk_drains("768k", 50, MSGQ_VERDICT_SENT, true);
  check_small_disk_drains("3m", 20, MSGQ_VERDICT_REJECT, true);
}

/* After the second open the log is empty and can grow only into the reserved space. */
static unsigned reopen_on_full_disk(struct scene *scene, const char *disk, size_t size) {
  begin_small_disk(scene, disk);
  scene_open(scene);
  unsigned count = enqueue_small_until_full(scene, size);
  fill_disk(scene);
  scene_close(scene);
  fill_disk(scene);
  scene_open(scene);
  return count;
}

TEST_ALONE(D9_failed_messages_are_retried_together_on_a_full_disk) {
  struct scene scene;
  struct stub stub;
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  unsigned count = reopen_on_full_disk(&scene, "8m", 250);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(count, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_SENT;
  scene_close(&scene);
  fill_disk(&scene);
  stub_open(&stub, &scene);
  uint64_t again = 0;
  CHECK_RESULT(MSGQ_OK, msgq_retry_all(scene.queue, NULL, &again));
  CHECK_NUMBER(count, again);
  drain(&scene);
  CHECK_NUMBER(count, counts_of(&scene, NULL).sent);
  end_small_disk(&scene);
}

TEST_ALONE(D9_a_full_disk_of_large_messages_can_be_cleared_after_opening) {
  struct scene scene;
  unsigned count = reopen_on_full_disk(&scene, "16m", 4000);
  CHECK(count > 100);
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
  CHECK_NUMBER(0, listed(&scene));
  REQUIRE_OK(enqueue(&scene, "in the freed space", 2000));
  end_small_disk(&scene);
}

/* Returns a body of so many bytes, which the program keeps. */
static void *large_body(size_t size) {
  static char body[4 << 20];
  REQUIRE(size <= sizeof body);
  memset(body, 'b', size);
  return body;
}

/* Opens a queue with one large message and a small one, which has enough space, and fills the disk. `sent`: both are sent before. */
static void fill_after_opening(struct scene *scene, struct stub *stub, const char *disk, size_t size, bool sent) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "large";
  draft.body = large_body(size);
  draft.body_size = size;
  begin_small_disk(scene, disk);
  stub_begin(stub, MSGQ_VERDICT_SENT);
  scene->options.limit_body = 4 << 20;
  stub_open(stub, scene);
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
  REQUIRE_OK(enqueue(scene, "small", 5));
  if (sent) CHECK_NUMBER(2, drain(scene).sent);
  scene_close(scene);
  stub_open(stub, scene);
  fill_disk(scene);
}

TEST_ALONE(D9_what_a_queue_has_can_be_deleted_when_the_disk_fills_after_its_opening) {
  static const size_t sizes[] = { 5, 20000, 400000, 4 << 20 };
  for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
    for (int variant = 0; variant < 4; variant++) {
      struct scene scene;
      struct stub stub;
      fill_after_opening(&scene, &stub, "40m", sizes[index], variant % 2 == 1);
      if (variant >= 2) {
        scene_close(&scene);
        fill_disk(&scene);
        stub_open(&stub, &scene);
      }
      CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "large"));
      CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "small"));
      CHECK_NUMBER(0, listed(&scene));
      end_small_disk(&scene);
    }
  }
}

TEST_ALONE(D9_what_a_queue_has_can_be_cleared_when_the_disk_fills_after_its_opening) {
  struct scene scene;
  struct stub stub;
  fill_after_opening(&scene, &stub, "8m", 400000, false);
  CHECK_RESULT(MSGQ_OK, msgq_clear(scene.queue, NULL));
  CHECK_NUMBER(0, listed(&scene));
  end_small_disk(&scene);
}

/* With so much space a closed store keeps nothing reserved. */
TEST_ALONE(D9_a_queue_sends_when_a_large_disk_fills_after_its_opening) {
  struct scene scene;
  struct stub stub;
  fill_after_opening(&scene, &stub, "300m", 20000, false);
  CHECK_NUMBER(2, drain(&scene).sent);
  CHECK_NUMBER(2, atomic_load(&stub.calls));
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(2, counts_of(&scene, NULL).sent);
  end_small_disk(&scene);
}

/* The text would take the space with which the others are sent and deleted. */
TEST_ALONE(D9_an_edit_leaves_the_space_that_is_reserved_for_sending) {
  for (size_t size = 104000; size <= 260000; size += 12000) {
    struct scene scene;
    struct stub stub;
    begin_small_disk(&scene, "8m");
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    stub_open(&stub, &scene);
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.id = "large";
    draft.conversation = "large";
    draft.body = large_body(100000);
    draft.body_size = 100000;
    REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
    for (int number = 0; number < 10; number++) {
      char id[16];
      snprintf(id, sizeof id, "m%d", number);
      REQUIRE_OK(enqueue(&scene, id, 200));
    }
    fill_disk(&scene);
    msgq_result edited = msgq_edit(scene.queue, "large", large_body(size), size);
    CHECK(edited == MSGQ_OK || edited == MSGQ_STORAGE);
    CHECK(size < 200000 || edited == MSGQ_STORAGE);
    if (edited != MSGQ_OK) check_body_size(&scene, "large", 100000);
    CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "m0"));
    CHECK_NUMBER(10, drain(&scene).sent);
    CHECK_NUMBER(10, atomic_load(&stub.calls));
    scene_close(&scene);
    empty_disk(&scene);
    stub_open(&stub, &scene);
    CHECK_NUMBER(10, counts_of(&scene, NULL).sent);
    CHECK_NUMBER(0, drain(&scene).sent);
    CHECK_NUMBER(10, atomic_load(&stub.calls));
    end_small_disk(&scene);
  }
}

TEST_ALONE(H13_a_conversation_can_be_deleted_on_a_full_disk) {
  struct scene scene;
  uint64_t deleted = 0;
  unsigned count = reopen_on_full_disk(&scene, "8m", 1000);
  REQUIRE(count > 100);
  REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", &deleted));
  CHECK_NUMBER(count, deleted + listed(&scene));
  CHECK_NUMBER(0, (int64_t)counts_of(&scene, "ana").queued);
  REQUIRE_OK(enqueue(&scene, "in the freed space", 2000));
  end_small_disk(&scene);
}

TEST_ALONE(H13_failed_messages_can_be_cleared_on_a_full_disk) {
  struct scene scene;
  struct stub stub;
  uint64_t deleted = 0;
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  unsigned count = reopen_on_full_disk(&scene, "8m", 1000);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(count, drain(&scene).failed);
  fill_disk(&scene);
  REQUIRE_OK(msgq_clear_failed(scene.queue, NULL, &deleted));
  CHECK_NUMBER(count, deleted);
  CHECK_NUMBER(0, (int64_t)counts_of(&scene, NULL).failed);
  end_small_disk(&scene);
}

/* Titles do not take the room that is reserved for outcomes. */
TEST_ALONE(H14_titles_on_a_full_disk_are_refused_or_kept_and_everything_is_sent) {
  struct scene scene;
  struct stub stub;
  char title[256], kept[256] = "";
  begin_small_disk(&scene, "768k");
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene_open(&scene);
  unsigned count = enqueue_until_full(&scene);
  fill_disk(&scene);
  for (int round = 0; round < 500; round++) {
    memset(title, 'a' + round % 26, 255);
    title[255] = '\0';
    msgq_result result = msgq_set_title(scene.queue, "ana", title);
    if (result == MSGQ_OK) strcpy(kept, title);
    else CHECK(result == MSGQ_STORAGE && strstr(msgq_error_detail(), "full") != NULL);
  }
  scene_close(&scene);
  fill_disk(&scene);
  stub_open(&stub, &scene);
  msgq_conversation_page *page = NULL;
  REQUIRE_OK(msgq_conversations(scene.queue, 0, 0, &page));
  const char *found = msgq_conversations_at(page, 0)->title;
  CHECK_TEXT(kept, found == NULL ? "" : found);
  msgq_conversations_free(page);
  CHECK_RESULT(MSGQ_OK, msgq_set_title(scene.queue, "ana", NULL));
  CHECK_NUMBER(count, drain(&scene).sent);
  end_small_disk(&scene);
}

/* The reserved space includes index entries and counts of long names, and metadata. The close writes all of them. */
TEST_ALONE(D9_messages_with_long_names_and_metadata_are_sent_on_a_full_disk) {
  enum { batch = 20 };
  struct scene scene;
  struct stub stub;
  unsigned count = 0;
  char names[batch][256], value[501];
  msgq_pair pair = { "key", value };
  memset(value, 'v', sizeof value - 1);
  value[sizeof value - 1] = '\0';
  begin_small_disk(&scene, "1m");
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene_open(&scene);
  for (msgq_result result = MSGQ_OK; result == MSGQ_OK;) {
    msgq_draft drafts[batch];
    for (unsigned index = 0; index < batch; index++) {
      drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
      snprintf(names[index], sizeof names[index], "%0200u", count + index);
      drafts[index].conversation = names[index];
      drafts[index].metadata = &pair;
      drafts[index].metadata_count = 1;
      drafts[index].body = "";
    }
    result = msgq_enqueue_batch(scene.queue, drafts, batch, NULL);
    if (result == MSGQ_OK) count += batch;
  }
  CHECK(count > 0);
  fill_disk(&scene);
  scene_close(&scene);
  fill_disk(&scene);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(count, drain(&scene).sent);
  end_small_disk(&scene);
}

/* Enqueues a batch on a disk with little space for it. When it is accepted, all can be sent, and the queue can be closed. Returns whether
   it was accepted. */
static bool send_batch_on_small_disk(const char *disk, size_t count) {
  static const char body[1010];
  static msgq_draft drafts[4000];
  struct scene scene;
  struct stub stub;
  begin_small_disk(&scene, disk);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene_open(&scene);
  put_numbered(&scene, 1, 4);
  for (size_t index = 0; index < count; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].body = body;
    drafts[index].body_size = sizeof body;
  }
  msgq_result result = msgq_enqueue_batch(scene.queue, drafts, count, NULL);
  CHECK(result == MSGQ_OK || result == MSGQ_STORAGE);
  size_t queued = 4 + (result == MSGQ_OK ? count : 0);
  CHECK_NUMBER(queued, counts_of(&scene, NULL).queued);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(queued, drain(&scene).sent);
  CHECK_NUMBER(queued, atomic_load(&stub.calls));
  end_small_disk(&scene);
  return result == MSGQ_OK;
}

TEST_ALONE(D9_a_batch_that_was_accepted_on_a_nearly_full_disk_is_sent) {
  unsigned accepted = 0, refused = 0;
  for (size_t count = 1800; count <= 2800; count += 100) {
    if (send_batch_on_small_disk("8m", count)) accepted++; else refused++;
  }
  CHECK(accepted > 0);
  CHECK(refused > 0);
}

/* Sets the largest size of a file. Returns the limit before. */
static struct rlimit limit_files(size_t bytes) {
  struct rlimit before, small;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  small = before;
  small.rlim_cur = bytes;
  signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  return before;
}

/* `ulimit -f`, set before the queue is opened: messages are accepted until a file cannot grow, and all of them are sent. */
static void fill_and_send_with_files_of(size_t bytes) {
  struct scene scene;
  struct stub stub;
  size_t count = 0;
  msgq_result result;
  scene_begin(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  struct rlimit before = limit_files(bytes);
  scene_open(&scene);
  while ((result = enqueue(&scene, NULL, 500)) == MSGQ_OK && count < 2000) count++;
  CHECK_RESULT(MSGQ_STORAGE, result);
  CHECK(strstr(msgq_error_detail(), "full") != NULL);
  CHECK(count > 0 || bytes < 320 << 10);
  CHECK_NUMBER(count, counts_of(&scene, NULL).queued);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  msgq_report report = drain(&scene);
  CHECK_NUMBER(MSGQ_STOP_EMPTY, report.stop);
  CHECK_NUMBER(count, report.sent);
  CHECK_NUMBER(count, atomic_load(&stub.calls));
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(count, counts_of(&scene, NULL).sent);
  setrlimit(RLIMIT_FSIZE, &before);
  scene_end(&scene);
}

TEST_ALONE(D9_with_small_files_enqueue_is_refused_and_what_is_queued_is_sent) {
  for (size_t kibibytes = 96; kibibytes <= 640; kibibytes += check_times(64, 128)) fill_and_send_with_files_of(kibibytes << 10);
}

/* The limit comes after the messages: the log may reach it again and again, and is then written from its beginning. */
static void send_backlog_with_files_of(size_t bytes) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 60);
  scene_close(&scene);
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  struct rlimit before = limit_files(bytes);
  scene_open(&scene);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  CHECK_NUMBER(60, drain(&scene).sent);
  scene_close(&scene);
  setrlimit(RLIMIT_FSIZE, &before);
  scene_end(&scene);
}

TEST_ALONE(D9_with_small_files_a_drain_of_an_older_backlog_goes_on) {
  for (size_t kibibytes = 96; kibibytes <= 256; kibibytes += 32) send_backlog_with_files_of(kibibytes << 10);
}

/* A limit on the size of files needs no root, unlike a small disk. */
TEST_ALONE(D9_a_file_size_limit_refuses_enqueue_and_loses_nothing) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_numbered(&scene, 1, 5);
  struct rlimit before = forbid_growth(&scene);
  msgq_result enqueued = enqueue(&scene, "x", 8000);
  size_t count = listed(&scene);
  msgq_report report = MSGQ_REPORT_INIT;
  msgq_result drained = msgq_drain(scene.queue, NULL, &report);
  int calls = atomic_load(&stub.calls);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK_RESULT(MSGQ_STORAGE, enqueued);
  CHECK_NUMBER(5, count);
  CHECK_NUMBER(MSGQ_OK, drained);
  CHECK_NUMBER(MSGQ_STOP_STORAGE, report.stop);
  CHECK_NUMBER(0, calls);
  scene_close(&scene);
  stub_open(&stub, &scene);
  CHECK_NUMBER(count, drain(&scene).sent);
  CHECK_NUMBER(count, atomic_load(&stub.calls));
  scene_end(&scene);
}

/* Records `count` messages "r<number>", every second one's own, and returns the result of the call. */
static msgq_result record_some(struct scene *scene, size_t count, msgq_result *results) {
  static const char body[2000];
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  const char **senders = calloc(count, sizeof *senders);
  char(*ids)[24] = calloc(count, sizeof *ids);
  REQUIRE(drafts != NULL && senders != NULL && ids != NULL);
  for (size_t index = 0; index < count; index++) {
    snprintf(ids[index], sizeof ids[index], "r%zu", index);
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].id = ids[index];
    drafts[index].conversation = "ana";
    drafts[index].body = body;
    drafts[index].body_size = sizeof body;
    senders[index] = index % 2 == 0 ? "Ana" : NULL;
  }
  msgq_result result = msgq_record_batch(scene->queue, drafts, senders, count, results);
  free(drafts);
  free(senders);
  free(ids);
  return result;
}

TEST_ALONE(H12_on_a_full_disk_nothing_of_a_batch_is_recorded_and_receipts_work) {
  enum { count = 200, before = 20 };
  struct scene scene;
  msgq_result results[count];
  begin_small_disk(&scene, "4m");
  scene_open(&scene);
  REQUIRE_OK(record_some(&scene, before, NULL));
  fill_disk(&scene);
  for (size_t index = 0; index < count; index++) results[index] = MSGQ_INTERNAL;
  for (int round = 0; round < 3; round++) {
    CHECK_RESULT(MSGQ_STORAGE, record_some(&scene, count, results));
    CHECK(strstr(msgq_error_detail(), "full") != NULL);
    CHECK(results[0] == MSGQ_INTERNAL && results[count - 1] == MSGQ_INTERNAL);
    msgq_counts counts = counts_of(&scene, NULL);
    CHECK(counts.received == before / 2 && counts.sent == before / 2);
  }
  /* What is there needs no room, and receipts have theirs. */
  CHECK_RESULT(MSGQ_OK, record_some(&scene, before, results));
  CHECK_RESULT(MSGQ_OK, results[before - 1]);
  CHECK_RESULT(MSGQ_OK, msgq_mark_batch(scene.queue, (const char *[]) { "r0", "r1", "r2" }, 3, MSGQ_STATUS_READ, NULL));
  uint64_t marked = 0;
  CHECK_RESULT(MSGQ_OK, msgq_mark_up_to(scene.queue, "r18", MSGQ_STATUS_READ, &marked));
  CHECK_NUMBER(before / 2 - 2, marked);
  CHECK_NUMBER(0, counts_of(&scene, NULL).unread);
  empty_disk(&scene);
  CHECK_RESULT(MSGQ_OK, record_some(&scene, count, results));
  for (size_t index = 0; index < count; index++) CHECK_RESULT(MSGQ_OK, results[index]);
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.received == count / 2 && counts.sent + counts.read == count / 2);
  end_small_disk(&scene);
}

/* When not even one message has room, the call says so and has changed nothing. */
TEST(H12_D9_a_receipt_without_any_room_is_refused) {
  struct scene scene;
  uint64_t marked = 7;
  scene_begin_open(&scene);
  REQUIRE_OK(record_some(&scene, 200, NULL));
  /* The first change after an opening fails before anything is written to the log, which would be flushed. */
  scene_close(&scene);
  scene_open(&scene);
  fault_error(scene.directory, 1, 1 << 30, ENOSPC);
  CHECK_RESULT(MSGQ_STORAGE, msgq_mark_up_to(scene.queue, "r198", MSGQ_STATUS_READ, &marked));
  CHECK(strstr(msgq_error_detail(), "No space left") != NULL);
  CHECK_RESULT(MSGQ_STORAGE, msgq_mark_batch(scene.queue, (const char *[]) { "r0", "r2" }, 2, MSGQ_STATUS_READ, NULL));
  CHECK_RESULT(MSGQ_STORAGE, msgq_mark(scene.queue, "r0", MSGQ_STATUS_READ));
  CHECK(fault_errors() > 0);
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, status_of(&scene, "r0"));
  CHECK_NUMBER(100, counts_of(&scene, NULL).unread);
  fault_error("", 0, 0, 0);
  REQUIRE_OK(msgq_mark_up_to(scene.queue, "r198", MSGQ_STATUS_READ, &marked));
  CHECK_NUMBER(100, marked);
  scene_end(&scene);
}

/* The same for the other calls that go on with fewer messages in each transaction. */
TEST_LONG(D9_calls_for_many_messages_without_any_room_are_refused) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_REJECT);
  put_numbered(&scene, 1, 300);
  CHECK_NUMBER(300, drain(&scene).failed);
  fault_error(scene.directory, 1, 1 << 30, ENOSPC);
  CHECK_RESULT(MSGQ_STORAGE, msgq_retry_all(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_STORAGE, msgq_clear_failed(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_STORAGE, msgq_delete_conversation(scene.queue, "ana", NULL));
  CHECK(fault_errors() > 0);
  CHECK_NUMBER(300, counts_of(&scene, NULL).failed);
  fault_error("", 0, 0, 0);
  (void)msgq_close(scene.queue, check_timeout_ms()); /* a flush may have failed */
  stub_open(&stub, &scene);
  uint64_t count = 0;
  REQUIRE_OK(msgq_clear_failed(scene.queue, NULL, &count));
  CHECK_NUMBER(300, count);
  scene_end(&scene);
}

/* A message expires while its failure cannot be stored. Until it is, every change of the message is refused. */
TEST_LONG(Q11_D9_a_change_of_an_expired_message_waits_until_its_failure_is_stored) {
  struct scene scene;
  struct stub stub;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  msgq_state state = MSGQ_STATE_INIT;
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_MANUAL;
  scene.options.direct = false;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  draft.id = "a";
  draft.body = "hello";
  draft.body_size = 5;
  draft.expiry_ms = 500;
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  fault_error(scene.directory, 1, 1 << 30, ENOSPC);
  /* The timer has tried to store it. */
  AWAIT(msgq_get_state(scene.queue, &state) == MSGQ_OK && state.storage_trouble);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_RESULT(MSGQ_STORAGE, msgq_send_now(scene.queue, "a"));
  CHECK_RESULT(MSGQ_STORAGE, msgq_edit(scene.queue, "a", "other", 5));
  CHECK_RESULT(MSGQ_STORAGE, msgq_delete(scene.queue, "a"));
  fault_error("", 0, 0, 0);
  (void)msgq_close(scene.queue, check_timeout_ms()); /* a flush may have failed */
  stub_open(&stub, &scene);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_FAILED);
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  scene_end(&scene);
}

/* Reads all changes after a token, which becomes the last one. */
static msgq_result follow(struct scene *scene, char token[MSGQ_CHANGE_TOKEN_SIZE], size_t *count) {
  for (size_t size = 1; size > 0;) {
    msgq_change_page *page = NULL;
    msgq_result result = msgq_changes(scene->queue, token[0] == '\0' ? NULL : token, 1000, &page);
    if (result != MSGQ_OK) return result;
    size = msgq_changes_size(page);
    *count += size;
    snprintf(token, MSGQ_CHANGE_TOKEN_SIZE, "%s", msgq_changes_next(page));
    msgq_changes_free(page);
  }
  return MSGQ_OK;
}

/* The changes of these messages need more than the room that is reserved for them, because their names are as long as they can be and each is
   sent 20 times. Their outcomes are stored, and the feed says when changes are missing. */
TEST_ALONE(T7_on_a_full_disk_changes_do_not_take_the_room_of_outcomes) {
  struct scene scene;
  struct stub stub;
  char token[MSGQ_CHANGE_TOKEN_SIZE] = "", again[MSGQ_CHANGE_TOKEN_SIZE] = "", name[256];
  size_t count = 0, kept = 0, more = 0;
  uint64_t accepted = 0;
  begin_small_disk(&scene, "2m");
  scene.options.keep_changes = 1000000;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  for (msgq_result result = MSGQ_OK; result == MSGQ_OK;) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    snprintf(name, sizeof name, "%0255llu", (unsigned long long)accepted);
    draft.id = draft.conversation = name;
    result = msgq_enqueue(scene.queue, &draft, NULL);
    accepted += result == MSGQ_OK;
  }
  fill_disk(&scene);
  REQUIRE_OK(follow(&scene, token, &count));
  CHECK_NUMBER(accepted, count);
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.include_failed = true;
  enum { rounds = 20 };
  for (int round = 1; round <= rounds; round++) {
    msgq_report report = MSGQ_REPORT_INIT;
    stub.verdict = round < rounds ? MSGQ_VERDICT_REJECT : MSGQ_VERDICT_SENT;
    REQUIRE_OK(msgq_drain(scene.queue, &options, &report));
    CHECK_NUMBER(accepted, report.sent + report.failed);
  }
  CHECK_NUMBER(accepted, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(rounds * accepted, atomic_load(&stub.calls)); /* none was repeated */
  size_t rest = 0;
  msgq_result result = follow(&scene, token, &rest);
  if (result == MSGQ_OK) CHECK_NUMBER(accepted * (3 * rounds - 1), rest);
  else CHECK_RESULT(MSGQ_CONFLICT, result);
  REQUIRE_OK(follow(&scene, again, &kept));
  empty_disk(&scene);
  snprintf(name, sizeof name, "%0255d", 0);
  REQUIRE_OK(msgq_mark(scene.queue, name, MSGQ_STATUS_READ));
  REQUIRE_OK(follow(&scene, again, &more));
  CHECK_NUMBER(1, more);
  scene_close(&scene);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  REQUIRE_OK(msgq_check(scene.path, &report));
  if (!CHECK(report.sound)) fprintf(stderr, "  %s\n", report.text);
  end_small_disk(&scene);
}

static void send_all(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes) {
  atomic_int *calls = context;
  (void)deliveries;
  for (size_t index = 0; index < count; index++) outcomes[index].verdict = MSGQ_VERDICT_SENT;
  atomic_fetch_add(calls, (int)count);
}

/* Sends messages while the log takes no commit of more than so many bytes. Returns whether changes were left out. */
static bool feed_gave_way(size_t longest) {
  enum { messages = 16 };
  struct scene scene;
  atomic_int calls = 0;
  char token[MSGQ_CHANGE_TOKEN_SIZE] = "", again[MSGQ_CHANGE_TOKEN_SIZE] = "", name[256];
  size_t count = 0, rest = 0, kept = 0, more = 0;
  msgq_batch_options batches = MSGQ_BATCH_OPTIONS_INIT;
  msgq_report report = MSGQ_REPORT_INIT;
  scene_begin(&scene);
  scene.options.keep_changes = 1000;
  scene_open(&scene);
  batches.max_messages = messages;
  REQUIRE_OK(msgq_set_batch_transport(scene.queue, send_all, &calls, NULL, &batches));
  for (int number = 0; number < messages; number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    snprintf(name, sizeof name, "%0255d", number);
    draft.id = draft.conversation = name;
    REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  }
  REQUIRE_OK(follow(&scene, token, &count));
  CHECK_NUMBER(messages, count);
  fault_long_writes("-wal", longest);
  REQUIRE_OK(msgq_drain(scene.queue, NULL, &report));
  fault_long_writes("-wal", 0);
  CHECK_NUMBER(messages, atomic_load(&calls));
  CHECK_NUMBER(messages, report.sent);
  CHECK_NUMBER(messages, counts_of(&scene, NULL).sent);
  msgq_result result = follow(&scene, token, &rest);
  if (result == MSGQ_OK) CHECK_NUMBER(2 * messages, rest);
  else CHECK_RESULT(MSGQ_CONFLICT, result);
  REQUIRE_OK(follow(&scene, again, &kept));
  snprintf(name, sizeof name, "%0255d", 0);
  REQUIRE_OK(msgq_mark(scene.queue, name, MSGQ_STATUS_READ));
  REQUIRE_OK(follow(&scene, again, &more));
  CHECK_NUMBER(1, more);
  scene_end(&scene);
  return result != MSGQ_OK;
}

TEST_LONG(T7_outcomes_whose_changes_have_no_room_are_stored_without_them) {
  CHECK(!feed_gave_way(64 << 10));
  CHECK(feed_gave_way(24 << 10));
}
