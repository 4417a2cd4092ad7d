/// Repairs of what is derived from the messages.
final class Repairs {
    private weak var store: Store?

    func use(_ store: Store) { self.store = store }

    /// Runs a repair of indexes or counts, in the open transaction or in one of its own. If its own transaction fails, the repair is
    /// repeated the next time.
    func run(_ body: () throws(QueueError) -> Void) throws(QueueError) {
        guard let store else { return try body() }
        guard !store.isInTransaction else { return try body() }
        do throws(QueueError) {
            try store.begin()
            try body()
            try store.commit(durable: false)
        } catch {
            store.rollback()
            Log.warning("\(store.path): repairing indexes or counts failed: \(error.detail)")
        }
    }
}
