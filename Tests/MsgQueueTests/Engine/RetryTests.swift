import Testing

@testable import MsgQueue

/// Retries over a real file in virtual time, with a receiver in the process.
@Suite struct RetryTests {
    @Test func M4_the_ladder_is_5_30_and_120_seconds_from_its_first_step() throws {
        let bench = try EngineBench()
        bench.answer(.http(503), .retry(.network), .http(500), .retry(.timeout))
        let id = try bench.enqueue()
        try bench.poll()
        var starts = [bench.clock.wall]
        for delay in [Int64(5_000), 30_000, 120_000] {
            #expect(try bench.status(id) == .queued)
            #expect(try bench.engine.message(id: id).nextAttemptAt == bench.clock.wall + delay)
            let count = bench.deliveries.count
            // The engine checks at least once a minute. One millisecond before the end of the delay nothing has started.
            var left = delay - 1
            while left > 0 {
                try bench.pass(min(left, 60_000))
                left -= 60_000
            }
            #expect(bench.deliveries.count == count, "not before \(delay) ms")
            try bench.pass(1)
            #expect(bench.deliveries.count == count + 1)
            starts.append(bench.clock.wall)
        }
        #expect(try bench.status(id) == .failed)
        #expect(bench.deliveries.map(\.attempt) == [1, 2, 3, 4])
        #expect(bench.deliveries.allSatisfy { $0.id == id }, "the same id on every attempt")
        #expect(try bench.engine.attempts(id).map(\.startedAt) == starts)
        let changes = bench.changes(of: id).map(\.to)
        #expect(changes == [.queued, .sending, .queued, .sending, .queued, .sending, .queued, .sending, .failed])
    }

    @Test func X2_the_ledger_has_every_attempt_and_survives_a_restart() throws {
        let bench = try EngineBench { $0.backoff = .ladder([10, 10]) }
        bench.answer(.http(503, text: "busy"), Outcome(verdict: .offline, text: "no route"), .http(429, retryAfter: "1"), .http(201))
        let id = try bench.enqueue()
        try bench.poll()
        for _ in 0..<8 { try bench.pass(2_000) }
        func check() throws {
            let ledger = try bench.engine.attempts(id)
            #expect(ledger.map(\.number) == [1, 2, 3])
            #expect(ledger.map(\.result) == [.retry, .retry, .sent])
            #expect(ledger.map(\.kind) == [.server, .rateLimit, .none])
            #expect(ledger.map(\.code) == [503, 429, 201])
            #expect(ledger.map(\.arrival) == [.perhaps, .no, .yes])
            #expect(ledger.first?.text == "busy")
        }
        try check()
        try bench.reopen()
        try check()
        #expect(try bench.status(id) == .sent)
    }

    @Test func M11_a_message_that_was_not_sent_uses_up_no_retry() throws {
        let bench = try EngineBench { $0.backoff = .ladder([]) }
        let id = try bench.enqueue()
        bench.answer(.offline, .offline, .offline, .offline, .offline, .offline, .offline)
        try bench.poll()
        for _ in 0..<6 { try bench.pass(5_000) }
        #expect(bench.deliveries.count == 7)
        #expect(try bench.status(id) == .queued)
        #expect(try bench.engine.message(id: id).attempts == 0)
        try bench.pass(5_000)
        #expect(try bench.status(id) == .sent)
        #expect(try bench.engine.message(id: id).attempts == 1)
    }

    @Test func M5_an_exhausted_message_is_kept_or_discarded_with_an_event() throws {
        for discards in [false, true] {
            let bench = try EngineBench {
                $0.backoff = .ladder([10])
                $0.exhausted = discards ? .discard : .keep
            }
            bench.answer(.retry(.server, code: 500), .retry(.server, code: 502))
            let id = try bench.enqueue()
            try bench.poll()
            try bench.pass(10)
            if discards {
                #expect(refusal { _ = try bench.engine.message(id: id) } == .notFound)
                let discarded = bench.events.compactMap { if case .discarded(id, _, let failure) = $0 { failure } else { nil } }
                #expect(discarded.map(\.code) == [502])
                #expect(discarded.map(\.attempts) == [2])
            } else {
                #expect(try bench.status(id) == .failed)
                #expect(try bench.engine.message(id: id).failure?.code == 502)
            }
        }
    }

    @Test func M13_a_refused_message_is_kept_or_discarded_with_an_event() throws {
        for discards in [false, true] {
            let bench = try EngineBench { $0.refused = discards ? .discard : .keep }
            bench.answer(.http(404), .sent)
            let (id, next) = (try bench.enqueue("refused"), try bench.enqueue("next"))
            try bench.poll()
            let discarded = bench.events.compactMap { if case .discarded(id, _, let failure) = $0 { failure } else { nil } }
            if discards {
                #expect(refusal { _ = try bench.engine.message(id: id) } == .notFound)
                #expect(discarded.map(\.code) == [404])
                #expect(discarded.map(\.kind) == [.notFound])
            } else {
                #expect(try bench.status(id) == .failed)
                #expect(discarded.isEmpty)
            }
            #expect(try bench.status(next) == .sent)
        }
    }

    @Test func M13_expired_and_held_messages_are_never_discarded() throws {
        let bench = try EngineBench {
            $0.refused = .discard
            $0.holdInterrupted = true
            $0.mode = .manual
            $0.direct = false
        }
        let expired = try bench.enqueue("expires", expiresAt: bench.clock.wall + 1_000)
        try bench.pass(1_000)
        try bench.reportClock()
        #expect(try bench.status(expired) == .failed)
        bench.answer(.pending)
        let held = try bench.enqueue("held", "ben")
        try bench.engine.sendNow(held)
        try bench.poll()
        try bench.reopen()
        #expect(try bench.status(held) == .failed)
        #expect(try bench.engine.message(id: held).failure?.kind == .unknown)
        #expect(try bench.engine.counts(nil).failed == 2)
    }

    @Test func A2_a_message_queued_for_a_retry_blocks_its_conversation_also_after_a_restart() throws {
        let bench = try EngineBench()
        bench.answer(.http(503))
        try bench.enqueue("a1", "ana")
        try bench.poll()
        try bench.enqueue("a2", "ana")
        try bench.enqueue("b1", "ben")
        try bench.poll()
        #expect(bench.texts == ["a1", "b1"])
        try bench.reopen()
        try bench.poll()
        #expect(bench.texts == ["a1", "b1"])
        try bench.pass(5_000)
        #expect(bench.texts == ["a1", "b1", "a1", "a2"])
    }

    @Test func R1_R3_R8_a_failed_message_carries_its_failure_and_a_retry_ends_as_sent_or_failed() throws {
        let bench = try EngineBench { $0.mode = .manual }
        bench.answer(.retry(.network, code: 111, text: "connection refused"), .http(503, text: "still busy"))
        let id = try bench.enqueue()
        try bench.poll()
        let failure = try #require(try bench.engine.message(id: id).failure)
        #expect(
            failure
                == Failure(kind: .network, code: 111, text: "connection refused", at: bench.clock.wall, retryable: true, attempts: 1))
        try bench.engine.retry(id)
        try bench.poll()
        #expect(try bench.status(id) == .failed)
        #expect(try bench.engine.message(id: id).failure?.text == "still busy")
        #expect(bench.deliveries.last?.timeout == 3_000)
        try bench.engine.retry(id)
        try bench.poll()
        #expect(try bench.status(id) == .sent)
        #expect(try bench.engine.message(id: id).failure == nil)
        #expect(bench.deliveries.map(\.id) == [id, id, id])
        #expect(bench.deliveries.map(\.attempt) == [1, 2, 3])
        #expect(refusal { try bench.engine.retry(id) } == .conflict)
    }

    @Test func R17_what_failed_before_is_shown_until_the_message_is_sent_or_fails_for_another_reason() throws {
        let bench = try EngineBench { $0.mode = .manual }
        bench.answer(.reject(code: 422, text: "no such field"), .retry(.server))
        let id = try bench.enqueue()
        try bench.poll()
        let failure = try #require(try bench.engine.message(id: id).failure)
        #expect(try bench.engine.message(id: id).failureBefore == nil)
        try bench.engine.setNetwork(Network(connectivity: .offline))
        for _ in 0..<2 {
            try bench.engine.retry(id)
            try bench.poll()
            #expect(try bench.engine.message(id: id).failure?.kind == .offline)
            #expect(try bench.engine.message(id: id).failureBefore == failure)
            try bench.reopen()
            try bench.engine.setNetwork(Network(connectivity: .offline))
        }
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.engine.retry(id)
        try bench.poll()
        #expect(try bench.engine.message(id: id).failure?.kind == .server)
        #expect(try bench.engine.message(id: id).failureBefore == nil)
        try bench.engine.retry(id)
        try bench.poll()
        #expect(try bench.status(id) == .sent)
        #expect(try bench.engine.message(id: id).failureBefore == nil)
    }

    @Test func R8_X8_an_attempt_without_an_answer_ends_in_time_and_a_late_success_counts() throws {
        let bench = try EngineBench { $0.mode = .manual }
        bench.answer(.pending, .pending)
        let id = try bench.enqueue()
        try bench.poll()
        #expect(try bench.status(id) == .sending)
        try bench.pass(30_000)
        #expect(try bench.status(id) == .failed)
        #expect(try bench.engine.message(id: id).failure?.kind == .timeout)
        try bench.engine.retry(id)
        try bench.poll()
        try bench.pass(2_999)
        #expect(try bench.status(id) == .sending)
        try bench.pass(1)
        #expect(try bench.status(id) == .failed)
        // The answer of the first attempt is too late; the second is a success of the latest attempt.
        #expect(refusal { try bench.engine.complete(bench.deliveries[0].token, .sent) } == .conflict)
        try bench.engine.complete(bench.deliveries[1].token, .sent)
        #expect(try bench.status(id) == .sent)
        #expect(refusal { try bench.engine.complete(bench.deliveries[1].token, .sent) } == .conflict)
        #expect(refusal { try bench.engine.complete(999, .sent) } == .notFound)
    }

    @Test func D14_conflict_after_a_503_is_retried_and_a_first_one_is_final() throws {
        let bench = try EngineBench()
        bench.answer(.http(503, retryAfter: "20"), .http(409))
        let id = try bench.enqueue()
        try bench.poll()
        try bench.pass(20_000)
        #expect(try bench.status(id) == .queued)
        #expect(try bench.engine.message(id: id).failure?.kind == .server)
        try bench.pass(30_000)
        #expect(try bench.status(id) == .sent)
        bench.answer(.http(409))
        let other = try bench.enqueue()
        try bench.poll()
        #expect(try bench.status(other) == .failed)
        #expect(try bench.engine.message(id: other).failure?.kind == .rejected)
    }

    @Test func D14_a_late_409_counts_as_sent_only_with_conflict_is_sent() throws {
        for conflictIsSent in [false, true] {
            let bench = try EngineBench { $0.conflictIsSent = conflictIsSent }
            bench.answer(.pending)
            let id = try bench.enqueue()
            try bench.poll()
            try bench.pass(30_000)
            let token = try #require(bench.deliveries.first?.token)
            let answer = refusal { try bench.engine.complete(token, .http(409)) }
            #expect(answer == (conflictIsSent ? nil : .conflict))
            #expect(try bench.status(id) == (conflictIsSent ? .sent : .queued))
        }
    }

    @Test func M6_retry_after_delays_and_409_counts_as_sent() throws {
        let bench = try EngineBench { $0.conflictIsSent = true }
        bench.answer(.http(503, retryAfter: "20"), .http(409))
        let id = try bench.enqueue()
        try bench.poll()
        try bench.pass(19_999)
        #expect(bench.deliveries.count == 1)
        try bench.pass(1)
        #expect(try bench.status(id) == .sent, "the attempt with 503 may have arrived, and with conflictIsSent 409 then means that it did")
        // A 409 on the first attempt is final.
        bench.answer(.http(409))
        let other = try bench.enqueue()
        try bench.poll()
        #expect(try bench.status(other) == .failed)
    }

    @Test func X4_an_expired_message_is_failed_and_can_be_retried() throws {
        let bench = try EngineBench()
        try bench.engine.setNetwork(Network(connectivity: .offline))
        let id = try bench.enqueue(expiresAt: bench.clock.wall + 1_000)
        try bench.pass(1_001)
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.pass(60_000)
        #expect(bench.deliveries.isEmpty)
        #expect(try bench.status(id) == .failed)
        #expect(try bench.engine.message(id: id).failure?.kind == .expired)
        try bench.engine.retry(id)
        try bench.poll()
        #expect(try bench.status(id) == .sent)
    }

    /// They stay in the index of expiries, and each expiry of another message would read them all.
    @Test func X4_F8_an_expiry_does_not_read_the_expired_messages_that_were_put_back() throws {
        var work: [Int] = []
        for count in [100, 5_000] {
            let bench = try EngineBench { $0.callbacks = .pollWithTimer }
            try bench.engine.pause(nil)
            try bench.enqueueExpired(count)
            #expect(try bench.engine.counts(nil).failed == count)
            #expect(try bench.engine.retryAll(nil) == count)
            for _ in 0..<2 {
                let id = try bench.enqueue(expiresAt: bench.clock.wall + 1_000)
                var steps: [Int] = []
                bench.clock.advance(1_001)
                while try bench.status(id) == .queued, steps.count < 100 {
                    steps.append(try DatabaseWork.count(bench.engine.context.store) { try bench.reportClock() })
                }
                #expect(try bench.engine.message(id: id).failure?.kind == .expired)
                work.append(try #require(steps.max()))
            }
            #expect(try bench.engine.counts(nil).queued == count, "those that were put back do not expire again")
            // After another opening they are passed over, too.
            try bench.reopen()
            try bench.engine.pause(nil)
            let id = try bench.enqueue(expiresAt: bench.clock.wall + 1_000)
            bench.clock.advance(1_001)
            for _ in 0..<count / 64 + 4 { try bench.reportClock() }
            #expect(try bench.engine.message(id: id).failure?.kind == .expired)
            #expect(try bench.engine.counts(nil).queued == count)
        }
        #expect(work[3] < 3 * work[1], "\(work)")
    }

    @Test func R6_A9_only_allowed_changes_happen_and_receipts_only_move_forward() throws {
        let bench = try EngineBench { $0.backoff = .ladder([10, 10]) }
        bench.answer(.http(500), .offline, .http(404), .http(200))
        let ids = try (0..<3).map { try bench.enqueue("\($0)", Name("c\($0)")) }
        try bench.poll()
        for _ in 0..<5 { try bench.pass(5_000) }
        let sent = try #require(try ids.first { try bench.status($0) == .sent })
        let failed = try #require(try ids.first { try bench.status($0) == .failed })
        #expect(refusal { try bench.engine.mark(failed, as: .read) } == .conflict)
        #expect(refusal { try bench.engine.mark(sent, as: .sent) } == .invalid)
        try bench.engine.mark(sent, as: .read)
        try bench.engine.mark(sent, as: .delivered)
        try bench.engine.mark(sent, as: .read)
        try bench.poll()
        #expect(try bench.status(sent) == .read)
        #expect(bench.changes(of: sent).map(\.to).suffix(2) == [.sent, .read])
        for event in bench.events {
            guard case .status(let change) = event else { continue }
            guard let from = change.from else {
                #expect(change.to == .queued)
                continue
            }
            #expect(StatusRule.allows(from, change.to), "\(from) to \(change.to)")
        }
    }

    @Test func Q4_the_prompt_has_a_digest_and_a_drain_answers_it() throws {
        let bench = try EngineBench { $0.mode = .ask }
        try bench.engine.setNetwork(Network(connectivity: .offline))
        let first = bench.clock.wall
        try bench.enqueue("12345", "ana")
        try bench.pass(1_000)
        try bench.enqueue("123", "ben")
        try bench.enqueue("12", "ben")
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.pass(500)
        let prompts = bench.events.compactMap { if case .prompt(let prompt) = $0 { prompt } else { nil } }
        #expect(prompts == [Prompt(messages: 3, bytes: 10, oldestAt: first, conversations: 2, timeout: 10_000)])
        #expect(bench.deliveries.isEmpty)
        try bench.drain()
        #expect(bench.texts == ["12345", "123", "12"])
        #expect(bench.events.contains(.promptWithdrawn))
    }
}
