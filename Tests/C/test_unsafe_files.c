/* Planted, shared, linked, mounted and misnamed files are refused with the reason. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "stores.h"

enum { nobody = 65534 };

static void begin_crashed(struct scene *scene) {
  scene_begin(scene);
  close_after(scene, 1, 3);
  crash_after(scene, 4, 6);
}

static void end_crashed(struct scene *scene) {
  scene_open(scene);
  check_numbered(scene, 1, 6);
  scene_end(scene);
}

TEST_LONG(D12_side_files_of_another_user_are_refused) {
  static const char *const suffixes[] = { "-wal", "-tail", "-journal" };
  if (geteuid() != 0) SKIP("only root can change the owner of a file");
  for (size_t index = 0; index < 3; index++) {
    struct scene scene;
    char name[128];
    begin_crashed(&scene);
    snprintf(name, sizeof name, "%s%s", scene.path, suffixes[index]);
    bool is_planted = !file_exists(name);
    if (is_planted) file_write(name, "", 0);
    REQUIRE(chown(name, nobody, (gid_t)-1) == 0);
    check_refused(&scene, MSGQ_PERMISSION, "belongs to another user than");
    CHECK(strstr(msgq_error_detail(), name) != NULL);
    if (is_planted) REQUIRE(unlink(name) == 0);
    else REQUIRE(chown(name, 0, (gid_t)-1) == 0);
    end_crashed(&scene);
  }
}

TEST(D12_side_files_writable_by_others_or_linked_are_refused) {
  struct scene scene;
  begin_crashed(&scene);
  REQUIRE(chmod(log_of(&scene), 0622) == 0);
  check_refused(&scene, MSGQ_PERMISSION, "is writable by other users");
  REQUIRE(chmod(log_of(&scene), 0600) == 0 && chmod(tail_of(&scene), 0660) == 0);
  check_refused(&scene, MSGQ_PERMISSION, "is writable by other users");
  REQUIRE(chmod(tail_of(&scene), 0600) == 0);
  REQUIRE(link(log_of(&scene), scene_file(&scene, "second")) == 0);
  check_refused(&scene, MSGQ_PERMISSION, "has 2 hard links");
  REQUIRE(unlink(log_of(&scene)) == 0 && symlink(scene_file(&scene, "second"), log_of(&scene)) == 0);
  check_refused(&scene, MSGQ_PERMISSION, "symbolic link");
  REQUIRE(rename(scene_file(&scene, "second"), log_of(&scene)) == 0);
  end_crashed(&scene);
}

TEST(D12_a_store_writable_by_others_is_refused) {
  static const mode_t refused[] = { 0666, 0620, 0602, 0660 }, accepted[] = { 0600, 0644, 0640 };
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  for (size_t index = 0; index < sizeof refused / sizeof refused[0]; index++) {
    REQUIRE(chmod(scene.path, refused[index]) == 0);
    check_refused(&scene, MSGQ_PERMISSION, "chmod go-w");
  }
  for (size_t index = 0; index < sizeof accepted / sizeof accepted[0]; index++) {
    REQUIRE(chmod(scene.path, accepted[index]) == 0);
    scene_open(&scene);
    check_numbered(&scene, 1, 3);
    scene_close(&scene);
  }
  scene_end(&scene);
}

TEST(D12_a_directory_of_another_user_is_refused) {
  if (geteuid() != 0) SKIP("only root can change the owner of a directory");
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  REQUIRE(chown(scene.directory, nobody, (gid_t)-1) == 0);
  check_refused(&scene, MSGQ_PERMISSION, "belongs to another user");
  REQUIRE(chown(scene.directory, 0, (gid_t)-1) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

/* As a directory of a service in /var/spool: owned by root and writable by the group of the service. */
TEST(D12_a_directory_of_root_writable_by_the_group_is_accepted) {
  if (geteuid() != 0) SKIP("only root can change the owner of a directory");
  struct scene scene;
  char detail[512];
  scene_begin(&scene);
  REQUIRE(chown(scene.directory, 0, nobody) == 0 && chmod(scene.directory, 0770) == 0);
  for (int time = 0; time < 2; time++) {
    struct child child = child_start("open-as-nobody", scene.path, "");
    child_line(&child, detail, sizeof detail);
    if (!CHECK_NUMBER(MSGQ_OK, child_wait(&child))) fprintf(stderr, "  %s\n", detail);
  }
  scene_end(&scene);
}

TEST_ALONE(D12_a_file_that_is_a_mount_point_is_refused) {
  struct scene scene;
  scene_begin(&scene);
  close_after(&scene, 1, 3);
  const char *other = scene_file(&scene, "mounted.db");
  file_write(other, "", 0);
  REQUIRE(chmod(other, 0600) == 0);
  bool mounted = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                 mount(scene.path, other, NULL, MS_BIND, NULL) == 0;
  if (!mounted) {
    scene_end(&scene);
    SKIP("mounting a file needs root");
  }
  msgq_queue *queue = NULL;
  CHECK_RESULT(MSGQ_PERMISSION, msgq_open(other, &scene.options, &queue));
  CHECK(strstr(msgq_error_detail(), "mount") != NULL);
  CHECK(queue == NULL);
  REQUIRE(umount2(other, MNT_DETACH) == 0);
  scene_open(&scene);
  check_numbered(&scene, 1, 3);
  scene_end(&scene);
}

TEST(D12_names_of_side_files_are_refused) {
  static const char *const names[] = { "a.db-wal", "a.db-journal", "a.db-shm", "a.db-tail", "-wal" };
  struct scene scene;
  scene_begin(&scene);
  for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
    msgq_queue *queue = NULL;
    CHECK_RESULT(MSGQ_INVALID, msgq_open(scene_file(&scene, names[index]), &scene.options, &queue));
    CHECK(queue == NULL);
    CHECK(strstr(msgq_error_detail(), "must not end in") != NULL);
    if (queue != NULL) msgq_close(queue, 0);
  }
  CHECK_NUMBER(0, directory_entries(scene.directory));
  /* A backup with such a name is refused, too. */
  scene_open(&scene);
  CHECK_RESULT(MSGQ_INVALID, msgq_backup(scene.queue, scene_file(&scene, "b.db-wal")));
  scene_end(&scene);
}

/* An earlier version accepted such names. */
TEST_LONG(D12_a_store_with_the_name_of_a_side_file_is_not_overwritten) {
  static const char *const suffixes[] = { "-wal", "-tail", "-journal" };
  for (size_t index = 0; index < 3; index++) {
    struct scene scene, other;
    char name[128];
    scene_begin(&scene);
    scene_begin(&other);
    close_after(&scene, 1, 3);
    close_after(&other, 11, 13);
    snprintf(name, sizeof name, "%s%s", scene.path, suffixes[index]);
    file_copy_to(other.path, name);
    REQUIRE(chmod(name, 0600) == 0);
    check_refused(&scene, MSGQ_PERMISSION, "a database itself");
    REQUIRE(unlink(scene.path) == 0);
    check_refused(&scene, MSGQ_CORRUPT, "without its database");
    scene_end(&scene);
    scene_end(&other);
  }
}

TEST(D12_a_store_with_two_hard_links_is_refused_by_both_names) {
  struct scene scene;
  msgq_queue *queue = NULL;
  begin_crashed(&scene);
  const char *second = scene_file(&scene, "second.db");
  REQUIRE(link(scene.path, second) == 0);
  check_refused(&scene, MSGQ_PERMISSION, "has 2 hard links");
  struct file_copy before = file_read(second);
  CHECK_RESULT(MSGQ_PERMISSION, msgq_open(second, &scene.options, &queue));
  CHECK(queue == NULL);
  CHECK(file_is(second, &before));
  file_copy_free(&before);
  REQUIRE(unlink(second) == 0);
  end_crashed(&scene);
}
