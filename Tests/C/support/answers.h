/* A transport that answers later: it keeps the tokens, and threads answer them in any order. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "msgqueue.h"

enum { answers_room = 4096 };

struct answers {
  msgq_queue *queue;
  bool twice; /* each token is answered by two threads at once */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t tokens[answers_room]; /* in flight */
  char names[answers_room][32];  /* their conversations */
  size_t open;
  size_t most_open;
  int next[1024]; /* the number that the next message of conversation "c<number>" must have */
  unsigned wanted;
  /* What was seen. */
  unsigned calls, accepted, refused, odd, disorder, overlaps;
};

void answers_begin(struct answers *answers, msgq_queue *queue);
void answers_end(struct answers *answers);
/* The transport; ids are "c<conversation>-<number>". */
msgq_verdict answers_send(void *context, const msgq_delivery *delivery, msgq_outcome *out);
size_t answers_open(struct answers *answers);
/* Answers what comes, from several threads, until so many were answered. */
void answers_serve(struct answers *answers, int threads, unsigned total);

#endif
