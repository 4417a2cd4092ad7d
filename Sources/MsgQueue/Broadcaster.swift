/// Gives each event to every reader.
final class Broadcaster: @unchecked Sendable {
    private static let depth = 10_000

    private struct Reader {
        let continuation: AsyncStream<Event>.Continuation
        /// Events dropped since the reader was told of it.
        var lost = 0
    }

    private let lock = Mutex()
    private var readers: [Int: Reader] = [:]
    private var nextKey = 0
    private var isFinished = false

    /// A reader's stream, and whether it is the first there ever was.
    func subscribe() -> (AsyncStream<Event>, isFirst: Bool) {
        let (stream, continuation) = AsyncStream.makeStream(of: Event.self, bufferingPolicy: .bufferingNewest(Self.depth))
        let key = lock.withLock {
            nextKey += 1
            if isFinished { continuation.finish() } else { readers[nextKey] = Reader(continuation: continuation) }
            return nextKey
        }
        continuation.onTermination = { [weak self] _ in self?.remove(key) }
        return (stream, key == 1)
    }

    private func remove(_ key: Int) { lock.withLock { _ = readers.removeValue(forKey: key) } }

    func tell(_ event: Event) {
        let current = lock.withLock { readers }
        for (key, reader) in current {
            guard case .dropped = reader.continuation.yield(event) else { continue }
            // One resync among each thousand keeps one in the buffer behind every loss.
            if reader.lost % 1_000 == 0 { reader.continuation.yield(.resync) }
            lock.withLock { readers[key]?.lost += 1 }
        }
    }

    /// Outside the lock: a reader's end calls back.
    func finish() {
        let current = lock.withLock {
            isFinished = true
            return readers
        }
        for reader in current.values { reader.continuation.finish() }
    }
}
