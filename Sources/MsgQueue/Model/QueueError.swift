extension MessageQueue {
    /// The error of a call.
    ///
    /// `code` is for programs, `detail` is one sentence for developers. A call that threw changed nothing, unless the code is `unknown` or
    /// the call's description says otherwise. Later versions may add codes.
    public struct Error: Swift.Error, Sendable, Equatable, CustomStringConvertible {
        /// The kinds of error, with the numbers of `msgq_result`.
        public enum Code: Int32, Sendable, CaseIterable {
            case invalid = 1
            case notFound
            case duplicate
            case conflict
            case busy
            case full
            case tooLarge
            case locked
            case closed
            case forked
            case corrupt
            case storage
            case unknown
            case tooNew
            case permission
            case timeout
            case noTransport
            case `internal`
        }

        public let code: Code
        public let detail: String
        /// The disk or the quota is full: the store may be able to free space.
        package let isFull: Bool
        /// An index does not match the messages and can be rebuilt from them.
        package let isIndex: Bool

        public init(_ code: Code, _ detail: String) { self.init(code, detail, isFull: false) }

        package init(_ code: Code, _ detail: String, isFull: Bool = false, isIndex: Bool = false) {
            self.code = code
            self.detail = detail
            self.isFull = isFull
            self.isIndex = isIndex
        }

        public var description: String { "\(code): \(detail)" }
    }
}

package typealias QueueError = MessageQueue.Error
