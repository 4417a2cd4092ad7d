/// Why a message, or the queue, is not being sent, and what follows when that is over: a text must promise no more than then happens.
package struct Wait: Sendable, Equatable {
    package var reason: Explanation.Reason
    /// Milliseconds since 1970; 0: not known.
    package var until: Int64 = 0
    /// When the reason is over, sending starts by itself (`.next`), at the next trigger (`.trigger`), or when a person says so (`.person`).
    package var after: Explanation.Reason = .next
    /// How many messages it is true of; nil: not known, or more than one run of the queue takes.
    package var count: Int64?
    /// Of a message: runs of the queue are limited, and the next one may end before it.
    package var isInTurn = false
}

extension Words {
    /// Why a message is not sent yet, in one or two sentences. `connected`: while offline, what it would wait for otherwise; `isAsking`: a
    /// prompt stands.
    package static func explanation(_ wait: Wait, connected: Wait? = nil, now: Int64, isAsking: Bool = false) -> String {
        let time = time(wait, now)
        switch wait.reason {
        case .done: return "There is nothing to wait for."
        case .next: return "It is next."
        case .sending: return "It is being sent right now."
        case .failed: return "It could not be sent. You can retry, change or delete it."
        case .behind: return "Another message of this conversation goes first."
        case .blocked: return "A message before it could not be sent. Retry or delete that message first."
        case .retrying: return "The last attempt failed. " + resumption(wait, now, "It is tried again in \(time).", again: " again")
        case .scheduled: return resumption(wait, now, "It is scheduled to be sent in \(time).")
        case .expired: return "It expired before it could be sent."
        case .offline: return "You're offline. " + (connected.map { whenConnected($0, now, isAsking) } ?? "")
        case .metered: return "Waiting for an unmetered connection."
        case .paused: return paused
        case .noTransport: return noTransport
        case .person: return isAsking ? confirmation : "Waiting for you to send it."
        case .holding: return resumption(wait, now, "Sending resumes in \(time).")
        case .trigger: return wait.isInTurn ? "\(inTurn)." : "It will be sent the next time the queue runs."
        case .storage: return wait.after == .next ? "\(noStorage) Sending resumes when it can." : noStorage
        }
    }

    private static func whenConnected(_ wait: Wait, _ now: Int64, _ isAsking: Bool) -> String {
        let isTimed = [.retrying, .scheduled, .holding].contains(wait.reason)
        guard wait.reason == .next || isTimed && wait.after == .next else { return explanation(wait, now: now, isAsking: isAsking) }
        return isTimed
            ? "It will be sent when connected, in \(time(wait, now)) at the earliest." : "It will be sent when connected."
    }

    /// What happens when a time has come: `byItself`, or less.
    private static func resumption(_ wait: Wait, _ now: Int64, _ byItself: String, again: String = "") -> String {
        switch wait.after {
        case .next: byItself
        case .trigger:
            "\(wait.isInTurn ? inTurn : "It will be sent the next time the queue runs"), in \(time(wait, now)) at the earliest."
        default: "It will be ready to send\(again) in \(time(wait, now))."
        }
    }

    private static func time(_ wait: Wait, _ now: Int64) -> String {
        wait.until > now ? interval(wait.until.subtractingClamped(now)) : "a moment"
    }

    /// Why a message that is next does not go, when calls of the transport do not come back.
    static func hung(_ calls: Int) -> String { "It is next, as soon as one of the \(calls) attempts that hang ends." }

    private static let inTurn = "It will be sent in its turn when the queue runs"
    static let noTransport = "Sending is not set up yet."
    static let readOnly = "The store is open for reading only. Nothing is sent from it."
    static let confirmation = "Waiting for your confirmation."
    private static let noStorage = "The device cannot save right now."

    // MARK: The queue as a whole

    /// Why nothing is being sent now. `pausedConversations`: as many are, when that is the reason.
    package static func queue(
        _ wait: Wait, _ facts: BannerFacts, pausedConversations: Int64 = 0, now: Int64, isAsking: Bool = false
    ) -> String {
        let time = time(wait, now)
        switch wait.reason {
        case .done: return "Nothing is waiting to be sent."
        case .next: return "The next message is about to be sent."
        case .sending: return "\(messages(max(1, facts.sending))) \(facts.sending > 1 ? "are" : "is") being sent."
        case .failed, .behind, .blocked: return "A failed message holds those behind it. Retry or delete it."
        case .retrying: return resumption(wait, now: now, "The last attempt failed. The next one is in \(time).")
        case .scheduled: return resumption(wait, now: now, "The next message is scheduled to be sent in \(time).")
        case .expired: return "A message expired before it could be sent."
        case .offline: return offline(facts).joined(separator: " ")
        case .metered: return "Waiting for an unmetered connection."
        case .paused:
            guard !facts.isPaused else { return paused }
            return "Sending is paused in \(pausedConversations == 1 ? "1 conversation" : "\(pausedConversations) conversations")."
        case .noTransport: return noTransport
        case .person:
            if isAsking { return confirmation }
            guard let count = wait.count else { return "\(messages(facts.queued)) queued. Waiting for you to start sending." }
            return count > 0 ? "Waiting for you to send \(messages(count))." : "\(messages(facts.queued)) queued."
        case .holding: return resumption(wait, now: now, "Sending resumes in \(time).")
        case .trigger:
            guard let count = wait.count else { return "\(messages(facts.queued)) queued. Sending resumes the next time the queue runs." }
            return "\(messages(count)) will be sent the next time the queue runs."
        case .storage: return wait.after == .next ? "\(noStorage) Sending resumes when it can." : noStorage
        }
    }

    private static func resumption(_ wait: Wait, now: Int64, _ byItself: String) -> String {
        switch wait.after {
        case .next: byItself
        case .trigger: "Sending resumes the next time the queue runs, in \(time(wait, now)) at the earliest."
        default:
            wait.reason == .holding
                ? "The receiver asked to wait for \(time(wait, now))." : "The next message will be ready to send in \(time(wait, now))."
        }
    }

    /// Why nothing starts, when calls of the transport do not come back.
    static func queueHung(_ calls: Int) -> String { "Sending resumes when one of the \(calls) attempts that hang ends." }
}
