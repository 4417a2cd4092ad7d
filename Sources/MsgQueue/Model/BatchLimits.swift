/// The limits of the batches that a batch transport receives.
package struct BatchLimits: Sendable, Equatable {
    private static let messagesRange = NumberRange("max messages of a batch", 1...1_000)
    package static let bytesRange = NumberRange("max bytes of a batch", 1...(1 << 30))
    private static let lingerRange = NumberRange("linger of a batch, in ms,", 0...60_000)
    package static let batchesRange = NumberRange("max batches in flight", 0...64)

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
        try Self.messagesRange.check(maxMessages)
        try Self.bytesRange.check(maxBytes)
        try Self.lingerRange.check(linger)
        try Self.batchesRange.check(maxBatches)
    }
}
