/// Passes each event to all readers.
final class Broadcaster: @unchecked Sendable {
    private struct Listener {
        weak var reader: EventReader?
    }

    private let lock = Mutex()
    private var listeners: [Listener] = []
    private var hasBegun = false
    private var isFinished = false

    /// Adds a reader. Returns it, and whether it is the first one ever.
    func subscribe() -> (EventReader, isFirst: Bool) {
        let reader = EventReader()
        let (isFirst, isLate) = lock.withLock {
            defer { hasBegun = true }
            listeners.removeAll { $0.reader == nil }
            if !isFinished { listeners.append(Listener(reader: reader)) }
            return (!hasBegun, isFinished)
        }
        if isLate { reader.end() }
        return (reader, isFirst)
    }

    func publish(_ event: Event) {
        for reader in readers { reader.receive(event) }
    }

    func finish() {
        lock.withLock { isFinished = true }
        for reader in readers { reader.end() }
    }

    private var readers: [EventReader] { lock.withLock { listeners.compactMap(\.reader) } }
}
