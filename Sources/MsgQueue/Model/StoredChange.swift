/// One change of a message, as the feed of changes keeps it.
package struct StoredChange: Sendable, Equatable {
    package enum Kind: Int32, Sendable, CaseIterable {
        /// The message has another status, or failed again.
        case status = 0
        /// A newer message of its key took its place.
        case replaced
        /// It was deleted because of its failure: its retries were used up, the receiver refused it, or the queue was full (kind `dropped`).
        case discarded
        /// A call deleted it.
        case deleted
        /// The limits of the history removed it.
        case pruned
    }

    package let kind: Kind
    /// The status that the message has since then; the last one if the message is gone.
    package let status: MessageStatus
    /// Why it failed or waits for a retry; `none`: the change is no failure.
    package let failure: FailureKind
    package let code: Int32
    /// Milliseconds since 1970.
    package let at: Int64
    package let id: String
    package let conversation: String
    /// Of the place after this change.
    package let token: ChangeToken
}

/// A place in the feed of changes: the store's epoch, a position, and a check value of the row there, so that another history of the store
/// is recognised also when it has gone on past that position.
package struct ChangeToken: Sendable, Hashable {
    let epoch: UInt64
    let position: Int64
    /// 0 if there was no row.
    let check: UInt64
    /// The place is before the row, not after it.
    let isBefore: Bool

    /// The length of `text`.
    package static let length = 49

    init(epoch: Int64, position: Int64, check: UInt64, isBefore: Bool) {
        (self.epoch, self.position, self.check, self.isBefore) = (UInt64(bitPattern: epoch), position, check, isBefore)
    }

    /// Throws `invalid` if the text is not one of a token.
    package init(text: String) throws(QueueError) {
        let bytes = Array(text.utf8.prefix(Self.length + 1))
        guard bytes.count == Self.length, bytes[0] == Self.after || bytes[0] == Self.before, let epoch = Self.number(bytes[1..<17]),
            let position = Self.number(bytes[17..<33]).flatMap({ Int64(exactly: $0) }), let check = Self.number(bytes[33..<49])
        else { throw QueueError(.invalid, "the token must be one that a page of changes gave") }
        (self.epoch, self.position, self.check, isBefore) = (epoch, position, check, bytes[0] == Self.before)
    }

    package var text: String {
        var bytes = [isBefore ? Self.before : Self.after]
        for number in [epoch, UInt64(bitPattern: position), check] {
            for shift in stride(from: UInt64(60), through: 0, by: -4) { bytes.append(Self.digits[Int(number >> shift & 15)]) }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static let (after, before) = (UInt8(ascii: "a"), UInt8(ascii: "b"))
    private static let digits = Array("0123456789abcdef".utf8)

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return number
    }
}

package struct ChangePage: Sendable {
    /// In the order in which they were committed.
    package let changes: [StoredChange]
    /// The place after them.
    package let next: ChangeToken
    /// The place before the oldest change that is kept.
    package let oldest: ChangeToken
}
