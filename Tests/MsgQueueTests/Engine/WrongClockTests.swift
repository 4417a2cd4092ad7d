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

    // MARK: A plausible clock that is set

    /// Months before `today`: what a device shows that stored the time when it was shut down.
    private static let stale: Int64 = today - 240 * Options.day

    private func enqueue(
        _ bench: EngineBench, _ conversation: Name = "ana", id: String? = nil, expiresAt: Int64 = 0, delay: Int64 = 0, expiry: Int64 = 0
    ) throws -> String {
        try Array("body".utf8).withUnsafeBytes { body in
            var draft = BorrowedDraft(
                id: id, conversation: conversation, body: body, metadata: [], notBefore: 0, expiresAt: expiresAt, unmeteredOnly: false)
            (draft.delay, draft.expiry) = (delay, expiry)
            return try bench.engine.enqueue(DraftBatch(draft)).ids()[0]
        }
    }

    @Test(arguments: [240, -240]) func X4_a_duration_is_measured_by_the_boot_clock_when_the_clock_is_set(days: Int64) throws {
        let bench = try bench { $0.expiry = Self.hour }
        bench.clock.setWall(Self.stale)
        let byOption = try enqueue(bench)
        let byDraft = try enqueue(bench, "ben", expiry: Self.hour)
        let delayed = try enqueue(bench, "cid", delay: Self.hour / 2, expiry: Self.hour / 2)
        let all = [byOption, byDraft, delayed]
        try bench.pass(Self.hour / 6)
        bench.clock.shiftWall(days * Options.day)
        try look(bench)
        try bench.pass(Self.hour / 6 * 5 - 1_000)
        try look(bench)
        #expect(try all.map(bench.status) == [.queued, .queued, .queued])
        // The host sees them by the clock as it is set now.
        for id in all { #expect(try abs(bench.engine.message(id: id).expiresAt - bench.clock.wall - 1_000) < 1_000) }
        try bench.pass(2_000)
        try look(bench)
        #expect(try all.map(bench.status) == [.failed, .failed, .failed])
        #expect(try bench.engine.message(id: byDraft).failure?.kind == .expired)
    }

    @Test func X4_a_small_step_moves_no_duration() throws {
        let bench = try bench { $0.expiry = Self.hour }
        for shift in [30_000, -30_000] as [Int64] {
            let id = try enqueue(bench)
            bench.clock.shiftWall(shift)
            try bench.pass(Self.hour - 1_000)
            try look(bench)
            #expect(try bench.status(id) == .queued)
            try bench.pass(2_000)
            try look(bench)
            #expect(try bench.status(id) == .failed)
        }
    }

    @Test func X4_after_a_step_and_a_reboot_the_rest_of_a_duration_is_left() throws {
        let bench = try bench { $0.expiry = Options.day }
        bench.clock.setWall(Self.stale)
        let plain = try enqueue(bench)
        let delayed = try enqueue(bench, "ben", delay: 2 * Options.day)
        try bench.pass(Self.hour)
        bench.clock.shiftWall(240 * Options.day)
        try look(bench)
        bench.clock.reboot(after: Self.hour)
        try bench.reopen()
        try look(bench)
        try bench.drain()
        #expect(try [plain, delayed].map(bench.status) == [.sent, .queued])
        try bench.pass(2 * Options.day - 2 * Self.hour - 1_000)
        try bench.drain()
        #expect(try bench.status(delayed) == .queued)
        try bench.pass(2_000)
        try bench.drain()
        #expect(try bench.status(delayed) == .sent)
    }

    @Test func X4_a_step_while_the_queue_is_closed_moves_no_duration() throws {
        let bench = try bench { $0.expiry = Self.hour }
        bench.clock.setWall(Self.stale)
        let id = try enqueue(bench)
        bench.close()
        bench.clock.shiftWall(240 * Options.day)
        try bench.reopen()
        try look(bench)
        #expect(try bench.status(id) == .queued)
        try bench.pass(Self.hour)
        try look(bench)
        #expect(try bench.status(id) == .failed)
    }

    @Test func X4_an_expiry_at_a_time_is_still_decided_by_the_wall_clock() throws {
        let bench = try bench()
        bench.clock.setWall(Self.stale)
        let id = try enqueue(bench, expiresAt: Self.today)
        bench.clock.setWall(Self.today + 1)
        try look(bench)
        #expect(try bench.status(id) == .failed)
    }

    @Test(arguments: [stale, year1970]) func X4_a_delay_is_measured_by_the_boot_clock(wall: Int64) throws {
        let bench = try bench()
        bench.clock.setWall(wall)
        let id = try enqueue(bench, delay: Self.hour)
        bench.clock.setWall(Self.today)
        try look(bench)
        try bench.drain()
        #expect(try bench.status(id) == .queued)
        #expect(try abs(bench.engine.message(id: id).notBefore - Self.today - Self.hour) < 1_000)
        try bench.pass(Self.hour)
        try bench.drain()
        #expect(try bench.status(id) == .sent)
    }

    @Test func F1_an_age_is_not_measured_across_a_step_of_the_clock() throws {
        let bench = try bench { ($0.keepSentFor, $0.rememberIDs) = (30 * Options.day, 60 * Options.day) }
        // Before the device was shut down.
        bench.clock.setWall(Self.stale - 900 * Options.day)
        let old = try enqueue(bench, id: "old")
        try bench.drain()
        bench.clock.reboot(after: 900 * Options.day)
        try bench.reopen()
        let sent = try enqueue(bench, id: "sent")
        try bench.drain()
        bench.clock.shiftWall(240 * Options.day)
        try bench.pass(120_000)
        try look(bench)
        #expect(try bench.status(sent) == .sent)
        #expect(throws: QueueError.self) { try bench.status(old) }
        // Another boot, in which the clock is nearly right.
        bench.clock.reboot(after: 0)
        try bench.reopen()
        bench.clock.shiftWall(300_000)
        try bench.pass(29 * Options.day)
        try look(bench)
        #expect(try bench.status(sent) == .sent)
        try bench.pass(2 * Options.day)
        try look(bench)
        try bench.pass(120_000)
        try look(bench)
        #expect(throws: QueueError.self) { try bench.status(sent) }
        #expect(throws: QueueError.self) { try enqueue(bench, id: "sent") }
        try bench.pass(62 * Options.day)
        try look(bench)
        _ = try enqueue(bench, id: "sent")
    }

    // MARK: Remembered ids

    @Test(arguments: [true, false]) func F2_an_id_removed_under_a_wrong_clock_is_remembered_when_it_is_set(isNamed: Bool) throws {
        let bench = try bench { ($0.keepSent, $0.rememberIDs) = (0, Options.day) }
        bench.clock.setWall(Self.year1970)
        let id = try enqueue(bench, id: isNamed ? "named" : nil)
        try bench.drain()
        #expect(throws: QueueError.self) { try bench.status(id) }
        // In another boot, so that nothing but the time itself says that it is wrong.
        bench.clock.reboot(after: 0)
        bench.clock.setWall(Self.today)
        try bench.reopen()
        try bench.pass(120_000)
        try look(bench)
        #expect(throws: QueueError.self) { try enqueue(bench, id: id) }
        try bench.pass(Options.day / 2)
        try look(bench)
        #expect(throws: QueueError.self) { try enqueue(bench, id: id) }
        try bench.pass(Options.day)
        try look(bench)
        #expect(try enqueue(bench, id: id) == id)
    }

    // MARK: Retry-After

    @Test(arguments: [false, true]) func M6_a_date_of_a_receiver_says_nothing_while_the_clock_is_wrong(isForQueue: Bool) throws {
        let bench = try bench { $0.backoff = .ladder([1_000, 1_000]) }
        bench.clock.setWall(Self.year1970)
        var outcome = Outcome.http(503, retryAfter: "Wed, 15 Nov 2023 22:00:00 GMT")
        outcome.retryAfterIsForQueue = isForQueue
        bench.answer(outcome)
        let id = try enqueue(bench)
        try bench.drain()
        #expect(try bench.engine.message(id: id).attempts == 1)
        try bench.pass(2_000)
        try bench.drain()
        #expect(try bench.status(id) == .sent)
        // By a clock that is right the date counts.
        bench.clock.setWall(Self.today)
        bench.answer(outcome)
        let later = try enqueue(bench, "ben")
        try bench.drain()
        try bench.pass(2_000)
        try bench.drain()
        #expect(try bench.status(later) == .queued)
    }
}
