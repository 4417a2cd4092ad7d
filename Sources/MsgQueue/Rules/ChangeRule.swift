/// The rules for changes of stored messages.
package enum ChangeRule {
    /// In place of the time of an edit: whether the message was edited does not matter.
    package static let anyEdit: Int64 = -1

    /// Throws if the new content is invalid or too large.
    static func check(_ change: borrowing MessageChange, _ options: Options) throws(QueueError) {
        try DraftRule.check(bodySize: change.body.count, options)
        if let metadata = change.metadata { try DraftRule.check(metadata: metadata, options) }
        if change.time != 0 { try DraftRule.check(time: change.time) }
    }

    /// Throws if the time of an edit is none.
    static func check(ifEdited time: Int64) throws(QueueError) {
        guard time >= anyEdit else {
            throw QueueError(.invalid, "the time of the last edit must be 0 (never edited) or later, or -1 (any), got \(time)")
        }
    }

    /// Throws if the caller means another message.
    static func check(_ change: borrowing MessageChange, isOf row: Row) throws(QueueError) {
        if let id = change.id, Name(id) != Name(row.id) { throw QueueError(.invalid, "the id of a message cannot be changed") }
        if let conversation = change.conversation, conversation != row.conversation {
            throw QueueError(.invalid, "the conversation of a message cannot be changed")
        }
    }

    /// Throws unless the message is as the caller has read it.
    static func check(ifEdited time: Int64, _ row: Row) throws(QueueError) {
        guard time == anyEdit || time == row.editedAt else {
            throw QueueError(.conflict, "the message was edited since: edited_ms is \(row.editedAt), not \(time)")
        }
    }

    /// Throws unless the message was received from someone else.
    static func checkIsReceived(_ row: Row) throws(QueueError) {
        guard row.isReceived else {
            throw QueueError(.conflict, "only a received message can be updated; this one is one's own")
        }
    }

    /// Returns the time of an edit, which is later than that of the one before, whatever the clock does.
    static func editedAt(after before: Int64, now: Int64) -> Int64 { max(now, before.addingClamped(1), 1) }
}

extension MessageChange {
    /// The bytes that the content of a message has more afterwards.
    func growth(of row: Row) -> Int64 {
        var growth = Int64(body.count) - row.bodySize
        if let metadata {
            let text = metadata.reduce(Int64(0)) { $0 + Int64($1.key.utf8.count + $1.value.utf8.count) }
            growth += text - Int64(row.metadataText?.utf8.count ?? 0)
        }
        return growth
    }
}
