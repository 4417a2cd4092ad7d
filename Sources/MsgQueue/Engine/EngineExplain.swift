/// Why a message is not sent yet.
extension Engine {
    package func explain(_ id: String) throws(QueueError) -> Explanation {
        try DraftRule.check(id: id)
        return try locked { () throws(QueueError) in
            guard let sequence = try store.sequence(of: id), let row = try store.row(at: sequence, .none) else {
                throw QueueError(.notFound, "there is no message \(id)")
            }
            let now = ports.moment
            let (reason, until, holder) = try reason(row, now)
            let behind = try holder.flatMap { sequence throws(QueueError) in try store.row(at: sequence, .none)?.id }
            let holdUp = reason == .next && scheduler.slotsTaken >= options.maxInFlight ? scheduler.hung : 0
            return Explanation(
                reason: reason, until: until, behind: behind,
                text: holdUp > Scheduler.hungCeiling
                    ? Words.hung(holdUp) : Words.explanation(reason, until: until, now: now.wall, mode: options.mode))
        }
    }

    private func reason(_ row: Row, _ now: Moment) throws(QueueError) -> (Explanation.Reason, Int64, Int64?) {
        if sendingPlaces.contains(row.sequence) { return (.sending, 0, nil) }
        switch row.progress.status {
        case .sent, .delivered, .read: return (.done, 0, nil)
        case .sending: return (.sending, 0, nil)
        case .failed:
            // A retry that was asked for waits like a queued message.
            guard scheduler.isForced(row.sequence) else { return (.failed, 0, nil) }
        case .queued: break
        }
        let flight = scheduler.flights.values.first { $0.conversation == row.conversation }
        // Its time ran out, but the transport's call has not come back.
        if flight?.sequence == row.sequence { return (.sending, 0, nil) }
        let holder: Int64?
        if let flight { holder = flight.sequence } else { holder = try firstHolder(row, now) }
        let (reason, until) = scheduler.explain(row.head, row.conversation, holder: holder, now)
        switch reason {
        case .behind: return (reason, until, holder)
        case .blocked: return (reason, until, scheduler.block(of: row.conversation))
        default: return (reason, until, nil)
        }
    }

    /// The first queued message before this one that holds the conversation.
    private func firstHolder(_ row: Row, _ now: Moment) throws(QueueError) -> Int64? {
        var after: Int64 = 0
        while true {
            let page = try store.queued(in: row.conversation, after: after, limit: 64)
            for head in page {
                if head.sequence >= row.sequence { return nil }
                if scheduler.holds(head, now) { return head.sequence }
            }
            guard page.count == 64, let last = page.last else { return nil }
            after = last.sequence
        }
    }
}
