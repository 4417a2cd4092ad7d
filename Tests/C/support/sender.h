/* A transport over HTTP: one POST per attempt, the message's id as the idempotency key. */
#ifndef SENDER_H
#define SENDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "msgqueue.h"

struct sender {
  uint16_t port;
  bool retry_after_queue; /* a Retry-After applies to the whole queue */
  atomic_int calls;
  atomic_int in_flight;
  atomic_int most_in_flight;
  atomic_int overlaps; /* attempts that began while another of the same conversation was in flight */
  atomic_int released;
  pthread_mutex_t lock;
  char busy[64][MSGQ_ID_SIZE]; /* the conversations in flight */
  bool used[64];
};

void sender_begin(struct sender *sender, uint16_t port);
msgq_verdict sender_send(void *context, const msgq_delivery *delivery, msgq_outcome *out);
/* Sends a batch as one request, whose header `Messages` has their number and whose body has their ids. */
void sender_send_batch(void *context, const msgq_delivery *deliveries, size_t count, msgq_outcome *outcomes);
void sender_release(void *context);

#endif
