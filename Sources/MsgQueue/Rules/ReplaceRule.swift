/// Decides which queued messages a new one of the same key and conversation replaces, and where it stands.
package enum ReplaceRule {
    /// What a new message with a key does.
    package struct Plan: Equatable, Sendable {
        /// The sequence of the message whose place it takes; nil: it stands behind all others.
        package var place: Int64?
        /// The queued messages that it replaces, in order. `place` is one of them.
        package var replaced: [Int64]

        package init(place: Int64? = nil, replaced: [Int64] = []) { (self.place, self.replaced) = (place, replaced) }
    }

    /// `queued`: the messages of the key and conversation with status `queued`, in order; those being sent are stored as queued.
    ///
    /// A message that is being sent is left. The new one stands behind it, so that the receiver gets the newest value last. Every other one
    /// is replaced: there can be several after manual retries, or when a message that was being sent is queued again.
    package static func plan(_ queued: [Int64], isSending: (Int64) -> Bool) -> Plan {
        let left = queued.last(where: isSending) ?? 0
        let replaced = queued.filter { !isSending($0) }
        return Plan(place: replaced.first { $0 > left }, replaced: replaced)
    }
}
