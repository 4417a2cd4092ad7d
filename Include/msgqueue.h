/*
 * libmsgqueue: an embeddable, durable, offline-first outbound message queue.
 *
 * A program enqueues messages; they are on disk when the call returns. They are sent in order,
 * conversation by conversation, through a transport that the program supplies. Failures are
 * classified, retried with growing delays, and kept as `failed` for a person to retry, edit or
 * delete. Every change of a status while the queue is open is reported by an event. Connectivity
 * decides when to send.
 *
 * Contents
 *
 *    1. Rules for every function
 *    2. Version
 *    3. Results and errors
 *    4. Basic types              msgq_queue, msgq_status, msgq_failure_kind, msgq_pair
 *    5. Opening and closing      msgq_options, msgq_open, msgq_close, msgq_close_async
 *    6. Adding messages          msgq_draft, msgq_enqueue, _enqueue_batch, _enqueue_bodies,
 *                                _record, _record_batch
 *    7. Sending                  msgq_set_transport, _batch_transport, _complete, _drain, _pause
 *    8. One message              msgq_get, _edit, _update, _delete, _retry, _send_now, _mark, …
 *    9. Many messages            msgq_list, _count, _conversations, _mark_batch, _clear, _retry_all
 *   10. Connectivity             msgq_set_connectivity, _connectivity_reason, msgq_monitor_start
 *   11. Events                   msgq_set_event_handler, msgq_poll, msgq_fd
 *   12. State and explanations   msgq_get_state, msgq_explain
 *   13. Texts for people         labels, icons, msgq_banner, msgq_relative_time
 *   14. Statistics               msgq_stats, msgq_stats_text, msgq_stats_text_all
 *   15. Backups, damaged stores  msgq_backup, msgq_check, msgq_salvage
 *   16. Log                      msgq_set_log, msgq_set_log_level, msgq_log_next
 *   17. Control socket           msgq_control_start, msgq_control_stop
 *   18. Simulated time           msgq_open_simulated, msgq_advance
 *
 * A whole program (link with -lmsgqueue):

#include <msgqueue.h>
#include <stdio.h>
static msgq_verdict send_one(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  printf("to %s: %.*s\n", delivery->conversation, (int)delivery->body_size, (char *)delivery->body);
  return MSGQ_VERDICT_SENT;  // or ..._RETRY, ..._REJECT, ..._OFFLINE; or ..._HTTP with out->code
}
int main(void) {
  msgq_queue *queue;
  msgq_draft draft = { sizeof draft, .conversation = "ana", .body = "hello", .body_size = 5 };
  if (msgq_open("outbox.db", NULL, &queue) != MSGQ_OK) return puts(msgq_error_detail()), 1;
  if (msgq_enqueue(queue, &draft, NULL) != MSGQ_OK) return puts(msgq_error_detail()), 1;
  msgq_set_transport(queue, send_one, NULL, NULL);  // the message is on disk already
  msgq_drain(queue, NULL, NULL);                    // sends what is due, in order
  return msgq_close(queue, 5000);
}

 * ---------------------------------------------------------------- 1. Rules for every function
 *
 *   Results    Functions return msgq_result. Outputs come last and are written only on MSGQ_OK,
 *              unless the function says otherwise. After a failure msgq_error_detail() says more,
 *              on the same thread.
 *   Errors     Comments name results without the prefix MSGQ_. Besides what a function names:
 *              - a wrong argument (NULL, out of range, not UTF-8) is INVALID;
 *              - a function with a queue answers CLOSED and FORKED (see Handles and Fork);
 *              - one that "reads the store" answers STORAGE and CORRUPT;
 *              - one that "changes the store" answers STORAGE and UNKNOWN, and PERMISSION when
 *                the queue was opened with read_only.
 *              After every error but UNKNOWN nothing has changed, unless the function says
 *              otherwise.
 *   Ownership  What comes through `**out` is yours and has a `_free` function. What comes as a
 *              returned pointer or inside a struct is borrowed. Everything you pass in is copied
 *              before the call returns. Texts that a function returns as `const char *` are never
 *              NULL and have static lifetime, unless it says otherwise. `_free` accepts NULL.
 *   Callbacks  A callback has its context first. `release(context)`, when not NULL, runs exactly
 *              once: when the callback was replaced or the queue was closed, after its last call
 *              has returned. When the call that sets it fails, it runs as well. It counts as a
 *              callback. No lock is held while a callback runs.
 *   Strings    UTF-8, ended by NUL. Invalid UTF-8 is INVALID. Bodies are bytes: a pointer and a
 *              size.
 *   Structs    Every struct but msgq_pair begins with `struct_size`, the size that the caller
 *              knows; the INIT macros and the init functions set it. Fields are only appended. A
 *              struct of an older, smaller version is accepted: what it lacks has its default,
 *              and of an output only `struct_size` bytes are written. A larger one is accepted
 *              when what is beyond is zero.
 *   Zero       In options, 0 means the default wherever 0 has no meaning of its own. Where it has
 *              one, the field says so. A bool is taken as it is.
 *   Enums      Enumerators may be added: handle values that you do not know. Arrays that are
 *              indexed by an enumeration have spare room for them.
 *   Times      `_ms` are milliseconds: points in time since 1970-01-01 UTC, durations as such.
 *   Threads    Every function may be called from any thread at any time, also inside a callback.
 *              There msgq_close and msgq_wait answer CONFLICT, and a drain runs afterwards.
 *   Signals    The library installs no handler and changes no mask or action; its own threads block
 *              all signals. Under a limit of the size of files (ulimit -f) a write by the calling
 *              thread raises SIGXFSZ, whose default action ends the process, without a loss of
 *              what was accepted. Ignore it (SIG_IGN, as Python does) to get STORAGE instead.
 *   Handles    A closed handle answers CLOSED, an invalid one INVALID; neither touches memory.
 *   Fork       In a forked child every call on a queue of its parent answers FORKED and does
 *              nothing, and until it calls exec, the child cannot open that queue's file either
 *              (LOCKED). It can open other files. If it was forked while another thread of the
 *              parent made its first calls, calls on its own queues may never return: fork before
 *              or after these first calls.
 *   Since      Everything here is there since version 0.2, unless it says otherwise.
 */
#ifndef MSGQUEUE_H
#define MSGQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------- 2. Version */

#define MSGQ_VERSION_MAJOR 0
#define MSGQ_VERSION_MINOR 2
#define MSGQ_VERSION_PATCH 0
/* Major * 10000 + minor * 100 + patch, of the header. */
#define MSGQ_VERSION_NUMBER \
  (MSGQ_VERSION_MAJOR * 10000 + MSGQ_VERSION_MINOR * 100 + MSGQ_VERSION_PATCH)

/* The library's version, "0.2.0". */
const char *msgq_version(void);

/* The library's version as MSGQ_VERSION_NUMBER is built. */
uint32_t msgq_version_number(void);

/* The version of SQLite that the library uses, "3.40.1": that of the system, or the one that is
   linked into the library (the Python wheel). */
const char *msgq_sqlite_version(void);

/* ------------------------------------------------------------------ 3. Results and errors */

typedef enum msgq_result {
  MSGQ_OK = 0,
  MSGQ_INVALID,      /* an argument is wrong: NULL, out of range, not UTF-8, impossible size */
  MSGQ_NOT_FOUND,    /* no message with this id, no attempt with this token */
  MSGQ_DUPLICATE,    /* the id is in the queue already, or was sent or replaced recently */
  MSGQ_CONFLICT,     /* not possible in this status, or at this moment */
  MSGQ_BUSY,         /* the message is being sent right now */
  MSGQ_FULL,         /* a limit of the queue is reached; nothing changed */
  MSGQ_TOO_LARGE,    /* the body or the metadata is over its limit; nothing changed */
  MSGQ_LOCKED,       /* another owner has the store open; the detail names its process if known */
  MSGQ_CLOSED,       /* the queue is closed */
  MSGQ_FORKED,       /* the queue belongs to the parent process */
  MSGQ_CORRUPT,      /* the file is not a store, or is damaged; it was left as it is */
  MSGQ_STORAGE,      /* disk full, I/O error, out of memory or threads; nothing changed */
  MSGQ_UNKNOWN,      /* a sync failed: whether it is stored is not known; the same id may safely
                        be enqueued again */
  MSGQ_TOO_NEW,      /* the store was written by a later version; it was left as it is */
  MSGQ_PERMISSION,   /* the system, or the safety of the place, forbids it */
  MSGQ_TIMEOUT,      /* the time given ran out first */
  MSGQ_NO_TRANSPORT, /* there is nothing to send with: msgq_set_transport first */
  MSGQ_INTERNAL      /* a defect of this library; please report it with the detail */
} msgq_result;

/* "MSGQ_OK" and so on; "MSGQ_?" for an unknown number. */
const char *msgq_result_name(msgq_result result);

/* One sentence about this thread's last failed call, for a developer; "" before the first.
   Borrowed: valid until this thread's next failing call. */
const char *msgq_error_detail(void);

/* ----------------------------------------------------------------------- 4. Basic types */

/* The handle of a queue. Opaque; never dereferenced. */
typedef struct msgq_queue msgq_queue;

/* Bytes that hold any id and its NUL: ids have 1 to 255 bytes of UTF-8 without control
   characters. */
#define MSGQ_ID_SIZE 256

/*
 * A message is `queued` when it is enqueued. Afterwards its status changes in these ways only:
 *
 *   queued    -> sending          an attempt begins
 *             -> failed           it expired, or is damaged
 *             -> sent             a late success: the last attempt had timed out, then its answer
 *                                 came
 *   sending   -> sent             the attempt succeeded
 *             -> queued           the failure is retryable and retries are left; or the message
 *                                 was not sent at all, paused the queue (pause_on_unauthorized),
 *                                 or was interrupted by the end of the process
 *             -> failed           the failure is final, the retries are used up, a msgq_retry
 *                                 failed, or hold_interrupted holds an attempt that was
 *                                 interrupted by the end of the process
 *   failed    -> sending          msgq_retry
 *             -> queued           msgq_retry_all; msgq_retry while paused; in mode auto also
 *                                 msgq_retry while offline
 *             -> sent             a late success
 *   sent      -> delivered, read  msgq_mark
 *   delivered -> read             msgq_mark
 *
 * A recorded message begins as `delivered` (msgq_record), one's own that another device sent as
 * `sent` (msgq_record_batch). A receipt that comes early or late never moves a status back.
 */
typedef enum msgq_status {
  MSGQ_STATUS_QUEUED,    /* will be sent */
  MSGQ_STATUS_SENDING,   /* an attempt is in progress */
  MSGQ_STATUS_SENT,      /* reported by the transport */
  MSGQ_STATUS_DELIVERED, /* reported by a receipt */
  MSGQ_STATUS_READ,      /* reported by a receipt */
  MSGQ_STATUS_FAILED     /* needs a person: retry, edit, delete */
} msgq_status;

/* In msgq_event.from: no status before, because the message was enqueued or recorded just now. */
#define MSGQ_STATUS_NONE (-1)

/* Bits for msgq_filter.statuses. */
#define MSGQ_STATUS_BIT(status) (1u << (unsigned)(status))
/* Queued, sending and failed. */
#define MSGQ_STATUSES_UNSENT                                                    \
  (MSGQ_STATUS_BIT(MSGQ_STATUS_QUEUED) | MSGQ_STATUS_BIT(MSGQ_STATUS_SENDING) | \
   MSGQ_STATUS_BIT(MSGQ_STATUS_FAILED))
#define MSGQ_STATUSES_ALL 0x3fu

typedef enum msgq_failure_kind {
  MSGQ_FAILURE_NONE = 0,
  MSGQ_FAILURE_OFFLINE,      /* no connection: the message was not sent */
  MSGQ_FAILURE_TIMEOUT,      /* no answer in time: the message may have arrived */
  MSGQ_FAILURE_NETWORK,      /* refused, reset, no name, no route */
  MSGQ_FAILURE_SERVER,       /* the receiver failed (5xx) */
  MSGQ_FAILURE_RATE_LIMIT,   /* too many requests (429) */
  MSGQ_FAILURE_UNAUTHORIZED, /* the receiver refuses the credentials (401, 403) */
  MSGQ_FAILURE_REJECTED,     /* the receiver refuses the message (4xx) */
  MSGQ_FAILURE_NOT_FOUND,    /* there is no such receiver (404, 410) */
  MSGQ_FAILURE_EXPIRED,      /* the message expired before it could be sent */
  MSGQ_FAILURE_UNKNOWN,      /* an attempt interrupted by a crash, or an invalid answer */
  MSGQ_FAILURE_DROPPED,      /* the queue was full (MSGQ_ON_FULL_DROP_OLDEST) */
  MSGQ_FAILURE_LOCAL         /* the transport could not prepare the message for sending, as a body
                                that it cannot encode: MSGQ_VERDICT_REJECT */
} msgq_failure_kind;

/* A pair of strings. Keys are not empty and occur once; key and value may hold anything but NUL. */
typedef struct msgq_pair {
  const char *key;
  const char *value;
} msgq_pair;

/* Why an attempt failed. */
typedef struct msgq_failure {
  uint32_t struct_size;
  msgq_failure_kind kind;
  int32_t code;      /* the transport's own, as an HTTP status; 0: none */
  bool retryable;    /* another attempt may succeed */
  uint32_t attempts; /* made until then */
  int64_t at_ms;
  const char *text; /* raw, for a developer; never NULL */
} msgq_failure;

/* --------------------------------------------------------------- 5. Opening and closing */

/* Whether the engine or a person starts sending what is queued. */
typedef enum msgq_mode {
  MSGQ_MODE_AUTO = 0, /* the engine, by itself */
  MSGQ_MODE_ASK,      /* the person, after a MSGQ_EVENT_PROMPT; msgq_drain accepts it */
  MSGQ_MODE_MANUAL    /* the person alone, by msgq_drain, _send_now, _retry and _retry_all */
} msgq_mode;

/* The delays between attempts after a retryable failure. */
typedef enum msgq_backoff {
  MSGQ_BACKOFF_AUTOMATIC = 0, /* mode auto: 5 s, 30 s, 2 min; modes ask and manual: none, the
                                 message is `failed` at once */
  MSGQ_BACKOFF_LADDER,        /* ladder_ms: one delay per retry; without any: no retry */
  MSGQ_BACKOFF_EXPONENTIAL    /* base * factor^n, at most cap, max_retries times */
} msgq_backoff;

/* What becomes of a message whose retries are used up. */
typedef enum msgq_exhausted {
  MSGQ_EXHAUSTED_KEEP = 0, /* it is `failed` until a person acts */
  MSGQ_EXHAUSTED_DISCARD   /* it is deleted, with MSGQ_EVENT_DISCARDED and a line in the log */
} msgq_exhausted;

/* What becomes of a message that its receiver refuses for good: MSGQ_VERDICT_REJECT, or a final
   HTTP status. */
typedef enum msgq_refused {
  MSGQ_REFUSED_KEEP = 0, /* it is `failed` until a person acts */
  MSGQ_REFUSED_DISCARD   /* it is deleted, with MSGQ_EVENT_DISCARDED and a line in the log */
} msgq_refused;

/* What a message that failed for good does to its conversation. */
typedef enum msgq_final_failure {
  MSGQ_FINAL_STEP_ASIDE = 0, /* the messages behind it are sent */
  MSGQ_FINAL_BLOCK           /* it blocks them until a person retries or deletes it */
} msgq_final_failure;

/* What msgq_enqueue, _enqueue_batch and _enqueue_bodies do when a limit would be exceeded. */
typedef enum msgq_on_full {
  MSGQ_ON_FULL_REFUSE = 0, /* FULL, and nothing changes */
  MSGQ_ON_FULL_DROP_OLDEST /* in the same transaction the oldest queued messages, of all
                              conversations, are deleted, each with MSGQ_EVENT_DISCARDED
                              (MSGQ_FAILURE_DROPPED). One that is being sent or failed, and the
                              history, are left. FULL when that is not enough */
} msgq_on_full;

/* Who runs transport and event callbacks, and who performs what is due at a time: retries,
   time-outs, expiry, the flush of outcomes within a second, the erasure of text, pruning, and the
   kernel's messages about clock and network. */
typedef enum msgq_callbacks {
  MSGQ_CALLBACKS_THREAD = 0, /* threads of the library, both */
  MSGQ_CALLBACKS_POLL,       /* both only msgq_poll, on the caller's thread (and msgq_drain,
                                msgq_close when no thread polls). The queue starts no thread, unless
                                msgq_control_start or msgq_set_log is called. A host that does not
                                poll when msgq_fd is readable gives up what is due meanwhile:
                                outcomes are then not safe from a power loss within a second (with
                                durable_outcomes they are), and while its only thread is inside a
                                transport no attempt times out. Any other call performs a part of
                                what is overdue by 100 ms */
  MSGQ_CALLBACKS_POLL_TIMER  /* callbacks as MSGQ_CALLBACKS_POLL. One thread of the library, which
                                calls no function of the host, performs what is due at a time: for
                                an event loop that must not wait for the disk */
} msgq_callbacks;

/* The settings of a queue. The comment of each field begins with its default; "(0)" after it says
   that 0 stands for it. */
typedef struct msgq_options {
  uint32_t struct_size;

  /* -- When to send */

  /* Auto. Whether the engine or a person starts sending what is queued. */
  msgq_mode mode;
  /* True. A message enqueued while online, with nothing of its conversation queued before it, is
     attempted at once, in every mode. */
  bool direct;
  /* False. In the background (msgq_set_lifecycle) the engine sends nothing by itself unless this
     is true. */
  bool send_in_background;
  /* False. Nothing is sent while the link is metered, except by msgq_send_now and msgq_retry. */
  bool unmetered_only;
  /* False. A final failure of kind unauthorized (401, 403) pauses the queue until msgq_resume
     instead of failing message after message; the message stays queued and uses up no retry, but
     after a msgq_retry it is failed. */
  bool pause_on_unauthorized;
  /* 0: all. Attempts started by one drain, and by the engine itself between two triggers (launch,
     foreground, online again, trigger interval, resume): at most 2147483647. Retries that are due
     do not count, and in mode auto need no trigger. */
  uint32_t drain_batch;
  /* 500 ms. After a change from offline to online, automatic sending and the prompt are delayed
     until the link has lasted this long; then the retry delays of messages that failed with kind
     offline or network end, except those that a receiver asked for. 0 (no delay) to 1 hour. */
  int64_t online_debounce_ms;
  /* 0: none. Interval of a periodic trigger: 1 ms to 1 day. */
  int64_t trigger_interval_ms;
  /* 10 s (0). How long a prompt (mode ask) is valid: 1 ms to 1 day. */
  int64_t prompt_timeout_ms;

  /* -- Order */

  /* Step aside. */
  msgq_final_failure final_failure;
  /* True. A message that is queued for a retry blocks its conversation; false: others may overtake
     it. One that is queued until its not_before_ms, or for an unmetered link, blocks nothing. At
     most 1024 messages of a conversation are overtaken in these ways; one more blocks it. */
  bool strict_order;

  /* -- Attempts */

  /* 1 (0). Attempts in flight at one time, of different conversations: 1 to 64. Beside them up to
     4 on demand (msgq_retry, msgq_send_now), which are not delayed by the engine's own, only by
     their conversation. While calls of the transport take less than 50 us on average, or answer
     PENDING, up to 16 attempts begin together and one thread makes their calls. With a batch
     transport see msgq_batch_options.max_messages. */
  uint32_t max_in_flight;
  /* False. After a crash during an attempt: false sends the message again under its id, true
     makes it `failed` with kind unknown for a person to decide. A crash uses up one retry. With
     false a message is `failed`, too, when a crash has used up more retries than max_retries, at
     least 2; it is not discarded then (exhausted). */
  bool hold_interrupted;
  /* False. Beginnings and outcomes of attempts survive a crash of the process at once, and a power
     cut after about a second (a message may then be sent twice, under the same id). True: they
     survive a power cut at once, at one disk flush each: two for an attempt, or for up to 128 of a
     batch. */
  bool durable_outcomes;
  /* False. MSGQ_VERDICT_HTTP with code 409 after an attempt that may have arrived: false retries
     it as a failure of kind server, because 409 may mean "a request with this key is still being
     processed"; true counts it as sent, for receivers that answer 409 only when they have the
     message. Without such an attempt 409 is final (rejected) in both cases. */
  bool conflict_is_sent;
  /* 30 s (0). An attempt without an answer ends as a time-out after this: 1 ms to 1 day. */
  int64_t attempt_timeout_ms;
  /* 3 s (0). The same for msgq_retry and msgq_send_now. */
  int64_t on_demand_timeout_ms;

  /* -- Retries */

  /* Automatic. The fields of the others are checked, too. */
  msgq_backoff backoff;
  /* 5. Retries after the first attempt: 0 (none) to 1000. A ladder that is shorter, as that of
     MSGQ_BACKOFF_AUTOMATIC, ends earlier. */
  uint32_t max_retries;
  /* None. For MSGQ_BACKOFF_LADDER: 0 to 64 delays, each 0 to 7 days. Copied by msgq_open. */
  const int64_t *ladder_ms;
  size_t ladder_count;
  /* 5 s, 2 and 1 hour (0). For MSGQ_BACKOFF_EXPONENTIAL: base 1 ms to 7 days, factor 1 to 100, cap
     base to 7 days. The default cap is the base when that is longer than 1 hour: MSGQ_OPTIONS_INIT
     sets the cap to 0. */
  int64_t backoff_base_ms;
  double backoff_factor;
  int64_t backoff_cap_ms;
  /* 0: none. Each delay is varied by plus or minus this share at random, at most 1. A delay that a
     receiver asked for is not. Where many clients share a receiver, 0.2 or more keeps them from
     coming back together after an outage. */
  double jitter;
  /* Keep. */
  msgq_exhausted exhausted;
  /* Keep. An expired message, an attempt that hold_interrupted holds, and a failed msgq_retry are
     never discarded; nor what pause_on_unauthorized keeps queued. */
  msgq_refused refused;

  /* -- History */

  /* 10,000 messages and 30 days. Sent and recorded messages are kept: at most so many (0: none;
     UINT64_MAX: no limit), and at most so long after they were sent, or recorded and read (0: not
     at all; negative: no limit). If there are more, the oldest by `time_ms` are pruned,
     within about a second; meanwhile there may be a tenth more, or the messages of one batch. By
     their age they are pruned up to a twentieth of keep_sent_ms late, at most a minute. What
     is queued or failed is never pruned. What is recorded and not marked as read is not pruned
     either, and does not count against keep_sent. */
  uint64_t keep_sent;
  int64_t keep_sent_ms;
  /* 7 days; 0: not at all. Ids of messages that were sent or recorded and then pruned or deleted,
     and of replaced ones (replace_key), are refused as duplicates for this long. */
  int64_t remember_ids_ms;

  /* -- Limits */

  /* 0: never. Drafts without an expiry expire after this: 1 ms to 10 years; as expiry_ms of
     msgq_draft. While the wall clock is plainly wrong (before 2026) nothing expires, and nothing is
     pruned or forgotten by age. An expires_at_ms in those years is measured from the enqueue by the
     clock that counts from the boot; if the queue was opened again meanwhile, its time begins again
     when the clock is set. */
  int64_t expiry_ms;
  /* 0: none. Unsent messages, and bytes of unsent bodies. Over it: FULL, or as on_full says. */
  uint64_t limit_messages;
  uint64_t limit_bytes;
  /* 1 MiB (0). One body: 1 byte to 256 MiB. Over it: TOO_LARGE. */
  uint64_t limit_body;
  /* 64 KiB. One message's metadata, keys and values together: 0 (none is accepted) to 16 MiB. At
     most 1024 pairs. Over it: TOO_LARGE. */
  uint64_t limit_metadata;

  /* -- The host and the file */

  /* Thread. Who runs the callbacks. */
  msgq_callbacks callbacks;
  /* False. Opens a closed store, one that a crash left, a backup, or a store on a full or read-only
     disk for reading only. Nothing is written, no file is made beside it, and nothing is sent.
     Everything that reads works, msgq_backup too; of a crashed store it shows what msgq_open would
     show. Changes, sending, msgq_pause, msgq_resume and msgq_set_transport answer PERMISSION.
     Several readers may have a store open at the same time, but no reader beside an owner: the
     second to come gets LOCKED. A path where there is no file is INVALID. */
  bool read_only;
  /* False. Refuses a store whose log lost its end (CORRUPT) instead of opening what is whole and
     reporting what is missing. */
  bool refuse_lost_tail;

  /* Refuse. When an enqueue would exceed limit_messages, limit_bytes or limit_file_bytes. */
  msgq_on_full on_full;
  /* 0: none. Bytes of the database file and its log; over it: FULL, also from msgq_record, and from
     msgq_edit with a longer body. Free pages inside the file are used again and do not count. What
     is in the queue can always be sent and deleted: outcomes and deletions may exceed the limit, by
     up to 1 MiB and 1 KiB for each unsent message; the log of one msgq_clear, and a rewrite of the
     file when it is closed, for a moment by the size of the file. The log takes 1/16 of the limit,
     but 0.5 MiB at least, and each unsent message some room for its outcome; stored attempts count
     (see msgq_ledger for what is kept of them then). An empty queue takes
     nearly 0.6 MiB: with a smaller limit every message is refused. */
  int64_t limit_file_bytes;

  /* -- The rate */

  /* 0: no limit. Attempts of every kind that begin in a second (automatic and direct ones, retries,
     drains, msgq_retry, msgq_send_now; pending ones too): more than 0, at most 1,000,000, also a
     fraction. In any T seconds of the monotonic clock at most rate_per_second * T + rate_burst
     begin; an attempt begins with the call of the transport. The clock is read right before the
     call: a thread that loses the processor in between calls later, and the next call may then
     follow sooner by as much. Waits are rounded up to milliseconds.
     Later attempts make up for that only within rate_burst: with a burst of 1 each wait is up to a
     millisecond longer, which matters from about 100 per second. At most rate_burst begin in one
     millisecond. The attempts of an earlier process are not known: the allowance is empty after
     msgq_open, and the first attempt begins 1 / rate_per_second seconds later. Expiries and
     time-outs do not wait. */
  double rate_per_second;
  /* 1 (0). Attempts that may begin at once, after a time with fewer. A batch has at most so many
     messages: with 1 a batch transport gets one message in each call. Set it to the size of a batch
     that the receiver permits. */
  uint32_t rate_burst;
  /* 0: off; up to 1 day. Needs a rate_per_second. When sending begins again after an outage, the
     attempts in flight, the burst and the rate begin at 1, 1 and 1 per second (or rate_per_second
     if that is less). A success adds 1 / (present rate * ramp_up) of the way to the full values, so
     that these are reached when sending has gone on for ramp_up_ms at the earliest. A time-out, 429
     and 503 (HTTP or code) halve them, not below the first values; one whose attempt began before
     the latest halving does not. As with max_in_flight, up to 4 attempts on demand are made beside.
     Sending begins again: at msgq_open with queued messages; online after offline; after
     msgq_resume of the whole queue; after an attempt that ended as offline; after a receiver's
     delay for the whole queue; and with the first success after failures, when for a second or
     more after the first of them none succeeded. */
  int64_t ramp_up_ms;

  /* -- After an outage: which conversation is next (see "Order" below) */

  /* 0.5. While a backlog is sent, this share of the attempts goes to messages enqueued since: 0
     (they wait for the whole backlog) to 1 (the backlog waits while there are any). */
  double live_share;
  /* False. Of messages with equal priority, those that expire are sent first, the soonest expiry
     first. */
  bool soonest_expiry_first;

  /* False. For a tool that changes a store while the program that owns it does not run. The file
     must exist (INVALID). Nothing is pruned, forgotten, expired by time or discarded, and only
     msgq_drain and msgq_send_now send: mode, direct, keep_sent, keep_sent_ms, remember_ids_ms,
     expiry_ms, exhausted, refused and on_full have no effect. msgq_retry and msgq_retry_all put
     messages back to `queued` in their places, durably, also without a transport, and send
     nothing. An expired message fails when a drain reaches it. */
  bool maintenance;

  /* MSGQ_CONNECTIVITY_UNKNOWN (0), which counts as online. A msgq_connectivity: what counts until
     the host or the monitor reports connectivity for the first time. MSGQ_CONNECTIVITY_OFFLINE: the
     queue begins offline, so that it raises no prompt and calls no transport before the report,
     whatever is called first; the first report of online counts as a return of the connection. If
     there is no report within 60 s of msgq_open, one line of the log (MSGQ_LOG_WARNING) says so. */
  int64_t initial_connectivity;

  /* False. In mode ask the prompt asks about failed messages, too: "Connected. Auto-send 5 queued
     and 2 failed messages?", also when only failed ones are there. The yes to it is a drain with
     include_failed; one without sends the queued ones only. */
  bool prompt_for_failed;

  /* 0: not, except 100 ms for another process, which may be closing. How long msgq_open waits while
     another owner has the store open, in another process or in this one, before it answers LOCKED:
     0 to 1 day, by the monotonic clock. For a program that is started while the one before it still
     closes. The lock is tried every 5 ms; of several that wait any one may be the next. With
     read_only it waits for the owner, and an owner waits for readers. A store that the parent of a
     forked process had open when it forked is LOCKED at once. */
  int64_t wait_ms;

  /* 5 s; 0: never. How often MSGQ_EVENT_COLLECT asks the host to take over what waits in its own
     places: 1 ms to 1 day. It begins with the first msgq_handed_over of the handle, so that a queue
     without hand-overs never wakes for it. */
  int64_t collect_interval_ms;

  /* 0: none. The most changes of messages that are kept for msgq_changes, the latest ones. Each
     takes 10 to 30 bytes beside the id of its message, and the conversation where it is not that of
     the change before it; of limit_file_bytes at most a quarter. When there is no room for them the
     oldest go, so that the limit is no reason to refuse an outcome for them. For a full disk 256
     bytes are reserved for the changes of each unsent message; while it stays full the oldest go as
     well, and outcomes for whose changes there is no room are stored without them, so that earlier
     tokens are answered CONFLICT. A store that is changed with 0 begins anew with its next changes,
     with the same effect; only `maintenance` goes on as the program that owns the store has
     begun. */
  uint64_t keep_changes;
} msgq_options;

/*
 * Order. Each attempt goes to the first message of one conversation, and the order within a
 * conversation never changes. First live_share divides the attempts between the backlog and what
 * was enqueued since. Of the messages of the chosen part, the one with the highest priority is next
 * (msgq_draft), of those with equal priority the one that expires soonest (only with
 * soonest_expiry_first), of those the oldest. One of 8 attempts of each part goes to its oldest
 * message instead, so that none waits forever; only live_share 0 and 1 let one part wait for the
 * other.
 *
 * A backlog is what was queued when sending began: at the launch, when a transport was set, online,
 * after a resume, in the foreground, with a drain, at the end of a wait (an outcome `offline`, a
 * receiver's retry_after_queue), with a trigger after drain_batch was used up, and with the first
 * success after three or more retryable failures in a row. msgq_retry, msgq_send_now and
 * msgq_retry_all do not wait for the order.
 */

/* clang-format off */
#define MSGQ_OPTIONS_INIT                                                                        \
  { sizeof(msgq_options), MSGQ_MODE_AUTO, true, false, false, false, 0, 500, 0, 10000,           \
    MSGQ_FINAL_STEP_ASIDE, true, 1, false, false, false, 30000, 3000, MSGQ_BACKOFF_AUTOMATIC, 5, \
    NULL, 0, 5000, 2.0, 0, 0.0, MSGQ_EXHAUSTED_KEEP, MSGQ_REFUSED_KEEP, 10000, 2592000000, \
    604800000, 0, 0, 0, 1048576, 65536, MSGQ_CALLBACKS_THREAD, false, false,                     \
    MSGQ_ON_FULL_REFUSE, 0, 0.0, 0, 0, 0.5, false, false, MSGQ_CONNECTIVITY_UNKNOWN, false, 0, \
    5000, 0 }
/* clang-format on */

/* Sets every field to its default, as MSGQ_OPTIONS_INIT, for languages without macros. NULL is
   ignored. The other init functions do the same for their structs. */
void msgq_options_init(msgq_options *options);

/*
 * Opens the store in the file `path`, or makes it (mode 0600; a missing parent directory is not
 * made). `options` may be NULL: the defaults. `out` receives the handle; close it with msgq_close.
 *
 * Attempts that a crash interrupted are recorded as "outcome unknown"; their messages go back to
 * their places (see hold_interrupted), which is a change (msgq_changes) and no event. In mode auto
 * sending starts as soon as there is a transport.
 *
 * A refused open changes no file. A store that lost the end of its log, and one of which an index
 * or a count had to be made anew, is opened, and MSGQ_EVENT_STORAGE reports it once a handler is
 * set. Beside `path` there are `path`-wal and `path`-tail while the queue is open and after a
 * crash; they belong together. A closed store is one file.
 *
 * Errors: INVALID (also: a name over 247 bytes, or that ends in -wal, -journal, -shm or -tail),
 * PERMISSION (a directory, FIFO, symbolic or hard link, mount point, another user's file, a file
 * that others may write, an unsafe directory, read-only), LOCKED (after wait_ms), CORRUPT (not a
 * store: empty, text, another program's database; damaged beyond opening; `path`-wal without its
 * database or of another one; a rollback journal), TOO_NEW, STORAGE.
 */
msgq_result msgq_open(const char *path, const msgq_options *options, msgq_queue **out);

/*
 * Closes the queue: starts nothing more, waits at most `timeout_ms` (0: not at all, negative:
 * without end) for attempts in flight, reports the events that are left (an event handler that
 * does not return within a second ends that), runs the release functions, closes the store. NULL
 * is accepted.
 *
 * Errors: CONFLICT (inside a callback, also inside a release function that a close runs, where the
 * other calls on the queue answer CLOSED). After these it is closed all the same:
 *   TIMEOUT   an attempt or a callback had not ended; the attempt is "outcome unknown" after the
 *             next open, and the release function runs when the callback returns;
 *   STORAGE   a write or a flush failed, and outcomes of attempts are not saved; after the next
 *             open they may be "outcome unknown". Once no attempt is in flight, rejected writes are
 *             tried again for 5 s, or until the timeout if that is sooner; after a failed flush
 *             they are not;
 *   UNKNOWN   `path` or `path`-wal was removed, replaced or modified while the queue was open, and
 *             accepted messages may be lost. Nothing is written to the files there.
 */
msgq_result msgq_close(msgq_queue *queue, int64_t timeout_ms);

/* Receives the result of msgq_close_async: OK, or TIMEOUT, STORAGE or UNKNOWN as msgq_close returns
   them; then msgq_error_detail says more, inside the callback. */
typedef void (*msgq_closed_fn)(void *context, msgq_result result);

/*
 * As msgq_close, but returns at once. After OK every call on the queue answers CLOSED, except
 * msgq_poll and msgq_fd of a polled queue. `closed`, which may be NULL, is called exactly once,
 * when the store is closed and the release functions have run: on a thread of the library, or,
 * when the queue is polled, in msgq_poll. After an error `closed` is never called, and nothing has
 * changed.
 *
 * A polled queue runs its last callbacks, releases included, only in msgq_poll: go on calling it
 * and watching the descriptor until `closed` was called. With MSGQ_CALLBACKS_POLL that also closes
 * the store, which takes as long as in msgq_close (a msgq_close or msgq_drain on another thread
 * does it, too); otherwise a thread of the library closes it. Events that msgq_poll does not take
 * within a second may be dropped. The descriptor is closed when `closed` has returned.
 *
 * Allowed inside a callback, which is waited for like any other. A second msgq_close_async answers
 * CLOSED at once, msgq_close does so when the store is closed. In a child that is forked meanwhile
 * `closed` is not called.
 *
 * Errors: STORAGE (no thread left; not with MSGQ_CALLBACKS_POLL).
 */
msgq_result msgq_close_async(msgq_queue *queue, int64_t timeout_ms, msgq_closed_fn closed,
                             void *context);

/* ------------------------------------------------------------------- 6. Adding messages */

typedef struct msgq_draft {
  uint32_t struct_size;
  const char *id;           /* NULL: a new UUIDv7. The idempotency key: the same every attempt */
  const char *conversation; /* NULL is "". At most 255 bytes without control characters */
  const void *body;         /* may be NULL when body_size is 0 */
  size_t body_size;
  const msgq_pair *metadata;
  size_t metadata_count;
  int64_t not_before_ms; /* 0: at once */
  int64_t expires_at_ms; /* 0: never. From then on the message is `failed` with kind expired; later
                            than not_before_ms (INVALID) */
  bool unmetered_only;   /* only while the link is not metered, or by msgq_send_now, msgq_retry */
  /* NULL or "": none. At most 255 bytes without control characters. The message replaces a queued
     one of the same key in its conversation: it takes its place in the order and its `sequence`,
     and has an id, times, metadata and retries of its own. The id of the old one is refused
     (DUPLICATE) for remember_ids_ms, and MSGQ_EVENT_REPLACED reports it. A message that is being
     sent is left, and the new one stands behind it; one that failed, also one that is held, is left
     as well. Of several drafts of one key the last one wins. */
  const char *replace_key;
  /* -100 to 100. Compared with the first messages of other conversations, the highest is sent first
     (see "Order" above). msgq_edit and msgq_edit_message keep it. */
  int32_t priority;
  /* 0: now. When the message was composed, or sent by its sender, also in the future: 1 to
     253402300799999, the end of the year 9999 (otherwise INVALID). Lists show messages with this
     time and can be in its order; the order of sending does not depend on it. */
  int64_t time_ms;
  /* In place of not_before_ms and expires_at_ms (INVALID with both): durations of 0 to 10 years; 0:
     not given. delay_ms counts from the call, expiry_ms from the end of the delay or from
     not_before_ms. The times that result are not_before_ms and expires_at_ms of the message. Until
     the system is booted again they are measured by a clock that counts from the boot: a change of
     the system's clock changes no duration, and those two fields follow it. */
  int64_t delay_ms;
  int64_t expiry_ms;
} msgq_draft;

#define MSGQ_DRAFT_INIT \
  { sizeof(msgq_draft), NULL, NULL, NULL, 0, NULL, 0, 0, 0, false, NULL, 0, 0, 0, 0 }

void msgq_draft_init(msgq_draft *draft);

/*
 * Stores one message as `queued`; on OK it survives a power cut. `id_out` receives its id; it may
 * be NULL. Calls of several threads share one disk flush. Changes the store.
 * Errors: DUPLICATE (still in the queue, or sent or replaced recently), FULL, TOO_LARGE.
 */
msgq_result msgq_enqueue(msgq_queue *queue, const msgq_draft *draft, char id_out[MSGQ_ID_SIZE]);

/* Stores `count` messages (0 to 1,000,000) in this order, all or none. `ids_out` has room for
   `count` ids, or is NULL. Every draft has the same struct_size. The detail about one of several
   drafts begins with its index, from 0. Otherwise as msgq_enqueue. */
msgq_result msgq_enqueue_batch(msgq_queue *queue, const msgq_draft *drafts, size_t count,
                               char (*ids_out)[MSGQ_ID_SIZE]);

/*
 * Stores `count` messages (0 to 1,000,000) that differ only in their bodies, in this order, all or
 * none. `bodies` holds the bodies one after another; body i has sizes[i] bytes, and the sizes add
 * up to `bodies_size`. `bodies` may be NULL when bodies_size is 0, `sizes` when count is 0. `draft`
 * is what the messages have in common: its id and replace_key are NULL and its body_size is 0.
 * `ids_out` has room for `count` ids, or is NULL. Changes the store.
 * Errors: FULL, TOO_LARGE. The detail about a body has its index, from 0.
 */
msgq_result msgq_enqueue_bodies(msgq_queue *queue, const msgq_draft *draft, const void *bodies,
                                size_t bodies_size, const size_t *sizes, size_t count,
                                char (*ids_out)[MSGQ_ID_SIZE]);

/*
 * Puts a message that was received from someone else into the history, so that a conversation is
 * complete: its status is `delivered` until msgq_mark says `read`, it has a place in the order, and
 * it is never sent. A second time with the same id changes nothing and is OK, for remember_ids_ms
 * also when the message was pruned or deleted. `sender` has 1 to 255 bytes; not_before_ms,
 * expires_at_ms, delay_ms, expiry_ms, unmetered_only, replace_key and priority of the draft have no
 * meaning here.
 * `id_out` may be NULL. Changes the store.
 * Errors: DUPLICATE (the id is that of a message to send), FULL (limit_file_bytes), TOO_LARGE.
 */
msgq_result msgq_record(msgq_queue *queue, const msgq_draft *draft, const char *sender,
                        char id_out[MSGQ_ID_SIZE]);

/*
 * Puts `count` messages (0 to 1,000,000) into the history, in this order and in one transaction:
 * received ones, as msgq_record does each, and a person's own that were sent from another device.
 * senders[i] is the sender of drafts[i]; NULL, also `senders` itself: it is one's own. Such a
 * message begins as `sent` (`sent_ms` is the time of the call), is never unread and never sent, and
 * msgq_mark moves it to `delivered` and `read`. Every draft has the same struct_size.
 *
 * results[i], unless `results` is NULL, says what became of drafts[i]:
 *   OK         it is stored; or a recorded message of its id is in the store, also one before it in
 *              `drafts`, which is left as it is
 *   DUPLICATE  nothing of it is stored: its id is that of a message that was enqueued here, or is
 *              remembered (remember_ids_ms) of one that was sent or recorded and is gone
 * These are no errors of the call. After an error nothing was stored; the detail about one of
 * several drafts begins with its index, from 0. After UNKNOWN the same call may be repeated. Each
 * message stored has its MSGQ_EVENT_STATUS. Changes the store.
 *
 * Errors: FULL (limit_file_bytes), TOO_LARGE.
 */
msgq_result msgq_record_batch(msgq_queue *queue, const msgq_draft *drafts,
                              const char *const *senders, size_t count, msgq_result *results);

/*
 * Messages that another durable place (a source) hands over: rows of a table of the host's own
 * database, which were written in the host's own transaction. Two stores cannot commit together, so
 * the queue remembers the ids that it has taken over until the source has deleted its rows:
 *
 *   1. msgq_handed_over: what was handed over and not forgotten. Delete those rows of the source
 *      whose `result` is OK, durably, then msgq_hand_over_done. After a crash there may be some.
 *   2. Read rows of the source, and msgq_take_over.
 *   3. Delete the rows whose result is OK or DUPLICATE, durably, then msgq_hand_over_done.
 *
 * Whatever step a crash interrupts, each message is taken over exactly once: an id of the open
 * hand-over is not stored again, also when its message was sent, deleted, cleared, discarded or
 * replaced meanwhile, whatever remember_ids_ms says. Once it is forgotten, that holds no more.
 *
 * One collector of a source at a time: the list that msgq_handed_over returned last counts, and
 * with an earlier one the calls answer CONFLICT. So rows that were read before another collector
 * deleted them are never stored twice. Begin again with msgq_handed_over. Sources are independent.
 * Each draft has an id of its own: a source uses none twice, and none of another source.
 */

/* What was handed over and not forgotten, of one source. */
typedef struct msgq_hand_over msgq_hand_over;

/* One draft that was handed over. */
typedef struct msgq_handed {
  uint32_t struct_size;
  msgq_result result; /* OK: the queue has a message of this id, or had one. Otherwise it could not
                         be kept: INVALID or TOO_LARGE, as msgq_take_over returned it */
  const char *id;     /* of one that is not valid a line of at most 255 bytes, with control
                         characters escaped */
  uint64_t body_size;
  int64_t at_ms;      /* when it was handed over */
  const char *text;   /* why it could not be kept; otherwise "" */
} msgq_handed;

/* Returns what `source` (1 to 255 bytes without control characters) has handed over and was not
   forgotten: first what the queue has, then what could not be kept. Earlier lists of the source can
   no longer be used. Free it with msgq_handed_over_free. Reads the store. Errors: CORRUPT (the list
   is damaged: see msgq_salvage). */
msgq_result msgq_handed_over(msgq_queue *queue, const char *source, msgq_hand_over **out);

/* Number of drafts; 0 for NULL. */
size_t msgq_handed_over_size(const msgq_hand_over *list);

/* Draft `index`, borrowed from the list; NULL when out of range. */
const msgq_handed *msgq_handed_over_at(const msgq_hand_over *list, size_t index);

void msgq_handed_over_free(msgq_hand_over *list);

/*
 * Stores `count` drafts (0 to 1,000,000), in this order, as msgq_enqueue_batch does, and in the
 * same transaction their ids as the open hand-over of the list's source. Each draft has an id. On
 * OK all of that survives a power cut. results[i], unless `results` is NULL, says what became of
 * drafts[i]:
 *   OK                  the message is in the queue; or its id is in the open hand-over already.
 *                       A draft that msgq_enqueue refuses for good, because its body is over
 *                       limit_body, its metadata over limit_metadata, or another value is invalid,
 *                       is in the queue as `failed`, kind MSGQ_FAILURE_LOCAL, with the reason as
 *                       its text and with its whole body and metadata, but without invalid values
 *                       and replace_key; msgq_retry answers TOO_LARGE while it is over limit_body
 *   DUPLICATE           the queue has a message of this id (enqueued or recorded), or remembers
 *                       one, or it is that of a draft before it. No message was stored, and the row
 *                       can be deleted. The id is in the open hand-over from then on, so that
 *                       another call answers OK
 *   INVALID, TOO_LARGE  it cannot be kept whole: an invalid id or conversation, metadata that are
 *                       not UTF-8, NULL, without a key or with a key twice, a body over 256 MiB
 *                       or over limit_bytes or limit_file_bytes, metadata over 16 MiB or 1024
 *                       pairs. It stands in the list of msgq_handed_over until
 *                       msgq_hand_over_forget. Keep the row, and mark it, so that it is not read
 *                       again
 * These are no errors of the call. After an error nothing was stored. Every draft has the same
 * struct_size. The detail about one of several drafts begins with its index, from 0. Each message
 * stored has its MSGQ_EVENT_STATUS. Changes the store.
 *
 * Errors: CONFLICT (the list is not the latest of its source), FULL (none is stored; see on_full),
 * INVALID (also: a draft without an id, or with a body_size and no body).
 */
msgq_result msgq_take_over(msgq_queue *queue, const msgq_hand_over *list, const msgq_draft *drafts,
                           size_t count, msgq_result *results);

/* Forgets the ids of the open hand-over of the list's source: those in the list, and those taken
   over with it since. Call it when the source has deleted these rows, and its commit survives a
   power cut. The list can be used again. Works in steps, between which other calls run; they are
   not flushed, because an id that is not forgotten does no harm. Drafts that could not be kept stay
   in the list. Changes the store. Errors: CONFLICT (the list is not the latest of its source). */
msgq_result msgq_hand_over_done(msgq_queue *queue, const msgq_hand_over *list);

/* Asks the host to take over what waits in its own places: reports MSGQ_EVENT_COLLECT to this
   queue's handler and subscribers. Call it after the commit that put messages there; requests that
   come while the event waits to be delivered share it. A process that does not own the queue asks
   through the control socket (request_collect). Errors: PERMISSION (read_only). */
msgq_result msgq_request_collect(msgq_queue *queue);

/* Forgets a draft that could not be kept, by its id in the list, or (NULL) all of the source. Works
   in steps. Changes the store. Errors: NOT_FOUND. */
msgq_result msgq_hand_over_forget(msgq_queue *queue, const char *source, const char *id);

/* --------------------------------------------------------------------------- 7. Sending */

/* What the transport is given; valid until it returns. */
typedef struct msgq_delivery {
  uint32_t struct_size;
  uint32_t attempt; /* from 1 */
  uint64_t token;   /* for msgq_complete */
  const char *id;   /* the idempotency key: the same every attempt */
  const char *conversation;
  const void *body; /* never NULL */
  size_t body_size;
  const msgq_pair *metadata;
  size_t metadata_count;
  int64_t created_ms;
  int64_t timeout_ms; /* without an answer within this, the attempt ends as a time-out */
} msgq_delivery;

typedef enum msgq_verdict {
  MSGQ_VERDICT_UNKNOWN = 0, /* a callback that failed: a failure of unknown kind, retried; never
                               success */
  MSGQ_VERDICT_SENT = 1,    /* the receiver has it, or had it already */
  MSGQ_VERDICT_RETRY = 2,   /* a retryable failure: kind, code, text, retry_after */
  MSGQ_VERDICT_REJECT = 3,  /* a final failure: kind, code, text */
  MSGQ_VERDICT_OFFLINE = 4, /* it was not sent, and others would not be: there is no connection, or
                               the receiver accepts nothing at present. Uses up no retry, and is
                               not in msgq_attempts. A queue that sends by itself goes on after
                               5 s, or when connectivity changes. After msgq_retry the message is
                               `failed`; this attempt is in msgq_attempts, and that of a
                               msgq_send_now. `text` says why, for a person: see
                               msgq_set_connectivity_reason */
  MSGQ_VERDICT_PENDING = 5, /* msgq_complete will answer; not for msgq_complete itself */
  MSGQ_VERDICT_HTTP = 6,    /* `code` is an HTTP status, `retry_after` its Retry-After: the engine
                               decides. 2xx is sent; 408, 425, 429, 5xx and unknown ones are
                               retried; other 4xx are final. 409 after an attempt that may have
                               arrived is retried (see conflict_is_sent), otherwise final. */
  MSGQ_VERDICT_SKIPPED = 7  /* not tried: the message goes back to its place and uses up no retry.
                               It is tried again at once if another attempt has ended since its own
                               began, otherwise after one second; in the modes ask and manual one
                               that a drain left waits for the next drain. It is no attempt: it
                               counts in no `attempts` and is not in msgq_attempts. A request by
                               hand ends with it: after msgq_retry the message is `failed` as
                               before, with its earlier failure (that of the event and of the
                               change is MSGQ_FAILURE_UNKNOWN, and says that the transport skipped
                               the message); after msgq_send_now it is in its place, and in the
                               modes ask and manual a drain sends it. */
} msgq_verdict;

typedef struct msgq_outcome {
  uint32_t struct_size;
  msgq_verdict verdict; /* read by msgq_complete and from a msgq_batch_transport_fn; a
                           msgq_transport_fn returns its verdict */
  msgq_failure_kind kind;
  int32_t code;
  int64_t retry_after_ms; /* not earlier than this from now, whatever the wall clock does; -1: not
                             given. At most 7 days */
  bool retry_after_queue; /* delays the whole queue, not only this message; kept over a restart */
  bool not_sent;          /* MSGQ_VERDICT_RETRY: the receiver surely did not get the message
                             (connection refused, name not found): the attempt has MSGQ_ARRIVAL_NO.
                             Default false */
  char retry_after[64];   /* the Retry-After header as it came: seconds or an HTTP date, which is
                             ignored while the clock shows a time before 2026; "": none */
  char text[512];         /* raw, for a developer; cut to fit */
  int64_t receipt;        /* 0: none. With a success MSGQ_STATUS_DELIVERED or MSGQ_STATUS_READ, if
                             the receiver has reported it already: as msgq_mark, in the same
                             commit; two events follow, first that of `sent`. Has no meaning with
                             another outcome. Any other number is ignored with a warning in the log;
                             msgq_complete answers INVALID */
} msgq_outcome;

#define MSGQ_OUTCOME_INIT \
  { sizeof(msgq_outcome), MSGQ_VERDICT_UNKNOWN, MSGQ_FAILURE_NONE, 0, -1, false, false, "", "", 0 }

void msgq_outcome_init(msgq_outcome *outcome);

/* Sends one message. Runs on a thread of the library or in msgq_poll; never for two messages of one
   conversation at a time. `out` is initialised as MSGQ_OUTCOME_INIT. */
typedef msgq_verdict (*msgq_transport_fn)(void *context, const msgq_delivery *delivery,
                                          msgq_outcome *out);

/*
 * Sets the function that sends messages; NULL removes it. A call that does not return keeps its
 * thread and its conversation, no other: after its time-out it does not count against
 * max_in_flight, unless 16 calls hang already.
 * Errors: PERMISSION (read_only).
 */
msgq_result msgq_set_transport(msgq_queue *queue, msgq_transport_fn transport, void *context,
                               void (*release)(void *));

/*
 * Sends `count` messages, at least one. The messages of one conversation are next to each other and
 * in order. outcomes[i] is for deliveries[i]; each is initialised as MSGQ_OUTCOME_INIT, and its
 * `verdict` counts. MSGQ_VERDICT_UNKNOWN, which it has at first, is retried.
 *
 * Order: no other call sends a message of these conversations until every one of them in this batch
 * has an outcome. A message that fails retryably, or is skipped, is sent again before those behind
 * it that were not sent. But what the transport has sent is sent: so it must send the messages of a
 * conversation one after another, or in a request that keeps their order, and stop that
 * conversation at its first failure, offline or skipped message, leaving MSGQ_VERDICT_SKIPPED for
 * the rest. A final failure needs no stop, unless final_failure is MSGQ_FINAL_BLOCK.
 *
 * With MSGQ_VERDICT_PENDING msgq_complete or msgq_complete_batch answers by the token of the
 * delivery. All messages of a batch have the same time-out.
 *
 * After a crash during a call every message of it without an outcome on disk was interrupted, which
 * uses up one retry of each (or holds it: hold_interrupted). Each of them is alone in its next
 * call, so that one that crashes the process again interrupts no other message, except those of
 * calls that run at the same time (max_in_flight, max_batches, msgq_send_now, msgq_retry). It
 * stays so, also after further crashes, until an attempt of the message has another outcome than
 * offline or skipped.
 */
typedef void (*msgq_batch_transport_fn)(void *context, const msgq_delivery *deliveries,
                                        size_t count, msgq_outcome *outcomes);

/* How messages are put together for a batch transport. All but max_batches counts messages, not
   calls: max_in_flight, rate_per_second, ramp_up_ms, drain_batch, reports and statistics. */
typedef struct msgq_batch_options {
  uint32_t struct_size;
  /* 100 (0). The most messages in a batch: 1 to 1,000. Unless max_batches is set, a batch begins
     while fewer than max_in_flight messages are in flight. It has more than the rest of those only
     if none is in flight; so with max_in_flight 1 there is one call at a time. */
  uint32_t max_messages;
  /* sizeof(msgq_delivery) and sizeof(msgq_outcome) as the caller knows them, which the INIT macro
     sets: the distance of the elements of both arrays. Multiples of 8, up to 64 KiB. When they are
     larger than the library knows, the bytes beyond are zero and ignored; the struct_size of the
     elements says how many bytes the library knows. */
  size_t delivery_size;
  size_t outcome_size;
  /* 1 MiB (0). The most bytes of bodies in a batch: up to 1 GiB. A larger message is alone in its
     batch. */
  uint64_t max_bytes;
  /* 0. How long a batch that is not full waits for more messages: 0 to 60 s. Messages that were
     there and did not fit begin the next batch without another wait. Not during a drain that was
     asked for (msgq_drain), and not for msgq_retry, msgq_send_now and msgq_retry_all. */
  int64_t linger_ms;
  /* False. All messages of a batch belong to one conversation. */
  bool single_conversation;
  /* 0: max_in_flight limits the messages in flight. 1 to 64: the most batches in flight; each may
     have max_messages messages, whatever max_in_flight is. With 2 the next batch is sent while the
     outcomes of the last one are stored. While sending ramps up (ramp_up_ms), as few batches are in
     flight as attempts would be. A batch with pending attempts is in flight. */
  uint64_t max_batches;
} msgq_batch_options;

#define MSGQ_BATCH_OPTIONS_INIT \
  { sizeof(msgq_batch_options), 0, sizeof(msgq_delivery), sizeof(msgq_outcome), 0, 0, false, 0 }

/*
 * Sets a function that sends several messages in one call, in place of any transport; as does
 * msgq_set_transport the other way round. NULL removes it; `options` may then be NULL. Messages are
 * chosen in the order in which they would be sent one by one. msgq_retry and msgq_send_now make a
 * batch of one message. A batch begins in commits of up to 256 messages (with hold_interrupted in
 * one), and its outcomes are stored in commits of 64 (with durable_outcomes of 128); between them
 * other calls run. What they forbid (a pause, no connection) puts all messages of a batch back that
 * has not been called yet.
 * Errors: PERMISSION (read_only).
 */
msgq_result msgq_set_batch_transport(msgq_queue *queue, msgq_batch_transport_fn transport,
                                     void *context, void (*release)(void *),
                                     const msgq_batch_options *options);

/*
 * Answers an attempt whose transport returned MSGQ_VERDICT_PENDING; also before the transport has
 * returned. A late success of the latest attempt counts, unless the message was edited since; any
 * other answer after the time-out is CONFLICT, as is a second one.
 * Errors: NOT_FOUND (no such token), CONFLICT.
 */
msgq_result msgq_complete(msgq_queue *queue, uint64_t token, const msgq_outcome *outcome);

/*
 * Answers `count` attempts (0 to 1,000,000) in this order, as msgq_complete does each, with one
 * commit for up to 64 of them, with durable_outcomes for up to 128. Every outcome has the same
 * struct_size. results[i], unless `results` is NULL, is the result for tokens[i]: OK, NOT_FOUND or
 * CONFLICT. Those are no errors of the call, which goes on. After an error no attempt was answered,
 * except after CLOSED, when the queue was closed meanwhile.
 */
msgq_result msgq_complete_batch(msgq_queue *queue, const uint64_t *tokens,
                                const msgq_outcome *outcomes, size_t count, msgq_result *results);

typedef struct msgq_drain_options {
  uint32_t struct_size;
  uint32_t batch;     /* 0: as the option drain_batch. Attempts at most, without due retries: up to
                         2147483647 */
  int64_t timeout_ms; /* -1: without end, as every negative number. How long the caller waits at
                         most; 0: not at all. The drain that it begins starts no attempt later */
  const char *conversation; /* NULL: all. Only messages of this conversation are sent and counted */
  /* False. True: first puts what is `failed` back to `queued`, as msgq_retry_all does, except what
     belongs to a paused conversation, and sends it with the rest, in order. Offline or paused
     nothing is put back. The limit `batch` counts attempts, not what is put back. */
  bool include_failed;
} msgq_drain_options;

#define MSGQ_DRAIN_OPTIONS_INIT { sizeof(msgq_drain_options), 0, -1, NULL, false }

void msgq_drain_options_init(msgq_drain_options *options);

/* Why a drain stopped. */
typedef enum msgq_stop {
  MSGQ_STOP_EMPTY = 0, /* nothing is queued any more */
  MSGQ_STOP_WAITING,   /* what is queued is not due yet: a retry's delay, not_before, metered */
  MSGQ_STOP_OFFLINE,   /* not connected, or the transport said so */
  MSGQ_STOP_BATCH,     /* the batch is done */
  MSGQ_STOP_TIMEOUT,   /* its time ran out */
  MSGQ_STOP_STORAGE,   /* the store refuses to write, or no thread can be created */
  MSGQ_STOP_CLOSED,    /* the queue is being closed */
  MSGQ_STOP_STARTED,   /* called inside a callback: it was started, and runs after the callback */
  MSGQ_STOP_PAUSED     /* msgq_pause, of the queue or of every conversation with queued messages;
                          or the receiver refused the credentials */
} msgq_stop;

typedef struct msgq_report {
  uint32_t struct_size;
  msgq_stop stop;
  uint64_t sent;
  uint64_t failed; /* became `failed` */
  uint64_t discarded;
  uint64_t remaining;        /* queued or being sent when it ended */
  uint64_t remaining_failed; /* `failed` when it ended. A drain sends none of what was `failed`
                                before it, unless include_failed is set */
  uint64_t put_back;         /* were `failed` and were put back to `queued` (include_failed) */
} msgq_report;

#define MSGQ_REPORT_INIT { sizeof(msgq_report), MSGQ_STOP_EMPTY, 0, 0, 0, 0, 0, 0 }

/*
 * Sends what is due, in order, and returns when nothing is due any more. `options` and `out` may
 * be NULL.
 *
 * Only one drain runs at a time. A second call that asks for the same, or for one conversation
 * while all are drained, joins the first and gets the same report (of its own options only the
 * timeout counts: each call returns at its own, and the drain ends at the latest of them). Any
 * other call, for all or for another conversation while one conversation is drained, or with
 * another include_failed, begins its drain when that one has ended. In mode ask, in strict order,
 * what a drain that ended with WAITING left behind a message that is queued for a retry is sent by
 * itself after it, if that message was tried since the connection returned. Nobody is asked about
 * other messages that such a drain left for a time of their own: they wait for another drain, or
 * for the prompt when the connection or the program returns.
 *
 * When it returns before its timeout, the events of what it did have been reported; so do not hold
 * a lock that your handler takes. At its timeout it returns TIMEOUT with what was done until then,
 * also when an event handler does not return; only a callback that runs on this thread (a polled
 * queue that no other thread polls) is waited for. Inside a callback it only starts the drain.
 *
 * Errors: NO_TRANSPORT, TIMEOUT (with the report of what was done), PERMISSION (read_only).
 */
msgq_result msgq_drain(msgq_queue *queue, const msgq_drain_options *options, msgq_report *out);

/* Receives the report when a drain has ended; `report` is valid until it returns. */
typedef void (*msgq_drained_fn)(void *context, const msgq_report *report);

/*
 * As msgq_drain, but returns at once. After OK `done`, which may be NULL, is called exactly once
 * with the report: after the events of the drain were reported, on the thread that reports events
 * or in msgq_poll, also when its own timeout ends first; when the queue is closed before, in
 * msgq_close, or where msgq_close_async calls `closed`.
 * Errors: NO_TRANSPORT, PERMISSION (read_only).
 */
msgq_result msgq_drain_async(msgq_queue *queue, const msgq_drain_options *options,
                             msgq_drained_fn done, void *context);

/* Starts nothing more, in one conversation or (NULL) at all, whoever asks, until msgq_resume.
   Attempts in flight end as usual. Not kept over a restart. Pausing twice is OK.
   Errors: PERMISSION (read_only). */
msgq_result msgq_pause(msgq_queue *queue, const char *conversation);

/* Ends a pause of the same scope. Errors: PERMISSION (read_only). */
msgq_result msgq_resume(msgq_queue *queue, const char *conversation);

/* The "no" to a MSGQ_EVENT_PROMPT: what is queued stays queued, and MSGQ_EVENT_PROMPT_WITHDRAWN
   follows. The next prompt comes as after one that expired. OK also without a prompt.
   Errors: PERMISSION (read_only). */
msgq_result msgq_withdraw_prompt(msgq_queue *queue);

/* ----------------------------------------------------------------------- 8. One message */

/* Why a message is not sent yet: see msgq_explain. */
typedef enum msgq_reason {
  MSGQ_REASON_NONE = 0, /* nothing to wait for: it was sent, or is a recorded one */
  MSGQ_REASON_NEXT,     /* it starts in its turn, as soon as an attempt may. `behind`: the first of
                           those of other conversations that go before it by live_share (0 or 1),
                           priority or soonest_expiry_first. While its batch waits for more messages
                           (linger_ms): until `until_ms` at the latest */
  MSGQ_REASON_SENDING,
  MSGQ_REASON_FAILED,    /* it needs a person: retry, edit, delete */
  MSGQ_REASON_BEHIND,    /* another message of its conversation comes first: `behind` */
  MSGQ_REASON_BLOCKED,   /* a failed message before it blocks the conversation: `behind` */
  MSGQ_REASON_RETRYING,  /* after a failure, or skipped by the transport: until `until_ms` */
  MSGQ_REASON_SCHEDULED, /* its not_before_ms: `until_ms` */
  MSGQ_REASON_EXPIRED,   /* it is about to fail */
  MSGQ_REASON_OFFLINE,
  MSGQ_REASON_METERED,
  MSGQ_REASON_PAUSED,
  MSGQ_REASON_NO_TRANSPORT,
  MSGQ_REASON_PERSON,  /* a person has to send it: by a drain, which is also the answer to a
                               prompt, or by msgq_send_now */
  MSGQ_REASON_HOLDING, /* online_debounce_ms, or the receiver's delay: until `until_ms` */
  MSGQ_REASON_TRIGGER, /* in the background, or the batch is used up: until the next trigger */
  MSGQ_REASON_STORAGE, /* the store refuses to write, or no thread can be created */
  MSGQ_REASON_RATE,    /* rate_per_second permits the next attempt of the queue at `until_ms` */
  MSGQ_REASON_GONE     /* of msgq_wait: it is no longer in the store. It was discarded, replaced
                          (`behind`: by which) or deleted */
} msgq_reason;

typedef struct msgq_explanation {
  uint32_t struct_size;
  msgq_reason reason;
  int64_t until_ms;          /* 0: not known */
  char behind[MSGQ_ID_SIZE]; /* "": none */
  char text[256];            /* one sentence for a person */
  uint32_t retries; /* how many retries the options permit: a message with the reason RETRYING is
                       waiting for retry `retries_used` of them, or was skipped. 0: none, or not
                       known (maintenance, read_only) */
} msgq_explanation;

#define MSGQ_EXPLANATION_INIT { sizeof(msgq_explanation), MSGQ_REASON_NONE, 0, "", "", 0 }

typedef struct msgq_message {
  uint32_t struct_size;
  msgq_status status;
  const char *id;
  const char *conversation;
  const char *sender; /* of a received message; NULL: a message to send, or one's own that was
                         recorded (msgq_record_batch) */
  const void *body;   /* NULL when not asked for (msgq_filter.without_bodies), and of a message that
                         is gone (msgq_wait) */
  size_t body_size;
  const char *preview; /* the first 100 characters of the body as text, never cut inside one */
  const msgq_pair *metadata;
  size_t metadata_count;
  uint64_t sequence; /* the place in the order; grows with every enqueue, never reused */
  int64_t created_ms;
  int64_t edited_ms; /* by msgq_edit, _edit_message or _update, each time a later one; 0: never */
  int64_t sent_ms;   /* 0: not sent. Of one's own that was recorded: when it was recorded */
  /* When msgq_mark reported it; 0: not reported. Neither is before sent_ms, and read_ms is not
     before delivered_ms. A message marked as read at once has no delivered_ms. A receipt that comes
     twice or late changes neither. Of a received message: when it was recorded, and when it was
     marked as read. */
  int64_t delivered_ms;
  int64_t read_ms;
  int64_t not_before_ms;   /* 0: none */
  int64_t expires_at_ms;   /* 0: none */
  int64_t next_attempt_ms; /* after a retryable failure: not before this; 0: none */
  int64_t last_attempt_ms; /* start of the last attempt; 0: none */
  uint32_t attempts;       /* that were sent, the one in progress included */
  uint32_t retries_used;   /* of max_retries; msgq_retry starts at 0 again */
  bool unmetered_only;
  /* Of the last attempt in msgq_attempts, when that failed; NULL otherwise */
  const msgq_failure *failure;
  int32_t priority;
  int64_t time_ms; /* msgq_draft.time_ms; created_ms when that was 0. The time to show */
  /* What failed before, when `failure` does not show it: while an attempt is in flight, and while
     `failure` is MSGQ_FAILURE_OFFLINE; NULL otherwise, and when nothing failed */
  const msgq_failure *failure_before;
  /* Why it is not sent yet: from msgq_wait, and from msgq_list with with_reasons; otherwise NULL */
  const msgq_explanation *explanation;
} msgq_message;

/* One message by id. Free it with msgq_message_free. Reads the store. Errors: NOT_FOUND. */
msgq_result msgq_get(msgq_queue *queue, const char *id, msgq_message **out);

void msgq_message_free(msgq_message *message);

/* Replaces the body of a queued or failed message; id, place and metadata stay. MSGQ_EVENT_EDITED
   reports it. The old body is overwritten in the files. Changes the store.
   Errors: NOT_FOUND, BUSY (being sent), CONFLICT (sent already), TOO_LARGE, FULL, CORRUPT (it is
   damaged). */
msgq_result msgq_edit(msgq_queue *queue, const char *id, const void *body, size_t body_size);

/*
 * As msgq_edit, also the metadata, and only if nobody has edited the message meanwhile.
 *
 * Of `draft`, the body replaces that of the message, also when it is empty. `metadata` NULL with
 * metadata_count 0 leaves the metadata as they are; otherwise they are replaced as a whole: with
 * metadata_count 0 and a pointer that is not NULL there are none afterwards. `id` and
 * `conversation` are NULL or those of the message (otherwise INVALID). The other fields, time_ms
 * among them, are 0 (otherwise INVALID).
 *
 * `if_edited_ms` is the edited_ms of the message as the caller has read it (0: it was never
 * edited): if it has another one now, the result is CONFLICT, and nothing changes. -1: any.
 */
msgq_result msgq_edit_message(msgq_queue *queue, const char *id, const msgq_draft *draft,
                              int64_t if_edited_ms);

/*
 * Changes a message that was received from someone else (msgq_record), after its sender changed it:
 * body, metadata and time. Id, place, conversation, sender and status stay: a message that was read
 * stays read. MSGQ_EVENT_EDITED reports it. What it replaces is overwritten in the files.
 *
 * `draft` is as for msgq_edit_message, except that its time_ms is the new time of the message; 0
 * leaves it as it is. Changes the store.
 *
 * Errors: NOT_FOUND, CONFLICT (it is one's own message), TOO_LARGE, FULL (limit_file_bytes),
 * CORRUPT (it is damaged).
 */
msgq_result msgq_update(msgq_queue *queue, const char *id, const msgq_draft *draft);

/* Removes one message for good, whatever its status, from disk too. Changes the store.
   Errors: NOT_FOUND, BUSY (being sent). */
msgq_result msgq_delete(msgq_queue *queue, const char *id);

/*
 * Tries a failed message again, now, under the same id, in its old place; the attempt ends within
 * on_demand_timeout_ms as sent or failed again. Returns at once; an event reports the outcome.
 * Changes the store.
 *
 * While offline (also: when it goes offline before the attempt starts) the transport is not called.
 * Modes ask and manual: the message stays `failed`, with a failure of kind offline, an entry in
 * msgq_attempts and one MSGQ_EVENT_STATUS whose `from` and `to` are equal. Mode auto: it is
 * `queued` again, with all of its retries, on disk when this returns, and is sent in its turn when
 * online.
 *
 * While online and paused (the queue or its conversation; also: when that is paused before the
 * attempt starts) it is `queued` again in every mode, with all of its retries, on disk: after the
 * resume it is sent in its turn (mode auto) or by the next drain (modes ask and manual).
 *
 * Errors: NOT_FOUND, CONFLICT (not failed), BUSY (being sent, or asked for already), NO_TRANSPORT,
 * CORRUPT (it is damaged, so it cannot be sent; nothing is changed), TOO_LARGE (its body is over
 * limit_body; see msgq_take_over).
 */
msgq_result msgq_retry(msgq_queue *queue, const char *id);

/*
 * Sends one queued message now, whatever is before it and whatever the mode. Returns at once.
 * Changes the store.
 *
 * While offline (also: when it goes offline before the attempt starts) the transport is not called:
 * the message stays `queued`, with a failure of kind offline, an entry in msgq_attempts and one
 * MSGQ_EVENT_STATUS whose `from` and `to` are equal. It uses up no retry, and a retry's delay that
 * was running ends. In mode auto it is sent in its turn when online.
 *
 * While online and paused (the queue or its conversation) it is refused with CONFLICT; when that is
 * paused before the attempt starts, the message stays `queued` and only MSGQ_EVENT_PAUSED reports
 * it.
 *
 * Errors: NOT_FOUND, CONFLICT (not queued, or sending is paused), BUSY (being sent, or asked for
 * already), NO_TRANSPORT, CORRUPT (it is damaged, so it cannot be sent; it fails in its turn).
 */
msgq_result msgq_send_now(msgq_queue *queue, const char *id);

/* A receipt: the message was delivered or read. Statuses only move forward: a receipt that comes
   twice or late is OK and changes nothing. Changes the store.
   Errors: INVALID (another status), NOT_FOUND, CONFLICT (not sent yet). */
msgq_result msgq_mark(msgq_queue *queue, const char *id, msgq_status status);

/*
 * Waits for the first outcome of a message since it was enqueued, and gives the message as it is
 * then. It returns at once when there was an outcome before, and when nothing will send the message
 * now: it waits for the connection, for the end of a pause, for a time, for a transport, for a
 * person, or behind a message that waits for one of these. While an attempt of the message is made,
 * it waits for the outcome of that one. msgq_send_now, msgq_retry, msgq_retry_all and a drain with
 * include_failed begin a new wait for an outcome.
 *
 *   status                      what happened
 *   SENT, DELIVERED, READ       it was sent
 *   FAILED                      it failed: `failure` says why
 *   QUEUED                      it was not sent: `explanation` says what it waits for, `failure`
 *                               why an attempt failed that will be repeated
 *
 * A message that has left the store since (discarded, replaced, deleted by any call, or sent with
 * keep_sent 0) has its outcome, too, if it was waited for at that time or is one of the last 4,096
 * messages that were sent or left the store in this process. `explanation` says MSGQ_REASON_GONE
 * then, unless it was sent; the body is NULL, and only id, conversation, status, attempts, failure
 * and sent_ms are known. The status of one that was replaced or deleted is QUEUED. What other
 * messages that are gone have become is not known (NOT_FOUND).
 *
 * `timeout_ms`: negative: without end. At its end it returns TIMEOUT, and `out` has the message as
 * it is then: being sent, or about to be. A polled queue runs its callbacks meanwhile. Free the
 * message with msgq_message_free. Reads the store.
 *
 * Errors: NOT_FOUND, TIMEOUT (with the message), CONFLICT (inside a callback of the queue), CLOSED
 * (also: the queue was closed while this waited).
 */
msgq_result msgq_wait(msgq_queue *queue, const char *id, int64_t timeout_ms, msgq_message **out);

/* Receives what msgq_wait returns; `message` is valid until it returns, and NULL unless `result` is
   OK or TIMEOUT. */
typedef void (*msgq_waited_fn)(void *context, msgq_result result, const msgq_message *message);

/* As msgq_wait, but returns at once, also inside a callback. After OK `done`, which may be NULL, is
   called exactly once: after the events before the outcome were reported, on the thread that
   reports events or in msgq_poll; when the queue is closed before, in msgq_close, or where
   msgq_close_async calls `closed`. Reads the store. Errors: NOT_FOUND. */
msgq_result msgq_wait_async(msgq_queue *queue, const char *id, int64_t timeout_ms,
                            msgq_waited_fn done, void *context);

/* What is known about whether an attempt's message reached the receiver. */
typedef enum msgq_arrival {
  MSGQ_ARRIVAL_NO = 0, /* certainly not */
  MSGQ_ARRIVAL_YES,    /* certainly */
  MSGQ_ARRIVAL_PERHAPS /* interrupted by a time-out, a crash, a broken connection */
} msgq_arrival;

typedef enum msgq_attempt_outcome {
  MSGQ_ATTEMPT_UNDER_WAY = 0,
  MSGQ_ATTEMPT_SENT,
  MSGQ_ATTEMPT_RETRY,    /* a retryable failure */
  MSGQ_ATTEMPT_REJECTED, /* a final failure */
  MSGQ_ATTEMPT_UNKNOWN   /* interrupted by a crash */
} msgq_attempt_outcome;

/* One attempt of the ledger. */
typedef struct msgq_attempt {
  uint32_t struct_size;
  uint32_t number; /* from 1 */
  int64_t started_ms;
  int64_t duration_ms; /* -1: not known */
  msgq_attempt_outcome outcome;
  msgq_failure_kind kind;
  int32_t code;
  msgq_arrival arrival;
  const char *text; /* never NULL */
} msgq_attempt;

/* The attempts of one message, oldest first: the first 4, the last 60, and the last one that a
   crash interrupted; the numbers show how many are missing. One that the transport ended as offline
   or skipped is not among them. An msgq_retry or msgq_send_now that ends as offline is, until the
   next attempt, which has the same number. Less is kept of new attempts when the disk is full, or
   the files, with what unsent messages still need, are 512 KiB over limit_file_bytes: the first 63
   bytes of a text. When they are 768 KiB over it, a failed attempt replaces the earlier ones of its
   message except the last interrupted one and the last one that did not end as offline, and a
   success removes them. */
typedef struct msgq_ledger msgq_ledger;

/* Reads the attempts of one message. Free them with msgq_attempts_free. Reads the store. Errors:
   NOT_FOUND. */
msgq_result msgq_attempts(msgq_queue *queue, const char *id, msgq_ledger **out);

/* Number of attempts; 0 for NULL. */
size_t msgq_attempts_size(const msgq_ledger *attempts);

/* Attempt `index`, valid until msgq_attempts_free; NULL when out of range. */
const msgq_attempt *msgq_attempts_at(const msgq_ledger *attempts, size_t index);

void msgq_attempts_free(msgq_ledger *attempts);

/* The same three functions under their earlier names, which version 1.0 removes. */
size_t msgq_ledger_size(const msgq_ledger *ledger);
const msgq_attempt *msgq_ledger_at(const msgq_ledger *ledger, size_t index);
void msgq_ledger_free(msgq_ledger *ledger);

/* --------------------------------------------------------------------- 9. Many messages */

/* The order of the messages of a page. */
typedef enum msgq_list_order {
  MSGQ_ORDER_SEQUENCE = 0, /* by `sequence`, the order of sending */
  MSGQ_ORDER_TIME          /* by `time_ms`, then by `sequence` */
} msgq_list_order;

typedef struct msgq_filter {
  uint32_t struct_size;
  const char *conversation; /* NULL: all */
  uint32_t statuses;        /* 0: the unsent ones. MSGQ_STATUS_BIT(…) joined by | */
  uint64_t after;           /* 0: from the end. The page after this sequence (before it, when
                               newest_first) */
  uint32_t limit;           /* 50 (0). 1 to 1000 */
  bool newest_first;        /* false: oldest first */
  bool without_bodies;      /* false. Previews and sizes only */
  msgq_list_order order;    /* MSGQ_ORDER_SEQUENCE (0) */
  /* With MSGQ_ORDER_TIME: 0: from the end. The page after the message with this `time_ms` and the
     sequence `after`, which may be gone or have changed; with `after` 0 the page that begins at
     this time. Otherwise 0 (INVALID) */
  int64_t after_time_ms;
  bool with_reasons; /* false. Each message has its `explanation`, as msgq_explain gives it. They
                        are made in steps, between which other calls run */
  /* Only failed messages, by their `failure`, in the order of MSGQ_ORDER_SEQUENCE (otherwise
     INVALID, also where `statuses` leaves out the failed ones): */
  const int32_t *failure_code;    /* NULL: any code. Points to the code; to 0: those without one */
  msgq_failure_kind failure_kind; /* MSGQ_FAILURE_NONE (0): any kind */
  /* NULL: any. Points to a reason: only queued messages that wait for it, as msgq_count_waiting
     counts them. MSGQ_REASON_PAUSED, in the order of MSGQ_ORDER_SEQUENCE; MSGQ_REASON_SCHEDULED or
     MSGQ_REASON_RETRYING, of all conversations (otherwise INVALID), in the order of their next
     attempts: `after_time_ms` is then the last message's `not_before_ms` or `next_attempt_ms`.
     Another reason, `order`, `failure_code` or `failure_kind`: INVALID */
  const msgq_reason *waiting_for;
} msgq_filter;

#define MSGQ_FILTER_INIT \
  { sizeof(msgq_filter), NULL, 0, 0, 50, false, false, MSGQ_ORDER_SEQUENCE, 0, false, NULL, \
    MSGQ_FAILURE_NONE, NULL }

void msgq_filter_init(msgq_filter *filter);

/* A page of messages. */
typedef struct msgq_page msgq_page;

/* A page of messages in order. `filter` may be NULL: the first 50 unsent ones. The next page:
   `after` = the last message's sequence, and with MSGQ_ORDER_TIME `after_time_ms` = its time_ms.
   A page with large bodies is read in parts between which other calls run: one that is deleted
   meanwhile is left out. Free it with msgq_list_free. Reads the store. */
msgq_result msgq_list(msgq_queue *queue, const msgq_filter *filter, msgq_page **out);

/* Number of messages; 0 for NULL. */
size_t msgq_list_size(const msgq_page *list);

/* Message `index`, borrowed from the page; NULL when out of range. */
const msgq_message *msgq_list_at(const msgq_page *list, size_t index);

void msgq_list_free(msgq_page *list);

typedef struct msgq_counts {
  uint32_t struct_size;
  uint64_t queued;
  uint64_t sending;
  uint64_t sent;
  uint64_t delivered; /* without the received ones, as `read` */
  uint64_t read;
  uint64_t failed;
  uint64_t received;     /* recorded messages with a sender: delivered or read ... */
  uint64_t unread;       /* ... and those of them that are not marked as read */
  uint64_t unsent_bytes; /* of the bodies of queued, sending and failed messages */
} msgq_counts;

#define MSGQ_COUNTS_INIT { sizeof(msgq_counts), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Messages by status, those received from others apart, of one conversation or (NULL) of all; not
   by counting, so as fast with a million. Reads the store. */
msgq_result msgq_count(msgq_queue *queue, const char *conversation, msgq_counts *out);

/* What the queued messages wait for. Each is counted once. */
typedef struct msgq_waiting {
  uint32_t struct_size;
  uint64_t queued;           /* all of them, as in msgq_counts */
  uint64_t paused;           /* in conversations that are paused; all, while the queue is paused */
  uint64_t scheduled;        /* of the others: before their `not_before_ms` */
  uint64_t retrying;         /* of the others: in the delay after a failed attempt */
  int64_t next_scheduled_ms; /* when the first of the scheduled ones may be sent; 0: none */
  int64_t next_retry_ms;     /* when the first of the retrying ones is tried again; 0: none */
} msgq_waiting;

#define MSGQ_WAITING_INIT { sizeof(msgq_waiting), 0, 0, 0, 0, 0, 0 }

/* Counts the queued messages by what they wait for, whether online or not. It takes longer with
   more messages that are scheduled or wait for a retry, and while conversations are paused reads
   these in steps, between which other calls run. `retrying` and `next_retry_ms` follow the delays
   as they began: neither a clock that was set since then nor a connection that returned, which
   ends some delays early, changes them; msgq_explain is exact. Reads the store. */
msgq_result msgq_count_waiting(msgq_queue *queue, msgq_waiting *out);

/* The failed messages with the same kind and code of failure. */
typedef struct msgq_failure_group {
  uint32_t struct_size;
  msgq_failure_kind kind; /* MSGQ_FAILURE_UNKNOWN also where the failure is not known */
  int32_t code;           /* 0: none */
  uint64_t count;         /* messages */
  int64_t first_ms;       /* when the first message failed so, since there was none; it may have */
  int64_t last_ms;        /* been retried or deleted. When the last one did */
  const char *text;       /* of the failure of the newest message; never NULL */
} msgq_failure_group;

/* A list of groups. */
typedef struct msgq_failure_group_page msgq_failure_group_page;

/* The failed messages of all conversations by kind and code, the largest groups first, at most
   `limit` (1 to 1000; 0: 50). Not by counting, so as fast with a million. A group's messages:
   msgq_list with `failure_kind` and `failure_code`. Free it with msgq_failure_groups_free. Reads
   the store. */
msgq_result msgq_failure_groups(msgq_queue *queue, uint32_t limit, msgq_failure_group_page **out);

/* Number of groups; 0 for NULL. */
size_t msgq_failure_groups_size(const msgq_failure_group_page *page);

/* Group `index`, borrowed from the list; NULL when out of range. */
const msgq_failure_group *msgq_failure_groups_at(const msgq_failure_group_page *page, size_t index);

void msgq_failure_groups_free(msgq_failure_group_page *page);

/*
 * Changes. With the option keep_changes each change of a message's status is a row, which is
 * written by the commit of the change itself. A program follows them: it stores the token of the
 * last change that it has processed, best by the same transaction of its own database as the effect
 * of the change, and goes on from it after a restart. So it processes each change once, also those
 * that were committed while it did not run.
 *
 * A message that is replaced, discarded, deleted or pruned is a change, too. msgq_clear and
 * msgq_delete_conversation make one for each message, and each recorded message is one. An attempt
 * that a crash interrupted ends with a change when the store is opened next. The changes contain no
 * body and no text of the receiver. The id and the conversation of a message that is gone are in
 * them until they are removed.
 *
 * After new changes there is always an event, of the message or MSGQ_EVENT_SUMMARY, except after
 * those that the opening makes: read until a page is empty, then wait for the next event.
 */

/* What happened. New ones may be added. */
typedef enum msgq_change_kind {
  MSGQ_CHANGE_STATUS,    /* it has another status, or failed again */
  MSGQ_CHANGE_REPLACED,  /* a newer message of its replace_key took its place */
  MSGQ_CHANGE_DISCARDED, /* deleted for its failure_kind: its retries were used up, the receiver
                            refused it, or the queue was full (MSGQ_FAILURE_DROPPED) */
  MSGQ_CHANGE_DELETED,   /* a call deleted it */
  MSGQ_CHANGE_PRUNED     /* the limits of the history removed it */
} msgq_change_kind;

/* The size of a token, a text of 49 characters, with its NUL. */
#define MSGQ_CHANGE_TOKEN_SIZE 50

typedef struct msgq_change {
  uint32_t struct_size;
  msgq_change_kind kind;
  msgq_status status;             /* since then; the last one if the message is gone */
  msgq_failure_kind failure_kind; /* why it failed or waits for a retry; else NONE */
  int32_t code;                   /* 0: none */
  int64_t at_ms;                  /* when it was written */
  const char *id;
  const char *conversation;
  const char *token;              /* the place after this change */
} msgq_change;

/* A page of changes. */
typedef struct msgq_change_page msgq_change_page;

/*
 * Returns at most `limit` changes (1 to 1000; 0: 50) in the order in which they were committed.
 * `after`: a token; NULL: before the oldest change that is kept. Only changes that survive a power
 * cut are returned: those that are not flushed yet are flushed before, so no token is ever ahead of
 * the store. Works also with read_only, on a closed store. Free the page with msgq_changes_free.
 * Reads the store.
 *
 * Errors: CONFLICT: not all changes after the token are there. It is older than what is kept, or of
 * another history of the store: an older copy of its files was restored, it was salvaged, or it was
 * changed without keep_changes. Call with NULL, keep the page's `oldest` token, list the messages,
 * then go on from that token. INVALID (keep_changes is 0, or the text is no token).
 */
msgq_result msgq_changes(msgq_queue *queue, const char *after, uint32_t limit,
                         msgq_change_page **out);

/* Number of changes; 0 for NULL. An empty page: there are no more now. */
size_t msgq_changes_size(const msgq_change_page *page);

/* Change `index`, borrowed from the page; NULL when out of range. */
const msgq_change *msgq_changes_at(const msgq_change_page *page, size_t index);

/* The token of the place after the page, borrowed from it; NULL for NULL. */
const char *msgq_changes_next(const msgq_change_page *page);

/* The token of the place before the oldest change that is kept, likewise. */
const char *msgq_changes_oldest(const msgq_change_page *page);

void msgq_changes_free(msgq_change_page *page);

/* A conversation as a list of conversations shows it. */
typedef struct msgq_conversation {
  uint32_t struct_size;
  const char *name;
  const msgq_counts *counts;
  const msgq_message *last; /* its newest message by time, without the body */
  const char *title;        /* msgq_set_title; NULL: none */
  bool paused;              /* by msgq_pause with its name, whether the queue is paused or not */
} msgq_conversation;

/* A page of conversations. */
typedef struct msgq_conversation_page msgq_conversation_page;

/* Conversations, the one with the newest message first, by its sequence: the page behind the one
   whose `last` has the sequence `before` (0: the first page), at most `limit` (1 to 1000; 0: 50).
   Only the last page has fewer. The last of a page continues the list also when that message is
   deleted or another becomes the newest, while the queue is open. A page of more than 128 is read
   in steps, between which other calls run: a conversation that becomes the first meanwhile may be
   left out. Free it with msgq_conversations_free. Reads the store. */
msgq_result msgq_conversations(msgq_queue *queue, uint64_t before, uint32_t limit,
                               msgq_conversation_page **out);

/* The same in the order of the newest messages by time: the page behind the one whose `last` has
   the time `before_time_ms` and the sequence `before` (both 0: the first page). */
msgq_result msgq_conversations_by_time(msgq_queue *queue, int64_t before_time_ms, uint64_t before,
                                       uint32_t limit, msgq_conversation_page **out);

/* The page of one conversation. Errors: NOT_FOUND (no messages). */
msgq_result msgq_get_conversation(msgq_queue *queue, const char *conversation,
                                  msgq_conversation_page **out);

/*
 * Gives a conversation a title for people: at most 255 bytes without control characters; NULL or ""
 * removes it. It is kept while messages come and go, also when pruning removes the last one, until
 * msgq_delete_conversation. Changes the store. Errors: NOT_FOUND (no messages; not when it is
 * removed).
 */
msgq_result msgq_set_title(msgq_queue *queue, const char *conversation, const char *title);

/* Number of conversations; 0 for NULL. */
size_t msgq_conversations_size(const msgq_conversation_page *page);

/* Conversation `index`, borrowed from the page; NULL when out of range. */
const msgq_conversation *msgq_conversations_at(const msgq_conversation_page *page, size_t index);

void msgq_conversations_free(msgq_conversation_page *page);

/*
 * One receipt for `count` messages (0 to 1,000,000), as msgq_mark does each, in one transaction.
 * results[i], unless `results` is NULL, is the result for ids[i]: OK, NOT_FOUND, CONFLICT (not sent
 * yet) or CORRUPT (it is damaged, and left as it is). Those are no errors of the call. After an
 * error no message was marked; the detail about an id has its index, from 0. Changes the store.
 */
msgq_result msgq_mark_batch(msgq_queue *queue, const char *const *ids, size_t count,
                            msgq_status status, msgq_result *results);

/*
 * "Read up to here": a receipt for one message and for those before it of its conversation, in the
 * order of MSGQ_ORDER_TIME. For a received message these are the received ones, for one's own those
 * that were sent or recorded; the others, and damaged ones, are left. `count`, which may be NULL,
 * receives how many changed their status. It marks from the oldest on, in steps between which other
 * calls run; after an error or a crash the oldest ones are marked: call it again. A message that
 * another call moves to an earlier time meanwhile (msgq_update) may be left. Changes the store.
 *
 * Errors: as msgq_mark.
 */
msgq_result msgq_mark_up_to(msgq_queue *queue, const char *id, msgq_status status, uint64_t *count);

/*
 * Removes the unsent messages (queued and failed) of one conversation or (NULL) of all that are
 * stored when it is called. One that is being sent is removed when its attempt ends, unless that
 * succeeds. Messages that are added meanwhile stay, and are sent.
 *
 * It removes from the oldest on, in steps between which other calls run: from its beginning on none
 * of them is sent or put back by msgq_retry_all, and msgq_edit, _delete, _retry and _send_now of
 * one answer NOT_FOUND. As with msgq_delete their text is overwritten in the files, after the last
 * step. After an error or a crash those not removed yet are as they were; call it again. After a
 * crash the text of those removed is overwritten a second after the next opening, or by its close.
 * One MSGQ_EVENT_DELETED reports all (NULL id). Changes the store.
 */
msgq_result msgq_clear(msgq_queue *queue, const char *conversation);

/*
 * Deletes every message of a conversation that is stored when it is called, whatever its status,
 * also the received ones ("": the conversation of that name; NULL is INVALID). `count`, which may
 * be NULL, receives how many. As with msgq_delete their text is overwritten in the files, and the
 * ids of those that were sent or recorded are remembered. Messages that are added meanwhile stay.
 *
 * It deletes from the oldest on, in steps between which other calls run: until it returns nothing
 * of the conversation is sent, and msgq_edit, _update, _delete, _retry, _send_now and _mark of a
 * message that it will delete answer NOT_FOUND. After an error or a crash the oldest ones are gone
 * and the rest is as it was; call it again. One MSGQ_EVENT_DELETED reports all (NULL id). Changes
 * the store.
 *
 * Errors: BUSY: one of its messages is being sent; nothing was changed.
 */
msgq_result msgq_delete_conversation(msgq_queue *queue, const char *conversation, uint64_t *count);

/* Deletes the failed messages of one conversation or (NULL) of all, in the same way. `count`, which
   may be NULL, receives how many. Those that fail meanwhile may be deleted, too. Changes the
   store. */
msgq_result msgq_clear_failed(msgq_queue *queue, const char *conversation, uint64_t *count);

/* The same for the failed messages that `filter` selects by its conversation, `failure_kind` and
   `failure_code`; the page it describes has no effect. NULL: all. Changes the store. Errors:
   INVALID (also: `statuses` leaves out the failed ones). */
msgq_result msgq_clear_failed_by(msgq_queue *queue, const msgq_filter *filter, uint64_t *count);

/*
 * Puts all `failed` messages of one conversation or (NULL) of all back to `queued`, in their places
 * and with all of their retries, and sends them, in any mode, without what was queued before.
 * `count`, which may be NULL, receives how many. Returns when all of them are on disk as `queued`,
 * without waiting for an attempt; each has its MSGQ_EVENT_STATUS, but no drain is reported. Those
 * that had expired are sent all the same. Changes the store.
 *
 * They are sent in order, as ordinary attempts: the ladder and attempt_timeout_ms count. In the
 * modes ask and manual they overtake messages of their conversation that were queued already,
 * except one that is queued for a retry; in mode auto they go after these. In strict order those
 * behind one that is queued for a retry go after it: in mode ask by themselves, in mode manual by
 * the next drain. What is paused is queued and goes after the resume. When it goes offline, or the
 * process ends, before all of them were sent, those left stay `queued` like any other message.
 *
 * While offline: in the modes ask and manual nothing changes, and `count` is 0; in mode auto they
 * are queued and sent when online.
 *
 * Each message is put back as a whole, but not all of them together: other calls run meanwhile, and
 * after an error or a crash those put back until then are queued, the others `failed`; call it
 * again. A message whose state is damaged stays `failed` and is not counted, and so does one that
 * failed because its body or metadata are damaged. Other bodies are not read before they are sent:
 * a message whose damage is not known yet is counted, and is `failed` again in its turn. One whose
 * body is over limit_body stays `failed`, too, and is not counted (see msgq_take_over).
 *
 * Errors: NO_TRANSPORT.
 */
msgq_result msgq_retry_all(msgq_queue *queue, const char *conversation, uint64_t *count);

/* The same for the failed messages that `filter` selects, as msgq_clear_failed_by does. Messages
   that fail again are not put back again. Changes the store. Errors: INVALID, NO_TRANSPORT. */
msgq_result msgq_retry_all_by(msgq_queue *queue, const msgq_filter *filter, uint64_t *count);

/* --------------------------------------------------------------------- 10. Connectivity */

typedef enum msgq_connectivity {
  MSGQ_CONNECTIVITY_UNKNOWN = 0, /* counts as online: a host that reports nothing is online, unless
                                    initial_connectivity says otherwise */
  MSGQ_CONNECTIVITY_OFFLINE,
  MSGQ_CONNECTIVITY_ONLINE
} msgq_connectivity;

typedef enum msgq_link {
  MSGQ_LINK_NONE = 0,
  MSGQ_LINK_WIFI,
  MSGQ_LINK_ETHERNET,
  MSGQ_LINK_CELLULAR,
  MSGQ_LINK_OTHER
} msgq_link;

/* Reports connectivity. Offline stops sending; online starts what is due (see online_debounce_ms).
   While offline the link is NONE, whatever `link` says.
   Errors: CONFLICT (a monitor reports it). */
msgq_result msgq_set_connectivity(msgq_queue *queue, msgq_connectivity connectivity, msgq_link link,
                                  bool metered);

/* Bytes that hold any reason for being offline and its NUL. A longer one is cut, never inside a
   character, and ends with "…". */
#define MSGQ_OFFLINE_REASON_SIZE 256

/*
 * As msgq_set_connectivity, and says why there is no connection: "connection refused by
 * 127.0.0.1:4222". msgq_get_state, msgq_explain and MSGQ_EVENT_CONNECTIVITY repeat it, and each
 * change of it, except of its digits, is one line of the log (MSGQ_LOG_WARNING). `reason` may be
 * NULL, and is ignored unless `connectivity` is offline.
 *
 * The text of a MSGQ_VERDICT_OFFLINE is used in the same way, unless the host has reported offline
 * with a reason: until an attempt ends otherwise, or connectivity is reported.
 *
 * It becomes one line: white space becomes one space, other control characters are escaped as in
 * the log. User names and passwords of URLs and values of parameters such as `token=` are left out.
 * Errors: CONFLICT (a monitor reports connectivity).
 */
msgq_result msgq_set_connectivity_reason(msgq_queue *queue, msgq_connectivity connectivity,
                                         msgq_link link, bool metered, const char *reason);

/*
 * Lets the kernel report connectivity instead (Linux: rtnetlink), beginning with the present state:
 * when this returns, the engine knows it. Online is a default route, of IPv4 or IPv6, in any table,
 * that goes out by a link that is up, and a source address of its family; the link is that of the
 * route with the lowest metric, and counts as metered when it is cellular. Whether a receiver can
 * be reached is not checked: a host on a network without a way to the Internet is online to its
 * kernel. It watches the network namespace of the thread that starts it. A second time changes
 * nothing.
 * Errors: PERMISSION (a sandbox forbids it), STORAGE (no descriptor left).
 */
msgq_result msgq_monitor_start(msgq_queue *queue);

/* Stops the monitor; what was known last stays true until msgq_set_connectivity. Without a monitor
   it does nothing. */
msgq_result msgq_monitor_stop(msgq_queue *queue);

typedef enum msgq_lifecycle {
  MSGQ_LIFECYCLE_FOREGROUND = 0,
  MSGQ_LIFECYCLE_BACKGROUND
} msgq_lifecycle;

/* Reports whether the program is in the foreground; a queue begins there. In the background the
   engine sends nothing by itself (send_in_background); a message that was enqueued online and is
   sent directly, a drain, and what a person asks for are still sent. A direct message waits as in
   the foreground for its not_before_ms, for the rate, and after it was skipped; after a failure it
   waits for the next trigger, or in the modes ask and manual for a person. Coming to the foreground
   is a trigger. */
msgq_result msgq_set_lifecycle(msgq_queue *queue, msgq_lifecycle lifecycle);

/* --------------------------------------------------------------------------- 11. Events */

typedef enum msgq_event_kind {
  MSGQ_EVENT_STATUS = 0,       /* id, conversation, from, to; failure when there is one */
  MSGQ_EVENT_SUMMARY,          /* counts, connectivity: after every change of them; several changes
                                  may share one */
  MSGQ_EVENT_CONNECTIVITY,     /* connectivity, link, metered; text: the reason for being offline */
  MSGQ_EVENT_PROMPT,           /* prompt: send these now? msgq_drain is the yes (with include_failed
                                  for prompt_for_failed), msgq_withdraw_prompt the no */
  MSGQ_EVENT_PROMPT_WITHDRAWN, /* it was answered, expired, or there is nothing to ask any more */
  MSGQ_EVENT_DRAIN_STARTED,    /* counts */
  MSGQ_EVENT_DRAIN_PROGRESS,   /* report: so far */
  MSGQ_EVENT_DRAIN_FINISHED,   /* report */
  MSGQ_EVENT_DISCARDED,        /* id, conversation, failure: it is gone (exhausted, refused,
                                  on_full) */
  MSGQ_EVENT_DELETED,          /* id, conversation; NULL id: msgq_clear, _clear_failed or
                                  _delete_conversation of the conversation, or (NULL) of all */
  MSGQ_EVENT_STORAGE,          /* result, text: the store has trouble, or (OK) has recovered */
  MSGQ_EVENT_PAUSED,           /* paused, conversation (NULL: the queue); failure_kind unauthorized
                                  when an answer did it */
  MSGQ_EVENT_RESYNC,           /* lost_events: so many were dropped, because more than 10,000
                                  waited: list again, and msgq_get_state. Messages that one call
                                  enqueues or records in a row in one conversation, without ids of
                                  their own, wait as one event */
  MSGQ_EVENT_REPLACED,         /* id, conversation, text: the id of the message that replaced it, of
                                  the same replace_key */
  MSGQ_EVENT_EDITED,           /* id, conversation: msgq_edit, msgq_edit_message or msgq_update
                                  changed the message */
  MSGQ_EVENT_PROMPT_CHANGED,   /* prompt: the numbers of the prompt that
                                  stands, when they changed: at most 4 of them in a second. It
                                  expires when it would have */
  MSGQ_EVENT_COLLECT           /* messages may wait in a place of the host that hands them over:
                                  take them over (msgq_take_over, msgq_outbox_collect), also after
                                  MSGQ_EVENT_RESYNC. From msgq_request_collect, also of another
                                  process, and every collect_interval_ms */
} msgq_event_kind;

/*
 * What a prompt asks about: what a yes would send now, besides what starts without it (direct
 * messages, and retries of what was drained). That is what msgq_drain would attempt at this moment
 * if everything succeeded. Not counted is what is paused, being sent, queued until its
 * not_before_ms, for an unmetered link or for a retry, or blocked: behind such a retry
 * (strict_order), a failed message (final_failure) or more than 1024 messages of its conversation
 * that wait for their not_before_ms or an unmetered link; and what has expired.
 *
 * The numbers follow the queue while the prompt stands (MSGQ_EVENT_PROMPT_CHANGED). When nothing is
 * left, it is withdrawn.
 */
typedef struct msgq_prompt {
  uint32_t struct_size;
  uint32_t timeout_ms; /* the prompt expires after this, counted from its MSGQ_EVENT_PROMPT */
  uint64_t messages;   /* queued ones; at most drain_batch */
  uint64_t bytes;      /* of these and of the failed ones, also beyond drain_batch */
  int64_t oldest_ms;   /* when the first of them was enqueued (or replaced an earlier one); an
                          earlier time when there are more than 1,000 queued messages before it that
                          are not counted */
  uint64_t conversations;
  const char *text; /* "Connected. Auto-send 5 queued messages?" */
  uint64_t failed;  /* with prompt_for_failed: failed ones that a drain with include_failed would
                       send, and those over limit_body, which it leaves; with `messages` together at
                       most drain_batch. The drain may send failed ones in place of queued ones */
} msgq_prompt;

/* Valid until the handler returns. What a kind does not have is NULL or 0. */
typedef struct msgq_event {
  uint32_t struct_size;
  msgq_event_kind kind;
  const char *id;
  const char *conversation;
  int32_t from;     /* msgq_status or MSGQ_STATUS_NONE */
  int32_t to;       /* msgq_status */
  uint32_t attempt; /* MSGQ_EVENT_STATUS: the attempt that it belongs to; 0: none */
  msgq_result result;
  msgq_connectivity connectivity;
  msgq_link link;
  bool metered;
  bool paused;
  msgq_failure_kind failure_kind;
  int64_t at_ms;
  const msgq_failure *failure;
  const msgq_counts *counts;
  const msgq_prompt *prompt;
  const msgq_report *report;
  const char *text;
  uint64_t lost_events;
} msgq_event;

typedef void (*msgq_event_fn)(void *context, const msgq_event *event);

/* Sets the event handler; NULL removes it. One event at a time, in the order in which things
   happened, each after it is on disk. */
msgq_result msgq_set_event_handler(msgq_queue *queue, msgq_event_fn handler, void *context,
                                   void (*release)(void *));

/*
 * MSGQ_CALLBACKS_POLL and POLL_TIMER: runs the callbacks that are due, on this thread. With none,
 * waits for one at most `timeout_ms` (0: not at all, negative: without end). `ran`, which may be
 * NULL, receives how many ran. OK also when none did. Several threads may poll at a time: that is
 * how several conversations are sent side by side. Inside a callback it runs none.
 *
 * With MSGQ_CALLBACKS_POLL it also performs what is due at a time, in parts of a few milliseconds,
 * and as long as a flush of the disk takes; inside a callback, too. That is not counted in `ran`.
 * Errors: CONFLICT (callbacks run on threads), CLOSED (also: the queue was closed while this
 * waited).
 */
msgq_result msgq_poll(msgq_queue *queue, int64_t timeout_ms, size_t *ran);

/* A file descriptor that is readable while msgq_poll has work, for epoll, poll, select and event
   loops built on them: callbacks, and with MSGQ_CALLBACKS_POLL what is due at a time. A queue
   without work and without changes wakes a loop at most once a minute. To a loop inside a callback,
   where msgq_poll runs none, it reports callbacks every 50 ms only. Never read, write or close it;
   it is closed by msgq_close (msgq_close_async: when `closed` has returned). -1:
   MSGQ_CALLBACKS_THREAD, closed, or an error. */
int msgq_fd(const msgq_queue *queue);

/* ----------------------------------------------------------- 12. State and explanations */

/* One reason why a message is not sent yet: what the engine will do next, never a guess. Reads the
   store. Errors: NOT_FOUND. */
msgq_result msgq_explain(msgq_queue *queue, const char *id, msgq_explanation *out);

/* A prompt that is valid, with the numbers of its last event (msgq_prompt). Its `failed` is
   msgq_state.prompt_failed. */
typedef struct msgq_standing_prompt {
  uint32_t struct_size;
  uint32_t timeout_ms; /* how long it is valid in all */
  uint64_t messages;
  uint64_t bytes;
  int64_t oldest_ms; /* as in msgq_prompt */
  uint64_t conversations;
  int64_t expires_ms; /* when it expires */
  char text[128];     /* "Connected. Auto-send 5 queued messages?" */
} msgq_standing_prompt;

/* The queue as a whole at one moment. It holds no pointer. */
typedef struct msgq_state {
  uint32_t struct_size;
  msgq_connectivity connectivity;
  msgq_link link;
  msgq_lifecycle lifecycle;
  msgq_mode mode;
  bool metered;
  bool paused;   /* the queue as a whole: by msgq_pause, or the receiver refused the credentials */
  bool draining; /* a drain is in progress */
  bool has_transport;
  bool has_prompt;      /* a prompt is valid; it is in `prompt` */
  bool storage_trouble; /* the store refuses writes now */
  msgq_result storage;  /* of the last MSGQ_EVENT_STORAGE; OK: nothing was wrong, or the store has
                           recovered */
  uint32_t in_flight;   /* attempts in progress */
  uint64_t paused_conversations; /* paused by msgq_pause with their names */
  msgq_standing_prompt prompt;   /* zero without one */
  /* Why nothing is being sent now. SENDING: something is. What stops the whole queue (STORAGE,
     NO_TRANSPORT, OFFLINE, PAUSED, HOLDING) is reported also when nothing is queued. NONE: nothing
     is queued, and nothing stops the queue. NEXT: an attempt is about to start. Otherwise the first
     of these that is so:
     - a message is ready, and is delayed by the engine (HOLDING, TRIGGER; METERED where that is for
       all) or needs a drain (PERSON, in modes ask and manual);
     - RETRYING, SCHEDULED: until the first message is due;
     - PAUSED (their conversations), BLOCKED, METERED: what stops the messages.
     The first 64 queued messages are looked at, so that the call is O(1). When none of 64 is ready
     and more are queued, the first of the rules counts as met, and the text promises nothing. */
  msgq_reason reason;
  int64_t until_ms; /* 0: not known */
  char text[256];   /* the reason in a sentence, for a person */
  /* Why there is no connection (msgq_set_connectivity_reason): "connection refused by
     127.0.0.1:4222". "": not known, or the last attempt was not offline. `text`, and that of
     msgq_explain, quote its first 128 bytes. */
  char offline_reason[MSGQ_OFFLINE_REASON_SIZE];
  char sqlite_version[16]; /* as msgq_sqlite_version */
  uint64_t prompt_failed;  /* of the prompt: msgq_prompt.failed */
} msgq_state;

/* clang-format off */
#define MSGQ_STATE_INIT                                                                        \
  { sizeof(msgq_state), MSGQ_CONNECTIVITY_UNKNOWN, MSGQ_LINK_NONE, MSGQ_LIFECYCLE_FOREGROUND,  \
    MSGQ_MODE_AUTO, false, false, false, false, false, false, MSGQ_OK, 0, 0,                   \
    { sizeof(msgq_standing_prompt), 0, 0, 0, 0, 0, 0, "" }, MSGQ_REASON_NONE, 0, "", "", "", 0 }
/* clang-format on */

/* The state of the queue, as the events before reported it: after MSGQ_EVENT_RESYNC, or for a
   caller that came later. It reads at most the first 64 queued messages, while offline in mode auto
   1,001, so that it takes no longer with a million. Also for a queue opened with read_only. */
msgq_result msgq_get_state(msgq_queue *queue, msgq_state *out);

/* ----------------------------------------------------------------- 13. Texts for people */

/* "Queued", "Sending…", "Sent", "Delivered", "Read", "Failed"; "" for an unknown number. */
const char *msgq_status_label(msgq_status status);

/* The name of an icon: "clock", "arrow-up", "check", "check-double", "eye", "alert". */
const char *msgq_status_icon(msgq_status status);

/* What happened and what can be done, for example "No internet connection. Your message is saved
   and you can retry later."; "" for MSGQ_FAILURE_NONE. */
const char *msgq_failure_text(msgq_failure_kind kind);

/* "Unknown", "Offline", "Online"; "" for an unknown number. */
const char *msgq_connectivity_label(msgq_connectivity connectivity);

/* One line about the queue or (`conversation` not NULL) about the messages of one conversation:
   "You're offline. 5 messages queued.", "Sending 3 messages…", "Sending is paused. 2 messages
   queued.", "1 message queued. 2 messages failed.", or "" when there is nothing to say. "Messages
   will send when connected." with nothing queued, and after the number of queued messages "They
   will be sent when connected." (of one: "It ..."), only in mode auto, when that is so: of queued
   ones when there are at most 1,000, and none waits for anything else or expires. Free it with
   msgq_text_free. Reads the store. */
msgq_result msgq_banner(msgq_queue *queue, const char *conversation, char **out);

/* "Just now", "5m ago", "2h ago", "3d ago", then a date (UTC) as "2024-03-09"; a time in the
   future, as after a clock was set back, is "Just now". Writes at most `size` bytes with the NUL
   and never cuts: 16 bytes are enough. Errors: TOO_LARGE (nothing written). */
msgq_result msgq_relative_time(int64_t then_ms, int64_t now_ms, char *out, size_t size);

/* Frees a text that a function gave through `char **out`. */
void msgq_text_free(char *text);

/* ----------------------------------------------------------------------- 14. Statistics */

/* How many classes of latency and kinds of failure this version counts. The arrays have room for
   more. */
#define MSGQ_LATENCY_CLASSES 11
#define MSGQ_FAILURE_KINDS 13

/* What a queue has done since it was opened, and the size of its file. */
typedef struct msgq_statistics {
  uint32_t struct_size;
  uint32_t sent_per_minute; /* in the last minute */
  uint32_t enqueued_per_minute;
  int64_t opened_ms;
  uint64_t enqueued;
  uint64_t attempts;
  uint64_t sent;
  uint64_t sent_bytes;
  uint64_t retried; /* attempts that failed and will be made again */
  uint64_t failed;  /* messages that became failed */
  uint64_t discarded;
  /* Failed attempts, and messages that expired or were dropped, by msgq_failure_kind; the rest is
     0. */
  uint64_t failures[32];
  /* From enqueue to sent: messages in each class, up to 10, 50, 100, 500 ms, 1, 5, 30 s, 2, 10 min,
     1 h, and longer; the rest is 0. */
  uint64_t latencies[16];
  uint64_t latency_sum_ms;
  uint64_t latency_max_ms;
  uint64_t replaced; /* queued messages that newer ones of the same replace_key replaced */
  uint64_t file_bytes; /* size of the database file, without the log, which gets changes first, and
                          without reserved space */
  uint64_t free_bytes; /* unused part of it: new messages use it, and a queue that is idle for some
                          seconds gives most of it back to the file system */
  /* Attempts that ended with a retryable failure (also when no retry was left, or when a late
     success followed), with a final one, and as offline. */
  uint64_t retryable;
  uint64_t rejected;
  uint64_t offline;
  int64_t oldest_queued_ms; /* when the first message that is queued or being sent was enqueued (or
                               replaced an earlier one); 0: there is none */
} msgq_statistics;

/* Reads the store. */
msgq_result msgq_stats(msgq_queue *queue, msgq_statistics *out);

/* What happened in one minute. */
typedef struct msgq_minute {
  uint32_t struct_size;
  int64_t start_ms; /* by the present wall clock */
  uint64_t enqueued;
  uint64_t sent;
  uint64_t failed_attempts; /* without those that ended as offline */
  uint64_t failed;          /* messages that became failed */
} msgq_minute;

typedef struct msgq_minute_page msgq_minute_page;

/* The last hour: consecutive minutes, the oldest first, at most 60, from the first one in which
   something happened in this process. The last one has not ended. Free it with
   msgq_minutes_free. */
msgq_result msgq_minutes(msgq_queue *queue, msgq_minute_page **out);

/* Number of minutes; 0 for NULL. */
size_t msgq_minutes_size(const msgq_minute_page *page);

/* Minute `index`, borrowed from the page; NULL when out of range. */
const msgq_minute *msgq_minutes_at(const msgq_minute_page *page, size_t index);

void msgq_minutes_free(msgq_minute_page *page);

/* The same, with the counts, as Prometheus reads it (text format 0.0.4). Each sample has the label
   `queue` with the path of the store. Free it with msgq_text_free. Reads the store. */
msgq_result msgq_stats_text(msgq_queue *queue, char **out);

/* The same for `count` queues (0 to 1000): one text that has each metric once, as the format
   requires. Errors: INVALID (a queue occurs twice). */
msgq_result msgq_stats_text_all(msgq_queue *const *queues, size_t count, char **out);

/* ---------------------------------------------------------- 15. Backups, damaged stores */

/* Writes a consistent copy of the store to the new file `path` (mode 0600), while the queue is in
   use; what is enqueued meanwhile may be in it. Reads the store. After an error there is no new
   file, unless it could not be removed, which msgq_error_detail says.
   Errors: CONFLICT (the file exists), PERMISSION, CLOSED (also: the queue was closed before
   the copy was complete), STORAGE. */
msgq_result msgq_backup(msgq_queue *queue, const char *path);

/* What msgq_check and msgq_salvage found. */
typedef struct msgq_check_report {
  uint32_t struct_size;
  bool sound;             /* nothing is wrong with the store */
  uint64_t whole;         /* messages, of every status, that are exactly what was written */
  uint64_t damaged;       /* messages that are not, or that cannot be read; where no index and no
                             count tells how many lie on a page that cannot be read, each sequence
                             there counts as one */
  uint64_t missing;       /* messages that were in a part of the log that is lost, as far as their
                             number is known */
  uint64_t first_missing; /* their first sequence; 0: none are missing */
  uint64_t last_missing;  /* their last sequence; 0: it is not known how many are missing */
  char text[512];         /* the findings in sentences, for a person */
} msgq_check_report;

#define MSGQ_CHECK_REPORT_INIT { sizeof(msgq_check_report), false, 0, 0, 0, 0, 0, "" }

/*
 * Reads the whole store in the file `path`, with the log that a crash left beside it, and reports
 * what is wrong. Needs no open queue. Nothing is written and no file is made; while it runs, the
 * store cannot be opened for writing (LOCKED). It takes as long as reading the file.
 *
 * OK means that there is a report, also of a damaged store: look at `sound`. It is given whenever
 * the tables can be found: also for a store with pages that cannot be read, with a damaged header,
 * or whose log belongs to another database (the database is then read without it, and the text says
 * so), all of which msgq_open refuses. Every message is compared with its checksums, and all that
 * the store derives from its messages (indexes, counts, lists of conversations) with the messages.
 *
 * Errors: INVALID (also: there is no such file), PERMISSION, LOCKED (a queue has it open), CORRUPT
 * (not a store: empty, text, another program's database; or none of its tables can be found),
 * TOO_NEW, STORAGE.
 */
msgq_result msgq_check(const char *path, msgq_check_report *out);

/*
 * Makes a new store, `to` (mode 0600), of every message of the store `from` that is whole, and
 * reports as msgq_check does. Nothing is written to `from` and no file is made beside it. Messages
 * keep their id, sequence, times, body, metadata, attempts and status, the history too; ids of
 * messages that were sent and are gone are still refused as duplicates. A message that was being
 * sent is treated as interrupted by a crash when the new store is opened. The sequences of lost
 * messages are not used again. `to` appears when it is complete and durable; after an error there
 * is no new file, unless it could not be removed, which msgq_error_detail says. `out` may be NULL.
 * Errors: as msgq_check, CONFLICT (`to` exists), PERMISSION (the place is unsafe), STORAGE (no
 * room).
 */
msgq_result msgq_salvage(const char *from, const char *to, msgq_check_report *out);

/* ------------------------------------------------------------------------------ 16. Log */

typedef enum msgq_log_level {
  MSGQ_LOG_ERROR = 0, /* something is wrong with a store, or with this library */
  MSGQ_LOG_WARNING,   /* something that may need action: a message was discarded, an outcome was
                         ignored, there is no connection and the reason is known */
  MSGQ_LOG_INFO,      /* an error is over */
  MSGQ_LOG_DEBUG      /* what happens, step by step: see msgq_set_log_level */
} msgq_log_level;

/* Bytes that hold any log line and its NUL. A longer text is cut, never inside a character, and
   ends with "…". */
#define MSGQ_LOG_SIZE 2048

/* Receives one line, without a newline. It may quote receivers and file names: control characters,
   line separators and characters that change the direction of writing are escaped, as \n, \x1b,
   \u202e. `text` is valid until the function returns. */
typedef void (*msgq_log_fn)(void *context, msgq_log_level level, const char *text);

/*
 * Sets the function that receives the log lines of this library, for the whole process. NULL
 * restores the default: errors and warnings are written to standard error, one line each, beginning
 * with "msgqueue: ". That never blocks a call and never raises SIGPIPE; what cannot be written at
 * once is dropped, and the next line written says how many were lost. The environment variable
 * MSGQUEUE_LOG=off turns the default off. (A descriptor 2 that is closed on exec is not taken for
 * standard error.)
 *
 * The function is called by a thread of the library, which the first line starts (msgq_log_next
 * needs none), one line at a time, in order, with no lock
 * held: no call and no close waits for it. Up to 256 lines are kept for a slow function, and as
 * many of the level MSGQ_LOG_DEBUG, which so never take the place of others; beyond that they are
 * lost, and a line in their place says how many. It may call every function, also
 * this one, and close queues. Lines that its calls cause on its thread do not come back to it: they
 * are written as the default does. Those that its calls cause on other threads do, so that a
 * function which sends lines through a queue must leave out that queue's lines.
 *
 * `release` runs once: when the function was replaced and its last call has returned, on the thread
 * that replaces it or on the library's; with NULL at once. A last call of the old function may
 * still run while the new one is called already. Lines that are kept go to the new one.
 *
 * When the process exits, lines that are kept get up to 200 ms in all to be delivered. A forked
 * child keeps the function, and has none of its parent's lines.
 * Errors: none.
 */
msgq_result msgq_set_log(msgq_log_fn function, void *context, void (*release)(void *));

/*
 * Sets the least severe level of which lines are made, for the whole process; MSGQ_LOG_INFO by
 * default. Any thread, at any time. With MSGQ_LOG_DEBUG one line says of each step what happened:
 * a message was enqueued (a call with several has one line with their number) or recorded, an
 * attempt began, it ended with an outcome and its reason, a status changed otherwise, a prompt was
 * raised or withdrawn, connectivity changed, a drain started or finished. These lines have ids,
 * names of conversations, sizes, and the texts that transports gave; never a body, metadata or a
 * preview. The level is asked before a line is made, so that other levels cost nothing measurable.
 *
 * The default destination, standard error, shows errors and warnings; with MSGQ_LOG_DEBUG it shows
 * every line, unless a log function is set. The environment variable MSGQUEUE_LOG=debug begins with
 * MSGQ_LOG_DEBUG, which a call of this function may change.
 * Errors: INVALID (no level of this header).
 */
msgq_result msgq_set_log_level(msgq_log_level level);

/*
 * For hosts whose language no thread of the library may enter: takes the next line, copies it with
 * its NUL to `out`, and returns its length; 0 when there is none. A line that does not fit into
 * `size` bytes is cut, never inside a character. Without room for one character (`out` NULL, `size`
 * 0 or 1) the line stays, and 0 is returned. `level` may be NULL.
 *
 * From the first call of this function or msgq_log_fd on, lines are kept here (as many as above)
 * instead of being written to standard error, until msgq_set_log is called. While a log function is
 * set there are none.
 */
size_t msgq_log_next(msgq_log_level *level, char *out, size_t size);

/* A file descriptor that is readable while msgq_log_next has a line, for poll and event loops.
   Never read, write or close it. It lives as long as the process; a forked child asks for its own.
   -1: no descriptor is left. */
int msgq_log_fd(void);

/* -------------------------------------------------------------------- 17. Control socket */

/*
 * Lets other programs of the same user, and of root, look into the queue and control it while it is
 * open: requests in lines of JSON on the Unix stream socket `path` (NULL: the store's path with
 * "-control" appended). The protocol is described in
 * Sources/MsgQueue/MsgQueue.docc/ControlSocket.md. The socket has mode 0600 whatever the umask is.
 * A socket file that a program left when it ended is replaced. One thread serves at most 16
 * clients, and starts others for their long requests; none of them can delay another or the queue.
 * A polled queue is served, too: these are its only threads. The socket
 * ends with msgq_control_stop or the close of the queue; a forked child has none.
 * Errors: CONFLICT (started already; or `path` exists and is not a socket), LOCKED (another program
 * listens there), INVALID (the directory does not exist, or the name is too long), PERMISSION (the
 * place is unsafe or not writable; read_only with `path` NULL, because no file is made beside such
 * a store), STORAGE (no descriptor or thread left, disk full).
 */
msgq_result msgq_control_start(msgq_queue *queue, const char *path);

/* Removes the socket file and disconnects the clients. A copy for a client's `backup` is abandoned.
   Without a control socket it does nothing. */
msgq_result msgq_control_stop(msgq_queue *queue);

/* -------------------------------------------------------------------- 18. Simulated time */

/*
 * For tests: msgq_open with a clock of the queue's own, which begins at `start_ms` (milliseconds
 * since 1970, to the end of the year 9999; 0: now) and stands still. It moves in msgq_advance, and
 * in calls that wait (msgq_poll, msgq_drain, msgq_wait, msgq_close): they do not wait, the clock
 * moves to what is due next, or to their time-out. So a delay of two minutes takes no time.
 * Everything else is as in production, but any time of the clock is taken for right, also one
 * before 2026: the store is a real file. `seed` determines what is random,
 * as in delays and ids. A queue that was opened by msgq_open keeps the system's clock.
 *
 * The queue is polled (MSGQ_CALLBACKS_POLL, also where `options` says MSGQ_CALLBACKS_THREAD), and
 * is meant for one thread: a call on another one may see any time. msgq_fd tells callbacks, not
 * that something is due. Each opening counts as a boot of its own. An attempt that answers PENDING
 * times out when the clock is moved that far.
 * Errors: those of msgq_open; INVALID (start_ms, POLL_TIMER).
 */
msgq_result msgq_open_simulated(const char *path, const msgq_options *options, int64_t start_ms,
                                uint64_t seed, msgq_queue **out);

/*
 * Lets `ms` milliseconds pass (0 to 3650 days): stops at each moment at which something is due,
 * performs it, and runs the callbacks. Inside a callback only the clock moves, as during a call of
 * a slow receiver; and with 0 nothing runs. `now_ms`, which may be NULL, receives the time at the
 * end.
 * Errors: CONFLICT (not opened by msgq_open_simulated), INVALID, CLOSED.
 */
msgq_result msgq_advance(msgq_queue *queue, int64_t ms, int64_t *now_ms);

#ifdef __cplusplus
}
#endif

#endif /* MSGQUEUE_H */
