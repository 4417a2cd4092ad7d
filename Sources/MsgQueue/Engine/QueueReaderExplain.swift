/// Why a message is not sent yet.
extension QueueReader {
    func explain(_ id: String) throws(QueueError) -> Explanation {
        guard let row = try store.find(id, .none) else {
            throw QueueError(.notFound, "message not found: \(id)")
        }
        let now = ports.moment
        let (reason, until, holder) = try reason(row, context.core.scheduler, now)
        let behind = try holder.flatMap { sequence throws(QueueError) in try store.row(at: sequence, .none)?.id }
        return Explanation(reason: reason, until: until, behind: behind, text: try text(reason, until, row, now))
    }

    private func text(_ reason: Explanation.Reason, _ until: Int64, _ row: Row, _ now: Moment) throws(QueueError) -> String {
        if reason == .noTransport, options.readOnly { return Words.readOnly }
        if reason == .next, let hung = hungCalls { return Words.hung(hung) }
        let ahead = try messagesAhead(of: row)
        let wait = context.core.scheduler.wait(reason, until: until, row.sequence, row.conversation, ahead: ahead)
        let connected = reason == .offline ? try waitWhenConnected(row, ahead: ahead, now) : nil
        return Words.explanation(wait, connected: connected, now: now.wall, isAsking: context.core.scheduler.isAsking(now))
    }

    /// The number of hung calls of the transport, if they use every slot; otherwise nil.
    var hungCalls: Int? {
        guard context.core.scheduler.slotsTaken >= options.maxInFlight, context.core.scheduler.hung > Scheduler.hungCeiling else {
            return nil
        }
        return context.core.scheduler.hung
    }

    /// With a limit per drain: how many queued messages are before this one. Returns Int.max if at least a batch of them may be.
    private func messagesAhead(of row: Row) throws(QueueError) -> Int {
        guard options.drainBatch > 0 else { return 0 }
        let counted = min(options.drainBatch, Scheduler.scanChunk)
        let sending = writes.sendingSequences
        let first = try store.queued(after: 0, limit: counted + sending.count)
        return first.filter { !sending.contains($0.head.sequence) }.firstIndex { $0.head.sequence >= row.sequence } ?? Int.max
    }

    /// Returns the wait of a message after the connection has returned.
    private func waitWhenConnected(_ row: Row, ahead: Int, _ now: Moment) throws(QueueError) -> Wait {
        let connected = context.core.scheduler.assumingOnline(now, ahead: ahead)
        let (reason, until, holder) = try reason(row, connected, now)
        // A message behind one that is sent when connected is sent then, too.
        if reason == .behind, let holder, let first = try store.row(at: holder, .none), first.sequence != row.sequence,
            try self.reason(first, connected, now).0 == .next
        {
            return Wait(reason: connected.budget > 0 ? .next : .trigger, isInTurn: true)
        }
        return connected.wait(reason, until: until, row.sequence, row.conversation, ahead: ahead)
    }

    private func reason(
        _ row: Row, _ scheduler: Scheduler, _ now: Moment
    ) throws(QueueError) -> (Explanation.Reason, Int64, Int64?) {
        if writes.sendingSequences.contains(row.sequence) { return (.sending, 0, nil) }
        switch row.progress.status {
        case .sent, .delivered, .read: return (.done, 0, nil)
        case .sending: return (.sending, 0, nil)
        case .failed:
            // A failed message with a manual retry waits like a queued one.
            guard scheduler.isForced(row.sequence) else { return (.failed, 0, nil) }
        case .queued: break
        }
        let flight = scheduler.flights.values.first { $0.conversation == row.conversation }
        // It timed out, but the call of the transport has not returned.
        if flight?.sequence == row.sequence { return (.sending, 0, nil) }
        let holder: Int64?
        if let flight { holder = flight.sequence } else { holder = try firstHolder(row, scheduler, now) }
        let (reason, until) = scheduler.explain(row.head, row.conversation, holder: holder, now)
        switch reason {
        case .behind: return (reason, until, holder)
        case .blocked: return (reason, until, scheduler.block(of: row.conversation))
        default: return (reason, until, nil)
        }
    }

    /// Returns the first queued message before this one that blocks the conversation.
    private func firstHolder(_ row: Row, _ scheduler: Scheduler, _ now: Moment) throws(QueueError) -> Int64? {
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
