/* Opens a store and compares it with what a ledger allows. */
#ifndef FAULTS_CHECK_H
#define FAULTS_CHECK_H

#include "ledger.h"

enum check_flags {
  CHECK_ENQUEUE = 1,    /* a new message can be stored, and the store closed */
  CHECK_REOPEN = 2,     /* ... and it is there after that */
  CHECK_BEGINS = 4,     /* the beginnings of attempts, when they are promised */
  CHECK_NO_OUTCOMES = 8 /* outcomes may be lost: nothing is said about statuses */
};

/* The options that tools open stores with: by hand, and nothing is pruned. */
msgq_options check_options(const struct promises *promises);
bool check_store(const char *path, const struct ledger *ledger, unsigned flags, char *why, size_t room);
/* The same on a queue that is open. */
bool check_queue(msgq_queue *queue, const struct ledger *ledger, unsigned flags, char *why, size_t room);
/* The number in "m000123"; -1: another id. */
long number_of(const char *id);
void id_of(char out[32], uint32_t number);

#endif
