import Testing

@testable import MsgQueue

@Suite struct OutcomeRuleTests {
    private let now: Int64 = 1_700_000_000_000

    private func options(_ change: (inout Options) -> Void = { _ in }) -> Options {
        var options = Options()
        change(&options)
        return options
    }

    private func trial(_ number: UInt32 = 1, by hand: Hand = .none) -> Trial {
        Trial(number: number, hand: hand, startedAt: now - 40, duration: 40)
    }

    private func resolve(
        _ judgement: Judgement, _ trial: Trial, of before: Progress = Progress(), _ options: Options = Options(),
        returnedAt: Int64 = .min
    ) -> Resolution {
        OutcomeRule.resolve(
            judgement, trial, of: before, policy: RetryPolicy(options), discardExhausted: options.exhausted == .discard,
            discardRefused: options.refused == .discard, pauseOnUnauthorized: options.pauseOnUnauthorized,
            now: Moment(wall: now, mono: 7_000), boot: 3, returnedAt: returnedAt, random: 0.5)
    }

    private func server(_ after: Int64? = nil) -> Judgement { .retry(.server, code: 503, text: "busy", after: after) }

    // MARK: Outcomes of an ordinary attempt

    @Test func Q9_a_success_is_sent_with_its_times_and_without_a_ledger_row() {
        let end = resolve(.sent(code: 202), trial(3))
        #expect(end.fate == .sent)
        #expect(end.progress.status == .sent)
        #expect(end.progress.attempts == 3)
        #expect(end.progress.sentAt == now)
        #expect(end.progress.sentDuration == 40)
        #expect(end.progress.sentCode == 202)
        #expect(end.progress.lastAttemptAt == now - 40)
        #expect(end.attempt == nil)
        #expect(!end.isOffline)
    }

    @Test func F11_a_success_is_plain_if_nothing_else_of_the_message_changes() {
        #expect(resolve(.sent(code: 202), trial()).isPlainSuccess(of: Progress()))
        #expect(!resolve(server(), trial()).isPlainSuccess(of: Progress()))
        for change: (inout Progress) -> Void in [
            { $0.attempts = 1 }, { $0.dueAt = 5 }, { $0.waitsForNetwork = true }, { $0.round = 2 }, { $0.isRetriedByHand = true },
            { $0.status = .failed },
        ] {
            var before = Progress()
            change(&before)
            #expect(!resolve(.sent(code: 202), trial(), of: before).isPlainSuccess(of: before))
        }
        var delivered = resolve(.sent(code: 202), trial())
        delivered.progress = StatusRule.sent(delivered.progress, receipt: .delivered)
        #expect(!delivered.isPlainSuccess(of: Progress()))
    }

    @Test func M4_a_retryable_failure_is_queued_in_its_place_until_the_next_step() {
        var progress = Progress()
        for (step, delay) in [Int64(5_000), 30_000, 120_000].enumerated() {
            let end = resolve(server(), trial(UInt32(step) + 1), of: progress)
            #expect(end.fate == .queued)
            #expect(end.progress.status == .queued)
            #expect(end.progress.dueAt == now + delay)
            #expect(end.progress.dueDelay == delay)
            #expect(end.progress.retriesUsed == step + 1)
            #expect(end.progress.attempts == UInt32(step) + 1)
            #expect(end.attempt?.result == .retry)
            progress = end.progress
        }
        let last = resolve(server(), trial(4), of: progress)
        #expect(last.fate == .failed)
        #expect(last.progress.status == .failed)
        #expect(last.progress.dueAt == 0)
        #expect(last.failure?.attempts == 4)
    }

    @Test func M4_the_delay_is_stored_for_both_clocks() {
        let end = resolve(server(), trial())
        #expect(end.progress.due == Due(at: now + 5_000, delay: 5_000, boot: 3, uptime: 12_000))
        #expect(!end.progress.waitsForNetwork)
    }

    @Test func M9_a_network_failure_is_retried_when_the_network_returns() {
        func failed(_ kind: FailureKind, _ wish: Int64? = nil, returnedAt: Int64 = .min) -> Progress {
            resolve(.retry(kind, code: 0, text: "", after: wish), trial(), returnedAt: returnedAt).progress
        }
        #expect(failed(.network).waitsForNetwork && failed(.offline).waitsForNetwork)
        #expect(!failed(.timeout).waitsForNetwork && !failed(.rateLimit).waitsForNetwork)
        #expect(!failed(.network, 1_000).waitsForNetwork, "a delay of a receiver is kept")
        #expect(!failed(.network, returnedAt: 7_000).waitsForNetwork, "one return ends one delay")
        #expect(!resolve(.sent(code: 0), trial(2), of: failed(.network)).progress.waitsForNetwork)
    }

    @Test func M5_an_exhausted_message_is_failed_or_discarded() {
        let none = options { $0.maxRetries = 0 }
        #expect(resolve(server(), trial(), none).fate == .failed)
        let discarding = options {
            $0.maxRetries = 0
            $0.exhausted = .discard
        }
        let end = resolve(server(), trial(), discarding)
        #expect(end.fate == .discarded)
        #expect(end.failure?.kind == .server)
    }

    @Test func M5_the_option_exhausted_does_not_discard_final_failures() {
        let discarding = options { $0.exhausted = .discard }
        #expect(resolve(.reject(.rejected, code: 400, text: ""), trial(), discarding).fate == .failed)
        #expect(resolve(server(), trial(), discarding).fate == .queued)
    }

    @Test func M13_the_option_refused_discards_only_refused_messages() {
        let discarding = options { $0.refused = .discard }
        let end = resolve(.reject(.notFound, code: 404, text: ""), trial(3), discarding)
        #expect(end.fate == .discarded)
        #expect(end.failure == Failure(kind: .notFound, code: 404, text: "", at: now, retryable: false, attempts: 3))
        let none = options {
            $0.refused = .discard
            $0.maxRetries = 0
        }
        #expect(resolve(server(), trial(), none).fate == .failed, "its retries are used up, for which there is another option")
        #expect(resolve(.offline(text: ""), trial(), discarding).fate == .queued)
        #expect(resolve(.sent(code: 0), trial(), discarding).fate == .sent)
        #expect(resolve(.reject(.rejected, code: 400, text: ""), trial(by: .sendNow), discarding).fate == .discarded)
        #expect(resolve(.reject(.rejected, code: 400, text: ""), trial(by: .retry), discarding).fate == .failed)
    }

    @Test func M13_M7_pause_on_unauthorized_takes_precedence_over_discarding() {
        let both = options {
            $0.refused = .discard
            $0.pauseOnUnauthorized = true
        }
        let end = resolve(.reject(.unauthorized, code: 401, text: ""), trial(), both)
        #expect(end.fate == .queued)
        #expect(end.pausesQueue)
        #expect(resolve(.reject(.notFound, code: 404, text: ""), trial(), both).fate == .discarded)
    }

    @Test func M13_a_message_cleared_during_its_attempt_is_deleted_not_discarded() {
        var before = Progress()
        before.doomed = true
        let discarding = options { $0.refused = .discard }
        #expect(resolve(.reject(.rejected, code: 400, text: ""), trial(), of: before, discarding).fate == .deleted)
    }

    @Test func M13_M5_the_log_line_of_a_discarded_message_has_kind_and_code() {
        func line(_ text: String, attempts: UInt32) -> String {
            LogText.discarded("a", Failure(kind: .rateLimit, code: 429, text: text, at: now, retryable: true, attempts: attempts))
        }
        #expect(line("", attempts: 1) == "message a is discarded after 1 attempt (rate_limit, code 429)")
        #expect(line("slow down", attempts: 6) == "message a is discarded after 6 attempts (rate_limit, code 429): slow down")
    }

    @Test func Q10_a_final_failure_is_failed_at_once_with_its_reason() {
        let end = resolve(.reject(.notFound, code: 404, text: "who?"), trial(2))
        #expect(end.fate == .failed)
        #expect(end.progress.attempts == 2)
        #expect(end.progress.retriesUsed == 0)
        #expect(end.failure == Failure(kind: .notFound, code: 404, text: "who?", at: now, retryable: false, attempts: 2))
    }

    @Test func R1_a_failure_carries_kind_code_text_time_retryable_and_attempts() {
        let end = resolve(server(), trial(7))
        #expect(end.failure == Failure(kind: .server, code: 503, text: "busy", at: now, retryable: true, attempts: 7))
    }

    @Test func M6_a_longer_retry_after_replaces_the_delay() {
        let end = resolve(server(60_000), trial())
        #expect(end.progress.dueAt == now + 60_000)
        #expect(end.progress.dueDelay == 60_000)
        #expect(resolve(server(Int64.max), trial()).progress.dueAt == now + Options.week)
    }

    // MARK: Offline

    @Test func M11_offline_uses_up_no_retry_and_counts_no_attempt() {
        var before = Progress()
        before.attempts = 2
        before.retriesUsed = 2
        before.lastAttemptAt = 123
        before.dueAt = 5
        before.dueDelay = 5
        let end = resolve(.offline(text: "no route"), trial(3), of: before)
        #expect(end.fate == .queued)
        #expect(end.isOffline)
        #expect(end.attempt == nil)
        #expect(end.progress.attempts == 2)
        #expect(end.progress.retriesUsed == 2)
        #expect(end.progress.lastAttemptAt == 123)
        #expect(end.progress.dueAt == 0, "it is sent as soon as it is connected")
    }

    @Test func M11_a_hundred_offline_answers_change_nothing() {
        var progress = Progress()
        for _ in 0..<100 { progress = resolve(.offline(text: ""), trial(progress.attempts + 1), of: progress).progress }
        #expect(progress == Progress())
    }

    // MARK: On demand

    @Test func R8_a_retry_on_demand_ends_as_sent_or_failed() {
        let long = options { $0.backoff = .ladder([1, 2, 3]) }
        #expect(resolve(.sent(code: 200), trial(2, by: .retry), long).fate == .sent)
        for judgement in [server(), server(9), .retry(.timeout, code: 0, text: "", after: nil)] {
            let end = resolve(judgement, trial(2, by: .retry), long)
            #expect(end.fate == .failed)
            #expect(end.progress.dueAt == 0)
            #expect(end.failure?.retryable == true)
        }
        #expect(resolve(.reject(.rejected, code: 400, text: ""), trial(2, by: .retry), long).fate == .failed)
    }

    @Test func R8_a_retry_on_demand_without_a_connection_is_failed_with_the_reason() {
        var before = Progress()
        before.attempts = 3
        let end = resolve(.offline(text: "airplane"), trial(4, by: .retry), of: before)
        #expect(end.fate == .failed)
        #expect(end.isOffline)
        #expect(end.failure?.kind == .offline)
        #expect(end.failure?.retryable == true)
        #expect(end.progress.attempts == 3, "it was not sent")
        #expect(end.attempt?.arrival == .no)
    }

    @Test func R8_a_failed_retry_on_demand_is_never_discarded() {
        let discarding = options {
            $0.exhausted = .discard
            $0.maxRetries = 0
        }
        #expect(resolve(server(), trial(2, by: .retry), discarding).fate == .failed)
    }

    @Test func Q6_send_now_is_an_ordinary_attempt_with_its_retries() {
        let end = resolve(server(), trial(by: .sendNow))
        #expect(end.fate == .queued)
        #expect(end.progress.dueDelay == 5_000)
        #expect(resolve(.offline(text: ""), trial(by: .sendNow)).fate == .queued)
    }

    // MARK: Arrival

    @Test func D14_a_possible_arrival_is_remembered_for_a_later_409() {
        let timeout = resolve(.retry(.timeout, code: 0, text: "", after: nil), trial())
        #expect(timeout.progress.perhapsArrived)
        #expect(timeout.attempt?.arrival == .perhaps)
        for (conflictIsSent, fate) in [(false, Resolution.Fate.queued), (true, .sent)] {
            let judgement = Classification.judge(
                .http(409), now: now, perhapsArrived: timeout.progress.perhapsArrived, conflictIsSent: conflictIsSent)
            #expect(resolve(judgement, trial(2), of: timeout.progress).fate == fate)
        }
    }

    @Test func X2_an_attempt_that_was_certainly_not_sent_is_no_possible_arrival() {
        for judgement in [
            Judgement.retry(.rateLimit, code: 429, text: "", after: nil),
            .retry(.network, code: 0, text: "refused", after: nil, isNotSent: true), .reject(.rejected, code: 400, text: ""),
            .offline(text: ""),
        ] { #expect(!resolve(judgement, trial()).progress.perhapsArrived, "\(judgement)") }
    }

    // MARK: Cleared during the attempt

    @Test func Q17_a_message_cleared_during_its_attempt_is_removed_unless_it_succeeds() {
        var doomed = Progress()
        doomed.doomed = true
        #expect(resolve(.sent(code: 200), trial(), of: doomed).fate == .sent)
        for judgement in [server(), .reject(.rejected, code: 400, text: ""), .offline(text: "")] {
            #expect(resolve(judgement, trial(), of: doomed).fate == .deleted, "\(judgement)")
            #expect(resolve(judgement, trial(by: .retry), of: doomed).fate == .deleted, "\(judgement)")
        }
        let recovered = OutcomeRule.recover(number: 1, startedAt: 1, of: doomed, holdInterrupted: true, maxRetries: 5)
        #expect(recovered.fate == .deleted)
    }

    // MARK: After a crash

    @Test func X3_an_interrupted_attempt_is_unknown_and_its_message_is_sent_again_or_held() {
        var before = Progress()
        before.dueAt = 9
        before.dueDelay = 9
        let again = OutcomeRule.recover(number: 1, startedAt: 77, of: before, holdInterrupted: false, maxRetries: 5)
        #expect(again.fate == .queued)
        #expect(again.progress.attempts == 1)
        #expect(again.progress.lastAttemptAt == 77)
        #expect(again.progress.perhapsArrived)
        #expect(again.progress.dueAt == 0)
        #expect(again.attempt?.number == 1)
        #expect(again.attempt?.startedAt == 77)
        #expect(again.attempt?.duration == nil)
        #expect(again.attempt?.result == .unknown)
        #expect(again.attempt?.kind == .unknown)
        #expect(again.attempt?.arrival == .perhaps)
        let held = OutcomeRule.recover(number: 1, startedAt: 77, of: before, holdInterrupted: true, maxRetries: 5)
        #expect(held.fate == .failed)
        #expect(held.failure?.kind == .unknown)
        #expect(held.failure?.retryable == true)
    }

    @Test(arguments: [0, 1, 2, 5, 1000])
    func X3_a_message_that_crashes_the_process_is_not_retried_without_end(maxRetries: Int) {
        var progress = Progress()
        var runs = 0
        while progress.status == .queued, runs < 2_000 {
            runs += 1
            let number = progress.attempts + 1
            progress =
                OutcomeRule.recover(number: number, startedAt: 1, of: progress, holdInterrupted: false, maxRetries: maxRetries).progress
        }
        #expect(progress.status == .failed)
        #expect(runs == max(maxRetries, 1) + 1)
        #expect(progress.attempts == UInt32(runs))
    }

    @Test func X3_crashes_and_failures_use_up_retries_together() {
        var progress = Progress()
        var attempts = 0
        while progress.status == .queued, attempts < 100 {
            attempts += 1
            let number = progress.attempts + 1
            progress =
                attempts % 2 == 0
                ? OutcomeRule.recover(number: number, startedAt: 1, of: progress, holdInterrupted: false, maxRetries: 5).progress
                : resolve(server(), trial(number), of: progress).progress
        }
        #expect(progress.status == .failed)
        #expect(attempts <= 6)
    }

    // MARK: Expiry

    @Test func X4_an_expired_message_is_failed_and_can_be_retried_on_demand() {
        var before = Progress()
        before.attempts = 1
        before.dueAt = 9
        before.dueDelay = 9
        let (progress, line) = OutcomeRule.expire(before, expiresAt: now - 1, now: now)
        #expect(progress.status == .failed)
        #expect(progress.attempts == 1, "no attempt was made")
        #expect(progress.dueAt == 0)
        #expect(line.kind == .expired)
        #expect(line.arrival == .no)
        #expect(Failure(line, attempts: 1).retryable)
        #expect(line.number == 2, "it does not replace the row of the first attempt")
    }

    // MARK: Late answers

    private func late(
        _ outcome: Outcome, number: UInt32 = 2, status: MessageStatus = .queued, attempts: UInt32 = 2, isSending: Bool = false,
        perhapsArrived: Bool = true
    ) -> Progress? {
        var before = Progress()
        before.status = status
        before.attempts = attempts
        before.perhapsArrived = perhapsArrived
        before.dueAt = now + 5_000
        before.dueDelay = 5_000
        return OutcomeRule.lateSuccess(outcome, trial(number), of: before, isSending: isSending, now: now)
    }

    @Test func X8_a_late_success_of_the_latest_attempt_counts_as_sent() {
        for status in [MessageStatus.queued, .failed] {
            let progress = late(.http(200), status: status)
            #expect(progress?.status == .sent)
            #expect(progress?.sentAt == now)
            #expect(progress?.sentCode == 200)
            #expect(progress?.dueAt == 0)
            #expect(StatusRule.allows(status, .sent))
        }
    }

    @Test func X8_no_other_late_answer_counts() {
        for outcome in [Outcome.retry(.server), .reject(), .offline, .pending, .http(500), .http(404)] {
            #expect(late(outcome) == nil, "\(outcome)")
        }
        #expect(late(.sent, number: 1) == nil, "a later attempt was made")
        #expect(late(.sent, isSending: true) == nil, "a later attempt is in progress")
        for status in [MessageStatus.sent, .delivered, .read, .sending] {
            #expect(late(.sent, status: status) == nil, "it is \(status) already")
        }
    }

    // MARK: Random sequences

    /// For any sequence of answers a message ends, and every change of its status is allowed by R6.
    @Test func A4_any_sequence_of_answers_ends_within_the_limit_of_retries() {
        var random = SeededGenerator(44)
        for _ in 0..<500 {
            let options = options {
                $0.maxRetries = random.int(0...7)
                $0.backoff = random.pick([.automatic, .ladder([1, 2, 3, 4, 5, 6]), .exponential(base: 1, factor: 3, cap: 1_000)])
            }
            var progress = Progress()
            var left = 0
            while progress.status == .queued, left < 50 {
                let judgement: Judgement = random.pick([
                    server(), server(7), .offline(text: ""), .retry(.timeout, code: 0, text: "", after: nil),
                ])
                let end = resolve(judgement, trial(progress.attempts + 1), of: progress, options)
                #expect(StatusRule.allows(.sending, end.progress.status))
                if !end.isOffline { left += 1 }
                #expect(end.progress.attempts == UInt32(left))
                progress = end.progress
            }
            #expect(progress.status == .failed)
            #expect(left == RetryPolicy(options).steps + 1)
        }
    }
}
