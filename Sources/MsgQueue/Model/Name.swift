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
            right.text.utf8.withContiguousStorageIfAvailable { bytes.elementsEqual($0) }
        }
        return (isEqual ?? nil) ?? left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
