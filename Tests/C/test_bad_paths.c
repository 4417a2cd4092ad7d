/* Paths and files that msgq_open refuses and leaves unchanged. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "files.h"
#include "scene.h"

/* Opens the path, and checks the result and that the number of files in the directory is unchanged. */
static void refuse(const struct scene *scene, msgq_result expected, const char *path) {
  msgq_queue *queue = NULL;
  size_t entries = directory_entries(scene->directory);
  CHECK_RESULT(expected, msgq_open(path, &scene->options, &queue));
  CHECK(queue == NULL);
  if (queue != NULL) msgq_close(queue, 0);
  CHECK_NUMBER(entries, directory_entries(scene->directory));
}

/* The same, and checks that the file is unchanged. */
static void refuse_file(const struct scene *scene, msgq_result expected, const char *path) {
  struct file_copy before = file_read(path);
  refuse(scene, expected, path);
  CHECK(file_is(path, &before));
  file_copy_free(&before);
}

/* Makes a closed store with one message. */
static void make_store(struct scene *scene) {
  scene_open(scene);
  put(scene, "a", "ana", "hello");
  scene_close(scene);
}

TEST(bad_path_empty_in_memory_or_not_utf8) {
  struct scene scene;
  char home[4096];
  scene_begin(&scene);
  REQUIRE(getcwd(home, sizeof home) != NULL && chdir(scene.directory) == 0);
  refuse(&scene, MSGQ_INVALID, "");
  refuse(&scene, MSGQ_INVALID, ":memory:");
  refuse(&scene, MSGQ_INVALID, "\xff\xfe.db");
  CHECK(chdir(home) == 0);
  scene_end(&scene);
}

/* Also the files beside the store, and those that are renamed to it, have names of at most 255 bytes. */
TEST(bad_path_with_a_long_name) {
  struct scene scene;
  char path[400];
  scene_begin(&scene);
  for (int size = 200; size <= 256; size++) {
    int start = snprintf(path, sizeof path, "%s/", scene.directory);
    memset(path + start, 'n', (size_t)size);
    path[start + size] = '\0';
    if (size > 247) {
      refuse(&scene, MSGQ_INVALID, path);
      continue;
    }
    msgq_queue *queue = NULL;
    CHECK_RESULT(MSGQ_OK, msgq_open(path, &scene.options, &queue));
    if (queue == NULL) continue;
    CHECK_RESULT(MSGQ_OK, msgq_close(queue, 1000));
    CHECK_RESULT(MSGQ_OK, msgq_open(path, &scene.options, &queue));
    CHECK_RESULT(MSGQ_OK, msgq_close(queue, 1000));
  }
  scene_end(&scene);
}

/* SQLite of Debian takes such a name as the URI of an in-memory database. */
TEST(bad_path_that_looks_like_a_uri) {
  struct scene scene;
  char home[4096];
  msgq_queue *queue = NULL;
  scene_begin(&scene);
  REQUIRE(getcwd(home, sizeof home) != NULL && chdir(scene.directory) == 0);
  msgq_result result = msgq_open("file:x?mode=memory", &scene.options, &queue);
  CHECK(result == MSGQ_INVALID || (result == MSGQ_OK && file_exists(scene_file(&scene, "file:x?mode=memory"))));
  if (queue != NULL) CHECK_RESULT(MSGQ_OK, msgq_close(queue, 0));
  CHECK(chdir(home) == 0);
  scene_end(&scene);
}

TEST(bad_path_without_a_parent_directory) {
  struct scene scene;
  msgq_queue *queue = NULL;
  scene_begin(&scene);
  CHECK(msgq_open(scene_file(&scene, "missing/outbox.db"), &scene.options, &queue) != MSGQ_OK);
  CHECK(queue == NULL && directory_entries(scene.directory) == 0);
  scene_end(&scene);
}

TEST(bad_path_directory) {
  struct scene scene;
  scene_begin(&scene);
  refuse(&scene, MSGQ_PERMISSION, scene.directory);
  scene_end(&scene);
}

TEST(bad_path_fifo) {
  struct scene scene;
  scene_begin(&scene);
  REQUIRE(mkfifo(scene.path, 0600) == 0);
  refuse(&scene, MSGQ_PERMISSION, scene.path); /* without waiting for a writer */
  scene_end(&scene);
}

TEST(bad_path_device) {
  struct scene scene;
  scene_begin(&scene);
  refuse(&scene, MSGQ_PERMISSION, "/dev/null");
  scene_end(&scene);
}

TEST(bad_path_symbolic_link) {
  struct scene scene;
  scene_begin(&scene);
  make_store(&scene);
  const char *link = scene_file(&scene, "link.db"), *dangling = scene_file(&scene, "dangling.db");
  REQUIRE(symlink(scene.path, link) == 0 && symlink("nowhere.db", dangling) == 0);
  refuse(&scene, MSGQ_PERMISSION, link);
  refuse(&scene, MSGQ_PERMISSION, dangling);
  scene_open(&scene);
  CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(bad_path_directory_writable_by_others) {
  struct scene scene;
  scene_begin(&scene);
  REQUIRE(chmod(scene.directory, 0777) == 0);
  refuse(&scene, MSGQ_PERMISSION, scene.path);
  REQUIRE(chmod(scene.directory, 01777) == 0); /* sticky as /tmp: users cannot rename files of others */
  make_store(&scene);
  scene_end(&scene);
}

TEST(bad_path_file_of_another_user) {
  struct scene scene;
  scene_begin(&scene);
  make_store(&scene);
  if (geteuid() == 0) {
    REQUIRE(chown(scene.path, 65534, (gid_t)-1) == 0);
    refuse_file(&scene, MSGQ_PERMISSION, scene.path);
  } else {
    /* Only root can change the owner of a file; this file belongs to root. */
    refuse(&scene, MSGQ_PERMISSION, "/etc/passwd");
  }
  scene_end(&scene);
}

/* Opens the path in a process of user nobody, because root may write everywhere. */
static void open_as_nobody(msgq_result expected, const char *path) {
  char detail[256];
  struct child child = child_start("open-as-nobody", path, "");
  child_line(&child, detail, sizeof detail);
  if (!CHECK_NUMBER(expected, child_wait(&child))) fprintf(stderr, "  %s\n", detail);
}

TEST(bad_path_read_only) {
  struct scene scene;
  bool root = geteuid() == 0;
  scene_begin(&scene);
  make_store(&scene);
  REQUIRE(chmod(scene.directory, 0755) == 0 && chmod(scene.path, 0600) == 0);
  if (root) REQUIRE(chown(scene.directory, 65534, (gid_t)-1) == 0 && chown(scene.path, 65534, (gid_t)-1) == 0);
  open_as_nobody(MSGQ_OK, scene.path);
  REQUIRE(chmod(scene.path, 0400) == 0);
  struct file_copy before = file_read(scene.path);
  open_as_nobody(MSGQ_PERMISSION, scene.path);
  REQUIRE(chmod(scene.path, 0600) == 0 && chmod(scene.directory, 0555) == 0);
  open_as_nobody(MSGQ_PERMISSION, scene.path);
  open_as_nobody(MSGQ_PERMISSION, scene_file(&scene, "new.db"));
  CHECK(file_is(scene.path, &before));
  file_copy_free(&before);
  CHECK_NUMBER(1, directory_entries(scene.directory));
  REQUIRE(chmod(scene.directory, 0700) == 0);
  scene_end(&scene);
}

TEST(bad_path_of_a_backup) {
  struct scene scene;
  scene_begin_open(&scene);
  put(&scene, "a", "ana", "hello");
  size_t entries = directory_entries(scene.directory);
  CHECK_RESULT(MSGQ_INVALID, msgq_backup(scene.queue, ""));
  CHECK(msgq_backup(scene.queue, scene_file(&scene, "missing/copy.db")) != MSGQ_OK);
  CHECK(msgq_backup(scene.queue, scene.directory) != MSGQ_OK);
  CHECK_NUMBER(entries, directory_entries(scene.directory));
  CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(bad_path_file_that_is_not_a_store) {
  static const char text[] = "This file is not a database.\n";
  struct scene scene;
  char zeros[8192] = "";
  scene_begin(&scene);
  file_write(scene.path, "", 0);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  file_write(scene.path, text, sizeof text - 1);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  file_write(scene.path, zeros, sizeof zeros);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  file_write(scene.path, "SQLite format 3", 16); /* the magic number alone */
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}

static void run_sql(const char *path, const char *sql) {
  sqlite3 *store = NULL;
  REQUIRE(sqlite3_open(path, &store) == SQLITE_OK);
  CHECK(sqlite3_exec(store, sql, NULL, NULL, NULL) == SQLITE_OK);
  CHECK(sqlite3_close(store) == SQLITE_OK);
}

TEST(bad_path_database_of_another_program) {
  struct scene scene;
  scene_begin(&scene);
  run_sql(scene.path, "CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')");
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  run_sql(scene.path, "PRAGMA application_id = 4711; PRAGMA user_version = 1");
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  run_sql(scene.path, "DROP TABLE notes; PRAGMA application_id = 0; PRAGMA user_version = 0; VACUUM");
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}

TEST(bad_path_database_of_another_program_in_wal_mode) {
  struct scene scene;
  scene_begin(&scene);
  run_sql(scene.path, "PRAGMA journal_mode = WAL; CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')");
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}

TEST(bad_path_store_with_an_unknown_table) {
  struct scene scene;
  scene_begin(&scene);
  make_store(&scene);
  run_sql(scene.path, "CREATE TABLE intruder (text TEXT)");
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}

TEST(bad_path_truncated_store) {
  struct scene scene;
  scene_begin(&scene);
  make_store(&scene);
  REQUIRE(truncate(scene.path, 5000) == 0);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  REQUIRE(truncate(scene.path, 100) == 0);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}
