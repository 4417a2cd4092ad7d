/// A conversation, an id or a key, compared by its bytes.
///
/// Swift's strings compare equal under canonical equivalence ("é" as one scalar or two); SQLite, receivers and C's `strcmp` compare bytes.
package struct Name: Hashable, Sendable, ExpressibleByStringLiteral {
    package let text: String

    package init(_ text: String) { self.text = text }
    package init(stringLiteral text: String) { self.text = text }

    package static func == (left: Name, right: Name) -> Bool {
        guard left.text.utf8.count == right.text.utf8.count else { return false }
        // Comparing buffers is faster than comparing the views of strings.
        let isEqual = left.text.utf8.withContiguousStorageIfAvailable { bytes in
            right.text.utf8.withContiguousStorageIfAvailable { areEqual(UnsafeRawBufferPointer(bytes), UnsafeRawBufferPointer($0)) }
        }
        return (isEqual ?? nil) ?? left.text.utf8.elementsEqual(right.text.utf8)
    }

    /// Compares buffers of the same size, eight bytes at a time.
    private static func areEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        let count = min(left.count, right.count)
        var offset = 0
        func word(_ bytes: UnsafeRawBufferPointer) -> UInt64 { bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        while offset &+ 8 <= count {
            guard word(left) == word(right) else { return false }
            offset &+= 8
        }
        while offset < count {
            guard left[offset] == right[offset] else { return false }
            offset &+= 1
        }
        return true
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
