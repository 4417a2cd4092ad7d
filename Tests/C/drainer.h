/* A thread that waits for a drain. */
#ifndef DRAINER_H
#define DRAINER_H

#include <stdatomic.h>

#include "msgqueue.h"

struct drainer {
  msgq_queue *queue;
  atomic_bool done;
  msgq_result result;
  msgq_report report;
};

/* The thread's function; `context` is its struct drainer. */
void *drainer_run(void *context);

#endif
