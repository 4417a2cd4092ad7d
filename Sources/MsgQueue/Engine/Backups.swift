/// Copies of the store that are being made, a step at a time. Under the engine's lock.
final class Backups {
    private let store: Store
    private var copies: [StoreCopy] = []

    init(_ store: Store) { self.store = store }

    func begin(to path: String) throws(QueueError) -> StoreCopy {
        let copy = try store.copy(to: path)
        copies.append(copy)
        return copy
    }

    /// False: it was the last step. The copy needs the store no more.
    func takeStep(of copy: StoreCopy) throws(QueueError) -> Bool {
        if try copy.step() { return true }
        copies.removeAll { $0 === copy }
        return false
    }

    func abandon(_ copy: StoreCopy) {
        copies.removeAll { $0 === copy }
        copy.abandon()
    }

    /// The end of the queue.
    func close() {
        for copy in copies { copy.abandon() }
        copies = []
    }
}
