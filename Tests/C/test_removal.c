/* Deleting a conversation, and the failed messages: in steps, between which other calls run. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

static void receive(struct scene *scene, const char *id, const char *conversation, const char *body) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = body;
  draft.body_size = strlen(body);
  REQUIRE_OK(msgq_record(scene->queue, &draft, "ana@example.org", NULL));
}

/* Enqueues `count` messages of a conversation, named prefix0, prefix1 and so on. */
static void put_numbered(struct scene *scene, const char *conversation, const char *prefix, size_t count) {
  enum { most = 500 };
  static msgq_draft drafts[most];
  static char ids[most][24];
  for (size_t done = 0; done < count;) {
    size_t some = count - done < most ? count - done : most;
    for (size_t index = 0; index < some; index++) {
      snprintf(ids[index], sizeof ids[index], "%s%zu", prefix, done + index);
      drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
      drafts[index].id = ids[index];
      drafts[index].conversation = conversation;
      drafts[index].body = "hello";
      drafts[index].body_size = 5;
    }
    REQUIRE_OK(msgq_enqueue_batch(scene->queue, drafts, some, NULL));
    done += some;
  }
}

static size_t conversations_of(struct scene *scene) {
  msgq_conversation_page *page = NULL;
  REQUIRE_OK(msgq_conversations(scene->queue, 0, 0, &page));
  size_t count = msgq_conversations_size(page);
  msgq_conversations_free(page);
  return count;
}

static msgq_result put_again(struct scene *scene, const char *id) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.body = "again";
  draft.body_size = 5;
  return msgq_enqueue(scene->queue, &draft, NULL);
}

/* Stores messages of every status in the conversation "ana", 10 in all, and one of "ben". */
static void put_every_status(struct scene *scene, struct stub *stub) {
  put_each(scene, { "sent", "ana", "secret sent" }, { "delivered", "ana", "secret delivered" }, { "read", "ana", "secret read" });
  put(scene, "ben", "ben", "stays");
  CHECK_NUMBER(4, drain(scene).sent);
  REQUIRE_OK(msgq_mark(scene->queue, "delivered", MSGQ_STATUS_DELIVERED));
  REQUIRE_OK(msgq_mark(scene->queue, "read", MSGQ_STATUS_READ));
  receive(scene, "received", "ana", "secret received");
  receive(scene, "seen", "ana", "secret seen");
  REQUIRE_OK(msgq_mark(scene->queue, "seen", MSGQ_STATUS_READ));
  stub->verdict = MSGQ_VERDICT_REJECT;
  put_each(scene, { "failed", "ana", "secret failed" }, { "failed2", "ana", "secret failed2" });
  CHECK_NUMBER(2, drain(scene).failed);
  put_each(scene, { "queued", "ana", "secret queued" }, { "queued2", "ana", "secret queued2" });
  char *large = malloc(200000);
  memset(large, 'x', 200000);
  memcpy(large + 100000, "secret large", 12);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "large";
  draft.conversation = "ana";
  draft.body = large;
  draft.body_size = 200000;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
  free(large);
}

TEST(H13_a_conversation_is_deleted_with_its_history) {
  struct scene scene;
  struct stub stub;
  uint64_t count = 0;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_every_status(&scene, &stub);
  size_t before = journal_count(&scene.journal, MSGQ_EVENT_DELETED);
  REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", &count));
  CHECK_NUMBER(10, count);
  msgq_counts counts = counts_of(&scene, "ana");
  CHECK(counts.queued == 0 && counts.failed == 0 && counts.sent == 0 && counts.delivered == 0 && counts.read == 0);
  CHECK(counts.received == 0 && counts.unread == 0 && counts.unsent_bytes == 0);
  CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).sent);
  CHECK_NUMBER(0, (int64_t)counts_of(&scene, NULL).unsent_bytes);
  CHECK_NUMBER(1, conversations_of(&scene));
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "ben"));
  struct entry entry;
  AWAIT(journal_count(&scene.journal, MSGQ_EVENT_DELETED) == before + 1);
  CHECK(journal_last(&scene.journal, MSGQ_EVENT_DELETED, &entry) && entry.id[0] == '\0' && strcmp(entry.conversation, "ana") == 0);
  /* Their text is in no file. */
  char log[128];
  snprintf(log, sizeof log, "%s-wal", scene.path);
  CHECK(!file_contains(scene.path, "secret"));
  CHECK(!file_exists(log) || !file_contains(log, "secret"));
  /* As after msgq_delete the ids of what was sent or received are remembered. */
  CHECK_RESULT(MSGQ_DUPLICATE, put_again(&scene, "sent"));
  CHECK_RESULT(MSGQ_DUPLICATE, put_again(&scene, "received"));
  CHECK_RESULT(MSGQ_OK, put_again(&scene, "queued"));
  scene_close(&scene);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
  CHECK(report.sound);
  scene_end(&scene);
}

TEST(H13_the_name_of_a_conversation_to_delete_is_checked) {
  struct scene scene;
  uint64_t count = 4711;
  scene_begin_open(&scene);
  put_each(&scene, { "a", "", "hello" }, { "b", "ana", "hello" });
  CHECK_RESULT(MSGQ_INVALID, msgq_delete_conversation(scene.queue, NULL, &count));
  CHECK_RESULT(MSGQ_INVALID, msgq_delete_conversation(scene.queue, "\xff", &count));
  CHECK_RESULT(MSGQ_INVALID, msgq_clear_failed(scene.queue, "\xff", &count));
  CHECK_NUMBER(4711, count);
  CHECK_NUMBER(2, (int64_t)counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_OK, msgq_delete_conversation(scene.queue, "nobody", &count));
  CHECK_NUMBER(0, count);
  CHECK_RESULT(MSGQ_OK, msgq_delete_conversation(scene.queue, "", NULL));
  CHECK_NUMBER(-1, status_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "b"));
  scene_end(&scene);
}

static void *drain_in_thread(void *context) {
  drain(context);
  return NULL;
}

TEST(H13_a_conversation_that_is_being_sent_is_busy) {
  struct scene scene;
  struct stub stub;
  pthread_t thread;
  uint64_t count = 4711;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  receive(&scene, "r", "ana", "hello");
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ana", "hello" }, { "c", "ben", "hello" });
  atomic_store(&stub.held, true);
  pthread_create(&thread, NULL, drain_in_thread, &scene);
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENDING);
  CHECK_RESULT(MSGQ_BUSY, msgq_delete_conversation(scene.queue, "ana", &count));
  CHECK_NUMBER(4711, count);
  CHECK_NUMBER(MSGQ_STATUS_DELIVERED, status_of(&scene, "r"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "b"));
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_DELETED));
  atomic_store(&stub.held, false);
  pthread_join(thread, NULL);
  CHECK_NUMBER(MSGQ_STATUS_SENT, status_of(&scene, "b"));
  CHECK_RESULT(MSGQ_OK, msgq_delete_conversation(scene.queue, "ana", &count));
  CHECK_NUMBER(3, count);
  scene_end(&scene);
}

/* A thread that deletes a conversation. */
struct deletion {
  msgq_queue *queue;
  atomic_bool has_ended;
  uint64_t count;
  msgq_result result;
  pthread_t thread;
};

static void *delete_in_thread(void *context) {
  struct deletion *deletion = context;
  deletion->result = msgq_delete_conversation(deletion->queue, "ana", &deletion->count);
  atomic_store(&deletion->has_ended, true);
  return NULL;
}

static void begin_deletion(struct deletion *deletion, struct scene *scene) {
  *deletion = (struct deletion) { .queue = scene->queue };
  pthread_create(&deletion->thread, NULL, delete_in_thread, deletion);
}

TEST_LONG(H13_other_calls_run_while_a_conversation_is_deleted) {
  struct scene scene;
  struct deletion deletion;
  size_t stored = (size_t)check_times(20000, 2000), during = 0, later = 0;
  int64_t longest = 0;
  scene_begin_open(&scene);
  put_numbered(&scene, "ana", "m", stored);
  int64_t before = (int64_t)counts_of(&scene, NULL).queued;
  begin_deletion(&deletion, &scene);
  AWAIT((int64_t)counts_of(&scene, NULL).queued < before || atomic_load(&deletion.has_ended));
  while (!atomic_load(&deletion.has_ended)) {
    char id[24];
    /* What is added meanwhile stays, in every conversation. */
    snprintf(id, sizeof id, "new%zu", during);
    int64_t began = steady_ms();
    put(&scene, id, during % 2 == 0 ? "ana" : "ben", "hello");
    int64_t took = steady_ms() - began;
    if (took > longest) longest = took;
    if (during++ % 2 == 0) later++;
  }
  pthread_join(deletion.thread, NULL);
  CHECK_RESULT(MSGQ_OK, deletion.result);
  CHECK_NUMBER(stored, deletion.count);
  CHECK(during > 10);
  CHECK_NUMBER(during, (int64_t)counts_of(&scene, NULL).queued);
  CHECK_NUMBER(later, (int64_t)counts_of(&scene, "ana").queued);
  if (getenv("MSGQ_SHOW") != NULL) fprintf(stderr, "  %zu calls meanwhile, the longest took %lld ms\n", during, (long long)longest);
  scene_end(&scene);
}

TEST_LONG(H13_nothing_of_a_conversation_starts_while_it_is_deleted) {
  struct scene scene;
  struct stub stub;
  struct deletion deletion;
  size_t stored = (size_t)check_times(10000, 1000);
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene_open(&scene);
  put_numbered(&scene, "ana", "m", stored);
  char last[24];
  snprintf(last, sizeof last, "m%zu", stored - 1);
  begin_deletion(&deletion, &scene);
  AWAIT(counts_of(&scene, NULL).queued < stored || atomic_load(&deletion.has_ended));
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  set_online(&scene);
  /* A message that will be deleted is gone for calls that name it. */
  msgq_result edited = msgq_edit(scene.queue, last, "x", 1), sent = msgq_send_now(scene.queue, last);
  CHECK((edited == MSGQ_NOT_FOUND && sent == MSGQ_NOT_FOUND) || atomic_load(&deletion.has_ended));
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana";
  draft.id = "new";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  pthread_join(deletion.thread, NULL);
  CHECK_RESULT(MSGQ_OK, deletion.result);
  CHECK_NUMBER(stored, deletion.count);
  AWAIT(status_of(&scene, "new") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(1, atomic_load(&stub.calls));
  scene_end(&scene);
}

/* The end of a deletion is no trigger, and nobody paused anything. */
TEST_LONG(H13_M8_a_deletion_starts_no_other_message_and_is_no_pause) {
  struct scene scene;
  struct stub stub;
  struct deletion deletion;
  uint64_t count = 1;
  size_t stored = (size_t)check_times(10000, 1000);
  scene_begin(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.drain_batch = 2;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  scene_open(&scene);
  put_numbered(&scene, "ben", "b", 6);
  REQUIRE_OK(msgq_set_transport(scene.queue, stub_send, &stub, NULL));
  set_online(&scene);
  AWAIT(counts_of(&scene, NULL).sent == 2 && state_of(&scene).in_flight == 0);
  REQUIRE_OK(msgq_delete_conversation(scene.queue, "nobody", &count));
  CHECK_NUMBER(0, count);
  put_numbered(&scene, "ana", "m", stored);
  begin_deletion(&deletion, &scene);
  while (!atomic_load(&deletion.has_ended)) {
    msgq_state state = state_of(&scene);
    CHECK(state.paused_conversations == 0 && state.reason != MSGQ_REASON_PAUSED);
  }
  pthread_join(deletion.thread, NULL);
  pause_ms(50);
  CHECK_NUMBER(2, counts_of(&scene, NULL).sent);
  scene_end(&scene);
}

TEST_LONG(H13_what_replaces_a_message_meanwhile_is_not_deleted) {
  struct scene scene;
  struct deletion deletion;
  size_t stored = (size_t)check_times(10000, 1000);
  scene_begin_open(&scene);
  put_numbered(&scene, "ana", "m", stored);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.conversation = "ana";
  draft.replace_key = "place";
  draft.id = "old";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  begin_deletion(&deletion, &scene);
  AWAIT(counts_of(&scene, NULL).queued < stored || atomic_load(&deletion.has_ended));
  draft.id = "new";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  draft.id = "newer";
  REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
  pthread_join(deletion.thread, NULL);
  CHECK_NUMBER(-1, status_of(&scene, "old"));
  CHECK_NUMBER(-1, status_of(&scene, "new"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "newer"));
  CHECK_NUMBER(1, (int64_t)counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST_LONG(H13_a_pause_outlives_the_deletion_of_a_conversation) {
  struct scene scene;
  struct stub stub;
  struct deletion deletion;
  size_t stored = (size_t)check_times(10000, 1000);
  for (int paused = 0; paused < 2; paused++) {
    stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
    set_online(&scene);
    if (!paused) REQUIRE_OK(msgq_pause(scene.queue, "ana"));
    put_numbered(&scene, "ana", "m", stored);
    begin_deletion(&deletion, &scene);
    AWAIT(counts_of(&scene, NULL).queued < stored || atomic_load(&deletion.has_ended));
    REQUIRE_OK(paused ? msgq_pause(scene.queue, "ana") : msgq_resume(scene.queue, "ana"));
    pthread_join(deletion.thread, NULL);
    put(&scene, "new", "ana", "hello");
    CHECK_NUMBER(paused ? 0 : 1, drain(&scene).sent);
    scene_end(&scene);
  }
}

/* A process that deletes a conversation and is killed. */
TEST_ALONE(H13_a_kill_leaves_the_newest_messages_of_a_deleted_conversation) {
  struct scene scene;
  size_t stored = (size_t)check_times(5000, 500);
  for (int time = 0; time < check_times(6, 2); time++) {
    scene_begin_open(&scene);
    put_numbered(&scene, "ana", "m", stored);
    scene_close(&scene);
    pid_t child = fork();
    if (child == 0) {
      scene_open(&scene);
      msgq_delete_conversation(scene.queue, "ana", NULL);
      _exit(0);
    }
    usleep((useconds_t)(20000 + 15000 * time));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    scene_open(&scene);
    uint64_t left = counts_of(&scene, "ana").queued, count = 0, found = 0;
    for (size_t index = 0; index < stored; index++) {
      char id[24];
      snprintf(id, sizeof id, "m%zu", index);
      bool is_there = status_of(&scene, id) == MSGQ_STATUS_QUEUED;
      CHECK(is_there == (index >= stored - left));
      found += is_there;
    }
    CHECK_NUMBER(left, found);
    REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", &count));
    CHECK_NUMBER(left, count);
    CHECK_NUMBER(0, conversations_of(&scene));
    scene_end(&scene);
  }
}

TEST(H13_failed_messages_are_cleared) {
  struct scene scene;
  struct stub stub;
  uint64_t count = 0;
  stub_begin_open(&stub, &scene, MSGQ_VERDICT_SENT);
  put_every_status(&scene, &stub);
  stub.verdict = MSGQ_VERDICT_REJECT;
  put(&scene, "ben2", "ben", "hello");
  msgq_drain_options only_ben = MSGQ_DRAIN_OPTIONS_INIT;
  only_ben.conversation = "ben";
  REQUIRE_OK(msgq_drain(scene.queue, &only_ben, NULL));
  CHECK_NUMBER(3, (int64_t)counts_of(&scene, NULL).failed);
  msgq_counts before = counts_of(&scene, "ana");
  REQUIRE_OK(msgq_clear_failed(scene.queue, "ana", &count));
  CHECK_NUMBER(2, count);
  CHECK_NUMBER(-1, status_of(&scene, "failed"));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "ben2"));
  msgq_counts after = counts_of(&scene, "ana");
  CHECK(after.failed == 0 && after.queued == before.queued && after.sent == before.sent && after.received == before.received);
  struct entry entry;
  AWAIT(journal_last(&scene.journal, MSGQ_EVENT_DELETED, &entry));
  CHECK(entry.id[0] == '\0' && strcmp(entry.conversation, "ana") == 0);
  REQUIRE_OK(msgq_clear_failed(scene.queue, NULL, &count));
  CHECK_NUMBER(1, count);
  CHECK_NUMBER(0, (int64_t)counts_of(&scene, NULL).failed);
  REQUIRE_OK(msgq_clear_failed(scene.queue, NULL, &count));
  CHECK_NUMBER(0, count);
  scene_end(&scene);
}

TEST(H13_a_conversation_behind_a_failed_message_goes_on_when_it_is_cleared) {
  struct scene scene;
  struct stub stub;
  scene_begin(&scene);
  scene.options.final_failure = MSGQ_FINAL_BLOCK;
  stub_begin(&stub, MSGQ_VERDICT_REJECT);
  stub_open(&stub, &scene);
  put_each(&scene, { "a", "ana", "hello" }, { "b", "ana", "hello" });
  CHECK_NUMBER(1, drain(&scene).failed);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "b"));
  stub.verdict = MSGQ_VERDICT_SENT;
  REQUIRE_OK(msgq_clear_failed(scene.queue, NULL, NULL));
  CHECK_NUMBER(1, drain(&scene).sent);
  scene_end(&scene);
}

TEST(H13_a_damaged_message_of_a_conversation_is_deleted_too) {
  struct scene scene;
  uint64_t count = 0;
  scene_begin_open(&scene);
  put_each(&scene, { "a", "ana", "the body of a" }, { "b", "ana", "the body of b" }, { "c", "ana", "the body of c" });
  scene_close(&scene);
  file_flip(scene.path, file_find(scene.path, "the body of b", 0));
  scene_open(&scene);
  REQUIRE_OK(msgq_delete_conversation(scene.queue, "ana", &count));
  CHECK_NUMBER(3, count);
  CHECK_NUMBER(0, (int64_t)counts_of(&scene, NULL).queued);
  CHECK_NUMBER(0, conversations_of(&scene));
  scene_end(&scene);
}
