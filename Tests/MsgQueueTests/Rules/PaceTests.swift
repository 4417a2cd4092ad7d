import Testing

@testable import MsgQueue

/// The rate limit and the ramp as pure values.
@Suite struct PaceTests {
    private func pace(_ rate: Double, burst: Int = 1, ramp: Int64 = 0, slots: Int = 1, openedAt: Int64 = 0) throws -> Pace {
        var options = Options()
        (options.ratePerSecond, options.rateBurst, options.rampUp, options.maxInFlight) = (rate, burst, ramp, slots)
        try options.validate()
        return try #require(Pace(options, openedAt: openedAt))
    }

    /// The times of the first attempts that begin as early as possible.
    private func starts(_ count: Int, _ pace: inout Pace, from: Int64 = 0) -> [Int64] {
        var now = from
        return (0..<count).map { _ in
            now = pace.opening(at: now)
            pace.began(at: now)
            return now
        }
    }

    // MARK: The rate

    @Test(
        arguments: [
            // The clock is read in whole milliseconds, so that a wait between two attempts has one more.
            (10, 1, 0, [101, 202, 303, 404]),
            (10, 1, 5_000, [5_000, 5_101, 5_202]),
            // After a second without attempts two begin at once.
            (10, 2, 1_000, [1_000, 1_000, 1_101, 1_201, 1_301]),
            (1_000, 1, 100, [100, 102, 104]),
            (1_000, 3, 100, [100, 100, 100, 102, 103, 104]),
            (0.5, 1, 0, [2_001, 4_002]),
            (3, 1, 400, [400, 735, 1_070]),
            (1_000_000, 1, 7, [7, 9, 11]),
            (1_000_000, 1_000, 7, Array(repeating: 7, count: 1_000) + [9]),
        ] as [(Double, Int, Int64, [Int64])])
    func F3_attempts_begin_when_the_rate_permits(rate: Double, burst: Int, from: Int64, times: [Int64]) throws {
        var pace = try pace(rate, burst: burst)
        #expect(starts(times.count, &pace, from: from) == times)
    }

    @Test func F3_after_opening_the_allowance_is_empty() throws {
        var pace = try pace(4, burst: 100, openedAt: 3_000)
        #expect(!pace.isOpen(at: 3_000) && pace.opening(at: 3_000) == 3_251)
        #expect(starts(3, &pace, from: 3_000) == [3_251, 3_501, 3_751])
    }

    @Test func F3_a_rate_close_to_0_waits_very_long_and_does_not_overflow() throws {
        var pace = try pace(.leastNonzeroMagnitude, burst: Int(UInt32.max))
        #expect(pace.opening(at: 1) > 1_000_000_000_000_000)
        pace = try self.pace(1, openedAt: Int64.max - 5)
        #expect(pace.opening(at: Int64.max - 1) == Int64.max)
        pace.began(at: Int64.max)
        #expect(pace.opening(at: Int64.max) == Int64.max)
    }

    /// The exact times of attempts are up to a millisecond later than the clock that the bucket reads.
    @Test(arguments: 1...200 as ClosedRange<UInt64>)
    func F3_no_window_has_more_than_the_rate_and_the_burst(seed: UInt64) throws {
        var random = SeededGenerator(seed)
        let rate = random.pick([0.3, 1, 7, 10, 60, 333, 999, 1_000, 4_321, 1_000_000])
        let burst = random.pick([1, 1, 2, 3, 10, 500])
        var pace = try pace(rate, burst: burst, ramp: random.pick([0, 0, 700, 30_000]), slots: 8)
        var exact: [Double] = []
        var now: Int64 = 0
        for _ in 0..<400 {
            switch random.int(0...9) {
            case 0: now += random.int64(0...Int64(3_000 * Double(burst) / rate) + 5)
            case 1: pace.restart(at: now)
            case 2: pace.ended(.sent(code: 0), startedAt: now, at: now)
            case 3: pace.ended(.retry(.rateLimit, code: 429, text: "", after: nil), startedAt: now, at: now)
            default: now = pace.opening(at: now)
            }
            while pace.isOpen(at: now), random.chance(80) {
                pace.began(at: now)
                let earliest = max(Double(now), exact.last ?? 0)
                exact.append(earliest + (Double(now + 1) - earliest) * Double(random.int(0...999)) / 1_000)
            }
        }
        // Of all windows that end with an attempt, the worst begins with the one of the smallest `number - rate * time`.
        var lowest = Double.infinity
        for (number, time) in exact.enumerated() {
            let value = Double(number) - rate * time / 1_000
            lowest = min(lowest, value)
            #expect(value - lowest + 1 <= Double(burst) + 1e-6, "seed \(seed), rate \(rate), burst \(burst), attempt \(number)")
        }
        #expect(exact.count > 20)
    }

    @Test func F3_attempts_that_are_ready_in_time_reach_the_rate() throws {
        for (rate, burst) in [(10.0, 2), (333, 5), (1_000, 4), (20_000, 60)] {
            var pace = try pace(rate, burst: burst)
            let times = starts(2_000, &pace, from: 10_000)
            let seconds = Double(try #require(times.last) - 10_000) / 1_000
            #expect(abs(Double(2_000 - burst) / seconds / rate - 1) < 0.02, "\(rate)")
        }
    }

    // MARK: The ramp

    enum Input {
        case restart
        case began
        case sent
        case failed(FailureKind, Int32)
        case refused
        case offline
    }

    private func apply(_ input: Input, _ pace: inout Pace, at now: Int64, startedAt: Int64? = nil) {
        let started = startedAt ?? now
        switch input {
        case .restart: pace.restart(at: now)
        case .began: pace.began(at: now)
        case .sent: pace.ended(.sent(code: 200), startedAt: started, at: now)
        case .failed(let kind, let code): pace.ended(.retry(kind, code: code, text: "", after: nil), startedAt: started, at: now)
        case .refused: pace.ended(.reject(.rejected, code: 400, text: ""), startedAt: started, at: now)
        case .offline: pace.ended(.offline(text: ""), startedAt: started, at: now)
        }
    }

    /// A rate of 100, 8 attempts in flight, a ramp of 10 s; the rate and the attempts in flight after each input.
    @Test(
        arguments: [
            [(.sent, 0, 100, 8)],
            // Halved by each overload, not below the first values.
            [
                (.failed(.rateLimit, 429), 0, 50, 4), (.failed(.server, 503), 10, 25, 2), (.failed(.timeout, 0), 20, 12.5, 1),
                (.failed(.timeout, 408), 30, 6.25, 1), (.failed(.unknown, 429), 40, 3.125, 1), (.failed(.server, 503), 50, 1.5625, 1),
                (.failed(.server, 503), 60, 1, 1), (.failed(.server, 503), 70, 1, 1),
            ],
            // Other failures and refusals change nothing.
            [(.failed(.server, 500), 0, 100, 8), (.failed(.network, 0), 10, 100, 8), (.refused, 20, 100, 8), (.sent, 30, 100, 8)],
            // Without a restart, a success adds 1 / (rate * 10 s) of the way.
            [(.failed(.rateLimit, 429), 0, 50, 4), (.sent, 10, 50.198, 4), (.sent, 20, 50.395, 4)],
            // A restart: not above the line from the first attempt after it.
            [
                (.restart, 0, 1, 1), (.sent, 5_000, 1, 1), (.began, 6_000, 1, 1), (.sent, 6_500, 5.95, 1), (.sent, 6_500, 5.95, 1),
                (.sent, 11_000, 7.614, 1),
            ],
            [(.offline, 0, 1, 1), (.began, 100, 1, 1), (.sent, 1_100, 10.9, 1)],
            // The first success after failures for a second.
            [
                (.failed(.network, 0), 0, 100, 8), (.failed(.network, 0), 900, 100, 8), (.sent, 999, 100, 8),
                (.failed(.network, 0), 2_000, 100, 8), (.refused, 2_500, 100, 8), (.sent, 3_000, 1, 1), (.sent, 3_500, 5.95, 1),
            ],
        ] as [[(Input, Int64, Double, Int)]])
    func F4_the_rate_after_each_input(_ steps: [(Input, Int64, Double, Int)]) throws {
        var pace = try pace(100, ramp: 10_000, slots: 8)
        for (index, (input, now, rate, slots)) in steps.enumerated() {
            apply(input, &pace, at: now)
            #expect(abs(pace.rate - rate) < 0.001 && pace.maxInFlight == slots, "step \(index): \(pace.rate), \(pace.maxInFlight)")
            #expect(pace.isRamping == (rate < 100))
        }
    }

    @Test func F4_attempts_that_began_before_the_latest_halving_do_not_halve_again() throws {
        var pace = try pace(64, ramp: 10_000, slots: 64)
        for now in 100..<130 { apply(.failed(.server, 503), &pace, at: Int64(now), startedAt: 99) }
        #expect(pace.rate == 32 && pace.maxInFlight == 32)
        apply(.failed(.server, 503), &pace, at: 200, startedAt: 100)
        #expect(pace.rate == 16 && pace.maxInFlight == 16)
    }

    @Test func F4_a_rate_below_1_is_its_own_first_value() throws {
        var pace = try pace(0.25, ramp: 60_000, slots: 4)
        pace.restart(at: 0)
        #expect(pace.rate == 0.25 && pace.maxInFlight == 1 && pace.isRamping)
        #expect(starts(2, &pace) == [4_001, 8_002])
        apply(.sent, &pace, at: 9_000)
        #expect(pace.rate == 0.25)
    }

    @Test(arguments: [(50, 1, 8, 20_000), (1_000, 20, 64, 60_000), (3, 1, 1, 5_000)] as [(Double, Int, Int, Int64)])
    func F4_with_nothing_but_successes_the_full_rate_is_reached_after_the_ramp_and_not_sooner(
        rate: Double, burst: Int, slots: Int, duration: Int64
    ) throws {
        var pace = try pace(rate, burst: burst, ramp: duration, slots: slots)
        var now: Int64 = 100_000
        pace.restart(at: now)
        let began = now
        var count = 0
        #expect(pace.available(at: now) == 1, "the burst is 1, too")
        while pace.isRamping {
            now = pace.opening(at: now)
            pace.began(at: now)
            count += 1
            let passed = Double(now - began) / 1_000
            let most = 1 + passed + (rate - 1) * passed * passed / (2 * Double(duration) / 1_000)
            #expect(Double(count) <= most + 1e-6)
            pace.ended(.sent(code: 200), startedAt: now, at: now)
            let line = 1 + (rate - 1) * passed * 1_000 / Double(duration)
            #expect(pace.rate <= line + 1e-9 && Double(pace.maxInFlight) <= 1 + Double(slots - 1) * passed * 1_000 / Double(duration))
            try #require(now - began < 3 * duration)
        }
        #expect(now - began >= duration && now - began < duration * 3 / 2)
        #expect(pace.rate == rate && pace.maxInFlight == slots)
    }
}
