/// What a draft must be like, and what it may weigh.
package enum DraftRule {
    package static let nameCeiling = 255

    /// Throws when an id is empty, over 255 bytes, or holds control characters.
    package static func check(id: String) throws(QueueError) {
        guard !id.isEmpty else { throw QueueError(.invalid, "the id is empty") }
        try check(name: id, "id")
    }

    package static func check(conversation: String) throws(QueueError) {
        try check(name: conversation, "conversation")
    }

    private static func check(name: String, _ what: String) throws(QueueError) {
        let size = name.utf8.count
        guard size <= nameCeiling else {
            throw QueueError(.invalid, "the \(what) has \(size) bytes, more than \(nameCeiling)")
        }
        for scalar in name.unicodeScalars where scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) {
            throw QueueError(.invalid, "the \(what) holds the control character \(scalar.value)")
        }
    }

    /// Throws when anything about a draft cannot be.
    package static func check(_ draft: borrowing BorrowedDraft, _ options: Options) throws(QueueError) {
        if let id = draft.id { try check(id: id) }
        if !draft.conversation.text.isEmpty { try check(conversation: draft.conversation.text) }
        try check(bodySize: draft.body.count, options)
        guard draft.notBefore >= 0, draft.expiresAt >= 0 else {
            throw QueueError(.invalid, "a time is negative")
        }
        guard draft.expiresAt == 0 || draft.expiresAt > draft.notBefore else {
            throw QueueError(.invalid, "the message would expire before it may be sent")
        }
        if !draft.metadata.isEmpty { try check(metadata: draft.metadata, options) }
    }

    package static func check(bodySize: Int, _ options: Options) throws(QueueError) {
        guard Int64(bodySize) <= options.limitBody else {
            throw QueueError(.tooLarge, "the body has \(bodySize) bytes, more than \(options.limitBody)")
        }
    }

    private static func check(metadata: [(key: String, value: String)], _ options: Options) throws(QueueError) {
        guard metadata.count <= Options.metadataPairs else {
            throw QueueError(.tooLarge, "\(metadata.count) metadata pairs, more than \(Options.metadataPairs)")
        }
        var size: Int64 = 0
        var keys = Set<Name>()
        for (key, value) in metadata {
            guard !key.isEmpty else { throw QueueError(.invalid, "a metadata key is empty") }
            guard !key.utf8.contains(0), !value.utf8.contains(0) else {
                throw QueueError(.invalid, "metadata holds a NUL")
            }
            guard keys.insert(Name(key)).inserted else { throw QueueError(.invalid, "the metadata key \(key) occurs twice") }
            size += Int64(key.utf8.count) + Int64(value.utf8.count)
        }
        guard size <= options.limitMetadata else {
            throw QueueError(.tooLarge, "the metadata has \(size) bytes, more than \(options.limitMetadata)")
        }
    }

    /// Throws `full` when so much more would be over a limit.
    package static func checkRoom(
        for messages: Int64, bytes: Int64, in counts: Counts, _ options: Options
    ) throws(QueueError) {
        if options.limitMessages > 0, messages > 0, counts.unsent + messages > options.limitMessages {
            throw QueueError(.full, "\(counts.unsent) unsent messages of \(options.limitMessages)")
        }
        if options.limitBytes > 0, bytes > 0, counts.unsentBytes + bytes > options.limitBytes {
            throw QueueError(.full, "\(counts.unsentBytes) unsent bytes of \(options.limitBytes), \(bytes) more do not fit")
        }
    }
}
