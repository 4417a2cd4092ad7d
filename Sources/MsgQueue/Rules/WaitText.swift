/// Why a message or the queue is not being sent, and what happens when that reason ends. Its text must promise no more than that.
package struct Wait: Sendable, Equatable {
    package var reason: Explanation.Reason
    /// When the reason ends, in milliseconds since 1970; 0: unknown.
    package var until: Int64 = 0
    /// The reason that follows: `.next`: the message is sent then; `.trigger`: at the next trigger; `.person`: after a drain; `.expired`:
    /// the message expires before `until`; `.rate`: it is sent when the rate permits. Of a single message also `.behind`, `.blocked` and `.metered`.
    package var after: Explanation.Reason = .next
    /// The time before which no run of the queue sends the message, in milliseconds since 1970; 0: none.
    package var earliest: Int64 = 0
    /// When the message expires, if `after` is `.expired`; in milliseconds since 1970.
    package var expiresAt: Int64 = 0
    /// The number of messages that have this reason; nil: unknown, or more than one run of the queue sends.
    package var count: Int64?
    /// Of a single message: others go first, and a run of the queue may end before it.
    package var isInTurn = false
    /// Of a single message with the reason `.next`: which messages of other conversations go before it; nil: only older ones, or none.
    package var ahead: Ahead?
    /// Of a single message with the reason `.sending`: the attempt has ended, but the transport's call has not returned.
    package var isEnding = false
    /// With the reason `.rate`.
    package var pace: PaceText?
    /// With the reason `.retrying`: the transport skipped the message, so that there was no attempt.
    package var isSkipped = false

    package enum Ahead: Sendable { case priority, expiry, backlog, live }
}

/// What a text says about the rate.
package struct PaceText: Sendable, Equatable {
    /// In attempts per second.
    package var rate: Double
    /// It is lower than the option says, after an outage or an overload of the receiver.
    package var isReduced: Bool

    package init?(_ pace: Pace?) {
        guard let pace else { return nil }
        (rate, isReduced) = (pace.rate, pace.isRamping)
    }
}

extension Words {
    /// Explains in one or two sentences why a message is not sent yet. `connected`: while offline, what the message waits for once the
    /// connection has returned; `isAsking`: a prompt is open; `offlineReason`: why there is no connection, "" if that is unknown.
    package static func explanation(
        _ wait: Wait, connected: Wait? = nil, now: Int64, isAsking: Bool = false, offlineReason: String = ""
    ) -> String {
        notConnected(wait, offlineReason) + explanation(of: wait, connected, now, isAsking, offlineReason)
    }

    private static func explanation(
        of wait: Wait, _ connected: Wait?, _ now: Int64, _ isAsking: Bool, _ offlineReason: String
    ) -> String {
        switch wait.reason {
        case .done: "There is nothing to wait for."
        case .next where wait.until > now && wait.ahead == nil: "It will be sent in \(time(wait, now)), or as soon as its batch is full."
        case .next: next(wait.ahead)
        case .sending: wait.isEnding ? lastAttempt : "It is being sent right now."
        case .failed: "It could not be sent. You can retry, change or delete it."
        case .behind: behind
        case .blocked: blocked
        case .retrying where wait.isSkipped:
            "The transport skipped it, so that it was not tried. " + followUp(wait, now, "It is tried in \(time(wait, now)).")
        case .retrying: "The last attempt failed. " + followUp(wait, now, "It is tried again in \(time(wait, now)).", again: " again")
        case .scheduled: followUp(wait, now, "It is scheduled to be sent in \(time(wait, now)).")
        case .expired: "It expired before it could be sent."
        case .offline:
            OfflineReason.sentence("You're offline", offlineReason) + " " + (connected.map { whenConnected($0, now) } ?? "")
        case .metered: metered
        case .paused: paused
        case .noTransport: noTransport
        case .person: isAsking ? confirmation : "Waiting for you to send it."
        case .holding: followUp(wait, now, "Sending resumes in \(time(wait, now)).")
        case .trigger: "\(atNextRun(wait))."
        case .storage: storage(wait)
        case .rate: followUp(wait, now, rate(wait, now))
        case .gone: gone
        }
    }

    /// The reason of the last attempt, which ended as offline, before what happens next.
    private static func notConnected(_ wait: Wait, _ reason: String) -> String {
        let isDelayed = wait.reason == .holding || wait.reason == .person || wait.reason == .trigger
        return isDelayed && !reason.isEmpty ? OfflineReason.sentence("Not connected", reason) + " " : ""
    }

    private static func next(_ ahead: Wait.Ahead?) -> String {
        switch ahead {
        case nil: "It is next."
        case .priority: "Messages with a higher priority go first."
        case .expiry: "Messages that expire sooner go first."
        case .backlog: "Messages that were queued before go first."
        case .live: "Newer messages go first."
        }
    }

    private static func whenConnected(_ wait: Wait, _ now: Int64) -> String {
        let isSent = wait.after == .next || wait.after == .rate
        guard wait.reason == .next || wait.reason.isTimed && isSent else { return explanation(wait, now: now) }
        let sentence =
            wait.isInTurn || wait.after == .rate ? "It will be sent in its turn when connected" : "It will be sent when connected"
        return wait.reason.isTimed ? "\(sentence), in \(time(wait, now)) at the earliest." : "\(sentence)."
    }

    /// What happens to a message when its wait for a time ends. `sent`: the sentence for a message that is sent then.
    private static func followUp(_ wait: Wait, _ now: Int64, _ sent: String, again: String = "") -> String {
        switch wait.after {
        case .next: sent
        case .trigger: "\(atNextRun(wait))\(earliest(wait, now).map { ", \($0)" } ?? "")."
        case .behind: behind + (earliest(wait, now).map { " This one is sent \($0)." } ?? "")
        case .blocked: blocked
        case .metered: metered + (earliest(wait, now).map { " It is sent \($0)." } ?? "")
        case .expired: "It expires in \(interval(wait.expiresAt.subtractingClamped(now))), before it can be sent\(again)."
        case .rate: "It will be sent\(again) in its turn\(earliest(wait, now).map { ", \($0)" } ?? "")."
        default: "It will be ready to send\(again) in \(time(wait, now))."
        }
    }

    private static func earliest(_ wait: Wait, _ now: Int64) -> String? {
        wait.earliest > now ? "in \(interval(wait.earliest.subtractingClamped(now))) at the earliest" : nil
    }

    private static func atNextRun(_ wait: Wait) -> String {
        wait.isInTurn ? "It will be sent in its turn when the queue runs" : "It will be sent the next time the queue runs"
    }

    private static func time(_ wait: Wait, _ now: Int64) -> String {
        wait.until > now ? interval(wait.until.subtractingClamped(now)) : "a moment"
    }

    /// Why a message that is next does not start: calls of the transport that have not returned occupy every slot.
    static func hung(_ calls: Int) -> String { "It will be sent when one of the \(calls) unfinished attempts ends." }

    private static func rate(_ wait: Wait, _ now: Int64) -> String {
        let left = wait.until.subtractingClamped(now)
        let time = left < 1_000 ? "within a second" : "in \(interval(left))"
        guard let pace = wait.pace else { return "The rate limit permits the next attempt \(time)." }
        let rate = "rate of \(rate(pace.rate))"
        return pace.isReduced
            ? "Sending is slower after an outage: the present \(rate) permits the next attempt \(time)."
            : "The \(rate) permits the next attempt \(time)."
    }

    /// Formats a rate, rounded: "25 per second", "2.5 per second", "1 in 40 s".
    static func rate(_ perSecond: Double) -> String {
        guard perSecond >= 1 else { return "1 in \(interval(Int64(min(1_000 / perSecond, 1e15))))" }
        let tenths = Int64((min(perSecond, 1e9) * 10).rounded())
        return "\(tenths / 10)\(tenths < 1_000 && tenths % 10 != 0 ? ".\(tenths % 10)" : "") per second"
    }

    static let noTransport = "Sending is not set up yet."
    private static let readOnly = "The store is open for reading only. Nothing is sent from it."
    /// Why there is no transport, if the options say it.
    static func noTransport(_ options: Options) -> String? {
        if options.readOnly { return readOnly }
        return options.maintenance ? maintenance : nil
    }

    private static let maintenance = "The store is open for maintenance. Its program sends when it has the store open."
    static let conversationPaused = "Sending is paused in this conversation."
    static let confirmation = "Waiting for your confirmation."
    private static let behind = "Another message of this conversation goes first."
    private static let metered = "Waiting for an unmetered connection."
    private static let gone = "It is no longer in the queue."
    private static let blocked = "A message before it could not be sent. Retry or delete that message first."

    private static func storage(_ wait: Wait) -> String {
        let sentence = "The device cannot save or send right now."
        return wait.after == .next ? "\(sentence) Sending resumes when it can." : sentence
    }

    // MARK: The queue as a whole

    /// Explains why nothing is being sent now. `pausedConversations`: how many are paused, if that is the reason.
    package static func queue(
        _ wait: Wait, _ facts: BannerFacts, pausedConversations: Int64 = 0, now: Int64, isAsking: Bool = false, offlineReason: String = ""
    ) -> String {
        notConnected(wait, offlineReason) + queue(wait, facts, pausedConversations, now, isAsking, offlineReason)
    }

    private static func queue(
        _ wait: Wait, _ facts: BannerFacts, _ pausedConversations: Int64, _ now: Int64, _ isAsking: Bool, _ offlineReason: String
    ) -> String {
        switch wait.reason {
        case .done: return "Nothing is waiting to be sent."
        case .next where wait.until > now: return "The next batch will be sent in \(time(wait, now)), or as soon as it is full."
        case .next: return "The next message is about to be sent."
        case .sending where facts.sending == 0: return lastAttempt
        case .sending: return "\(messages(facts.sending)) \(facts.sending > 1 ? "are" : "is") being sent."
        case .failed, .behind, .blocked: return queueBlocked
        case .retrying where wait.isSkipped:
            let skipped = "The transport skipped the next message, so that it was not tried."
            return queueFollowUp(wait, now, "\(skipped) It is tried in \(time(wait, now)).")
        case .retrying: return queueFollowUp(wait, now, "The last attempt failed. The next one is in \(time(wait, now)).")
        case .scheduled: return queueFollowUp(wait, now, "The next message is scheduled to be sent in \(time(wait, now)).")
        case .expired: return "A message expired before it could be sent."
        case .offline: return offline(facts, reason: offlineReason).joined(separator: " ")
        case .metered: return metered
        case .paused:
            guard !facts.isPaused else { return paused }
            return "Sending is paused in \(pausedConversations == 1 ? "1 conversation" : "\(pausedConversations) conversations")."
        case .noTransport: return noTransport
        case .person:
            if isAsking { return confirmation }
            guard let count = wait.count else { return "\(messages(facts.queued)) queued. Waiting for you to start sending." }
            return count > 0 ? "Waiting for you to send \(messages(count))." : "\(messages(facts.queued)) queued."
        case .holding: return queueFollowUp(wait, now, "Sending resumes in \(time(wait, now)).")
        case .trigger:
            guard let count = wait.count else { return "\(messages(facts.queued)) queued. Sending resumes the next time the queue runs." }
            return "\(messages(count)) will be sent the next time the queue runs."
        case .storage: return storage(wait)
        case .rate: return rate(wait, now)
        case .gone: return gone
        }
    }

    /// What happens when the wait of the whole queue for a time ends. `sent`: the sentence for a message that is sent then.
    private static func queueFollowUp(_ wait: Wait, _ now: Int64, _ sent: String) -> String {
        switch wait.after {
        // The rate permits one of the messages.
        case .next, .rate: return sent
        case .trigger: return "Sending resumes the next time the queue runs\(earliest(wait, now).map { ", \($0)" } ?? "")."
        case .metered: return metered
        case .blocked: return queueBlocked
        case .expired: return "The next message expires in \(interval(wait.expiresAt.subtractingClamped(now))), before it can be sent."
        default:
            return wait.reason == .holding
                ? "The receiver asked to wait for \(time(wait, now))." : "The next message will be ready to send in \(time(wait, now))."
        }
    }

    /// The attempts have ended, and their calls have not returned.
    private static let lastAttempt = "Waiting for the last attempt to end."
    private static let queueBlocked = "A failed message blocks the messages behind it. Retry or delete it."

    /// Why nothing starts: calls of the transport that have not returned occupy every slot.
    static func queueHung(_ calls: Int) -> String { "Sending resumes when one of the \(calls) unfinished attempts ends." }
}

extension Explanation.Reason {
    /// The reason ends at a known time.
    package var isTimed: Bool { self == .retrying || self == .scheduled || self == .holding || self == .rate }

    /// The message is queued, and something of its own or of its conversation holds it.
    package var isWaiting: Bool {
        switch self {
        case .behind, .blocked, .retrying, .scheduled, .expired, .metered, .paused: true
        default: false
        }
    }
}
