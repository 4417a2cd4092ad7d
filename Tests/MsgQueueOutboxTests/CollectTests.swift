import CSQLite
import Foundation
import MsgQueue
import MsgQueueOutbox
import Testing

/// From the outbox into the queue.
@Suite struct CollectTests {
    private let directory: Directory
    private let host: HostDatabase
    private let outbox: Outbox

    init() throws {
        directory = try Directory()
        host = try HostDatabase.made(directory)
        outbox = Outbox(connection: host.handle, sqlite: .watched)
    }

    // MARK: Exactly once

    @Test func T3_collect_is_refused_inside_a_transaction() async throws {
        try host.order(["a"], outbox)
        let queue = try directory.queue()
        for (begin, end) in [("BEGIN", "COMMIT"), ("BEGIN IMMEDIATE", "ROLLBACK"), ("SAVEPOINT s", "RELEASE s")] {
            try host.run(begin)
            #expect(failure { try outbox.collect(into: queue) }?.code == .conflict)
            try host.run(end)
        }
        #expect(failure { try outbox.collect(into: queue, limit: 0) }?.code == .invalid)
        #expect(try host.waiting == ["a"])
        #expect(try outbox.collect(into: queue) == 1)
        try await queue.close()
    }

    @Test(arguments: ["WAL", "DELETE"], 0...3)
    func T3_every_commit_of_collect_is_flushed(journal: String, level: Int) async throws {
        let directory = try Directory()
        let host = try HostDatabase.made(directory, journal: journal)
        let outbox = Outbox(connection: host.handle, sqlite: .watched)
        try host.order(["a"], outbox)
        try host.run("PRAGMA synchronous=\(level)")
        let queue = try directory.queue { $0.limitMessages = 1 }
        var (commits, sizes, levels) = ([Int](), [Int](), [String]())
        let watcher = Watcher { sql in
            guard sql == "COMMIT" else { return }
            levels += try host.column("PRAGMA synchronous")
            sizes.append(directory.logSize)
            // Every other statement has ended: an open one would keep the log from being reused.
            var statement = sqlite3_next_stmt(host.handle, nil)
            while statement != nil {
                #expect(sqlite3_stmt_busy(statement) == 0)
                statement = sqlite3_next_stmt(host.handle, statement)
            }
        } after: { sql in
            if sql == "COMMIT" { commits.append(directory.logSize) }
        }
        #expect(try Watcher.$current.withValue(watcher) { try outbox.collect(into: queue) } == 1)
        #expect(watcher.error == nil && levels == ["3", "3"])
        // Also the first commit writes, so that it flushes the commits before it.
        if journal == "WAL" { #expect(zip(sizes, commits).allSatisfy { $0 < $1 } && commits.count == 2) }
        #expect(try host.column("PRAGMA synchronous") == ["\(level)"])

        // An error changes that no more than a success.
        try host.order(["b"], outbox)
        #expect(failure { try outbox.collect(into: queue) }?.code == .full)
        #expect(try host.column("PRAGMA synchronous") == ["\(level)"] && sqlite3_get_autocommit(host.handle) == 1)
        try await queue.close()
        #expect(failure { try outbox.collect(into: queue) }?.code == .closed)
    }

    @Test func T3_a_collect_that_finds_nothing_writes_nothing() async throws {
        try host.order(["a"], outbox)
        let queue = try directory.queue()
        #expect(try outbox.collect(into: queue) == 1)
        let other = try HostDatabase(directory.host, journal: nil)
        let before = (try other.column("PRAGMA data_version"), directory.logSize)
        #expect(try outbox.collect(into: queue) == 0)
        #expect((try other.column("PRAGMA data_version"), directory.logSize) == before)
        try await queue.close()
    }

    /// Another collector of the same database runs before each transaction of the first one.
    @Test(arguments: [1, 2])
    func T3_two_collectors_of_one_database_do_no_harm(transaction: Int) async throws {
        let ids = ["a", "b", "c"]
        try host.order(ids, outbox)
        let queue = try directory.queue { $0.rememberIDs = .zero }
        let other = try HostDatabase(directory.host, journal: nil)
        var (begun, moved) = (0, -1)
        let watcher = Watcher { sql in
            guard sql == "BEGIN IMMEDIATE" else { return }
            begun += 1
            guard begun == transaction else { return }
            try queue.clear()
            moved = try Outbox(connection: other.handle).collect(into: queue)
        }
        let error = failure { _ = try Watcher.$current.withValue(watcher) { try outbox.collect(into: queue) } }
        #expect(error?.code == .conflict && watcher.error == nil)
        #expect(moved == (transaction == 1 ? 3 : 0))
        // In the second case they were cleared after they had been taken over.
        #expect(try queue.ids == (transaction == 1 ? ids : []))
        #expect(try outbox.collect(into: queue) == 0 && host.waiting.isEmpty)
        #expect(try queue.ids == (transaction == 1 ? ids : []))
        try await queue.close()
    }

    @Test func T3_a_full_queue_takes_what_it_has_room_for_and_loses_nothing() async throws {
        try host.order(["a", "b", "c"], outbox)
        let queue = try directory.queue { $0.limitMessages = 2 }
        for _ in 0..<2 {
            #expect(failure { try outbox.collect(into: queue) }?.code == .full)
            #expect(try host.waiting == ["c"] && queue.ids == ["a", "b"])
        }
        try queue.clear()
        #expect(try outbox.collect(into: queue) == 1)
        #expect(try queue.ids == ["c"] && host.waiting.isEmpty)
        try await queue.close()
    }

    @Test func T3_what_a_collector_in_another_language_has_taken_over_is_deleted_in_batches() async throws {
        let ids = (0..<2500).map { "id \($0)" }
        try host.order(ids, outbox)
        let source = try #require(try host.column("SELECT source FROM msgq_outbox_store").first)
        let queue = try directory.queue { $0.rememberIDs = .zero }
        let look = try queue.handedOver(source: source)
        try queue.takeOver(ids.prefix(2400).map { MessageQueue.Draft("x", id: $0) }, look)
        try queue.clear()
        #expect(try outbox.collect(into: queue) == 100)
        #expect(try queue.ids == Array(ids.suffix(100)) && host.waiting.isEmpty)
        try await queue.close()
    }

    // MARK: Order

    @Test func T4_eight_writers_are_collected_as_they_committed() async throws {
        let path = directory.host
        let queue = try directory.queue()
        try host.run("PRAGMA busy_timeout=30000")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<8 {
                group.addTask {
                    let host = try HostDatabase(path, journal: nil)
                    try host.run("PRAGMA busy_timeout=30000")
                    let outbox = Outbox(connection: host.handle)
                    for number in 0..<40 {
                        try host.order(["\(writer).\(number) a", "\(writer).\(number) b"], conversation: "c\(number % 3)", outbox)
                        await Task.yield()
                    }
                }
            }
            for _ in 0..<10 {
                try outbox.collect(into: queue, limit: 7)
                await Task.yield()
            }
            try await group.waitForAll()
        }
        while try outbox.collect(into: queue, limit: 100) > 0 {}
        let committed = try host.column("SELECT id FROM orders ORDER BY rowid")
        #expect(committed.count == 640)
        #expect(try queue.ids == committed)
        try await queue.close()
    }

    @Test func T4_a_limit_leaves_the_rest_in_order() async throws {
        let ids = (0..<2300).map { "id \($0)" }
        try host.order(ids, outbox)
        let queue = try directory.queue()
        #expect(try outbox.collect(into: queue, limit: 1) == 1)
        #expect(try outbox.collect(into: queue, limit: 2100) == 2100)
        #expect(try host.waiting == Array(ids.suffix(199)))
        #expect(try outbox.collect(into: queue) == 199)
        let listed = try queue.ids
        let rest = try queue.list(MessageQueue.Filter(after: queue.message(id: "id 999").sequence, limit: 1000)).map(\.id)
        #expect(listed + rest == Array(ids.prefix(2000)))
        try await queue.close()
    }

    @Test func T4_large_bodies_are_collected_in_rounds() async throws {
        let body = [UInt8](repeating: 7, count: 6 << 20)
        for number in 0..<5 { try outbox.put(MessageQueue.Draft(body, id: "\(number)")) }
        let queue = try directory.queue { $0.limitBody = 8 << 20 }
        var rounds = 0
        let watcher = Watcher { sql in if sql == "COMMIT" { rounds += 1 } }
        #expect(try Watcher.$current.withValue(watcher) { try outbox.collect(into: queue) } == 5)
        #expect(rounds == 3)
        #expect(try queue.list().map(\.body) == [[UInt8]?](repeating: body, count: 5))
        try await queue.close()
    }
}
