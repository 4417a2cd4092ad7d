@testable import MsgQueue

/// Checks what an enqueue replaced and dropped, by comparing the store before and after it, independently of the rules.
struct InsertionChecker {
    private let before: SimulatedStore
    /// Messages being sent, or with a change that is not written yet.
    private let held: Set<Int64>
    private let conversations: [Name]
    private let key: String?
    private let options: Options

    init(_ simulation: Simulation, _ conversations: [Name], _ key: String?) {
        (before, held, options) = (simulation.store, simulation.engine.heldSequences, simulation.options)
        (self.conversations, self.key) = (conversations, key)
    }

    private func isFree(_ sequence: Int64) -> Bool {
        before[sequence]?.progress.status == .queued && !held.contains(sequence)
    }

    /// The messages that have to be replaced.
    private var replaced: Set<Int64> {
        guard let key else { return [] }
        let lanes = Set(conversations)
        return Set(before.all.filter { lanes.contains($0.conversation) && $0.replaceKey == key && isFree($0.sequence) }.map(\.sequence))
    }

    func check(_ enqueued: [SimulatedEngine.Enqueued], _ simulation: Simulation) throws(Violation) {
        let after = simulation.store
        guard !enqueued.isEmpty else { return try checkUnchanged(after) }
        let gone = Set(before.all.filter { after[$0.sequence]?.id != $0.id }.map(\.sequence))
        let dropped = gone.subtracting(replaced)
        guard replaced.isSubset(of: gone) else { throw Violation("not every message of the key was replaced") }
        guard Set(enqueued.flatMap(\.dropped).map(\.sequence)) == dropped else { throw Violation("\(dropped) were dropped silently") }
        let told = enqueued.flatMap(\.replaced)
        guard replaced.isSubset(of: Set(told.map(\.sequence))), told.allSatisfy({ after.known.contains($0.id) }) else {
            throw Violation("\(replaced) were replaced silently")
        }
        if let key { for lane in Set(conversations) { try checkPlace(key, lane, after) } }
        try checkDropped(dropped, after)
        try checkCounts(after)
    }

    /// The newest message of the key is the only one that is not being sent, in the place of the first that it replaced, but behind those
    /// being sent.
    private func checkPlace(_ key: String, _ lane: Name, _ after: SimulatedStore) throws(Violation) {
        func sequences(_ store: SimulatedStore, _ isIncluded: (SimulatedMessage) -> Bool) -> [Int64] {
            store.all.filter { $0.conversation == lane && $0.replaceKey == key && isIncluded($0) }.map(\.sequence).sorted()
        }
        let now = sequences(after) { $0.progress.status == .queued && !held.contains($0.sequence) }
        guard let place = now.first, now.count == 1 else { throw Violation("\(now) are queued with one key") }
        let left = sequences(before) { $0.progress.status == .queued && held.contains($0.sequence) }.last ?? 0
        let old = sequences(before) { isFree($0.sequence) && $0.sequence > left }
        guard place == old.first ?? place, old.first != nil || place > before.lastSequence else {
            throw Violation("a replacement has place \(place), not \(old.first ?? 0)")
        }
        guard place > left else { throw Violation("a replacement stands before message \(left), which is being sent") }
    }

    /// As few as necessary were dropped, the oldest first, and the rest fits.
    private func checkDropped(_ dropped: Set<Int64>, _ after: SimulatedStore) throws(Violation) {
        guard options.limitMessages > 0 || options.limitBytes > 0 else {
            guard dropped.isEmpty else { throw Violation("\(dropped) were dropped without a limit") }
            return
        }
        let counts = after.totals
        let isGrown = counts.unsent > before.totals.unsent || !dropped.isEmpty
        if isGrown, options.limitMessages > 0, counts.unsent > options.limitMessages { throw Violation("\(counts.unsent) messages") }
        guard let last = dropped.max() else { return }
        guard options.onFull == .dropOldest, dropped.allSatisfy(isFree) else { throw Violation("\(dropped) must not be dropped") }
        let older = before.all.first { $0.sequence < last && isFree($0.sequence) && after[$0.sequence]?.id == $0.id }
        if let older { throw Violation("\(last) was dropped, but not \(older.sequence)") }
        let isNeeded =
            options.limitMessages > 0 && counts.unsent + 1 > options.limitMessages
            || options.limitBytes > 0 && counts.unsentBytes + Int64(before[last]?.body.count ?? 0) > options.limitBytes
        guard isNeeded else { throw Violation("\(last) was dropped without need") }
    }

    private func checkCounts(_ after: SimulatedStore) throws(Violation) {
        var counts = Counts()
        for message in after.all { counts.add(message.progress.status, amount: 1, bytes: Int64(message.body.count)) }
        guard counts == after.totals else { throw Violation("the counts are \(after.totals), not \(counts)") }
    }

    /// A refused enqueue changes nothing, and no room could be made.
    func checkRefusal(_ error: QueueError, _ simulation: Simulation) throws(Violation) {
        guard error.code == .full else { throw Violation("an enqueue failed: \(error)") }
        try checkUnchanged(simulation.store)
        guard options.onFull == .dropOldest, options.limitBytes == 0 else { return }
        let free = before.all.count { isFree($0.sequence) && !replaced.contains($0.sequence) }
        let new = Int64(key == nil ? conversations.count : Set(conversations).count)
        guard before.totals.unsent - Int64(replaced.count + free) + new > options.limitMessages else {
            throw Violation("an enqueue was refused although room can be made")
        }
    }

    private func checkUnchanged(_ after: SimulatedStore) throws(Violation) {
        let isSame = before.all.allSatisfy { after[$0.sequence]?.id == $0.id } && after.lastSequence == before.lastSequence
        guard isSame else { throw Violation("a refused enqueue changed the store") }
    }
}
