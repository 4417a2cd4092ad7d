/// The lines for messages that the queue deletes.
extension LogText {
    /// Returns the line for a message that was deleted because of its failure. It contains the kind and the code, because the receiver may
    /// have sent no text.
    package static func discarded(_ id: String, _ failure: Failure) -> String {
        let attempts = failure.attempts == 1 ? "1 attempt" : "\(failure.attempts) attempts"
        let text = failure.text.isEmpty ? "" : ": \(failure.text)"
        return "message \(id) is discarded after \(attempts) (\(failure.kind.word), code \(failure.code))\(text)"
    }

    /// Returns the line for messages that were dropped because the queue was full. `first`: the id of the first one.
    package static func dropped(_ count: Int, first: String) -> String {
        count == 1
            ? "the queue is full: message \(first) was dropped" : "the queue is full: \(count) messages were dropped, first \(first)"
    }
}
