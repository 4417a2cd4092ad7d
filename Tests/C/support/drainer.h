/* A thread that waits for a drain. */
#ifndef DRAINER_H
#define DRAINER_H

#include <stdatomic.h>
#include <stdint.h>

#include "msgqueue.h"

struct drainer {
  msgq_queue *queue;
  int64_t timeout_ms; /* 0: no timeout */
  atomic_bool done;
  int64_t took_ms;
  msgq_result result;
  msgq_report report;
};

/* The function of the thread; `context` is its struct drainer. */
void *drainer_run(void *context);

#endif
