extension MessageQueue {
    /// The error of a call.
    ///
    /// `code` is for programs, `detail` is one sentence for developers. A call that threw changed nothing, unless the code is `unknown` or
    /// the call's description says otherwise. Later versions may add codes.
    public struct Error: Swift.Error, Sendable, Hashable, CustomStringConvertible {
        /// The kinds of error, with the numbers of `msgq_result`.
        public enum Code: Int32, Sendable, CaseIterable {
            /// An argument is wrong.
            case invalid = 1
            /// There is no message with this id, or no attempt with this token.
            case notFound
            /// The id is in the queue already, or was sent or replaced recently.
            case duplicate
            /// Not possible in this status, or at this moment.
            case conflict
            /// The message is being sent.
            case busy
            /// A limit of the queue is reached.
            case full
            /// The body or the metadata is over its limit.
            case tooLarge
            /// Another owner has the store open.
            case locked
            /// The queue is closed.
            case closed
            /// The queue belongs to the parent process.
            case forked
            /// The file is not a store, or is damaged.
            case corrupt
            /// The disk is full or failed, or memory or threads are used up.
            case storage
            /// A write to the disk failed: whether the change is stored is not known. The same id may safely be enqueued again.
            case unknown
            /// A later version wrote the store.
            case tooNew
            /// The system, or the safety of the place, forbids it.
            case permission
            /// The time given ran out first.
            case timeout
            /// No transport is set.
            case noTransport
            /// A defect of this library.
            case `internal`
        }

        /// The kind of error, for programs.
        public let code: Code
        /// One sentence for developers.
        public let detail: String
        /// What the library may do about it.
        package let cause: Cause

        /// Causes that the library distinguishes.
        package enum Cause: Sendable {
            case other
            /// The disk or the quota is full: the store may be able to free space.
            case full
            /// An index does not match the messages and can be rebuilt from them.
            case index
            /// A file could not be opened, which says nothing about its content.
            case unopened
            /// A file is not there, or was replaced meanwhile: another attempt may find the new one.
            case replaced
        }

        package var isFull: Bool { cause == .full }
        package var isIndex: Bool { cause == .index }
        package var isUnopened: Bool { cause == .unopened || cause == .replaced }

        /// Creates an error, for example in a test.
        public init(_ code: Code, _ detail: String) { self.init(code, detail, .other) }

        package init(_ code: Code, _ detail: String, _ cause: Cause) { (self.code, self.detail, self.cause) = (code, detail, cause) }

        /// The code and the detail.
        public var description: String { "\(code): \(detail)" }
    }
}

package typealias QueueError = MessageQueue.Error

extension QueueError {
    /// The error of the draft at this position: its detail begins with the index, if there are several drafts.
    package func ofDraft(_ index: Int, of count: Int) -> QueueError { count > 1 ? QueueError(code, "draft \(index): \(detail)") : self }
}
