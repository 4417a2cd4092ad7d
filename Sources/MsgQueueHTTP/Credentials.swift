import MsgQueue

/// Whether the server accepts the credentials, which all messages of a transport have.
///
/// An answer 401 is a fault of no message. While the server refuses the credentials, the engine attempts each message that is the first of
/// its conversation, as when it is offline: one request at a time finds out whether they are accepted again.
final class Credentials: @unchecked Sendable {
    enum Permission: Sendable {
        case free
        /// The message finds out.
        case trial
        /// The server has just refused the credentials.
        case refused
        /// Another message finds out.
        case wait
    }

    /// A server that refused the credentials is not asked again for so long.
    private static let refusedFor = Duration.seconds(1)

    /// Why the queue is held: the same each time, because the engine logs each change of it.
    let refusal: MessageQueue.Outcome
    private let lock = Mutex()
    private var isRefused = false
    private var isTried = false
    private var asksAgainAt = ContinuousClock.now

    /// - Parameter place: The host and port of the server.
    init(place: String) { refusal = .offline(reason: "\(place) answered 401") }

    func begin() -> Permission {
        lock.withLock {
            if !isRefused { return .free }
            if ContinuousClock.now < asksAgainAt { return .refused }
            if isTried { return .wait }
            isTried = true
            return .trial
        }
    }

    /// Notes the status of the answer; nil: there was none.
    func end(_ permission: Permission, status: Int?) {
        lock.withLock {
            if case .trial = permission { isTried = false }
            guard let status else { return }
            isRefused = status == 401
            asksAgainAt = ContinuousClock.now + Self.refusedFor
        }
    }
}
