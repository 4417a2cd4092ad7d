import Testing

@testable import MsgQueue

/// A wall clock that is plainly wrong, as at the start of a device without a battery, and is set later.
@Suite struct WrongClockTests {
    private static let hour: Int64 = 3_600_000
    private static let year1970: Int64 = 5_000
    private static let today: Int64 = 1_700_000_000_000

    private func bench(_ change: (inout Options) -> Void = { _ in }) throws -> EngineBench {
        try EngineBench {
            ($0.mode, $0.direct) = (.manual, false)
            change(&$0)
        }
    }

    private func look(_ bench: EngineBench) throws { for _ in 0..<4 { try bench.reportClock() } }

    @Test func X4_a_time_to_live_begun_by_a_wrong_clock_is_measured_by_the_boot_clock() throws {
        let bench = try bench { $0.expiry = Self.hour }
        bench.clock.setWall(Self.year1970)
        let byOption = try bench.enqueue("1", "ana")
        let byHost = try bench.enqueue("2", "ben", expiresAt: bench.clock.wall + Self.hour)
        try bench.pass(Self.hour / 6)
        bench.clock.setWall(Self.today)
        try look(bench)
        #expect(try [byOption, byHost].map(bench.status) == [.queued, .queued])
        try bench.pass(Self.hour / 6 * 5 - 1_000)
        try look(bench)
        #expect(try [byOption, byHost].map(bench.status) == [.queued, .queued])
        try bench.pass(2_000)
        try look(bench)
        #expect(try [byOption, byHost].map(bench.status) == [.failed, .failed])
        #expect(try bench.engine.message(id: byHost).failure?.kind == .expired)
    }

    /// Also many in one transaction.
    @Test func X4_a_batch_enqueued_by_a_wrong_clock_does_not_expire_when_the_clock_is_set() throws {
        let bench = try bench { $0.expiry = Self.hour }
        bench.clock.setWall(Self.year1970)
        try Array("old".utf8).withUnsafeBytes { body in
            let draft = BorrowedDraft(
                id: nil, conversation: "ana", body: body, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false)
            _ = try bench.engine.enqueue(DraftBatch(count: 200) { places in places.map { _ in draft } })
        }
        bench.clock.setWall(Self.today)
        for _ in 0..<8 { try bench.reportClock() }
        #expect(try bench.engine.counts(nil).queued == 200)
        try bench.drain()
        #expect(try bench.engine.counts(nil).sent == 200)
    }

    @Test func X4_after_a_restart_the_time_to_live_begins_again() throws {
        let bench = try bench { $0.expiry = Self.hour }
        bench.clock.setWall(Self.year1970)
        let id = try bench.enqueue()
        bench.clock.reboot(after: 0)
        bench.clock.setWall(Self.today)
        try bench.reopen()
        try look(bench)
        try bench.pass(Self.hour - 1_000)
        try look(bench)
        #expect(try bench.status(id) == .queued)
        try bench.pass(2_000)
        try look(bench)
        #expect(try bench.status(id) == .failed)
    }

    @Test func X4_while_the_clock_is_wrong_nothing_expires_and_nothing_is_pruned() throws {
        let bench = try bench { $0.keepSentFor = Options.day }
        let sent = try bench.enqueue("1", "ana")
        try bench.drain()
        let expiring = try bench.enqueue("2", "ben", expiresAt: bench.clock.wall + Self.hour)
        bench.clock.setWall(Self.year1970)
        try bench.pass(40 * Options.day)
        try look(bench)
        #expect(try bench.status(expiring) == .queued)
        #expect(try bench.status(sent) == .sent)
        bench.clock.setWall(Self.today + 40 * Options.day)
        try bench.pass(60_000)
        try look(bench)
        #expect(try bench.status(expiring) == .failed)
        #expect(throws: QueueError.self) { try bench.status(sent) }
    }

    @Test func F1_history_of_a_wrong_clock_is_removed_with_what_came_after_it() throws {
        let bench = try bench { $0.keepSentFor = Options.day }
        bench.clock.setWall(Self.year1970)
        let old = try bench.enqueue("1")
        try bench.drain()
        bench.clock.setWall(Self.today)
        try bench.pass(120_000)
        try look(bench)
        #expect(try bench.status(old) == .sent)
        let new = try bench.enqueue("2")
        try bench.drain()
        try bench.pass(2 * Options.day)
        try look(bench)
        try bench.pass(120_000)
        try look(bench)
        #expect(throws: QueueError.self) { try bench.status(new) }
        #expect(throws: QueueError.self) { try bench.status(old) }
    }

    @Test func X4_a_message_stamped_in_the_future_does_not_stop_the_expiry_of_others() throws {
        let bench = try bench { $0.expiry = Self.hour }
        bench.clock.setWall(4_000_000_000_000)
        try bench.enqueue("future", "ana")
        bench.clock.setWall(Self.today)
        let id = try bench.enqueue("now", "ben")
        try bench.pass(Self.hour + 1_000)
        try look(bench)
        #expect(try bench.status(id) == .failed)
    }
}
