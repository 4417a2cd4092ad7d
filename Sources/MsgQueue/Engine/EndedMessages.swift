/// The last messages that were sent or left the store in this process, for calls that wait for a message that is gone.
struct EndedMessages {
    /// Many more than end between the return of an enqueue and the beginning of a wait.
    static let ceiling = 4_096

    private struct Ending {
        let id: String
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
            if StatusRule.rank(from) < StatusRule.rank(.sent) {
                add(Ending(id: change.id, sent: change))
            } else if let place = places[Name(change.id)] {
                // Of a message that ended long ago, the store knows more.
                endings[place].receipt = change.to
            }
        case .discarded(let id, _, _), .replaced(let id, _, _): add(Ending(id: id, end: event))
        case .deleted(let id, let conversation): noteDeleted(id, conversation, event)
        default: break
        }
    }

    /// Notes that a new message has this id.
    mutating func forget(_ id: String) { places[Name(id)] = nil }

    /// Notes a message that a call for many removed.
    mutating func noteDeleted(_ id: String, _ conversation: String) {
        noteDeleted(id, conversation, .deleted(id: id, conversation: conversation))
    }

    private mutating func noteDeleted(_ id: String, _ conversation: String, _ event: Event) {
        var ending = places[Name(id)].map { endings[$0] } ?? Ending(id: id)
        // It may have been sent before.
        ending.end = event
        add(ending)
    }

    private mutating func add(_ ending: Ending) {
        guard endings.count == Self.ceiling else {
            places[Name(ending.id)] = endings.count
            return endings.append(ending)
        }
        let oldest = endings[next].id
        if places[Name(oldest)] == next { places[Name(oldest)] = nil }
        endings[next] = ending
        places[Name(ending.id)] = next
        next = (next + 1) % Self.ceiling
    }

    /// Returns what is known of the message with this id; nil: it is not among them.
    func message(_ id: String) -> Message? {
        guard let ending = places[Name(id)].map({ endings[$0] }) else { return nil }
        if let sent = ending.sent { return Message(sent: sent, ending.receipt ?? sent.to) }
        return ending.end.flatMap { Message(gone: $0) }
    }
}
