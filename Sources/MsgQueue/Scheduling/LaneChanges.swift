/// What an input changes in every lane. `LaneTable` changes a part of them when one of it is used next, because many lanes take long. All
/// may be made twice.
struct LaneChanges: Equatable {
    /// Its messages are removed, except those in flight.
    var isCleared = false
    /// The connection was lost: messages that would have been sent directly become part of the backlog.
    var isDisconnected = false
    /// The wall clock was set: when a lane is due is computed again.
    var isClockSet = false
    /// The scan that would have found the rest of each conversation begins again. It follows `isCleared`.
    var isUnread = false
    /// When the network returned last (monotonic): delays of messages that failed for lack of it end then; nil: it did not.
    var networkReturnedAt: Int64?

    mutating func add(_ other: LaneChanges) {
        if other.isCleared { (isCleared, isUnread) = (true, false) }
        isDisconnected = isDisconnected || other.isDisconnected
        isClockSet = isClockSet || other.isClockSet
        isUnread = isUnread || other.isUnread
        if let time = other.networkReturnedAt { networkReturnedAt = max(networkReturnedAt ?? time, time) }
    }

    func make(in lane: inout Lane) {
        if isCleared { lane.clear() }
        if let time = networkReturnedAt {
            for place in lane.upcoming.indices { lane.upcoming[place].endDelay(networkReturnedAt: time) }
            for place in lane.deferred.indices { lane.deferred[place].endDelay(networkReturnedAt: time) }
        }
        if isDisconnected {
            lane.closeDirectRange()
            (lane.approved, lane.approvedThrough) = ([], 0)
        }
        if isClockSet { lane.rest = nil }
        if isUnread { lane.more = true }
    }
}
