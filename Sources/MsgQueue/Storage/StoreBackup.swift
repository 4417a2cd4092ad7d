import CSQLite
import Glibc

/// A copy of the store while it runs.
extension Store {
    /// Writes a consistent copy to the new file `path`, whole or not at all.
    package func backup(to given: String) throws(QueueError) {
        let path = try StorePath.resolve(given)
        guard try StorePath.inspect(path) == nil else { throw QueueError(.conflict, "\(path) exists already") }
        let temporary = Posix.temporaryName(for: path)
        defer { unlink(temporary) }
        Glibc.close(try Posix.makeFile(temporary))
        try copy(to: temporary)
        guard try Posix.renameExclusively(temporary, path) else { throw QueueError(.conflict, "\(path) exists already") }
        try Posix.syncDirectory(of: path)
    }

    private func copy(to path: String) throws(QueueError) {
        var target: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW
        var code = sqlite3_open_v2(path, &target, flags, nil)
        if code == SQLITE_OK, let backup = sqlite3_backup_init(target, "main", database.handle, "main") {
            code = sqlite3_backup_step(backup, -1)
            let finished = sqlite3_backup_finish(backup)
            code = code == SQLITE_DONE ? finished : code
        } else if code == SQLITE_OK {
            code = sqlite3_errcode(target)
        }
        // The copy is closed, whatever its origin: as an owner who closes in order leaves it. Its totals are not, so it counts anew.
        if code == SQLITE_OK { code = sqlite3_exec(target, "PRAGMA journal_mode=DELETE", nil, nil, nil) }
        let message = target.map { String(cString: sqlite3_errmsg($0)) } ?? ""
        let closed = sqlite3_close(target)
        guard code == SQLITE_OK, closed == SQLITE_OK else {
            throw QueueError(.storage, "copy to \(path): \(message) (SQLite \(code))")
        }
    }
}
