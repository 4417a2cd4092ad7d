extension MessageQueue {
    /// A message to enqueue or to record.
    public struct Draft: Sendable, Hashable {
        /// The idempotency key, the same on every attempt; nil: a new UUIDv7. 1 to 255 bytes without control characters.
        public var id: String?
        /// Messages of one conversation keep their order. At most 255 bytes without control characters.
        public var conversation: String
        /// What is to be sent: any bytes, at most ``MessageQueue/Options/limitBody``.
        public var body: [UInt8]
        /// For the transport and the program: at most ``MessageQueue/Options/limitMetadata`` bytes in 1024 pairs. Keys are not empty.
        public var metadata: [String: String]
        /// Not sent before this time.
        public var notBefore: Timestamp?
        /// A message that is not sent by then fails with kind `expired`. nil: the default of ``Options/expiry``.
        public var expiresAt: Timestamp?
        /// Sends the message only while the link is unmetered.
        public var unmeteredOnly: Bool
        /// Replaces a queued message of this key in the conversation, in its place and with an id of its own; nil or empty: none. One that
        /// is being sent is left, and this one stands behind it. At most 255 bytes without control characters.
        public var replaceKey: String?

        /// -100 to 100. Of conversations whose first messages may be sent, the one whose message has the highest priority is next; see
        /// ``Options/liveShare``. The order within a conversation does not change. A recorded message has priority 0.
        public var priority: Int
        /// When the message was composed, or sent by its sender; nil: now. Years 1970 to 9999. Lists show and order messages by it; the order of
        /// sending does not depend on it.
        public var time: Timestamp?
        /// In place of ``notBefore``: not sent before this much time has passed since the enqueue; 0 to 10 years. Until the system is booted
        /// again it is measured by a clock that cannot be set, as ``expiry`` is.
        public var delay: Duration?
        /// In place of ``expiresAt``: how long the message may wait, from the enqueue or from its start; 0 to 10 years.
        public var expiry: Duration?

        /// Creates a draft. The parameters are the properties of the same names.
        public init(
            _ body: [UInt8], conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
            notBefore: Timestamp? = nil, expiresAt: Timestamp? = nil, unmeteredOnly: Bool = false, replaceKey: String? = nil,
            priority: Int = 0, time: Timestamp? = nil, delay: Duration? = nil, expiry: Duration? = nil
        ) {
            self.id = id
            self.conversation = conversation
            self.body = body
            self.metadata = metadata
            self.notBefore = notBefore
            self.expiresAt = expiresAt
            self.unmeteredOnly = unmeteredOnly
            self.replaceKey = replaceKey
            self.priority = priority
            self.time = time
            self.delay = delay
            self.expiry = expiry
        }

        /// Creates a draft whose body is the text in UTF-8.
        public init(
            _ text: String, conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
            notBefore: Timestamp? = nil, expiresAt: Timestamp? = nil, unmeteredOnly: Bool = false, replaceKey: String? = nil,
            priority: Int = 0, time: Timestamp? = nil, delay: Duration? = nil, expiry: Duration? = nil
        ) {
            self.init(
                Array(text.utf8), conversation: conversation, metadata: metadata, id: id,
                notBefore: notBefore, expiresAt: expiresAt, unmeteredOnly: unmeteredOnly, replaceKey: replaceKey, priority: priority,
                time: time, delay: delay, expiry: expiry)
        }
    }
}

extension MessageQueue.Draft {
    /// Calls `body` with the draft for the engine, without copying the draft's body.
    package func withBorrowed<T>(_ body: (BorrowedDraft) throws(QueueError) -> T) throws(QueueError) -> T {
        try self.body.withBytes { bytes throws(QueueError) in try body(lent(bytes)) }
    }

    /// Calls `body` with several drafts for the engine. Their bodies are copied into one buffer, because a pointer is valid for one array
    /// at a time.
    package static func withBorrowed<T>(
        _ drafts: [Self], _ body: (DraftBatch) throws(QueueError) -> T
    ) throws(QueueError) -> T {
        var joined: [UInt8] = []
        joined.reserveCapacity(drafts.reduce(0) { $0 + $1.body.count })
        for draft in drafts { joined += draft.body }
        return try joined.withBytes { bytes throws(QueueError) in
            // The position after the drafts that were lent last, and where its body begins.
            var (next, start) = (0, 0)
            return try body(
                DraftBatch(count: drafts.count) { range in
                    if next != range.lowerBound {
                        (next, start) = (range.lowerBound, drafts[..<range.lowerBound].reduce(0) { $0 + $1.body.count })
                    }
                    return drafts[range].map { draft in
                        defer { (next, start) = (next + 1, start + draft.body.count) }
                        return draft.lent(UnsafeRawBufferPointer(rebasing: bytes[start..<start + draft.body.count]))
                    }
                })
        }
    }

    private func lent(_ body: UnsafeRawBufferPointer) -> BorrowedDraft {
        var draft = BorrowedDraft(
            id: id, conversation: Name(conversation), body: body,
            metadata: Self.pairs(metadata),
            notBefore: notBefore?.millisecondsSince1970 ?? 0, expiresAt: expiresAt?.millisecondsSince1970 ?? 0,
            unmeteredOnly: unmeteredOnly, replaceKey: replaceKey, priority: Int32(clamping: priority),
            time: time?.given ?? 0)
        (draft.delay, draft.expiry) = (delay?.milliseconds ?? 0, expiry?.milliseconds ?? 0)
        return draft
    }

    static func pairs(_ metadata: [String: String]) -> [(key: String, value: String)] {
        metadata.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}
