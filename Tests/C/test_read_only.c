/* Read-only opens. */
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

/* Makes a store with three messages and opens it for reading only. */
static struct file_copy begin(struct scene *scene) {
  scene_begin_open(scene);
  put(scene, "a", "ana", "one");
  put(scene, "b", "ana", "two");
  put(scene, "c", "ben", "three");
  scene_close(scene);
  scene->options.read_only = true;
  scene_open(scene);
  return file_read(scene->path);
}

/* Checks that the file is unchanged and no other file was created. */
static void end(struct scene *scene, struct file_copy *before) {
  if (scene->queue != NULL) scene_close(scene);
  CHECK(file_is(scene->path, before));
  CHECK_NUMBER(1, directory_entries(scene->directory));
  file_copy_free(before);
  scene_end(scene);
}

TEST(D16_every_reading_call_works) {
  struct scene scene;
  char text[64];
  msgq_message *message = NULL;
  msgq_ledger *ledger = NULL;
  msgq_conversation_page *conversations = NULL;
  msgq_statistics statistics = { .struct_size = sizeof statistics };
  char *prometheus = NULL;
  struct file_copy before = begin(&scene);
  unsent_of(&scene, text, sizeof text);
  CHECK_TEXT("a b c", text);
  CHECK_RESULT(MSGQ_OK, msgq_get(scene.queue, "b", &message));
  CHECK(message != NULL && message->body_size == 3 && memcmp(message->body, "two", 3) == 0);
  msgq_message_free(message);
  CHECK_NUMBER(3, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(2, counts_of(&scene, "ana").queued);
  CHECK_NUMBER(MSGQ_REASON_NO_TRANSPORT, reason_of(&scene, "a"));
  CHECK_RESULT(MSGQ_OK, msgq_attempts(scene.queue, "a", &ledger));
  CHECK_NUMBER(0, msgq_attempts_size(ledger));
  msgq_attempts_free(ledger);
  CHECK_RESULT(MSGQ_OK, msgq_conversations(scene.queue, 0, 10, &conversations));
  CHECK_NUMBER(2, msgq_conversations_size(conversations));
  msgq_conversations_free(conversations);
  CHECK_RESULT(MSGQ_OK, msgq_stats(scene.queue, &statistics));
  CHECK_RESULT(MSGQ_OK, msgq_stats_text(scene.queue, &prometheus));
  msgq_text_free(prometheus);
  CHECK(banner_is(&scene, "3 messages queued."));
  set_offline(&scene);
  CHECK(banner_is(&scene, "You're offline. 3 messages queued."));
  CHECK_RESULT(MSGQ_OK, msgq_set_lifecycle(scene.queue, MSGQ_LIFECYCLE_BACKGROUND));
  CHECK_RESULT(MSGQ_OK, msgq_monitor_stop(scene.queue));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_control_start(scene.queue, NULL));
  CHECK_RESULT(MSGQ_OK, msgq_control_stop(scene.queue));
  CHECK_RESULT(MSGQ_OK, msgq_control_start(scene.queue, scene_file(&scene, "reader-control")));
  CHECK(file_exists(scene_file(&scene, "reader-control")));
  CHECK_RESULT(MSGQ_OK, msgq_control_stop(scene.queue));
  CHECK_RESULT(MSGQ_OK, msgq_backup(scene.queue, scene_file(&scene, "copy.db")));
  CHECK(file_exists(scene_file(&scene, "copy.db")));
  unlink(scene_file(&scene, "copy.db"));
  end(&scene, &before);
}

TEST(D16_every_change_is_refused_and_changes_nothing) {
  struct scene scene;
  struct stub stub;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  uint64_t token = 1;
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  struct file_copy before = begin(&scene);
  outcome.verdict = MSGQ_VERDICT_SENT;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  CHECK_RESULT(MSGQ_PERMISSION, msgq_enqueue(scene.queue, &draft, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_enqueue_batch(scene.queue, &draft, 1, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_enqueue_bodies(scene.queue, &draft, "a", 1, (size_t[]) { 1 }, 1, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_record(scene.queue, &draft, "Ana", NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_record_batch(scene.queue, &draft, NULL, 1, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_mark_batch(scene.queue, (const char *[]) { "a" }, 1, MSGQ_STATUS_READ, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_mark_up_to(scene.queue, "a", MSGQ_STATUS_READ, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_set_title(scene.queue, "ana", "Ana"));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_edit(scene.queue, "a", "x", 1));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_edit_message(scene.queue, "a", &draft, -1));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_update(scene.queue, "a", &draft));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_delete(scene.queue, "a"));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_retry(scene.queue, "a"));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_send_now(scene.queue, "a"));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_mark(scene.queue, "a", MSGQ_STATUS_READ));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_clear(scene.queue, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_clear_failed(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_delete_conversation(scene.queue, "ana", NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_retry_all(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_retry_all_by(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_clear_failed_by(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_drain(scene.queue, NULL, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_drain_async(scene.queue, NULL, NULL, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_pause(scene.queue, NULL));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_resume(scene.queue, "ana"));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_withdraw_prompt(scene.queue));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_request_collect(scene.queue));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_set_transport(scene.queue, stub_send, &stub, stub_release));
  CHECK_NUMBER(1, atomic_load(&stub.released));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_set_transport(scene.queue, NULL, NULL, NULL));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_complete(scene.queue, token, &outcome));
  CHECK(strstr(msgq_error_detail(), "attempt") != NULL);
  CHECK_NUMBER(3, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(0, atomic_load(&stub.calls));
  end(&scene, &before);
}

TEST(D16_readers_share_a_store_and_an_owner_excludes_them) {
  struct scene scene;
  char line[32];
  msgq_queue *second = NULL, *owner = NULL;
  msgq_options options = MSGQ_OPTIONS_INIT;
  struct file_copy before = begin(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_open(scene.path, &scene.options, &second));
  struct child child = child_start("read", scene.path, "");
  child_line(&child, line, sizeof line);
  CHECK_TEXT("3 queued", line);
  CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, &options, &owner));
  CHECK_RESULT(MSGQ_OK, msgq_close(second, -1));
  scene_close(&scene);
  CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, &options, &owner));
  child_kill(&child);
  REQUIRE_OK(msgq_open(scene.path, &options, &owner));
  CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, &scene.options, &second));
  CHECK_RESULT(MSGQ_OK, msgq_close(owner, -1));
  end(&scene, &before);
}

TEST(D16_a_read_only_open_of_a_missing_store_creates_nothing) {
  struct scene scene;
  msgq_queue *queue = NULL;
  scene_begin(&scene);
  scene.options.read_only = true;
  CHECK_RESULT(MSGQ_INVALID, msgq_open(scene.path, &scene.options, &queue));
  CHECK_NUMBER(0, directory_entries(scene.directory));
  scene_end(&scene);
}

TEST(D16_a_crashed_store_is_read_with_its_log_and_left_unchanged) {
  struct scene scene;
  char id[MSGQ_ID_SIZE];
  scene_begin(&scene);
  struct child child = child_start("compose", scene.path, "");
  for (unsigned count = 0; count < 30; count++) child_line(&child, id, sizeof id);
  child_kill(&child);
  struct file_copy database = file_read(scene.path), log = file_read(scene_file(&scene, "outbox.db-wal"));
  size_t entries = directory_entries(scene.directory);
  scene.options.read_only = true;
  scene_open(&scene);
  CHECK(counts_of(&scene, NULL).queued >= 30);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, id));
  scene_close(&scene);
  CHECK(file_is(scene.path, &database));
  CHECK(file_is(scene_file(&scene, "outbox.db-wal"), &log));
  CHECK_NUMBER(entries, directory_entries(scene.directory));
  file_copy_free(&database);
  file_copy_free(&log);
  scene_end(&scene);
}

TEST(D16_a_read_only_file_in_a_read_only_directory_can_be_read) {
  struct scene scene;
  char line[32];
  if (geteuid() != 0) SKIP("only root can change the owner of a file");
  struct file_copy before = begin(&scene);
  scene_close(&scene);
  enum { nobody = 65534 };
  REQUIRE(chmod(scene.path, 0400) == 0 && chown(scene.path, nobody, nobody) == 0);
  REQUIRE(chmod(scene.directory, 0500) == 0 && chown(scene.directory, nobody, nobody) == 0);
  struct child child = child_start("read", scene.path, "nobody");
  child_line(&child, line, sizeof line);
  CHECK_TEXT("3 queued", line);
  child_kill(&child);
  REQUIRE(chown(scene.directory, 0, 0) == 0 && chmod(scene.directory, 0700) == 0);
  end(&scene, &before);
}

TEST(D16_a_store_on_a_read_only_file_system_can_be_read) {
  struct scene scene;
  scene_begin(&scene);
  if (mount("tmpfs", scene.directory, "tmpfs", 0, "size=4m,mode=700") != 0) {
    scene_end(&scene);
    SKIP("the system does not permit mounting tmpfs");
  }
  scene_open(&scene);
  put(&scene, "a", "ana", "one");
  scene_close(&scene);
  CHECK(mount("tmpfs", scene.directory, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) == 0);
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
  CHECK(report.sound);
  CHECK_RESULT(MSGQ_PERMISSION, msgq_open(scene.path, &scene.options, &scene.queue));
  scene.options.read_only = true;
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  scene_close(&scene);
  CHECK_NUMBER(1, directory_entries(scene.directory));
  CHECK(umount(scene.directory) == 0);
  scene_end(&scene);
}
