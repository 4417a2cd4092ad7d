/// One reader's events that it has not taken yet. Bounded: of more than 10,000 the oldest give way to one that says "list again".
final class EventReader: @unchecked Sendable {
    private static let depth = 10_000

    private let lock = Mutex()
    private var waiting: [Event] = []
    private var first = 0
    /// Events were dropped before the first that waits, and the reader was not told of it yet.
    private var hasGap = false
    private var isEnded = false
    /// Who waits while there is nothing.
    private var takers: [CheckedContinuation<Event?, Never>] = []

    /// All that it hears, as a stream of what `convert` makes of it; a reader whose stream nobody holds is gone.
    func stream<Element>(_ convert: @escaping @Sendable (Event) -> Element) -> AsyncStream<Element> {
        AsyncStream(unfolding: { [self] in await next().map(convert) }, onCancel: { [weak self] in self?.end() })
    }

    func hear(_ event: Event) {
        let taker: CheckedContinuation<Event?, Never>? = lock.withLock {
            guard !isEnded else { return nil }
            if !takers.isEmpty { return takers.removeFirst() }
            waiting.append(event)
            guard waiting.count - first > Self.depth else { return nil }
            first += 1
            hasGap = true
            if first > Self.depth { compact() }
            return nil
        }
        taker?.resume(returning: event)
    }

    /// What waits is still read.
    func end() {
        let left = lock.withLock {
            isEnded = true
            defer { takers = [] }
            return takers
        }
        for taker in left { taker.resume(returning: nil) }
    }

    private func next() async -> Event? {
        await withCheckedContinuation { taker in
            let taken: Event?? = lock.withLock {
                if hasGap {
                    hasGap = false
                    return .resync
                }
                if first < waiting.count {
                    defer {
                        first += 1
                        if first == waiting.count { compact() }
                    }
                    return waiting[first]
                }
                if isEnded { return .some(nil) }
                takers.append(taker)
                return nil
            }
            if let taken { taker.resume(returning: taken) }
        }
    }

    private func compact() {
        waiting.removeSubrange(..<first)
        first = 0
    }
}
