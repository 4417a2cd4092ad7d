/* msgq_check and msgq_salvage: sound, crashed and randomly damaged stores, and files that are not stores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "files.h"
#include "scene.h"

enum { messages = 150, page_size = 4096 };

/* Writes the body of message `number`; some bodies are long. Returns its size. */
static size_t body_of(unsigned number, char body[4096]) {
  size_t size = number % 9 == 0 ? 3000 : 20 + number % 200;
  for (size_t index = 0; index < size; index++) body[index] = (char)('a' + (number * 7 + index) % 26);
  return size;
}

static void name_of(unsigned number, char id[32]) { snprintf(id, 32, "message-%u", number); }

/* Makes a closed store with many messages. */
static void fill(struct scene *scene) {
  scene_begin_open(scene);
  for (unsigned number = 0; number < messages; number++) {
    char body[4096], id[32];
    msgq_draft draft = MSGQ_DRAFT_INIT;
    name_of(number, id);
    draft.id = id;
    draft.conversation = number % 2 == 0 ? "ana" : "ben";
    draft.body_size = body_of(number, body);
    draft.body = body;
    REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
  }
  scene_close(scene);
}

/* Opens the store for reading only and finds out which messages it returns; their bodies must be correct. Returns false when the open
   fails. */
static bool readable(const char *path, bool found[messages]) {
  msgq_options options = MSGQ_OPTIONS_INIT;
  msgq_queue *queue = NULL;
  options.read_only = true;
  memset(found, 0, messages * sizeof found[0]);
  if (msgq_open(path, &options, &queue) != MSGQ_OK) return false;
  for (unsigned number = 0; number < messages; number++) {
    char body[4096], id[32];
    msgq_message *message = NULL;
    name_of(number, id);
    if (msgq_get(queue, id, &message) != MSGQ_OK) continue;
    size_t size = body_of(number, body);
    CHECK(message->body_size == size && memcmp(message->body, body, size) == 0);
    CHECK_NUMBER(number + 1, message->sequence);
    found[number] = true;
    msgq_message_free(message);
  }
  CHECK_RESULT(MSGQ_OK, msgq_close(queue, -1));
  return true;
}

TEST_LONG(D15_check_reports_a_sound_store_and_salvage_copies_it) {
  struct scene scene;
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  bool found[messages];
  fill(&scene);
  struct file_copy before = file_read(scene.path);
  CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
  CHECK(report.sound);
  CHECK_NUMBER(messages, report.whole);
  CHECK_NUMBER(0, report.damaged + report.missing + report.first_missing + report.last_missing);
  CHECK_TEXT("150 messages, no damage found.", report.text);
  CHECK_NUMBER(sizeof report, report.struct_size);
  CHECK_NUMBER(1, directory_entries(scene.directory));
  CHECK_RESULT(MSGQ_OK, msgq_salvage(scene.path, scene_file(&scene, "new.db"), NULL));
  CHECK_NUMBER(2, directory_entries(scene.directory));
  CHECK(file_is(scene.path, &before));
  CHECK(readable(scene_file(&scene, "new.db"), found));
  for (unsigned number = 0; number < messages; number++) CHECK(found[number]);
  file_copy_free(&before);
  scene_end(&scene);
}

static uint64_t random_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void damage(struct file_copy *copy, uint64_t *seed) {
  for (uint64_t left = 1 + random_next(seed) % 3; left > 0; left--) {
    size_t page = random_next(seed) % (copy->size / page_size) * page_size;
    switch (random_next(seed) % 3) {
      case 0: memset(copy->bytes + page, 0, page_size); break;
      case 1:
        for (size_t index = 0; index < page_size; index++) copy->bytes[page + index] = (char)random_next(seed);
        break;
      default: copy->bytes[page + random_next(seed) % page_size] ^= (char)(1u << random_next(seed) % 8);
    }
  }
}

TEST_LONG(D15_random_damage_loses_only_the_damaged_messages) {
  struct scene scene;
  const char *given = getenv("MSGQ_SEED");
  uint64_t seed = given != NULL ? strtoull(given, NULL, 10) | 1 : (uint64_t)wall_ms() | 1;
  unsigned rounds = getenv("MSGQ_SOAK") != NULL ? 300 : (unsigned)check_times(20, 5);
  fprintf(stderr, "  seed %llu\n", (unsigned long long)seed);
  fill(&scene);
  const struct file_copy original = file_read(scene.path);
  for (unsigned round = 0; round < rounds; round++) {
    struct file_copy copy = file_read(scene.path);
    msgq_check_report report = MSGQ_CHECK_REPORT_INIT, after = MSGQ_CHECK_REPORT_INIT;
    bool wanted[messages], found[messages];
    unsigned count = 0;
    damage(&copy, &seed);
    file_write(scene.path, copy.bytes, copy.size);
    bool opens = readable(scene.path, wanted);
    unlink(scene_file(&scene, "new.db"));
    msgq_result result = msgq_salvage(scene.path, scene_file(&scene, "new.db"), &report);
    CHECK(file_is(scene.path, &copy));
    if (result != MSGQ_OK) {
      CHECK(!opens && (result == MSGQ_CORRUPT || result == MSGQ_TOO_NEW));
      CHECK_NUMBER(1, directory_entries(scene.directory));
    } else {
      CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &after));
      CHECK_NUMBER(report.whole, after.whole);
      CHECK_NUMBER(report.damaged, after.damaged);
      CHECK(readable(scene_file(&scene, "new.db"), found));
      for (unsigned number = 0; number < messages; number++) {
        CHECK(found[number] || !wanted[number]);
        count += found[number];
      }
      CHECK_NUMBER(count, report.whole);
      CHECK_NUMBER(2, directory_entries(scene.directory));
    }
    file_copy_free(&copy);
    file_write(scene.path, original.bytes, original.size);
  }
  free(original.bytes);
  scene_end(&scene);
}

TEST_LONG(D15_a_crashed_store_is_checked_with_its_log_and_an_open_one_is_locked) {
  struct scene scene;
  char id[MSGQ_ID_SIZE];
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
  scene_begin(&scene);
  struct child child = child_start("compose", scene.path, "");
  for (unsigned count = 0; count < 50; count++) child_line(&child, id, sizeof id);
  CHECK_RESULT(MSGQ_LOCKED, msgq_check(scene.path, &report));
  CHECK_RESULT(MSGQ_LOCKED, msgq_salvage(scene.path, scene_file(&scene, "new.db"), &report));
  CHECK(!file_exists(scene_file(&scene, "new.db")));
  child_kill(&child);
  size_t entries = directory_entries(scene.directory);
  struct file_copy log = file_read(scene_file(&scene, "outbox.db-wal"));
  CHECK_RESULT(MSGQ_OK, msgq_check(scene.path, &report));
  CHECK(report.sound);
  CHECK(report.whole >= 50);
  CHECK_RESULT(MSGQ_OK, msgq_salvage(scene.path, scene_file(&scene, "new.db"), &report));
  CHECK_NUMBER(entries + 1, directory_entries(scene.directory));
  CHECK(file_is(scene_file(&scene, "outbox.db-wal"), &log));
  file_copy_free(&log);
  scene_end(&scene);
}

TEST(D15_invalid_arguments_and_files_that_are_not_stores) {
  struct scene scene;
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT, small = MSGQ_CHECK_REPORT_INIT;
  fill(&scene);
  const char *none = scene_file(&scene, "none.db"), *text = scene_file(&scene, "text.db"), *new = scene_file(&scene, "new.db");
  file_write(text, "no store", 8);
  small.struct_size = 4;
  CHECK_RESULT(MSGQ_INVALID, msgq_check(NULL, &report));
  CHECK_RESULT(MSGQ_INVALID, msgq_check(scene.path, NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_check(scene.path, &small));
  CHECK_RESULT(MSGQ_INVALID, msgq_check("", &report));
  CHECK_RESULT(MSGQ_INVALID, msgq_check(none, &report));
  CHECK_RESULT(MSGQ_INVALID, msgq_check("\xff.db", &report));
  CHECK_RESULT(MSGQ_PERMISSION, msgq_check(scene.directory, &report));
  CHECK_RESULT(MSGQ_CORRUPT, msgq_check(text, &report));
  CHECK_RESULT(MSGQ_INVALID, msgq_salvage(NULL, new, &report));
  CHECK_RESULT(MSGQ_INVALID, msgq_salvage(scene.path, NULL, &report));
  CHECK_RESULT(MSGQ_INVALID, msgq_salvage(scene.path, new, &small));
  CHECK_RESULT(MSGQ_INVALID, msgq_salvage(none, new, &report));
  CHECK_RESULT(MSGQ_CORRUPT, msgq_salvage(text, new, &report));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_salvage(scene.path, scene.path, &report));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_salvage(scene.path, text, &report));
  CHECK_NUMBER(0, report.whole); /* written only with MSGQ_OK */
  CHECK_NUMBER(2, directory_entries(scene.directory));
  scene_end(&scene);
}
