@testable import MsgQueue

/// Checks what an enqueue replaced and dropped, by comparing the store before and after it, independently of the rules.
struct InsertionChecker {
    private let before: StoredMessages
    private let lastSequence: Int64
    /// Messages being sent, or with a change that is not written yet.
    private let held: Set<Int64>
    private let conversations: [Name]
    private let key: String?
    private let options: Options
    /// The messages that were reported as removed.
    private var told: Set<Int64> = []

    init(_ simulation: Simulation, _ conversations: [Name], _ key: String?) {
        (before, held, options) = (simulation.store, simulation.heldSequences, simulation.options)
        (self.conversations, self.key) = (conversations, key)
        lastSequence = simulation.lastSequence
    }

    /// The message was reported as replaced or dropped. Returns its sequence; nil: it was enqueued by the same call.
    mutating func removed(_ id: String) -> Int64? {
        guard let sequence = before[id]?.sequence else { return nil }
        told.insert(sequence)
        return sequence
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

    /// `error`: why nothing was stored.
    func check(_ error: QueueError?, _ simulation: Simulation) throws(Violation) {
        let after = simulation.store
        if let error { return try checkRefusal(error, simulation) }
        // What is held may end by the steps that follow the commit.
        let ended = before.all.filter { held.contains($0.sequence) && !told.contains($0.sequence) }
        let gone = Set(before.all.filter { after[$0.sequence]?.id != $0.id }.map(\.sequence)).subtracting(ended.map(\.sequence))
        let dropped = gone.subtracting(replaced)
        guard replaced.isSubset(of: gone) else { throw Violation("not every message of the key was replaced") }
        guard told == gone else { throw Violation("\(gone) were removed, but \(told) were reported") }
        guard replaced.allSatisfy({ before[$0].map { simulation.remembers($0.id) } ?? false }) else {
            throw Violation("the ids of \(replaced) are not remembered")
        }
        if let key { for lane in Set(conversations) { try checkPlace(key, lane, after) } }
        try checkDropped(dropped, after)
        try checkCounts(after, simulation.counts)
    }

    /// The newest message of the key is the only one that is not being sent, in the place of the first that it replaced, but behind those
    /// being sent.
    private func checkPlace(_ key: String, _ lane: Name, _ after: StoredMessages) throws(Violation) {
        func sequences(_ store: StoredMessages, _ isIncluded: (SimulatedMessage) -> Bool) -> [Int64] {
            store.all.filter { $0.conversation == lane && $0.replaceKey == key && isIncluded($0) }.map(\.sequence).sorted()
        }
        let now = sequences(after) { $0.progress.status == .queued && !held.contains($0.sequence) }
        guard let place = now.first, now.count == 1 else { throw Violation("\(now) are queued with one key") }
        let left = sequences(before) { $0.progress.status == .queued && held.contains($0.sequence) }.last ?? 0
        let old = sequences(before) { isFree($0.sequence) && $0.sequence > left }
        guard place == old.first ?? place, old.first != nil || place > lastSequence else {
            throw Violation("a replacement has place \(place), not \(old.first ?? 0)")
        }
        guard place > left else { throw Violation("a replacement stands before message \(left), which is being sent") }
    }

    /// As few as necessary were dropped, the oldest first, and the rest fits.
    private func checkDropped(_ dropped: Set<Int64>, _ after: StoredMessages) throws(Violation) {
        guard options.limitMessages > 0 || options.limitBytes > 0 else {
            guard dropped.isEmpty else { throw Violation("\(dropped) were dropped without a limit") }
            return
        }
        // An outcome that was not written yet is written after the commit.
        var counts = after.totals
        for message in before.all where held.contains(message.sequence) {
            let status = after[message.sequence]?.progress.status
            guard message.progress.status == .queued, status != .queued, status != .failed else { continue }
            counts.add(.queued, amount: 1, bytes: Int64(message.body.count))
        }
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

    private func checkCounts(_ after: StoredMessages, _ counts: Counts) throws(Violation) {
        guard counts == after.totals else { throw Violation("the counts are \(counts), not \(after.totals)") }
    }

    /// A refused enqueue changes nothing, and no room could be made.
    private func checkRefusal(_ error: QueueError, _ simulation: Simulation) throws(Violation) {
        if error.code == .storage, simulation.storeIsBroken { return try checkUnchanged(simulation.store) }
        guard error.code == .full else { throw Violation("an enqueue failed: \(error)") }
        try checkUnchanged(simulation.store)
        guard options.onFull == .dropOldest, options.limitBytes == 0 else { return }
        let free = before.all.count { isFree($0.sequence) && !replaced.contains($0.sequence) }
        let new = Int64(key == nil ? conversations.count : Set(conversations).count)
        guard before.totals.unsent - Int64(replaced.count + free) + new > options.limitMessages else {
            throw Violation("an enqueue was refused although room can be made")
        }
    }

    private func checkUnchanged(_ after: StoredMessages) throws(Violation) {
        let isSame = before.all.allSatisfy { after[$0.sequence]?.id == $0.id }
        guard isSame, after.all.allSatisfy({ $0.sequence <= lastSequence }) else { throw Violation("a refused enqueue changed the store") }
    }
}
