/// The rules for the filter of a page, and for the places at which pages begin.
package enum FilterRule {
    /// Throws if the filter names an invalid conversation, limit, place or set of statuses, or if the cursor does not fit the order.
    package static func check(_ filter: Filter) throws(QueueError) {
        if let conversation = filter.conversation { try DraftRule.check(conversation: conversation) }
        try check(limit: filter.limit)
        guard filter.after >= 0 else { throw QueueError(.invalid, "after must not be negative, got \(filter.after)") }
        guard !filter.statuses.isEmpty, StatusSet.all.isSuperset(of: filter.statuses) else {
            throw QueueError(.invalid, "statuses must contain at least one status and no unknown one, got \(filter.statuses.rawValue)")
        }
        try checkCursor(filter)
        if let reason = filter.waitingFor { try check(reason, filter) }
        guard filter.isByFailure else { return }
        guard filter.statuses.contains(.failed) else {
            throw QueueError(.invalid, "only failed messages have a failure: statuses must contain them")
        }
        guard filter.order == .sequence else { throw QueueError(.invalid, "messages with a failure are listed by sequence") }
    }

    /// Throws if a page must not have so many entries.
    static func check(limit: Int) throws(QueueError) {
        guard (1...1000).contains(limit) else { throw QueueError(.invalid, "limit must be 1 to 1000, got \(limit)") }
    }

    /// Returns the filter of all failed messages that a filter selects, without its page. Throws if it leaves out the failed ones.
    package static func allFailed(of filter: Filter) throws(QueueError) -> Filter {
        guard filter.statuses.contains(.failed) else { throw QueueError(.invalid, "statuses must contain the failed messages") }
        return .failed(filter.conversation, filter.failureKind, filter.failureCode)
    }

    private static func check(_ reason: Explanation.Reason, _ filter: Filter) throws(QueueError) {
        guard filter.isByWait || reason == .paused else {
            throw QueueError(.invalid, "waiting_for must be paused, scheduled or retrying, got reason \(reason.rawValue)")
        }
        guard filter.statuses.contains(.queued) else {
            throw QueueError(.invalid, "only queued messages wait: statuses must contain them")
        }
        guard filter.order == .sequence, !filter.isByFailure else {
            throw QueueError(.invalid, "messages that wait are listed without an order and a failure")
        }
        guard filter.conversation == nil || reason == .paused else {
            throw QueueError(.invalid, "messages that wait for a time are listed for all conversations together")
        }
    }

    private static func checkCursor(_ filter: Filter) throws(QueueError) {
        switch filter.order {
        case .sequence where filter.isByWait:
            guard filter.afterTime >= 0 else { throw QueueError(.invalid, "after_time_ms must not be negative, got \(filter.afterTime)") }
            guard filter.afterTime != 0 || filter.after == 0 else {
                throw QueueError(.invalid, "of messages that wait for a time, after needs after_time_ms")
            }
        case .sequence:
            guard filter.afterTime == 0 else { throw QueueError(.invalid, "after_time_ms needs the order by time") }
        case .time:
            guard filter.afterTime != 0 else {
                guard filter.after == 0 else { throw QueueError(.invalid, "in the order by time, after needs after_time_ms") }
                return
            }
            try check(TimePlace(filter.afterTime, filter.after))
        }
    }

    /// Throws if this is no place in the order by time.
    static func check(_ place: TimePlace) throws(QueueError) {
        try DraftRule.check(time: place.time)
        guard place.sequence >= 0 else { throw QueueError(.invalid, "the sequence must not be negative, got \(place.sequence)") }
    }
}
