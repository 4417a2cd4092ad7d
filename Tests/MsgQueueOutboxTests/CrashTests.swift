import Foundation
import MsgQueue
import MsgQueueOutbox
import Testing

/// A process that is killed at every step.
@Suite struct CrashTests {
    private static let orders = ["a", "b", "c"]

    /// The moments at which a process can be killed: it is killed at the one with this number.
    private final class Moments: @unchecked Sendable {
        private let last: Int?
        private(set) var count = 0

        init(killAt last: Int? = nil) { self.last = last }

        func pass() {
            count += 1
            if count == last { kill(getpid(), SIGKILL) }
        }

        /// A moment before each step of the outbox, and one after each end of a transaction.
        func during(_ body: () throws -> Void) throws {
            let watcher = Watcher { _ in
                self.pass()
            } after: { sql in
                if sql == "COMMIT" { self.pass() }
            }
            try Watcher.$current.withValue(watcher, operation: body)
        }
    }

    private static func open(_ directory: Directory, _ deliveries: Deliveries? = nil) throws -> MessageQueue {
        try directory.queue {
            ($0.rememberIDs, $0.keepSent) = (.zero, 0)
        } transport: { delivery in
            await deliveries?.append(delivery.id)
            return .sent
        }
    }

    // MARK: Putting

    private static func put(_ directory: Directory, _ moments: Moments) throws {
        let host = try HostDatabase(directory.host, journal: nil)
        let outbox = Outbox(connection: host.handle, sqlite: .watched)
        moments.pass()
        try host.run("BEGIN IMMEDIATE")
        moments.pass()
        try host.run("INSERT INTO orders VALUES ('a')")
        try moments.during { try outbox.put(MessageQueue.Draft("x", id: "a")) }
        moments.pass()
        try host.run("COMMIT")
        moments.pass()
    }

    @Test func T1_T3_a_kill_while_putting_leaves_both_or_neither() async throws {
        let counted = Moments()
        let whole = try Directory()
        _ = try HostDatabase.made(whole)
        try Self.put(whole, counted)
        try #require(counted.count == 5)
        for number in 1...counted.count {
            let directory = try Directory()
            _ = try HostDatabase.made(directory)
            let path = directory.path
            await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, number = number as Int] in
                try CrashTests.put(Directory(at: path), Moments(killAt: number))
            }
            let host = try HostDatabase(directory.host, journal: nil)
            let expected = number == counted.count ? ["a"] : []
            #expect(try host.column("SELECT id FROM orders") == expected && host.waiting == expected, "killed at \(number)")
        }
    }

    // MARK: Collecting

    private actor Deliveries {
        private(set) var ids: [String] = []
        func append(_ id: String) { ids.append(id) }
    }

    /// What becomes of the messages that the queue has after the kill.
    private enum Fate: CaseIterable { case none, deleted, cleared, sent }

    private static func collect(_ directory: Directory, _ moments: Moments) throws {
        let host = try HostDatabase(directory.host, journal: nil)
        let queue = try open(directory)
        let outbox = Outbox(connection: host.handle, sqlite: .watched)
        try moments.during { try outbox.collect(into: queue, limit: 2) }
        moments.pass()
        withExtendedLifetime(host) {}
    }

    private static func prepared(_ journal: String) throws -> Directory {
        let directory = try Directory()
        let host = try HostDatabase.made(directory, journal: journal)
        try host.order(orders, Outbox(connection: host.handle))
        return directory
    }

    @Test(arguments: ["WAL", "DELETE"])
    func T3_a_kill_at_every_step_of_collect_loses_and_repeats_nothing(journal: String) async throws {
        let counted = Moments()
        try Self.collect(try Self.prepared(journal), counted)
        try #require(counted.count > 15)
        for number in 1...counted.count {
            let directory = try Self.prepared(journal)
            let path = directory.path
            await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, number = number as Int] in
                try CrashTests.collect(Directory(at: path), Moments(killAt: number))
            }
            for fate in Fate.allCases { try await verify(try directory.copied(), fate, "killed at \(number), then \(fate)") }
        }
    }

    private func verify(_ directory: Directory, _ fate: Fate, _ comment: Comment) async throws {
        let deliveries = Deliveries()
        let queue = try Self.open(directory, deliveries)
        let taken = try queue.ids
        switch fate {
        case .none: break
        case .deleted: for id in taken { try queue.delete(id) }
        case .cleared: try queue.clear()
        case .sent: try await queue.drain()
        }
        let host = try HostDatabase(directory.host, journal: nil)
        let outbox = Outbox(connection: host.handle)
        try outbox.collect(into: queue)
        let rest = Self.orders.filter { !taken.contains($0) }
        #expect(try queue.ids == (fate == .none ? Self.orders : rest), comment)
        #expect(try host.waiting.isEmpty, comment)
        #expect(try outbox.collect(into: queue) == 0, comment)
        try await queue.drain()
        #expect(await deliveries.ids == (fate == .none || fate == .sent ? Self.orders : rest), comment)
        try await queue.close()
    }
}
