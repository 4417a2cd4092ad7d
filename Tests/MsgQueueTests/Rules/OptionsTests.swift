import Testing

@testable import MsgQueue

@Suite struct OptionsTests {
    private func check(_ change: (inout Options) -> Void) -> QueueError.Code? {
        var options = Options()
        change(&options)
        return refusal { try options.validate() }
    }

    @Test func the_defaults_are_those_of_the_contract() {
        let options = Options()
        #expect(check { _ in } == nil)
        #expect(options.mode == .auto && options.direct && !options.holdInterrupted && !options.durableOutcomes)
        #expect(!options.conflictIsSent && !options.readOnly && !options.refuseLostTail)
        #expect(options.maxInFlight == 1 && options.maxRetries == 5 && options.backoff == .automatic && options.jitter == 0)
        #expect(options.attemptTimeout == 30_000 && options.onDemandTimeout == 3_000)
        #expect(options.promptTimeout == 10_000 && options.onlineDebounce == 500 && options.drainBatch == 0)
        #expect(options.limitMessages == 0 && options.limitBytes == 0)
        #expect(options.liveShare == 0.5 && !options.soonestExpiryFirst)
        #expect(options.limitBody == 1 << 20 && options.limitMetadata == 64 << 10)
    }

    @Test func every_field_is_accepted_at_the_ends_of_its_range_and_refused_outside() {
        #expect(check { $0.maxInFlight = 0 } == .invalid)
        #expect(check { $0.maxInFlight = 1 } == nil)
        #expect(check { $0.maxInFlight = 64 } == nil)
        #expect(check { $0.maxInFlight = 65 } == .invalid)
        #expect(check { $0.maxRetries = -1 } == .invalid)
        #expect(check { $0.maxRetries = 1000 } == nil)
        #expect(check { $0.maxRetries = 1001 } == .invalid)
        for field in [\Options.attemptTimeout, \.onDemandTimeout, \.promptTimeout] {
            #expect(check { $0[keyPath: field] = 0 } == .invalid)
            #expect(check { $0[keyPath: field] = 1 } == nil)
            #expect(check { $0[keyPath: field] = Options.day } == nil)
            #expect(check { $0[keyPath: field] = Options.day + 1 } == .invalid)
        }
        for share in [-0.001, 1.001, .nan, .infinity] { #expect(check { $0.liveShare = share } == .invalid) }
        for share in [0, 0.5, 1] { #expect(check { $0.liveShare = share } == nil) }
        #expect(check { $0.onlineDebounce = -1 } == .invalid)
        #expect(check { $0.onlineDebounce = 3_600_001 } == .invalid)
        #expect(check { $0.drainBatch = -1 } == .invalid)
        #expect(check { $0.limitMessages = -1 } == .invalid)
        #expect(check { $0.limitBytes = -1 } == .invalid)
        #expect(check { $0.limitBody = 0 } == .invalid)
        #expect(check { $0.limitBody = Options.bodyCeiling + 1 } == .invalid)
        #expect(check { $0.limitMetadata = -1 } == .invalid)
        #expect(check { $0.limitMetadata = 16 << 20 + 1 } == .invalid)
        for jitter in [-0.01, 1.01, .nan, .infinity, -.infinity] { #expect(check { $0.jitter = jitter } == .invalid, "\(jitter)") }
        #expect(check { $0.jitter = 1 } == nil)
    }

    @Test func M4_a_ladder_has_at_most_64_steps_of_0_to_7_days() {
        #expect(check { $0.backoff = .ladder([]) } == nil)
        #expect(check { $0.backoff = .ladder(Array(repeating: Options.week, count: 64)) } == nil)
        #expect(check { $0.backoff = .ladder(Array(repeating: 1, count: 65)) } == .invalid)
        #expect(check { $0.backoff = .ladder([5, -1]) } == .invalid)
        #expect(check { $0.backoff = .ladder([5, Options.week + 1]) } == .invalid)
    }

    @Test func M4_exponential_backoff_has_bounds() {
        #expect(check { $0.backoff = .exponential(base: 1, factor: 1, cap: 1) } == nil)
        #expect(check { $0.backoff = .exponential(base: Options.week, factor: 100, cap: Options.week) } == nil)
        #expect(check { $0.backoff = .exponential(base: 0, factor: 2, cap: 10) } == .invalid)
        #expect(check { $0.backoff = .exponential(base: 11, factor: 2, cap: 10) } == .invalid)
        #expect(check { $0.backoff = .exponential(base: Options.week + 1, factor: 2, cap: Options.week + 2) } == .invalid)
        #expect(check { $0.backoff = .exponential(base: 1, factor: 0.99, cap: 10) } == .invalid)
        #expect(check { $0.backoff = .exponential(base: 1, factor: 100.1, cap: 10) } == .invalid)
        #expect(check { $0.backoff = .exponential(base: 1, factor: .nan, cap: 10) } == .invalid)
        #expect(check { $0.backoff = .exponential(base: 1, factor: 2, cap: Options.week + 1) } == .invalid)
    }
}
