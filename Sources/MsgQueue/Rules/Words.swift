/// Words for people: the one place where the engine says something that a person reads. No raw error text reaches it.
public enum Words {
    // MARK: Statuses

    public static func label(_ status: MessageStatus) -> String {
        switch status {
        case .queued: "Queued"
        case .sending: "Sending…"
        case .sent: "Sent"
        case .delivered: "Delivered"
        case .read: "Read"
        case .failed: "Failed"
        }
    }

    /// The name of an icon; a host maps it to its own set.
    public static func icon(_ status: MessageStatus) -> String {
        switch status {
        case .queued: "clock"
        case .sending: "arrow-up"
        case .sent: "check"
        case .delivered: "check-double"
        case .read: "eye"
        case .failed: "alert"
        }
    }

    // MARK: Failures

    /// One plain sentence or two: what happened, and what can be done.
    public static func failure(_ kind: FailureKind) -> String {
        switch kind {
        case .none: ""
        case .offline: "No internet connection. Your message is saved and you can retry later."
        case .timeout: "The server did not answer in time. Your message is saved and you can retry."
        case .network: "The server could not be reached. Your message is saved and you can retry."
        case .server: "The server has a problem right now. Your message is saved and you can retry later."
        case .rateLimit: "Too many messages in a short time. Please wait a moment, then retry."
        case .unauthorized: "You are not signed in, or not allowed to send this. Sign in and retry."
        case .rejected: "The server did not accept this message. You can change it and retry."
        case .notFound: "The recipient could not be found. Check the recipient, then retry."
        case .expired: "It was too late to send this message. You can still retry."
        case .unknown: "Something went wrong, and it is not known whether your message arrived. You can retry."
        }
    }

    // MARK: The queue

    /// "1 message", "5 messages".
    public static func messages(_ count: Int64) -> String { count == 1 ? "1 message" : "\(count) messages" }

    /// One line about the queue; "" when there is nothing to say.
    public static func banner(_ counts: Counts, _ network: Network, isDraining: Bool) -> String {
        let waiting = counts.queued + counts.sending
        if !network.isOnline {
            return waiting == 0 ? offline : "You're offline. \(messages(waiting)) queued."
        }
        if isDraining || counts.sending > 0, waiting > 0 { return "Sending \(messages(waiting))…" }
        if counts.queued > 0 { return "\(messages(counts.queued)) queued." }
        if counts.failed > 0 { return "\(messages(counts.failed)) could not be sent." }
        return ""
    }

    /// While offline with nothing queued.
    public static let offline = "You're offline. Messages will send when connected."

    /// What a prompt asks.
    public static func prompt(_ count: Int64) -> String { "Connected. Auto-send \(count) queued \(count == 1 ? "message" : "messages")?" }

    // MARK: Waiting

    /// Why a message that is next does not go, when calls of the transport do not come back.
    static func hung(_ calls: Int) -> String { "It is next, as soon as one of the \(calls) attempts that hang ends." }

    /// Why a message is not sent yet, in one sentence. `until`: milliseconds since 1970; 0: not known.
    public static func explanation(_ reason: Explanation.Reason, until: Int64, now: Int64, mode: Mode) -> String {
        let time = until > now ? " \(interval(until - now))" : " a moment"
        switch reason {
        case .done: return "There is nothing to wait for."
        case .next: return "It is next."
        case .sending: return "It is being sent right now."
        case .failed: return "It could not be sent. You can retry, change or delete it."
        case .behind: return "Another message of this conversation goes first."
        case .blocked: return "A message before it could not be sent. Retry or delete that one first."
        case .retrying: return "The last attempt failed. It is tried again in\(time)."
        case .scheduled: return "It is to be sent later, in\(time)."
        case .expired: return "It was too late to send it."
        case .offline: return "You're offline. It will be sent when connected."
        case .metered: return "It waits for a connection that is not metered."
        case .paused: return "Sending is paused."
        case .noTransport: return "There is nothing to send it with yet."
        case .person: return mode == .ask ? "It waits for your yes." : "It waits for you to send it."
        case .holding: return "Sending goes on in\(time)."
        case .trigger: return "It is sent the next time that the queue is."
        case .storage: return "The device cannot save right now. Sending goes on when it can."
        }
    }

    /// "5 s", "3 min", "2 h", "4 d".
    static func interval(_ milliseconds: Int64) -> String {
        let seconds = max(1, milliseconds / 1000 + (milliseconds % 1000 > 0 ? 1 : 0))
        switch seconds {
        case ..<120: return "\(seconds) s"
        case ..<7_200: return "\((seconds + 59) / 60) min"
        case ..<172_800: return "\((seconds + 3_599) / 3_600) h"
        default: return "\((seconds + 86_399) / 86_400) d"
        }
    }

    // MARK: Times

    /// "Just now", "5m ago", "2h ago", "3d ago", then a date as "2024-03-09" (UTC). Times are milliseconds since 1970. A
    /// time in the future,
    /// as a clock that was set back makes it, is "Just now".
    public static func relativeTime(_ then: Int64, now: Int64) -> String {
        let minutes = now.subtractingClamped(then) / 60_000
        switch minutes {
        case ..<1: return "Just now"
        case ..<60: return "\(minutes)m ago"
        case ..<(24 * 60): return "\(minutes / 60)h ago"
        case ..<(7 * 24 * 60): return "\(minutes / (24 * 60))d ago"
        default: return date(then)
        }
    }

    /// The day in UTC, in the Gregorian calendar.
    static func date(_ given: Int64) -> String {
        // From year 1 to 9999, whatever a clock says.
        let time = min(max(given, -62_135_596_800_000), 253_402_300_799_999)
        let (year, month, day) = Calendar.day(time >= 0 ? time / Options.day : -((Options.day - 1 - time) / Options.day))
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(year)-\(two(month))-\(two(day))"
    }
}
