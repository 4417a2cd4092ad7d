import Testing

@testable import MsgQueue

/// Reads never write: they perform no due step and commit nothing.
@Suite struct ReadingTests {
    private static let day = Options.day

    /// Returns the content of the store and of its side files.
    private func files(of bench: EngineBench) throws -> [[UInt8]] {
        try ["", "-wal"].map { try FileBytes.read(bench.directory.store + $0) }
    }

    private func readAll(_ bench: EngineBench, _ id: String) throws {
        let engine = bench.engine
        _ = try engine.message(id: id)
        _ = try engine.list(Filter(statuses: .all, limit: 100))
        _ = try engine.counts(nil)
        _ = try engine.counts("ana")
        _ = try engine.conversations(before: 0, limit: 100)
        _ = try engine.attempts(id)
        _ = try engine.explain(id)
        _ = try engine.statistics()
        _ = try engine.state()
        _ = try engine.banner(nil)
        _ = try engine.banner("ana")
    }

    @Test func Q20_reading_ends_no_attempt_and_writes_nothing() throws {
        let bench = try EngineBench { $0.callbacks = .pollWithTimer }
        bench.answer(by: { _ in .pending })
        let id = try bench.enqueue()
        let expiring = try bench.enqueue("later", "ana", expiresAt: bench.clock.wall + 10_000)
        try bench.poll()
        #expect(try bench.status(id) == .sending)
        // The attempt is overdue, and a message has expired; only reads are made.
        bench.clock.advance(Self.day)
        let (before, waiting) = (try files(of: bench), bench.engine.events.waiting)
        for _ in 0..<3 { try readAll(bench, id) }
        #expect(try files(of: bench) == before)
        #expect(bench.engine.events.waiting == waiting)
        #expect(try bench.status(id) == .sending)
        #expect(try bench.engine.state().inFlight == 1)
        // The next step ends the attempt and the message.
        try bench.poll()
        #expect(bench.changes(of: id).contains { $0.failure?.kind == .timeout })
        try bench.reportClock()
        #expect(try bench.status(expiring) == .failed)
    }

    /// Nobody else does, if the host does not poll.
    @Test func X7_in_a_queue_without_threads_what_is_overdue_is_performed_before_a_read() throws {
        let bench = try EngineBench()
        bench.answer(by: { _ in .pending })
        let id = try bench.enqueue()
        let expiring = try bench.enqueue("later", "ana", expiresAt: bench.clock.wall + 10_000)
        try bench.poll()
        bench.clock.advance(Self.day)
        #expect(try bench.engine.state().inFlight == 0)
        #expect(try bench.status(id) != .sending)
        #expect(try bench.status(expiring) == .failed)
    }

    @Test func Q20_reading_inside_a_callback_starts_no_attempt() throws {
        let bench = try EngineBench { ($0.jitter, $0.callbacks) = (0, .pollWithTimer) }
        bench.answer(.retry(.network))
        let first = try bench.enqueue("1", "ana")
        try bench.poll()
        #expect(bench.texts == ["1"])
        let hasStart = Mutexed(true)
        let isWritten = Mutexed(true)
        bench.answer(by: { [unowned bench] delivery in
            guard delivery.text == "2" else { return .sent }
            // The retry of the first message is due; a step would start it.
            bench.clock.advance(Self.day)
            do {
                let before = try files(of: bench)
                for _ in 0..<3 { try readAll(bench, first) }
                isWritten.set(try files(of: bench) != before)
            } catch {
                Issue.record(error)
            }
            hasStart.set(bench.engine.context.lock.withLock { bench.engine.context.hasStart })
            return .sent
        })
        try bench.enqueue("2", "ben")
        try bench.poll()
        #expect(!hasStart.value)
        #expect(!isWritten.value)
        #expect(bench.texts == ["1", "2", "1"])
        #expect(try bench.engine.counts(nil).sent == 2)
    }

    /// Damage that a read finds is reported, although no step is performed.
    @Test func Q20_an_event_caused_by_a_read_makes_a_polled_queue_readable() throws {
        let bench = try EngineBench()
        try bench.poll()
        try bench.engine.reading { () throws(QueueError) in bench.engine.events.emit(.storage(QueueError(.corrupt, "damage"))) }
        #expect(bench.engine.poll?.hasWork == true)
        try bench.poll()
        #expect(bench.events.contains(.storage(QueueError(.corrupt, "damage"))))
    }

    /// A value that the thread of the transport sets.
    private final class Mutexed: @unchecked Sendable {
        private let mutex = Mutex()
        private var current: Bool

        init(_ value: Bool) { current = value }

        var value: Bool { mutex.withLock { current } }
        func set(_ value: Bool) { mutex.withLock { current = value } }
    }
}
