/// A status in the column `status`. `sending` is none of them: a message is being sent when it is in `in_flight`.
///
/// The numbers are part of the layout; the conditions of indexes in `Schema` contain them.
enum StoredStatus: Int64, CaseIterable {
    case queued = 0
    case sent = 2
    case delivered = 3
    case read = 4
    case failed = 5
    /// A recorded message of somebody else, and one that was read.
    case received = 6
    case receivedRead = 7

    /// What pruning may remove: everything in the history except recorded messages that were not read.
    static let prunable: [StoredStatus] = [.sent, .delivered, .read, .receivedRead]

    /// nil: a message never has this status on disk.
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

    /// As one bit of a set of statuses.
    var bit: Int64 { 1 << rawValue }
}
