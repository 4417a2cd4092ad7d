/// Deletes many messages in steps, between which the lock is released. Under the engine's lock.
final class Removals {
    /// One call.
    struct Removal {
        enum Target {
            /// Every message of a conversation.
            case conversation(Name)
            /// The failed messages that a filter selects.
            case failed(Filter)
            /// The queued and failed messages of one conversation or (nil) of all. Those being sent are deleted when their attempts end,
            /// unless these succeed.
            case unsent(Name?)
        }

        let target: Target
        /// The number of messages that were deleted.
        fileprivate(set) var count: Int64 = 0
        fileprivate(set) var hasBegun = false
        /// The last sequence processed, and the last one to process: messages that were stored later are not deleted.
        fileprivate var (after, through): (Int64, Int64) = (0, 0)
        /// The messages that were found and not processed yet; there are no others if `isComplete`.
        fileprivate var found: ArraySlice<Int64> = []
        fileprivate var isComplete = false
        /// All of them are deleted.
        fileprivate var isDone = false
        /// The most messages per transaction. Many share the pages of the indexes that it writes.
        fileprivate var limit = 1_000
        /// How many of them, so that with its commit, which writes more the more conversations there are, a step takes some milliseconds.
        fileprivate var size = StepSize(128, in: 32...1_000, longest: 4)

        init(_ target: Target) { self.target = target }

        fileprivate var conversation: Name? {
            switch target {
            case .conversation(let name): name
            case .failed(let filter): filter.conversation.map { Name($0) }
            case .unsent(let name): name
            }
        }

        /// Whether it deletes messages of this status.
        fileprivate func includes(_ status: MessageStatus) -> Bool {
            switch target {
            case .conversation: true
            case .failed: status == .failed
            case .unsent: status == .queued || status == .failed
            }
        }

        fileprivate var filter: Filter {
            var filter =
                switch target {
                case .conversation(let name): Filter(conversation: name.text, statuses: .all, withoutBodies: true)
                case .failed(let filter): filter
                case .unsent(let name):
                    Filter(conversation: name?.text, statuses: [StatusSet(.queued), StatusSet(.failed)], withoutBodies: true)
                }
            (filter.after, filter.limit) = (after, limit)
            return filter
        }
    }

    /// A step ends after bodies of so many bytes, because deleting them takes long.
    private static let bytesPerStep: Int64 = 256 << 10
    /// A step ends after so many milliseconds, before its commit.
    private static let longestStep: Int64 = 4

    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let transactions: Transactions
    private let writes: PendingWrites
    private let waits: Waits

    init(_ parts: EngineParts) {
        (context, store, events) = (parts.context, parts.context.store, parts.events)
        (transactions, writes, waits) = (parts.transactions, parts.writes, parts.waits)
    }

    /// Deletes the next messages. Returns false if there are no more: then `removal` has ended.
    func step(_ removal: inout Removal) throws(QueueError) -> Bool {
        // An outcome that is written later would bring its message back.
        try writes.requireSaved()
        if !removal.hasBegun { try begin(&removal) }
        while !removal.isDone {
            do throws(QueueError) {
                removal.isDone = try !deleteNext(&removal)
                // The end, which erases their text, takes as long as a step.
                if !removal.isDone || removal.count > 0 { return true }
            } catch {
                removal.limit = try Transactions.fewer(than: removal.limit, after: error)
            }
        }
        try removeTitle(removal)
        try checkCounts(removal)
        try transactions.flush()
        end(removal, isComplete: true)
        return false
    }

    /// After a clear nothing is counted as unsent but what is being sent. Messages that were added meanwhile are not distinguished.
    private func checkCounts(_ removal: Removal) throws(QueueError) {
        guard case .unsent(let name) = removal.target, removal.count > 0, store.state.lastSequence == removal.through else { return }
        try transactions.run(durable: false) { () throws(QueueError) in try store.indexes.checkCleared(name) }
    }

    /// The title goes with the conversation.
    private func removeTitle(_ removal: Removal) throws(QueueError) {
        guard case .conversation(let name) = removal.target, try store.titles.contains(name) else { return }
        try transactions.run(durable: true, room: .kept) { () throws(QueueError) in try store.titles.set("", of: name) }
        store.log.scrub()
        events.countsChanged()
    }

    /// From now on nothing of the conversation, or of the unsent messages, starts, and they count as gone for calls that name them.
    private func begin(_ removal: inout Removal) throws(QueueError) {
        removal.through = store.state.lastSequence
        switch removal.target {
        case .conversation(let name):
            guard flights(of: name).isEmpty else { throw QueueError(.busy, "a message of the conversation is being sent") }
            context.core.scheduler.beginRemoval(of: name, through: removal.through)
        case .failed: break
        case .unsent(let name):
            try clearFlights(of: name)
            context.core.scheduler.beginClear(of: name, through: removal.through, context.ports.moment)
        }
        removal.hasBegun = true
    }

    private func flights(of name: Name?) -> [Flight] {
        context.core.scheduler.flights.open.filter { name == nil || $0.conversation == name }
    }

    /// The messages in flight are deleted when their attempts end, unless these succeed.
    private func clearFlights(of name: Name?) throws(QueueError) {
        let flights = flights(of: name)
        try transactions.run(durable: false) { () throws(QueueError) in
            for flight in flights {
                guard let row = context.core.rowsInFlight[flight.token] else { continue }
                var progress = row.progress
                progress.doomed = true
                try store.messages.update(row, to: progress)
            }
            // Rows that are not folded would be read again in each step.
            try store.counts.fold()
        }
        for flight in flights { context.core.markCleared(flight.token) }
    }

    /// Deletes the next messages in one transaction. Returns false if there are no more.
    private func deleteNext(_ removal: inout Removal) throws(QueueError) -> Bool {
        let (target, through) = (removal, removal.through)
        let sending = writes.sendingSequences
        if removal.found.isEmpty {
            let page = try store.pages.sequences(target.filter, sending: sending)
            (removal.found, removal.isComplete) = (page.prefix { $0 <= through }, page.count < target.limit)
        }
        let sequences = removal.found.prefix(min(removal.limit, Int(removal.size.value)))
        guard !sequences.isEmpty else { return false }
        let isLeast = removal.limit == 1
        var (rows, last): ([Row], Int64) = ([], 0)
        let start = context.ports.mono()
        // The last step flushes all of them.
        try transactions.run(durable: false, room: isLeast ? .kept : .inLog, isTried: !isLeast) { () throws(QueueError) in
            (rows, last) = ([], 0)
            let beside = try store.messages.rowsBeside(sequences)
            var bytes: Int64 = 0
            let end = context.ports.mono().addingClamped(Self.longestStep)
            for sequence in sequences {
                guard bytes < Self.bytesPerStep, rows.isEmpty || context.ports.mono() < end else { break }
                last = sequence
                // Found without checking its checksums, so that a damaged message can be deleted.
                guard let row = try store.messages.row(at: sequence, .outline), target.includes(row.progress.status),
                    !sending.contains(sequence)
                else {
                    continue
                }
                try store.messages.deleteAsked(row, beside, now: context.ports.wall())
                bytes = bytes.addingClamped(row.bodySize)
                rows.append(row)
            }
        }
        removal.size.took(context.ports.mono() &- start)
        (removal.after, removal.count) = (last, removal.count + Int64(rows.count))
        removal.found = removal.found.drop { $0 <= last }
        forget(rows, removal)
        return !removal.found.isEmpty || !removal.isComplete
    }

    /// Tells the scheduler that these messages are gone, of which it knows nothing any more during a clear.
    private func forget(_ rows: [Row], _ removal: Removal) {
        let now = context.ports.moment
        var isKnown = true
        if case .unsent = removal.target { isKnown = false }
        for row in rows where isKnown && row.progress.status.isUnsent {
            context.core.scheduler.removed(row.sequence, row.conversation, now)
        }
        for conversation in Set(rows.lazy.filter { $0.progress.status == .failed }.map(\.conversation)) {
            writes.refreshBlock(conversation)
        }
        waits.noteDeleted(rows.map { ($0.id, $0.conversation.text) })
        if !rows.isEmpty { events.countsChanged() }
    }

    /// Ends a removal. `isComplete`: it did not fail.
    func end(_ removal: Removal, isComplete: Bool) {
        let now = context.ports.moment
        var isReported = removal.count > 0
        switch removal.target {
        case .conversation(let name): context.core.scheduler.endRemoval(of: name, now)
        case .failed: break
        case .unsent(let name):
            context.core.scheduler.endClear(of: name, isComplete: isComplete, now)
            isReported = isReported || isComplete
        }
        if removal.count > 0 { store.log.scrub() }
        if isReported { events.emit(.cleared(conversation: removal.conversation?.text)) }
    }
}
