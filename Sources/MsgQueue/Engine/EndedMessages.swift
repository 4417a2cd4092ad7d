/// The last messages that were sent or left the store in this process, for calls that wait for a message that is gone.
struct EndedMessages {
    /// Many more than end between the return of an enqueue and the beginning of a wait.
    static let ceiling = 4_096

    private struct Ending {
        let id: Name
        /// The event by which it was sent; nil: it was not.
        var sent: StatusChange?
        /// The last receipt, after it was sent.
        var receipt: MessageStatus?
        /// It left the store, and this event says how.
        var end: Event?
    }

    /// In a ring: when it is full, `next` is the place of the oldest.
    private var endings: [Ending] = []
    private var next = 0
    /// The place of the last ending of each id.
    private var places: [Name: Int] = [:]

    mutating func note(_ event: Event) {
        switch event {
        case .status(let change):
            // A recorded message has no status before.
            guard let from = change.from, StatusRule.rank(change.to) >= StatusRule.rank(.sent) else { return }
            let id = Name(change.id)
            if StatusRule.rank(from) < StatusRule.rank(.sent) {
                add(Ending(id: id, sent: change))
            } else if let place = places[id] {
                // Of a message that ended long ago, the store knows more.
                endings[place].receipt = change.to
            }
        case .discarded(let id, _, _), .replaced(let id, _, _): add(Ending(id: Name(id), end: event))
        case .deleted(let id, _):
            // It may have been sent before.
            var ending = places[Name(id)].map { endings[$0] } ?? Ending(id: Name(id))
            ending.end = event
            add(ending)
        default: break
        }
    }

    /// Notes that a new message has this id.
    mutating func forget(_ id: String) { places[Name(id)] = nil }

    private mutating func add(_ ending: Ending) {
        guard endings.count == Self.ceiling else {
            places[ending.id] = endings.count
            return endings.append(ending)
        }
        let oldest = endings[next].id
        if places[oldest] == next { places[oldest] = nil }
        endings[next] = ending
        places[ending.id] = next
        next = (next + 1) % Self.ceiling
    }

    /// Returns what is known of the message with this id; nil: it is not among them.
    func message(_ id: String) -> Message? {
        guard let ending = places[Name(id)].map({ endings[$0] }) else { return nil }
        if let sent = ending.sent { return Message(sent: sent, ending.receipt ?? sent.to) }
        return ending.end.flatMap { Message(gone: $0) }
    }
}
