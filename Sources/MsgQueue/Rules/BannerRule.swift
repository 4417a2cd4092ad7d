/// What the banner depends on: the state of a queue, or of one conversation of it.
package struct BannerFacts: Sendable, Equatable {
    package var connectivity = Connectivity.unknown
    package var mode = Mode.auto
    package var queued: Int64 = 0
    package var sending: Int64 = 0
    package var failed: Int64 = 0
    /// The queue, or the conversation asked about.
    package var isPaused = false
    /// How many of `queued` are known to go now, one after the other: by themselves, or for a drain.
    package var underWay: Int64 = 0
    /// Something other than mode and pause keeps the engine from sending by itself when connected: the background, read-only opening, a
    /// wait that the receiver asked for, a restriction to unmetered links, a missing transport, a limit on what one run sends.
    package var isHeldBack = false

    package init() {}

    /// What is queued goes by itself as soon as there is a connection.
    package var sendsWhenConnected: Bool { mode == .auto && !isPaused && !isHeldBack }
}

extension Words {
    /// "1 message", "5 messages".
    package static func messages(_ count: Int64) -> String { count == 1 ? "1 message" : "\(count) messages" }

    /// One line about the queue or one of its conversations; "" when there is nothing to say.
    package static func banner(_ facts: BannerFacts) -> String {
        let sentences = facts.connectivity == .offline ? offline(facts) : online(facts)
        let failures = facts.failed > 0 ? ["\(messages(facts.failed)) failed."] : []
        return (sentences + failures).joined(separator: " ")
    }

    /// While offline: what waits, or what connecting does.
    static func offline(_ facts: BannerFacts) -> [String] {
        let sending = facts.sending > 0 ? ["Sending \(messages(facts.sending))…"] : []
        let queued = facts.queued > 0 ? ["\(messages(facts.queued)) queued."] : []
        if facts.sending > 0 || facts.queued > 0 { return ["You're offline."] + sending + queued }
        return facts.failed == 0 && facts.sendsWhenConnected ? ["You're offline.", whenConnected] : ["You're offline."]
    }

    static let whenConnected = "Messages will send when connected."

    private static func online(_ facts: BannerFacts) -> [String] {
        let waiting = facts.queued &+ facts.sending
        // What is sent by hand or directly takes nothing of the backlog along.
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
