import Testing

@testable import MsgQueue

@Suite struct RetryPolicyTests {
    private func policy(_ change: (inout Options) -> Void = { _ in }) -> RetryPolicy {
        var options = Options()
        change(&options)
        return RetryPolicy(options)
    }

    /// Returns the delays until no retry is left.
    private func delays(_ policy: RetryPolicy, requested: Int64? = nil, random: Double = 0.5) -> [Int64] {
        var delays: [Int64] = []
        while let delay = policy.delay(afterRetries: delays.count, requested: requested, random: random) {
            delays.append(delay)
            if delays.count > 2000 { break }
        }
        return delays
    }

    @Test func M4_the_ladder_starts_at_its_first_step() {
        let automatic = policy { $0.mode = .auto }
        #expect(delays(automatic) == [5_000, 30_000, 120_000])
        #expect(automatic.steps == 3)
    }

    @Test(arguments: [Mode.ask, .manual])
    func M4_M12_ask_and_manual_have_no_retries_unless_a_ladder_is_given(mode: Mode) {
        let manual = policy { $0.mode = mode }
        #expect(delays(manual).isEmpty)
        #expect(manual.delay(afterRetries: 0, requested: 1_000, random: 0.5) == nil)
        let given = policy {
            $0.mode = mode
            $0.backoff = .ladder([7, 8])
        }
        #expect(delays(given) == [7, 8])
    }

    @Test func M4_a_given_ladder_is_used_step_by_step_and_an_empty_one_means_no_retry() {
        #expect(delays(policy { $0.backoff = .ladder([1, 0, 30]) }) == [1, 0, 30])
        #expect(delays(policy { $0.backoff = .ladder([]) }).isEmpty)
    }

    @Test func A4_at_most_five_retries_by_default_however_long_the_ladder() {
        let long = policy { $0.backoff = .ladder(Array(repeating: 10, count: 64)) }
        #expect(delays(long).count == 5)
        let endless = policy { $0.backoff = .exponential(base: 1, factor: 1, cap: 1) }
        #expect(delays(endless).count == 5)
    }

    @Test(arguments: [0, 1, 2, 3, 4, 1000])
    func A4_max_retries_caps_every_backoff(most: Int) {
        let ladder = policy { $0.maxRetries = most }
        #expect(delays(ladder) == Array([5_000, 30_000, 120_000].prefix(most)))
        let exponential = policy {
            $0.maxRetries = most
            $0.backoff = .exponential(base: 1, factor: 2, cap: 100)
        }
        #expect(delays(exponential).count == most)
    }

    @Test func M4_exponential_grows_by_its_factor_up_to_its_cap() {
        let doubling = policy {
            $0.maxRetries = 7
            $0.backoff = .exponential(base: 1_000, factor: 2, cap: 20_000)
        }
        #expect(delays(doubling) == [1_000, 2_000, 4_000, 8_000, 16_000, 20_000, 20_000])
        let fractional = policy {
            $0.maxRetries = 4
            $0.backoff = .exponential(base: 1_000, factor: 1.5, cap: 1_000_000)
        }
        #expect(delays(fractional) == [1_000, 1_500, 2_250, 3_375])
        let flat = policy {
            $0.maxRetries = 3
            $0.backoff = .exponential(base: 700, factor: 1, cap: 700)
        }
        #expect(delays(flat) == [700, 700, 700])
    }

    @Test func M4_the_steepest_growth_never_overflows() {
        for random in [0, 0.5, 0.999_999_999] {
            let steep = policy {
                $0.maxRetries = 1000
                $0.jitter = 1
                $0.backoff = .exponential(base: Options.week, factor: 100, cap: Options.week)
            }
            let all = delays(steep, random: random)
            #expect(all.count == 1000)
            #expect(all.allSatisfy { (0...Options.week).contains($0) })
        }
    }

    @Test func M4_jitter_stays_within_its_share() {
        var random = SeededGenerator(4)
        for share in [0, 0.1, 0.5, 1] {
            let jittered = policy { $0.jitter = share }
            var seen = Set<Int64>()
            for _ in 0..<500 {
                for (step, plain) in [Int64(5_000), 30_000, 120_000].enumerated() {
                    let delay = jittered.delay(afterRetries: step, requested: nil, random: random.fraction())
                    let low = Int64((Double(plain) * (1 - share)).rounded(.down)) - 1
                    let high = Int64((Double(plain) * (1 + share)).rounded(.up))
                    #expect(delay.map { (max(low, 0)...high).contains($0) } == true, "\(String(describing: delay)), \(share)")
                    if step == 0, let delay { seen.insert(delay) }
                }
            }
            #expect(share == 0 ? seen == [5_000] : seen.count > 100, "jitter \(share) varies")
        }
    }

    @Test func M4_jitter_reaches_both_ends_and_never_goes_below_zero_or_over_seven_days() {
        let full = policy { $0.jitter = 1 }
        #expect(full.delay(afterRetries: 0, requested: nil, random: 0) == 0)
        #expect(full.delay(afterRetries: 0, requested: nil, random: 0.5) == 5_000)
        let week = policy {
            $0.jitter = 1
            $0.backoff = .ladder([Options.week])
        }
        #expect(week.delay(afterRetries: 0, requested: nil, random: 0.999_999) == Options.week)
    }

    @Test func M6_retry_after_counts_when_it_is_longer() {
        let ladder = policy()
        #expect(ladder.delay(afterRetries: 0, requested: 4_999, random: 0.5) == 5_000)
        #expect(ladder.delay(afterRetries: 0, requested: 5_001, random: 0.5) == 5_001)
        #expect(ladder.delay(afterRetries: 2, requested: 60_000, random: 0.5) == 120_000)
        #expect(ladder.delay(afterRetries: 0, requested: -1, random: 0.5) == 5_000)
        #expect(ladder.delay(afterRetries: 0, requested: Int64.min, random: 0.5) == 5_000)
    }

    @Test func M6_retry_after_is_at_most_seven_days() {
        let ladder = policy()
        for wish in [Options.week, Options.week + 1, Int64.max] {
            #expect(ladder.delay(afterRetries: 1, requested: wish, random: 0.5) == Options.week)
        }
    }

    @Test func M6_jitter_never_shortens_retry_after() {
        let full = policy { $0.jitter = 1 }
        #expect(full.delay(afterRetries: 0, requested: 9_000, random: 0) == 9_000)
    }

    @Test func M6_retry_after_gives_no_retry_beyond_the_last() {
        #expect(policy().delay(afterRetries: 3, requested: 1_000, random: 0.5) == nil)
        #expect(policy().delay(afterRetries: Int.max, requested: nil, random: 0.5) == nil)
        #expect(policy().delay(afterRetries: -1, requested: nil, random: 0.5) == nil)
    }
}
