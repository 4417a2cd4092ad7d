/* A host program that uses a queue and records its calls and their results. A scene is a sequence of such calls. */
#ifndef FAULTS_DRIVER_H
#define FAULTS_DRIVER_H

#include <pthread.h>

#include "ledger.h"

enum scene {
  SCENE_MIX,      /* all calls */
  SCENE_BODIES,   /* large bodies, edited */
  SCENE_HISTORY,  /* few sent messages are kept */
  SCENE_VOLUME,   /* enough writes for checkpoints */
  SCENE_DURABLE,  /* durable_outcomes */
  SCENE_HOLD,     /* hold_interrupted */
  SCENE_CLEAR,    /* clear, backup, close and open */
  SCENE_SETTLE,   /* a pause of more than a second after a drain */
  SCENE_THREADS,  /* four threads enqueue */
  SCENE_SPACE,    /* few sent messages are kept, and free space of the file is given back, in steps and by the VACUUM of a close */
  SCENE_BATCHES,  /* four threads enqueue, and the transport takes several messages in one call */
  SCENE_POLLED,   /* a queue without threads; the host polls when the descriptor is readable, or stops polling */
  SCENE_CALLS,    /* also the calls for many messages: replacements, retry_all, backup, salvage; a full queue drops; batches; pruning */
  SCENE_LIMITS,   /* the same with small limits of bytes and of the file, and a queue that refuses */
  SCENE_SHORT,    /* the queue is opened for each call and closed after it */
  SCENE_FEED,     /* all changes are kept and followed */
  SCENES
};

const char *scene_name(enum scene scene);
/* Returns the scene of this name; SCENES: unknown name. */
enum scene scene_named(const char *name);
struct promises scene_promises(enum scene scene);
/* Writes the token after the changes that were read. Returns false when there is none yet. */
bool token_of(char out[MSGQ_CHANGE_TOKEN_SIZE], const struct ledger *ledger);

struct driver {
  char path[4096];
  struct ledger ledger;
  struct journal *journal; /* may be NULL */
  struct generator generator;
  pthread_mutex_t lock;
  msgq_queue *queue;
  msgq_options options;
  bool sends_batches;
  bool strict;          /* every call must succeed */
  bool remember_unknown; /* enqueue a message again with the same id when the result was UNKNOWN */
  bool (*has_failed)(void); /* returns whether a fault was injected; NULL: by the shim */
  uint32_t next, next_batch, backups;
  atomic_int storage_events; /* STORAGE events with an error */
};

/* `path` is the path of the store; the numbers of messages begin with `first`. */
void driver_begin(struct driver *driver, enum scene scene, const char *path, uint64_t seed, struct journal *journal, uint32_t first);
void driver_end(struct driver *driver);
msgq_result driver_open(struct driver *driver);
msgq_result driver_close(struct driver *driver);
msgq_result driver_enqueue(struct driver *driver, uint32_t conversation, uint32_t size);
msgq_result driver_record(struct driver *driver, uint32_t conversation, uint32_t size);
void driver_batch(struct driver *driver, uint32_t count, uint32_t size);
void driver_enqueue_again(struct driver *driver, uint32_t number);
/* Edits a message that is queued, or updates one that was received. */
msgq_result driver_edit(struct driver *driver, uint32_t number, uint32_t size);
msgq_result driver_delete(struct driver *driver, uint32_t number);
msgq_result driver_clear(struct driver *driver, uint32_t conversation);
/* Sends at most `batch` messages (0: all). */
msgq_result driver_drain(struct driver *driver, uint32_t batch);
void driver_settle(struct driver *driver);
/* Adds an event to the ledger, the journal and the trace. */
void driver_note(struct driver *driver, struct event event);

/* Runs a scene from open to close; `length` is about the number of calls. */
void scene_play(struct driver *driver, enum scene scene, unsigned length);
/* Makes one random call of a scene. */
void scene_step(struct driver *driver, enum scene scene);
/* The same without the last close. Ends `after_fault` steps after a fault was injected. */
void scene_play_until(struct driver *driver, enum scene scene, unsigned length, unsigned after_fault);

/*
 * Checks the store after faults, when nothing fails any more: another process opens it, compares it with the journal, enqueues, sends
 * everything and closes it. Nothing that was acknowledged may be lost, and nothing sent twice. `path` is in its own directory.
 */
bool aftermath(enum scene scene, const char *path, struct journal *journal, char *why, size_t room);

#endif
