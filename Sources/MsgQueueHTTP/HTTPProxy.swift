internal import CCurl
import MsgQueue

/// A proxy, as it was given by its URL.
struct HTTPProxy: Sendable {
    let url: String
    /// Its host and port, for texts.
    let place: String

    /// No error contains the URL, which may have a password.
    init(_ text: String) throws(MessageQueue.Error) {
        func invalid(_ reason: String) -> MessageQueue.Error { MessageQueue.Error(.invalid, reason) }
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw invalid("the URL of the proxy contains a character that must be percent-encoded")
        }
        guard let parser = curl_url() else { throw MessageQueue.Error(.storage, "out of memory") }
        defer { curl_url_cleanup(parser) }
        guard text.lowercased().hasPrefix("http://"), curl_url_set(parser, CURLUPART_URL, text, 0) == CURLUE_OK,
            !text.contains("?"), !text.contains("#"), let host = Self.part(CURLUPART_HOST, parser), !host.isEmpty,
            Self.part(CURLUPART_PATH, parser) == "/"
        else { throw invalid("the URL of the proxy must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT") }
        guard let port = Self.part(CURLUPART_PORT, parser), port != "0" else { throw invalid("the URL of the proxy \(host) has no port") }
        guard Self.part(CURLUPART_USER, parser)?.contains(":") != true else {
            throw invalid("the user name for the proxy \(host):\(port) must not contain a colon")
        }
        (url, place) = (text, "\(host):\(port)")
    }

    private static func part(_ part: CURLUPart, _ parser: OpaquePointer) -> String? {
        var value: UnsafeMutablePointer<CChar>?
        defer { curl_free(value) }
        guard curl_url_get(parser, part, &value, UInt32(CURLU_URLDECODE)) == CURLUE_OK, let value else { return nil }
        return String(cString: value)
    }
}
