import Testing

@testable import MsgQueue

@Suite struct PublicOptionsTests {
    private func refused(_ change: (inout MessageQueue.Options) -> Void) -> QueueError? {
        var options = MessageQueue.Options()
        change(&options)
        do throws(QueueError) {
            _ = try options.checked()
            return nil
        } catch { return error }
    }

    @Test func A12_the_defaults_are_those_of_the_engine() throws {
        #expect(try MessageQueue.Options().checked() == MsgQueue.Options())
    }

    @Test func every_field_reaches_the_engine() throws {
        var options = MessageQueue.Options(mode: .ask, backoff: .ladder([.seconds(1), .milliseconds(2)]), maxInFlight: 2)
        (options.direct, options.holdInterrupted, options.durableOutcomes, options.conflictIsSent) = (false, true, true, true)
        (options.readOnly, options.refuseLostTail, options.strictOrder, options.pauseOnUnauthorized) = (true, true, false, true)
        (options.unmeteredOnly, options.sendInBackground, options.maxRetries, options.jitter) = (true, true, 3, 0.5)
        (options.exhausted, options.refused, options.finalFailure) = (.discard, .discard, .block)
        (options.attemptTimeout, options.onDemandTimeout, options.promptTimeout) = (.seconds(4), .seconds(5), .seconds(6))
        (options.onlineDebounce, options.triggerInterval, options.expiry) = (.seconds(7), .seconds(8), .seconds(9))
        (options.drainBatch, options.keepSent, options.keepSentFor, options.rememberIDs) = (10, nil, nil, .seconds(11))
        (options.limitMessages, options.limitBytes, options.limitBody, options.limitMetadata) = (12, 13, 14, 15)
        (options.onFull, options.limitFileBytes) = (.dropOldest, 16)
        (options.ratePerSecond, options.rateBurst, options.rampUp) = (2.5, 16, .seconds(17))
        (options.liveShare, options.soonestExpiryFirst, options.maintenance) = (0.25, true, true)
        options.initialConnectivity = .offline
        options.promptForFailed = true
        (options.wait, options.collectInterval) = (.seconds(18), .seconds(19))
        options.keepChanges = 20
        let engine = try options.checked()
        let defaults = Mirror(reflecting: MsgQueue.Options()).children
        for (changed, initial) in zip(Mirror(reflecting: engine).children, defaults) where changed.label != "callbacks" {
            #expect("\(changed.value)" != "\(initial.value)", "\(changed.label ?? "") has its default")
        }
        #expect(engine.backoff == .ladder([1_000, 2]))
        #expect((engine.attemptTimeout, engine.onDemandTimeout, engine.promptTimeout) == (4_000, 5_000, 6_000))
        #expect((engine.onlineDebounce, engine.triggerInterval, engine.expiry, engine.rememberIDs) == (7_000, 8_000, 9_000, 11_000))
        #expect((engine.limitMessages, engine.limitBytes, engine.limitBody, engine.limitMetadata) == (12, 13, 14, 15))
        #expect(engine.onFull == .dropOldest && engine.limitFileBytes == 16)
    }

    @Test func a_value_out_of_range_is_invalid_and_named() {
        #expect(refused { $0.attemptTimeout = .zero }?.detail.contains("attempt timeout") == true)
        #expect(refused { $0.attemptTimeout = .seconds(86_401) }?.code == .invalid)
        #expect(refused { $0.attemptTimeout = .seconds(Int64.max) }?.code == .invalid)
        #expect(refused { $0.attemptTimeout = .seconds(Int64.max) * 10 }?.code == .invalid)
        #expect(refused { $0.attemptTimeout = .microseconds(1) } == nil, "a part of a millisecond is rounded up")
        for rate in [-1, .nan, .infinity, 1_000_001] { #expect(refused { $0.ratePerSecond = rate }?.code == .invalid, "\(rate)") }
        #expect(refused { $0.ratePerSecond = 0.001 } == nil && refused { $0.ratePerSecond = 1_000_000 } == nil)
        #expect(refused { ($0.ratePerSecond, $0.rateBurst) = (1, 0) }?.detail.contains("rate burst") == true)
        #expect(refused { $0.rampUp = .seconds(1) }?.detail == "ramp up needs a rate per second")
        #expect(refused { ($0.ratePerSecond, $0.rampUp) = (1, .seconds(86_401)) }?.code == .invalid)
        #expect(refused { $0.onlineDebounce = .zero } == nil)
        #expect(refused { $0.onlineDebounce = .nanoseconds(-1) }?.code == .invalid)
        #expect(refused { $0.keepSentFor = .seconds(-1) }?.code == .invalid)
        #expect(refused { $0.backoff = .ladder([.seconds(-1)]) }?.code == .invalid)
        #expect(refused { $0.backoff = .exponential(base: .seconds(2), factor: 2, cap: .seconds(1)) }?.code == .invalid)
    }

    @Test func zero_does_not_mean_no_limit() {
        for error in [
            refused { $0.triggerInterval = .zero }, refused { $0.expiry = .zero }, refused { $0.drainBatch = 0 },
            refused { $0.limitMessages = 0 }, refused { $0.limitBytes = 0 }, refused { $0.limitBytes = -1 },
            refused { $0.limitFileBytes = 0 }, refused { $0.collectInterval = .zero }, refused { $0.ratePerSecond = 0 },
            refused { ($0.ratePerSecond, $0.rampUp) = (1, .zero) },
        ] {
            #expect(error?.code == .invalid)
            #expect(error?.detail.contains("nil for none") == true, "\(error?.detail ?? "")")
        }
    }
}
