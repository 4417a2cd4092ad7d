/// The place of a message among those of other conversations that may start now. The smallest goes first: the highest priority, then, with
/// the option `soonest_expiry_first`, the soonest expiry, then the oldest.
package struct Rank: Comparable, Sendable {
    package let priority: Int32
    /// `UInt64.max`: never, or expiries do not matter. It is later than every expiry.
    package let expiresAt: UInt64
    package let sequence: Int64

    package init(_ head: Head, byExpiry: Bool) {
        priority = head.priority
        expiresAt = byExpiry && head.expiresAt != 0 ? UInt64(clamping: head.expiresAt) : UInt64.max
        sequence = head.sequence
    }

    package static func < (left: Rank, right: Rank) -> Bool {
        if left.priority != right.priority { return left.priority > right.priority }
        if left.expiresAt != right.expiresAt { return left.expiresAt < right.expiresAt }
        return left.sequence < right.sequence
    }
}
