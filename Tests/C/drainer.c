#include "drainer.h"

#include <stddef.h>

void *drainer_run(void *context) {
  struct drainer *drainer = context;
  drainer->report = (msgq_report)MSGQ_REPORT_INIT;
  drainer->result = msgq_drain(drainer->queue, NULL, &drainer->report);
  atomic_store(&drainer->done, true);
  return NULL;
}
