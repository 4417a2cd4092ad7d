/// The events that wait for delivery, in order. Bounded: if the handler is too slow, they are replaced by one `resync` event.
struct EventQueue {
    enum Item {
        case event(Event, at: Int64)
        /// An action that must run after the events before it were delivered.
        case barrier(@Sendable () -> Void)
    }

    static let ceiling = 10_000

    private var items: [Item] = []
    private var first = 0
    private var events = 0
    /// The counts have changed since the last summary event.
    var summaryIsDue = false

    var isEmpty: Bool { first == items.count }
    var count: Int { items.count - first }

    mutating func append(_ event: Event, at: Int64) {
        if events >= Self.ceiling {
            // The barriers are kept, because a thread waits for each of them.
            let barriers = items[first...].filter { if case .barrier = $0 { true } else { false } }
            items = [.event(.resync, at: at)] + barriers
            first = 0
            events = 1
            summaryIsDue = true
            return
        }
        items.append(.event(event, at: at))
        events += 1
    }

    mutating func append(barrier: @escaping @Sendable () -> Void) { items.append(.barrier(barrier)) }

    /// Removes and returns the barriers, which must run although events are no longer delivered.
    mutating func takeBarriers() -> [@Sendable () -> Void] {
        let barriers = items[first...].compactMap { if case .barrier(let action) = $0 { action } else { nil } }
        self = EventQueue()
        return barriers
    }

    mutating func popFirst() -> Item? {
        guard first < items.count else { return nil }
        let item = items[first]
        first += 1
        if case .event = item { events -= 1 }
        if first == items.count {
            items.removeAll(keepingCapacity: items.count < 256)
            first = 0
        } else if first > 1024 {
            items.removeSubrange(..<first)
            first = 0
        }
        return item
    }
}
