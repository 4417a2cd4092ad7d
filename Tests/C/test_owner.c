/* A store has one owner, whatever the process of the owner does with the file. */
#include <dlfcn.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "stores.h"

static void begin_owner(struct scene *scene) {
  scene_begin_open(scene);
  put_numbered(scene, 1, 3);
}

/* Checks that another process is refused with the process id of the owner. */
static void check_locked(const struct scene *scene) {
  char detail[512], owner[32];
  CHECK_NUMBER(MSGQ_LOCKED, open_elsewhere(scene->path, detail));
  snprintf(owner, sizeof owner, "(%ld)", (long)getpid());
  bool is_named = strstr(detail, owner) != NULL;
  snprintf(owner, sizeof owner, "process %ld", (long)getpid());
  if (!CHECK(is_named || strstr(detail, owner) != NULL)) fprintf(stderr, "  %s\n", detail);
}

/* Checks that the store is still locked, that the owner can continue, and that nothing is lost. */
static void end_owner(struct scene *scene) {
  check_locked(scene);
  put_numbered(scene, 4, 6);
  check_locked(scene);
  scene_close(scene);
  scene_open(scene);
  check_numbered(scene, 1, 6);
  scene_end(scene);
}

TEST_LONG(D1_reading_and_copying_the_file_keeps_the_lock) {
  struct scene scene;
  begin_owner(&scene);
  struct file_copy copy = file_read(scene.path);
  CHECK(copy.size > 0);
  file_copy_free(&copy);
  check_locked(&scene);
  file_copy_to(scene.path, scene_file(&scene, "copy.db"));
  file_copy_to(log_of(&scene), scene_file(&scene, "copy.log"));
  end_owner(&scene);
}

TEST(D1_sqlite_in_the_process_keeps_the_lock) {
  struct scene scene;
  sqlite3 *store = NULL;
  begin_owner(&scene);
  REQUIRE(sqlite3_open(scene.path, &store) == SQLITE_OK);
  CHECK_NUMBER(SQLITE_BUSY, sqlite3_exec(store, "SELECT count(*) FROM message", NULL, NULL, NULL));
  CHECK_NUMBER(SQLITE_BUSY, sqlite3_exec(store, "DELETE FROM message", NULL, NULL, NULL));
  CHECK_NUMBER(SQLITE_OK, sqlite3_close(store));
  end_owner(&scene);
}

/* A second copy of the SQLite library, as a plug-in or a framework may load it. The copies do not share their lock tables. */
struct other_sqlite {
  void *library;
  int (*open)(const char *, sqlite3 **);
  int (*exec)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
  int (*close)(sqlite3 *);
};

static void *symbol_of(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  REQUIRE(symbol != NULL);
  return symbol;
}

static struct other_sqlite load_other_sqlite(struct scene *scene) {
  struct other_sqlite other = { 0 };
  Dl_info origin;
  const char *file = scene_file(scene, "libother.so");
  void *address = dlsym(RTLD_DEFAULT, "sqlite3_libversion");
  REQUIRE(address != NULL && dladdr(address, &origin) != 0);
  file_copy_to(origin.dli_fname, file);
  other.library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  REQUIRE(other.library != NULL);
  REQUIRE(symbol_of(other.library, "sqlite3_libversion") != address);
  *(void **)&other.open = symbol_of(other.library, "sqlite3_open");
  *(void **)&other.exec = symbol_of(other.library, "sqlite3_exec");
  *(void **)&other.close = symbol_of(other.library, "sqlite3_close");
  return other;
}

TEST_ALONE(D1_a_second_copy_of_sqlite_in_the_process_can_neither_read_nor_write) {
  struct scene scene;
  sqlite3 *store = NULL;
  begin_owner(&scene);
  struct other_sqlite other = load_other_sqlite(&scene);
  REQUIRE(other.open(scene.path, &store) == SQLITE_OK);
  CHECK_NUMBER(SQLITE_BUSY, other.exec(store, "SELECT count(*) FROM message", NULL, NULL, NULL));
  CHECK_NUMBER(SQLITE_BUSY, other.exec(store, "DELETE FROM message", NULL, NULL, NULL));
  CHECK_NUMBER(SQLITE_OK, other.close(store));
  end_owner(&scene);
  dlclose(other.library);
}

TEST_LONG(D1_sqlite_in_another_process_is_locked_out) {
  struct scene scene;
  begin_owner(&scene);
  struct child child = child_start("read-by-sqlite", scene.path, "SELECT count(*) FROM message");
  CHECK_NUMBER(SQLITE_BUSY, child_wait(&child));
  child = child_start("read-by-sqlite", scene.path, "DELETE FROM message");
  CHECK_NUMBER(SQLITE_BUSY, child_wait(&child));
  end_owner(&scene);
}

/* With POSIX locks, which belong to the process, closing the second descriptor would release the lock of the first. */
TEST_LONG(D1_a_second_open_in_the_process_is_refused_and_keeps_the_lock) {
  struct scene scene;
  msgq_queue *second = NULL;
  begin_owner(&scene);
  for (int time = 0; time < 2; time++) {
    CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, NULL, &second));
    CHECK(second == NULL);
  }
  end_owner(&scene);
}

TEST_LONG(D1_a_forked_child_does_not_drop_the_lock) {
  struct scene scene;
  int status = -1;
  begin_owner(&scene);
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int descriptor = 3; descriptor < 256; descriptor++) close(descriptor);
    FILE *file = fopen(scene.path, "rb");
    if (file != NULL) fclose(file);
    child_end();
  }
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_NUMBER(0, status);
  end_owner(&scene);
}

TEST(D1_a_forked_child_that_outlives_its_parent_does_not_keep_the_lock) {
  struct scene scene;
  char line[32];
  scene_begin(&scene);
  struct child parent = child_start("fork-and-hold", scene.path, "");
  child_line(&parent, line, sizeof line);
  pid_t orphan = (pid_t)strtol(line, NULL, 10);
  REQUIRE(orphan > 1);
  child_kill(&parent);
  CHECK(kill(orphan, 0) == 0);
  msgq_result result = msgq_open(scene.path, &scene.options, &scene.queue);
  CHECK(kill(orphan, SIGKILL) == 0);
  REQUIRE_OK(result);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  scene_end(&scene);
}

TEST(D1_a_killed_owner_leaves_no_lock) {
  struct scene scene;
  char line[32];
  scene_begin(&scene);
  struct child owner = child_start("hold", scene.path, "");
  child_line(&owner, line, sizeof line);
  CHECK_TEXT("open", line);
  CHECK_RESULT(MSGQ_LOCKED, msgq_open(scene.path, &scene.options, &scene.queue));
  CHECK(scene.queue == NULL);
  snprintf(line, sizeof line, "process %ld", (long)owner.pid);
  if (!CHECK(strstr(msgq_error_detail(), line) != NULL)) fprintf(stderr, "  %s\n", msgq_error_detail());
  child_kill(&owner);
  scene_open(&scene);
  scene_end(&scene);
}
