/// The ends of waits for outcomes.
extension QueueReader {
    /// Returns the message with the reason why it is not sent yet when a wait for its outcome ends; nil: the wait continues. `isKnown`: the
    /// message was in the store when the wait began. `isTimeout`: the wait ends in any case.
    func ending(of id: String, isKnown: Bool, isTimeout: Bool) throws(QueueError) -> Message? {
        guard let row = try store.messages.find(id, .none) else {
            // The message is deleted if no event named it: the whole queue or conversation was cleared.
            guard let gone = waits.message(gone: id) ?? (isKnown ? Message(deleted: id, "") : nil) else {
                throw QueueError(.notFound, "message not found: \(id)")
            }
            return gone
        }
        let now = ports.moment
        let explainer = Explainer(context.core.scheduler, store.queue, sending: writes.sendingSequences, now)
        let answer = try explainer.explain(row)
        if !isTimeout, try continues(row, answer, explainer) { return nil }
        var message = try message(id: id)
        message.explanation = try explanation(answer, now)
        return message
    }

    private func continues(_ row: Row, _ answer: Explainer<QueueIndex>.Answer, _ explainer: Explainer<QueueIndex>) throws(QueueError)
        -> Bool
    {
        // A failed message that was put back has all of its retries again.
        let hasOutcome = row.progress.retriesUsed > 0 && !context.core.scheduler.requests.contains(row.sequence)
        var holder: Wait?
        if answer.wait.reason == .behind, let sequence = answer.holder {
            if let first = try store.messages.row(at: sequence, .none) {
                holder = try explainer.explain(first).wait
            } else {
                holder = Wait(reason: .done)
            }
        }
        return WaitRule.continues(answer.wait, hasOutcome: hasOutcome, holder: holder)
    }
}
