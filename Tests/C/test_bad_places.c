/* Places that are no place for a store: refused by name, and left as they are. */
#include <fcntl.h>
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

/* Opens the path and checks the answer, and that the directory has no entry more or less. */
static void refuse(const struct scene *scene, msgq_result expected, const char *path) {
  msgq_queue *queue = NULL;
  size_t entries = directory_entries(scene->directory);
  CHECK_RESULT(expected, msgq_open(path, &scene->options, &queue));
  CHECK(queue == NULL);
  if (queue != NULL) msgq_close(queue, 0);
  CHECK_NUMBER(entries, directory_entries(scene->directory));
}

/* The same for a file, which keeps every byte. */
static void refuse_file(const struct scene *scene, msgq_result expected, const char *path) {
  struct file_copy before = file_read(path);
  refuse(scene, expected, path);
  CHECK(file_is(path, &before));
  file_copy_free(&before);
}

/* A store with one message in it, closed. */
static void make_store(struct scene *scene) {
  scene_open(scene);
  put(scene, "a", "ana", "hello");
  scene_close(scene);
}

TEST(bad_place_names) {
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

/* Debian's SQLite takes such a name as an address of a database in memory. */
TEST(bad_place_name_that_looks_like_an_address) {
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

TEST(bad_place_without_a_parent_directory) {
  struct scene scene;
  msgq_queue *queue = NULL;
  scene_begin(&scene);
  CHECK(msgq_open(scene_file(&scene, "missing/outbox.db"), &scene.options, &queue) != MSGQ_OK);
  CHECK(queue == NULL && directory_entries(scene.directory) == 0);
  scene_end(&scene);
}

TEST(bad_place_directory) {
  struct scene scene;
  scene_begin(&scene);
  refuse(&scene, MSGQ_PERMISSION, scene.directory);
  scene_end(&scene);
}

TEST(bad_place_fifo) {
  struct scene scene;
  scene_begin(&scene);
  REQUIRE(mkfifo(scene.path, 0600) == 0);
  refuse(&scene, MSGQ_PERMISSION, scene.path); /* and does not wait for a writer */
  scene_end(&scene);
}

TEST(bad_place_device) {
  struct scene scene;
  scene_begin(&scene);
  refuse(&scene, MSGQ_PERMISSION, "/dev/null");
  scene_end(&scene);
}

TEST(bad_place_symbolic_link) {
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

TEST(bad_place_hard_link) {
  struct scene scene;
  scene_begin(&scene);
  make_store(&scene);
  const char *second = scene_file(&scene, "second.db");
  REQUIRE(link(scene.path, second) == 0);
  refuse_file(&scene, MSGQ_PERMISSION, scene.path);
  refuse_file(&scene, MSGQ_PERMISSION, second);
  REQUIRE(unlink(second) == 0);
  scene_open(&scene);
  scene_end(&scene);
}

TEST(bad_place_directory_that_others_may_write) {
  struct scene scene;
  scene_begin(&scene);
  REQUIRE(chmod(scene.directory, 0777) == 0);
  refuse(&scene, MSGQ_PERMISSION, scene.path);
  REQUIRE(chmod(scene.directory, 01777) == 0); /* as /tmp: nobody renames another's file there */
  make_store(&scene);
  scene_end(&scene);
}

TEST(bad_place_file_of_another_user) {
  struct scene scene;
  scene_begin(&scene);
  make_store(&scene);
  if (geteuid() == 0) {
    REQUIRE(chown(scene.path, 65534, (gid_t)-1) == 0);
    refuse_file(&scene, MSGQ_PERMISSION, scene.path);
  } else {
    /* Only root can give a file away; but root's own are everywhere. */
    refuse(&scene, MSGQ_PERMISSION, "/etc/passwd");
  }
  scene_end(&scene);
}

/* Root may write anywhere, so a process of nobody's does the opening. */
static void open_as_nobody(msgq_result expected, const char *path) {
  char detail[256];
  struct child child = child_start("open-as-nobody", path, "");
  child_line(&child, detail, sizeof detail);
  if (!CHECK_NUMBER(expected, child_wait(&child))) fprintf(stderr, "  %s\n", detail);
}

TEST(bad_place_read_only) {
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

TEST(bad_place_of_a_backup) {
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

TEST(bad_place_file_that_is_no_store) {
  static const char text[] = "Dear diary, this file is no database.\n";
  struct scene scene;
  char zeros[8192] = "";
  scene_begin(&scene);
  file_write(scene.path, "", 0);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  file_write(scene.path, text, sizeof text - 1);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  file_write(scene.path, zeros, sizeof zeros);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  file_write(scene.path, "SQLite format 3", 16); /* and nothing after it */
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}

static void run_sql(const char *path, const char *sql) {
  sqlite3 *store = NULL;
  REQUIRE(sqlite3_open(path, &store) == SQLITE_OK);
  CHECK(sqlite3_exec(store, sql, NULL, NULL, NULL) == SQLITE_OK);
  CHECK(sqlite3_close(store) == SQLITE_OK);
}

TEST(bad_place_database_of_another_program) {
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

TEST(bad_place_database_of_another_program_in_wal_mode) {
  struct scene scene;
  scene_begin(&scene);
  run_sql(scene.path, "PRAGMA journal_mode = WAL; CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')");
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}

TEST(bad_place_store_with_a_foreign_table) {
  struct scene scene;
  scene_begin(&scene);
  make_store(&scene);
  run_sql(scene.path, "CREATE TABLE intruder (text TEXT)");
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}

TEST(bad_place_store_that_was_cut_off) {
  struct scene scene;
  scene_begin(&scene);
  make_store(&scene);
  REQUIRE(truncate(scene.path, 5000) == 0);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  REQUIRE(truncate(scene.path, 100) == 0);
  refuse_file(&scene, MSGQ_CORRUPT, scene.path);
  scene_end(&scene);
}

TEST(bad_place_store_of_a_later_version) {
  struct scene scene;
  unsigned char version[4];
  scene_begin(&scene);
  make_store(&scene);
  /* user_version: bytes 60 to 63 of an SQLite file, big-endian. */
  int file = open(scene.path, O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0 && pread(file, version, 4, 60) == 4);
  CHECK(version[0] == 0 && version[3] != 0);
  unsigned char later[4] = { 0, 0, 0x7f, 0xff };
  REQUIRE(pwrite(file, later, 4, 60) == 4 && close(file) == 0);
  refuse_file(&scene, MSGQ_TOO_NEW, scene.path);
  file = open(scene.path, O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0 && pwrite(file, version, 4, 60) == 4 && close(file) == 0);
  scene_open(&scene);
  CHECK_NUMBER(1, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}
