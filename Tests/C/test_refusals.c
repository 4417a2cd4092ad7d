/* A refused open changes no byte of any file, and the error detail names a remedy. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "stores.h"

/* Makes a store that was closed once and then crashed: database, log and file "-tail" all have content. */
static void begin_crashed(struct scene *scene) {
  scene_begin(scene);
  close_after(scene, 1, 3);
  crash_after(scene, 4, 12);
  REQUIRE(file_size(log_of(scene)) > 0);
}

/* Checks that the restored store opens with everything. */
static void end_crashed(struct scene *scene) {
  scene_open(scene);
  check_numbered(scene, 1, 12);
  scene_end(scene);
}

static void copy_aside(struct scene *scene) { file_copy_to(scene->path, scene_file(scene, "aside")); }

static void put_back(struct scene *scene) {
  file_copy_to(scene_file(scene, "aside"), scene->path);
  CHECK(unlink(scene_file(scene, "aside")) == 0);
}

TEST(D2_a_damaged_store_that_crashed_is_refused_untouched) {
  struct scene scene;
  begin_crashed(&scene);
  copy_aside(&scene);
  /* Overwrites pages of the indexes that are not in the log. */
  int64_t pages = file_size(scene.path) / 4096;
  struct file_copy whole = file_read(scene.path);
  for (int64_t page = 4; page < pages; page++) memset(whole.bytes + page * 4096, 0x55, 4096);
  file_write(scene.path, whole.bytes, whole.size);
  file_copy_free(&whole);
  check_refused(&scene, MSGQ_CORRUPT, "damaged");
  put_back(&scene);
  end_crashed(&scene);
}

TEST(D2_a_store_without_its_header_is_refused_untouched) {
  struct scene scene;
  begin_crashed(&scene);
  struct snapshot whole;
  snapshot_take(&whole, scene.directory);
  file_write(scene.path, "This file is not a database of SQLite", 37);
  check_refused(&scene, MSGQ_CORRUPT, NULL);
  file_write(scene.path, "", 0);
  check_refused(&scene, MSGQ_CORRUPT, NULL);
  CHECK(unlink(scene.path) == 0);
  check_refused(&scene, MSGQ_CORRUPT, "without its database");
  snapshot_restore(&whole, scene.directory);
  snapshot_free(&whole);
  end_crashed(&scene);
}

static void write_number(const char *path, size_t offset, uint32_t number) {
  struct file_copy copy = file_read(path);
  for (size_t index = 0; index < 4; index++) copy.bytes[offset + index] = (char)(number >> (24 - 8 * index));
  file_write(path, copy.bytes, copy.size);
  file_copy_free(&copy);
}

TEST(D2_a_database_of_another_program_is_refused_untouched) {
  struct scene scene;
  begin_crashed(&scene);
  copy_aside(&scene);
  write_number(scene.path, 68, 4711); /* application_id */
  check_refused(&scene, MSGQ_CORRUPT, "another program");
  put_back(&scene);
  end_crashed(&scene);
}

TEST(D2_a_store_of_a_later_layout_is_refused_untouched) {
  struct scene scene;
  begin_crashed(&scene);
  copy_aside(&scene);
  write_number(scene.path, 60, 5); /* user_version */
  check_refused(&scene, MSGQ_TOO_NEW, "layout 5");
  put_back(&scene);
  end_crashed(&scene);
}

TEST(D2_a_rollback_journal_is_refused_untouched) {
  struct scene scene;
  begin_crashed(&scene);
  const char *journal = scene_file(&scene, "outbox.db-journal");
  file_write(journal, "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7 a journal", 18);
  check_refused(&scene, MSGQ_CORRUPT, "outbox.db-journal");
  CHECK(unlink(journal) == 0);
  end_crashed(&scene);
}

TEST_LONG(D2_a_log_of_another_store_is_refused_untouched) {
  struct scene scene, other;
  begin_crashed(&scene);
  begin_crashed(&other);
  struct file_copy log = file_read(log_of(&scene));
  file_copy_to(log_of(&other), log_of(&scene));
  check_refused(&scene, MSGQ_CORRUPT, "does not belong");
  file_write(log_of(&scene), log.bytes, log.size);
  file_copy_free(&log);
  end_crashed(&scene);
  scene_end(&other);
}

TEST(D2_garbage_as_the_log_of_a_closed_store_is_refused_untouched) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  file_write(log_of(&scene), "this is no log of any database at all", 37);
  check_refused(&scene, MSGQ_CORRUPT, "-wal");
  CHECK(unlink(log_of(&scene)) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST(D2_a_locked_store_is_refused_untouched) {
  struct scene scene;
  struct snapshot before;
  char detail[512];
  scene_begin_open(&scene);
  put_numbered(&scene, 1, 3);
  snapshot_take(&before, scene.directory);
  CHECK_NUMBER(MSGQ_LOCKED, open_elsewhere(scene.path, detail));
  CHECK(snapshot_holds(&before, scene.directory));
  snapshot_free(&before);
  scene_end(&scene);
}

TEST(D4_a_later_layout_only_in_the_log_is_refused_untouched) {
  struct scene scene;
  begin_crashed(&scene);
  struct snapshot whole;
  snapshot_take(&whole, scene.directory);
  sql_run_in_log(scene.path, "PRAGMA user_version = 5");
  REQUIRE(file_is(scene.path, &whole.files[0]) || file_is(scene.path, &whole.files[1]) || file_is(scene.path, &whole.files[2]));
  check_refused(&scene, MSGQ_TOO_NEW, "layout 5");
  check_refused(&scene, MSGQ_TOO_NEW, "layouts up to");
  snapshot_restore(&whole, scene.directory);
  snapshot_free(&whole);
  end_crashed(&scene);
}

TEST(D4_an_application_id_of_another_program_only_in_the_log_is_refused_untouched) {
  struct scene scene;
  begin_crashed(&scene);
  sql_run_in_log(scene.path, "PRAGMA application_id = 4711");
  check_refused(&scene, MSGQ_CORRUPT, "another program");
  scene_end(&scene);
}

TEST(D2_opening_and_closing_an_unchanged_store_writes_nothing) {
  struct scene scene;
  struct snapshot before;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  snapshot_take(&before, scene.directory);
  for (int time = 0; time < 3; time++) {
    scene_open(&scene);
    check_numbered(&scene, 1, 3);
    scene_close(&scene);
    CHECK(snapshot_holds(&before, scene.directory));
  }
  snapshot_free(&before);
  scene_end(&scene);
}
