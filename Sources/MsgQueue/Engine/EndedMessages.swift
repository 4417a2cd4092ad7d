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
    /// The place of the last ending of each id; nil: nobody has asked for so long that all endings are others.
    private var places: [Name: Int]?
    /// How many endings were added since somebody asked for one.
    private var unasked = 0

    mutating func note(_ event: Event) {
        switch event {
        case .status(let change):
            // A recorded message has no status before.
            guard let from = change.from, StatusRule.rank(change.to) >= StatusRule.rank(.sent) else { return }
            let id = Name(change.id)
            if StatusRule.rank(from) < StatusRule.rank(.sent) {
                add(Ending(id: id, sent: change))
            } else if let place = place(of: id) {
                // Of a message that ended long ago, the store knows more.
                endings[place].receipt = change.to
            }
        case .discarded(let id, _, _), .replaced(let id, _, _): add(Ending(id: Name(id), end: event))
        case .deleted(let id, _):
            // It may have been sent before.
            var ending = place(of: Name(id)).map { endings[$0] } ?? Ending(id: Name(id))
            ending.end = event
            add(ending)
        default: break
        }
    }

    /// Notes that a new message has this id.
    mutating func forget(_ id: String) {
        guard place(of: Name(id)) != nil else { return }
        places?[Name(id)] = nil
    }

    private mutating func add(_ ending: Ending) {
        unasked += 1
        if unasked > Self.ceiling { places = nil }
        guard endings.count == Self.ceiling else {
            places?[ending.id] = endings.count
            return endings.append(ending)
        }
        if places?[endings[next].id] == next { places?[endings[next].id] = nil }
        endings[next] = ending
        places?[ending.id] = next
        next = (next + 1) % Self.ceiling
    }

    /// Returns the place of the last ending of an id.
    private mutating func place(of id: Name) -> Int? {
        unasked = 0
        if let places { return places[id] }
        var found: [Name: Int] = [:]
        // From the oldest to the latest.
        for index in Array(next..<endings.count) + Array(0..<next) { found[endings[index].id] = index }
        places = found
        return found[id]
    }

    /// Returns what is known of the message with this id; nil: it is not among them.
    mutating func message(_ id: String) -> Message? {
        guard let ending = place(of: Name(id)).map({ endings[$0] }) else { return nil }
        if let sent = ending.sent { return Message(sent: sent, ending.receipt ?? sent.to) }
        return ending.end.flatMap { Message(gone: $0) }
    }
}
