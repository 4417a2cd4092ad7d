/* A host program: it uses a queue, and writes down what it was told. Scenes are programs of such calls. */
#ifndef FAULTS_DRIVER_H
#define FAULTS_DRIVER_H

#include <pthread.h>

#include "ledger.h"

enum scene {
  SCENE_MIX,      /* a little of everything */
  SCENE_BODIES,   /* big bodies, edited */
  SCENE_HISTORY,  /* few sent messages are kept */
  SCENE_VOLUME,   /* enough writes for checkpoints */
  SCENE_DURABLE,  /* durable_outcomes */
  SCENE_HOLD,     /* hold_interrupted */
  SCENE_CLEAR,    /* clear, backup, close and open again */
  SCENE_SETTLE,   /* a second passes after a drain */
  SCENE_THREADS,  /* four threads enqueue */
  SCENES
};

const char *scene_name(enum scene scene);
/* The scene of that name; SCENES: there is none. */
enum scene scene_named(const char *name);
struct promises scene_promises(enum scene scene);

struct driver {
  char path[4096];
  struct ledger ledger;
  struct journal *journal; /* may be NULL */
  struct dice dice;
  pthread_mutex_t lock;
  msgq_queue *queue;
  msgq_options options;
  bool strict;          /* every call must succeed */
  bool remember_unknown; /* enqueue again under the same id what was answered with UNKNOWN */
  bool (*has_failed)(void); /* whether something was made to fail; NULL: what the shim says */
  uint32_t next, next_batch, backups;
  atomic_int storage_events; /* reports of trouble */
};

/* `path` is the store's; numbers of messages begin with `first`. */
void driver_begin(struct driver *driver, enum scene scene, const char *path, uint64_t seed, struct journal *journal, uint32_t first);
void driver_end(struct driver *driver);
msgq_result driver_open(struct driver *driver);
msgq_result driver_close(struct driver *driver);
msgq_result driver_enqueue(struct driver *driver, uint32_t conversation, uint32_t size);
void driver_batch(struct driver *driver, uint32_t count, uint32_t size);
void driver_enqueue_again(struct driver *driver, uint32_t number);
msgq_result driver_edit(struct driver *driver, uint32_t number, uint32_t size);
msgq_result driver_delete(struct driver *driver, uint32_t number);
msgq_result driver_clear(struct driver *driver, uint32_t conversation);
/* Sends at most `batch` (0: all). */
msgq_result driver_drain(struct driver *driver, uint32_t batch);
void driver_settle(struct driver *driver);
/* An event that is noted in the ledger, the journal and the trace. */
void driver_note(struct driver *driver, struct event event);

/* Plays a scene, from opening to closing; `length` is about the number of calls. */
void scene_play(struct driver *driver, enum scene scene, unsigned length);
/* The same without the last close. It ends `after_fault` steps after a call was made to fail. */
void scene_play_until(struct driver *driver, enum scene scene, unsigned length, unsigned after_fault);

/*
 * What comes after trouble, when nothing fails any more: another process opens the store, compares it with the journal, enqueues, sends
 * everything and closes it. Nothing that was acknowledged may be lost, and nothing sent twice. `path` is in a directory of its own.
 */
bool aftermath(enum scene scene, const char *path, struct journal *journal, char *why, size_t room);

#endif
