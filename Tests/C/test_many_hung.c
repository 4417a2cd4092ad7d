/* More transport calls hang than the engine starts other calls for. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "scene.h"

/* The number of hung calls beyond max_in_flight up to which the engine starts other calls (msgq_options.max_in_flight). */
enum { ceiling = 16 };

struct hung {
  int limit;           /* how many calls hang; those after them return at once */
  atomic_int entered;  /* calls with a message of the conversations "hung-…" */
  atomic_int inside;
  atomic_int releases; /* how many hung calls may return */
  int messages;        /* how many were enqueued to make the calls */
};

/* Not on a test's stack: the calls outlast a test that fails. */
static struct hung hung;

/* Hangs with messages of the conversations "hung-…" until they are released. */
static msgq_verdict hanging_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  (void)context;
  (void)out;
  if (strncmp(delivery->conversation, "hung", 4) != 0) return MSGQ_VERDICT_SENT;
  if (atomic_fetch_add(&hung.entered, 1) >= hung.limit) return MSGQ_VERDICT_SENT;
  atomic_fetch_add(&hung.inside, 1);
  for (int left = 0; left <= 0;) {
    left = atomic_load(&hung.releases);
    if (left > 0 && !atomic_compare_exchange_strong(&hung.releases, &left, left - 1)) left = 0;
    if (left <= 0) pause_ms(1);
  }
  atomic_fetch_sub(&hung.inside, 1);
  return MSGQ_VERDICT_SENT;
}

/* Returns whether every attempt has ended; those that hang, as time-outs. */
static bool all_have_ended(struct scene *scene) {
  msgq_counts counts = counts_of(scene, NULL);
  return counts.queued == 0 && counts.sending == 0;
}

/* Lets `count` calls hang. On a loaded machine an attempt may time out before its call began. That call is not made, unless it begins
   at that moment, so another message takes its place. */
static void begin_hung(struct scene *scene, int count) {
  memset(&hung, 0, sizeof hung);
  hung.limit = count;
  scene_begin(scene);
  scene->options.mode = MSGQ_MODE_AUTO;
  scene->options.attempt_timeout_ms = 100;
  scene->options.max_retries = 0;
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, hanging_send, NULL, NULL));
  while (atomic_load(&hung.inside) < count) {
    for (int missing = count - atomic_load(&hung.inside); missing > 0; missing--) {
      char name[16];
      snprintf(name, sizeof name, "hung-%d", hung.messages++);
      put(scene, name, name, "hello");
    }
    AWAIT(atomic_load(&hung.inside) == count || all_have_ended(scene));
  }
  CHECK_NUMBER(count, atomic_load(&hung.inside));
}

static void end_hung(struct scene *scene) {
  atomic_store(&hung.releases, 1000);
  AWAIT(atomic_load(&hung.inside) == 0);
  scene_end(scene);
}

TEST_LONG(A10_up_to_sixteen_hung_calls_block_no_other_conversation) {
  struct scene scene;
  begin_hung(&scene, ceiling);
  put(&scene, "a", "ana", "hello");
  AWAIT(status_of(&scene, "a") == MSGQ_STATUS_SENT);
  CHECK_NUMBER(ceiling, atomic_load(&hung.inside));
  end_hung(&scene);
}

/* The calls that return would wait for ever if they waited for a hung one, so their time has no limit of its own. */
TEST_LONG(A10_with_more_hung_calls_sending_stops_and_other_calls_return) {
  struct scene scene;
  msgq_page *list = NULL;
  begin_hung(&scene, ceiling + 1);
  AWAIT(counts_of(&scene, NULL).sending == 0); /* each ended as a time-out */
  msgq_counts before = counts_of(&scene, NULL);
  put(&scene, "a", "ana", "hello");
  put(&scene, "b", "ana", "hello");
  CHECK_RESULT(MSGQ_OK, msgq_edit(scene.queue, "b", "edited", 6));
  CHECK_RESULT(MSGQ_OK, msgq_list(scene.queue, NULL, &list));
  CHECK_NUMBER(before.queued + before.failed + 2, msgq_list_size(list));
  msgq_list_free(list);
  CHECK_NUMBER(before.queued + 2, counts_of(&scene, NULL).queued);
  msgq_explanation explanation = explain(&scene, "a");
  CHECK(strstr(explanation.text, "unfinished attempts") != NULL);
  pause_ms(100);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(ceiling + 1, atomic_load(&hung.inside));
  /* One hung call returns a late success, and sending continues. */
  atomic_store(&hung.releases, 1);
  AWAIT(counts_of(&scene, NULL).sent == before.sent + before.queued + 3);
  CHECK_NUMBER(ceiling, atomic_load(&hung.inside));
  end_hung(&scene);
}

TEST_LONG(close_with_many_hung_transports_ends_at_its_timeout) {
  struct scene scene;
  begin_hung(&scene, ceiling + 1);
  put(&scene, "a", "ana", "hello");
  int64_t start = steady_ms();
  CHECK_RESULT(MSGQ_TIMEOUT, msgq_close(scene.queue, 100));
  CHECK(steady_ms() - start < 100 + check_timeout_ms());
  scene.queue = NULL;
  /* The store can be opened again while the calls still hang. */
  scene_open(&scene);
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_NUMBER(ceiling + 1, atomic_load(&hung.inside));
  end_hung(&scene);
}
