import CSQLite

/// The locks that all of SQLite's connections in a process share: of its memory, its page cache, its list of open files. Another thread may
/// hold one at the instant of a fork, and the child, where that thread is not, would wait for it for ever with its first store.
package enum SharedLocks {
    /// In the order in which SQLite itself takes one inside the other.
    private static let kinds = [
        SQLITE_MUTEX_STATIC_PRNG, SQLITE_MUTEX_STATIC_OPEN, SQLITE_MUTEX_STATIC_MASTER, SQLITE_MUTEX_STATIC_VFS1,
        SQLITE_MUTEX_STATIC_VFS2, SQLITE_MUTEX_STATIC_VFS3, SQLITE_MUTEX_STATIC_LRU, SQLITE_MUTEX_STATIC_PMEM, SQLITE_MUTEX_STATIC_MEM,
    ]

    /// Static ones are there already: this looks them up.
    private static func lock(_ kind: Int32) -> OpaquePointer? { sqlite3_mutex_alloc(kind) }

    package static func lockAll() { for kind in kinds { sqlite3_mutex_enter(lock(kind)) } }
    package static func unlockAll() { for kind in kinds.reversed() { sqlite3_mutex_leave(lock(kind)) } }
}
