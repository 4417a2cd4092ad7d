extension QueueReader {
    /// Explains why a message is not sent yet.
    func explain(_ id: String) throws(QueueError) -> Explanation {
        guard let row = try store.find(id, .none) else {
            throw QueueError(.notFound, "message not found: \(id)")
        }
        let now = ports.moment
        return try explanation(Explainer(context.core.scheduler, store, sending: writes.sendingSequences, now).explain(row), now)
    }

    func explanation(_ answer: Explainer<Store>.Answer, _ now: Moment) throws(QueueError) -> Explanation {
        let holder = try answer.holder.flatMap { sequence throws(QueueError) in try store.row(at: sequence, .none)?.id }
        return Explanation(reason: answer.wait.reason, until: answer.wait.until, behind: holder, text: text(answer, now))
    }

    private func text(_ answer: Explainer<Store>.Answer, _ now: Moment) -> String {
        if answer.wait.reason == .noTransport, let text = Words.noTransport(options) { return text }
        if answer.wait.reason == .next, let hung = hungCalls { return Words.hung(hung) }
        return Words.explanation(
            answer.wait, connected: answer.connected, now: now.wall, isAsking: context.core.scheduler.isAsking(now),
            offlineReason: context.core.scheduler.offlineReason)
    }

    /// The number of hung calls of the transport, if they use every slot; otherwise nil.
    var hungCalls: Int? {
        guard context.core.scheduler.slotsTaken >= context.core.scheduler.slots, context.core.scheduler.hung > Scheduler.hungCeiling else {
            return nil
        }
        return context.core.scheduler.hung
    }
}

extension Store: QueuedMessages {}
