import CSQLite

/// The mutexes that all SQLite connections of a process share: of memory, of the page cache, of the list of open files. If another thread
/// holds one during a fork, nothing releases it in the child, which would deadlock when it opens its first store.
package enum SharedLocks {
    /// In SQLite's lock order.
    private static let kinds = [
        SQLITE_MUTEX_STATIC_PRNG, SQLITE_MUTEX_STATIC_OPEN, SQLITE_MUTEX_STATIC_MASTER, SQLITE_MUTEX_STATIC_VFS1,
        SQLITE_MUTEX_STATIC_VFS2, SQLITE_MUTEX_STATIC_VFS3, SQLITE_MUTEX_STATIC_LRU, SQLITE_MUTEX_STATIC_PMEM, SQLITE_MUTEX_STATIC_MEM,
    ]

    /// Returns a static mutex, which exists from the start.
    private static func lock(_ kind: Int32) -> OpaquePointer? { sqlite3_mutex_alloc(kind) }

    package static func lockAll() { for kind in kinds { sqlite3_mutex_enter(lock(kind)) } }
    package static func unlockAll() { for kind in kinds.reversed() { sqlite3_mutex_leave(lock(kind)) } }
}
