/// Messages with generated ids that one call enqueued or recorded one after another in one conversation. Their events are created when they
/// are delivered, because a batch may have a million messages.
struct StoredRun {
    private let conversation: Name
    private let status: MessageStatus
    /// When they were stored, milliseconds since 1970.
    let at: Int64
    private(set) var count = 1
    /// The sequence number of the next message, and the generator of its random bits.
    private var next: (sequence: Int64, bits: RandomBits)
    /// The same of the message that would follow the last one.
    private var end: (sequence: Int64, bits: RandomBits)

    /// A run of one message. nil: its id is not generated.
    init?(_ message: StoredBatch.Message, as status: MessageStatus, at: Int64) {
        guard !message.isNamed else { return nil }
        (conversation, self.status, self.at) = (message.draft.conversation, status, at)
        (next, end) = ((message.sequence, message.bits), (message.sequence, message.bits))
        advance(&end)
    }

    /// Adds the message. Returns false when it does not follow the last one.
    mutating func append(_ message: StoredBatch.Message, as status: MessageStatus, at: Int64) -> Bool {
        guard !message.isNamed, message.sequence == end.sequence, message.bits == end.bits, at == self.at, status == self.status,
            message.draft.conversation == conversation
        else { return false }
        count += 1
        advance(&end)
        return true
    }

    private func advance(_ place: inout (sequence: Int64, bits: RandomBits)) {
        place.sequence += 1
        _ = place.bits.next()
    }

    /// Removes the first message and returns its event.
    mutating func popFirst() -> Event {
        let sequence = next.sequence
        let id = MessageID.make(sequence: sequence, now: at, random: next.bits.next())
        next.sequence += 1
        count -= 1
        return .appeared(id, conversation, as: status, at: at)
    }
}

extension Event {
    /// The event of a message that was enqueued or recorded.
    static func appeared(_ id: String, _ conversation: Name, as status: MessageStatus, at: Int64) -> Event {
        .status(StatusChange(id: id, conversation: conversation.text, from: nil, to: status, attempt: 0, failure: nil, at: at))
    }
}
