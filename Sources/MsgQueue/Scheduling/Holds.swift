/// The times until which sending waits, beside those of single messages (monotonic). An end is nil when there is no such hold, or when it is
/// over and `end` has said so.
struct Holds {
    /// When the connection, which has returned, counts as stable. Automatic sending begins after it.
    private(set) var stableAt: Int64?
    /// The end of the pause of automatic sending after an outcome `offline`.
    private(set) var offlineEnd: Int64?
    /// The end of a delay that a receiver requested for the whole queue.
    private(set) var receiverEnd: Int64?

    // MARK: Inputs

    mutating func connected(stableAt: Int64) { (self.stableAt, offlineEnd) = (stableAt, nil) }

    mutating func disconnected() { stableAt = nil }

    mutating func pausedAfterOffline(until end: Int64) { offlineEnd = end }

    /// The receiver may be reached again: another link, the foreground, or a person says so.
    mutating func endOfflinePause() { offlineEnd = nil }

    /// Returns false if the receiver's delay ends later already.
    mutating func delayed(until end: Int64) -> Bool {
        if let receiverEnd, receiverEnd >= end { return false }
        receiverEnd = end
        return true
    }

    /// Ends the holds that are over. Returns whether there was one.
    mutating func end(_ now: Moment) -> Bool {
        guard isOver(by: now.mono) else { return false }
        stableAt = settling(now)
        offlineEnd = offlineHold(now)
        receiverEnd = receiverHold(now)
        return true
    }

    // MARK: At this time

    func settling(_ now: Moment) -> Int64? { later(stableAt, now) }

    func offlineHold(_ now: Moment) -> Int64? { later(offlineEnd, now) }

    func receiverHold(_ now: Moment) -> Int64? { later(receiverEnd, now) }

    private func later(_ end: Int64?, _ now: Moment) -> Int64? { end.flatMap { $0 > now.mono ? $0 : nil } }

    /// Whether a hold ends until then.
    func isOver(by mono: Int64) -> Bool {
        for end in [stableAt, offlineEnd, receiverEnd] { if let end, end <= mono { return true } }
        return false
    }
}
