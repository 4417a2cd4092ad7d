import Glibc
import Testing

@testable import MsgQueue

/// An event handler that does not return.
@Suite struct HungHandlerTests {
    private final class Gate: @unchecked Sendable {
        private let mutex = Mutex()
        private var isShut = true
        private var entered = 0
        private var reports: [Report] = []

        func pass() {
            mutex.withLock { entered += 1 }
            while mutex.withLock({ isShut }) { usleep(1_000) }
        }

        func open() { mutex.withLock { isShut = false } }
        func note(_ report: Report) { mutex.withLock { reports.append(report) } }
        var isEntered: Bool { mutex.withLock { entered > 0 } }
        var told: [Report] { mutex.withLock { reports } }
    }

    @Test func Q5_a_drain_is_reported_once_and_the_queue_closes() async throws {
        let directory = TemporaryDirectory()
        let gate = Gate()
        var options = Options()
        options.mode = .manual
        options.direct = false
        let engine = try Engine(path: directory.store, options: options)
        try engine.setHandler(Registration({ _, _ in gate.pass() }))
        try engine.setTransport(Registration({ _ in .sent }))
        try Array("hello".utf8).withUnsafeBytes { bytes in
            let draft = BorrowedDraft(
                id: "1", conversation: "ana", body: bytes, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false)
            _ = try engine.enqueue(DraftBatch(draft))
        }
        #expect(await eventually { gate.isEntered })
        try engine.drain(batch: 0, timeout: nil) { result in
            if case .success(let report) = result { gate.note(report) }
        }
        #expect(try await eventually { try engine.counts(nil).sent == 1 }, "no call waits for the handler")
        let isQuiet = try await onThread { try engine.close(timeout: 50) == .complete }
        #expect(!isQuiet)
        #expect(gate.told == [Report(stop: .empty, sent: 1)])
        gate.open()
        let next = try MessageQueue(path: directory.store)
        #expect(try next.message(id: "1").status == MessageStatus.sent)
        try await next.close()
        #expect(gate.told.count == 1)
    }
}
