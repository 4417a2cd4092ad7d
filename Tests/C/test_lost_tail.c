/* The lost end of a log is reported, and reads that fail once lose nothing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "stores.h"

/* Makes a crashed store with m1 to m4 in the database and m5 to m20 in the log. */
static void begin_crashed(struct scene *scene) {
  scene_begin(scene);
  close_after(scene, 1, 4);
  crash_after(scene, 5, 20);
}

/* Checks that the store has the first messages of m1 to m20 and returns their number. */
static unsigned present(struct scene *scene) {
  unsigned count = (unsigned)counts_of(scene, NULL).queued;
  check_numbered(scene, 1, count);
  return count;
}

/* Opens the store and checks that a handler that is set later gets an event with the missing sequences. */
static void check_missing(struct scene *scene, const char *what) {
  char expected[96];
  REQUIRE_OK(msgq_open(scene->path, &scene->options, &scene->queue));
  unsigned count = present(scene);
  CHECK(count >= 4 && count < 20);
  msgq_message *last = NULL;
  char id[16];
  snprintf(id, sizeof id, "m%u", count);
  REQUIRE_OK(msgq_get(scene->queue, id, &last));
  unsigned first_missing = (unsigned)last->sequence + 1;
  msgq_message_free(last);
  snprintf(expected, sizeof expected, what, first_missing, first_missing + (20 - count) - 1);
  await_storage_event(scene, expected);
  struct entry entry;
  REQUIRE(journal_last(&scene->journal, MSGQ_EVENT_STORAGE, &entry));
  CHECK_NUMBER(MSGQ_CORRUPT, entry.result);
  CHECK(strstr(entry.text, log_of(scene)) != NULL);
  /* Sequence numbers are not reused, not even those of lost messages. */
  put(scene, "next", "ana", "next");
  REQUIRE_OK(msgq_get(scene->queue, "next", &last));
  CHECK(last->sequence > first_missing + (20 - count) - 1);
  msgq_message_free(last);
  scene_close(scene);
  /* The loss is reported only once. */
  size_t events = journal_count(&scene->journal, MSGQ_EVENT_STORAGE);
  scene_open(scene);
  pause_ms(50);
  CHECK_NUMBER(events, journal_count(&scene->journal, MSGQ_EVENT_STORAGE));
}

/* Checks that refuse_lost_tail refuses the store with this text and changes no file. */
static void check_refused_with_option(struct scene *scene, const char *text) {
  scene->options.refuse_lost_tail = true;
  check_refused(scene, MSGQ_CORRUPT, text);
  scene->options.refuse_lost_tail = false;
}

TEST_LONG(D7_a_flipped_bit_in_the_log_is_reported_with_the_missing_sequences) {
  for (int place = 1; place <= 3; place++) {
    struct scene scene;
    begin_crashed(&scene);
    file_flip(log_of(&scene), file_size(log_of(&scene)) / 4 * place);
    check_refused_with_option(&scene, "are missing");
    check_missing(&scene, "Messages with the sequences %u to %u are missing");
    scene_end(&scene);
  }
}

TEST_LONG(D7_a_truncated_log_is_reported_with_the_missing_sequences) {
  struct scene scene;
  begin_crashed(&scene);
  REQUIRE(truncate(log_of(&scene), file_size(log_of(&scene)) / 2) == 0);
  check_refused_with_option(&scene, "are missing");
  check_missing(&scene, "Messages with the sequences %u to %u are missing");
  scene_end(&scene);
}

TEST_LONG(D7_a_removed_log_is_reported_with_the_missing_sequences) {
  struct scene scene;
  begin_crashed(&scene);
  REQUIRE(unlink(log_of(&scene)) == 0);
  check_refused_with_option(&scene, "is missing");
  check_missing(&scene, "Messages with the sequences %u to %u are missing");
  scene_end(&scene);
}

TEST(D7_a_store_copied_without_its_log_is_reported_as_not_closed) {
  struct scene scene;
  begin_crashed(&scene);
  REQUIRE(unlink(log_of(&scene)) == 0 && unlink(tail_of(&scene)) == 0);
  check_refused_with_option(&scene, "is missing: the queue was not closed");
  REQUIRE_OK(msgq_open(scene.path, &scene.options, &scene.queue));
  CHECK(present(&scene) >= 4);
  await_storage_event(&scene, "Messages after sequence ");
  put(&scene, "next", "ana", "next");
  scene_end(&scene);
}

TEST(D7_a_crash_that_lost_nothing_is_not_reported) {
  struct scene scene;
  begin_crashed(&scene);
  scene.options.refuse_lost_tail = true;
  scene_open(&scene);
  check_numbered(&scene, 1, 20);
  pause_ms(50);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  scene_end(&scene);
}

/* Without the file "-tail" only the log itself tells where it ends. */
TEST_LONG(D7_a_missing_or_damaged_tail_file_loses_nothing) {
  for (int damaged = 0; damaged < 2; damaged++) {
    struct scene scene;
    begin_crashed(&scene);
    if (damaged) file_flip(tail_of(&scene), 20);
    else REQUIRE(unlink(tail_of(&scene)) == 0);
    scene_open(&scene);
    check_numbered(&scene, 1, 20);
    scene_end(&scene);
  }
}

/* Enqueues a message whose body is stored in the row or, if longer, in overflow pages. */
static void put_sized(struct scene *scene, unsigned number) {
  static char body[6000];
  char id[16];
  snprintf(id, sizeof id, "s%u", number);
  memset(body, 'a' + (int)(number % 26), sizeof body);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = number % 2 == 0 ? "ana" : "ben";
  draft.body = body;
  draft.body_size = number % 3 == 0 ? 6000 : 700;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

static void check_not_damage(msgq_result result, const char *what, int number) {
  if (result != MSGQ_CORRUPT && result != MSGQ_INTERNAL) return;
  fprintf(stderr, "  read %d: %s returned %s (%s)\n", number, what, msgq_result_name(result), msgq_error_detail());
  CHECK(!"a failed read is not reported as damage");
}

/* Calls every function that reads, with one read that fails. */
static void use_with_a_failing_read(struct scene *scene, int number) {
  msgq_page *list = NULL;
  msgq_message *message = NULL;
  msgq_counts counts = MSGQ_COUNTS_INIT;
  fault_read(scene->directory, number);
  check_not_damage(msgq_open(scene->path, &scene->options, &scene->queue), "open", number);
  if (scene->queue == NULL) return;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = "new";
  msgq_filter filter = MSGQ_FILTER_INIT;
  filter.limit = 100;
  check_not_damage(msgq_get(scene->queue, "s21", &message), "get", number);
  msgq_message_free(message);
  check_not_damage(msgq_list(scene->queue, &filter, &list), "list", number);
  for (size_t index = 0; index < msgq_list_size(list); index++) {
    if (msgq_list_at(list, index)->status != MSGQ_STATUS_QUEUED) {
      fprintf(stderr, "  read %d: %s is shown as damaged\n", number, msgq_list_at(list, index)->id);
      CHECK(!"the message is shown as intact");
    }
  }
  msgq_list_free(list);
  check_not_damage(msgq_count(scene->queue, "ana", &counts), "counts", number);
  check_not_damage(msgq_enqueue(scene->queue, &draft, NULL), "enqueue", number);
  check_not_damage(msgq_delete(scene->queue, "s1"), "delete", number);
  check_not_damage(msgq_edit(scene->queue, "s2", "edited", 6), "edit", number);
  check_not_damage(msgq_clear(scene->queue, "none"), "clear", number);
  check_not_damage(msgq_close(scene->queue, 1000), "close", number);
  scene->queue = NULL;
}

static void check_all_whole(struct scene *scene) {
  scene_open(scene);
  for (unsigned number = 3; number <= 40; number++) {
    char id[16];
    snprintf(id, sizeof id, "s%u", number);
    msgq_message *message = NULL;
    REQUIRE_OK(msgq_get(scene->queue, id, &message));
    CHECK_NUMBER(MSGQ_STATUS_QUEUED, message->status);
    CHECK(message->failure == NULL);
    CHECK_NUMBER(number % 3 == 0 ? 6000 : 700, message->body_size);
    CHECK(((const char *)message->body)[message->body_size - 1] == (char)('a' + number % 26));
    msgq_message_free(message);
  }
  scene_close(scene);
}

static void fail_every_read(bool crashed) {
  struct scene scene;
  struct snapshot whole;
  scene_begin_open(&scene);
  for (unsigned number = 1; number <= 40; number++) put_sized(&scene, number);
  scene_close(&scene);
  if (crashed) crash_after(&scene, 1, 20);
  snapshot_take(&whole, scene.directory);
  const int step = check_times(1, 10);
  int number = 1;
  for (bool read = true; read; number += step) {
    use_with_a_failing_read(&scene, number);
    read = fault_reads() >= number;
    fault_read("", 0);
    check_all_whole(&scene);
    snapshot_restore(&whole, scene.directory);
    if (check_failures() > 8) break;
  }
  CHECK(number > 20);
  snapshot_free(&whole);
  scene_end(&scene);
}

TEST_ALONE(D8_a_read_that_fails_once_loses_nothing) { fail_every_read(false); }
TEST_ALONE(D8_a_read_that_fails_once_after_a_crash_loses_nothing) { fail_every_read(true); }
