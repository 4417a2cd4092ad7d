/* What the program under test was told and did: a list of events, and what follows from it for each message. */
#ifndef FAULTS_LEDGER_H
#define FAULTS_LEDGER_H

#include <msgqueue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
  EVENT_ENQUEUE = 1, /* number, conversation, size, batch; a call begins */
  EVENT_ENQUEUED,    /* number, result */
  EVENT_RECORD,      /* number, conversation, size: somebody else's message */
  EVENT_RECORDED,
  EVENT_EDIT, /* number, version, size */
  EVENT_EDITED,
  EVENT_DELETE, /* number */
  EVENT_DELETED,
  EVENT_CLEAR, /* conversation, or all_conversations */
  EVENT_CLEARED,
  EVENT_READ, /* number: a receipt */
  EVENT_READ_MARKED,
  EVENT_RETRY,   /* number: a failed one is asked for again */
  EVENT_START,   /* number: the transport is called */
  EVENT_STOP,    /* number, result: its verdict */
  EVENT_KNOWN,   /* number: an event or the end of a drain said that the outcome is stored */
  EVENT_CALM,    /* nothing is called from here ... */
  EVENT_SETTLED, /* ... to here, more than a second later */
  EVENT_CLOSED,  /* result */
  EVENT_OPENED,  /* result */
  EVENT_BACKUP,  /* number: of the file */
  EVENT_BACKED_UP,
  EVENT_KINDS
};

enum { all_conversations = 0xffff, messages_room = 200000, versions_room = 12 };

struct event {
  uint16_t kind;
  uint16_t conversation;
  uint32_t number;
  uint32_t version;
  uint32_t size;
  uint32_t batch; /* 0: none */
  int32_t result;
};

struct version {
  uint32_t version, size;
};

/* One message. "tried" is what may have happened, "done" what was acknowledged. */
struct message {
  bool is_tried, is_done, is_received;
  bool delete_tried, delete_done;
  bool read_tried, read_done;
  bool known;    /* the last outcome was reported as stored */
  bool durable;  /* ... and must survive a power cut */
  uint16_t conversation;
  uint32_t batch;
  uint8_t versions_count; /* bodies that it may have */
  uint16_t starts, stops;
  int32_t verdict;            /* of the last stop */
  int32_t refusal;            /* enqueue answered this and nothing else since */
  bool was_sent;              /* a stop said SENT, at any time */
  bool resent;                /* started again by a process that had the outcome */
  bool maybe;                 /* enqueue answered UNKNOWN once: it may be stored whatever was answered later */
  bool ambiguous;             /* the process died between the verdict and the report of it */
  bool asked;                 /* to be retried */
  bool reordered;             /* enqueued more than once: its place is that of the one that succeeded */
  struct version versions[versions_room];
};

/* What the queue's options promise. */
struct promises {
  bool durable_outcomes; /* what was reported as stored survives a power cut */
  bool begins_durable;   /* so does the beginning of an attempt */
  bool holds;            /* hold_interrupted */
  bool prunes;           /* sent messages may go */
};

struct ledger {
  struct promises promises;
  uint32_t count; /* numbers in use: 0 ..< count */
  uint32_t backups_tried, backups_done;
  bool resent; /* some message was */
  struct message *messages;
};

void ledger_begin(struct ledger *ledger, struct promises promises);
void ledger_end(struct ledger *ledger);
void ledger_copy(struct ledger *to, const struct ledger *from);
void ledger_apply(struct ledger *ledger, const struct event *event);
/* The process may have died, the system has not: what was reported is stored, and so is each attempt that began. */
void ledger_without_power_cut(struct ledger *ledger);

/* Shared with child processes: a list that grows, whoever writes it and however he ends. */
struct journal {
  atomic_uint count;
  atomic_uint odd_count;
  char odd[256]; /* the first answer that must not be */
  uint32_t room;
  struct event events[];
};
struct journal *journal_make(uint32_t room);
void journal_free(struct journal *journal);
void journal_clear(struct journal *journal);
void journal_add(struct journal *journal, const struct event *event);
void journal_odd(struct journal *journal, const char *format, ...);
void journal_replay(const struct journal *journal, struct ledger *ledger);

/* The body of a message: told apart by number, version and size in every 16 bytes of it. */
void body_fill(void *out, uint32_t number, struct version version);
bool body_is(const void *bytes, size_t size, uint32_t number, struct version version);

/* A small generator whose seeds may be neighbours. */
struct dice {
  uint64_t state;
};
struct dice dice_of(uint64_t seed, uint64_t stream, uint64_t number);
uint64_t dice_next(struct dice *dice);
uint32_t dice_below(struct dice *dice, uint32_t end);

#endif
