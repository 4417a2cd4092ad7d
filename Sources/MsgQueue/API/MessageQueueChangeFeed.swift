extension MessageQueue {
    /// One change of a message, as the queue keeps it with ``Options/keepChanges``.
    public struct Change: Sendable, Hashable, Codable {
        /// What happened, with the numbers of `msgq_change_kind`.
        public enum Kind: Int32, Sendable, CaseIterable, Codable {
            /// The message has another status, or failed again.
            case status = 0
            /// A newer message of its ``Draft/replaceKey`` took its place.
            case replaced
            /// It was deleted because of its failure: its retries were used up, the receiver refused it, or the queue was full
            /// (``FailureKind/dropped``).
            case discarded
            /// A call deleted it.
            case deleted
            /// The limits of the history removed it.
            case pruned
        }

        /// What happened.
        public let kind: Kind
        /// The status that the message has since then; the last one if it is gone.
        public let status: Status
        /// Why it failed, or waits for a retry; nil: the change is no failure.
        public let failureKind: FailureKind?
        /// The code that the transport gave, such as an HTTP status; nil: none.
        public let code: Int?
        /// When it was written.
        public let at: Timestamp
        /// The id of the message. It is here until the change is removed, also when the message is gone.
        public let id: String
        /// The conversation of the message.
        public let conversation: String
        /// The place after this change.
        public let token: ChangeToken
    }

    /// A place among the changes, to be stored: a text of 49 characters, which other versions of the library read, too.
    public struct ChangeToken: Sendable, Hashable, Codable, CustomStringConvertible, LosslessStringConvertible {
        /// The text.
        public let description: String

        /// nil: it is not the text of a token.
        public init?(_ description: String) {
            guard (try? MsgQueue.ChangeToken(text: description)) != nil else { return nil }
            self.description = description
        }

        init(_ token: MsgQueue.ChangeToken) { description = token.text }

        /// Reads the text.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            guard let token = Self(try container.decode(String.self)) else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "not the text of a token")
            }
            self = token
        }

        /// Writes the text.
        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(description)
        }
    }

    /// Changes in the order in which they were committed.
    public struct ChangePage: Sendable, Hashable, Codable {
        /// The changes; none: there are no more now.
        public let changes: [Change]
        /// The place after them, from which the next page goes on.
        public let next: ChangeToken
        /// The place before the oldest change that is kept.
        public let oldest: ChangeToken
    }

    // MARK: Changes

    /// Returns changes of messages, in order, with the option ``Options/keepChanges``. Only those that survive power loss: what is not flushed
    /// yet is flushed before.
    ///
    /// Each change of a status is one change, and so is a message that is replaced, discarded, deleted or pruned. Store the token of the last one
    /// that you have processed, best in the same transaction as its effect, and go on from it after a restart. It works also on a store that is
    /// opened with ``Options/readOnly``.
    ///
    /// - Parameters:
    ///   - token: A place; nil: before the oldest change that is kept.
    ///   - limit: 1 to 1000.
    /// - Throws: `.conflict`: not all changes after the token are there, because it is older than what is kept, or the store has another
    ///   history (an older copy of it was restored, it was salvaged, or was used without ``Options/keepChanges``). Read ``ChangePage/oldest`` by
    ///   a call without a token, list the messages, then go on from there. `.invalid` (the option is 0).
    public func changes(after token: ChangeToken? = nil, limit: Int = 100) throws(Error) -> ChangePage {
        let place = try token.map { token throws(Error) in try MsgQueue.ChangeToken(text: token.description) }
        return ChangePage(try engine.changes(after: place, limit: limit))
    }

    /// The changes after a token, and then each new one, as `changes(after:limit:)` returns them. Nil: from the oldest that is kept.
    ///
    /// The sequence ends when the queue is closed, when the task is cancelled, and with ``Options/readOnly`` after the last change. It does not
    /// keep the queue open. The iteration throws what `changes(after:limit:)` throws, but not `.closed`, and ends with that.
    public func changes(following token: ChangeToken?) -> Changes { Changes(self, token) }

    /// Changes of messages, without an end while the queue is open.
    public struct Changes: AsyncSequence, Sendable {
        /// An element.
        public typealias Element = Change

        private let engine: Engine
        private let thread: OnDemandThread<@Sendable () -> Void>
        private let token: ChangeToken?

        fileprivate init(_ queue: MessageQueue, _ token: ChangeToken?) {
            (engine, thread, self.token) = (queue.engine, queue.readings, token)
        }

        /// Begins an iteration of its own.
        public func makeAsyncIterator() -> Iterator { Iterator(follower: ChangeFollower(engine, thread), token: token) }

        /// One iteration.
        public struct Iterator: AsyncIteratorProtocol {
            private let follower: ChangeFollower
            private var token: ChangeToken?
            /// The changes that were read and not returned yet, the next one last.
            private var waiting: [Change] = []
            private var hasEnded = false

            fileprivate init(follower: ChangeFollower, token: ChangeToken?) { (self.follower, self.token) = (follower, token) }

            /// Waits for the next change; nil: the queue is closed, or the task is cancelled.
            public mutating func next() async throws(Error) -> Change? { try await next(isolation: nil) }

            /// Waits for the next change; nil: the queue is closed, or the task is cancelled.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(Error) -> Change? {
                if let change = waiting.popLast() { return change }
                guard !hasEnded else { return nil }
                do throws(Error) {
                    let place = try token.map { token throws(Error) in try MsgQueue.ChangeToken(text: token.description) }
                    guard let page = try await follower.next(after: place) else {
                        hasEnded = true
                        return nil
                    }
                    token = ChangeToken(page.next)
                    waiting = page.changes.reversed().map { Change($0) }
                    return waiting.popLast()
                } catch {
                    hasEnded = true
                    throw error
                }
            }
        }
    }
}

extension MessageQueue.ChangePage {
    init(_ page: ChangePage) {
        changes = page.changes.map { MessageQueue.Change($0) }
        (next, oldest) = (MessageQueue.ChangeToken(page.next), MessageQueue.ChangeToken(page.oldest))
    }
}

extension MessageQueue.Change {
    init(_ change: StoredChange) {
        kind = Kind(rawValue: change.kind.rawValue) ?? .status
        (status, failureKind) = (change.status, MessageQueue.FailureKind(change.failure))
        (code, at) = (change.code == 0 ? nil : Int(change.code), MessageQueue.Timestamp(change.at))
        (id, conversation, token) = (change.id, change.conversation, MessageQueue.ChangeToken(change.token))
    }
}
