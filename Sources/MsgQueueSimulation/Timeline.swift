import MsgQueue

/// The scheduled events; those of the same time are in the order in which they were added.
struct Timeline {
    enum Event {
        case action((Simulation) throws -> Void)
        case crash
        /// `crashes`: the number of crashes when the attempt began.
        case answer(token: UInt64, place: Int, Outcome, crashes: Int)
    }

    private struct Entry: Comparable {
        let time: Int64
        let number: Int
        let event: Event

        static func < (left: Entry, right: Entry) -> Bool { (left.time, left.number) < (right.time, right.number) }
        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private var entries = Heap<Entry>()
    private var added = 0

    /// Monotonic milliseconds.
    var nextTime: Int64? { entries.first?.time }

    mutating func add(_ event: Event, at time: Int64) {
        added += 1
        entries.insert(Entry(time: time, number: added, event: event))
    }

    mutating func removeFirst(through time: Int64) -> Event? {
        guard let first = entries.first, first.time <= time else { return nil }
        return entries.removeFirst()?.event
    }
}
