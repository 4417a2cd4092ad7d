/* A host with a database of its own, whose outbox is collected while something happens to the messages that were taken over. */
#ifndef FAULTS_OUTBOX_SCENE_H
#define FAULTS_OUTBOX_SCENE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What happens to messages between their transaction in the queue and the deletion of their rows. */
enum fate {
  FATE_QUEUED,  /* nothing */
  FATE_SENDING, /* an attempt is in flight */
  FATE_SENT,    /* kept in the history */
  FATE_FAILED,
  FATE_DELETED, /* by a person */
  FATE_CLEARED,
  FATE_DISCARDED, /* the receiver refused them, and the option says so */
  FATE_REPLACED,  /* by newer ones of the same key */
  FATE_PRUNED,    /* sent, and not kept */
  FATE_FORGOTTEN, /* sent, not kept, and the ids are not remembered */
  FATES
};

/* The host's journal and synchronous. */
enum host_mode {
  HOST_NORMAL,
  HOST_FULL,
  HOST_ROLLBACK,
  HOST_MODES
};

const char *fate_name(enum fate fate);
const char *host_mode_name(enum host_mode mode);

/* The numbers of messages begin with 1. The transaction of message `undone` is rolled back. */
enum {
  messages_end = 9,
  undone = 3
};

/* What was acknowledged until then. */
struct marks {
  atomic_bool committed[messages_end]; /* the host's transaction with order and message */
  atomic_bool taken[messages_end];     /* the queue has it */
  atomic_bool fated[messages_end];     /* its fate was acknowledged, too */
  atomic_bool fate_begun;
};

enum mark_kind {
  MARK_COMMITTED = 1,
  MARK_TAKEN,
  MARK_FATED,
  MARK_FATE
};
struct mark {
  uint32_t kind, number;
};
void mark_apply(struct marks *marks, struct mark mark);

struct outbox_scene {
  enum fate fate;
  enum host_mode mode;
  const char *directory;
  struct marks *marks;
};

/* Makes the host's database and the store, without messages. */
void outbox_prepare(const struct outbox_scene *scene);
/* Plays the scene from open to close, and marks what is acknowledged. Returns an exit code. */
int outbox_play(const struct outbox_scene *scene);
/* Opens what a crash left, lets the fate happen, and collects: nothing is lost, nothing is there twice, nothing comes back. */
bool outbox_verify(const struct outbox_scene *scene, char *why, size_t room);

#endif
