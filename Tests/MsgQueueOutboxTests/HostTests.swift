import CSQLite
import Foundation
import Glibc
import MsgQueue
import MsgQueueOutbox
import Testing

/// What stays the host's.
@Suite struct HostTests {
    private let directory: Directory

    init() throws { directory = try Directory() }

    @Test func T6_the_hooks_of_the_host_stay_and_are_called() async throws {
        let host = try HostDatabase.made(directory)
        let outbox = Outbox(connection: host.handle)
        let calls = UnsafeMutablePointer<Int32>.allocate(capacity: 3)
        calls.initialize(repeating: 0, count: 3)
        defer { calls.deallocate() }
        sqlite3_commit_hook(
            host.handle,
            {
                $0?.assumingMemoryBound(to: Int32.self).pointee += 1
                return 0
            }, calls)
        sqlite3_update_hook(host.handle, { context, _, _, _, _ in context?.assumingMemoryBound(to: Int32.self).pointee += 1 }, calls + 1)
        sqlite3_wal_hook(
            host.handle,
            { context, _, _, _ in
                context?.assumingMemoryBound(to: Int32.self).pointee += 1
                return SQLITE_OK
            }, calls + 2)
        let queue = try directory.queue()
        try outbox.put(MessageQueue.Draft("x"))
        #expect((calls[0], calls[1], calls[2]) == (1, 1, 1))
        #expect(try outbox.collect(into: queue) == 1)
        #expect(calls[0] == 3 && calls[1] > 1 && calls[2] == 3)
        #expect(sqlite3_commit_hook(host.handle, nil, nil) == UnsafeMutableRawPointer(calls))
        #expect(sqlite3_update_hook(host.handle, nil, nil) == UnsafeMutableRawPointer(calls + 1))
        try await queue.close()
    }

    /// The locks of a process on a file go when any of its descriptors of that file is closed.
    @Test func T6_the_locks_of_the_host_stay() async throws {
        let host = try HostDatabase.made(directory)
        let queue = try directory.queue()
        try Outbox(connection: host.handle).put(MessageQueue.Draft("before"))
        try host.run("BEGIN IMMEDIATE")
        try Outbox(connection: host.handle).put(MessageQueue.Draft("x"))
        let other = try HostDatabase(directory.host, journal: nil)
        #expect(failure { try Outbox(connection: other.handle).collect(into: queue) }?.code == .busy)
        let path = directory.host
        await #expect(processExitsWith: .success) { [path = path as String] in
            let host = try HostDatabase(path, journal: nil)
            let error = #expect(throws: HostDatabase.Failure.self) { try host.run("BEGIN IMMEDIATE") }
            #expect(error?.code == SQLITE_BUSY)
        }
        try host.run("COMMIT")
        #expect(try Outbox(connection: other.handle).collect(into: queue) == 2)
        try await queue.close()
    }

    /// The sources name every function of SQLite that the product may call.
    @Test func T6_the_product_calls_no_function_that_opens_closes_or_hooks() throws {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<3 { root.deleteLastPathComponent() }
        let folder = root.appendingPathComponent("Sources/MsgQueueOutbox")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        var called: Set<Substring> = []
        for file in files where file.pathExtension == "swift" {
            let code = try String(contentsOf: file, encoding: .utf8).split(separator: "\n").filter { !$0.contains("///") }
            for line in code {
                called.formUnion(line.matches(of: /sqlite3_(\w+)/).map(\.1))
                #expect(!line.hasPrefix("import Glibc") && !line.contains("dlsym"), "\(file.lastPathComponent)")
            }
        }
        #expect(
            called == [
                "prepare_v2", "step", "reset", "clear_bindings", "finalize", "bind_int64", "bind_text64", "bind_blob64", "column_type",
                "column_int64", "column_text", "column_blob", "column_bytes", "changes", "last_insert_rowid", "set_last_insert_rowid",
                "get_autocommit", "extended_errcode", "errmsg",
            ])
    }

    @Test func T6_a_connection_can_be_closed_because_no_statement_is_kept() async throws {
        var handle: OpaquePointer?
        try #require(sqlite3_open(directory.host, &handle) == SQLITE_OK)
        let connection = try #require(handle)
        try #require(sqlite3_exec(connection, Outbox.schema, nil, nil, nil) == SQLITE_OK)
        let queue = try directory.queue()
        let outbox = Outbox(connection: connection)
        try outbox.put(MessageQueue.Draft("x"))
        #expect(try outbox.collect(into: queue) == 1)
        #expect(sqlite3_close(connection) == SQLITE_OK)
        try await queue.close()
    }

    /// A second copy of SQLite in the process, as a custom build is.
    @Test func T6_another_SQLite_is_used_by_its_functions() async throws {
        typealias Open = @convention(c) (UnsafePointer<CChar>?, UnsafeMutablePointer<OpaquePointer?>?) -> Int32
        typealias Execute = @convention(c) (OpaquePointer?, UnsafePointer<CChar>?, OpaquePointer?, OpaquePointer?, OpaquePointer?) -> Int32
        let read = try #require(try FileHandle(forReadingAtPath: "/proc/self/maps")?.readToEnd())
        let maps = String(decoding: read, as: UTF8.self)
        let line = try #require(maps.split(separator: "\n").first { $0.contains("/libsqlite3.so") })
        let original = String(try #require(line.split(separator: " ").last))
        let copy = "\(directory.path)/libother.so"
        try FileManager.default.copyItem(atPath: original, toPath: copy)
        let library = try #require(dlopen(copy, RTLD_NOW | RTLD_LOCAL | 0x8))
        func function<T>(_ name: String, _: T.Type = T.self) throws -> T {
            unsafeBitCast(try #require(dlsym(library, "sqlite3_\(name)")), to: T.self)
        }
        let (open, execute) = (try function("open", Open.self), try function("exec", Execute.self))
        let close = try function("close", Outbox.SQLite.Call.self)
        let other = Outbox.SQLite(
            prepare: try function("prepare_v2"), step: try function("step"), reset: try function("reset"),
            clearBindings: try function("clear_bindings"), finalize: try function("finalize"), bindInt64: try function("bind_int64"),
            bindText64: try function("bind_text64"), bindBlob64: try function("bind_blob64"), columnType: try function("column_type"),
            columnInt64: try function("column_int64"), columnText: try function("column_text"), columnBlob: try function("column_blob"),
            columnBytes: try function("column_bytes"), changes: try function("changes"),
            lastInsertRowid: try function("last_insert_rowid"), setLastInsertRowid: try function("set_last_insert_rowid"),
            getAutocommit: try function("get_autocommit"),
            extendedErrcode: try function("extended_errcode"), errmsg: try function("errmsg"))
        var handle: OpaquePointer?
        try #require(open(directory.host, &handle) == SQLITE_OK)
        let connection = try #require(handle)
        try #require(execute(connection, Outbox.schema, nil, nil, nil) == SQLITE_OK)
        let queue = try directory.queue()
        let outbox = Outbox(connection: connection, sqlite: other)
        try outbox.put(MessageQueue.Draft("x", id: "a"))
        #expect(failure { try outbox.put(MessageQueue.Draft("x", id: "a")) }?.code == .duplicate)
        #expect(try outbox.collect(into: queue) == 1)
        #expect(try queue.ids == ["a"] && close(connection) == SQLITE_OK)
        try await queue.close()
    }
}
