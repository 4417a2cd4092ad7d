extension MessageQueue {
    /// A message to record.
    public struct RecordedDraft: Sendable, Hashable, Encodable {
        /// The message. What it says of sending (``Draft/notBefore``, ``Draft/expiresAt``, ``Draft/unmeteredOnly``, ``Draft/replaceKey``,
        /// ``Draft/priority``) has no meaning.
        public var draft: Draft
        /// Who wrote it: 1 to 255 bytes; nil: it is one's own, sent from another device.
        public var sender: String?

        /// Creates a draft. The parameters are the properties of the same names.
        public init(_ draft: Draft, sender: String?) { (self.draft, self.sender) = (draft, sender) }
    }

    // MARK: Recording

    /// Adds a message from another sender to the history. A second call with the same id changes nothing.
    ///
    /// - Throws: `.duplicate` (the id belongs to an enqueued message), `.full` (``Options/limitFileBytes``), `.tooLarge`.
    @discardableResult
    public func record(_ draft: Draft, sender: String) throws(Error) -> String {
        try draft.withBorrowed { borrowed throws(Error) in try engine.record(borrowed, sender: sender) }
    }

    /// Adds messages to the history, in this order and in one transaction: received ones, and one's own that were sent from another device.
    ///
    /// One's own begin with the status `sent`, are never unread, and ``mark(_:as:)`` moves them. After an error nothing was stored; its detail
    /// begins with the index of the draft, from 0, if there are several.
    ///
    /// - Returns: For each draft nil, if it is stored or a recorded message of its id is there, which is left as it is. Otherwise an error
    ///   `.duplicate`: nothing of it is stored, because its id is that of a message that was enqueued here, or is remembered of one that is
    ///   gone.
    /// - Throws: `.full` (``Options/limitFileBytes``), `.tooLarge`.
    @discardableResult
    public func record(_ drafts: [RecordedDraft]) throws(Error) -> [Error?] {
        try Draft.withBorrowed(drafts.map(\.draft)) { borrowed throws(Error) in
            let senders = drafts.map(\.sender)
            let batch = borrowed.map { index, draft in
                var draft = draft
                draft.sender = senders[index]
                return draft
            }
            return Array(try HistoryCalls(engine).record(batch).errors)
        }
    }

    // MARK: Receipts

    /// Applies a receipt: `.delivered` or `.read`. A repeated or outdated receipt changes nothing.
    ///
    /// - Throws: `.notFound`, `.conflict` (not sent yet), `.invalid` (another status).
    public func mark(_ id: String, as receipt: Status) throws(Error) { try engine.mark(id, as: receipt) }

    /// Applies one receipt to several messages, in one transaction.
    ///
    /// - Returns: The error of each message that was not marked: `.notFound`, `.conflict` (not sent yet), `.corrupt`; nil: the receipt
    ///   counts, or is repeated or outdated.
    /// - Throws: `.invalid` (another status; an id); nothing was marked.
    @discardableResult
    public func mark(ids: [String], as receipt: Status) throws(Error) -> [Error?] { try HistoryCalls(engine).mark(ids, as: receipt) }

    /// Applies a receipt to a message and to those before it of its conversation, in the order of their times. Returns how many changed their
    /// status.
    ///
    /// For a received message these are the received ones, for one's own those that were sent or recorded; the others are left. It works in
    /// steps between which other calls run; after an error the oldest ones are marked: call it again.
    ///
    /// - Throws: As `mark(_:as:)`.
    @discardableResult
    public func mark(upTo id: String, as receipt: Status) throws(Error) -> Int { Int(try HistoryCalls(engine).mark(upTo: id, as: receipt)) }
}
