/* An idle queue uses no processor time, is not woken, and has few threads. */
#include <stdio.h>

#include "check.h"
#include "process.h"
#include "scene.h"
#include "stub.h"

enum { kinds = 3 };

TEST_ALONE(Q16_an_idle_queue_uses_no_processor_time) {
  struct scene scenes[kinds];
  struct stub stub;
  stub_begin(&stub, MSGQ_VERDICT_SENT);
  /* One queue with callbacks on threads, one with callbacks in msgq_poll, one that monitors the network. */
  for (int kind = 0; kind < kinds; kind++) {
    scene_begin(&scenes[kind]);
    scenes[kind].options.callbacks = kind == 1 ? MSGQ_CALLBACKS_POLL : MSGQ_CALLBACKS_THREAD;
    scene_open(&scenes[kind]);
    if (kind == 2) REQUIRE_OK(msgq_monitor_start(scenes[kind].queue));
    REQUIRE_OK(msgq_set_transport(scenes[kind].queue, stub_send, &stub, NULL));
    for (int number = 0; number < 5; number++) put(&scenes[kind], NULL, number % 2 == 0 ? "ana" : "ben", "hello");
    drain(&scenes[kind]); /* sends nothing when the machine is offline, which does not matter here */
  }
  pause_ms(1200); /* delayed flushes are done by then, except on a loaded machine or a slow disk */
  int64_t settled_end = steady_ms() + check_timeout_ms();
  struct process_switches settling, settled;
  do {
    settling = process_switches();
    pause_ms(1000);
    settled = process_switches();
  } while (process_most_switched(&settling, &settled) > 0 && steady_ms() < settled_end);
  CHECK(process_library_threads() <= 3 + 0 + 3); /* the polled queue has none */
  struct process_switches before = process_switches();
  int64_t cpu = process_cpu_ms();
  pause_ms(5000);
  struct process_switches after = process_switches();
  int64_t most = process_most_switched(&before, &after);
  if (!CHECK(most <= 2)) fprintf(stderr, "  a thread was woken %lld times in 5 s\n", (long long)most);
  CHECK(process_cpu_ms() - cpu <= 10);
  CHECK_NUMBER(before.threads, after.threads);
  for (int kind = 0; kind < kinds; kind++) scene_end(&scenes[kind]);
}
