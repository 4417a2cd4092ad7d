extension MessageQueue {
    // MARK: Snapshots

    /// The messages of a page now, and then again after each change, for a list on the screen.
    ///
    /// The first element is the list when the iteration begins. An element follows when the list differs from the last one, at most 50 in
    /// a second: changes between two elements are joined, and a slow reader misses intermediate lists, but never the last one. The sequence
    /// ends after the close of the queue, with the list that the close leaves if it is a new one, and when the task is cancelled. It does
    /// not keep the queue open.
    ///
    /// The iteration throws what ``list(_:)`` throws, but not `.closed`, and ends with that.
    public func snapshots(of filter: Filter = Filter()) -> Snapshots<[Message]> {
        Snapshots(self) { reader throws(Error) in
            let wanted = try filter.engine()
            try FilterRule.check(wanted)
            return try reader.list(wanted).map { Message($0) }
        }
    }

    /// The state of the whole queue now, and then again after each change, as ``snapshots(of:)`` does for messages. That time passes is no
    /// change: ``State/text`` may name a time that has become shorter.
    public var stateSnapshots: Snapshots<State> { Snapshots(self) { reader throws(Error) in State(try reader.state()) } }

    /// A value of a queue, and each later one that differs.
    public struct Snapshots<Element: Sendable & Equatable>: AsyncSequence, Sendable {
        private let engine: Engine
        private let thread: OnDemandThread<@Sendable () -> Void>
        private let read: SnapshotReader<Element>.Read

        init(_ queue: MessageQueue, _ read: @escaping SnapshotReader<Element>.Read) {
            (engine, thread, self.read) = (queue.engine, queue.readings, read)
        }

        /// Begins an iteration of its own.
        public func makeAsyncIterator() -> Iterator { Iterator(reader: SnapshotReader(engine, thread, read)) }

        /// One iteration.
        public struct Iterator: AsyncIteratorProtocol {
            private let reader: SnapshotReader<Element>
            private var shown: Element?
            private var hasEnded = false

            init(reader: SnapshotReader<Element>) { self.reader = reader }

            /// Waits for a value that differs from the last one; nil: the queue is closed, or the task is cancelled.
            public mutating func next() async throws(Error) -> Element? { try await next(isolation: nil) }

            /// Waits for a value that differs from the last one; nil: the queue is closed, or the task is cancelled.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(Error) -> Element? {
                guard !hasEnded else { return nil }
                do throws(Error) {
                    let value = try await reader.next(after: shown)
                    (shown, hasEnded) = (value, value == nil)
                    return value
                } catch {
                    hasEnded = true
                    throw error
                }
            }
        }
    }
}
