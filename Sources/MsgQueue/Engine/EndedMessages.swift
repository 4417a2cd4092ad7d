/// The last messages that were sent or left the store in this process, for calls that wait for a message that is gone.
struct EndedMessages {
    /// Many more than end between the return of an enqueue and the beginning of a wait.
    private static let ceiling = 4_096

    /// In a ring: when it is full, `next` is the place of the oldest.
    private var events: [Event] = []
    private var next = 0

    mutating func note(_ event: Event) {
        guard events.count == Self.ceiling else { return events.append(event) }
        events[next] = event
        next = (next + 1) % Self.ceiling
    }

    /// Returns what is known of the message with this id; nil: it is not among them.
    func message(_ id: String) -> Message? {
        var (deleted, receipt): (Event?, Event?)
        for place in events.indices {
            let event = events[(next + events.count - 1 - place) % events.count]
            guard event.endedID == id else { continue }
            switch event {
            // It may have been sent before.
            case .deleted: deleted = deleted ?? event
            case .status(let change):
                guard change.to == .sent else {
                    receipt = receipt ?? event
                    continue
                }
                return Message(gone: receipt ?? event, sentAt: change.at)
            // After a discarded message its id may have been used again.
            default: return Message(gone: deleted ?? event)
            }
        }
        return (receipt ?? deleted).flatMap { Message(gone: $0) }
    }
}
