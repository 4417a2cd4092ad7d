import MsgQueue

/// All texts of SQL. The tables are those of `bindings/c/outbox.c` and of Python's `msgqueue.Outbox`.
enum SQL {
    static let version: Int64 = 1

    /// The index finds the rows that wait without reading those that were refused. Without it, in tables of an earlier version, what is large is
    /// last, so that no overflow pages are read.
    static let schema = """
        CREATE TABLE IF NOT EXISTS main.msgq_outbox (
          number INTEGER PRIMARY KEY AUTOINCREMENT,
          id TEXT NOT NULL UNIQUE,
          conversation TEXT NOT NULL,
          refused TEXT,
          not_before_ms INTEGER,
          expires_at_ms INTEGER,
          time_ms INTEGER NOT NULL,
          priority INTEGER NOT NULL DEFAULT 0,
          replace_key TEXT,
          unmetered_only INTEGER NOT NULL DEFAULT 0,
          metadata BLOB,
          body BLOB NOT NULL
        );
        CREATE INDEX IF NOT EXISTS main.msgq_outbox_waiting ON msgq_outbox(number) WHERE refused IS NULL;
        CREATE TABLE IF NOT EXISTS main.msgq_outbox_store (
          version INTEGER NOT NULL,
          source TEXT NOT NULL,
          collected INTEGER NOT NULL DEFAULT 0
        );
        INSERT INTO main.msgq_outbox_store (version, source)
          SELECT \(version), lower(hex(randomblob(16))) WHERE NOT EXISTS (SELECT 1 FROM main.msgq_outbox_store);
        """

    static let store = "SELECT version, source FROM main.msgq_outbox_store"

    /// It changes no row if the tables are of another version, or the id is in the table. The transaction stays usable.
    static let insert = """
        INSERT INTO main.msgq_outbox
          (id, conversation, not_before_ms, expires_at_ms, time_ms, priority, replace_key, unmetered_only, metadata, body)
          SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM main.msgq_outbox_store WHERE version = \(version)
          ON CONFLICT (id) DO NOTHING
        """

    /// Rows are deleted by number, so each number must name one row for ever. Only a primary key can be AUTOINCREMENT.
    static let isNumbered = """
        SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND lower(name) = 'msgq_outbox' AND instr(upper(sql), 'AUTOINCREMENT')
        """

    static let hasRows = "SELECT 1 FROM main.msgq_outbox WHERE refused IS NULL LIMIT 1"

    /// Values that are too large are not read: instead there is their size, or -1 if they are of a wrong type.
    static let rows = """
        SELECT number, id, conversation, not_before_ms, expires_at_ms, time_ms, priority, replace_key, unmetered_only,
          \(blob("metadata", limit: 2 * Options.metadataCeiling)), \(blob("body", limit: Options.bodyCeiling))
          FROM main.msgq_outbox WHERE refused IS NULL ORDER BY number LIMIT ?1
        """

    private static func blob(_ column: String, limit: Int64) -> String {
        """
        CASE typeof(\(column)) WHEN 'null' THEN NULL
          WHEN 'blob' THEN CASE WHEN length(\(column)) <= \(limit) THEN \(column) ELSE length(\(column)) END ELSE -1 END
        """
    }

    static let deleteID = "DELETE FROM main.msgq_outbox WHERE id = ?1 COLLATE BINARY"
    static let deleteNumber = "DELETE FROM main.msgq_outbox WHERE number = ?1"
    static let findID = "SELECT 1 FROM main.msgq_outbox WHERE id = ?1 COLLATE BINARY"
    static let findNumber = "SELECT 1 FROM main.msgq_outbox WHERE number = ?1 AND refused IS NULL"
    static let refuse = "UPDATE main.msgq_outbox SET refused = ?2 WHERE number = ?1"

    /// Changes a value, because SQLite writes no page for an update that changes none, and a commit without a page flushes nothing.
    static let touch = "UPDATE main.msgq_outbox_store SET collected = CASE collected WHEN 0 THEN 1 ELSE 0 END"

    static let begin = "BEGIN IMMEDIATE"
    static let commit = "COMMIT"
    static let rollback = "ROLLBACK"

    /// EXTRA. With a rollback journal only this level flushes the removal of the journal; with a log it is the same as FULL.
    static let extra: Int64 = 3
    static let synchronous = "PRAGMA main.synchronous"
    static func synchronous(level: Int64) -> String { "\(synchronous) = \(level)" }
}
