/* What the tests of the outbox do with it. */
#ifndef OUTBOX_CALLS_H
#define OUTBOX_CALLS_H

#include <stdio.h>
#include <string.h>

#include "outbox.h"
#include "scene.h"
#include "shop.h"

/* Opens the queue, and makes a database with an outbox. */
static inline void begin(struct scene *scene, struct shop *shop) {
  scene_begin_open(scene);
  shop_begin(shop, scene, msgq_outbox_schema());
}

static inline void end(struct scene *scene, struct shop *shop) {
  shop_end(shop);
  scene_end(scene);
}

static inline msgq_draft draft_of(const char *id, const char *conversation) {
  msgq_draft draft = MSGQ_DRAFT_INIT;
  draft.id = id;
  draft.conversation = conversation;
  draft.body = id;
  draft.body_size = strlen(id);
  return draft;
}

static inline msgq_result put_in(sqlite3 *database, const char *id, const char *conversation) {
  msgq_draft draft = draft_of(id, conversation);
  return msgq_outbox_put(database, &draft, NULL);
}

/* Puts a message in the transaction of the host. */
static inline void put_one(struct shop *shop, const char *id) {
  if (!CHECK_RESULT(MSGQ_OK, put_in(shop->database, id, "ana"))) fprintf(stderr, "  %s\n", msgq_outbox_error_detail());
}

/* Collects everything and returns how many were moved. */
static inline size_t collect(struct scene *scene, struct shop *shop) {
  size_t moved = 99;
  msgq_result result = msgq_outbox_collect(shop->database, scene->queue, 1000000, &moved);
  if (!CHECK_RESULT(MSGQ_OK, result)) fprintf(stderr, "  %s\n", msgq_outbox_error_detail());
  return moved;
}

static inline int64_t rows(struct shop *shop) { return shop_number(shop, "SELECT count(*) FROM msgq_outbox"); }

#define UNSENT(scene, expected)                        \
  do {                                                 \
    char unsent_ids[256];                              \
    unsent_of((scene), unsent_ids, sizeof unsent_ids); \
    CHECK_TEXT((expected), unsent_ids);                \
  } while (0)

static inline void put_many(struct shop *shop, int count, const char *conversation) {
  shop_run(shop, "BEGIN IMMEDIATE");
  for (int number = 0; number < count; number++) {
    msgq_draft draft = MSGQ_DRAFT_INIT;
    draft.conversation = conversation;
    draft.body = &number;
    draft.body_size = sizeof number;
    REQUIRE_OK(msgq_outbox_put(shop->database, &draft, NULL));
  }
  shop_run(shop, "COMMIT");
}

#endif
