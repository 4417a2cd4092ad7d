/// The values that determine the banner of the queue, or of one conversation.
package struct BannerFacts: Sendable, Equatable {
    package var connectivity = Connectivity.unknown
    package var mode = Mode.auto
    package var queued: Int64 = 0
    package var sending: Int64 = 0
    package var failed: Int64 = 0
    /// The queue or the conversation is paused.
    package var isPaused = false
    /// How many of the `queued` messages are sent now, one after another, automatically or by a drain.
    package var underWay: Int64 = 0
    /// Something other than the mode and a pause prevents automatic sending when connected: the background, a read-only store, a delay that
    /// the receiver requested, the restriction to unmetered links, a missing transport, or a limit of messages per run.
    package var isHeldBack = false
    /// Every one of the `queued` messages is known to be sent when the connection returns: none waits for anything else, or may expire.
    package var areFree = false

    /// Queued messages are sent automatically when the connection returns.
    package var sendsWhenConnected: Bool { mode == .auto && !isPaused && !isHeldBack }
}

extension Words {
    /// "1 message", "5 messages".
    package static func messages(_ count: Int64) -> String { count == 1 ? "1 message" : "\(count) messages" }

    /// Returns one line about the queue or one conversation; "" if nothing is queued, being sent, failed or paused.
    package static func banner(_ facts: BannerFacts) -> String {
        let sentences = facts.connectivity == .offline ? offline(facts) : online(facts)
        let failures = facts.failed > 0 ? ["\(messages(facts.failed)) failed."] : []
        return (sentences + failures).joined(separator: " ")
    }

    /// Returns the sentences while offline: the messages that wait, or what happens when the connection returns. The banner does not give
    /// the reason: it is one line, and short.
    static func offline(_ facts: BannerFacts, reason: String = "") -> [String] {
        let sending = facts.sending > 0 ? ["Sending \(messages(facts.sending))…"] : []
        let queued = facts.queued > 0 ? ["\(messages(facts.queued)) queued."] : []
        let offline = OfflineReason.sentence("You're offline", reason)
        // An attempt in progress may fail, and hold back those behind it.
        let isPromised = facts.sendsWhenConnected && facts.areFree && facts.queued > 0 && facts.sending == 0
        let promise = isPromised ? ["\(facts.queued == 1 ? "It" : "They") will be sent when connected."] : []
        if facts.sending > 0 || facts.queued > 0 { return [offline] + sending + queued + promise }
        return facts.failed == 0 && facts.sendsWhenConnected ? [offline, whenConnected] : [offline]
    }

    static let whenConnected = "Messages will send when connected."

    private static func online(_ facts: BannerFacts) -> [String] {
        let waiting = facts.queued &+ facts.sending
        // A manual or direct attempt does not start the backlog.
        let moving = facts.isPaused ? facts.sending : facts.sending &+ min(max(facts.underWay, 0), facts.queued)
        let rest = waiting &- moving
        var sentences: [String] = []
        if moving > 0 {
            sentences.append("Sending \(messages(moving))…")
        } else if facts.isPaused {
            sentences.append(paused)
        }
        if rest > 0 { sentences.append("\(messages(rest)) queued.") }
        return sentences
    }

    static let paused = "Sending is paused."
}
