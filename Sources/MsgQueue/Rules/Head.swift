/// The fields of a queued message that the scheduler uses.
package struct Head: Sendable, Equatable {
    package var sequence: Int64
    /// The end of the delay after a retryable failure.
    package var due = Due()
    /// The message failed because of the network: the delay also ends when the network returns.
    package var waitsForNetwork = false
    package var notBefore: Int64 = 0
    package var expiresAt: Int64 = 0
    package var unmeteredOnly = false
    /// -100 to 100; compared with the heads of other conversations.
    package var priority: Int32 = 0
    /// The number of the `retryAll` that put the message back; 0: none.
    package var round: UInt32 = 0
    /// What of `notBefore` and `expiresAt` was given as a duration in this boot.
    package var bootTimes = BootTimes()
    package var bodySize: Int64 = 0
    /// The end of the delay by the monotonic clock, set when the scheduler loads the message; independent of changes of the wall clock.
    package var dueMono: Int64?
    /// The transport skipped the message: it is not sent before this time (monotonic). Not stored.
    package var skippedUntil: Int64?

    /// The message had a retryable failure and is to be tried again.
    var isRetry: Bool { !due.isNone }

    /// Ends the delay if it began for lack of a network, before the network returned (monotonic).
    mutating func endDelay(networkReturnedAt time: Int64) {
        if waitsForNetwork, let end = dueMono, end.subtractingClamped(due.delay) <= time { dueMono = nil }
    }

    /// Whether a condition of its own may defer the message.
    var mayBeDeferred: Bool { notBefore != 0 || unmeteredOnly || !due.isNone }

    /// Returns the time until the message is due, in milliseconds.
    func wait(_ now: Moment) -> Int64 { max(retryWait(now), scheduledWait(now), skipWait(now)) }

    func skipWait(_ now: Moment) -> Int64 { skippedUntil.map { max(0, $0.subtractingClamped(now.mono)) } ?? 0 }

    func retryWait(_ now: Moment) -> Int64 { dueMono.map { max(0, $0.subtractingClamped(now.mono)) } ?? 0 }

    func scheduledWait(_ now: Moment) -> Int64 {
        guard notBefore != 0 else { return 0 }
        return max(bootTimes.start == 0 ? notBefore.subtractingClamped(now.wall) : bootTimes.start.subtractingClamped(now.mono), 0)
    }

    package func hasExpired(_ now: Moment) -> Bool {
        expiresAt != 0 && (bootTimes.expiry == 0 ? expiresAt <= now.wall : bootTimes.expiry <= now.mono)
    }

    /// `notBefore` and `expiresAt` by the wall clock as it is set now; 0: none.
    func start(_ now: Moment) -> Int64 { BootTimes.wall(notBefore, bootTimes.start, now) }
    func expiry(_ now: Moment) -> Int64 { BootTimes.wall(expiresAt, bootTimes.expiry, now) }
}
