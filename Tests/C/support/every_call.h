/* Calls every function that takes a queue with one handle. */
#ifndef EVERY_CALL_H
#define EVERY_CALL_H

#include "msgqueue.h"

/* Checks that each call returns `expected` and writes nothing. msgq_close is left out: it accepts NULL, and it would
   change what the handle is. */
void every_call_answers(msgq_queue *queue, msgq_result expected);

#endif
