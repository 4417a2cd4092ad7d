/// The limits of the batches that a batch transport receives.
package struct BatchLimits: Sendable, Equatable {
    package static let mostMessages = 1_000
    package static let mostBytes: Int64 = 1 << 30
    package static let longestLinger: Int64 = 60_000
    package static let mostBatches = 64

    /// The most messages in a batch.
    package var maxMessages = 100
    /// The most bytes of bodies in a batch; a larger message is alone in its batch.
    package var maxBytes = 1 << 20
    /// How long a batch that is not full waits for more messages, in milliseconds.
    package var linger: Int64 = 0
    /// All messages of a batch belong to one conversation.
    package var singleConversation = false
    /// The most batches in flight; they are then not limited by `maxInFlight`. 0: they are.
    package var maxBatches = 0

    package init() {}

    /// Throws `invalid`, with the name of the option, if a value is out of its range.
    package func validate() throws(QueueError) {
        func check(_ value: Int64, _ most: Int64, _ least: Int64, _ name: String) throws(QueueError) {
            guard value >= least, value <= most else {
                throw QueueError(.invalid, "\(name) must be \(least) to \(most), got \(value)")
            }
        }
        try check(Int64(clamping: maxMessages), Int64(Self.mostMessages), 1, "max messages of a batch")
        try check(Int64(clamping: maxBytes), Self.mostBytes, 1, "max bytes of a batch")
        try check(linger, Self.longestLinger, 0, "linger of a batch, in ms,")
        try check(Int64(clamping: maxBatches), Int64(Self.mostBatches), 0, "max batches in flight")
    }
}
