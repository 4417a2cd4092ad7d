/* The calls that the stress makes, and the callbacks it gives. */
#ifndef CALLS_H
#define CALLS_H

#include "stress.h"

void side_begin(struct side *side, bool polled);
/* A transport and a handler, in place of those before. */
void register_both(struct side *side, msgq_queue *queue);
void resume_all(msgq_queue *queue);
/* One call of any kind. A queue that is being closed may answer CLOSED. */
void call_at_random(struct side *side, unsigned *seed);

#endif
