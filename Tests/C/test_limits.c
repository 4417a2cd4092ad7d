/* Limits: a value at the limit is accepted; a value above it is refused and changes nothing (X11). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "scene.h"
#include "stores.h"

TEST(X11_messages_are_limited) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.limit_messages = 2;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "a", 1));
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "b", 1));
  CHECK_RESULT(MSGQ_FULL, put_body_of(&scene, "c", 1));
  CHECK_NUMBER(-1, status_of(&scene, "c"));
  CHECK_RESULT(MSGQ_OK, msgq_delete(scene.queue, "a"));
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "c", 1));
  scene_end(&scene);
}

TEST(X11_a_batch_over_the_limit_changes_nothing) {
  struct scene scene;
  msgq_draft drafts[3] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  scene_begin(&scene);
  scene.options.limit_messages = 2;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_FULL, msgq_enqueue_batch(scene.queue, drafts, 3, NULL));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_batch(scene.queue, drafts, 2, NULL));
  scene_end(&scene);
}

TEST(X11_the_detail_about_a_draft_of_a_batch_begins_with_its_index) {
  struct scene scene;
  msgq_draft drafts[3] = { MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT, MSGQ_DRAFT_INIT };
  scene_begin_open(&scene);
  drafts[2].priority = 101;
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, drafts, 3, NULL));
  CHECK_TEXT("draft 2: the priority must be -100 to 100, got 101", msgq_error_detail());
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue(scene.queue, &drafts[2], NULL));
  CHECK_TEXT("the priority must be -100 to 100, got 101", msgq_error_detail());
  drafts[2].priority = 0;
  drafts[1].conversation = "\xff";
  CHECK_RESULT(MSGQ_INVALID, msgq_enqueue_batch(scene.queue, drafts, 3, NULL));
  CHECK_TEXT("draft 1: conversation is not UTF-8", msgq_error_detail());
  drafts[1].conversation = NULL;
  drafts[0].id = drafts[2].id = "twice";
  CHECK_RESULT(MSGQ_DUPLICATE, msgq_enqueue_batch(scene.queue, drafts, 3, NULL));
  CHECK_TEXT("draft 2: id twice occurs twice in the batch", msgq_error_detail());
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(X11_bodies_over_a_limit_change_nothing) {
  struct scene scene;
  msgq_draft draft = MSGQ_DRAFT_INIT;
  size_t sizes[3] = { 2, 0, 3 };
  scene_begin(&scene);
  scene.options.limit_messages = 5;
  scene.options.limit_bytes = 8;
  scene.options.limit_body = 4;
  scene_open(&scene);
  REQUIRE_OK(msgq_enqueue_bodies(scene.queue, &draft, "abcde", 5, sizes, 3, NULL));
  CHECK_RESULT(MSGQ_FULL, msgq_enqueue_bodies(scene.queue, &draft, NULL, 0, (size_t[3]) { 0 }, 3, NULL));
  CHECK_RESULT(MSGQ_FULL, msgq_enqueue_bodies(scene.queue, &draft, "abcd", 4, (size_t[]) { 2, 2 }, 2, NULL));
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_enqueue_bodies(scene.queue, &draft, "abcdef", 6, (size_t[]) { 1, 5 }, 2, NULL));
  CHECK_TEXT("body 1: the body has 5 bytes; the limit is 4 bytes", msgq_error_detail());
  CHECK_NUMBER(3, counts_of(&scene, NULL).queued);
  CHECK_NUMBER(5, counts_of(&scene, NULL).unsent_bytes);
  CHECK_RESULT(MSGQ_OK, msgq_enqueue_bodies(scene.queue, &draft, "abc", 3, (size_t[]) { 1, 2 }, 2, NULL));
  scene_end(&scene);
}

TEST(X11_bytes_are_limited) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.limit_bytes = 100;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "a", 60));
  CHECK_RESULT(MSGQ_FULL, put_body_of(&scene, "b", 41));
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "b", 40));
  CHECK_RESULT(MSGQ_FULL, msgq_edit(scene.queue, "b", "forty-one bytes, of which one is too much", 41));
  CHECK_NUMBER(100, counts_of(&scene, NULL).unsent_bytes);
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "a", "less", 4));
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "c", 56));
  scene_end(&scene);
}

TEST(X11_a_body_is_limited) {
  struct scene scene;
  char *body = calloc(1, 1048577);
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_TOO_LARGE, put_body_of(&scene, "a", 1048577));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "a", 1048576));
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "empty", 0));
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_edit(scene.queue, "empty", body, 1048577));
  CHECK_RESULT(MSGQ_TOO_LARGE, msgq_edit(scene.queue, "empty", body, SIZE_MAX)); /* the size is checked first */
  CHECK_NUMBER(1048576, counts_of(&scene, NULL).unsent_bytes);
  free(body);
  scene_end(&scene);
}

TEST(X11_a_body_limit_of_one_byte) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.limit_body = 1;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_OK, put_body_of(&scene, "a", 1));
  CHECK_RESULT(MSGQ_TOO_LARGE, put_body_of(&scene, "b", 2));
  scene_end(&scene);
}

/* Returns the result of enqueueing `count` pairs "k0", "k1" and so on, each with this value. */
static msgq_result put_pairs(struct scene *scene, size_t count, const char *value) {
  char (*keys)[24] = calloc(count, sizeof *keys);
  msgq_pair *pairs = calloc(count, sizeof *pairs);
  REQUIRE(keys != NULL && pairs != NULL);
  for (size_t index = 0; index < count; index++) {
    snprintf(keys[index], sizeof keys[index], "k%zu", index);
    pairs[index].key = keys[index];
    pairs[index].value = value;
  }
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.metadata = pairs;
  draft.metadata_count = count;
  msgq_result result = msgq_enqueue(scene->queue, &draft, NULL);
  free(pairs);
  free(keys);
  return result;
}

TEST(X11_metadata_is_limited_in_pairs) {
  struct scene scene;
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_TOO_LARGE, put_pairs(&scene, 10000, ""));
  CHECK_RESULT(MSGQ_TOO_LARGE, put_pairs(&scene, 1025, ""));
  CHECK_NUMBER(0, counts_of(&scene, NULL).queued);
  CHECK_RESULT(MSGQ_OK, put_pairs(&scene, 1024, ""));
  scene_end(&scene);
}

TEST(X11_metadata_is_limited_in_bytes) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.limit_metadata = 10;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_OK, put_pairs(&scene, 1, "12345678"));
  CHECK_RESULT(MSGQ_TOO_LARGE, put_pairs(&scene, 1, "123456789"));
  CHECK_RESULT(MSGQ_OK, put_pairs(&scene, 2, "123"));
  CHECK_RESULT(MSGQ_TOO_LARGE, put_pairs(&scene, 3, "12"));
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST_LONG(X11_the_log_of_a_large_batch_is_truncated) {
  const size_t count = (size_t)check_times(100000, 2000);
  static const char body[300] = "a body";
  struct scene scene;
  msgq_draft *drafts = calloc(count, sizeof *drafts);
  REQUIRE(drafts != NULL);
  for (size_t index = 0; index < count; index++) {
    drafts[index] = (msgq_draft)MSGQ_DRAFT_INIT;
    drafts[index].body = body;
    drafts[index].body_size = sizeof body;
  }
  scene_begin_open(&scene);
  REQUIRE_OK(msgq_enqueue_batch(scene.queue, drafts, count, NULL));
  free(drafts);
  CHECK_NUMBER(count, counts_of(&scene, NULL).queued);
  AWAIT(file_size(log_of(&scene)) <= 32 << 20);
  scene_end(&scene);
}
