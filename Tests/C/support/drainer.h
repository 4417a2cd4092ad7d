/* A thread that waits for a drain. */
#ifndef DRAINER_H
#define DRAINER_H

#include <stdatomic.h>
#include <stdint.h>

#include "msgqueue.h"

struct drainer {
  msgq_queue *queue;
  int64_t timeout_ms; /* 0: without end */
  atomic_bool done;
  int64_t took_ms;
  msgq_result result;
  msgq_report report;
};

/* The thread's function; `context` is its struct drainer. */
void *drainer_run(void *context);

#endif
