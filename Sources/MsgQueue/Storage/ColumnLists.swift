/// What a `Row` consists of. Every statement that reads or writes whole rows is made from this list. (The column `indexed` is not in
/// it: only the fold uses it.)
enum MessageColumn: Int, Columns {
    case seq, status, id, named, conversation, sender, createdAt, editedAt, metadata, notBefore, expiresAt, unmeteredOnly
    case attempts, retriesUsed, dueAt, dueDelay, dueBoot, dueUptime, lastAttemptAt, sentAt, sentDuration, sentCode, deliveredAt, readAt
    case flags, stateHash, contentHash, bodySize, body, priority, replaceKey

    static let names = columnNames()

    /// What attempts, receipts and people change, besides the status and its checksum; 0 in a new message.
    static let progress: [MessageColumn] = [
        .attempts, .retriesUsed, .dueAt, .dueDelay, .dueBoot, .dueUptime, .lastAttemptAt, .sentAt, .sentDuration, .sentCode, .deliveredAt,
        .readAt, .flags,
    ]

    /// What an edit changes.
    static let edited: [MessageColumn] = [.editedAt, .contentHash, .bodySize, .body]

    static let addedInLayout2: [MessageColumn: String] = [
        .deliveredAt: "0", .readAt: "0", .dueBoot: "0", .dueUptime: "0", .priority: "0", .replaceKey: "NULL",
    ]
}

/// What the scheduler knows of a queued message.
enum HeadColumn: Int, Columns {
    case seq, conversation, dueAt, dueDelay, dueBoot, dueUptime, flags, notBefore, expiresAt, unmeteredOnly

    static let names = columnNames()
}

/// What must be known of a message to remove it.
enum OutlineColumn: Int, Columns {
    case seq, status, id, conversation, sender, bodySize

    static let names = columnNames()
}

/// A line of the ledger.
enum AttemptColumn: Int, Columns {
    case seq, number, startedAt, duration, outcome, kind, code, arrival, text

    static let names = columnNames()
}

/// A row of `conversation`.
enum ConversationColumn: Int, Columns {
    case name, queued, sent, delivered, read, failed, received, unread, unsentBytes, lastSeq, proof

    static let names = columnNames()
    static let counts: [ConversationColumn] = [.queued, .sent, .delivered, .read, .failed, .received, .unread, .unsentBytes]
    static let addedInLayout2: [ConversationColumn: String] = [.proof: "0"]
}
