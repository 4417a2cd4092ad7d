extension MessageQueue {
    // MARK: Changing what a message contains

    /// Replaces the body, and if given the metadata, of a queued or failed message; id and place stay. An event reports it
    /// (``Event/edited(id:conversation:)``).
    ///
    /// - Parameters:
    ///   - id: The message.
    ///   - body: The new body.
    ///   - metadata: The new metadata, in place of all of the old; nil: it stays.
    /// - Throws: `.notFound`, `.busy` (being sent), `.conflict` (sent), `.tooLarge`, `.full`, `.corrupt` (it is damaged).
    public func edit(_ id: String, body: [UInt8], metadata: [String: String]? = nil) throws(Error) {
        try change(body, metadata) { change throws(Error) in try engine.edit(id, change) }
    }

    /// The same with a text, as UTF-8.
    public func edit(_ id: String, body text: String, metadata: [String: String]? = nil) throws(Error) {
        try edit(id, body: Array(text.utf8), metadata: metadata)
    }

    /// The same, if the message was not edited since it was read. Otherwise it throws `.conflict`, and nothing changes.
    ///
    /// - Parameters:
    ///   - id: The message.
    ///   - body: The new body.
    ///   - metadata: The new metadata, in place of all of the old; nil: it stays.
    ///   - time: ``Message/editedAt`` of the message as it was read; nil: it was never edited.
    public func edit(_ id: String, body: [UInt8], metadata: [String: String]? = nil, ifEdited time: Timestamp?) throws(Error) {
        try change(body, metadata) { change throws(Error) in
            // Before 1970 nothing was edited, and the number would have another meaning.
            try engine.edit(id, change, ifEdited: time.map { max($0.millisecondsSince1970, 1) } ?? 0)
        }
    }

    /// The same with a text, as UTF-8.
    public func edit(_ id: String, body text: String, metadata: [String: String]? = nil, ifEdited time: Timestamp?) throws(Error) {
        try edit(id, body: Array(text.utf8), metadata: metadata, ifEdited: time)
    }

    /// Changes a message that was received from someone else (``record(_:sender:)``), after its sender changed it. It keeps its id, its
    /// conversation and its status: a message that was read stays read. An event reports it (``Event/edited(id:conversation:)``).
    ///
    /// - Parameters:
    ///   - id: The message.
    ///   - body: The new body.
    ///   - metadata: The new metadata, in place of all of the old; nil: it stays.
    ///   - time: When its sender sent it; nil: it stays. As in a draft.
    /// - Throws: `.notFound`, `.conflict` (one's own message), `.tooLarge`, `.full` (``Options/limitFileBytes``), `.corrupt` (it is damaged).
    public func update(_ id: String, body: [UInt8], metadata: [String: String]? = nil, time: Timestamp? = nil) throws(Error) {
        try change(body, metadata, time) { change throws(Error) in try engine.update(id, change) }
    }

    /// The same with a text, as UTF-8.
    public func update(_ id: String, body text: String, metadata: [String: String]? = nil, time: Timestamp? = nil) throws(Error) {
        try update(id, body: Array(text.utf8), metadata: metadata, time: time)
    }

    private func change(
        _ body: [UInt8], _ metadata: [String: String]?, _ time: Timestamp? = nil, _ make: (MessageChange) throws(Error) -> Void
    ) throws(Error) {
        try body.withBytes { bytes throws(Error) in
            try make(MessageChange(body: bytes, metadata: metadata.map(Draft.pairs), time: time?.given ?? 0))
        }
    }
}
