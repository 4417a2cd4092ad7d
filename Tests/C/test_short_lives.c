/* Programs that live a moment: what opening an existing store, one change and closing cost, and what they leave. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "stores.h"

/* The flushes, in their order: the directory, the log, the database's mark; at the close the log and the database. */
TEST_ALONE(F12_open_enqueue_and_close_take_five_flushes) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  for (unsigned number = 4; number <= 6; number++) {
    atomic_store(&fault_syncs, 0);
    atomic_store(&fault_directory_syncs, 0);
    scene_open(&scene);
    CHECK_NUMBER(0, atomic_load(&fault_syncs));
    put_numbered(&scene, number, number);
    CHECK_NUMBER(3, atomic_load(&fault_syncs));
    CHECK_NUMBER(1, atomic_load(&fault_directory_syncs));
    scene_close(&scene);
    CHECK_NUMBER(5, atomic_load(&fault_syncs));
    CHECK(!file_exists(log_of(&scene)) && !file_exists(tail_of(&scene)));
  }
  scene_open(&scene);
  check_numbered(&scene, 1, 6);
  scene_end(&scene);
}

TEST_ALONE(F12_each_further_message_takes_one_flush) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  scene_open(&scene);
  put_numbered(&scene, 4, 4);
  atomic_store(&fault_syncs, 0);
  put_numbered(&scene, 5, 24);
  CHECK_NUMBER(20, atomic_load(&fault_syncs));
  scene_end(&scene);
}

/* A schema whose definitions are those of a new store is not examined again, statement by statement. The timer thread prepares some as well. */
TEST_ALONE(F12_open_enqueue_and_close_prepare_few_statements) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  atomic_store(&fault_prepares, 0);
  scene_open(&scene);
  put_numbered(&scene, 4, 4);
  scene_close(&scene);
  int prepares = atomic_load(&fault_prepares);
  if (!CHECK(prepares > 20 && prepares <= 65)) fprintf(stderr, "  %d statements\n", prepares);
  scene_end(&scene);
}

/* The log is removed, not truncated; one truncation gives the reserve back. */
TEST_ALONE(F12_a_closed_store_occupies_no_more_than_its_size) {
  struct scene scene;
  struct stat status;
  scene_begin(&scene);
  for (unsigned number = 1; number <= 3; number++) {
    scene_open(&scene);
    put_numbered(&scene, number, number);
    REQUIRE(stat(scene.path, &status) == 0);
    CHECK((int64_t)status.st_blocks * 512 >= status.st_size + (64 << 10));
    atomic_store(&fault_truncations, 0);
    scene_close(&scene);
    CHECK_NUMBER(1, atomic_load(&fault_truncations));
    REQUIRE(stat(scene.path, &status) == 0);
    CHECK((int64_t)status.st_blocks * 512 <= status.st_size + (8 << 10));
  }
  scene_end(&scene);
}

/* The file -tail of a new log is not flushed: a power cut may leave it empty. Nothing is missing then, so nothing is reported. */
TEST(F12_an_empty_tail_file_is_not_reported) {
  struct scene scene;
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  crash_after(&scene, 4, 6);
  REQUIRE(truncate(tail_of(&scene), 0) == 0);
  scene.options.refuse_lost_tail = true;
  CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
  CHECK(report.sound);
  scene_open(&scene);
  check_numbered(&scene, 1, 6);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  scene_end(&scene);
}

/* The power fails while the first log is written: it has no complete transaction, and the file -tail is empty or garbage. */
TEST_LONG(F12_a_log_that_was_only_begun_loses_nothing) {
  static const char *const tails[] = { "", "garbage" };
  struct scene scene;
  for (size_t index = 0; index < 2; index++) {
    scene_begin(&scene);
    close_after(&scene, 1, 3);
    file_copy_to(scene.path, scene_file(&scene, "closed.db"));
    crash_after(&scene, 4, 6);
    file_copy_to(scene_file(&scene, "closed.db"), scene.path);
    file_write(tail_of(&scene), tails[index], strlen(tails[index]));
    REQUIRE(truncate(log_of(&scene), 32 + 24 + 1000) == 0);
    scene.options.refuse_lost_tail = true;
    scene_open(&scene);
    check_numbered(&scene, 1, 3);
    CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
    put_numbered(&scene, 4, 4);
    scene_end(&scene);
  }
}

/* The database has no message of the lost log, but no number is used again. */
TEST(F12_sequence_numbers_of_a_lost_log_are_not_used_again) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  crash_after(&scene, 4, 6);
  REQUIRE(unlink(log_of(&scene)) == 0 && unlink(tail_of(&scene)) == 0);
  scene_open(&scene);
  await_storage_event(&scene, "is missing");
  check_numbered(&scene, 1, 3);
  put_numbered(&scene, 4, 4);
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene.queue, "m4", &message));
  CHECK(message->sequence > 6);
  msgq_message_free(message);
  scene_end(&scene);
}

static int64_t size_of(const struct scene *scene) {
  struct stat status;
  REQUIRE(stat(scene->path, &status) == 0);
  return status.st_size;
}

static void fill(struct scene *scene, const char *conversation, size_t count) {
  static char body[1000];
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  REQUIRE(drafts != NULL);
  memset(body, 'x', sizeof body);
  for (size_t index = 0; index < count; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].conversation = conversation;
    drafts[index].body = body;
    drafts[index].body_size = sizeof body;
  }
  REQUIRE_OK(msgq_enqueue_batch(scene->queue, drafts, count, NULL));
  free(drafts);
}

/* The close does not rewrite a large file. The next session gives the free space back in steps, without a change of its own. */
TEST_LONG(F12_space_that_a_close_leaves_is_given_back_later) {
  struct scene scene;
  scene_begin_open(&scene);
  fill(&scene, "kept", 1500);
  fill(&scene, "gone", 4000);
  REQUIRE_OK(msgq_clear(scene.queue, "gone"));
  scene_close(&scene);
  CHECK(size_of(&scene) > 8000000);
  scene_open(&scene);
  AWAIT(size_of(&scene) < 4000000);
  CHECK_NUMBER(1500, counts_of(&scene, NULL).queued);
  scene_close(&scene);
  scene_open(&scene);
  CHECK_NUMBER(1500, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}
