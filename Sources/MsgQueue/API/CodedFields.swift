/// The name of a property in the coded form of a value.
struct FieldName: CodingKey, ExpressibleByStringLiteral {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
    init(stringLiteral value: String) { stringValue = value }
}

/// Reads the coded form of a value. A field that was added in a later version must have a default: older data do not have it.
struct FieldReader {
    private let container: KeyedDecodingContainer<FieldName>

    init(_ decoder: any Decoder) throws { container = try decoder.container(keyedBy: FieldName.self) }

    func value<T: Decodable>(_ name: FieldName) throws -> T { try container.decode(T.self, forKey: name) }

    func value<T: Decodable>(_ name: FieldName, or standard: T) throws -> T { try optional(name) ?? standard }

    func optional<T: Decodable>(_ name: FieldName) throws -> T? { try container.decodeIfPresent(T.self, forKey: name) }

    /// A field in which null is a value of its own.
    func nullable<T: Decodable>(_ name: FieldName, or standard: T?) throws -> T? {
        container.contains(name) ? try optional(name) : standard
    }

    func duration(_ name: FieldName) throws -> Duration? { try optional(name).map { (number: Int64) in .milliseconds(number) } }

    func nullable(duration name: FieldName, or standard: Duration?) throws -> Duration? {
        container.contains(name) ? try duration(name) : standard
    }

    func bytes(_ name: FieldName) throws -> [UInt8]? {
        guard let text: String = try optional(name) else { return nil }
        guard let bytes = Base64.decode(text) else { throw error(name, "not base64") }
        return bytes
    }

    /// Numbers by the names of kinds of failure. A kind of a later version counts as unknown.
    func failures() throws -> [MessageQueue.FailureKind: Int] {
        let numbers: [String: Int] = try value("failures", or: [:])
        let kinds = Dictionary(MessageQueue.FailureKind.allCases.map { ($0.description, $0) }, uniquingKeysWith: { first, _ in first })
        return Dictionary(
            numbers.map { (kinds[$0] ?? .unknown, $1) }, uniquingKeysWith: { Int(clamping: Int64($0).addingClamped(Int64($1))) })
    }

    func error(_ name: FieldName, _ detail: String) -> DecodingError {
        .dataCorruptedError(forKey: name, in: container, debugDescription: detail)
    }
}

extension KeyedEncodingContainer<FieldName> {
    /// Writes a time span as a number of milliseconds; nothing for nil.
    mutating func encode(milliseconds span: Duration?, forKey name: FieldName) throws {
        try encodeIfPresent(span?.milliseconds, forKey: name)
    }

    /// Writes a time span as a number of milliseconds; null for nil.
    mutating func encode(millisecondsOrNull span: Duration?, forKey name: FieldName) throws { try encode(span?.milliseconds, forKey: name) }

    /// Writes bytes as text in base64; nothing for nil.
    mutating func encode(base64 bytes: [UInt8]?, forKey name: FieldName) throws {
        try encodeIfPresent(bytes.map(Base64.encode), forKey: name)
    }
}
