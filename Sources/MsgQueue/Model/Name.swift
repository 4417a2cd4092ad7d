/// A conversation, an id or a key, compared by its bytes.
///
/// Swift's strings compare equal under canonical equivalence ("é" as one scalar or two); SQLite, receivers and C's `strcmp` compare bytes.
package struct Name: Hashable, Sendable, ExpressibleByStringLiteral {
    package let text: String

    package init(_ text: String) { self.text = text }
    package init(stringLiteral text: String) { self.text = text }

    package static func == (left: Name, right: Name) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
