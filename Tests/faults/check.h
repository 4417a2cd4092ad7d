/* Opens a store and checks that a ledger allows its state. */
#ifndef FAULTS_CHECK_H
#define FAULTS_CHECK_H

#include "ledger.h"

enum check_flags {
  CHECK_ENQUEUE = 1,    /* a new message can be enqueued, and the store closed */
  CHECK_REOPEN = 2,     /* the new message is there after another open */
  CHECK_BEGINS = 4,     /* the beginnings of attempts are stored, if promised */
  CHECK_NO_OUTCOMES = 8, /* outcomes may be lost: statuses are not checked */
  CHECK_DERIVED = 16,   /* what is derived from the messages agrees with them before the store is opened, which may repair it */
  CHECK_WHOLE = 32,     /* nothing is said to be damaged or perhaps lost, also with refuse_lost_tail */
  CHECK_SALVAGE = 64    /* a salvaged copy is the same; it is made beside the store */
};

/* Returns the options of the tools: mode manual, nothing is pruned, no limits. */
msgq_options check_options(const struct promises *promises);
bool check_store(const char *path, const struct ledger *ledger, unsigned flags, char *why, size_t room);
/* Checks that what a closed store derives from its messages agrees with them. */
bool check_derived(const char *path, char *why, size_t room);
/* Checks the backups and salvaged copies beside the store `path`: one that is there is whole, and a finished one is there. */
bool check_backups(const char *path, const struct ledger *ledger, char *why, size_t room);
/* The same as check_store on a queue that is open. */
bool check_queue(msgq_queue *queue, const struct ledger *ledger, unsigned flags, char *why, size_t room);
/* Returns the number in an id like "m000123"; -1: another id. */
long number_of(const char *id);
void id_of(char out[32], uint32_t number);
/* Returns the own time of a message; 0: it has none. */
int64_t time_of(uint32_t number);
/* Returns the time that an update to this version gives a received message; 0: it keeps the one that it has. */
int64_t new_time_of(uint32_t number, uint32_t version);
/* Whether a change to this version writes the number of the version into the metadata; msgq_edit leaves them as they are. */
bool has_metadata(const struct message *message, uint32_t version);

#endif
