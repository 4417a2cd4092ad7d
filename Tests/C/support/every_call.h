/* Every function that takes a queue, called with one handle. */
#ifndef EVERY_CALL_H
#define EVERY_CALL_H

#include "msgqueue.h"

/* Checks that each call answers `expected` and writes nothing. msgq_close is left out: NULL is fine there, and the
   handle is to stay what it is. */
void every_call_answers(msgq_queue *queue, msgq_result expected);

#endif
