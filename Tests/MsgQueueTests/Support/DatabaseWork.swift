import CSQLite
import Glibc

@testable import MsgQueue

/// Measures the work of SQLite in instructions of its virtual machine, which do not depend on the speed of the machine.
enum DatabaseWork {
    private static let instructions: Int32 = 50

    /// Runs `body` and returns about how many instructions it took.
    static func count(_ store: Store, _ body: () throws -> Void) rethrows -> Int {
        let calls = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        calls.initialize(to: 0)
        defer { calls.deallocate() }
        sqlite3_progress_handler(
            store.database.handle, instructions,
            { context in
                context?.assumingMemoryBound(to: Int.self).pointee += 1
                return 0
            }, calls)
        defer { sqlite3_progress_handler(store.database.handle, 0, nil, nil) }
        try body()
        return calls.pointee * Int(instructions)
    }

    /// Runs `body` and returns how many statements it executed.
    static func statements(_ store: Store, _ body: () throws -> Void) rethrows -> Int {
        let count = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        count.initialize(to: 0)
        defer { count.deallocate() }
        sqlite3_trace_v2(
            store.database.handle, UInt32(SQLITE_TRACE_STMT),
            { _, context, _, _ in
                context?.assumingMemoryBound(to: Int.self).pointee += 1
                return 0
            }, count)
        defer { sqlite3_trace_v2(store.database.handle, 0, nil, nil) }
        try body()
        return count.pointee
    }

    /// Runs `body` while each read takes more than a millisecond, as on a thread that is interrupted meanwhile.
    static func slowed(_ store: Store, _ body: () throws -> Void) rethrows {
        sqlite3_progress_handler(
            store.database.handle, 5,
            { _ in
                usleep(1_200)
                return 0
            }, nil)
        defer { sqlite3_progress_handler(store.database.handle, 0, nil, nil) }
        try body()
    }

    /// How many pages the connection of the store has read from the files since it was opened or was asked last.
    static func pagesRead(_ store: Store) -> Int { pages(store, resetting: false) {} }

    /// Runs `body` and returns how many pages it read from the files.
    static func pages(_ store: Store, resetting: Bool = true, _ body: () throws -> Void) rethrows -> Int {
        var (count, highest): (Int32, Int32) = (0, 0)
        if resetting { sqlite3_db_status(store.database.handle, SQLITE_DBSTATUS_CACHE_MISS, &count, &highest, 1) }
        try body()
        sqlite3_db_status(store.database.handle, SQLITE_DBSTATUS_CACHE_MISS, &count, &highest, 1)
        return Int(count)
    }
}
