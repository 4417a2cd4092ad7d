/* A transport that answers later: it stores the tokens, and several threads complete them in any order. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "msgqueue.h"

enum { answers_room = 4096 };

struct answers {
  msgq_queue *queue;
  bool twice; /* two threads complete each token at the same time */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t tokens[answers_room]; /* of the attempts in flight */
  char names[answers_room][32];  /* their conversations */
  size_t open;
  size_t most_open;
  int next[1024]; /* the expected number of the next message of each conversation */
  unsigned wanted;
  /* Results: `disorder` counts messages out of order, `overlaps` attempts of a conversation that has one in flight already. */
  unsigned calls, accepted, refused, unexpected, disorder, overlaps;
};

void answers_begin(struct answers *answers, msgq_queue *queue);
void answers_end(struct answers *answers);
/* The transport; ids have the form "c<conversation>-<number>". */
msgq_verdict answers_send(void *context, const msgq_delivery *delivery, msgq_outcome *out);
size_t answers_open(struct answers *answers);
/* Completes attempts from several threads until `total` tokens were taken. */
void answers_serve(struct answers *answers, int threads, unsigned total);

#endif
