/* A transport without a network: returns the verdict that the test sets, at once or when it is no longer held. */
#ifndef STUB_H
#define STUB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "scene.h"

struct stub {
  msgq_verdict verdict;
  msgq_failure_kind kind;
  int32_t code;
  int64_t retry_after_ms;
  bool retry_after_queue;
  atomic_int calls;
  atomic_int inside; /* calls that have not returned */
  atomic_int released;
  atomic_bool held;  /* while true, calls do not return */
  atomic_bool malformed;
  _Atomic uint64_t token; /* of the last call */
  _Atomic int64_t timeout_ms; /* of the last call */
  pthread_t thread;       /* of the last call */
};

void stub_begin(struct stub *stub, msgq_verdict verdict);
msgq_verdict stub_send(void *context, const msgq_delivery *delivery, msgq_outcome *out);
void stub_release(void *context);

/* Opens the queue of the scene with this transport. */
void stub_open(struct stub *stub, struct scene *scene);
/* scene_begin, stub_begin and stub_open. */
void stub_begin_open(struct stub *stub, struct scene *scene, msgq_verdict verdict);

#endif
