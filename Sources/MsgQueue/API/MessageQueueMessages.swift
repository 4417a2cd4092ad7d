extension MessageQueue {
    // MARK: Enqueueing

    /// Stores one message as `queued` and returns its id. The message then survives power loss.
    ///
    /// - Throws: `.invalid`, `.duplicate` (the id is in the store, or was sent or replaced recently), `.full`, `.tooLarge`, `.storage`,
    ///   `.unknown`, `.closed`.
    @discardableResult
    public func enqueue(_ draft: Draft) throws(Error) -> String {
        let ids = try draft.withBorrowed { borrowed throws(Error) in try engine.enqueue(DraftBatch(borrowed)).ids() }
        guard let id = ids.first else { throw Error(.internal, "enqueue returned no id") }
        return id
    }

    /// The same for a message whose body is a text, as UTF-8.
    @discardableResult
    public func enqueue(
        _ text: String, conversation: String = "", metadata: [String: String] = [:], id: String? = nil
    ) throws(Error) -> String {
        try enqueue(Draft(text, conversation: conversation, metadata: metadata, id: id))
    }

    /// Stores messages in this order, all or none, and returns their ids. The detail of an error about one of several drafts begins with its
    /// index, from 0.
    @discardableResult
    public func enqueue(_ drafts: [Draft]) throws(Error) -> [String] {
        try Draft.withBorrowed(drafts) { borrowed throws(Error) in try engine.enqueue(borrowed).ids() }
    }

    /// Stores messages that are like `draft` except for their bodies, in this order, all or none, and returns their ids. The draft has no id,
    /// no replace key and an empty body.
    @discardableResult
    public func enqueue(bodies: [[UInt8]], like draft: Draft = Draft([])) throws(Error) -> [String] {
        guard draft.body.isEmpty else { throw Error(.invalid, "the draft of several bodies must have no body of its own") }
        return try draft.withBorrowed { common throws(Error) in
            try Array(bodies.joined()).withBytes { joined throws(Error) in
                try bodies.map(\.count).withUnsafeBufferPointer { sizes throws(Error) in
                    try engine.enqueue(joined, sizes: sizes, like: common).ids()
                }
            }
        }
    }

    // MARK: One message

    /// - Throws: `.notFound`.
    public func message(id: String) throws(Error) -> Message { Message(try engine.message(id: id)) }

    /// Deletes one message.
    ///
    /// - Throws: `.notFound`, `.busy` (being sent).
    public func delete(_ id: String) throws(Error) { try engine.delete(id) }

    /// Tries a failed message again at once, in its old place.
    ///
    /// While offline it fails again at once as offline (modes `ask` and `manual`), or is queued, to be sent when online (mode `auto`).
    /// While paused it is queued in any mode, to be sent after the resume in its turn (mode `auto`) or by the next drain (modes `ask` and
    /// `manual`).
    ///
    /// - Throws: `.notFound`, `.conflict` (not failed), `.busy`, `.noTransport`, `.storage`, `.corrupt` (it is damaged).
    public func retry(_ id: String) throws(Error) { try engine.retry(id) }

    /// Sends one queued message at once, before those that precede it. While offline the attempt ends at once as offline: the message stays
    /// queued.
    ///
    /// - Throws: As `retry`, and `.conflict` while paused.
    public func sendNow(_ id: String) throws(Error) { try engine.sendNow(id) }

    /// Returns the attempts of one message, oldest first: the first 4, the last 60, and the last one that a crash interrupted. The numbers
    /// show how many are missing.
    ///
    /// Less is kept of new attempts when the disk is full, or the files, with what unsent messages still need, are 512 KiB over
    /// ``Options/limitFileBytes``: the first 63 bytes of a text; when they are 768 KiB over it, only the last attempt, the last interrupted
    /// one, and the last one that did not end as offline.
    ///
    /// - Throws: `.notFound`.
    public func attempts(_ id: String) throws(Error) -> [Attempt] { try engine.attempts(id).map(Attempt.init) }

    /// Returns why the message is not sent yet, as a code and a text.
    ///
    /// - Throws: `.notFound`.
    public func explain(_ id: String) throws(Error) -> Explanation { Explanation(try engine.explain(id)) }

    // MARK: Many messages

    /// Returns a page of messages in the order of sending or by time. For the next page set ``Filter/after`` to the last message's
    /// `sequence`, and in the order by time ``Filter/afterTime`` to its `time`.
    public func list(_ filter: Filter = Filter()) throws(Error) -> [Message] { try engine.list(filter.engine()).map(Message.init) }

    /// Returns a page of conversations, the one with the newest message first.
    ///
    /// - Parameters:
    ///   - before: For the next page: `last.sequence` of the last conversation of this one.
    ///   - limit: 1 to 1000. Only the last page has fewer.
    public func conversations(before: Int64? = nil, limit: Int = 50) throws(Error) -> [Conversation] {
        try engine.conversations(before: before ?? 0, limit: limit).map(Conversation.init)
    }

    /// Returns one conversation.
    ///
    /// - Throws: `.notFound`: it has no messages.
    public func conversation(named name: String) throws(Error) -> Conversation { Conversation(try engine.conversation(name)) }

    /// Returns a page of conversations in the order of their newest messages by time.
    ///
    /// - Parameters:
    ///   - last: For the next page: `last` of the last conversation of this one; nil: the first page.
    ///   - limit: 1 to 1000. Only the last page has fewer.
    public func conversationsByTime(after last: Message? = nil, limit: Int = 50) throws(Error) -> [Conversation] {
        let place = last.map { TimePlace($0.time.millisecondsSince1970, $0.sequence) }
        return try engine.conversationsByTime(before: place, limit: limit).map(Conversation.init)
    }

    /// Gives a conversation a title for people: at most 255 bytes without control characters; "" removes it. It is kept while messages come and
    /// go, also when pruning removes the last one.
    ///
    /// - Throws: `.notFound` (the conversation has no messages; not when the title is removed).
    public func setTitle(_ title: String, of conversation: String) throws(Error) { try engine.setTitle(title, of: conversation) }

    /// Deletes the queued and failed messages of one conversation, or of all, that are stored now, in steps between which other calls run.
    ///
    /// A message that is being sent is deleted when its attempt ends, unless that succeeds. None of the others is sent any more. Messages that
    /// are added meanwhile stay. After an error those not deleted yet are as they were.
    public func clear(conversation: String? = nil) throws(Error) { try engine.clear(conversation) }

    /// Deletes every message of a conversation that is stored now, also the received ones. Returns their number.
    ///
    /// It deletes from the oldest on, in steps between which other calls run. Until it returns nothing of the conversation is sent. After an
    /// error the oldest ones are gone; call it again. Messages that are added meanwhile stay.
    ///
    /// - Throws: `.busy`: one of its messages is being sent; nothing was changed.
    @discardableResult
    public func deleteConversation(_ conversation: String) throws(Error) -> Int { Int(try engine.deleteConversation(conversation)) }

    /// Deletes failed messages in steps, between which other calls run. Returns their number.
    ///
    /// - Parameters:
    ///   - conversation: Only its messages; nil: those of all.
    ///   - kind: Only those with this kind of ``Message/failure``; nil: with any.
    ///   - code: Only those with this code of ``Message/failure``; 0: without a code; nil: with any.
    @discardableResult
    public func clearFailed(conversation: String? = nil, kind: FailureKind? = nil, code: Int? = nil) throws(Error) -> Int {
        Int(try engine.clearFailed(Filter.failed(conversation, kind, code)))
    }

    /// Returns the failed messages of all conversations by kind and code of their failures, the largest groups first. Not by counting, so as
    /// fast with a million messages.
    ///
    /// - Parameter limit: 1 to 1000.
    public func failureGroups(limit: Int = 50) throws(Error) -> [FailureGroup] {
        try engine.failureGroups(limit: limit).map(FailureGroup.init)
    }

    /// Counts the queued messages by what they wait for.
    ///
    /// It takes longer with more messages that are scheduled or wait for a retry, and while conversations are paused reads these in steps,
    /// between which other calls run.
    public func waiting() throws(Error) -> Waiting { Waiting(try engine.waiting()) }

    /// Puts failed messages back to `queued` in their places with all of their retries, and sends them
    /// in any mode. Returns their number at once.
    ///
    /// While offline nothing changes in the modes `ask` and `manual`. The call is not atomic: after an error, some of them are queued.
    ///
    /// - Throws: `.noTransport`, `.storage`.
    /// - Parameters:
    ///   - conversation: Only its messages; nil: those of all.
    ///   - kind: Only those with this kind of ``Message/failure``; nil: with any.
    ///   - code: Only those with this code of ``Message/failure``; 0: without a code; nil: with any.
    @discardableResult
    public func retryAll(conversation: String? = nil, kind: FailureKind? = nil, code: Int? = nil) throws(Error) -> Int {
        Int(try engine.retryAll(Filter.failed(conversation, kind, code)))
    }
}
