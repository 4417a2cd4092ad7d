/// The changes of one commit, in the form in which the table `change` has them: many in one row, because a row for each would cost a drain
/// more than all its other writes together.
///
/// A change has one byte with its kind, its status and what follows from `ChangeFlag`; one with the kind of its failure; its code; its id; its
/// conversation if it is another. Numbers and lengths are varints.
struct ChangeRows {
    struct Change {
        var kind: StoredChange.Kind
        var status: MessageStatus
        var failure = FailureKind.none
        var code: Int32 = 0
        let id: String
        let conversation: Name
    }

    /// The last change, which may still be amended.
    private struct Last {
        /// Of its message.
        let sequence: Int64
        let kind: StoredChange.Kind
        let start: Int
        /// The end of its code.
        var codeEnd: Int
    }

    private(set) var bytes: [UInt8] = []
    private(set) var count: Int64 = 0
    private var lastConversation: Name?
    private var last: Last?

    var isEmpty: Bool { count == 0 }

    /// Adds a change of the message with this sequence number.
    mutating func append(_ change: Change, of sequence: Int64 = 0) {
        let (start, isSame) = (bytes.count, change.conversation == lastConversation)
        let uuid = MessageID.uuid(of: change.id)
        bytes.append(
            UInt8(change.kind.rawValue) | UInt8(change.status.rawValue) << 3 | (isSame ? ChangeFlag.isSameConversation : 0)
                | (uuid == nil ? 0 : ChangeFlag.isUUID))
        bytes.append(UInt8(change.failure.rawValue))
        append(Self.number(of: change.code))
        last = Last(sequence: sequence, kind: change.kind, start: start, codeEnd: bytes.count)
        if let uuid {
            withUnsafeBytes(of: (uuid.high.bigEndian, uuid.low.bigEndian)) { bytes.append(contentsOf: $0) }
        } else {
            append(change.id)
        }
        if !isSame {
            append(change.conversation.text)
            lastConversation = change.conversation
        }
        count += 1
    }

    /// Gives the last change a failure, if it is one of this message and `accepts` its kind.
    mutating func amend(
        _ sequence: Int64, _ failure: FailureKind, code: Int32? = nil, where accepts: (StoredChange.Kind) -> Bool
    ) {
        guard let last, last.sequence == sequence, accepts(last.kind) else { return }
        bytes[last.start + 1] = UInt8(failure.rawValue)
        guard let code else { return }
        let rest = Array(bytes[last.codeEnd...])
        bytes.removeSubrange((last.start + 2)...)
        append(Self.number(of: code))
        self.last?.codeEnd = bytes.count
        bytes += rest
    }

    /// Gives the last change another status, if it is one of this message.
    mutating func amend(_ sequence: Int64, _ status: MessageStatus) {
        guard let last, last.sequence == sequence else { return }
        bytes[last.start] = bytes[last.start] & ~ChangeFlag.status | UInt8(status.rawValue) << 3
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        (count, lastConversation, last) = (0, nil, nil)
    }

    private static func number(of code: Int32) -> UInt64 { UInt64(UInt32(bitPattern: code << 1 ^ code >> 31)) }

    private mutating func append(_ text: String) {
        append(UInt64(text.utf8.count))
        bytes.append(contentsOf: text.utf8)
    }

    private mutating func append(_ number: UInt64) {
        var left = number
        while left >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: left) | 0x80)
            left >>= 7
        }
        bytes.append(UInt8(left))
    }
}

/// The bits of the first byte of a change, after those of its kind.
enum ChangeFlag {
    static let status: UInt8 = 0x38
    static let isSameConversation: UInt8 = 0x40
    /// The id is a UUID in its usual form, and has 16 bytes.
    static let isUUID: UInt8 = 0x80
}

/// Reads what `ChangeRows` has written.
struct ChangeReader {
    private let bytes: [UInt8]
    private var offset = 0
    private var conversation: Name?

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { offset == bytes.count }

    /// Returns the next change and its bytes; nil: they are damaged.
    mutating func next() -> (change: ChangeRows.Change, bytes: ArraySlice<UInt8>)? {
        let start = offset
        guard bytes.count - offset >= 2 else { return nil }
        let (first, second) = (bytes[offset], bytes[offset + 1])
        offset += 2
        guard let kind = StoredChange.Kind(rawValue: Int32(first & 7)), let status = MessageStatus(rawValue: Int32(first >> 3 & 7)),
            let failure = FailureKind(rawValue: Int32(second)), let code = number().flatMap({ UInt32(exactly: $0) }),
            let id = first & ChangeFlag.isUUID == 0 ? text() : uuid()
        else { return nil }
        if first & ChangeFlag.isSameConversation == 0 { conversation = text().map { Name($0) } }
        guard let conversation else { return nil }
        let change = ChangeRows.Change(
            kind: kind, status: status, failure: failure, code: Int32(bitPattern: code >> 1) ^ -Int32(code & 1), id: id,
            conversation: conversation)
        return (change, bytes[start..<offset])
    }

    private mutating func number() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), through: 28, by: 7) {
            guard offset < bytes.count else { return nil }
            let byte = bytes[offset]
            offset += 1
            value |= UInt64(byte & 0x7f) << shift
            if byte & 0x80 == 0 { return value }
        }
        return nil
    }

    private mutating func uuid() -> String? {
        guard bytes.count - offset >= 16 else { return nil }
        defer { offset += 16 }
        return bytes[offset..<offset + 16].withUnsafeBytes { bytes in
            let (high, low) = (bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            return MessageID.text(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
        }
    }

    private mutating func text() -> String? {
        guard let count = number().flatMap({ Int(exactly: $0) }), count <= bytes.count - offset else { return nil }
        defer { offset += count }
        return String(decoding: bytes[offset..<offset + count], as: UTF8.self)
    }
}
