/// Messages that are recorded in the history: received ones, and one's own that another device sent.
extension Store {
    /// What a message is whose id is in the store.
    enum Known { case recorded, toSend }

    /// Returns what the message with this id is; nil: there is none. A damaged one is there, too.
    func known(_ id: String) throws(QueueError) -> Known? {
        guard let sequence = try sequence(of: id) else { return nil }
        let statement = try database.statement("SELECT status, attempts FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in
            guard let status = StoredStatus(rawValue: statement.int(0)) else { return .toSend }
            let attempts = UInt32(clamping: statement.int(1))
            return status.isReceived || StatusRule.isRecorded(own: status.status, attempts: attempts) ? .recorded : .toSend
        }
    }

    /// Inserts a message into the history after all others, inside the caller's transaction, and returns its row.
    func record(_ draft: borrowing BorrowedDraft, now: Int64, random: UInt64) throws(QueueError) -> Row {
        let sequence = try state.takeSequence()
        let time = times.take(draft.time, at: sequence, now: now)
        let row = row(of: draft, at: sequence, time: time, isRecorded: true, DraftTimes(draft), now: now, random: random)
        try insert(row, draft.body)
        return row
    }

    /// Returns the messages of a conversation with these statuses after a place in the order by time, inside the caller's transaction.
    func places(
        in conversation: Name, with statuses: [StoredStatus], after place: TimePlace?, limit: Int
    ) throws(QueueError) -> [TimePlace] {
        let filter = Filter(
            conversation: conversation.text, statuses: StatusSet(statuses.map { StatusSet($0.status) }), after: place?.sequence ?? 0,
            limit: limit, order: .time, afterTime: place?.time ?? 0)
        guard let found = try PageQuery(filter, [], self, only: statuses).placesByTime() else {
            throw QueueError(.corrupt, "the index of the history has entries of messages that are gone", isIndex: true)
        }
        return found
    }
}
