/// The backups in progress, made in steps. Under the engine's lock.
final class Backups {
    private let store: Store
    private var copies: [StoreCopy] = []

    init(_ store: Store) { self.store = store }

    func begin(to path: String) throws(QueueError) -> StoreCopy {
        let copy = try store.copy(to: path)
        copies.append(copy)
        return copy
    }

    /// Copies the next pages. Returns false after the last step, when the copy no longer uses the store.
    func takeStep(of copy: StoreCopy) throws(QueueError) -> Bool {
        if try copy.step() { return true }
        copies.removeAll { $0 === copy }
        return false
    }

    func abandon(_ copy: StoreCopy) {
        copies.removeAll { $0 === copy }
        copy.abandon()
    }

    /// Abandons all copies when the queue is closed.
    func close() {
        for copy in copies { copy.abandon() }
        copies = []
    }
}
