extension QueueReader {
    /// Explains why a message is not sent yet.
    func explain(_ id: String) throws(QueueError) -> Explanation {
        guard let row = try store.messages.find(id, .none) else {
            throw QueueError(.notFound, "message not found: \(id)")
        }
        let now = ports.moment
        return try explanation(Explainer(context.core.scheduler, store.queue, sending: writes.sendingSequences, now).explain(row), now)
    }

    /// Explains the next messages of a page, one at least, and more until the time of a step has passed: each may need the messages before it
    /// in its conversation. Returns false when all are explained.
    func addReasons(_ list: inout QueueReader.List) throws(QueueError) -> Bool {
        guard !list.unexplained.isEmpty else { return false }
        let now = ports.moment
        let explainer = Explainer(context.core.scheduler, store.queue, sending: writes.sendingSequences, now)
        var (time, explained, ids) = (SearchTime(), 0, [Int64: String]())
        time.begin(at: now.mono)
        while let row = list.unexplained.first, time.allows(&explained, least: 1, ports.moment) {
            let place = list.messages.count - list.unexplained.count
            list.unexplained.removeFirst()
            ids[row.sequence] = row.id
            let isDamaged = row.damage != nil || row.progress.isDamaged
            let answer = isDamaged ? Explainer<QueueIndex>.Answer.failed : try explainer.explain(row)
            if let holder = answer.holder, ids[holder] == nil { ids[holder] = try store.messages.row(at: holder, .none)?.id }
            list.messages[place].explanation = explanation(answer, behind: answer.holder.flatMap { ids[$0] }, now)
        }
        return !list.unexplained.isEmpty
    }

    func explanation(_ answer: Explainer<QueueIndex>.Answer, _ now: Moment) throws(QueueError) -> Explanation {
        let holder = try answer.holder.flatMap { sequence throws(QueueError) in try store.messages.row(at: sequence, .none)?.id }
        return explanation(answer, behind: holder, now)
    }

    private func explanation(_ answer: Explainer<QueueIndex>.Answer, behind holder: String?, _ now: Moment) -> Explanation {
        Explanation(
            reason: answer.wait.reason, until: answer.wait.until, behind: holder, text: text(answer, now), retries: permittedRetries)
    }

    /// In a store that is only looked at, the options of the program that sends are not known.
    private var permittedRetries: UInt32 {
        options.isObserving ? 0 : UInt32(clamping: RetryPolicy(options).steps)
    }

    private func text(_ answer: Explainer<QueueIndex>.Answer, _ now: Moment) -> String {
        let wait = answer.wait
        if wait.reason == .noTransport, let text = Words.noTransport(options) { return text }
        if wait.reason == .next, let hung = hungCalls { return Words.hung(hung) }
        if wait.reason == .paused, !context.core.scheduler.gate.pauses.isPaused { return Words.conversationPaused }
        let text = Words.explanation(
            wait, connected: answer.connected, now: now.wall, isAsking: context.core.scheduler.prompt.isAsking(now),
            offlineReason: context.core.scheduler.gate.offlineReason)
        // What the message waits for, then that nothing is sent from here.
        guard wait.reason.isWaiting, let observed = Words.noTransport(options) else { return text }
        return "\(text) \(observed)"
    }

    /// The number of hung calls of the transport, if they use every slot; otherwise nil.
    var hungCalls: Int? {
        guard context.core.scheduler.flights.slotsTaken >= context.core.scheduler.flights.slots,
            context.core.scheduler.flights.hung > Flights.hungCeiling
        else {
            return nil
        }
        return context.core.scheduler.flights.hung
    }
}

extension QueueIndex: QueuedMessages {}
