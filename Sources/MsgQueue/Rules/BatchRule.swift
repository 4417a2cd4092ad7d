/// Decisions about the batches of a batch transport.
package enum BatchRule {
    /// The most messages in the next batch. `taken` slots are in use, of at most `slots`: of batches with `maxBatches`, otherwise of
    /// attempts. While none is in use, a batch may have more messages than `slots`; so with the default of one attempt in flight there is
    /// one call at a time.
    package static func room(_ limits: BatchLimits, taken: Int, slots: Int) -> Int {
        if limits.maxBatches > 0 { return taken < slots ? limits.maxMessages : 0 }
        return taken == 0 ? limits.maxMessages : max(min(limits.maxMessages, slots - taken), 0)
    }

    /// The order in which a batch is delivered: the messages of each conversation one after another, in the order of their sequences. That
    /// may differ from the order in which they were chosen: in relaxed order one that waited for a time may fall due while others are
    /// chosen. Returns their places.
    package static func grouped(_ messages: [(conversation: Name, sequence: Int64)]) -> [Int] {
        var group: [Name: Int] = [:]
        let groups = messages.map { message -> Int in
            let number = group[message.conversation] ?? group.count
            group[message.conversation] = number
            return number
        }
        // Mostly each is of another conversation.
        guard group.count < messages.count else { return Array(messages.indices) }
        return groups.indices.sorted { (groups[$0], messages[$0].sequence) < (groups[$1], messages[$1].sequence) }
    }

    /// The order in which the outcomes of a batch are handled: those that were skipped last. Returns their places.
    package static func settlingOrder(_ verdicts: [Outcome.Verdict]) -> [Int] {
        verdicts.indices.filter { verdicts[$0] != .skipped } + verdicts.indices.filter { verdicts[$0] == .skipped }
    }

    /// How long a skipped message waits, in milliseconds: not at all if another attempt has ended since its own began; otherwise a transport
    /// that skips everything would be called again and again.
    package static func skipDelay(hasProgress: Bool) -> Int64 { hasProgress ? 0 : 1_000 }

    /// Returns one outcome for each of `count` messages; one that is missing counts as a failure of unknown kind.
    package static func complete(_ outcomes: [Outcome], count: Int) -> [Outcome] {
        guard outcomes.count != count else { return outcomes }
        let text = "the transport returned \(outcomes.count) outcomes for a batch of \(count) messages"
        return Array(repeating: Outcome(verdict: .unknown, text: text), count: count)
    }
}
