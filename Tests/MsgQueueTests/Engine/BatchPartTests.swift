import Glibc
import Testing

@testable import MsgQueue

/// A large batch begins in parts, between which other calls have their turn; then one call of the transport has all of them.
@Suite struct BatchPartTests {
    private func bench(_ count: Int, conversations: Int = 1_000, durable: Bool = false) throws -> EngineBench {
        let bench = try EngineBench { ($0.mode, $0.direct, $0.durableOutcomes) = (.manual, false, durable) }
        // The text of each is its number, in four digits.
        let texts = (0..<count).map { String($0 + 10_000).dropFirst() }
        try Array(texts.joined().utf8).withUnsafeBytes { bytes in
            let drafts = (0..<count).map { number in
                BorrowedDraft(
                    id: nil, conversation: Name("c\(number % conversations)"),
                    body: UnsafeRawBufferPointer(rebasing: bytes[4 * number..<4 * number + 4]),
                    metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false)
            }
            _ = try bench.engine.enqueue(DraftBatch(count: count) { Array(drafts[$0]) })
        }
        return bench
    }

    /// Takes batches of up to `most` messages and notes their texts.
    private func connect(_ bench: EngineBench, _ log: Log, most: Int32 = 1_000) throws {
        var limits = BatchLimits()
        limits.maxMessages = Int(most)
        try bench.engine.setTransport(
            Registration(
                .batch(
                    { deliveries, _ in
                        log.add(deliveries.map(\.text))
                        return deliveries.map { _ in .sent }
                    }, limits)))
    }

    private final class Log: @unchecked Sendable {
        private let mutex = Mutex()
        private var batches: [[String]] = []
        func add(_ texts: [String]) { mutex.withLock { batches.append(texts) } }
        var all: [[String]] { mutex.withLock { batches } }
    }

    /// Performs a call of another thread when the attempt with this number is chosen, before the part that it belongs to is committed.
    private final class Meanwhile: DecisionObserver, @unchecked Sendable {
        private let lock: TurnLock
        private let place: Int
        private let call: @Sendable () -> Void
        private var count = 0
        private(set) var thread: EngineThread?

        init(_ lock: TurnLock, at place: Int, _ call: @escaping @Sendable () -> Void) {
            (self.lock, self.place, self.call) = (lock, place, call)
        }

        func begins(_ start: Core.Start) {
            count += 1
            guard count == place else { return }
            thread = EngineThread("test", call)
            while lock.waiting.callers == 0 { usleep(200) }
        }

        func records(_ fact: Fact) {}
    }

    @Test(arguments: [false, true]) func F9_a_large_batch_begins_256_at_a_time(durable: Bool) throws {
        let (bench, log) = (try bench(600, durable: durable), Log())
        try connect(bench, log)
        let before = try bench.withStore { $0.commits }
        try bench.drain()
        #expect(log.all.map(\.count) == [600])
        #expect(try bench.engine.counts(nil).sent == 600)
        // Of the beginnings, and of the outcomes in parts of 64, or of 128 if each is flushed.
        #expect(try bench.withStore { $0.commits } - before == 3 + (durable ? 5 : 10))
        let changes = bench.changes()
        #expect(changes.filter { $0.to == .sending }.count == 600 && changes.filter { $0.to == .sent }.count == 600)
    }

    /// The parts are chosen one after another, and each has messages of all conversations.
    @Test func F9_a_batch_that_begins_in_parts_has_the_messages_of_a_conversation_together() throws {
        let (bench, log) = (try bench(600, conversations: 3), Log())
        try connect(bench, log)
        try bench.drain()
        let numbers = try #require(log.all.first).compactMap { Int($0) }
        #expect(numbers == (0..<3).flatMap { first in stride(from: first, to: 600, by: 3) })
    }

    private enum Call: CaseIterable { case pause, transport, offline, close }

    /// Messages whose attempt had begun are queued again, as if it had not.
    @Test(arguments: Call.allCases) private func F9_what_forbids_a_batch_that_begins_in_parts_prevents_its_call(call: Call) throws {
        let (bench, log) = (try bench(600), Log())
        try connect(bench, log)
        let engine = bench.engine
        let meanwhile = Meanwhile(engine.context.lock, at: 300) {
            switch call {
            case .pause: try? engine.pause(nil)
            case .transport: try? engine.setTransport(nil)
            case .offline: try? engine.setNetwork(Network(connectivity: .offline))
            case .close: _ = try? engine.close(timeout: 0)
            }
        }
        engine.context.observer = meanwhile
        try engine.drain(batch: 0, timeout: nil) { _ in }
        do throws(QueueError) { while try engine.runCallbacks(timeout: 0) > 0 {} } catch {
            #expect(call == .close && error.code == .closed)
        }
        meanwhile.thread?.join()
        engine.context.observer = nil
        #expect(log.all.isEmpty)
        if call == .close { try bench.reopen { _ in } }
        let counts = try bench.engine.counts(nil)
        #expect(counts.queued == 600 && counts.sending == 0)
        let first = try bench.engine.list(Filter(limit: 1_000))
        #expect(first.allSatisfy { $0.attempts == 0 && $0.status == .queued })
        if call == .pause { try bench.engine.resume(nil) }
        if call == .offline { try bench.engine.setNetwork(Network(connectivity: .online)) }
        try connect(bench, log)
        try bench.drain()
        #expect(log.all.map(\.count) == [600])
    }

    /// An enqueue runs between two parts; its message belongs to the next batch, or to this one.
    @Test func F9_an_enqueue_runs_between_two_parts_of_a_batch() throws {
        let (bench, log) = (try bench(1_000), Log())
        try connect(bench, log)
        let meanwhile = Meanwhile(bench.engine.context.lock, at: 10) { _ = try? bench.enqueue("late", "late") }
        bench.engine.context.observer = meanwhile
        try bench.engine.drain(batch: 0, timeout: nil) { _ in }
        try bench.poll()
        meanwhile.thread?.join()
        bench.engine.context.observer = nil
        try bench.drain()
        #expect(log.all.map(\.count) == [1_000, 1])
        let changes = bench.changes()
        let late = try #require(changes.firstIndex { $0.conversation == "late" })
        #expect(changes[..<late].count { $0.to == .sending } == 256)
    }

    /// The store is repaired, and the rest follows.
    @Test func F9_a_store_that_rejects_a_later_part_sends_the_parts_before_it() throws {
        let (bench, log) = (try bench(600), Log())
        try connect(bench, log)
        final class Refusal: DecisionObserver {
            let database: Database
            var count = 0
            init(_ database: Database) { self.database = database }
            func begins(_ start: Core.Start) {
                count += 1
                guard count == 400 else { return }
                try? database.execute(
                    "CREATE TEMP TRIGGER refusal BEFORE INSERT ON main.in_flight BEGIN SELECT raise(ABORT, 'no'); END")
            }
            func records(_ fact: Fact) {}
        }
        let refusal = Refusal(try bench.withStore { $0.database })
        bench.engine.context.observer = refusal
        try bench.engine.drain(batch: 0, timeout: nil) { _ in }
        try bench.poll()
        bench.engine.context.observer = nil
        #expect(log.all.first?.count == 256)
        try bench.withStore { try $0.database.execute("DROP TRIGGER IF EXISTS refusal") }
        try bench.pass(60_000)
        try bench.drain()
        let texts = log.all.flatMap { $0 }
        #expect(texts.count == 600 && Set(texts).count == 600)
        #expect(try bench.engine.counts(nil).sent == 600)
    }

    /// The index knows 16 messages of a conversation. When they are used up, each further message needs a read.
    @Test(arguments: [0, 1] as [Int64]) func F9_reads_for_a_batch_that_take_long_are_done_in_parts(step: Int64) throws {
        let (bench, log) = (try bench(4_000, conversations: 200), Log())
        try connect(bench, log, most: 200)
        bench.clock.step = step
        let before = try bench.withStore { $0.commits }
        try bench.drain()
        bench.clock.step = 0
        #expect(log.all.map(\.count) == Array(repeating: 200, count: 20))
        let commits = try bench.withStore { $0.commits } - before
        // One for the beginnings of each batch and four for its outcomes; if reads take long, more than one in those that need them.
        if step == 0 { #expect(commits == 100) } else { #expect(commits > 100) }
    }
}
