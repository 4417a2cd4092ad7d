/* The event that asks the host to take over what waits in its own places. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "outbox_calls.h"
#include "process.h"
#include "stub.h"

static size_t requests(struct scene *scene) { return journal_count(&scene->journal, MSGQ_EVENT_COLLECT); }

TEST(a_request_to_collect_is_an_event) {
  struct scene scene;
  scene_begin_open(&scene);
  CHECK_RESULT(MSGQ_INVALID, msgq_request_collect(NULL));
  for (size_t count = 1; count <= 3; count++) {
    REQUIRE_OK(msgq_request_collect(scene.queue));
    AWAIT(requests(&scene) == count);
  }
  msgq_queue *queue = scene.queue;
  scene_close(&scene);
  CHECK_RESULT(MSGQ_CLOSED, msgq_request_collect(queue));
  scene_end(&scene);
}

/* A host whose handler collects. */
struct collecting {
  struct scene *scene;
  struct shop *shop;
  atomic_int entered, collected, left;
  atomic_bool held;
};

static void collect_in_handler(void *context, const msgq_event *event) {
  struct collecting *host = context;
  size_t moved = 0;
  if (event->kind != MSGQ_EVENT_COLLECT) return;
  host->entered++;
  while (host->held) pause_ms(1);
  CHECK_RESULT(MSGQ_OK, msgq_outbox_collect(host->shop->database, host->scene->queue, 100, &moved));
  host->collected += (int)moved;
  host->left++;
}

TEST(requests_to_collect_that_wait_share_an_event) {
  struct scene scene;
  struct shop shop;
  struct collecting host = { &scene, &shop, 0, 0, 0, true };
  begin(&scene, &shop);
  REQUIRE_OK(msgq_set_event_handler(scene.queue, collect_in_handler, &host, NULL));
  put_one(&shop, "a");
  REQUIRE_OK(msgq_request_collect(scene.queue));
  AWAIT(host.entered == 1);
  /* The handler runs already: these are for the next call. */
  for (int count = 0; count < 1000; count++) REQUIRE_OK(msgq_request_collect(scene.queue));
  host.held = false;
  AWAIT(host.entered == 2);
  REQUIRE_OK(msgq_request_collect(scene.queue));
  AWAIT(host.left == 3); /* a close would refuse what the handler still does */
  CHECK_NUMBER(1, host.collected);
  scene_close(&scene);
  end(&scene, &shop);
}

TEST_LONG(the_queue_asks_to_collect_at_intervals_after_the_first_hand_over) {
  struct scene scene;
  struct shop shop;
  scene_begin(&scene);
  scene.options.collect_interval_ms = 20;
  scene_open(&scene);
  shop_begin(&shop, &scene, msgq_outbox_schema());
  pause_ms(100);
  CHECK_NUMBER(0, requests(&scene)); /* nothing was handed over yet */
  CHECK_NUMBER(0, collect(&scene, &shop));
  AWAIT(requests(&scene) >= 3);
  /* Each opening begins anew. */
  scene_close(&scene);
  size_t before = requests(&scene);
  scene_open(&scene);
  pause_ms(100);
  CHECK_NUMBER(before, requests(&scene));
  scene_close(&scene);
  /* 0: never. */
  scene.options.collect_interval_ms = 0;
  scene_open(&scene);
  CHECK_NUMBER(0, collect(&scene, &shop));
  pause_ms(100);
  CHECK_NUMBER(before, requests(&scene));
  end(&scene, &shop);
}

static int simulated;
static void count_collects(void *context, const msgq_event *event) { (void)context, simulated += event->kind == MSGQ_EVENT_COLLECT; }

TEST(the_interval_to_collect_passes_in_simulated_time) {
  struct scene scene;
  msgq_hand_over *list = NULL;
  scene_begin(&scene);
  REQUIRE_OK(msgq_open_simulated(scene.path, &scene.options, 1700000000000, 1, &scene.queue));
  simulated = 0;
  REQUIRE_OK(msgq_set_event_handler(scene.queue, count_collects, NULL, NULL));
  REQUIRE_OK(msgq_advance(scene.queue, 60000, NULL));
  CHECK_NUMBER(0, simulated);
  REQUIRE_OK(msgq_handed_over(scene.queue, "orders", &list));
  msgq_handed_over_free(list);
  REQUIRE_OK(msgq_advance(scene.queue, 4999, NULL));
  CHECK_NUMBER(0, simulated);
  REQUIRE_OK(msgq_advance(scene.queue, 1, NULL));
  CHECK_NUMBER(1, simulated);
  REQUIRE_OK(msgq_advance(scene.queue, 3600000, NULL));
  CHECK_NUMBER(721, simulated);
  scene_end(&scene);
}

TEST(a_process_that_does_not_own_the_queue_asks_by_the_control_socket) {
  struct scene scene;
  struct shop shop;
  char long_path[512];
  begin(&scene, &shop);
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_kick(NULL));
  CHECK_RESULT(MSGQ_INVALID, msgq_outbox_kick(""));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_outbox_kick(scene.path));
  CHECK(strstr(msgq_outbox_error_detail(), "No such file") != NULL);
  REQUIRE_OK(msgq_control_start(scene.queue, NULL));
  size_t before = process_descriptors();
  for (size_t count = 1; count <= 3; count++) {
    CHECK_RESULT(MSGQ_OK, msgq_outbox_kick(scene.path));
    AWAIT(requests(&scene) == count);
  }
  /* A path that is too long for the address of a socket. */
  const char *name = strrchr(scene.path, '/');
  snprintf(long_path, sizeof long_path, "%.*s", (int)(name - scene.path), scene.path);
  while (strlen(long_path) < 150) strcat(long_path, "/.");
  snprintf(long_path + strlen(long_path), sizeof long_path - strlen(long_path), "%s", name);
  CHECK_RESULT(MSGQ_OK, msgq_outbox_kick(long_path));
  AWAIT(requests(&scene) == 4);
  AWAIT(process_descriptors() <= before);
  REQUIRE_OK(msgq_control_stop(scene.queue));
  CHECK_RESULT(MSGQ_NOT_FOUND, msgq_outbox_kick(scene.path));
  end(&scene, &shop);
}
