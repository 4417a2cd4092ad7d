#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

void scene_begin(struct scene *scene) {
  memset(scene, 0, sizeof *scene);
  const char *parent = getenv("TMPDIR");
  if (parent == NULL || strlen(parent) > 40) parent = "/tmp";
  snprintf(scene->directory, sizeof scene->directory, "%s/msgq-XXXXXX", parent);
  REQUIRE(mkdtemp(scene->directory) != NULL);
  snprintf(scene->path, sizeof scene->path, "%s/outbox.db", scene->directory);
  msgq_options_init(&scene->options);
  scene->options.mode = MSGQ_MODE_MANUAL;
  scene->options.direct = false;
  scene->options.online_debounce_ms = 0;
  journal_begin(&scene->journal);
}

void scene_open(struct scene *scene) {
  REQUIRE_OK(msgq_open(scene->path, &scene->options, &scene->queue));
  REQUIRE(scene->queue != NULL);
  REQUIRE_OK(msgq_set_event_handler(scene->queue, journal_event, &scene->journal, journal_release));
}

void scene_begin_open(struct scene *scene) {
  scene_begin(scene);
  scene_open(scene);
}

void scene_close(struct scene *scene) {
  CHECK_RESULT(MSGQ_OK, msgq_close(scene->queue, check_timeout_ms()));
  scene->queue = NULL;
}

void scene_end(struct scene *scene) {
  if (scene->queue != NULL) scene_close(scene);
  CHECK_NUMBER(0, atomic_load(&scene->journal.malformed));
  journal_end(&scene->journal);
  directory_remove(scene->directory);
}

const char *scene_file(const struct scene *scene, const char *name) {
  static char paths[4][128];
  static unsigned turn;
  char *path = paths[turn++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", scene->directory, name);
  return path;
}

void put(struct scene *scene, const char *id, const char *conversation, const char *body) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = body;
  draft.body_size = strlen(body);
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

void put_rows(struct scene *scene, const struct row *rows, size_t count) {
  for (size_t index = 0; index < count; index++) put(scene, rows[index].id, rows[index].conversation, rows[index].body);
}

void put_timed(struct scene *scene, const char *id, const char *conversation, int64_t not_before_ms, int64_t expires_at_ms) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = id;
  draft.body_size = strlen(id);
  draft.not_before_ms = not_before_ms;
  draft.expires_at_ms = expires_at_ms;
  REQUIRE_OK(msgq_enqueue(scene->queue, &draft, NULL));
}

msgq_result put_body_of(struct scene *scene, const char *id, size_t size) {
  char *body = malloc(size + 1);
  REQUIRE(body != NULL);
  memset(body, 'x', size);
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.body = body;
  draft.body_size = size;
  msgq_result result = msgq_enqueue(scene->queue, &draft, NULL);
  free(body);
  return result;
}

/* Returns the message, or NULL. The caller frees it. */
static msgq_message *get(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  msgq_result result = msgq_get(scene->queue, id, &message);
  CHECK(result == MSGQ_OK || result == MSGQ_NOT_FOUND);
  return message;
}

int status_of(struct scene *scene, const char *id) {
  msgq_message *message = get(scene, id);
  int status = message != NULL ? (int)message->status : -1;
  msgq_message_free(message);
  return status;
}

uint32_t attempts_of(struct scene *scene, const char *id) {
  msgq_message *message = get(scene, id);
  uint32_t attempts = message != NULL ? message->attempts : 0;
  msgq_message_free(message);
  return attempts;
}

msgq_failure_kind failure_of(struct scene *scene, const char *id) {
  msgq_message *message = get(scene, id);
  msgq_failure_kind kind = message != NULL && message->failure != NULL ? message->failure->kind : MSGQ_FAILURE_NONE;
  msgq_message_free(message);
  return kind;
}

msgq_report drain(struct scene *scene) {
  msgq_report report = MSGQ_REPORT_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_drain(scene->queue, NULL, &report));
  return report;
}

msgq_counts counts_of(struct scene *scene, const char *conversation) {
  msgq_counts counts = MSGQ_COUNTS_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_count(scene->queue, conversation, &counts));
  return counts;
}

void ids_of(struct scene *scene, const msgq_filter *filter, char *text, size_t size) {
  msgq_page *list = NULL;
  size_t used = 0;
  text[0] = '\0';
  CHECK_RESULT(MSGQ_OK, msgq_list(scene->queue, filter, &list));
  for (size_t index = 0; index < msgq_list_size(list) && used < size; index++) {
    used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? " " : "", msgq_list_at(list, index)->id);
  }
  msgq_list_free(list);
}

void unsent_of(struct scene *scene, char *text, size_t size) { ids_of(scene, NULL, text, size); }

msgq_explanation explain(struct scene *scene, const char *id) {
  msgq_explanation explanation = MSGQ_EXPLANATION_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_explain(scene->queue, id, &explanation));
  return explanation;
}

msgq_reason reason_of(struct scene *scene, const char *id) { return explain(scene, id).reason; }

bool banner_is(struct scene *scene, const char *expected) { return banner_of(scene, NULL, expected); }

bool banner_of(struct scene *scene, const char *conversation, const char *expected) {
  char *text = NULL;
  CHECK_RESULT(MSGQ_OK, msgq_banner(scene->queue, conversation, &text));
  bool same = text != NULL && strcmp(expected, text) == 0;
  if (!same) fprintf(stderr, "  the banner is \"%s\"\n", text != NULL ? text : "(null)");
  msgq_text_free(text);
  return same;
}

msgq_state state_of(struct scene *scene) {
  msgq_state state = MSGQ_STATE_INIT;
  CHECK_RESULT(MSGQ_OK, msgq_get_state(scene->queue, &state));
  return state;
}

void set_online(struct scene *scene) {
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene->queue, MSGQ_CONNECTIVITY_ONLINE, MSGQ_LINK_WIFI, false));
}

void set_offline(struct scene *scene) {
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene->queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_NONE, false));
}

void set_ladder(struct scene *scene, const int64_t *ladder, size_t count) {
  scene->options.backoff = MSGQ_BACKOFF_LADDER;
  scene->options.ladder_ms = ladder;
  scene->options.ladder_count = count;
}

int64_t delay_of(struct scene *scene, const char *id) {
  msgq_message *message = NULL;
  REQUIRE_OK(msgq_get(scene->queue, id, &message));
  int64_t delay = message->next_attempt_ms - message->last_attempt_ms;
  msgq_message_free(message);
  return delay;
}

msgq_outcome outcome_of(msgq_verdict verdict) {
  msgq_outcome outcome = MSGQ_OUTCOME_INIT;
  outcome.verdict = verdict;
  return outcome;
}
