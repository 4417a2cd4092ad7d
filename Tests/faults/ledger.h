/* The calls of the driver and their results as a list of events, and the allowed state of each message that follows from them. */
#ifndef FAULTS_LEDGER_H
#define FAULTS_LEDGER_H

#include <msgqueue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
  EVENT_ENQUEUE = 1, /* number, conversation, size, batch: before the call */
  EVENT_ENQUEUED,    /* number, result */
  EVENT_RECORD,      /* number, conversation, size, batch: a received message; result 1: one's own, of another device */
  EVENT_RECORDED,
  EVENT_EDIT, /* number, version, size */
  EVENT_EDITED,
  EVENT_DELETE, /* number */
  EVENT_DELETED,
  EVENT_CLEAR, /* conversation, or all_conversations */
  EVENT_CLEARED,
  EVENT_READ, /* number: a receipt */
  EVENT_READ_MARKED,
  EVENT_RETRY,   /* number: of a failed message */
  EVENT_START,   /* number: the transport is called */
  EVENT_STOP,    /* number, result: its verdict */
  EVENT_KNOWN,   /* number: an event or the end of a drain reported that the outcome is stored */
  EVENT_CALM,    /* start of a pause without calls */
  EVENT_SETTLED, /* end of the pause, more than a second later */
  EVENT_CLOSED,  /* result */
  EVENT_OPENED,  /* result */
  EVENT_BACKUP,  /* number: of the file */
  EVENT_BACKED_UP,
  EVENT_SALVAGE, /* number: of the backup that is salvaged */
  EVENT_SALVAGED,
  EVENT_RETRY_ALL, /* conversation, or all_conversations */
  EVENT_DROPPED,   /* number: an event reported that a full queue dropped it */
  EVENT_DELETE_CONVERSATION, /* conversation: all its messages */
  EVENT_CONVERSATION_DELETED,
  EVENT_CLEAR_FAILED, /* conversation, or all_conversations */
  EVENT_FAILED_CLEARED,
  EVENT_TITLE, /* conversation, version: it gets the title of this number */
  EVENT_TITLED,
  EVENT_FOLLOW,    /* number: the changes that were read; the first part of the token after them, see driver.c */
  EVENT_FOLLOWED,  /* the same number; the second part */
  EVENT_KINDS
};

enum { all_conversations = 0xffff, titles_room = 8, messages_room = 200000, versions_room = 12 };

struct event {
  uint16_t kind;
  uint16_t conversation;
  uint32_t number;
  uint32_t version;
  uint32_t size;
  uint32_t batch; /* 0: none */
  uint32_t key;   /* of EVENT_ENQUEUE: replaces a queued message of this key; 0: none */
  int32_t result;
};

struct version {
  uint32_t version, size;
};

/* One message. "tried" means that a change may have happened, "done" that it was acknowledged. */
struct message {
  bool is_tried, is_done, is_received;
  bool is_own; /* with is_received: recorded as one's own */
  bool delete_tried, delete_done;
  bool delete_tried_before; /* the first before the present call that deletes several */
  bool read_tried, read_done;
  bool known;    /* the last outcome was reported as stored */
  bool durable;  /* the last outcome must survive a power cut */
  uint16_t conversation;
  uint32_t batch, key;
  uint32_t replacer;        /* the number of the message that may have replaced it, plus 1; 0: none */
  uint8_t versions_count; /* the bodies that it may have */
  uint16_t starts, stops;
  int32_t verdict;            /* of the last stop */
  int32_t refusal;            /* the error of enqueue, if no later call succeeded */
  bool was_sent;              /* an attempt had the verdict SENT */
  bool resent;                /* sent again although the outcome SENT was stored */
  bool maybe;                 /* an enqueue returned UNKNOWN: the message may be stored, whatever later calls returned */
  bool ambiguous;             /* the process ended between the verdict and its report */
  bool asked;                 /* a retry was requested */
  bool reordered;             /* its place may be another one than that of its number: enqueued more than once, by replacement, retried with others */
  struct version versions[versions_room];
};

/* The title of a conversation: one of the numbers `done` to `tried`; 0: none. */
struct title {
  uint32_t done, tried;
  bool may_be_gone; /* a call that deletes the conversation may have removed it */
};

/* The guarantees of the options of the queue. */
struct promises {
  bool durable_outcomes; /* reported outcomes survive a power cut */
  bool begins_durable;   /* the beginnings of attempts survive a power cut */
  bool holds;            /* hold_interrupted */
  bool prunes;           /* sent messages may be pruned */
  bool drops;            /* a full queue drops its oldest queued messages */
  bool is_limited;       /* a call may return FULL */
  bool follows;          /* all changes are kept, and read from token to token */
};

struct ledger {
  struct promises promises;
  uint32_t count; /* numbers in use: 0 ..< count */
  uint32_t backups_tried, backups_done, salvages_tried, salvages_done;
  bool resent; /* of any message */
  uint32_t followed;       /* the number of changes that were read */
  struct event follow[2];  /* the token after them; kind 0: there is none yet */
  struct event following;
  struct title titles[titles_room];
  struct message *messages;
};

void ledger_begin(struct ledger *ledger, struct promises promises);
void ledger_end(struct ledger *ledger);
void ledger_copy(struct ledger *to, const struct ledger *from);
void ledger_apply(struct ledger *ledger, const struct event *event);
/* Applies the guarantees without a power cut: reported outcomes and the beginnings of attempts are stored. */
void ledger_without_power_cut(struct ledger *ledger);

/* A list of events in memory shared with child processes, so that it survives the end of the process that writes it. */
struct journal {
  atomic_uint count;
  atomic_uint problem_count;
  char problem[256]; /* the first one */
  uint32_t room;
  struct event events[];
};
struct journal *journal_make(uint32_t room);
void journal_free(struct journal *journal);
void journal_clear(struct journal *journal);
void journal_add(struct journal *journal, const struct event *event);
void journal_problem(struct journal *journal, const char *format, ...);
void journal_replay(const struct journal *journal, struct ledger *ledger);

/* The body of a message depends on number, version and size in every 12 bytes. */
void body_fill(void *out, uint32_t number, struct version version);
bool body_is(const void *bytes, size_t size, uint32_t number, struct version version);

/* A random number generator. Adjacent seeds give independent sequences. */
struct generator {
  uint64_t state;
};
struct generator generator_of(uint64_t seed, uint64_t stream, uint64_t number);
uint64_t random_next(struct generator *generator);
uint32_t random_below(struct generator *generator, uint32_t end);

#endif
