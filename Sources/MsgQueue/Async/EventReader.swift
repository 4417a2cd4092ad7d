/// A bounded buffer of the events that one reader has not read yet. Beyond 10,000 the oldest events are replaced by one `resync` event with
/// their number.
final class EventReader: @unchecked Sendable {
    private static let capacity = 10_000

    private let lock = Mutex()
    private var waiting: [Event] = []
    private var first = 0
    /// The number of dropped events for which the reader has not received the `resync` event yet.
    private var lost: Int64 = 0
    private var isEnded = false
    /// The tasks that wait for an event.
    private var waiters: [CheckedContinuation<Event?, Never>] = []

    /// Returns the events as a stream, converted by `convert`. The stream owns the reader.
    func stream<Element>(_ convert: @escaping @Sendable (Event) -> Element) -> AsyncStream<Element> {
        AsyncStream(unfolding: { [self] in await next().map(convert) }, onCancel: { [weak self] in self?.end() })
    }

    func receive(_ event: Event) {
        let waiter: CheckedContinuation<Event?, Never>? = lock.withLock {
            guard !isEnded else { return nil }
            if !waiters.isEmpty { return waiters.removeFirst() }
            waiting.append(event)
            guard waiting.count - first > Self.capacity else { return nil }
            lost += waiting[first].weight
            first += 1
            if first > Self.capacity { compact() }
            return nil
        }
        waiter?.resume(returning: event)
    }

    /// Ends the stream after the buffered events.
    func end() {
        let left = lock.withLock {
            isEnded = true
            defer { waiters = [] }
            return waiters
        }
        for waiter in left { waiter.resume(returning: nil) }
    }

    private func next() async -> Event? {
        await withCheckedContinuation { waiter in
            let taken: Event?? = lock.withLock {
                if lost > 0 {
                    defer { lost = 0 }
                    return .resync(lostEvents: lost)
                }
                if first < waiting.count {
                    defer {
                        first += 1
                        if first == waiting.count { compact() }
                    }
                    return waiting[first]
                }
                if isEnded { return .some(nil) }
                waiters.append(waiter)
                return nil
            }
            if let taken { waiter.resume(returning: taken) }
        }
    }

    private func compact() {
        waiting.removeSubrange(..<first)
        first = 0
    }
}
