/// Pages of messages in order.
final class MessagePages {
    let database: Database
    let state: StateRow
    let history: HistoryIndex
    let times: TimeIndex
    let failures: FailureIndex
    private let messages: MessageTable
    private let repairs: Repairs

    init(_ messages: MessageTable, _ repairs: Repairs) {
        (database, state, history, times) = (messages.database, messages.state, messages.history, messages.times)
        (failures, self.messages, self.repairs) = (messages.failures, messages, repairs)
    }

    /// Returns a page of messages in order, by one step after another.
    func page(
        _ filter: Filter, sending sequences: Set<Int64>, damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Row] {
        var (page, rows) = (PageSteps(filter), [Row]())
        repeat { rows += try page.step(self, sending: sequences, damaged: damaged) } while !page.isComplete
        return rows
    }

    /// Returns the sequences of a page.
    func sequences(_ filter: Filter, sending: Set<Int64>) throws(QueueError) -> [Int64] {
        try PageQuery(filter, sending, self).sequences()
    }

    func repairIndex(_ filter: Filter) throws(QueueError) {
        let index = filter.isByFailure ? "list of failures" : "index of the history"
        Log.warning("\(database.path): the \(index) is damaged and is rebuilt from the messages")
        try repairs.run { () throws(QueueError) in if filter.isByFailure { try failures.rebuild() } else { try history.rebuild() } }
    }

    /// Returns the places of a page; nil: the index by time does not agree with the messages, unless `mayDiffer`.
    func places(_ filter: Filter, _ sending: Set<Int64>, mayDiffer: Bool) throws(QueueError) -> [TimePlace]? {
        let query = PageQuery(filter, sending, self)
        if filter.order == .time { return try query.placesByTime(mayDiffer: mayDiffer) }
        return try query.sequences().map { TimePlace(0, $0) }
    }

    /// Returns the rows at some places, and how many places were read: until the bodies have `bytes` bytes. nil: a message is gone or has
    /// another status, unless `mayDiffer`.
    func rows(
        _ places: ArraySlice<TimePlace>, _ filter: Filter, sending: Set<Int64>, mayDiffer: Bool, bytes: Int, damaged: (QueueError) -> Void
    ) throws(QueueError) -> (rows: [Row], read: Int)? {
        var (rows, read, size): ([Row], Int, Int) = ([], 0, 0)
        let part: MessageTable.Part = filter.withoutBodies ? .start : .whole
        for place in places where size < bytes {
            read += 1
            let sequence = place.sequence
            do throws(QueueError) {
                let row = try messages.row(at: sequence, part)
                if let row, sending.contains(sequence) || filter.statuses.contains(row.progress.status) {
                    size += row.body.count
                    rows.append(row)
                } else if !mayDiffer {
                    return nil
                }
            } catch {
                guard error.code == .corrupt else { throw error }
                damaged(error)
                // It is listed with its id, so that the host can delete it.
                guard var outline = try messages.row(at: sequence, .outline) else { continue }
                outline.damage = error.detail
                // The next page begins after its place in the index.
                if place.time != 0 { outline.timeAt = place.time }
                rows.append(outline)
            }
        }
        return (rows, read)
    }

    /// Returns the messages of a conversation with these statuses after a place in the order by time, inside the caller's transaction.
    func places(
        in conversation: Name, with statuses: [StoredStatus], after place: TimePlace?, limit: Int
    ) throws(QueueError) -> [TimePlace] {
        let filter = Filter(
            conversation: conversation.text, statuses: StatusSet(statuses.map { StatusSet($0.status) }), after: place?.sequence ?? 0,
            limit: limit, order: .time, afterTime: place?.time ?? 0)
        guard let found = try PageQuery(filter, [], self, only: statuses).placesByTime() else {
            throw QueueError(.corrupt, "the index of the history has entries of messages that are gone", .index)
        }
        return found
    }
}
