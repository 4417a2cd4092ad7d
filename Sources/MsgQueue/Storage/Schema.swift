/// The store's tables. The file is an ordinary SQLite database: with the queue closed anyone can read it with the sqlite3 shell.
///
/// An enqueue writes one row into one b-tree, `message`: what else finds messages (indexes, counts) is brought up to date for many rows at
/// once, in the *fold*: rows behind `state.folded_through` have `indexed` = 0 and stand in no index and in no count of `conversation`.
enum Schema {
    /// "msgq".
    static let applicationID: Int64 = 0x6d73_6771
    static let version: Int64 = 2

    /// Statuses on disk. `sending` is none of them: a message is being sent when it is in `in_flight`.
    static let statements: [String] = [
        """
        CREATE TABLE state(
          only INTEGER PRIMARY KEY CHECK(only = 1),
          sequence_ceiling INTEGER NOT NULL, -- numbers up to this one may have been given out
          folded_through INTEGER NOT NULL,   -- rows of message up to this one are in the indexes and in conversation
          is_clean INTEGER NOT NULL,         -- 0: in use; 1: closed in order, the totals below are right; 2: a copy without totals
          boot_id TEXT NOT NULL,             -- of the system that opened it last
          queued INTEGER NOT NULL, sent INTEGER NOT NULL, delivered INTEGER NOT NULL, "read" INTEGER NOT NULL,
          failed INTEGER NOT NULL, received INTEGER NOT NULL, unread INTEGER NOT NULL, unsent_bytes INTEGER NOT NULL,
          generation INTEGER NOT NULL DEFAULT 0, -- a random number, new with each log
          log_base INTEGER NOT NULL DEFAULT 0,   -- the one before: of the database that the log was begun for
          hold_until INTEGER NOT NULL DEFAULT 0, -- a receiver asked the whole queue to wait: until when, how long,
          hold_delay INTEGER NOT NULL DEFAULT 0,
          hold_boot INTEGER NOT NULL DEFAULT 0,  -- in which run of the system (a hash), until what time since its start
          hold_uptime INTEGER NOT NULL DEFAULT 0,
          checksum INTEGER NOT NULL DEFAULT 0    -- of this row
        ) STRICT
        """,
        """
        CREATE TABLE message(
          seq INTEGER PRIMARY KEY,           -- the place in the order, never reused
          indexed INTEGER NOT NULL,          -- 0: not folded yet
          status INTEGER NOT NULL,           -- 0 queued, 2 sent, 3 delivered, 4 read, 5 failed; 6 received, 7 received and read
          id TEXT NOT NULL,
          named INTEGER NOT NULL,            -- 1: the id came from the host; 0: it carries seq
          conversation TEXT NOT NULL,
          sender TEXT,                       -- of a recorded message; NULL: our own
          created_at INTEGER NOT NULL,       -- times are milliseconds since 1970; 0: none
          edited_at INTEGER NOT NULL,
          metadata TEXT,                     -- a JSON object of strings, or NULL
          not_before INTEGER NOT NULL,
          expires_at INTEGER NOT NULL,
          unmetered_only INTEGER NOT NULL,
          attempts INTEGER NOT NULL,         -- that left
          retries_used INTEGER NOT NULL,
          due_at INTEGER NOT NULL,           -- after a retryable failure: not before this
          due_delay INTEGER NOT NULL,        -- the delay that led to it
          last_attempt_at INTEGER NOT NULL,
          sent_at INTEGER NOT NULL,
          sent_duration INTEGER NOT NULL,    -- of the successful attempt
          sent_code INTEGER NOT NULL,
          flags INTEGER NOT NULL,            -- 1: remove when the attempt ends unsent; 2: some attempt perhaps arrived;
                                             -- 4: waits for want of a network; 8: what stood here was damaged;
                                             -- 16: its expiry does not count any more; 32: retried by hand, not discarded;
                                             -- from 256 on: which retry of all put it back
          state_hash INTEGER NOT NULL,       -- checksum of seq and of what attempts change
          content_hash INTEGER NOT NULL,     -- checksum of the rest
          body_size INTEGER NOT NULL,
          body BLOB,                         -- NULL: in large_body
          priority INTEGER NOT NULL DEFAULT 0,
          replace_key TEXT,
          delivered_at INTEGER NOT NULL DEFAULT 0,
          read_at INTEGER NOT NULL DEFAULT 0,
          due_boot INTEGER NOT NULL DEFAULT 0,   -- in which run of the system (a hash) due_at was set,
          due_uptime INTEGER NOT NULL DEFAULT 0  -- and the time since its start at which the message is due
        ) STRICT
        """,
        // The ids that came from the host; the others are found by the sequence that they carry.
        "CREATE UNIQUE INDEX message_named ON message(id) WHERE named = 1",
        "CREATE INDEX message_queued ON message(seq) WHERE indexed = 1 AND status = 0",
        // The same by conversation: what is next in it, and its page of unsent messages, however long its history is.
        "CREATE INDEX message_waiting ON message(conversation, seq) WHERE indexed = 1 AND status = 0",
        "CREATE INDEX message_expiring ON message(expires_at) WHERE expires_at != 0 AND status = 0",
        "CREATE INDEX message_failed ON message(seq) WHERE status = 5",
        failedIndex, replaceIndex,
        "CREATE INDEX message_conversation ON message(conversation, seq) WHERE indexed = 1",
        // Bodies that would make each change of a message's state rewrite pages of them.
        "CREATE TABLE large_body(seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
        // Messages being sent: written before the transport is called, removed with the outcome.
        "CREATE TABLE in_flight(seq INTEGER PRIMARY KEY, number INTEGER NOT NULL, started_at INTEGER NOT NULL) STRICT",
        """
        CREATE TABLE attempt(                -- the ledger; a successful attempt is told by its message
          seq INTEGER NOT NULL, number INTEGER NOT NULL, started_at INTEGER NOT NULL,
          duration INTEGER NOT NULL,         -- milliseconds; -1: not known
          outcome INTEGER NOT NULL,          -- 2 retry, 3 rejected, 4 unknown
          kind INTEGER NOT NULL, code INTEGER NOT NULL, arrival INTEGER NOT NULL, text TEXT NOT NULL,
          PRIMARY KEY(seq, number)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE conversation(           -- counts of the folded rows
          name TEXT PRIMARY KEY, queued INTEGER NOT NULL, sent INTEGER NOT NULL, delivered INTEGER NOT NULL,
          "read" INTEGER NOT NULL, failed INTEGER NOT NULL, received INTEGER NOT NULL, unread INTEGER NOT NULL,
          unsent_bytes INTEGER NOT NULL, last_seq INTEGER NOT NULL, -- of its newest message
          proof INTEGER NOT NULL DEFAULT 0   -- 3, 5, 7, 11, 13, 17, 19, 23, 29 times these numbers, in their order, added up
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX conversation_recent ON conversation(last_seq)",
        // Ids of messages that were sent and are gone, so that they are still refused as duplicates for a while.
        "CREATE TABLE recent(id TEXT PRIMARY KEY, gone_at INTEGER NOT NULL, is_received INTEGER NOT NULL) STRICT, WITHOUT ROWID",
        "CREATE INDEX recent_gone ON recent(gone_at)",
        firstState,
    ]

    static let firstState = """
        INSERT OR IGNORE INTO state(only, sequence_ceiling, folded_through, is_clean, boot_id, queued, sent, delivered, "read", failed,
          received, unread, unsent_bytes) VALUES(1, 0, 0, 1, '', 0, 0, 0, 0, 0, 0, 0, 0)
        """

    private static let failedIndex = "CREATE INDEX message_failed_in ON message(conversation, seq) WHERE status = 5"
    private static let replaceIndex =
        "CREATE INDEX message_replace ON message(conversation, replace_key) WHERE replace_key IS NOT NULL AND status = 0"

    /// What brings a store of layout 1 to layout 2, in one transaction.
    static let upgrade: [String] =
        ["generation", "log_base", "hold_until", "hold_delay", "hold_boot", "hold_uptime", "checksum"].map { add($0, to: "state") }
        + [add("priority", to: "message"), "ALTER TABLE message ADD COLUMN replace_key TEXT"]
        + ["delivered_at", "read_at", "due_boot", "due_uptime"].map { add($0, to: "message") }
        + [
            add("proof", to: "conversation"), "UPDATE conversation SET proof = \(proof)", failedIndex, replaceIndex,
            "PRAGMA user_version = 2",
        ]

    private static func add(_ column: String, to table: String) -> String {
        "ALTER TABLE \(table) ADD COLUMN \(column) INTEGER NOT NULL DEFAULT 0"
    }

    /// The proof of a row of `conversation`.
    private static let proof =
        "3 * queued + 5 * sent + 7 * delivered + 11 * \"read\" + 13 * failed + 17 * received + 19 * unread + 23 * unsent_bytes + 29 * last_seq"

    /// Every object that a store has, in the order of their names.
    static let objects = [
        "attempt", "conversation", "conversation_recent", "in_flight", "large_body", "message", "message_conversation", "message_expiring",
        "message_failed", "message_failed_in", "message_named", "message_queued", "message_replace", "message_waiting", "recent",
        "recent_gone", "state",
    ]

    /// The same of a store of an earlier layout.
    static func objects(ofLayout layout: Int64) -> [String] {
        layout >= 2 ? objects : objects.filter { $0 != "message_failed_in" && $0 != "message_replace" }
    }
}
