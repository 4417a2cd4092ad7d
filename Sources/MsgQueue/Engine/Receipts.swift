/// Writes receipts: what was delivered, and what was read. Under the engine's lock.
final class Receipts {
    /// A call that marks a message and those before it.
    struct Passage {
        fileprivate let receipt: MessageStatus
        fileprivate let conversation: Name
        fileprivate let isReceived: Bool
        /// The statuses that the receipt changes.
        fileprivate let statuses: [StoredStatus]
        /// The last message, and the last one processed.
        fileprivate let end: TimePlace
        fileprivate var after: TimePlace?
        /// The number of messages per transaction.
        fileprivate var limit = 128
        /// The number of messages that were marked.
        fileprivate(set) var count: Int64 = 0
    }

    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let maintenance: Maintenance
    private let transactions: Transactions
    private let writes: PendingWrites

    init(_ parts: EngineParts) {
        (context, store, events) = (parts.context, parts.context.store, parts.events)
        (maintenance, transactions, writes) = (parts.maintenance, parts.transactions, parts.writes)
    }

    // MARK: Messages by their ids

    func mark(_ id: String, as receipt: MessageStatus) throws(QueueError) {
        let (row, sending) = (try find(id), writes.sendingSequences)
        guard try progress(of: row, receipt, sending, context.ports.wall()) != nil else { return }
        report(
            try transactions.run(durable: true) { () throws(QueueError) in
                try write(receipt, to: row, sending, context.ports.wall()).map { [$0] } ?? []
            })
    }

    /// Marks the messages in one transaction. Returns the error of each that was not marked; nil: the receipt counts, or came late.
    func mark(_ ids: [String], as receipt: MessageStatus) throws(QueueError) -> [QueueError?] {
        let (sending, now) = (writes.sendingSequences, context.ports.wall())
        var (errors, changes): ([QueueError?], [Event]) = ([], [])
        try transactions.run(durable: true) { () throws(QueueError) in
            (errors, changes) = ([], [])
            errors.reserveCapacity(ids.count)
            for id in ids {
                do throws(QueueError) {
                    if let change = try write(receipt, to: try find(id), sending, now) { changes.append(change) }
                    errors.append(nil)
                } catch {
                    guard [.notFound, .conflict].contains(error.code) || (error.code == .corrupt && !error.isIndex) else { throw error }
                    errors.append(error)
                }
            }
        }
        report(changes)
        return errors
    }

    private func find(_ id: String) throws(QueueError) -> Row {
        guard let row = try store.messages.find(id, .whole), !writes.isBeingRemoved(row) else {
            throw QueueError(.notFound, "message not found: \(id)")
        }
        return row
    }

    // MARK: A message and those before it

    /// Begins a call. The messages that it concerns are of the same side: received, or one's own.
    func passage(upTo id: String, as receipt: MessageStatus) throws(QueueError) -> Passage {
        let row = try find(id)
        // Refuses a message that was not sent.
        _ = try progress(of: row, receipt, writes.sendingSequences, context.ports.wall())
        let statuses = StoredStatus.history.filter {
            $0.isReceived == row.isReceived && StatusRule.rank($0.status) < StatusRule.rank(receipt)
        }
        return Passage(
            receipt: receipt, conversation: row.conversation, isReceived: row.isReceived, statuses: statuses,
            end: try store.times.place(of: row.sequence)?.place ?? TimePlace(row.time, row.sequence))
    }

    /// Marks the next messages. Returns false if there are no more.
    func step(_ passage: inout Passage) throws(QueueError) -> Bool {
        guard !passage.statuses.isEmpty else { return false }
        while true {
            do throws(QueueError) { return try markNext(&passage) } catch {
                passage.limit = try Transactions.fewer(than: passage.limit, after: error)
            }
        }
    }

    private func markNext(_ passage: inout Passage) throws(QueueError) -> Bool {
        let (given, now, isLeast) = (passage, context.ports.wall(), passage.limit == 1)
        var (places, changes): ([TimePlace], [Event]) = ([], [])
        try transactions.run(durable: true, room: isLeast ? .kept : .inLog, isTried: !isLeast) { () throws(QueueError) in
            changes = []
            places = try store.pages.places(in: given.conversation, with: given.statuses, after: given.after, limit: given.limit)
            for place in places where place <= given.end {
                guard let row = try intactRow(place.sequence), row.isReceived == given.isReceived else { continue }
                if let change = try write(given.receipt, to: row, [], now) { changes.append(change) }
            }
        }
        report(changes)
        passage.count += Int64(changes.count)
        passage.after = places.last
        return places.count == given.limit && places.last.map { $0 < given.end } ?? false
    }

    /// Reads a message; nil: it is damaged, and is left as it is.
    private func intactRow(_ sequence: Int64) throws(QueueError) -> Row? {
        do throws(QueueError) { return try store.messages.row(at: sequence, .whole) } catch {
            guard error.code == .corrupt, !error.isIndex else { throw error }
            Log.error("\(store.path): \(error.detail)")
            return nil
        }
    }

    // MARK: One message

    /// Returns the state of a message after a receipt; nil: the receipt changes nothing.
    private func progress(
        of row: Row, _ receipt: MessageStatus, _ sending: Set<Int64>, _ now: Int64
    ) throws(QueueError) -> Progress? {
        let status = sending.contains(row.sequence) ? .sending : row.progress.status
        let earliest = row.isReceived ? row.createdAt : row.progress.sentAt
        return try StatusRule.receipt(receipt, on: status, of: row.progress, earliest: earliest, now: now)
    }

    /// Writes a receipt into the open transaction. Returns the change; nil: there is none.
    private func write(
        _ receipt: MessageStatus, to row: Row, _ sending: Set<Int64>, _ now: Int64
    ) throws(QueueError) -> Event? {
        guard let progress = try progress(of: row, receipt, sending, now) else { return nil }
        try store.messages.update(row, to: progress)
        return row.changed(from: row.progress.status, to: progress.status, at: now)
    }

    /// Reports changes after their commit.
    private func report(_ changes: [Event]) {
        guard !changes.isEmpty else { return }
        // Read messages are removed by the limits of the history.
        maintenance.historyGrew()
        events.countsChanged()
        for change in changes { events.emit(change) }
    }
}
