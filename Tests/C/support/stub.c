#include "stub.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

void stub_begin(struct stub *stub, msgq_verdict verdict) {
  memset(stub, 0, sizeof *stub);
  stub->verdict = verdict;
  stub->retry_after_ms = -1;
}

static bool well_formed(const msgq_delivery *delivery, const msgq_outcome *out) {
  return delivery->struct_size == sizeof *delivery && delivery->attempt > 0 && delivery->id != NULL && delivery->conversation != NULL &&
         delivery->body != NULL && (delivery->metadata != NULL || delivery->metadata_count == 0) && delivery->created_ms > 0 &&
         delivery->timeout_ms > 0 && out->struct_size == sizeof *out && out->retry_after_ms == -1 && !out->retry_after_queue &&
         out->code == 0 && out->retry_after[0] == '\0' && out->text[0] == '\0';
}

msgq_verdict stub_send(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct stub *stub = context;
  if (!well_formed(delivery, out)) atomic_store(&stub->malformed, true);
  stub->thread = pthread_self();
  atomic_store(&stub->token, delivery->token);
  atomic_fetch_add(&stub->inside, 1);
  atomic_fetch_add(&stub->calls, 1);
  while (atomic_load(&stub->held)) pause_ms(1);
  out->kind = stub->kind;
  out->code = stub->code;
  out->retry_after_ms = stub->retry_after_ms;
  out->retry_after_queue = stub->retry_after_queue;
  snprintf(out->text, sizeof out->text, "stub says %d", (int)stub->code);
  atomic_fetch_sub(&stub->inside, 1);
  return stub->verdict;
}

void stub_release(void *context) {
  struct stub *stub = context;
  atomic_fetch_add(&stub->released, 1);
}

void stub_open(struct stub *stub, struct scene *scene) {
  scene_open(scene);
  REQUIRE_OK(msgq_set_transport(scene->queue, stub_send, stub, stub_release));
}

void stub_begin_open(struct stub *stub, struct scene *scene, msgq_verdict verdict) {
  scene_begin(scene);
  stub_begin(stub, verdict);
  stub_open(stub, scene);
}
