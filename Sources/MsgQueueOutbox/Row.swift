import MsgQueue

/// A row of the table and its draft.
struct Row {
    let number: Int64
    let draft: MessageQueue.Draft
}

/// Why a row cannot be handed over.
struct Refusal {
    let number: Int64
    let reason: String
}

extension Row {
    /// The parameters of `SQL.insert` for a draft. Throws if the queue would not keep it, whatever its limits are.
    static func values(
        _ given: MessageQueue.Draft, id: String, now: Int64
    ) throws(MessageQueue.Error) -> [Statement.Value] {
        var draft = given
        draft.id = id
        return try draft.withBorrowed { lent throws(MessageQueue.Error) in
            try DraftRule.check(lent, HandOverRule.largest, wall: now)
            let times = DraftTimes(lent, life: 0, Moment(wall: now, mono: 0))
            return [
                .text(id), .text(given.conversation), time(times.notBefore), time(times.expiresAt),
                .integer(lent.time == 0 ? now : lent.time), .integer(Int64(lent.priority)), lent.replaceKey.map { .text($0) } ?? .null,
                .integer(lent.unmeteredOnly ? 1 : 0), lent.metadata.isEmpty ? .null : .blob(bytes(of: lent.metadata)), .blob(given.body),
            ]
        }
    }

    private static func time(_ milliseconds: Int64) -> Statement.Value { milliseconds == 0 ? .null : .integer(milliseconds) }

    /// Each key and each value in UTF-8, each followed by a zero byte.
    private static func bytes(of metadata: [(key: String, value: String)]) -> [UInt8] {
        var bytes: [UInt8] = []
        for (key, value) in metadata {
            bytes += key.utf8
            bytes.append(0)
            bytes += value.utf8
            bytes.append(0)
        }
        return bytes
    }

    // MARK: Reading

    enum Reading {
        case row(Row)
        case refused(Refusal)
    }

    /// Reads a row of `SQL.rows`. Anything may stand there, because anybody may write it. Throws only if the database fails.
    static func read(_ row: borrowing Statement) throws(Outbox.Error) -> Reading {
        guard let number = row.integer(0) else { throw Outbox.Error(.corrupt, "msgq_outbox has a row without a number") }
        func refused(_ reason: String) -> Reading { .refused(Refusal(number: number, reason: reason)) }
        guard let id = try row.text(1) else { return refused("the id is no text in UTF-8, or too long") }
        guard let conversation = try row.text(2) else { return refused("the conversation is no text in UTF-8, or too long") }
        let times = (row.integer(3), row.integer(4))
        guard (times.0 != nil || row.isNull(3)) && (times.1 != nil || row.isNull(4)), let time = row.integer(5) else {
            return refused("not_before_ms, expires_at_ms or time_ms is no integer")
        }
        guard let priority = row.integer(6), let isUnmetered = row.integer(8) else {
            return refused("priority or unmetered_only is no integer")
        }
        guard let priority = Int32(exactly: priority) else { return refused("the priority must be -100 to 100, got \(priority)") }
        guard isUnmetered == 0 || isUnmetered == 1 else { return refused("unmetered_only is not 0 or 1") }
        guard let key = row.isNull(7) ? "" : try row.text(7) else { return refused("the replace_key is no text in UTF-8, or too long") }
        guard let encoded = row.isNull(9) ? [] : try row.blob(9) else { return refused(problem("metadata", row.integer(9))) }
        guard let metadata = metadata(encoded) else {
            return refused("the metadata are not different keys with a value each, in UTF-8, all followed by a zero byte")
        }
        guard let body = try row.blob(10) else { return refused(problem("body", row.integer(10))) }
        let draft = MessageQueue.Draft(
            body, conversation: conversation, metadata: metadata, id: id,
            notBefore: MessageQueue.Timestamp(orNil: times.0 ?? 0), expiresAt: MessageQueue.Timestamp(orNil: times.1 ?? 0),
            unmeteredOnly: isUnmetered == 1, replaceKey: key, priority: Int(priority), time: MessageQueue.Timestamp(orNil: time))
        return .row(Row(number: number, draft: draft))
    }

    /// Why a value that is no blob was not read, by what `SQL.rows` returns in its place.
    private static func problem(_ column: String, _ size: Int64?) -> String {
        guard let size else { return "the \(column) is NULL" }
        return size < 0 ? "the \(column) is no BLOB" : "the \(column) has \(size) bytes, which is too large"
    }

    /// Returns the pairs that `bytes(of:)` wrote; nil for anything else.
    private static func metadata(_ bytes: [UInt8]) -> [String: String]? {
        guard bytes.last ?? 0 == 0 else { return nil }
        var (metadata, key): ([String: String], String?) = ([:], nil)
        for part in bytes.dropLast().split(separator: 0, omittingEmptySubsequences: false) where !bytes.isEmpty {
            guard let text = String(validating: part, as: UTF8.self) else { return nil }
            guard let name = key else {
                key = text
                continue
            }
            guard metadata.updateValue(text, forKey: name) == nil else { return nil }
            key = nil
        }
        return key == nil ? metadata : nil
    }
}
