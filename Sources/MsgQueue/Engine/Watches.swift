/// Someone who reads a part of the queue again after each change.
protocol Watcher: AnyObject, Sendable {
    /// Something may have changed. Called under the engine's lock: it must not wait and not call the engine.
    func changed()
    /// The queue is being closed: the last chance to read, under the engine's lock.
    func close(_ reader: QueueReader)
}

/// Those who read parts of the queue after each change. Under the engine's lock.
final class Watches {
    private struct Entry {
        weak var watcher: (any Watcher)?
    }

    private var entries: [Entry] = []
    /// A read for a watcher may report damage, which is no reason for others to read again: that would never end.
    private var isReading = false

    /// Tells the watcher of every change from now on, until it is deallocated or the queue is closed. Takes the engine's lock.
    func add(_ watcher: any Watcher, _ context: EngineContext) throws(QueueError) {
        try context.checkProcess()
        try context.lock.withLock { () throws(QueueError) in
            guard context.phase != .closed else { throw context.closedError }
            entries.removeAll { $0.watcher == nil }
            entries.append(Entry(watcher: watcher))
        }
    }

    func changed() {
        guard !entries.isEmpty, !isReading else { return }
        for entry in entries { entry.watcher?.changed() }
    }

    /// Reads for a watcher.
    func reading<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        isReading = true
        defer { isReading = false }
        return try body()
    }

    func close(_ reader: QueueReader) {
        for entry in entries { entry.watcher?.close(reader) }
        entries = []
    }
}
