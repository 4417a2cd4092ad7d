/// A name that is compared byte by byte: a conversation, an id, a key.
///
/// Swift's strings are equal when they look equal ("é" in one character or in two); a store, a receiver and C's `strcmp` know better.
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
