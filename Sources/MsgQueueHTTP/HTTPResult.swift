internal import CCurl
import Glibc
import MsgQueue

/// What became of a request.
struct HTTPResult: Sendable {
    enum Ending: Sendable {
        /// The answer is whole.
        case whole
        /// libcurl reported an error.
        case failed(Failure)
        /// The server answered with something that is not HTTP.
        case nonsense(String)
        /// The answer was longer than what is read of it.
        case enough
        case cancelled
    }

    enum Failure: Sendable {
        /// No connection was possible: the name, the address or the port cannot be reached, or the proxy or the client's certificate is wrong.
        case unreachable
        case timeout
        case notHTTP
        case other
    }

    var ending = Ending.whole
    /// The status of the final answer, whose header is whole. nil: there was none.
    var status: Int?
    var retryAfter = ""
    /// The beginning of the answer's body.
    var excerpt: [UInt8] = []
    /// A part of the request was sent.
    var isSent = true
    /// Of libcurl.
    var text = ""

    /// Characters of an answer in the text of an outcome.
    private static let maxText = 200

    var outcome: MessageQueue.Outcome {
        if let status, isFinal(status) { return .http(status, retryAfter: retryAfter, text: described(status)) }
        switch ending {
        case .whole: return .retry(.network, text: described("the answer ended within its header"))
        case .enough: return .retry(.server, text: described("the answer has no end"))
        case .nonsense(let text): return .retry(.server, text: described(text), isNotSent: !isSent)
        case .cancelled: return .retry(.unknown, text: described("the request was cancelled"), isNotSent: !isSent)
        case .failed(.unreachable) where !isSent: return .offline(reason: described(text))
        case .failed(.timeout): return .retry(.timeout, text: described(text), isNotSent: !isSent)
        case .failed(.notHTTP): return .retry(.server, text: described(text), isNotSent: !isSent)
        case .failed: return .retry(.network, text: described(text), isNotSent: !isSent)
        }
    }

    /// The status, if it counts; nil: there was none, or the answer was cut.
    var finalStatus: Int? { status.flatMap { isFinal($0) ? $0 : nil } }

    /// The request ended at the proxy.
    mutating func refuse(_ text: String) {
        (ending, status, isSent, self.text) = (.failed(.unreachable), nil, false, text)
    }

    /// Whether the status counts: the answer is whole, or the message is sent or retried by its status alone.
    private func isFinal(_ status: Int) -> Bool {
        switch ending {
        case .whole, .enough: true
        case .failed, .cancelled: !(300...499).contains(status) || [408, 425, 429].contains(status)
        case .nonsense: false
        }
    }

    private func described(_ text: String) -> String { status.map { "HTTP \($0), not whole: \(text)" } ?? text }

    private func described(_ status: Int) -> String {
        let words = String(decoding: excerpt, as: UTF8.self).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return words.isEmpty ? "HTTP \(status)" : "HTTP \(status): \(words.prefix(Self.maxText))"
    }
}

extension HTTPResult.Failure {
    /// `errno`: of the system call that failed while connecting.
    init(_ code: CURLcode, errno: Int) {
        switch code {
        case CURLE_COULDNT_CONNECT where errno == Int(ETIMEDOUT), CURLE_OPERATION_TIMEDOUT: self = .timeout
        case CURLE_COULDNT_CONNECT, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: self = .unreachable
        // Of the client.
        case CURLE_SSL_CERTPROBLEM: self = .unreachable
        // "Received HTTP/0.9 when not allowed".
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY: self = .notHTTP
        default: self = .other
        }
    }
}
