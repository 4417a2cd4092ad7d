import MsgQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension JSONEncoder {
    /// The encoder of bodies: JSON with sorted keys, so that equal values have equal bodies, and with dates as texts of whole milliseconds
    /// ("2024-03-09T07:30:00.250Z"), so that people can read the body.
    public static var messageBody: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .custom { date, encoder in
            var container = encoder.singleValueContainer()
            try container.encode(MessageQueue.Timestamp(date).description)
        }
        return encoder
    }
}

extension JSONDecoder {
    /// The decoder of bodies: reads what `JSONEncoder.messageBody` writes, and dates without a fraction of a second.
    public static var messageBody: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            let container = try decoder.singleValueContainer()
            let text = try container.decode(String.self)
            let exact = try? Date.ISO8601FormatStyle(includingFractionalSeconds: true).parse(text)
            guard let date = exact ?? (try? Date.ISO8601FormatStyle().parse(text)) else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a date: \(text)")
            }
            return date
        }
        return decoder
    }
}

extension MessageQueue.Draft {
    /// Creates a draft whose body is the coded value. Its other properties can be set afterwards.
    ///
    /// - Parameters:
    ///   - value: What is to be sent.
    ///   - conversation: As in a draft.
    ///   - metadata: As in a draft.
    ///   - id: The idempotency key; nil: a new one.
    ///   - encoder: Makes the body.
    /// - Throws: An `EncodingError`.
    public init(
        encoding value: some Encodable, conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
        encoder: JSONEncoder = .messageBody
    ) throws {
        self.init(try encoder.encode(value), conversation: conversation, metadata: metadata, id: id)
    }
}

extension MessageQueue {
    /// Stores one message whose body is the coded value, and returns its id.
    ///
    /// - Parameters:
    ///   - value: What is to be sent.
    ///   - conversation: As in a draft.
    ///   - metadata: As in a draft.
    ///   - id: The idempotency key; nil: a new one.
    ///   - encoder: Makes the body.
    /// - Throws: An `EncodingError`, and as `enqueue(_:)`.
    @discardableResult
    public func enqueue(
        encoding value: some Encodable, conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
        encoder: JSONEncoder = .messageBody
    ) throws -> String {
        try enqueue(Draft(encoding: value, conversation: conversation, metadata: metadata, id: id, encoder: encoder))
    }

    /// The same without blocking a thread of the task pool; see `enqueueWithoutBlocking(_:)`.
    @discardableResult
    public func enqueueWithoutBlocking(
        encoding value: some Encodable, conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
        encoder: JSONEncoder = .messageBody
    ) async throws -> String {
        try await enqueueWithoutBlocking(
            Draft(encoding: value, conversation: conversation, metadata: metadata, id: id, encoder: encoder))
    }
}

extension MessageQueue {
    /// Stores one message whose body is the coded value, and waits for its outcome; see `send(_:timeout:)`.
    ///
    /// - Parameters:
    ///   - value: What is to be sent.
    ///   - conversation: As in a draft.
    ///   - metadata: As in a draft.
    ///   - id: The idempotency key; nil: a new one.
    ///   - encoder: Makes the body.
    ///   - timeout: After this time it returns the message as it is then; nil: no limit.
    /// - Throws: An `EncodingError`, and as `send(_:timeout:)`.
    public func send(
        encoding value: some Encodable, conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
        encoder: JSONEncoder = .messageBody, timeout: Duration? = nil
    ) async throws -> Message {
        try await send(Draft(encoding: value, conversation: conversation, metadata: metadata, id: id, encoder: encoder), timeout: timeout)
    }

    /// Adds a message from another sender to the history, whose body is the coded value, and returns its id; see `record(_:sender:)`.
    ///
    /// - Parameters:
    ///   - value: What was received.
    ///   - sender: Who sent it.
    ///   - conversation: As in a draft.
    ///   - metadata: As in a draft.
    ///   - id: The id that the sender gave; nil: a new one.
    ///   - time: When it was sent; nil: now.
    ///   - encoder: Makes the body.
    /// - Throws: An `EncodingError`, and as `record(_:sender:)`.
    @discardableResult
    public func record(
        encoding value: some Encodable, sender: String, conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
        time: Timestamp? = nil, encoder: JSONEncoder = .messageBody
    ) throws -> String {
        var draft = try Draft(encoding: value, conversation: conversation, metadata: metadata, id: id, encoder: encoder)
        draft.time = time
        return try record(draft, sender: sender)
    }
}

extension MessageQueue.Delivery {
    /// Returns the value that the body contains.
    ///
    /// A transport that throws the error of this call fails for a while and is called again. If the body will never be valid, return
    /// `.reject(.local)`.
    ///
    /// - Throws: A `DecodingError`.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self, decoder: JSONDecoder = .messageBody) throws -> Value {
        try decoder.decode(type, from: data)
    }
}

extension MessageQueue.Message {
    /// Returns the value that the body contains.
    ///
    /// - Throws: A `DecodingError`, also if the page was requested without bodies.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self, decoder: JSONDecoder = .messageBody) throws -> Value {
        guard let data else { throw DecodingError.valueNotFound(type, .init(codingPath: [], debugDescription: "the page has no bodies")) }
        return try decoder.decode(type, from: data)
    }

    /// A line for people about a message whose body is a coded value, at most 100 characters: what `text` returns for the value. If the
    /// body is not such a value, or missing, it is the property `preview`.
    public func preview<Value: Decodable>(
        as type: Value.Type, decoder: JSONDecoder = .messageBody, _ text: (Value) -> String = { "\($0)" }
    ) -> String {
        guard let value = try? decode(type, decoder: decoder) else { return preview }
        let line = text(value).split(whereSeparator: \.isNewline).joined(separator: " ")
        return line.count > 100 ? line.prefix(99) + "…" : line
    }
}
