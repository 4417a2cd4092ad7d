/// The columns of a `Row`. Every statement that reads or writes whole rows is made from this list. (It omits the column `indexed`, which
/// only the fold uses.)
enum MessageColumn: Int, Columns {
    case seq, status, id, named, conversation, sender, createdAt, editedAt, metadata, notBefore, expiresAt, unmeteredOnly
    case attempts, retriesUsed, dueAt, dueDelay, dueBoot, dueUptime, lastAttemptAt, sentAt, sentDuration, sentCode, deliveredAt, readAt
    case flags, stateHash, contentHash, bodySize, body, priority, replaceKey
    case timeAt, spanBoot, startUptime, expiryUptime

    static let names = columnNames()

    static let added: [MessageColumn: (layout: Int64, value: String)] = [
        .timeAt: (3, "0"), .spanBoot: (3, "0"), .startUptime: (3, "0"), .expiryUptime: (3, "0"),
    ]

    /// The columns in which plain new messages differ: those without sender, metadata, time, expiry, priority, replace key and own id.
    static let plain: [MessageColumn] = [.seq, .id, .conversation, .createdAt, .stateHash, .contentHash, .bodySize, .body]

    /// The columns that are 0 in every plain new message. The others, `sender`, `metadata` and `replaceKey`, are NULL.
    static let zeroInPlain: [MessageColumn] =
        [
            .status, .named, .editedAt, .notBefore, .expiresAt, .unmeteredOnly, .priority, .timeAt, .spanBoot, .startUptime, .expiryUptime,
        ] + progress

    /// The columns that attempts, receipts and user actions change, besides the status and its checksum; 0 in a new message.
    static let progress: [MessageColumn] = [
        .attempts, .retriesUsed, .dueAt, .dueDelay, .dueBoot, .dueUptime, .lastAttemptAt, .sentAt, .sentDuration, .sentCode, .deliveredAt,
        .readAt, .flags,
    ]

    /// The columns of texts. The others contain integers, but `body`.
    static let texts: Set<MessageColumn> = [.id, .conversation, .sender, .metadata, .replaceKey]
    static let optional: Set<MessageColumn> = [.sender, .metadata, .replaceKey, .body]

    /// The columns that an edit or an update may change.
    static let edited: [MessageColumn] = [.editedAt, .metadata, .timeAt, .contentHash, .bodySize, .body]
}

/// The columns of a `Head`: what the scheduler needs of a queued message.
enum HeadColumn: Int, Columns {
    case seq, conversation, dueAt, dueDelay, dueBoot, dueUptime, flags, notBefore, expiresAt, unmeteredOnly, priority, bodySize
    case spanBoot, startUptime, expiryUptime

    static let names = columnNames()
}

/// The columns needed to remove a message.
enum OutlineColumn: Int, Columns {
    case seq, status, id, conversation, sender, bodySize, notBefore, unmeteredOnly

    static let names = columnNames()
}

/// The columns of `attempt`.
enum AttemptColumn: Int, Columns {
    case seq, number, startedAt, duration, outcome, kind, code, arrival, text

    static let names = columnNames()
}

/// The columns of `change`.
enum ChangeColumn: Int, Columns {
    case first, count, at, salt, bytes, rows, checksum

    static let names = columnNames()
}

/// The columns of `handed_over`.
enum HandedOverColumn: Int, Columns {
    case source, idHash, id, code, size, at, text, checksum

    static let names = columnNames()
}

/// The columns of `conversation`.
enum ConversationColumn: Int, Columns {
    case name, queued, sent, delivered, read, failed, received, unread, unsentBytes, lastSeq, proof, lastTime, timeSeq

    static let names = columnNames()
    static let added: [ConversationColumn: (layout: Int64, value: String)] = [.lastTime: (3, "0"), .timeSeq: (3, "0")]
    static let counts: [ConversationColumn] = [.queued, .sent, .delivered, .read, .failed, .received, .unread, .unsentBytes]
}
