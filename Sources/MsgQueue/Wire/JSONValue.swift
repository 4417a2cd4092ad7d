/// A JSON value. Objects keep the order of their members.
package enum JSONValue: Sendable, Equatable {
    package struct Member: Sendable, Equatable {
        package let key: String
        package let value: JSONValue

        package init(_ key: String, _ value: JSONValue) { (self.key, self.value) = (key, value) }
    }

    case null
    case bool(Bool)
    case integer(Int64)
    /// A number with a fraction or an exponent.
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([Member])

    /// The first member with this key, compared by its bytes; nil: none, or the value is no object.
    package subscript(key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { Name($0.key) == Name(key) }?.value
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral text: String) { self = .string(text) }
    package init(integerLiteral number: Int64) { self = .integer(number) }
    package init(booleanLiteral flag: Bool) { self = .bool(flag) }
}

extension JSONValue: ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral {
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    package init(dictionaryLiteral members: (String, JSONValue)...) { self = .object(members.map { Member($0, $1) }) }
}

extension JSONValue {
    package init(_ text: String?) { self = text.map { .string($0) } ?? .null }
    package init(_ number: some BinaryInteger) { self = .integer(Int64(clamping: number)) }

    package var string: String? { if case .string(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    package var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    package var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }
    package var members: [Member]? { if case .object(let members) = self { members } else { nil } }
}
