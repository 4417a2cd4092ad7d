import MsgQueue

/// The headers of every request.
struct HTTPHeaders: Sendable {
    /// Names in lower case of the headers that the transport sets itself.
    private static let own: Set<String> = [
        "connection", "content-length", "expect", "host", "idempotency-key", "traceparent", "tracestate", "transfer-encoding", "upgrade",
    ]
    private let fixed: [(name: String, value: String)]

    init(_ headers: [String: String], hasToken: Bool, hasProxy: Bool) throws(MessageQueue.Error) {
        var names: Set<String> = []
        var fixed: [(name: String, value: String)] = []
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
            guard Self.isToken(name) else { throw Self.invalid("\(name.debugDescription) is not the name of a header") }
            let key = name.lowercased()
            guard !Self.own.contains(key) else { throw Self.invalid("the header \(name) is set by the transport") }
            guard key != "authorization" || !hasToken else { throw Self.invalid("the header \(name) is set by the token source") }
            guard key != "proxy-authorization" || !hasProxy else {
                throw Self.invalid("the header \(name) is set by the transport: the URL of the proxy has the user name and the password")
            }
            guard Self.isValue(value) else {
                throw Self.invalid("the value of the header \(name) contains a control character, or one outside ASCII")
            }
            guard names.insert(key).inserted else { throw Self.invalid("the header \(name) is given twice") }
            fixed.append((name, value))
        }
        func set(_ name: String, _ value: String) {
            if !names.contains(name.lowercased()) { fixed.append((name, value)) }
        }
        set("Content-Type", "application/octet-stream")
        set("Accept", "*/*")
        set("User-Agent", "libmsgqueue/\(LibraryVersion.text)")
        // The server then closes the connection, so that no later request is sent into one that it is about to close.
        fixed.append(("Connection", "close"))
        self.fixed = fixed
    }

    /// Returns the headers of the request for one message.
    func all(for delivery: MessageQueue.Delivery, token: String?) -> [(name: String, value: String)] {
        var headers = fixed
        headers.append(("Idempotency-Key", IdempotencyKey.of(delivery.id)))
        headers += TraceContext.headers(of: delivery.metadata)
        if let token { headers.append(("Authorization", "Bearer \(token)")) }
        return headers
    }

    private static func invalid(_ text: String) -> MessageQueue.Error { MessageQueue.Error(.invalid, text) }

    /// Whether the text is a token of RFC 9110.
    private static func isToken(_ text: String) -> Bool {
        let others = Set("!#$%&'*+-.^_`|~".utf8)
        return !text.isEmpty
            && text.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte) || others.contains(byte)
            }
    }

    /// Whether the text contains nothing that could end the line.
    private static func isValue(_ text: String) -> Bool { text.utf8.allSatisfy { $0 == 0x09 || (0x20...0x7e).contains($0) } }
}
