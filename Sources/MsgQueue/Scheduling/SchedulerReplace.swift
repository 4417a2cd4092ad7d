/// A message that takes the place of a queued one of the same key.
extension Scheduler {
    /// Whether a message in this place is sent directly; nil: if no queued message of its conversation is before it.
    package func goesDirect(_ conversation: Name, inPlaceOf sequence: Int64) -> Bool? {
        guard gate.isDirectAllowed(conversation) else { return false }
        guard let lane = lanes[conversation] else { return nil }
        if lane.directThrough != 0 { return lane.isDirect(sequence) }
        if lane.upcoming.contains(where: { $0.sequence < sequence }) { return false }
        return sequence <= lane.last ? true : nil
    }

    /// Puts a message into the place of one that it replaced. It has no delay, no manual request and no part in a `retryAll`; a permission
    /// to be sent without a drain belongs to the place.
    package mutating func replaced(by head: Head, _ conversation: Name, goesDirect: Bool, _ now: Moment) {
        forced.removeAll { $0.sequence == head.sequence }
        let wasPicked = round?.picks.contains { $0.sequence == head.sequence } ?? false
        round?.remove(head.sequence, of: conversation)
        // It is sent before those of the round.
        if wasPicked, gate.mode == .auto { round?.hold(conversation, behind: head.sequence) }
        noteRank(head, now)
        let lane = lanes[conversation] ?? Lane()
        let becomesDirect = goesDirect && lane.directThrough == 0
        // The survey may have passed the conversation.
        let isUnread = isSurveying && lanes[conversation] == nil
        guard becomesDirect || isUnread || canInsert(head.sequence, lane) else { return }
        withLane(conversation, now) { lane in
            if isUnread { lane.more = true }
            if becomesDirect, head.sequence > lane.last {
                // Nothing is before it; what is behind it is read later.
                (lane.upcoming, lane.last, lane.more) = ([head], head.sequence, true)
            } else {
                lane.insert(head)
            }
            guard becomesDirect else { return }
            (lane.directFrom, lane.directThrough) = (head.sequence, head.sequence)
            lane.isDirectRangeOpen = !lane.more && lane.deferred.isEmpty && lane.upcoming.last?.sequence == head.sequence
        }
    }
}
