/* The feed of changes when the files are at their limit: it is never the reason to refuse an outcome. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "scene.h"
#include "stores.h"
#include "stub.h"

/* Reads the changes after a token, which becomes the last one. Returns MSGQ_OK or the error. */
static msgq_result follow(msgq_queue *queue, char token[MSGQ_CHANGE_TOKEN_SIZE], size_t *count) {
  for (size_t size = 1; size > 0;) {
    msgq_change_page *page = NULL;
    msgq_result result = msgq_changes(queue, token[0] == '\0' ? NULL : token, 1000, &page);
    if (result != MSGQ_OK) return result;
    size = msgq_changes_size(page);
    *count += size;
    snprintf(token, MSGQ_CHANGE_TOKEN_SIZE, "%s", msgq_changes_next(page));
    msgq_changes_free(page);
  }
  return MSGQ_OK;
}

TEST_LONG(T7_with_full_files_every_outcome_is_stored_and_its_change_is_kept) {
  struct scene scene;
  struct stub stub;
  char token[MSGQ_CHANGE_TOKEN_SIZE] = "";
  size_t count = 0, before = 0;
  scene_begin(&scene);
  scene.options.keep_changes = 1000000;
  scene.options.limit_file_bytes = 1 << 20;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  stub_open(&stub, &scene);
  static char body[500];
  msgq_result result = MSGQ_OK;
  uint64_t accepted = 0;
  while (result == MSGQ_OK) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = accepted % 2 == 0 ? "ana" : "ben";
    draft.body = body;
    draft.body_size = sizeof body;
    result = msgq_enqueue(scene.queue, &draft, NULL);
    accepted += result == MSGQ_OK;
  }
  CHECK_RESULT(MSGQ_FULL, result);
  CHECK(accepted > 200);
  REQUIRE_OK(follow(scene.queue, token, &before));
  CHECK_NUMBER(accepted, before);
  stub.verdict = MSGQ_VERDICT_REJECT;
  CHECK_NUMBER(accepted, drain(&scene).failed);
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  options.include_failed = true;
  for (int left = check_times(8, 4); left > 0; left--) {
    msgq_report report = MSGQ_REPORT_INIT;
    stub.verdict = left > 1 ? MSGQ_VERDICT_REJECT : MSGQ_VERDICT_SENT;
    REQUIRE_OK(msgq_drain(scene.queue, &options, &report));
    CHECK_NUMBER(accepted, report.sent + report.failed);
  }
  CHECK_NUMBER(accepted, counts_of(&scene, NULL).sent);
  CHECK_NUMBER(0, journal_count(&scene.journal, MSGQ_EVENT_STORAGE));
  /* The oldest ones gave way; what is there goes up to the last change. */
  char oldest[MSGQ_CHANGE_TOKEN_SIZE] = "";
  REQUIRE_OK(follow(scene.queue, oldest, &count));
  CHECK(count > 0);
  CHECK(follow(scene.queue, token, &count) == MSGQ_OK || strstr(msgq_error_detail(), "not kept any more") != NULL);
  scene_close(&scene);
  int64_t bytes = sql_number(scene.path, "SELECT sum(length(rows)) FROM change");
  CHECK(bytes > 0 && bytes <= (1 << 18) + (16 << 10));
  scene_end(&scene);
}
