extension MessageQueue {
    /// What another durable place (a source) has handed over to the queue and was not forgotten, as ``handedOver(source:)`` returned it.
    public struct HandOver: Sendable, Hashable, Codable {
        /// One draft that was handed over.
        public struct Entry: Sendable, Hashable, Codable {
            /// The draft's id. One that is not valid is on one line, at most 255 bytes long, with control characters escaped.
            public let id: String
            /// The size of its body in bytes.
            public let bodySize: Int
            /// When it was handed over.
            public let at: Timestamp
            /// Why it could not be kept: `.invalid` or `.tooLarge`; nil: the queue has a message of this id, or had one.
            public let error: Error?
        }

        /// The source.
        public let source: String
        /// First what the queue has, then what could not be kept.
        public let entries: [Entry]
        private let token: UInt64

        init(_ look: MsgQueue.HandOver) {
            (source, token) = (look.source, look.token)
            entries = look.entries.map {
                Entry(id: $0.id, bodySize: Int(clamping: $0.bodySize), at: Timestamp($0.at), error: $0.refusal)
            }
        }

        fileprivate var look: MsgQueue.HandOver { MsgQueue.HandOver(source: source, token: token, entries: []) }
    }

    // MARK: Handing over

    /// Returns what a source has handed over and was not forgotten. Values that were returned earlier for this source can no longer be used.
    ///
    /// A source is another durable place with messages for this queue, such as a table of the program's own database. Two stores cannot commit
    /// together, so the queue remembers the ids that it has taken over until the source has deleted its rows:
    ///
    /// 1. `handedOver(source:)`. Delete the rows of the source with the entries that have no error, durably, then `handOverDone(_:)`.
    /// 2. Read rows of the source, and `takeOver(_:_:)`.
    /// 3. Delete the rows with no error or the error `.duplicate`, durably, then `handOverDone(_:)`.
    ///
    /// Whatever step a crash interrupts, each message is taken over exactly once, also when it was sent or deleted meanwhile, whatever
    /// ``Options/rememberIDs`` says.
    ///
    /// - Parameter source: 1 to 255 bytes without control characters. It uses no id twice, and none of another source.
    /// - Throws: `.invalid`, `.corrupt` (the list is damaged).
    public func handedOver(source: String) throws(Error) -> HandOver { HandOver(try HandOverCalls(engine).handedOver(by: source)) }

    /// Stores drafts, in this order, as `enqueue(_:)` does, and in the same transaction their ids as the open hand-over of the source. Each draft
    /// has an id. When it returns, all of that survives power loss.
    ///
    /// A draft that `enqueue(_:)` refuses for good, because it is over ``Options/limitBody`` or ``Options/limitMetadata`` or another value is
    /// invalid, is stored as `failed`, kind ``FailureKind/local``, with its whole body and metadata.
    ///
    /// - Returns: For each draft nil, if the queue has it, or had it in the open hand-over. Otherwise an error. `.duplicate`: the queue has a
    ///   message of this id (enqueued or recorded), or remembers one, or it is that of a draft before it; no message was stored, and the id is
    ///   in the open hand-over from then on. `.invalid` and `.tooLarge`: it cannot be kept whole (an invalid
    ///   id or conversation, a body over 256 MiB, ``Options/limitBytes`` or ``Options/limitFileBytes``, metadata over 16 MiB); it stands in the
    ///   entries of ``HandOver`` until `handOverForget`.
    /// - Throws: `.conflict` (the value is not the latest of its source), `.full` (none is stored), `.invalid` (a draft without an id).
    @discardableResult
    public func takeOver(_ drafts: [Draft], _ handOver: HandOver) throws(Error) -> [Error?] {
        try Draft.withBorrowed(drafts) { batch throws(Error) in
            try HandOverCalls(engine).takeOver(handOver.look, count: batch.count) { index throws(Error) in
                HandedDraft(try batch.draft(at: index))
            }
        }
    }

    /// Forgets the ids of the open hand-over. Call it when the source has deleted its rows, and its commit survives power loss.
    ///
    /// - Throws: `.conflict` (the value is not the latest of its source).
    public func handOverDone(_ handOver: HandOver) throws(Error) { try HandOverCalls(engine).end(handOver.look) }

    /// Asks the program to take over what waits in its own places: reports ``Event/collect``. Call it after a commit that put messages there. A
    /// program that does not own the queue asks through the control socket.
    public func requestCollect() throws(Error) { try HandOverCalls(engine).requestCollect() }

    /// Forgets a draft that could not be kept, by its id in the entries, or (nil) all of the source.
    ///
    /// - Throws: `.notFound`.
    public func handOverForget(source: String, id: String? = nil) throws(Error) { try HandOverCalls(engine).forget(source, id: id) }
}
