import Testing

@testable import MsgQueue

/// The search for messages that may start, in a large backlog.
@Suite struct SearchTests {
    private let directory = TemporaryDirectory()

    private func enqueue(_ engine: Engine, _ conversation: Name, count: Int = 1) throws {
        try [UInt8]("hello".utf8).withUnsafeBytes { body in
            let draft = BorrowedDraft(
                id: nil, conversation: conversation, body: body, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false)
            _ = try engine.enqueue(DraftBatch(count: count) { places in places.map { _ in draft } })
        }
    }

    /// Each request that ends reads its message.
    @Test func Q6_F8_many_manual_requests_do_not_end_in_one_step() async throws {
        var options = Options()
        options.mode = .manual
        let engine = try Engine.open(path: directory.store, options: options)
        for _ in 0..<5 { try enqueue(engine, "ana", count: 1_000) }
        let isHeld = Semaphore()
        try engine.setTransport(
            Registration({ _ in
                isHeld.wait()
                return .sent
            }))
        func requests() -> Int { engine.context.lock.withLock { engine.context.core.scheduler.requests.count } }
        for message in try engine.list(Filter(limit: 1_000)).dropFirst() { try engine.sendNow(message.id) }
        let before = requests()
        try engine.pause(nil)
        let after = requests()
        #expect(before >= 990 && after > 0 && after < before, "\(before), \(after)")
        #expect(await eventually { requests() == 0 })
        try engine.setTransport(nil)
        for _ in 0..<8 { isHeld.post() }
        _ = try engine.close(timeout: 5_000)
    }

    /// The first prompt of a session reads the sizes of the failed messages, further ones do not.
    @Test func Q4_F8_a_prompt_does_not_read_the_failed_messages_again() throws {
        var work: [Int] = []
        for count in [100, 5_000] {
            let bench = try EngineBench { ($0.mode, $0.direct) = (.ask, false) }
            try bench.enqueueExpired(count)
            try bench.enqueue("seven b")
            func prompts() -> [Prompt] { bench.events.compactMap { if case .prompt(let prompt) = $0 { prompt } else { nil } } }
            for _ in 0..<2 {
                let before = prompts().count
                try bench.engine.setNetwork(Network(connectivity: .offline))
                try bench.pass(1_000)
                try bench.engine.setNetwork(Network(connectivity: .online))
                bench.clock.advance(1_000)
                work.append(try DatabaseWork.count(bench.engine.context.store) { for _ in 0..<20 { try bench.reportClock() } })
                #expect(prompts().count == before + 1)
                #expect(prompts().last?.messages == 1 && prompts().last?.bytes == 7)
            }
        }
        #expect(work[3] < 2 * work[1], "\(work)")
    }

    /// All messages belong to a conversation whose first one is being sent, so that the whole backlog is read.
    @Test(arguments: [false, true])
    func A11_F8_callers_need_not_wait_until_a_large_backlog_is_read(isBatch: Bool) async throws {
        var options = Options()
        (options.mode, options.maxInFlight) = (.auto, 4)
        let engine = try Engine.open(path: directory.store, options: options)
        for _ in 0..<60 { try enqueue(engine, "busy", count: 1_000) }
        let isHeld = Semaphore()
        var limits = BatchLimits()
        (limits.maxMessages, limits.maxBatches) = (10, 4)
        try engine.setTransport(
            isBatch
                ? Registration(
                    batches: limits,
                    { deliveries in
                        isHeld.wait()
                        return deliveries.map { _ in Outcome(verdict: .sent) }
                    })
                : Registration({ _ in
                    isHeld.wait()
                    return .sent
                }))
        var enqueued = 0
        while !engine.context.lock.withLock({ engine.context.core.scheduler.lanes.reading.isComplete }) {
            try enqueue(engine, "busy")
            enqueued += 1
        }
        #expect(enqueued >= 5)
        try engine.setTransport(nil)
        for _ in 0..<8 { isHeld.post() }
        _ = try engine.close(timeout: 5_000)
    }
}
