/// The changes of one commit, in the form in which the table `change` has them: many in one row, because a row for each would cost a drain
/// more than all its other writes together.
///
/// A change has one byte with its kind, its status and whether its conversation is that of the one before it; one with the kind of its
/// failure; its code; its id; its conversation if it is another. Numbers and lengths are varints.
struct ChangeRows {
    struct Change {
        var kind: StoredChange.Kind
        var status: MessageStatus
        var failure = FailureKind.none
        var code: Int32 = 0
        let id: String
        let conversation: Name
        /// Of its message; not stored.
        var sequence: Int64 = 0
    }

    private(set) var bytes: [UInt8] = []
    /// The number of changes in `bytes`.
    private var encoded: Int64 = 0
    private var lastConversation: Name?
    /// The last change, which may still be amended.
    private(set) var last: Change?

    var count: Int64 { encoded + (last == nil ? 0 : 1) }
    var isEmpty: Bool { encoded == 0 && last == nil }

    mutating func append(_ change: Change) {
        encodeLast()
        last = change
    }

    /// Changes the last change if it is of this message.
    mutating func amend(_ sequence: Int64, _ body: (inout Change) -> Void) {
        guard last?.sequence == sequence, last != nil else { return }
        if var change = last {
            body(&change)
            last = change
        }
    }

    mutating func encodeLast() {
        guard let change = last else { return }
        last = nil
        let isSame = change.conversation == lastConversation
        bytes.append(UInt8(change.kind.rawValue) | UInt8(change.status.rawValue) << 3 | (isSame ? 0x40 : 0))
        bytes.append(UInt8(change.failure.rawValue))
        append(UInt64(UInt32(bitPattern: change.code << 1 ^ change.code >> 31)))
        append(change.id)
        if !isSame {
            append(change.conversation.text)
            lastConversation = change.conversation
        }
        encoded += 1
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        (encoded, lastConversation, last) = (0, nil, nil)
    }

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
            let failure = FailureKind(rawValue: Int32(second)), let code = number().flatMap({ UInt32(exactly: $0) }), let id = text()
        else { return nil }
        if first & 0x40 == 0 { conversation = text().map { Name($0) } }
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

    private mutating func text() -> String? {
        guard let count = number().flatMap({ Int(exactly: $0) }), count <= bytes.count - offset else { return nil }
        defer { offset += count }
        return String(decoding: bytes[offset..<offset + count], as: UTF8.self)
    }
}
