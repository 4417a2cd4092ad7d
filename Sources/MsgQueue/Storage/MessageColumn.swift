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

    /// The columns that layout 2 added, with what stands for them in layout 1.
    static let addedInLayout2: [MessageColumn: String] = [
        .deliveredAt: "0", .readAt: "0", .dueBoot: "0", .dueUptime: "0", .priority: "0", .replaceKey: "NULL",
    ]

    /// The columns as a store of that layout can be asked for them.
    static func list(ofLayout layout: Int64) -> String {
        allCases.map { layout < 2 ? addedInLayout2[$0] ?? $0.name : $0.name }.joined(separator: ", ")
    }
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
