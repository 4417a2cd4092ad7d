/// Transactions of the store, and what of them is not durable yet. Under the engine's lock.
final class Transactions {
    /// What a transaction may use when the disk is full.
    enum Room {
        /// The log, after it was copied.
        case inLog
        /// The room that is kept for sending and deleting, too.
        case kept
    }

    /// What is committed without a flush survives a power cut so many milliseconds later.
    private static let flushDelay: Int64 = 700

    private let context: EngineContext
    private let store: Store
    private let health: StoreHealth
    private let maintenance: Maintenance
    /// When what was committed without a flush is flushed (monotonic).
    private var flushAt = Int64.max
    /// Outcomes that were committed without a flush since the flush with this number.
    private var unflushed = (outcomes: 0, since: 0)

    init(_ context: EngineContext, _ health: StoreHealth, _ maintenance: Maintenance) {
        (self.context, store, self.health, self.maintenance) = (context, context.store, health, maintenance)
    }

    /// Runs `body` and commits; after an error nothing is changed. `isTried`: it is tried in another way when the disk is full.
    func run<T>(
        durable: Bool, room: Room = .kept, isTried: Bool = false, _ body: () throws(QueueError) -> T
    ) throws(QueueError) -> T {
        var (mayMakeRoom, mayMakeIndexes) = (true, true)
        while true {
            do throws(QueueError) {
                try store.begin()
                let value = try body()
                try store.commit(durable: durable)
                health.committed()
                return value
            } catch {
                store.rollback()
                if error.isFull, mayMakeRoom, store.freeSpace(usingReserve: room == .kept) { continue }
                mayMakeRoom = false
                if error.isIndex, mayMakeIndexes, maintenance.mendIndexes(error) {
                    mayMakeIndexes = false
                    continue
                }
                if error.code == .storage || error.code == .unknown, !(error.isFull && isTried) { health.report(error) }
                throw error
            }
        }
    }

    // MARK: What is not durable yet

    /// Outcomes that were committed and are not durable.
    var undurableOutcomes: Int { unflushed.since == store.flushes ? unflushed.outcomes : 0 }

    /// Runs a commit with so many outcomes in it, and counts those that it does not make durable.
    func counting(_ outcomes: Int, _ commit: () throws(QueueError) -> Void) throws(QueueError) {
        let (before, since) = (undurableOutcomes, store.flushes)
        try commit()
        unflushed = (before + outcomes, since)
    }

    /// When the timer must flush (monotonic).
    func flushDeadline() -> Int64 {
        if store.needsFlush, flushAt == Int64.max { flushAt = context.ports.mono() + Self.flushDelay }
        return flushAt
    }

    func flushWhatIsDue() {
        guard flushAt <= context.ports.mono() else { return }
        flushAt = Int64.max
        do throws(QueueError) { try store.flush() } catch { health.report(error) }
    }
}
