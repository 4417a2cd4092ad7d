internal import CCurl
import MsgQueue

/// A URL that requests can be sent to.
struct HTTPAddress: Sendable {
    let text: String
    let isSecure: Bool

    /// The host and the port, as the URL has them.
    var place: String { String(text.dropFirst(isSecure ? 8 : 7).prefix { $0 != "/" && $0 != "?" }) }

    init(_ text: String) throws(MessageQueue.Error) {
        // The URL may have a password, which may be anywhere when a part of it is taken for the end of the host.
        let shown = text.contains("@") ? "the URL" : text.debugDescription
        func invalid(_ reason: String) -> MessageQueue.Error { MessageQueue.Error(.invalid, "\(shown) \(reason)") }
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw invalid("contains a character that must be percent-encoded")
        }
        let prefix = ["http://", "https://"].first { text.lowercased().hasPrefix($0) }
        // libcurl would accept more slashes.
        guard let prefix, let first = text.dropFirst(prefix.count).first, first != "/" else {
            throw invalid("is not a URL of http or https")
        }
        guard let parser = curl_url() else { throw MessageQueue.Error(.storage, "out of memory") }
        defer { curl_url_cleanup(parser) }
        guard curl_url_set(parser, CURLUPART_URL, text, 0) == CURLUE_OK, Self.has(CURLUPART_HOST, parser) else {
            throw invalid("is not a URL of http or https")
        }
        guard !Self.has(CURLUPART_USER, parser), !Self.has(CURLUPART_PASSWORD, parser) else {
            throw MessageQueue.Error(.invalid, "the URL must not contain a user name; use the header Authorization")
        }
        guard !Self.has(CURLUPART_FRAGMENT, parser) else { throw invalid("contains a fragment") }
        (self.text, isSecure) = (text, prefix == "https://")
    }

    private static func has(_ part: CURLUPart, _ parser: OpaquePointer) -> Bool {
        var value: UnsafeMutablePointer<CChar>?
        defer { curl_free(value) }
        return curl_url_get(parser, part, &value, 0) == CURLUE_OK
    }
}
