/// Messages that are recorded in the history: received ones, and one's own that another device sent.
extension Store {
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
