extension MessageQueue {
    /// The status of a message, with the numbers of `msgq_status`.
    public enum Status: Int32, Sendable, CaseIterable {
        /// The message waits to be sent.
        case queued = 0
        /// An attempt is in flight.
        case sending
        /// The transport reported success.
        case sent
        /// A receipt reported delivery.
        case delivered
        /// A receipt reported that it was read.
        case read
        /// The message failed: it can be retried, edited or deleted.
        case failed

        /// Queued, sending or failed.
        public var isUnsent: Bool { self == .queued || self == .sending || self == .failed }
    }
}

package typealias MessageStatus = MessageQueue.Status

/// A set of statuses, for filters.
package struct StatusSet: OptionSet, Sendable, Hashable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }
    package init(_ status: MessageStatus) { self.rawValue = 1 << UInt32(status.rawValue) }

    package static let unsent: StatusSet = [StatusSet(.queued), StatusSet(.sending), StatusSet(.failed)]
    package static let all = StatusSet(rawValue: 0x3f)

    package func contains(_ status: MessageStatus) -> Bool { contains(StatusSet(status)) }
}
