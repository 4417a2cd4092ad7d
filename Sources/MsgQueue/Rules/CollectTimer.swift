/// When the host should look into the places that hand messages over to this queue. It begins with the first hand-over, so that a queue
/// without one never wakes for it.
package struct CollectTimer: Sendable {
    private let interval: Int64
    /// When the host should look next (monotonic); `Int64.max`: never.
    package private(set) var deadline = Int64.max

    package init(_ options: Options) {
        // What is open to be looked at or repaired takes nothing over.
        interval = options.isObserving ? 0 : options.collectInterval
    }

    /// The host has looked at what was handed over.
    package mutating func looked(at now: Int64) {
        guard interval > 0, deadline == Int64.max else { return }
        deadline = now.addingClamped(interval)
    }

    /// Whether the host should look now. The next time is an interval later.
    package mutating func isDue(at now: Int64) -> Bool {
        guard now >= deadline else { return false }
        deadline = now.addingClamped(interval)
        return true
    }
}
