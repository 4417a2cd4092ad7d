/// Events that a subscriber with an interval gets together. Those about the same thing become one, and many of single messages become one
/// `resync`, so that what is written does not grow with what happens.
struct HeldEvents {
    /// The most events of single messages that are delivered one by one.
    static let mostOfMessages = 200

    private enum Key: Hashable {
        case status(Name)
        case resync, summary, connectivity, prompt, progress, collect
    }

    /// nil: replaced by a later one.
    private var events: [(event: Event, at: Int64)?] = []
    private var places: [Key: Int] = [:]
    private var ofMessages = 0

    var isEmpty: Bool { events.isEmpty }

    mutating func add(_ event: Event, at: Int64) {
        // After a resync the client lists again.
        if Self.isOfMessage(event), let place = places[.resync], case (.resync(let lost), let time)? = events[place] {
            events[place] = (.resync(lostEvents: lost.addingClamped(event.weight)), time)
            return
        }
        var event = event
        let key = Self.key(event)
        if let key, let place = places.removeValue(forKey: key), let earlier = events[place]?.event {
            events[place] = nil
            event = Self.joined(earlier, event)
            if Self.isOfMessage(earlier) { ofMessages -= 1 }
        }
        if Self.isOfMessage(event) { ofMessages += 1 }
        if let key { places[key] = events.count }
        events.append((event, at))
        if ofMessages > Self.mostOfMessages { collapse(at) }
    }

    /// Replaces the events of single messages by one that says to list again.
    private mutating func collapse(_ at: Int64) {
        var lost: Int64 = 0
        let kept = events.compactMap { $0 }.filter { event, _ in
            guard Self.isOfMessage(event) else { return true }
            lost = lost.addingClamped(event.weight)
            return false
        }
        (events, places, ofMessages) = ([], [:], 0)
        add(.resync(lostEvents: lost), at: at)
        for (event, at) in kept { add(event, at: at) }
    }

    /// Removes and returns the events in their order.
    mutating func take() -> [(event: Event, at: Int64)] {
        defer { self = HeldEvents() }
        return events.compactMap { $0 }
    }

    private static func key(_ event: Event) -> Key? {
        switch event {
        case .status(let change): .status(Name(change.id))
        case .resync: .resync
        case .summary: .summary
        case .connectivity: .connectivity
        case .prompt, .promptChanged, .promptWithdrawn: .prompt
        case .drainProgress: .progress
        case .collect: .collect
        default: nil
        }
    }

    private static func isOfMessage(_ event: Event) -> Bool {
        switch event {
        case .status, .deleted, .discarded, .replaced, .edited: true
        default: false
        }
    }

    /// Returns the event that says what both say.
    private static func joined(_ earlier: Event, _ later: Event) -> Event {
        switch (earlier, later) {
        case (.status(let first), .status(let last)):
            .status(
                StatusChange(
                    id: last.id, conversation: last.conversation, from: first.from, to: last.to, attempt: last.attempt,
                    failure: last.failure, at: last.at))
        case (.prompt, .promptChanged(let changed)): .prompt(changed)
        case (.resync(let first), .resync(let last)): .resync(lostEvents: first.addingClamped(last))
        default: later
        }
    }
}
