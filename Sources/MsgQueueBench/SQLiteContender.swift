import CSQLite
import Glibc

/// A SQLite table with one row for each message, in WAL mode with synchronous=FULL: each put is one transaction.
class SQLiteContender: Contender {
    private let database: OpaquePointer
    private let insert: OpaquePointer
    private let remove: OpaquePointer
    private var select: OpaquePointer?
    private let lock = Lock()

    required init(directory: String) throws {
        var opened: OpaquePointer?
        guard sqlite3_open("\(directory)/bare.db", &opened) == SQLITE_OK, let opened else { throw Failure("sqlite3_open failed") }
        database = opened
        let setup = """
            PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
            CREATE TABLE message(seq INTEGER PRIMARY KEY, body BLOB)
            """
        guard sqlite3_exec(opened, setup, nil, nil, nil) == SQLITE_OK else { throw Self.failure(opened) }
        insert = try Self.prepare(opened, "INSERT INTO message(body) VALUES(?1)")
        remove = try Self.prepare(opened, "DELETE FROM message WHERE seq = ?1")
    }

    private static func failure(_ database: OpaquePointer) -> Failure { Failure("SQLite: \(String(cString: sqlite3_errmsg(database)))") }

    private static func prepare(_ database: OpaquePointer, _ sql: String) throws -> OpaquePointer {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK, let statement else { throw failure(database) }
        return statement
    }

    private func execute(_ sql: String) throws {
        guard sqlite3_exec(database, sql, nil, nil, nil) == SQLITE_OK else { throw Self.failure(database) }
    }

    private func step(_ statement: OpaquePointer) throws {
        guard sqlite3_step(statement) == SQLITE_DONE else { throw Self.failure(database) }
        sqlite3_reset(statement)
    }

    private func store(_ body: [UInt8]) throws {
        try body.withUnsafeBytes { bytes in
            sqlite3_bind_blob(insert, 1, bytes.baseAddress, Int32(bytes.count), nil)
            try step(insert)
        }
    }

    /// Reads the body of a row.
    func read(_ sequence: Int64) throws {
        try lock.whileHeld {
            let statement = try select ?? Self.prepare(database, "SELECT body FROM message WHERE seq = ?1")
            select = statement
            sqlite3_bind_int64(statement, 1, sequence)
            guard sqlite3_step(statement) == SQLITE_ROW, sqlite3_column_bytes(statement, 0) == Work.bodySize else {
                throw Self.failure(database)
            }
            sqlite3_reset(statement)
        }
    }

    func put(_ body: [UInt8]) throws { try lock.whileHeld { try store(body) } }

    func put(_ bodies: [[UInt8]]) throws {
        try lock.whileHeld {
            try execute("BEGIN IMMEDIATE")
            for body in bodies { try store(body) }
            try execute("COMMIT")
        }
    }

    func drain(count: Int) throws -> Bool {
        for sequence in 1...Int64(max(count, 1)) {
            sqlite3_bind_int64(remove, 1, sequence)
            try step(remove)
        }
        return true
    }

    func close() throws {
        sqlite3_finalize(select)
        sqlite3_finalize(insert)
        sqlite3_finalize(remove)
        guard sqlite3_close(database) == SQLITE_OK else { throw Self.failure(database) }
    }
}

/// The same table with group commit: one thread commits the rows of all waiting threads.
final class GroupContender: SQLiteContender {
    private let round = Round()

    override func put(_ body: [UInt8]) throws { try round.join(body) { try super.put($0) } }
}
