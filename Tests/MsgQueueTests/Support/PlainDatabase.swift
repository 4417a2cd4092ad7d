import CSQLite

/// Plain access by SQLite, as with the sqlite3 shell.
final class PlainDatabase {
    struct Failure: Error { let message: String }

    private let handle: OpaquePointer

    init(_ path: String) throws {
        var opened: OpaquePointer?
        guard sqlite3_open_v2(path, &opened, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK, let opened else {
            sqlite3_close(opened)
            throw Failure(message: "\(path) cannot be opened")
        }
        handle = opened
    }

    deinit { sqlite3_close(handle) }

    /// Returns all rows with their values as text; NULL is nil.
    @discardableResult
    func rows(_ sql: String) throws -> [[String?]] { try Self.rows(sql, handle) }

    func number(_ sql: String) throws -> Int64 {
        guard let text = try rows(sql).first?.first, let number = text.flatMap({ Int64($0) }) else {
            throw Failure(message: "no number: \(sql)")
        }
        return number
    }

    /// Returns the same over an open connection.
    static func rows(_ sql: String, _ handle: OpaquePointer) throws -> [[String?]] {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK else {
            throw Failure(message: "\(String(cString: sqlite3_errmsg(handle))): \(sql)")
        }
        defer { sqlite3_finalize(statement) }
        var rows: [[String?]] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                rows.append((0..<sqlite3_column_count(statement)).map { sqlite3_column_text(statement, $0).map { String(cString: $0) } })
            case SQLITE_DONE: return rows
            default: throw Failure(message: "\(String(cString: sqlite3_errmsg(handle))): \(sql)")
            }
        }
    }
}
