import MsgQueue

/// Posts the body of each message to a URL; the header `Idempotency-Key` is the message's id.
///
/// The function ``send(_:)`` is the transport:
/// `try MessageQueue(path: "outbox.db", transport: http.send)`.
///
/// Every message has a connection of its own. One thread of the transport makes all requests; it begins with the first one and ends when
/// the transport is deallocated. Any thread or task may use a transport, and several queues may share one.
public final class HTTPTransport: Sendable {
    /// Returns a bearer token for the header `Authorization`.
    ///
    /// It is called before the first request and after an answer with status 401. `refused` is the token of that request; nil: none was
    /// refused. While one call runs, requests that need a token wait for it. nil as the result: there is no token, a person must sign in.
    /// An error that it throws means that the token cannot be had now: the queue is held, and tries again every 5 s.
    public typealias TokenSource = @Sendable (_ refused: String?) async throws -> String?

    private let address: HTTPAddress
    private let headers: HTTPHeaders
    private let timeout: Duration?
    private let route: HTTPRoute
    private let transfers = HTTPTransfers()
    private let tokens: BearerTokens?
    private let credentials: Credentials
    private let isFinalWhenRefused: Bool

    /// Makes the transport; connects nowhere yet.
    ///
    /// - Parameters:
    ///   - url: http or https, without user name and fragment. Its path and query are used as they are.
    ///   - headers: Sent with every message. `Content-Type` is application/octet-stream unless it is among them.
    ///   - timeout: The most time for a message: for the token, connecting, sending and the answer. nil, or more than
    ///     `MessageQueue.Delivery.timeout`: that time.
    ///   - authorities: The path of a PEM file with the certificates of the authorities to trust for https; nil: those of the system.
    ///   - proxy: `http://HOST:PORT` or `http://USER:PASSWORD@HOST:PORT`, with percent-encoded characters in the user name and the
    ///     password. To a server of https it passes connections on (CONNECT) and reads no request. nil: none; proxies of the environment
    ///     are not used.
    ///   - certificate: The certificate of the client; nil: none.
    ///   - unauthorizedIsFinal: An answer 401, and a token source without a token, are final failures of the kind unauthorized; with
    ///     `MessageQueue.Options.pauseOnUnauthorized` they pause the queue. false: they are faults of no message. The queue is held, uses
    ///     up no retry, and tries again every 5 s.
    ///   - token: Returns the bearer token; nil: the transport sends none.
    /// - Throws: `.invalid` (the URL, a header, the timeout or the URL of the proxy is not valid).
    public init(
        url: String, headers: [String: String] = [:], timeout: Duration? = nil, authorities: String? = nil, proxy: String? = nil,
        certificate: Certificate? = nil, unauthorizedIsFinal: Bool = false, token: TokenSource? = nil
    ) throws(MessageQueue.Error) {
        address = try HTTPAddress(url)
        self.headers = try HTTPHeaders(headers, hasToken: token != nil, hasProxy: proxy != nil)
        if let timeout, timeout <= .zero { throw MessageQueue.Error(.invalid, "timeout must be positive, or nil, got \(timeout)") }
        self.timeout = timeout
        var parsed: HTTPProxy?
        if let proxy { parsed = try HTTPProxy(proxy) }
        route = HTTPRoute(proxy: parsed, authorities: authorities, certificate: certificate)
        tokens = token.map { BearerTokens($0) }
        credentials = Credentials(place: address.place)
        isFinalWhenRefused = unauthorizedIsFinal
    }

    /// Whether refused tokens pause the queue.
    var pausesQueue: Bool { tokens != nil && isFinalWhenRefused }

    /// Posts one message and returns the outcome. It ends within the time-out, and soon after its task is cancelled.
    public func send(_ delivery: MessageQueue.Delivery) async -> MessageQueue.Outcome {
        let limit = min(timeout ?? delivery.timeout, delivery.timeout)
        let end = ContinuousClock.now + limit
        if isFinalWhenRefused { return await attempt(delivery, until: end).outcome }
        while true {
            let permission = credentials.begin()
            switch permission {
            case .refused: return credentials.refusal
            case .wait:
                // It ends early when the task is cancelled.
                try? await Task.sleep(for: .milliseconds(20))
                if ContinuousClock.now >= end || Task.isCancelled { return .skipped }
            case .free, .trial:
                let answer = await attempt(delivery, until: end)
                credentials.end(permission, status: answer.status)
                return answer.status == 401 ? credentials.refusal : answer.outcome
            }
        }
    }

    /// What became of a message, and the status of the answer.
    private typealias Answer = (outcome: MessageQueue.Outcome, status: Int?)

    private func attempt(_ delivery: MessageQueue.Delivery, until end: ContinuousClock.Instant) async -> Answer {
        guard let tokens else { return answer(of: await exchange(delivery, token: nil, until: end)) }
        var refused: (token: String, answer: Answer)?
        while true {
            let token: String
            switch await tokens.token(insteadOf: refused?.token, until: end) {
            case .token(let found): token = found
            case .missing: return refused?.answer ?? (withoutToken("there is no bearer token"), nil)
            case .failed(let text): return (.offline(reason: "no bearer token: \(text)"), nil)
            case .late: return (.offline(reason: "no bearer token in time"), nil)
            }
            // The source has no other token.
            if let refused, refused.token == token { return refused.answer }
            let result = await exchange(delivery, token: token, until: end)
            guard result.finalStatus == 401 else { return answer(of: result) }
            tokens.refuse(token)
            guard refused == nil else { return answer(of: result) }
            refused = (token, answer(of: result))
        }
    }

    private func withoutToken(_ text: String) -> MessageQueue.Outcome {
        isFinalWhenRefused ? .reject(.unauthorized, text: text) : .offline(reason: text)
    }

    private func answer(of result: HTTPResult) -> Answer { (result.outcome, result.finalStatus) }

    private func exchange(
        _ delivery: MessageQueue.Delivery, token: String?, until end: ContinuousClock.Instant
    ) async -> HTTPResult {
        await transfers.run(
            HTTPTransfer(
                to: address, by: route, headers: headers.all(for: delivery, token: token), body: delivery.body, until: end))
    }
}

extension MessageQueue {
    /// Opens the store in the file `path`, as `init(path:options:transport:)` does, and sends by HTTP.
    ///
    /// If `http` has a token source and `unauthorizedIsFinal`, it sets the option `pauseOnUnauthorized`: a token that the server refuses
    /// twice pauses the queue and uses up no retry.
    ///
    /// - Throws: As `init(path:options:transport:)`.
    public convenience init(path: String, options: Options = Options(), http: HTTPTransport) throws(Error) {
        var options = options
        if http.pausesQueue { options.pauseOnUnauthorized = true }
        try self.init(path: path, options: options, transport: http.send)
    }
}
