/* The option maintenance: for tools that change a store while its program does not run. */
#include <string.h>

#include "check.h"
#include "files.h"
#include "scene.h"
#include "stub.h"

/* Makes a store with three messages of ana and one of ben, of which the first has failed, and opens it for maintenance. */
static void begin(struct scene *scene, struct stub *stub) {
  stub_begin_open(stub, scene, MSGQ_VERDICT_REJECT);
  set_online(scene);
  put(scene, "a", "ana", "1");
  drain(scene);
  put(scene, "b", "ana", "2");
  put(scene, "c", "ana", "3");
  put(scene, "d", "ben", "4");
  scene_close(scene);
  scene->options.maintenance = true;
  scene_open(scene);
}

TEST(I4_a_retry_in_maintenance_puts_back_in_place_without_a_transport) {
  struct scene scene;
  struct stub stub;
  char text[64];
  uint64_t count = 9;
  begin(&scene, &stub);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  CHECK_NUMBER(MSGQ_STATUS_QUEUED, status_of(&scene, "a"));
  CHECK_RESULT(MSGQ_CONFLICT, msgq_retry(scene.queue, "a"));
  CHECK_RESULT(MSGQ_NO_TRANSPORT, msgq_send_now(scene.queue, "a"));
  CHECK_NUMBER(1, attempts_of(&scene, "a"));
  unsent_of(&scene, text, sizeof text);
  CHECK_TEXT("a b c d", text);
  scene_close(&scene);
  scene.options.maintenance = false;
  stub_open(&stub, &scene);
  set_online(&scene);
  drain(&scene);
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "a"));
  CHECK_NUMBER(MSGQ_STATUS_FAILED, status_of(&scene, "d"));
  CHECK_NUMBER(4, counts_of(&scene, NULL).failed);
  scene_close(&scene);
  scene.options.maintenance = true;
  scene_open(&scene);
  CHECK_RESULT(MSGQ_OK, msgq_retry_all(scene.queue, "ana", &count));
  CHECK_NUMBER(3, count);
  CHECK_RESULT(MSGQ_OK, msgq_retry_all(scene.queue, NULL, &count));
  CHECK_NUMBER(1, count);
  scene_close(&scene);
  scene.options.maintenance = false;
  scene_open(&scene);
  unsent_of(&scene, text, sizeof text);
  CHECK_TEXT("a b c d", text);
  CHECK_NUMBER(4, counts_of(&scene, NULL).queued);
  scene_end(&scene);
}

TEST(I4_only_a_drain_and_send_now_send_in_maintenance) {
  struct scene scene;
  struct stub stub;
  begin(&scene, &stub);
  scene_close(&scene);
  scene.options.mode = MSGQ_MODE_AUTO;
  scene.options.direct = true;
  scene.options.refused = MSGQ_REFUSED_DISCARD;
  scene.options.online_debounce_ms = 0;
  stub.verdict = MSGQ_VERDICT_REJECT;
  stub_open(&stub, &scene);
  int calls = atomic_load(&stub.calls);
  set_online(&scene);
  put(&scene, "e", "eva", "5");
  CHECK_RESULT(MSGQ_OK, msgq_retry(scene.queue, "a"));
  CHECK_NUMBER(MSGQ_MODE_MANUAL, state_of(&scene).mode);
  CHECK_NUMBER(MSGQ_REASON_PERSON, reason_of(&scene, "e"));
  CHECK_NUMBER(calls, atomic_load(&stub.calls));
  CHECK_NUMBER(5, drain(&scene).failed);
  CHECK_NUMBER(5, counts_of(&scene, NULL).failed);
  CHECK_NUMBER(calls + 5, atomic_load(&stub.calls));
  scene_end(&scene);
}

TEST(I4_maintenance_makes_no_store) {
  struct scene scene;
  scene_begin(&scene);
  scene.options.maintenance = true;
  CHECK_RESULT(MSGQ_INVALID, msgq_open(scene.path, &scene.options, &scene.queue));
  CHECK(strstr(msgq_error_detail(), "does not exist") != NULL);
  CHECK(!file_exists(scene.path));
  scene_end(&scene);
}
