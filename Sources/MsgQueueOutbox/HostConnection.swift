import CSQLite
import MsgQueue

/// The host's connection. It is neither opened, closed nor hooked here, and every statement is finalized by the call that made it.
struct HostConnection {
    let handle: OpaquePointer
    let sqlite: Outbox.SQLite

    var isInTransaction: Bool { sqlite.getAutocommit(handle) == 0 }

    /// The rows that the last statement changed.
    var changes: Int32 { sqlite.changes(handle) }

    /// The number of the host's last new row.
    var lastInsertRowid: Int64 { sqlite.lastInsertRowid(handle) }

    func restore(lastInsertRowid number: Int64) { sqlite.setLastInsertRowid(handle, number) }

    func prepare(_ sql: String) throws(Outbox.Error) -> Statement { try Statement(sql, handle, sqlite) }

    /// Runs a statement once for each list of parameters.
    func run(_ sql: String, each parameters: [[Statement.Value]] = [[]]) throws(Outbox.Error) {
        guard !parameters.isEmpty else { return }
        let statement = try prepare(sql)
        for values in parameters { try statement.run(values) }
    }

    /// Returns the first value of a query; nil: there is none, or it is no integer.
    func integer(_ sql: String) throws(Outbox.Error) -> Int64? {
        var found: Int64?
        let statement = try prepare(sql)
        try statement.run { row in
            found = row.integer(0)
            return false
        }
        return found
    }

    // MARK: Transactions

    /// Runs a transaction that writes. The connection is in none before and after.
    func transaction<T>(_ body: () throws(Outbox.Error) -> T) throws(Outbox.Error) -> T {
        try run(SQL.begin)
        do throws(Outbox.Error) {
            let result = try body()
            try run(SQL.commit)
            return result
        } catch {
            // After some errors SQLite has rolled it back already.
            guard isInTransaction else { throw error }
            do throws(Outbox.Error) { try run(SQL.rollback) } catch let other { throw error.followed(by: other) }
            throw error
        }
    }

    /// Runs transactions whose commits survive power loss.
    func durably<T>(_ body: () throws(Outbox.Error) -> T) throws(Outbox.Error) -> T {
        let level = try integer(SQL.synchronous)
        guard let level, level != SQL.extra else { return try body() }
        try run(SQL.synchronous(level: SQL.extra))
        let result: Result<T, Outbox.Error>
        do throws(Outbox.Error) { result = .success(try body()) } catch { result = .failure(error) }
        do throws(Outbox.Error) { try run(SQL.synchronous(level: level)) } catch {
            guard case .failure(let first) = result else { throw error }
            throw first.followed(by: error)
        }
        return try result.get()
    }

    // MARK: The table of the store

    /// Returns the source of this database. Throws if its tables are not of this version.
    func source() throws(Outbox.Error) -> String {
        var (count, version, source) = (0, Int64?.none, String?.none)
        let statement = try prepare(SQL.store)
        try statement.run { row throws(Outbox.Error) in
            (count, version, source) = (count + 1, row.integer(0), try row.text(1))
            return true
        }
        guard count == 1, let version, let source, version >= SQL.version else {
            throw Outbox.Error(.corrupt, "msgq_outbox_store is not as Outbox.schema makes it")
        }
        guard version == SQL.version else {
            throw Outbox.Error(.tooNew, "the tables of the outbox have version \(version); this library knows version \(SQL.version)")
        }
        return source
    }
}
