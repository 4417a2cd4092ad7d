import MsgQueue

/// Keeps the bearer token, and asks for another one after the server refused it: once for all requests that need it.
final class BearerTokens: @unchecked Sendable {
    enum Answer: Sendable {
        case token(String)
        /// The source has no token.
        case missing
        /// The source threw an error.
        case failed(String)
        case late
    }

    private let source: HTTPTransport.TokenSource
    private let lock = Mutex()
    private var current: (token: String, isRefused: Bool)?
    private var running: Task<Answer, Never>?

    init(_ source: @escaping HTTPTransport.TokenSource) { self.source = source }

    /// Marks a token as refused: the next attempt asks for another one.
    func refuse(_ token: String) {
        lock.withLock { if current?.token == token { current?.isRefused = true } }
    }

    /// Returns a token. `refused`: the server refused it in this attempt.
    func token(insteadOf refused: String?, until end: ContinuousClock.Instant) async -> Answer {
        let task: Task<Answer, Never>
        switch request(insteadOf: refused) {
        case .known(let token): return .token(token)
        case .asked(let asked): task = asked
        }
        // The source may never return, and this attempt may end before it does.
        let answer = Once<Answer>()
        let timer = Task {
            do { try await Task.sleep(until: end, clock: .continuous) } catch { return }
            answer.set(.late)
        }
        defer { timer.cancel() }
        Task { answer.set(await task.value) }
        return await withTaskCancellationHandler {
            await answer.wait()
        } onCancel: {
            answer.set(.late)
        }
    }

    private enum Request {
        case known(String)
        case asked(Task<Answer, Never>)
    }

    private func request(insteadOf refused: String?) -> Request {
        lock.withLock {
            // A token that another attempt got meanwhile is tried, even if it was refused, too: so an attempt asks at most once.
            if let current, refused == nil ? !current.isRefused : current.token != refused { return .known(current.token) }
            if let running { return .asked(running) }
            let before = refused ?? current?.token
            let task = Task { [self] in
                let answer = await ask(before)
                ended(answer)
                return answer
            }
            running = task
            return .asked(task)
        }
    }

    private func ask(_ refused: String?) async -> Answer {
        do {
            guard let token = try await source(refused) else { return .missing }
            guard !token.isEmpty, token.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
                return .failed("the token is empty or contains a character that a header cannot carry")
            }
            return .token(token)
        } catch {
            return .failed("\(error)")
        }
    }

    private func ended(_ answer: Answer) {
        lock.withLock {
            running = nil
            if case .token(let token) = answer { current = (token, current?.token == token && current?.isRefused == true) }
        }
    }
}
