/* H12: receipts of many messages in one call. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "faults.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

static void receive_at(struct scene *scene, const char *id, const char *conversation, int64_t time_ms) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = "hello";
  draft.body_size = 5;
  draft.time_ms = time_ms;
  REQUIRE_OK(msgq_record(scene->queue, &draft, "Ana", NULL));
}

static void receive(struct scene *scene, const char *id) { receive_at(scene, id, "ana", 0); }

/* Records one's own message of another device. */
static void own_at(struct scene *scene, const char *id, int64_t time_ms) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = "ana";
  draft.time_ms = time_ms;
  REQUIRE_OK(msgq_record_batch(scene->queue, &draft, NULL, 1, NULL));
}

/* Writes the ids of the messages with a status, in the order by time. */
static bool with_status(struct scene *scene, msgq_status status, const char *expected) {
  char text[512];
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.statuses = MSGQ_STATUS_BIT(status);
  filter.order = MSGQ_ORDER_TIME;
  ids_of(scene, &filter, text, sizeof text);
  if (strcmp(expected, text) == 0) return true;
  printf("\"%s\" instead of \"%s\"\n", text, expected);
  return false;
}

static uint64_t mark_up_to(struct scene *scene, const char *id, msgq_status status) {
  uint64_t count = 4711;
  REQUIRE_OK(msgq_mark_up_to(scene->queue, id, status, &count));
  return count;
}

TEST(H12_one_receipt_marks_many_messages) {
  struct scene scene;
  struct stub stub;
  char path[64];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_each(&scene, { "sent", "ana", "1" }, { "delivered", "ana", "2" }, { "read", "ana", "3" });
  CHECK_NUMBER(3, drain(&scene).sent);
  REQUIRE_OK(msgq_mark(scene.queue, "delivered", MSGQ_STATUS_DELIVERED));
  REQUIRE_OK(msgq_mark(scene.queue, "read", MSGQ_STATUS_READ));
  receive(&scene, "hers");
  own_at(&scene, "mine", 0);
  put(&scene, "queued", "ana", "4");
  const char *ids[] = { "sent", "nobody", "queued", "delivered", "read", "hers", "mine", "sent" };
  msgq_result results[8];
  REQUIRE_OK(msgq_mark_batch(scene.queue, ids, 8, MSGQ_STATUS_DELIVERED, results));
  const msgq_result expected[] = { MSGQ_OK, MSGQ_NOT_FOUND, MSGQ_CONFLICT, MSGQ_OK, MSGQ_OK, MSGQ_OK, MSGQ_OK, MSGQ_OK };
  for (int index = 0; index < 8; index++) CHECK_RESULT(expected[index], results[index]);
  CHECK(with_status(&scene, MSGQ_STATUS_DELIVERED, "sent delivered hers mine"));
  CHECK(with_status(&scene, MSGQ_STATUS_READ, "read"));
  CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).unread);
  REQUIRE_OK(msgq_mark_batch(scene.queue, ids, 8, MSGQ_STATUS_READ, NULL));
  CHECK(with_status(&scene, MSGQ_STATUS_READ, "sent delivered read hers mine"));
  CHECK(with_status(&scene, MSGQ_STATUS_QUEUED, "queued"));
  msgq_counts counts = counts_of(&scene, NULL);
  CHECK(counts.unread == 0 && counts.received == 1 && counts.read == 4 && counts.sent == 0 && counts.delivered == 0);
  /* A receipt that comes late changes nothing. */
  REQUIRE_OK(msgq_mark_batch(scene.queue, ids, 8, MSGQ_STATUS_DELIVERED, results));
  for (int index = 0; index < 8; index++) CHECK_RESULT(expected[index], results[index]);
  AWAIT(journal_reached(&scene.journal, "sent", MSGQ_STATUS_READ) && journal_reached(&scene.journal, "hers", MSGQ_STATUS_READ));
  journal_path(&scene.journal, "sent", path, sizeof path);
  CHECK_TEXT("none>queued>sending>sent>delivered>read", path);
  journal_path(&scene.journal, "hers", path, sizeof path);
  CHECK_TEXT("none>delivered>read", path);
  REQUIRE_OK(msgq_mark_batch(scene.queue, NULL, 0, MSGQ_STATUS_READ, NULL));
  scene_close(&scene);
  scene_open(&scene);
  CHECK(with_status(&scene, MSGQ_STATUS_READ, "sent delivered read hers mine"));
  scene_end(&scene);
}

TEST(H12_a_wrong_receipt_of_many_marks_nothing) {
  struct scene scene;
  char name[300];
  msgq_result results[2] = { MSGQ_INTERNAL, MSGQ_INTERNAL };
  memset(name, 'x', 299);
  name[299] = '\0';
  scene_begin_open(&scene);
  receive(&scene, "a");
  const char *ids[] = { "a", "a" };
  CHECK_RESULT(MSGQ_INVALID, msgq_mark_batch(NULL, ids, 2, MSGQ_STATUS_READ, results));
  CHECK_RESULT(MSGQ_INVALID, msgq_mark_batch(scene.queue, NULL, 2, MSGQ_STATUS_READ, results));
  const msgq_status statuses[] = { MSGQ_STATUS_QUEUED, MSGQ_STATUS_SENDING, MSGQ_STATUS_SENT, MSGQ_STATUS_FAILED, (msgq_status)99, (msgq_status)-1 };
  for (int index = 0; index < 6; index++) {
    CHECK_RESULT(MSGQ_INVALID, msgq_mark_batch(scene.queue, ids, 2, statuses[index], results));
    CHECK_RESULT(MSGQ_INVALID, msgq_mark_batch(scene.queue, NULL, 0, statuses[index], results));
    uint64_t count = 4711;
    CHECK_RESULT(MSGQ_INVALID, msgq_mark_up_to(scene.queue, "a", statuses[index], &count));
    CHECK_NUMBER(4711, count);
  }
  const char *wrong[] = { NULL, "", "\xff", "a\n", name };
  for (int index = 0; index < 5; index++) {
    uint64_t count = 4711;
    ids[1] = wrong[index];
    CHECK_RESULT(MSGQ_INVALID, msgq_mark_batch(scene.queue, ids, 2, MSGQ_STATUS_READ, results));
    CHECK(strncmp(msgq_error_detail(), "id 1: ", 6) == 0);
    CHECK_RESULT(MSGQ_INVALID, msgq_mark_up_to(scene.queue, wrong[index], MSGQ_STATUS_READ, &count));
    CHECK_NUMBER(4711, count);
  }
  const size_t counts[] = { SIZE_MAX, SIZE_MAX / 8 + 1, (size_t)INT64_MAX, 1000001 };
  for (int index = 0; index < 4; index++) {
    CHECK_RESULT(MSGQ_INVALID, msgq_mark_batch(scene.queue, ids, counts[index], MSGQ_STATUS_READ, results));
  }
  CHECK(results[0] == MSGQ_INTERNAL && results[1] == MSGQ_INTERNAL);
  CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).unread);
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_mark_up_to(scene.queue, "nobody", MSGQ_STATUS_READ, NULL));
  put(&scene, "queued", "ana", "x");
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark_up_to(scene.queue, "queued", MSGQ_STATUS_READ, NULL));
  CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).unread);
  scene_end(&scene);
}

TEST(H12_a_damaged_message_is_left_and_the_others_are_marked) {
  struct scene scene;
  msgq_result results[3];
  const char *ids[] = { "a", "b", "c" };
  scene_begin_open(&scene);
  for (int index = 0; index < 3; index++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    char body[32];
    snprintf(body, sizeof body, "the body of %s", ids[index]);
    draft.id = ids[index];
    draft.conversation = "ana";
    draft.body = body;
    draft.body_size = strlen(body);
    REQUIRE_OK(msgq_record(scene.queue, &draft, "Ana", NULL));
  }
  scene_close(&scene);
  file_flip(scene.path, file_find(scene.path, "the body of b", 0));
  scene_open(&scene);
  REQUIRE_OK(msgq_mark_batch(scene.queue, ids, 2, MSGQ_STATUS_READ, results));
  CHECK(results[0] == MSGQ_OK && results[1] == MSGQ_CORRUPT);
  CHECK_NUMBER(1, mark_up_to(&scene, "c", MSGQ_STATUS_READ));
  CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).unread);
  CHECK_RESULT(MSGQ_CORRUPT, msgq_mark_up_to(scene.queue, "b", MSGQ_STATUS_READ, NULL));
  scene_end(&scene);
}

TEST(H12_a_message_that_is_being_sent_is_not_marked) {
  struct scene scene;
  struct stub stub;
  msgq_result results[2];
  const char *ids[] = { "sent", "sending" };
  uint64_t count = 0;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  set_online(&scene);
  put(&scene, "sent", "ana", "1");
  CHECK_NUMBER(1, drain(&scene).sent);
  atomic_store(&stub.held, true);
  put(&scene, "sending", "ana", "2");
  REQUIRE_OK(msgq_send_now(scene.queue, "sending"));
  AWAIT(status_of(&scene, "sending") == MSGQ_STATUS_SENDING);
  REQUIRE_OK(msgq_mark_batch(scene.queue, ids, 2, MSGQ_STATUS_DELIVERED, results));
  CHECK(results[0] == MSGQ_OK && results[1] == MSGQ_CONFLICT);
  CHECK_RESULT(MSGQ_CONFLICT, msgq_mark_up_to(scene.queue, "sending", MSGQ_STATUS_READ, &count));
  CHECK_NUMBER(1, mark_up_to(&scene, "sent", MSGQ_STATUS_READ));
  atomic_store(&stub.held, false);
  AWAIT(status_of(&scene, "sending") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, mark_up_to(&scene, "sending", MSGQ_STATUS_READ));
  scene_end(&scene);
}

TEST(H12_read_up_to_a_received_message_marks_those_before_it) {
  struct scene scene;
  struct stub stub;
  char path[64];
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  receive(&scene, "a");
  put(&scene, "sent", "ana", "1");
  CHECK_NUMBER(1, drain(&scene).sent);
  own_at(&scene, "mine", 0);
  receive(&scene, "b");
  receive_at(&scene, "other", "ben", 0);
  put(&scene, "queued", "ana", "2");
  receive(&scene, "c");
  receive(&scene, "d");
  CHECK_NUMBER(0, mark_up_to(&scene, "c", MSGQ_STATUS_DELIVERED)); /* they are delivered */
  CHECK_NUMBER(3, mark_up_to(&scene, "c", MSGQ_STATUS_READ));
  CHECK(with_status(&scene, MSGQ_STATUS_READ, "a b c"));
  CHECK(with_status(&scene, MSGQ_STATUS_DELIVERED, "other d"));
  CHECK(with_status(&scene, MSGQ_STATUS_SENT, "sent mine"));
  CHECK(with_status(&scene, MSGQ_STATUS_QUEUED, "queued"));
  CHECK(counts_of(&scene, "ana").unread == 1 && counts_of(&scene, "ben").unread == 1);
  CHECK_NUMBER(0, mark_up_to(&scene, "c", MSGQ_STATUS_READ));
  CHECK_NUMBER(0, mark_up_to(&scene, "b", MSGQ_STATUS_READ));
  CHECK_NUMBER(1, mark_up_to(&scene, "d", MSGQ_STATUS_READ));
  AWAIT(journal_reached(&scene.journal, "a", MSGQ_STATUS_READ) && journal_reached(&scene.journal, "d", MSGQ_STATUS_READ));
  journal_path(&scene.journal, "a", path, sizeof path);
  CHECK_TEXT("none>delivered>read", path);
  REQUIRE_OK(msgq_mark_up_to(scene.queue, "other", MSGQ_STATUS_READ, NULL));
  CHECK_NUMBER(0, (int64_t)counts_of(&scene, NULL).unread);
  scene_end(&scene);
}

TEST(H12_a_receipt_up_to_an_own_message_marks_what_was_sent) {
  struct scene scene;
  struct stub stub;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_each(&scene, { "a", "ana", "1" }, { "b", "ana", "2" }, { "c", "ben", "3" });
  CHECK_NUMBER(3, drain(&scene).sent);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(&scene, "failed", "ana", "4");
  CHECK_NUMBER(1, drain(&scene).failed);
  stub.verdict = MSGQ_VERDICT_SENT;
  receive(&scene, "hers");
  own_at(&scene, "mine", 0);
  put(&scene, "d", "ana", "5");
  CHECK_NUMBER(1, drain(&scene).sent);
  CHECK_NUMBER(3, mark_up_to(&scene, "mine", MSGQ_STATUS_DELIVERED));
  CHECK(with_status(&scene, MSGQ_STATUS_DELIVERED, "a b hers mine"));
  CHECK(with_status(&scene, MSGQ_STATUS_SENT, "c d"));
  CHECK_NUMBER(2, mark_up_to(&scene, "b", MSGQ_STATUS_READ));
  CHECK_NUMBER(2, mark_up_to(&scene, "d", MSGQ_STATUS_READ));
  CHECK(with_status(&scene, MSGQ_STATUS_READ, "a b mine d"));
  CHECK(with_status(&scene, MSGQ_STATUS_DELIVERED, "hers")); /* the other side's */
  CHECK(with_status(&scene, MSGQ_STATUS_FAILED, "failed"));
  CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).unread);
  scene_end(&scene);
}

TEST(H12_up_to_here_is_the_order_by_time) {
  struct scene scene;
  scene_begin_open(&scene);
  receive_at(&scene, "today", "ana", 1700000005000);
  receive_at(&scene, "tomorrow", "ana", 1700000009000);
  receive_at(&scene, "last-week", "ana", 1600000001000); /* recorded after them, shown above them */
  receive_at(&scene, "same", "ana", 1700000005000);
  for (int round = 0; round < 2; round++) {
    CHECK_NUMBER(round == 0 ? 2 : 0, mark_up_to(&scene, "today", MSGQ_STATUS_READ));
    CHECK(with_status(&scene, MSGQ_STATUS_READ, "last-week today"));
    scene_close(&scene);
    scene_open(&scene);
  }
  CHECK_NUMBER(1, mark_up_to(&scene, "same", MSGQ_STATUS_READ));
  CHECK(with_status(&scene, MSGQ_STATUS_DELIVERED, "tomorrow"));
  scene_end(&scene);
}

/* Records received messages "m0", "m1" and so on, with times of their own if `timed`. */
static void receive_many(struct scene *scene, size_t count, bool timed) {
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  const char **senders = calloc(count, sizeof *senders);
  char(*ids)[24] = calloc(count, sizeof *ids);
  REQUIRE(drafts != NULL && senders != NULL && ids != NULL);
  for (size_t index = 0; index < count; index++) {
    snprintf(ids[index], sizeof ids[index], "m%zu", index);
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].id = ids[index];
    drafts[index].conversation = "ana";
    if (timed) drafts[index].time_ms = 1600000000000 + (int64_t)index;
    senders[index] = "Ana";
  }
  REQUIRE_OK(msgq_record_batch(scene->queue, drafts, senders, count, NULL));
  free(drafts);
  free(senders);
  free(ids);
}

struct marking {
  struct scene *scene;
  char id[16];
  uint64_t count;
  msgq_result result;
  atomic_bool has_ended;
};

static void *mark_in_thread(void *context) {
  struct marking *marking = context;
  marking->result = msgq_mark_up_to(marking->scene->queue, marking->id, MSGQ_STATUS_READ, &marking->count);
  atomic_store(&marking->has_ended, true);
  return NULL;
}

/* Many messages are marked in steps, the oldest first, and other calls run between them. */
TEST_LONG(H12_other_calls_run_while_many_messages_are_marked) {
  size_t count = (size_t)check_times(20000, 2000);
  for (int timed = 0; timed < 2; timed++) {
    struct scene scene;
    struct marking marking = { .scene = &scene, .count = 4711 };
    pthread_t thread;
    scene_begin(&scene);
    scene.options.keep_sent = 1000000;
    scene_open(&scene);
    receive_many(&scene, count, timed);
    snprintf(marking.id, sizeof marking.id, "m%zu", count - 2);
    REQUIRE(pthread_create(&thread, NULL, mark_in_thread, &marking) == 0);
    AWAIT(counts_of(&scene, NULL).unread < count || atomic_load(&marking.has_ended));
    bool meanwhile = false;
    while (!atomic_load(&marking.has_ended)) {
      uint64_t unread = counts_of(&scene, NULL).unread;
      meanwhile = meanwhile || (unread > 1 && unread < count);
    }
    CHECK(meanwhile);
    pthread_join(thread, NULL);
    CHECK_RESULT(MSGQ_OK, marking.result);
    CHECK_NUMBER(count - 1, marking.count);
    CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).unread);
    scene_end(&scene);
  }
}

TEST_ALONE(H12_a_kill_leaves_the_oldest_messages_marked) {
  size_t count = 1500;
  int step = check_times(3, 20);
  for (int number = 1;; number += step) {
    struct scene scene;
    char id[16];
    scene_begin_open(&scene);
    receive_many(&scene, count, true);
    scene_close(&scene);
    pid_t child = fork();
    if (child == 0) {
      scene_open(&scene);
      fault_change(scene.path, number);
      msgq_mark_up_to(scene.queue, "m1299", MSGQ_STATUS_READ, NULL);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    scene_open(&scene);
    uint64_t unread = counts_of(&scene, NULL).unread, marked = count - unread;
    CHECK(marked <= 1300 && (WIFSIGNALED(status) || marked == 1300));
    msgq_filter filter = MSGQ_FILTER_INIT;
    filter.statuses = MSGQ_STATUS_BIT(MSGQ_STATUS_DELIVERED);
    filter.limit = 1;
    msgq_page *page = NULL;
    REQUIRE_OK(msgq_list(scene.queue, &filter, &page));
    REQUIRE(msgq_list_size(page) == 1);
    snprintf(id, sizeof id, "m%llu", (unsigned long long)marked);
    CHECK_TEXT(id, msgq_list_at(page, 0)->id);
    msgq_list_free(page);
    CHECK_NUMBER(1300 - marked, mark_up_to(&scene, "m1299", MSGQ_STATUS_READ));
    scene_end(&scene);
    if (!WIFSIGNALED(status)) break;
    REQUIRE(number < 500);
  }
}

TEST_ALONE(H12_a_kill_leaves_all_receipts_of_a_batch_or_none) {
  enum { count = 300 };
  int step = check_times(1, 7);
  const char *ids[count];
  static char names[count][16];
  for (size_t index = 0; index < count; index++) {
    snprintf(names[index], sizeof names[index], "m%zu", index);
    ids[index] = names[index];
  }
  for (int number = 1;; number += step) {
    struct scene scene;
    scene_begin_open(&scene);
    receive_many(&scene, count, false);
    scene_close(&scene);
    pid_t child = fork();
    if (child == 0) {
      scene_open(&scene);
      fault_change(scene.path, number);
      msgq_mark_batch(scene.queue, ids, count, MSGQ_STATUS_READ, NULL);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    scene_open(&scene);
    uint64_t unread = counts_of(&scene, NULL).unread;
    CHECK((WIFSIGNALED(status) && unread == count) || unread == 0);
    REQUIRE_OK(msgq_mark_batch(scene.queue, ids, count, MSGQ_STATUS_READ, NULL));
    CHECK_NUMBER(0, (int64_t)counts_of(&scene, NULL).unread);
    scene_end(&scene);
    if (!WIFSIGNALED(status)) break;
    REQUIRE(number < 500);
  }
}

TEST_ALONE(H12_a_failed_write_marks_none_of_a_batch) {
  struct scene scene;
  const char *ids[] = { "a", "b" };
  msgq_result results[2] = { MSGQ_INTERNAL, MSGQ_INTERNAL };
  scene_begin_open(&scene);
  receive(&scene, "a");
  receive(&scene, "b");
  fault_error(scene.path, 1, 1000, EIO);
  msgq_result result = msgq_mark_batch(scene.queue, ids, 2, MSGQ_STATUS_READ, results);
  fault_error(NULL, 0, 0, 0);
  CHECK(result == MSGQ_STORAGE || result == MSGQ_UNKNOWN);
  CHECK(results[0] == MSGQ_INTERNAL && results[1] == MSGQ_INTERNAL);
  if (result == MSGQ_STORAGE) CHECK_NUMBER(2, (int64_t)counts_of(&scene, NULL).unread);
  msgq_close(scene.queue, 0);
  scene.queue = NULL;
  scene_open(&scene);
  REQUIRE_OK(msgq_mark_batch(scene.queue, ids, 2, MSGQ_STATUS_READ, results));
  CHECK_NUMBER(0, (int64_t)counts_of(&scene, NULL).unread);
  scene_end(&scene);
}
