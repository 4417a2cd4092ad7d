/// The tables of a store. The file is an ordinary SQLite database: while the queue is closed, the sqlite3 shell can read it.
///
/// An enqueue inserts one row into one b-tree, `message`. Most indexes and the counts are updated later for many rows at once, by the
/// *fold*: rows after `state.folded_through` have `indexed` = 0, and are neither in the indexes with the condition `indexed = 1` nor in
/// the counts of `conversation`.
enum Schema {
    /// "msgq".
    static let applicationID: Int64 = 0x6d73_6771
    static let version = Layout.current.version

    /// The statements that create a store. Its schema is that of an upgraded one. A column that is added by a statement of its own has SQLite
    /// read the whole schema again: that took two thirds of the creation.
    static let statements = tables.map(withAdditions) + historyTables + [priorityIndex] + objectsAddedBy3 + [firstState]

    /// The same schema, made by upgrades. In a store without `vacuumsInSteps`, the tables then begin on the pages on which development versions
    /// put them.
    static let statementsWithUpgrades = tables + historyTables + [priorityIndex] + additionsOf3 + [firstState]

    /// The status `sending` is not stored: a message is being sent when it has a row in `in_flight`.
    private static let tables: [String] = [
        """
        CREATE TABLE state(
          only INTEGER PRIMARY KEY CHECK(only = 1),
          sequence_ceiling INTEGER NOT NULL, -- sequences up to this one may have been assigned
          folded_through INTEGER NOT NULL,   -- rows of message up to this one are indexed and counted in conversation
          is_clean INTEGER NOT NULL,         -- 0: in use; 1: closed cleanly, the totals below are valid; 2: a copy without totals
          boot_id TEXT NOT NULL,             -- of the system that last opened it
          queued INTEGER NOT NULL, sent INTEGER NOT NULL, delivered INTEGER NOT NULL, "read" INTEGER NOT NULL,
          failed INTEGER NOT NULL, received INTEGER NOT NULL, unread INTEGER NOT NULL, unsent_bytes INTEGER NOT NULL,
          generation INTEGER NOT NULL DEFAULT 0, -- a random number, new for each log
          log_base INTEGER NOT NULL DEFAULT 0,   -- the previous one: of the database when the log started
          hold_until INTEGER NOT NULL DEFAULT 0, -- a receiver asked for a wait of the whole queue: its end, length,
          hold_delay INTEGER NOT NULL DEFAULT 0,
          hold_boot INTEGER NOT NULL DEFAULT 0,  -- a hash of the boot id, and the end of the wait as time since boot
          hold_uptime INTEGER NOT NULL DEFAULT 0,
          checksum INTEGER NOT NULL DEFAULT 0    -- of this row
        ) STRICT
        """,
        """
        CREATE TABLE message(
          seq INTEGER PRIMARY KEY,           -- the sequence number, never reused
          indexed INTEGER NOT NULL,          -- 0: not folded yet
          status INTEGER NOT NULL,           -- 0 queued, 2 sent, 3 delivered, 4 read, 5 failed; 6 received, 7 received and read
          id TEXT NOT NULL,
          named INTEGER NOT NULL,            -- 1: the host gave the id; 0: the id contains seq
          conversation TEXT NOT NULL,
          sender TEXT,                       -- of a recorded message; NULL: outbound
          created_at INTEGER NOT NULL,       -- times are milliseconds since 1970; 0: none
          edited_at INTEGER NOT NULL,
          metadata TEXT,                     -- a JSON object of strings, or NULL
          not_before INTEGER NOT NULL,
          expires_at INTEGER NOT NULL,
          unmetered_only INTEGER NOT NULL,
          attempts INTEGER NOT NULL,         -- without those that ended as offline
          retries_used INTEGER NOT NULL,
          due_at INTEGER NOT NULL,           -- after a retryable failure: the next attempt
          due_delay INTEGER NOT NULL,        -- the delay before it
          last_attempt_at INTEGER NOT NULL,
          sent_at INTEGER NOT NULL,
          sent_duration INTEGER NOT NULL,    -- of the successful attempt
          sent_code INTEGER NOT NULL,
          flags INTEGER NOT NULL,            -- 1: delete if the attempt fails; 2: an attempt may have arrived;
                                             -- 4: waits for a network; 8: failed because the row was damaged;
                                             -- 16: no longer expires; 32: retried by hand, not discarded;
                                             -- from 256 on: the retry_all that queued it again
          state_hash INTEGER NOT NULL,       -- checksum of seq and the columns that attempts change
          content_hash INTEGER NOT NULL,     -- checksum of the other columns
          body_size INTEGER NOT NULL,
          body BLOB,                         -- NULL: in large_body
          priority INTEGER NOT NULL DEFAULT 0,
          replace_key TEXT,
          delivered_at INTEGER NOT NULL DEFAULT 0,
          read_at INTEGER NOT NULL DEFAULT 0,
          due_boot INTEGER NOT NULL DEFAULT 0,   -- a hash of the boot id when due_at was set,
          due_uptime INTEGER NOT NULL DEFAULT 0  -- and due_at as time since boot
        ) STRICT
        """,
        // Ids given by the host. Other ids contain their sequence number and need no index.
        "CREATE UNIQUE INDEX message_named ON message(id) WHERE named = 1",
        orderedIndex,
        // Queued messages by conversation, so that finding them does not read the history of the conversation.
        "CREATE INDEX message_waiting ON message(conversation, seq) WHERE indexed = 1 AND status = 0",
        "CREATE INDEX message_expiring ON message(expires_at) WHERE expires_at != 0 AND status = 0",
        "CREATE INDEX message_failed ON message(seq) WHERE status = 5",
        failedIndex, replaceIndex,
        "CREATE INDEX message_conversation ON message(conversation, seq) WHERE indexed = 1",
        // Large bodies, stored separately so that a status change does not rewrite their pages.
        "CREATE TABLE large_body(seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
        // Attempts in flight: inserted before the transport is called, deleted with the outcome.
        "CREATE TABLE in_flight(seq INTEGER PRIMARY KEY, number INTEGER NOT NULL, started_at INTEGER NOT NULL) STRICT",
        """
        CREATE TABLE attempt(                -- ended attempts; a successful one is in its message row
          seq INTEGER NOT NULL, number INTEGER NOT NULL, started_at INTEGER NOT NULL,
          duration INTEGER NOT NULL,         -- milliseconds; -1: unknown
          outcome INTEGER NOT NULL,          -- 2 retry, 3 rejected, 4 unknown
          kind INTEGER NOT NULL, code INTEGER NOT NULL, arrival INTEGER NOT NULL, text TEXT NOT NULL,
          PRIMARY KEY(seq, number)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE conversation(           -- counts of the folded rows
          name TEXT PRIMARY KEY, queued INTEGER NOT NULL, sent INTEGER NOT NULL, delivered INTEGER NOT NULL,
          "read" INTEGER NOT NULL, failed INTEGER NOT NULL, received INTEGER NOT NULL, unread INTEGER NOT NULL,
          unsent_bytes INTEGER NOT NULL, last_seq INTEGER NOT NULL, -- of the newest message
          proof INTEGER NOT NULL DEFAULT 0   -- sum of these numbers, in order, times 3, 5, 7, 11, 13, 17, 19, 23, 29
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX conversation_recent ON conversation(last_seq)",
        // Ids of sent messages that were removed, so that duplicates are still refused for some time.
        "CREATE TABLE recent(id TEXT PRIMARY KEY, gone_at INTEGER NOT NULL, is_received INTEGER NOT NULL) STRICT, WITHOUT ROWID",
        "CREATE INDEX recent_gone ON recent(gone_at)",
    ]

    // MARK: Layout 3

    /// `timed_from`: rows of message from this one on have a `time_at`; 0: none must. Then what is known of the wall clock: a hash of the
    /// boot id, its difference from the boot clock, and of the longest step the first and the last time that it showed before it in that
    /// boot, and its length.
    private static let stateAdditions =
        ["timed_from", "clock_boot", "clock_offset", "clock_from", "clock_through", "clock_by"].map(number)

    /// `time_at`: the time of the message; 0: `created_at`, and no row before it with a `time_at` of 0 was created later. If `not_before`
    /// or `expires_at` were given as durations: `span_boot`, a hash of the boot id, and `start_uptime` and `expiry_uptime`, the same times as
    /// time since the boot.
    private static let messageAdditions = ["time_at", "span_boot", "start_uptime", "expiry_uptime"].map(number)

    /// The time and the sequence number of the message with the latest time; 0: all messages of the conversation have a `time_at` of 0. In
    /// `proof` the low 48 bits of the time are multiplied by 31, and the number by 37.
    private static let conversationAdditions = ["last_time", "time_seq"].map(number)

    private static func number(_ column: String) -> String { "\(column) INTEGER NOT NULL DEFAULT 0" }

    /// The order by time of the messages with a `time_at`, and of the conversations with such messages. That of the others is their order by
    /// sequence number.
    private static let timeIndexes = [
        "CREATE INDEX message_time ON message(status, time_at) WHERE indexed = 1 AND time_at != 0",
        "CREATE INDEX message_time_in ON message(conversation, status, time_at) WHERE indexed = 1 AND time_at != 0",
        "CREATE INDEX conversation_time ON conversation(last_time, time_seq) WHERE last_time != 0",
    ]

    /// The queued messages that may have to wait for something of their own, so that they are found among all queued ones.
    static let deferredCondition: SQL = "status = \(.queued) AND (not_before != 0 OR unmetered_only != 0 OR due_at != 0)"

    /// Titles of conversations, also of those without messages.
    private static let titleTable = """
        CREATE TABLE title(conversation TEXT PRIMARY KEY, text TEXT NOT NULL, checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID
        """

    /// What other places have handed over, see `HandedOver.swift`.
    static let handedOverTable = """
        CREATE TABLE handed_over(
          source TEXT NOT NULL,
          id_hash INTEGER NOT NULL,          -- 0: the queue has, or had, the message, and the source may not have deleted it yet
          id TEXT NOT NULL,
          code INTEGER NOT NULL,             -- 0, or why the draft could not be kept; then id_hash is a hash of its id
          size INTEGER NOT NULL,             -- of its body
          at INTEGER NOT NULL, text TEXT NOT NULL, checksum INTEGER NOT NULL,
          PRIMARY KEY(source, id_hash, id)
        ) STRICT, WITHOUT ROWID
        """

    /// The changes of messages, see `ChangeTable.swift`. Only stores that were opened with the option `keep_changes` have it.
    static let changeTable = """
        CREATE TABLE change(
          first INTEGER PRIMARY KEY,         -- the position of the first change; 0: the head
          count INTEGER NOT NULL,            -- of the changes; in the head how many are kept, 0: the feed is off
          at INTEGER NOT NULL,               -- when they were written
          salt INTEGER NOT NULL,             -- a random number of the session; in the head the epoch
          bytes INTEGER NOT NULL,            -- of these and all earlier changes; in the head the first position of the epoch
          rows BLOB NOT NULL, checksum INTEGER NOT NULL
        ) STRICT
        """

    /// The tables that a store may lack, or have beside the others.
    static let optional: (absent: Set<String>, added: Set<String>) = (["handed_over"], ["change"])

    /// The failed messages by what they failed with, see `FailureIndex.swift`.
    private static let failureTables = [
        """
        CREATE TABLE failure(
          seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, code INTEGER NOT NULL, failed_at INTEGER NOT NULL, conversation TEXT NOT NULL
        ) STRICT
        """,
        "CREATE INDEX failure_group ON failure(kind, code)",
        "CREATE INDEX failure_group_in ON failure(conversation, kind, code)",
        """
        CREATE TABLE failure_count(
          kind INTEGER NOT NULL, code INTEGER NOT NULL, count INTEGER NOT NULL,
          first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, -- of all failures since the group was last empty
          proof INTEGER NOT NULL,              -- sum of count, first_at, last_at, kind and code times 3, 5, 7, 11 and 13
          PRIMARY KEY(kind, code)
        ) STRICT, WITHOUT ROWID
        """,
    ]

    /// The queued messages that may have to wait, the scheduled ones in order, and those that wait for a retry.
    private static let waitIndexes = [
        "CREATE INDEX message_deferred ON message(not_before) WHERE \(deferredCondition.text)",
        "CREATE INDEX message_due ON message(due_at) WHERE due_at != 0 AND status = 0",
    ]

    private static let columnsOf3 = [("state", stateAdditions), ("message", messageAdditions), ("conversation", conversationAdditions)]

    private static let objectsAddedBy3 = timeIndexes + [titleTable] + failureTables + waitIndexes + [handedOverTable]

    /// The statements that make layout 3 of layout 2.
    static let additionsOf3 =
        columnsOf3.flatMap { table, columns in columns.map { "ALTER TABLE \(table) ADD COLUMN \($0)" } } + objectsAddedBy3

    /// Returns the statement that creates a table with all of its columns, as SQLite writes it when they are added.
    private static func withAdditions(_ statement: String) -> String {
        guard let (_, columns) = columnsOf3.first(where: { statement.hasPrefix("CREATE TABLE \($0.0)(") }),
            let end = statement.lastIndex(of: ")")
        else { return statement }
        return statement[..<end] + columns.map { ", \($0)" }.joined() + statement[end...]
    }

    /// The tables and indexes that layout 3 added.
    static let objectsOf3: Set<String> = [
        "conversation_time", "failure", "failure_count", "failure_group", "failure_group_in", "handed_over", "message_deferred",
        "message_due", "message_time", "message_time_in", "title",
    ]

    // MARK: Layout 4

    /// Queued messages in order, those without a start time apart from the others: many messages that are scheduled for later are no obstacle
    /// on the way to those that can be sent.
    private static let orderedIndex = "CREATE INDEX message_ordered ON message((not_before != 0)) WHERE indexed = 1 AND status = 0"

    /// The statements that make layout 4 of layout 3. The index takes the root page of the one that it replaces, as in a new store.
    static let additionsOf4 = [orderedIndex, "DROP INDEX message_queued"]

    /// A store of layout 2 without these tables gets them when it is opened.
    static let historyTables: [String] = [
        // The index of the history, see `HistoryIndex.swift`. A row with status -1: rows of message up to seq are not in it yet.
        "CREATE TABLE history(status INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(status, seq)) STRICT, WITHOUT ROWID",
        """
        CREATE TABLE history_in(
          conversation TEXT NOT NULL, status INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(conversation, status, seq)
        ) STRICT, WITHOUT ROWID
        """,
        // As recent, for ids that the engine generated: the bits of the id except seq; the last bit of low is is_received.
        """
        CREATE TABLE recent_own(
          seq INTEGER PRIMARY KEY, high INTEGER NOT NULL, low INTEGER NOT NULL, gone_at INTEGER NOT NULL
        ) STRICT
        """,
    ]

    static let firstState = """
        INSERT OR IGNORE INTO state(only, sequence_ceiling, folded_through, is_clean, boot_id, queued, sent, delivered, "read", failed,
          received, unread, unsent_bytes) VALUES(1, 0, 0, 1, '', 0, 0, 0, 0, 0, 0, 0, 0)
        """

    private static let failedIndex = "CREATE INDEX message_failed_in ON message(conversation, seq) WHERE status = 5"
    private static let replaceIndex =
        "CREATE INDEX message_replace ON message(conversation, replace_key) WHERE replace_key IS NOT NULL AND status = 0"

    /// Whether it is empty says whether the order of sending depends on priorities.
    static let priorityIndex = "CREATE INDEX \(priorityIndexName) ON message(priority) WHERE priority != 0 AND status = 0"
    static let priorityIndexName = "message_priority"

    /// The columns of the tables, for the survey of a store.
    static let columns: [(table: String, names: [String])] = [
        ("attempt", AttemptColumn.names), ("title", ["conversation", "text", "checksum"]),
        ("change", ChangeColumn.names),
        ("handed_over", HandedOverColumn.names),
        ("large_body", ["seq", "body"]), ("in_flight", ["seq", "number", "started_at"]),
        ("recent", ["id", "gone_at", "is_received"]), ("recent_own", ["seq", "high", "low", "gone_at"]),
        ("history", ["status", "seq"]), ("history_in", ["conversation", "status", "seq"]),
        ("failure", ["seq", "kind", "code", "failed_at", "conversation"]),
        ("failure_count", ["kind", "code", "count", "first_at", "last_at", "proof"]),
    ]

    /// Of the definitions in a new store (`StoreSurvey.schema`). One that has exactly these needs no further examination.
    static let checksum: UInt64 = 7_836_207_789_101_258_896

    /// The names of all objects in a store, sorted.
    static let objects = [
        "attempt", "conversation", "conversation_recent", "conversation_time", "failure", "failure_count", "failure_group",
        "failure_group_in", "handed_over", "history", "history_in", "in_flight", "large_body", "message", "message_conversation",
        "message_deferred", "message_due", "message_expiring", "message_failed", "message_failed_in", "message_named", "message_ordered",
        "message_priority", "message_replace", "message_time", "message_time_in", "message_waiting", "recent", "recent_gone", "recent_own",
        "state", "title",
    ]
}
