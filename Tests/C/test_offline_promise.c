/* Offline in mode auto: the banner says that queued messages will be sent when that is so. */
#include <stdio.h>

#include "check.h"
#include "stub.h"

static const char *const promise = "You're offline. 2 messages queued. They will be sent when connected.";
static const char *const plain = "You're offline. 2 messages queued.";

static void begin(struct stub *stub, struct scene *scene, msgq_mode mode) {
  scene_begin(scene);
  scene->options.mode = mode;
  scene->options.initial_connectivity = MSGQ_CONNECTIVITY_OFFLINE;
  stub_begin(stub, MSGQ_VERDICT_SENT);
  stub_open(stub, scene);
}

TEST(Q24_the_banner_promises_that_queued_messages_will_be_sent) {
  struct scene scene;
  struct stub stub;
  begin(&stub, &scene, MSGQ_MODE_AUTO);
  CHECK(banner_is(&scene, "You're offline. Messages will send when connected."));
  put(&scene, "a", "ana", "hello");
  CHECK(banner_is(&scene, "You're offline. 1 message queued. It will be sent when connected."));
  put(&scene, "b", "ben", "hello");
  CHECK(banner_is(&scene, promise));
  CHECK(banner_of(&scene, "ana", "You're offline. 1 message queued. It will be sent when connected."));
  CHECK_TEXT(promise, state_of(&scene).text);
  CHECK_RESULT(MSGQ_OK, msgq_set_connectivity(scene.queue, MSGQ_CONNECTIVITY_OFFLINE, MSGQ_LINK_WIFI, true));
  CHECK_NUMBER(MSGQ_LINK_NONE, state_of(&scene).link);
  CHECK(banner_is(&scene, promise));
  /* It is kept. */
  set_online(&scene);
  AWAIT(counts_of(&scene, NULL).sent == 2);
  scene_end(&scene);
}

TEST_LONG(Q24_the_banner_promises_nothing_that_may_not_come) {
  struct scene scene;
  struct stub stub;
  for (int way = 0; way < 8; way++) {
    scene_begin(&scene);
    scene.options.mode = way == 0 ? MSGQ_MODE_ASK : way == 1 ? MSGQ_MODE_MANUAL : MSGQ_MODE_AUTO;
    scene.options.drain_batch = way == 2 ? 1 : 0;
    scene.options.initial_connectivity = MSGQ_CONNECTIVITY_OFFLINE;
    stub_begin(&stub, MSGQ_VERDICT_SENT);
    if (way == 3) scene_open(&scene);
    else stub_open(&stub, &scene);
    put(&scene, "a", "ana", "hello");
    if (way == 4) put_timed(&scene, "b", "ben", wall_ms() + 3600000, 0);
    else if (way == 5) put_timed(&scene, "b", "ben", 0, wall_ms() + 3600000);
    else if (way == 6) {
      msgq_draft draft = MSGQ_DRAFT_INIT;
      draft.id = "b";
      draft.unmetered_only = true;
      REQUIRE_OK(msgq_enqueue(scene.queue, &draft, NULL));
    } else put(&scene, "b", "ben", "hello");
    if (way == 7) REQUIRE_OK(msgq_pause(scene.queue, "ben"));
    if (!CHECK(banner_is(&scene, plain))) printf("  way %d\n", way);
    if (way >= 4 && way != 6) CHECK(banner_of(&scene, "ana", "You're offline. 1 message queued. It will be sent when connected."));
    scene_end(&scene);
  }
}

/* A delay that a receiver asked for outlasts the return of the connection; one after a failure of the network ends with it. */
TEST(Q24_the_banner_knows_which_delays_end_with_the_return_of_the_connection) {
  static const int64_t ladder[] = { 3600000, 3600000 };
  for (int way = 0; way < 2; way++) {
    struct scene scene;
    struct stub stub;
    scene_begin(&scene);
    scene.options.mode = MSGQ_MODE_AUTO;
    set_ladder(&scene, ladder, 2);
    scene.options.direct = true;
    stub_begin(&stub, MSGQ_VERDICT_RETRY);
    stub.kind = way == 0 ? MSGQ_FAILURE_NETWORK : MSGQ_FAILURE_SERVER;
    stub_open(&stub, &scene);
    put(&scene, "a", "ana", "hello");
    AWAIT(failure_of(&scene, "a") == stub.kind);
    set_offline(&scene);
    CHECK(banner_is(&scene, way == 0 ? "You're offline. 1 message queued. It will be sent when connected." : "You're offline. 1 message queued."));
    scene_end(&scene);
  }
}
