import CSQLite
import Foundation
import MsgQueue
import MsgQueueOutbox

/// A directory of its own, removed with its content when the object is deallocated.
final class Directory: Sendable {
    let path: String
    private let isOwned: Bool

    /// The directory of another process.
    init(at path: String) { (self.path, isOwned) = (path, false) }

    init() throws {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent("msgqueue-outbox-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        (path, isOwned) = (url.path, true)
    }

    deinit { if isOwned { try? FileManager.default.removeItem(atPath: path) } }

    var host: String { "\(path)/host.db" }

    /// The size of the host's log.
    var logSize: Int { (try? FileManager.default.attributesOfItem(atPath: "\(host)-wal"))?[.size] as? Int ?? 0 }

    /// A manual queue without direct sending: only `drain` sends.
    func queue(
        _ change: (inout MessageQueue.Options) -> Void = { _ in }, transport: MessageQueue.Transport? = nil
    ) throws -> MessageQueue {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        change(&options)
        return try MessageQueue(path: "\(path)/queue.db", options: options, transport: transport)
    }

    /// Copies the files as a crash would leave them.
    func copied() throws -> Directory {
        let copy = try Directory()
        for name in try FileManager.default.contentsOfDirectory(atPath: path) {
            try FileManager.default.copyItem(atPath: "\(path)/\(name)", toPath: "\(copy.path)/\(name)")
        }
        return copy
    }
}

/// A connection of the host program.
final class HostDatabase {
    struct Failure: Error { let code: Int32, message: String }

    let handle: OpaquePointer

    /// `journal`: nil leaves the database as it is.
    init(_ path: String, journal: String? = "WAL", flags: Int32 = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) throws {
        var opened: OpaquePointer?
        let code = sqlite3_open_v2(path, &opened, flags, nil)
        guard code == SQLITE_OK, let opened else {
            sqlite3_close(opened)
            throw Failure(code: code, message: "\(path) cannot be opened")
        }
        handle = opened
        if let journal { try rows("PRAGMA journal_mode=\(journal)") }
    }

    /// A database with the tables of the outbox and one of the host.
    static func made(_ directory: Directory, journal: String = "WAL") throws -> HostDatabase {
        let host = try HostDatabase(directory.host, journal: journal)
        try host.run("PRAGMA synchronous=NORMAL; CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)")
        try host.run(Outbox.schema)
        return host
    }

    deinit { sqlite3_close_v2(handle) }

    func run(_ sql: String) throws {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw Failure(code: code, message: "\(String(cString: sqlite3_errmsg(handle))): \(sql)") }
    }

    /// Returns all rows with their values as text; NULL is nil.
    @discardableResult
    func rows(_ sql: String) throws -> [[String?]] {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        var rows: [[String?]] = []
        var code = sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
        guard code == SQLITE_OK else { throw Failure(code: code, message: "\(String(cString: sqlite3_errmsg(handle))): \(sql)") }
        code = sqlite3_step(statement)
        while code == SQLITE_ROW {
            rows.append((0..<sqlite3_column_count(statement)).map { sqlite3_column_text(statement, $0).map { String(cString: $0) } })
            code = sqlite3_step(statement)
        }
        guard code == SQLITE_DONE else { throw Failure(code: code, message: "\(String(cString: sqlite3_errmsg(handle))): \(sql)") }
        return rows
    }

    /// The first column of all rows.
    func column(_ sql: String) throws -> [String] { try rows(sql).compactMap { $0.first ?? nil } }

    /// The ids of the rows in the outbox.
    var waiting: [String] { get throws { try column("SELECT id FROM msgq_outbox ORDER BY number") } }

    /// Puts messages with an order each, in one transaction.
    func order(_ ids: [String], conversation: String = "ana", _ outbox: Outbox) throws {
        try run("BEGIN IMMEDIATE")
        for id in ids {
            try run("INSERT INTO orders VALUES ('\(id)')")
            try outbox.put(MessageQueue.Draft("body of \(id)", conversation: conversation, id: id))
        }
        try run("COMMIT")
    }
}

/// Returns the error of a call of an outbox.
func failure(_ body: () throws -> Void) -> Outbox.Error? {
    do { try body() } catch { return error as? Outbox.Error }
    return nil
}

extension MessageQueue {
    /// The ids of all messages, the oldest first.
    var ids: [String] { get throws { try list(Filter(limit: 1000)).map(\.id) } }
}
