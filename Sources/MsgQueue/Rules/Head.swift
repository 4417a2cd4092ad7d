/// What the scheduler needs to know of a queued message.
package struct Head: Sendable, Equatable {
    package var sequence: Int64
    /// After a retryable failure: the end of the delay.
    package var due = Due()
    /// It failed for want of a network: the delay also ends when the network returns.
    package var waitsForNetwork = false
    package var notBefore: Int64 = 0
    package var expiresAt: Int64 = 0
    package var unmeteredOnly = false
    /// The call that put it back with others (`retryAll`); 0: none.
    package var round: UInt32 = 0
    /// The end of the delay by the monotonic clock, once the scheduler knows the message; no change of the wall clock moves it.
    package var dueMono: Int64?

    package init(
        sequence: Int64, due: Due = Due(), waitsForNetwork: Bool = false, notBefore: Int64 = 0, expiresAt: Int64 = 0,
        unmeteredOnly: Bool = false, round: UInt32 = 0
    ) {
        self.sequence = sequence
        self.due = due
        self.waitsForNetwork = waitsForNetwork
        self.notBefore = notBefore
        self.expiresAt = expiresAt
        self.unmeteredOnly = unmeteredOnly
        self.round = round
    }

    /// It failed in a way that may pass, and is to be tried again.
    var isRetry: Bool { !due.isNone }

    /// Milliseconds to wait from `now`.
    func wait(_ now: Moment) -> Int64 { max(retryWait(now), scheduledWait(now)) }

    func retryWait(_ now: Moment) -> Int64 { dueMono.map { max(0, $0.subtractingClamped(now.mono)) } ?? 0 }

    func scheduledWait(_ now: Moment) -> Int64 { notBefore == 0 ? 0 : max(notBefore.subtractingClamped(now.wall), 0) }

    package func hasExpired(_ now: Moment) -> Bool { expiresAt != 0 && expiresAt <= now.wall }
}
