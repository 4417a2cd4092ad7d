/// The texts for users: labels, sentences for failures, times. They never contain raw error text.
package enum Words {
    // MARK: Statuses

    package static func label(_ status: MessageStatus) -> String {
        switch status {
        case .queued: "Queued"
        case .sending: "Sending…"
        case .sent: "Sent"
        case .delivered: "Delivered"
        case .read: "Read"
        case .failed: "Failed"
        }
    }

    /// Returns the name of an icon; the host maps it to its own icons.
    package static func icon(_ status: MessageStatus) -> String {
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

    /// Returns one or two sentences: what happened, and what the user can do.
    package static func failure(_ kind: FailureKind) -> String {
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
        case .dropped: "The queue was full. This message was removed to make room for newer ones."
        case .local: "This message could not be prepared for sending."
        }
    }

    // MARK: The queue

    /// Returns the question of a prompt.
    package static func prompt(_ messages: Int64, failed: Int64) -> String {
        var parts = failed == 0 || messages > 0 ? ["\(messages) queued"] : []
        if failed > 0 { parts.append("\(failed) failed") }
        let last = failed > 0 ? failed : messages
        return "Connected. Auto-send \(parts.joined(separator: " and ")) \(last == 1 ? "message" : "messages")?"
    }

    // MARK: Connectivity

    package static func label(_ connectivity: Connectivity) -> String {
        switch connectivity {
        case .unknown: "Unknown"
        case .offline: "Offline"
        case .online: "Online"
        }
    }

    // MARK: Times

    /// Returns a time span rounded up for display: "5 s", "3 min", "2 h", "4 d"; at least "1 s".
    static func interval(_ milliseconds: Int64) -> String {
        let seconds = max(1, milliseconds / 1000 + (milliseconds % 1000 > 0 ? 1 : 0))
        switch seconds {
        case ..<120: return "\(seconds) s"
        case ..<7_200: return "\((seconds + 59) / 60) min"
        case ..<172_800: return "\((seconds + 3_599) / 3_600) h"
        default: return "\((seconds + 86_399) / 86_400) d"
        }
    }

    /// Returns "Just now", "5m ago", "2h ago", "3d ago", then a date as "2024-03-09" (UTC). Times are milliseconds since 1970. A time in
    /// the future, which results when the clock is set back, is "Just now".
    package static func relativeTime(_ then: Int64, now: Int64) -> String {
        let minutes = now.subtractingClamped(then) / 60_000
        switch minutes {
        case ..<1: return "Just now"
        case ..<60: return "\(minutes)m ago"
        case ..<(24 * 60): return "\(minutes / 60)h ago"
        case ..<(7 * 24 * 60): return "\(minutes / (24 * 60))d ago"
        default: return date(then)
        }
    }

    /// Returns the day in UTC, in the Gregorian calendar.
    static func date(_ given: Int64) -> String {
        let days = floored(within(given), Options.day)
        let (year, month, day) = Calendar.day(days)
        return "\(year)-\(two(month))-\(two(day))"
    }

    /// Returns the time in UTC for logs: "2024-03-09T07:30:00.250Z".
    static func instant(_ given: Int64) -> String {
        let time = within(given)
        let rest = time - floored(time, Options.day) * Options.day
        let (seconds, milliseconds) = (rest / 1000, rest % 1000)
        let fraction = milliseconds < 10 ? "00\(milliseconds)" : milliseconds < 100 ? "0\(milliseconds)" : "\(milliseconds)"
        return "\(date(time))T\(two(seconds / 3600)):\(two(seconds / 60 % 60)):\(two(seconds % 60)).\(fraction)Z"
    }

    /// Clamps a time to the years 1 to 9999.
    private static func within(_ time: Int64) -> Int64 { min(max(time, -62_135_596_800_000), 253_402_300_799_999) }

    private static func floored(_ number: Int64, _ divisor: Int64) -> Int64 {
        number >= 0 ? number / divisor : -((divisor - 1 - number) / divisor)
    }

    private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
