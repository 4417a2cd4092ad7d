/// Transactions of the store, and the flush of commits that are not durable yet. Under the engine's lock.
final class Transactions {
    /// What a transaction may use on a full disk.
    enum Room {
        /// The write-ahead log, after a checkpoint.
        case inLog
        /// Also the room that is reserved for outcomes and deletions.
        case kept
    }

    /// The delay in milliseconds after which commits without a flush are flushed, and survive a power loss.
    private static let flushDelay: Int64 = 700
    /// The delay in milliseconds after which text of replaced and dropped messages is overwritten, so that many of them share one
    /// checkpoint.
    private static let scrubDelay: Int64 = 1_000
    /// The delay in milliseconds after a checkpoint or an overwriting that failed.
    private static let failureDelay: Int64 = 60_000

    private let context: EngineContext
    private let store: Store
    private let health: StoreHealth
    private let maintenance: Maintenance
    /// A checkpoint failed: the next one waits until then (monotonic).
    private var checkpointAt: Int64 = 0
    /// When the next such flush is due (monotonic).
    private var flushAt = Int64.max
    /// When the next overwriting is due (monotonic).
    private var scrubAt = Int64.max
    /// The number of outcomes committed without a flush, since the flush with this number.
    private var unflushed = (outcomes: 0, since: 0)

    init(_ context: EngineContext, _ health: StoreHealth, _ maintenance: Maintenance) {
        (self.context, store, self.health, self.maintenance) = (context, context.store, health, maintenance)
    }

    /// Runs `body` and commits; after an error nothing is changed. `isTried`: on a full disk the caller tries another way, so the error is
    /// not reported.
    @inline(never)
    func run<T>(
        durable: Bool, room: Room = .kept, isTried: Bool = false, _ body: () throws(QueueError) -> T
    ) throws(QueueError) -> T {
        context.lock.assertHeld()
        var retries = Retries(room: room, isTried: isTried)
        while true {
            do throws(QueueError) {
                try store.begin()
                let value = try body()
                try commit(durable: durable)
                return value
            } catch {
                guard canRetry(&retries, after: error) else { throw error }
            }
        }
    }

    /// What may still be tried after an error. Room is made until none is left to be made, indexes are rebuilt once.
    private struct Retries {
        let room: Room
        let isTried: Bool
        var mayMakeRoom = true
        var mayRebuildIndexes = true
    }

    // `run` is compiled for each type of result; what does not depend on it is not.
    @inline(never)
    private func commit(durable: Bool) throws(QueueError) {
        try store.commit(durable: durable)
        health.committed()
    }

    /// Rolls back. Returns whether the transaction can be tried again; reports the error if not.
    @inline(never)
    private func canRetry(_ retries: inout Retries, after error: QueueError) -> Bool {
        store.rollback()
        if error.isFull, retries.mayMakeRoom, store.log.freeSpace(usingReserve: retries.room == .kept) { return true }
        retries.mayMakeRoom = false
        if error.isIndex, retries.mayRebuildIndexes, maintenance.rebuildIndexes(error) {
            retries.mayRebuildIndexes = false
            return true
        }
        if error.code == .storage || error.code == .unknown, !(error.isFull && retries.isTried) { health.report(error) }
        return false
    }

    /// Returns for how many messages a transaction that failed is tried again; throws its error when it is not. On a full disk fewer
    /// messages may have room.
    static func fewer(than limit: Int, after error: QueueError) throws(QueueError) -> Int {
        guard error.isFull, limit > 1 else { throw error }
        return max(limit / 4, 1)
    }

    // MARK: Durability

    /// The number of committed outcomes that are not durable.
    var undurableOutcomes: Int { unflushed.since == store.log.flushes ? unflushed.outcomes : 0 }

    /// Runs a commit that contains `outcomes` outcomes, and counts those that it does not make durable.
    func counting(_ outcomes: Int, _ commit: () throws(QueueError) -> Void) throws(QueueError) {
        let (before, since) = (undurableOutcomes, store.log.flushes)
        try commit()
        unflushed = (before + outcomes, since)
    }

    /// Makes the commits of a call of several steps durable.
    func flush() throws(QueueError) {
        do throws(QueueError) { try store.log.flush() } catch {
            health.report(error)
            throw error
        }
    }

    /// Returns when the timer thread must run a checkpoint, flush, or overwrite text of removed messages (monotonic).
    func flushDeadline() -> Int64 {
        if store.log.needsFlush, flushAt == Int64.max { flushAt = context.ports.mono() + Self.flushDelay }
        if store.log.hasRemovedText, scrubAt == Int64.max { scrubAt = context.ports.mono() + Self.scrubDelay }
        return min(flushAt, scrubAt, store.log.isLong ? checkpointAt : Int64.max)
    }

    /// Runs a checkpoint if the log is long. Returns false if it is not.
    func checkpointIfDue() -> Bool {
        guard store.log.isLong else { return false }
        return checkpoint()
    }

    /// Runs a checkpoint if the log will be long after some further steps of the same call, in whose commits it would hold others even longer.
    /// Returns false if it will not.
    func checkpointBetweenSteps() -> Bool {
        guard store.log.isLongBetweenSteps else { return false }
        return checkpoint()
    }

    private func checkpoint() -> Bool {
        guard !store.isInTransaction, checkpointAt <= context.ports.mono() else { return false }
        checkpointAt = store.log.checkpoint() ? 0 : context.ports.mono().addingClamped(Self.failureDelay)
        return true
    }

    func flushWhatIsDue() {
        if scrubAt <= context.ports.mono() {
            if store.log.hasRemovedText { store.log.scrub() }
            scrubAt = store.log.hasRemovedText ? context.ports.mono().addingClamped(Self.failureDelay) : Int64.max
        }
        guard flushAt <= context.ports.mono() else { return }
        flushAt = Int64.max
        do throws(QueueError) { try store.log.flush() } catch { health.report(error) }
    }
}
