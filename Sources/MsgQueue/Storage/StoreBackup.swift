import CSQLite
import Glibc

/// An online copy of the store, made in steps. Changes between two steps are included. The initialiser, `step` and `abandon` use the store
/// and need the engine's lock; `finish` does not.
package final class StoreCopy {
    /// The pages that one step copies, under the engine's lock: less than a millisecond.
    private static let pagesPerStep: Int32 = 128
    /// The copy is flushed after so many steps. Where much is written and not flushed, the kernel lets each write wait, also those under the
    /// engine's lock, and the flushes of the log.
    private static let stepsPerFlush = 128

    private let path: String
    private let file: NewFile
    private let store: Store
    private var target: OpaquePointer?
    private var backup: OpaquePointer?
    private var steps = 0
    /// The row of the table `state` in the copy.
    private var state = StoreState()

    /// Begins a copy to the new file `given`.
    fileprivate init(of store: Store, to given: String) throws(QueueError) {
        path = try StorePath.resolve(given)
        self.store = store
        try StorePath.inspectNew(path)
        file = try NewFile(for: path)
        var code = connect()
        if code == SQLITE_OK {
            backup = sqlite3_backup_init(target, "main", store.database.handle, "main")
            if backup == nil { code = sqlite3_errcode(target) }
        }
        guard code == SQLITE_OK else {
            let error = problem(code)
            abandon()
            throw error
        }
    }

    /// Opens the copy. The file is flushed once, by `finish`, without the engine's lock. A journal would be a second file, which a killed
    /// process leaves.
    private func connect() -> Int32 {
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW
        let code = sqlite3_open_v2(file.temporary, &target, flags, "unix-none")
        guard code == SQLITE_OK else { return code }
        return sqlite3_exec(
            target, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY", nil, nil, nil)
    }

    private func disconnect() throws(QueueError) {
        let code = sqlite3_close(target)
        guard code == SQLITE_OK else { throw problem(code) }
        target = nil
    }

    /// Copies the next pages. Returns false when the copy is complete.
    package func step() throws(QueueError) -> Bool {
        guard let running = backup else { throw QueueError(.closed, "the queue was closed before the copy was complete") }
        let code = sqlite3_backup_step(running, Self.pagesPerStep)
        steps += 1
        if code == SQLITE_OK { return true }
        backup = nil
        let finished = sqlite3_backup_finish(running)
        guard code == SQLITE_DONE, finished == SQLITE_OK else { throw problem(code == SQLITE_DONE ? finished : code) }
        state = store.state.copy
        return false
    }

    /// Flushes what was copied, if it is much. Without the engine's lock.
    package func flushPart() throws(QueueError) {
        guard steps >= Self.stepsPerFlush else { return }
        steps = 0
        // A later flush would not report the same error again.
        try Posix.sync(file.descriptor, path)
    }

    /// Finishes the complete copy: marks it as closed, with a new generation so that no log of the original belongs to it.
    package func finish() throws(QueueError) {
        try disconnect()
        // SQLite would make a log beside a file whose header selects one.
        try Posix.write(file.descriptor, at: StoreCreation.walMode.offset, [1, 1], path)
        var code = connect()
        if code == SQLITE_OK { code = sqlite3_exec(target, state.update, nil, nil, nil) }
        guard code == SQLITE_OK else { throw problem(code) }
        try disconnect()
        guard try file.finish(replacing: false) else { throw QueueError(.conflict, "\(path) already exists") }
    }

    /// Cancels an incomplete copy and removes its temporary file.
    package func abandon() {
        if let running = backup { sqlite3_backup_finish(running) }
        backup = nil
        if let open = target { sqlite3_close(open) }
        target = nil
        file.abandon()
    }

    private func problem(_ code: Int32) -> QueueError {
        let message = target.map { String(cString: sqlite3_errmsg($0)) } ?? ""
        return QueueError(.storage, "copy to \(path): \(message) (SQLite \(code))")
    }
}

extension Store {
    package func copy(to path: String) throws(QueueError) -> StoreCopy { try StoreCopy(of: self, to: path) }
}
