/* More calls of the transport hang than the engine gives others their place for. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "scene.h"

/* How many hang beside max_in_flight before nothing more starts (msgq_options.max_in_flight). */
enum { ceiling = 16 };

struct crowd {
  atomic_int inside;
  atomic_int let_go; /* how many may go on */
};

/* Everything of the conversations "hung-…" hangs until it is let go. */
static msgq_verdict crowd_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct crowd *crowd = context;
  (void)out;
  if (strncmp(delivery->conversation, "hung", 4) != 0) return MSGQ_VERDICT_SENT;
  atomic_fetch_add(&crowd->inside, 1);
  for (int left = 0; left <= 0;) {
    left = atomic_load(&crowd->let_go);
    if (left > 0 && !atomic_compare_exchange_strong(&crowd->let_go, &left, left - 1)) left = 0;
    if (left <= 0) pause_ms(1);
  }
  atomic_fetch_sub(&crowd->inside, 1);
  return MSGQ_VERDICT_SENT;
}

static void begin_crowd(struct scene *scene, struct crowd *crowd, int count) {
  memset(crowd, 0, sizeof *crowd);
  scene_begin(scene);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.attempt_timeout_ms = 40;
  scene->options.max_retries = 0;
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, crowd_send, crowd, NULL));
  for (int number = 0; number < count; number++) {
    char name[16];
    snprintf(name, sizeof name, "hung-%d", number);
    put(scene, name, name, "hello");
  }
  AWAIT(atomic_load(&crowd->inside) == count);
}

static void end_crowd(struct scene *scene, struct crowd *crowd) {
  atomic_store(&crowd->let_go, 1000);
  AWAIT(atomic_load(&crowd->inside) == 0);
  scene_end(scene);
}

TEST(A10_up_to_sixteen_hung_calls_hold_nobody_else) {
  struct scene scene;
  struct crowd crowd;
  begin_crowd(&scene, &crowd, ceiling);
  put(&scene, "a", "ana", "hello");
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(ceiling, atomic_load(&crowd.inside));
  end_crowd(&scene, &crowd);
}

TEST(A10_with_more_hung_calls_every_call_still_answers) {
  struct scene scene;
  struct crowd crowd;
  msgq_page *list = NULL;
  begin_crowd(&scene, &crowd, ceiling + 1);
  AWAIT(counts_of(&scene, NULL).failed == ceiling + 1); /* each ended as a time-out */
  int64_t start = steady_ms();
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "b", "edited", 6));
  CHECK_RESULT(MSGQ_OK, msgq_list(scene.queue, NULL, &list));
  CHECK_NUMBER(ceiling + 3, msgq_list_size(list));
  msgq_list_free(list);
  CHECK_NUMBER(2, counts_of(&scene, NULL).queued);
  msgq_explanation explanation = explain(&scene, "a");
  CHECK(strstr(explanation.text, "hang") != NULL);
  CHECK(steady_ms() - start < check_patience_ms() / 10);
  pause_ms(100);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(ceiling + 1, atomic_load(&crowd.inside));
  /* One comes back, late but with good news, and it goes on. */
  atomic_store(&crowd.let_go, 1);
  AWAIT(counts_of(&scene, NULL).sent == 3);
  CHECK_NUMBER(ceiling, atomic_load(&crowd.inside));
  end_crowd(&scene, &crowd);
}

TEST(close_leaves_many_hung_transports_behind) {
  struct scene scene;
  struct crowd crowd;
  begin_crowd(&scene, &crowd, ceiling + 1);
  put(&scene, "a", "ana", "hello");
  int64_t start = steady_ms();
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 100));
  CHECK(steady_ms() - start < 100 + check_patience_ms() / 10);
  scene.queue = NULL;
  /* The place is free at once, whoever still hangs. */
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(ceiling + 1, atomic_load(&crowd.inside));
  end_crowd(&scene, &crowd);
}
