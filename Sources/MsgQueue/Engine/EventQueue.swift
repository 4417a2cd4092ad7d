/// The events that wait for delivery, in order. Bounded: if the handler is too slow, they are replaced by one `resync` event.
struct EventQueue {
    enum Item {
        case event(Event, at: Int64)
        /// An action that must run after the events before it were delivered.
        case barrier(@Sendable () -> Void)
    }

    private enum Entry {
        case item(Item)
        /// The events of several new messages. They need no more memory than one event.
        case run(StoredRun)

        /// How many items it stands for.
        var count: Int { if case .run(let run) = self { run.count } else { 1 } }

        /// The number of lost events when it is dropped.
        var weight: Int64 {
            switch self {
            case .item(.event(let event, _)): event.weight
            case .item(.barrier): 0
            case .run(let run): Int64(run.count)
            }
        }

        var isBarrier: Bool { if case .item(.barrier) = self { true } else { false } }
    }

    static let ceiling = 10_000

    private var entries: [Entry] = []
    private var first = 0
    /// The number of entries that are no barriers.
    private var events = 0
    /// How many events and actions wait.
    private(set) var count = 0
    /// The counts have changed since the last summary event.
    var summaryIsDue = false
    /// A `collect` event waits. Another one would say nothing more.
    private var hasCollect = false

    var isEmpty: Bool { first == entries.count }

    mutating func append(_ event: Event, at: Int64) {
        if event == .collect {
            guard !hasCollect else { return }
            hasCollect = true
        }
        append(.item(.event(event, at: at)), at)
    }

    /// Adds the event of a new message.
    mutating func append(_ message: StoredBatch.Message, as status: MessageStatus, at: Int64) {
        if first < entries.count, case .run(var run) = entries[entries.count - 1], run.append(message, as: status, at: at) {
            entries[entries.count - 1] = .run(run)
            count += 1
        } else if let run = StoredRun(message, as: status, at: at) {
            append(.run(run), at)
        } else {
            append(.appeared(message.id, message.draft.conversation, as: status, at: at), at: at)
        }
    }

    private mutating func append(_ entry: Entry, _ at: Int64) {
        if events >= Self.ceiling {
            let lost = entries[first...].reduce(entry.weight) { $0 + $1.weight }
            // The barriers are kept, because a thread waits for each of them.
            let barriers = entries[first...].filter(\.isBarrier)
            entries = [.item(.event(.resync(lostEvents: lost), at: at))] + barriers
            first = 0
            events = 1
            hasCollect = false
            count = entries.count
            summaryIsDue = true
            return
        }
        entries.append(entry)
        events += 1
        count += entry.count
    }

    mutating func append(barrier: @escaping @Sendable () -> Void) {
        entries.append(.item(.barrier(barrier)))
        count += 1
    }

    /// Removes and returns the barriers, which must run although events are no longer delivered.
    mutating func takeBarriers() -> [@Sendable () -> Void] {
        let barriers = entries[first...].compactMap { if case .item(.barrier(let action)) = $0 { action } else { nil } }
        self = EventQueue()
        return barriers
    }

    /// Removes and returns the first event or action.
    mutating func popFirst() -> Item? {
        guard first < entries.count else { return nil }
        count -= 1
        switch entries[first] {
        case .item(let item):
            if case .event(.collect, _) = item { hasCollect = false }
            removeFirst()
            return item
        case .run(var run):
            let event = run.popFirst()
            if run.count > 0 { entries[first] = .run(run) } else { removeFirst() }
            return .event(event, at: run.at)
        }
    }

    private mutating func removeFirst() {
        if !entries[first].isBarrier { events -= 1 }
        first += 1
        if first == entries.count {
            entries.removeAll(keepingCapacity: entries.count < 256)
            first = 0
        } else if first > 1024 {
            entries.removeSubrange(..<first)
            first = 0
        }
    }
}
