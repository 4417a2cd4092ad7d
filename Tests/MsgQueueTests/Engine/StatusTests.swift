import Testing

@testable import MsgQueue

/// Each allowed change of status, observed as an event, in virtual time.
@Suite struct StatusTests {
    private struct Move: Hashable, CustomStringConvertible {
        let from: MessageStatus
        let to: MessageStatus

        init(_ from: MessageStatus, _ to: MessageStatus) { (self.from, self.to) = (from, to) }

        var description: String { "\(from) to \(to)" }
    }

    private func moves(_ bench: EngineBench, of id: String? = nil) -> [Move] {
        bench.changes(of: id).compactMap { change in change.from.map { Move($0, change.to) } }
    }

    @Test func R6_every_allowed_change_of_status_happens_and_no_other() throws {
        let bench = try EngineBench { ($0.backoff, $0.onlineDebounce) = (.ladder([600_000]), 0) }
        try receipts(bench)
        try retries(bench)
        try lateSuccesses(bench)
        try expiry(bench)
        let allowed = MessageStatus.allCases.flatMap { from in
            MessageStatus.allCases.filter { StatusRule.allows(from, $0) }.map { Move(from, $0) }
        }
        #expect(Set(moves(bench)) == Set(allowed))
    }

    private func receipts(_ bench: EngineBench) throws {
        for receipts in [[MessageStatus.delivered, .read, .delivered], [.read]] {
            let id = try bench.enqueue()
            try bench.poll()
            for receipt in receipts { try bench.engine.mark(id, as: receipt) }
            try bench.poll()
            #expect(try bench.status(id) == .read)
        }
    }

    private func retries(_ bench: EngineBench) throws {
        bench.answer(.http(400), .http(503))
        let id = try bench.enqueue()
        try bench.poll()
        try bench.engine.retry(id)
        try bench.poll()
        #expect(try bench.engine.retryAll(nil) == 1)
        try bench.poll()
        let tos: [MessageStatus] = [.sending, .failed, .sending, .failed, .queued, .sending, .sent]
        #expect(moves(bench, of: id) == zip([.queued] + tos, tos).map(Move.init))
        bench.answer(.http(503))
        let busy = try bench.enqueue("busy", "busy")
        try bench.poll()
        #expect(moves(bench, of: busy) == [.init(.queued, .sending), .init(.sending, .queued)])
    }

    /// The answer arrives after the attempt has timed out.
    private func lateSuccesses(_ bench: EngineBench) throws {
        bench.answer(.pending)
        let waiting = try bench.enqueue("late", "late")
        try bench.poll()
        try bench.pass(30_000)
        try bench.engine.complete(try #require(bench.deliveries.last).token, .sent)
        try bench.poll()
        #expect(moves(bench, of: waiting).suffix(2) == [.init(.sending, .queued), .init(.queued, .sent)])

        bench.answer(.http(400), .pending)
        let failed = try bench.enqueue("later", "later")
        try bench.poll()
        try bench.engine.retry(failed)
        try bench.poll()
        try bench.pass(3_000)
        try bench.engine.complete(try #require(bench.deliveries.last).token, .sent)
        try bench.poll()
        #expect(moves(bench, of: failed).suffix(2) == [.init(.sending, .failed), .init(.failed, .sent)])
    }

    private func expiry(_ bench: EngineBench) throws {
        try bench.engine.setNetwork(Network(connectivity: .offline))
        let id = try bench.enqueue("expires", "expires", expiresAt: bench.clock.wall + 1_000)
        try bench.pass(1_000)
        try bench.reportClock()
        #expect(moves(bench, of: id) == [.init(.queued, .failed)])
    }
}
