import CSQLite
import Glibc

/// How a store comes into being: whole, or not at all.
enum StoreBirth {
    /// Builds the store under a temporary name and gives it its own only when it is on disk. Whoever is first wins; the other's is dropped.
    static func make(_ path: String) throws(QueueError) {
        let temporary = Posix.temporaryName(for: path)
        defer { unlink(temporary) }
        try build(temporary)
        _ = try Posix.renameExclusively(temporary, path)
        try Posix.syncDirectory(of: path)
    }

    private static func build(_ path: String) throws(QueueError) {
        // Made here, because SQLite would make it readable for others.
        let descriptor = try Posix.makeFile(path)
        var isOpen = true
        defer { if isOpen { close(descriptor) } }
        var handle: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW
        var code = sqlite3_open_v2(path, &handle, flags, nil)
        let setup = [
            "PRAGMA journal_mode=MEMORY", "PRAGMA synchronous=OFF", "PRAGMA application_id=\(Schema.applicationID)",
            "PRAGMA user_version=\(Schema.version)", "BEGIN",
        ]
        for sql in setup + Schema.statements + ["COMMIT"] where code == SQLITE_OK {
            code = sqlite3_exec(handle, sql, nil, nil, nil)
        }
        let message = handle.map { String(cString: sqlite3_errmsg($0)) } ?? ""
        let closed = sqlite3_close(handle)
        guard code == SQLITE_OK, closed == SQLITE_OK else {
            throw QueueError(.storage, "\(path): \(message) (SQLite \(code))")
        }
        guard fsync(descriptor) == 0 else { throw QueueError(.storage, "flush of \(path): \(Posix.lastError())") }
        isOpen = false
        guard close(descriptor) == 0 else { throw QueueError(.storage, "\(path): \(Posix.lastError())") }
    }
}
