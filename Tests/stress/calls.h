/* The random calls of the stress program, and its callbacks. */
#ifndef CALLS_H
#define CALLS_H

#include "stress.h"

void side_begin(struct side *side, bool polled);
/* Sets a transport and a handler, which replace the previous ones. */
void register_both(struct side *side, msgq_queue *queue);
void resume_all(msgq_queue *queue);
/* Makes one random call. It may return CLOSED when another thread closes the queue. */
void call_at_random(struct side *side, unsigned *seed);

#endif
