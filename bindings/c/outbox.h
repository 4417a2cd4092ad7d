/*
 * An outbox for libmsgqueue in the host's own SQLite database: a message that is put there in a
 * transaction of the host exists exactly when that transaction commits. msgq_outbox_collect then
 * takes it over into the queue, exactly once, whatever crash comes between.
 *
 * It is source: compile outbox.c (C11) with your program, against the sqlite3.h (3.24 or later) of
 * the SQLite that your program uses. When it is installed:

     sources=$(pkg-config --variable=sources msgqueue)
     cc -I$sources shop.c $sources/outbox.c $(pkg-config --cflags --libs msgqueue sqlite3) -pthread

 * It opens, closes and hooks no database, and keeps no statement of the host's connection. The
 * tables are msgq_outbox and msgq_outbox_store of the database "main". The rules at the beginning
 * of msgqueue.h (results, structs, strings) hold here, too; a connection is used by one thread at a
 * time, as SQLite requires.
 *
 * Results of SQLite. Whatever SQLite answers is returned as
 *   BUSY         SQLITE_BUSY, SQLITE_LOCKED: another connection has the database locked, for longer
 *                than the host's busy time-out
 *   PERMISSION   the database, or the connection, can only be read
 *   CORRUPT      the database is damaged, or the tables are not those of the outbox
 *   NOT_FOUND    the tables are not there: see msgq_outbox_schema
 *   TOO_NEW      the tables are those of a later version
 *   TOO_LARGE    a value is longer than SQLite's limit
 *   CONFLICT     a constraint or a trigger of the host, or sqlite3_interrupt
 *   STORAGE      anything else: disk full, I/O error, out of memory
 * and msgq_outbox_sqlite_code says which it was. As SQLite documents, some errors (disk full, I/O,
 * out of memory) may end the host's transaction: sqlite3_get_autocommit tells.
 */
#ifndef MSGQUEUE_OUTBOX_H
#define MSGQUEUE_OUTBOX_H

#include <msgqueue.h>
#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The statements that make the tables, for the host's migrations. They change nothing when the
   tables are there. They use no trigger and no user_version. */
const char *msgq_outbox_schema(void);

/*
 * Puts a message into the outbox: in the transaction that the host has begun, or without one in a
 * transaction of its own. It is a row like the host's own ones: a rollback, also of a savepoint,
 * takes it back. Of a draft with delay_ms or expiry_ms the times count from this call by the wall
 * clock; a draft without time_ms gets the time of this call. `id_out`, unless NULL, receives the
 * id on OK.
 *
 * Begin the transaction with BEGIN IMMEDIATE. A transaction that began with BEGIN and has read
 * gets BUSY at once, whatever the busy time-out, when another connection has written since.
 *
 * After an error the transaction of the host is as it was, unless SQLite has ended it (see above).
 * sqlite3_errcode is what SQLite said, and sqlite3_last_insert_rowid is left as it was.
 *
 * Errors: DUPLICATE (a row of this id waits; the transaction can go on), INVALID and TOO_LARGE
 * (no queue could keep the draft), those of SQLite.
 */
msgq_result msgq_outbox_put(sqlite3 *db, const msgq_draft *draft, char id_out[MSGQ_ID_SIZE]);

/*
 * Puts `count` messages (0 to 1,000,000) in this order, all or none, as msgq_outbox_put does each;
 * it is faster than as many calls of that. Inside a transaction of the host it is a savepoint of
 * its own. `ids_out`, unless NULL, has room for `count` ids, which are valid on OK. Every draft has
 * the same struct_size. The detail begins with the index of the draft that failed.
 */
msgq_result msgq_outbox_put_batch(sqlite3 *db, const msgq_draft *drafts, size_t count,
                                  char (*ids_out)[MSGQ_ID_SIZE]);

/*
 * Moves at most `limit` (1 to 1,000,000) messages to the queue, in the order in which they were
 * put, and deletes their rows. `moved`, unless NULL, receives how many the queue has now, also
 * after an error. It works in rounds of at most 1,000 messages and about 16 MiB of bodies; a round
 * costs one transaction of the host's database and one of the queue. If there is nothing to do,
 * nothing is written.
 *
 * Its transactions set synchronous to EXTRA, and put it back afterwards: a row is handed over only
 * when the commit that made it survives a power cut, also one with synchronous = NORMAL, and
 * handed over once, because the deletion survives one before the queue forgets the id. With
 * synchronous = OFF, and with journal_mode OFF or MEMORY, nothing is promised.
 *
 * A row that the queue cannot keep at all, or that is not a message, because somebody wrote it by
 * hand, gets the reason in its column `refused` and is not read again, until that is NULL again.
 * It blocks no other. A draft that the queue refuses for other reasons is a `failed` message there:
 * see msgq_take_over.
 *
 * One collector at a time: of two, one gets CONFLICT and begins again; nothing is moved twice.
 *
 * Errors: CONFLICT (the connection is inside a transaction; another collector), those of SQLite,
 * of msgq_handed_over, msgq_take_over (FULL: what there is room for is moved) and
 * msgq_hand_over_done. Nothing is lost by them: call it again. Messages that the queue took over
 * before the error are in it; their rows are deleted by the next call.
 */
msgq_result msgq_outbox_collect(sqlite3 *db, msgq_queue *queue, size_t limit, size_t *moved);

/*
 * For a process that does not own the queue, after its commit: asks the owner of the store
 * `store_path` to collect, by its control socket (msgq_control_start at the default path). The owner
 * gets MSGQ_EVENT_COLLECT. A process that owns the queue calls msgq_request_collect instead, or
 * msgq_outbox_collect. It takes at most a second. The row waits whatever the result is: the owner
 * collects when it opens the queue, and asks itself every collect_interval_ms.
 *
 * Errors: NOT_FOUND (nobody listens), TIMEOUT, PERMISSION (the socket is that of another user),
 * INVALID, STORAGE, and what the owner answers.
 */
msgq_result msgq_outbox_kick(const char *store_path);

/* One sentence about this thread's last failed call of these functions; "" before the first. */
const char *msgq_outbox_error_detail(void);

/* The extended result code of SQLite of this thread's last failed call of these functions, such as
   SQLITE_BUSY or SQLITE_BUSY_SNAPSHOT; SQLITE_OK (0) when the failure was not SQLite's. */
int msgq_outbox_sqlite_code(void);

#ifdef __cplusplus
}
#endif

#endif
