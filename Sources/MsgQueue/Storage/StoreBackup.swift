import CSQLite
import Glibc

/// A copy of the store while it runs, made step by step: what changes between two steps is in the copy, too. Each step, and the end of a
/// copy that is given up, is the store's business as every call is; the rest needs nobody to wait.
package final class StoreCopy {
    /// About two megabytes: a millisecond or two.
    private static let pagesPerStep: Int32 = 512

    private let path: String
    private let file: NewFile
    private let store: Store
    private var target: OpaquePointer?
    private var backup: OpaquePointer?
    /// What the copy says of itself.
    private var state = StoreState()

    /// Prepares a copy to the new file `given`.
    fileprivate init(of store: Store, to given: String) throws(QueueError) {
        path = try StorePath.resolve(given)
        self.store = store
        guard try StorePath.inspect(path) == nil else { throw QueueError(.conflict, "\(path) exists already") }
        file = try NewFile(for: path)
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW
        var code = sqlite3_open_v2(file.temporary, &target, flags, "unix-none")
        // It is flushed once, at its end, when nobody waits for it.
        if code == SQLITE_OK { code = sqlite3_exec(target, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF", nil, nil, nil) }
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

    /// Copies some more; false: that was all.
    package func step() throws(QueueError) -> Bool {
        guard let running = backup else { throw QueueError(.closed, "the queue was closed before the copy was complete") }
        let code = sqlite3_backup_step(running, Self.pagesPerStep)
        if code == SQLITE_OK { return true }
        backup = nil
        let finished = sqlite3_backup_finish(running)
        guard code == SQLITE_DONE, finished == SQLITE_OK else { throw problem(code == SQLITE_DONE ? finished : code) }
        state = store.stateOfCopy
        return false
    }

    /// Makes the complete copy a file of its own: closed, and with a generation that no log of the original fits.
    package func finish() throws(QueueError) {
        let code = sqlite3_exec(target, "PRAGMA journal_mode=DELETE; \(state.update)", nil, nil, nil)
        guard code == SQLITE_OK else { throw problem(code) }
        let closed = sqlite3_close(target)
        guard closed == SQLITE_OK else { throw problem(closed) }
        target = nil
        guard try file.finish(replacing: false) else { throw QueueError(.conflict, "\(path) exists already") }
    }

    /// Gives up what is not complete; what there is of it goes with this object.
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
