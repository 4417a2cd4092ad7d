/// Deletes many messages in steps, between which the lock is released. Under the engine's lock.
final class Removals {
    /// One call.
    struct Removal {
        enum Target {
            /// Every message of a conversation.
            case conversation(Name)
            /// The failed messages that a filter selects.
            case failed(Filter)
        }

        let target: Target
        /// The number of messages that were deleted.
        fileprivate(set) var count: Int64 = 0
        fileprivate(set) var hasBegun = false
        /// The last sequence processed, and the last one to process: messages that were stored later are not deleted.
        fileprivate var (after, through): (Int64, Int64) = (0, 0)
        /// The number of messages per transaction.
        fileprivate var limit = 64

        init(_ target: Target) { self.target = target }

        fileprivate var conversation: Name? {
            switch target {
            case .conversation(let name): name
            case .failed(let filter): filter.conversation.map { Name($0) }
            }
        }

        /// Whether it deletes messages of this status.
        fileprivate func includes(_ status: MessageStatus) -> Bool {
            switch target {
            case .conversation: true
            case .failed: status == .failed
            }
        }

        fileprivate var filter: Filter {
            var filter =
                switch target {
                case .conversation(let name): Filter(conversation: name.text, statuses: .all, withoutBodies: true)
                case .failed(let filter): filter
                }
            (filter.after, filter.limit) = (after, limit)
            return filter
        }
    }

    /// A step ends after bodies of so many bytes, because deleting them takes long.
    private static let bytesPerStep: Int64 = 256 << 10

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
        while true {
            do throws(QueueError) {
                if try deleteNext(&removal) { return true }
                break
            } catch {
                removal.limit = try Transactions.fewer(than: removal.limit, after: error)
            }
        }
        try removeTitle(removal)
        end(removal)
        return false
    }

    /// The title goes with the conversation.
    private func removeTitle(_ removal: Removal) throws(QueueError) {
        guard case .conversation(let name) = removal.target, try store.hasTitle(name) else { return }
        try transactions.run(durable: true, room: .kept) { () throws(QueueError) in try store.setTitle("", of: name) }
        store.scrub()
        events.countsChanged()
    }

    /// From now on nothing of the conversation starts, and its messages count as gone for calls that name them.
    private func begin(_ removal: inout Removal) throws(QueueError) {
        removal.through = store.lastSequence
        if case .conversation(let name) = removal.target {
            guard !context.core.scheduler.flights.values.contains(where: { !$0.isEnded && $0.conversation == name }) else {
                throw QueueError(.busy, "a message of the conversation is being sent")
            }
            context.core.scheduler.beginRemoval(of: name, through: removal.through, context.ports.moment)
        }
        removal.hasBegun = true
    }

    /// Deletes the next messages in one transaction. Returns false if there are no more.
    private func deleteNext(_ removal: inout Removal) throws(QueueError) -> Bool {
        let (target, through) = (removal, removal.through)
        let sending = writes.sendingSequences
        let found = try store.sequences(target.filter, sending: sending)
        let sequences = found.prefix { $0 <= through }
        guard !sequences.isEmpty else { return false }
        let isLeast = removal.limit == 1
        var (rows, last): ([Row], Int64) = ([], 0)
        try transactions.run(durable: true, room: isLeast ? .kept : .inLog, isTried: !isLeast) { () throws(QueueError) in
            (rows, last) = ([], 0)
            var bytes: Int64 = 0
            for sequence in sequences where bytes < Self.bytesPerStep {
                last = sequence
                // Found without checking its checksums, so that a damaged message can be deleted.
                guard let row = try store.row(at: sequence, .outline), target.includes(row.progress.status), !sending.contains(sequence)
                else {
                    continue
                }
                try store.deleteAsked(row, now: context.ports.wall())
                bytes = bytes.addingClamped(row.bodySize)
                rows.append(row)
            }
        }
        (removal.after, removal.count) = (last, removal.count + Int64(rows.count))
        forget(rows)
        return last < sequences.last ?? 0 || sequences.count == target.limit
    }

    /// Tells the scheduler that these messages are gone.
    private func forget(_ rows: [Row]) {
        let now = context.ports.moment
        for row in rows where row.progress.status.isUnsent { context.core.scheduler.removed(row.sequence, row.conversation, now) }
        for conversation in Set(rows.lazy.filter { $0.progress.status == .failed }.map(\.conversation)) {
            writes.refreshBlock(conversation)
        }
        waits.noteDeleted(rows.map { ($0.id, $0.conversation.text) })
        if !rows.isEmpty { events.countsChanged() }
    }

    /// Ends a removal, also one that failed.
    func end(_ removal: Removal) {
        if case .conversation(let name) = removal.target {
            context.core.scheduler.endRemoval(of: name, context.ports.moment)
        }
        guard removal.count > 0 else { return }
        store.scrub()
        events.emit(.cleared(conversation: removal.conversation?.text))
    }
}
