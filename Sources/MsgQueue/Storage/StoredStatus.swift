/// A value of the column `status`. `sending` is not stored: a message is being sent when it has a row in `in_flight`.
///
/// The numbers are part of the layout; the conditions of the partial indexes in `Schema` contain them.
enum StoredStatus: Int64, CaseIterable {
    case queued = 0
    case sent = 2
    case delivered = 3
    case read = 4
    case failed = 5
    /// A recorded message, unread or read.
    case received = 6
    case receivedRead = 7

    /// The statuses that pruning may remove: all of the history except unread recorded messages.
    static let prunable: [StoredStatus] = [.sent, .delivered, .read, .receivedRead]

    /// The statuses of the history.
    static let history: [StoredStatus] = [.sent, .delivered, .read, .received, .receivedRead]

    /// nil: this status is never stored.
    init?(_ status: MessageStatus, isReceived: Bool) {
        switch (status, isReceived) {
        case (.queued, false): self = .queued
        case (.sent, false): self = .sent
        case (.delivered, false): self = .delivered
        case (.read, false): self = .read
        case (.failed, false): self = .failed
        case (.delivered, true): self = .received
        case (.read, true): self = .receivedRead
        default: return nil
        }
    }

    /// Whether a message with this status belongs to the history: it was sent or recorded.
    var isHistory: Bool { self != .queued && self != .failed }

    var isReceived: Bool { self == .received || self == .receivedRead }

    var status: MessageStatus {
        switch self {
        case .queued: .queued
        case .sent: .sent
        case .delivered, .received: .delivered
        case .read, .receivedRead: .read
        case .failed: .failed
        }
    }

    /// The bit of this status in a bit mask.
    var bit: Int64 { 1 << rawValue }
}
