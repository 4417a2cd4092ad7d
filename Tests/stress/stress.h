/* One of the two queues of the stress program, and what it knows about its messages. */
#ifndef STRESS_H
#define STRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "msgqueue.h"

enum { messages_room = 400000, ordered_count = 4, free_count = 6, tokens_room = 256 };
/* The state of a message. `doubtful`: a thread may have deleted it. */
enum state { unknown, stored, doubtful };

struct side {
  bool polled;
  _Atomic bool calm; /* every attempt succeeds */
  char path[512];
  _Atomic(msgq_queue *) queue;
  atomic_uint next;
  atomic_uchar states[messages_room];
  /* Conversations whose messages are not changed; their numbers are in the order of enqueueing. */
  pthread_mutex_t ordered[ordered_count];
  atomic_uint last_started[ordered_count];
  pthread_mutex_t lock;
  uint64_t tokens[tokens_room];
  unsigned token_count;
  atomic_int attempts, events, drains, drained, waits, waited, disorder, registered, released;
};

void problem(const char *what, long long first, long long second);
int64_t now_ms(void);

#endif
