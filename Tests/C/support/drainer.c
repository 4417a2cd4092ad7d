#include "drainer.h"

#include <stddef.h>

#include "check.h"

void *drainer_run(void *context) {
  struct drainer *drainer = context;
  drainer->report = (msgq_report)MSGQ_REPORT_INIT;
  msgq_drain_options options = MSGQ_DRAIN_OPTIONS_INIT;
  if (drainer->timeout_ms != 0) options.timeout_ms = drainer->timeout_ms;
  int64_t start = steady_ms();
  drainer->result = msgq_drain(drainer->queue, &options, &drainer->report);
  drainer->took_ms = steady_ms() - start;
  atomic_store(&drainer->done, true);
  return NULL;
}
