import Glibc

/// Takes messages over from other durable places. Under the engine's lock.
///
/// The ids are written by the transaction that stores the messages, and stay until the source has deleted its own rows. So a source that is
/// interrupted between the two commits learns what the queue has, and an id that is handed over again changes nothing, whatever became of
/// the message.
final class HandOvers {
    /// The number of sources whose latest looks are known. A collector of an older one begins again.
    private static let lookCeiling = 1024
    /// The number of ids that one step forgets.
    private static let step = 1024

    private let context: EngineContext
    private let store: Store
    private let transactions: Transactions
    private let insertion: Insertion
    private let collection: CollectRequests
    /// The latest look at each source, the oldest first.
    private var looks: [(source: Name, token: UInt64)] = []
    private var nextToken: UInt64

    init(_ parts: EngineParts, _ insertion: Insertion, firstToken: UInt64) {
        (context, store, transactions) = (parts.context, parts.context.store, parts.transactions)
        (self.insertion, collection, nextToken) = (insertion, parts.collection, firstToken)
    }

    // MARK: Looking

    /// Returns what the source has handed over. An earlier look at it counts no more.
    func look(at source: String) throws(QueueError) -> HandOver {
        let entries = try store.handOvers.entries(by: source)
        nextToken &+= 1
        let name = Name(source)
        looks.removeAll { $0.source == name }
        if looks.count == Self.lookCeiling { looks.removeFirst() }
        looks.append((name, nextToken))
        collection.looked()
        return HandOver(source: source, token: nextToken, entries: entries)
    }

    private func check(_ look: HandOver) throws(QueueError) {
        let name = Name(look.source)
        guard looks.contains(where: { $0.source == name && $0.token == look.token }) else {
            throw QueueError(.conflict, "another call has looked at the hand-over of this source since")
        }
    }

    // MARK: Taking over

    /// Drafts of a hand-over. They are read when they are needed, because a batch may have a million.
    struct Drafts {
        let count: Int
        let read: (Int) throws(QueueError) -> HandedDraft
    }

    /// What becomes of the drafts of a call.
    private struct Plan {
        /// What a row of the hand-over says of a draft.
        enum Entry: UInt8 { case none, open, refused }

        /// The errors of the call's result.
        var results: [QueueError?] = []
        var entries: [Entry] = []
        /// The drafts to store, and which of them fail, by their place among these.
        var stored: [Int] = []
        var failures: [Int: QueueError] = [:]
        /// The bytes of disk space that the rows need.
        var space: Int64 = 0

        var isEmpty: Bool { !entries.contains { $0 != .none } }
    }

    /// Stores the drafts, in this order, and their ids as the open hand-over of the source, all in one transaction. Returns the error of each
    /// draft that the queue neither has nor had.
    func takeOver(_ drafts: Drafts, _ look: HandOver) throws(QueueError) -> [QueueError?] {
        try check(look)
        let wall = context.ports.wall()
        let plan = try plan(drafts, by: look.source, wall: wall)
        guard !plan.isEmpty else { return plan.results }
        let stored = plan.stored
        let batch = DraftBatch(count: stored.count) { range throws(QueueError) in
            var part: [BorrowedDraft] = []
            part.reserveCapacity(range.count)
            for place in range {
                let draft = try drafts.read(stored[place]).draft
                part.append(plan.failures[place] == nil ? draft : HandOverRule.kept(draft, wall: wall))
            }
            return part
        }
        try batch.prepare { _, _ in }
        batch.needs.space = batch.needs.space.addingClamped(plan.space)
        let addition = StoredBatch.Addition(failures: plan.failures) { [store] () throws(QueueError) in
            for (index, entry) in plan.entries.enumerated() where entry != .none {
                let draft = try drafts.read(index).draft
                try store.handOvers.note(
                    draft.id ?? "", by: look.source, size: Int64(draft.body.count),
                    refusal: entry == .refused ? plan.results[index] : nil, at: wall)
            }
        }
        try insertion.takeOver(batch, addition)
        let refused = plan.entries.indices.filter { plan.entries[$0] == .refused }
        if let first = refused.first, let error = plan.results[first] {
            let messages = Words.messages(Int64(refused.count))
            Log.warning("\(store.path): \(messages) of \(look.source) cannot be kept, the first: \(error.detail)")
        }
        return plan.results
    }

    private func plan(_ drafts: Drafts, by source: String, wall: Int64) throws(QueueError) -> Plan {
        var plan = Plan()
        plan.results.reserveCapacity(drafts.count)
        plan.entries.reserveCapacity(drafts.count)
        var ids = RepeatedIDs(capacity: drafts.count)
        var fates: [Int: QueueError] = [:]
        let isOpen = try store.handOvers.isOpen(by: source)
        for index in 0..<drafts.count {
            let handed = try drafts.read(index)
            guard let id = handed.draft.id else { throw QueueError(.invalid, "the id must be given").ofDraft(index, of: drafts.count) }
            let fate = HandOverRule.fate(of: handed, context.options, wall: wall)
            var (error, entry): (QueueError?, Plan.Entry) = (nil, .open)
            if case .left(let refusal) = fate {
                (error, entry) = (refusal, .refused)
            } else if isOpen, try store.handOvers.contains(id, by: source) {
                entry = .none
            } else if try isKnown(id) {
                error = QueueError(.duplicate, "id \(id) is in the store, or is still remembered")
            } else if let refusal = HandOverRule.neverFits(handed.draft, context.options) {
                (error, entry) = (refusal, .refused)
            } else {
                if case .failed(let refusal) = fate { fates[index] = refusal }
                ids.note(id)
                plan.stored.append(index)
            }
            if entry != .none {
                plan.space += HandOverTable.rowSpace + Int64(source.utf8.count + min(id.utf8.count, DraftRule.nameCeiling))
                if entry == .refused { plan.space += Int64(error?.detail.utf8.count ?? 0) }
            }
            plan.results.append(error)
            plan.entries.append(entry)
        }
        if ids.search() { try removeRepeated(&plan, &ids, drafts) }
        if !fates.isEmpty {
            for (place, index) in plan.stored.enumerated() { if let error = fates[index] { plan.failures[place] = error } }
        }
        return plan
    }

    private func isKnown(_ id: String) throws(QueueError) -> Bool {
        guard try !store.messages.contains(id) else { return true }
        return try store.recentIDs.isReceived(id, since: context.rememberedSince) != nil
    }

    /// Of several drafts of one id the first one is stored.
    private func removeRepeated(_ plan: inout Plan, _ ids: inout RepeatedIDs, _ drafts: Drafts) throws(QueueError) {
        var first: [Int] = []
        first.reserveCapacity(plan.stored.count)
        for index in plan.stored {
            guard let id = try drafts.read(index).draft.id, ids.isRepeated(id) else {
                first.append(index)
                continue
            }
            plan.results[index] = QueueError(.duplicate, "id \(id) occurs twice")
            plan.entries[index] = .none
        }
        plan.stored = first
    }

    // MARK: Forgetting

    /// Forgets some ids of the open hand-over. Returns false when there are no more. The commit is not flushed: after a power cut the ids may
    /// be there again, which does no harm.
    func end(_ look: HandOver) throws(QueueError) -> Bool {
        try check(look)
        guard try store.handOvers.isOpen(by: look.source) else { return false }
        let count = try transactions.run(durable: false) { () throws(QueueError) in
            try store.handOvers.forget(by: look.source, limit: Self.step)
        }
        return count == Self.step
    }

    /// Forgets some drafts that could not be kept: those with this id, or (nil) of all. Returns how many; fewer than `isLast` when there are no
    /// more.
    func forget(_ source: String, id: String?) throws(QueueError) -> (count: Int, isLast: Bool) {
        let count = try transactions.run(durable: true) { () throws(QueueError) in
            try store.handOvers.forgetRefused(by: source, id: id, limit: Self.step)
        }
        return (count, count < Self.step)
    }
}

/// The calls about hand-overs.
package struct HandOverCalls {
    private let engine: Engine

    package init(_ engine: Engine) { self.engine = engine }

    /// Throws if the queue is closed.
    package func checkOpen() throws(QueueError) { try engine.reading { () throws(QueueError) in } }

    /// Returns what the source has handed over and was not forgotten. Only the latest look at a source may take over.
    package func handedOver(by source: String) throws(QueueError) -> HandOver {
        try HandOverRule.check(source: source)
        // The first look begins a timer.
        return try engine.input { () throws(QueueError) in try engine.handOvers.look(at: source) }
    }

    /// Stores drafts, in this order, and their ids as the open hand-over of the source, all or none. Returns the error of each that the queue
    /// did not store: `.duplicate` (it has or had the id), or why it cannot be kept.
    package func takeOver(
        _ look: HandOver, count: Int, _ read: @escaping (Int) throws(QueueError) -> HandedDraft
    ) throws(QueueError) -> [QueueError?] {
        try engine.changing { () throws(QueueError) in
            try engine.handOvers.takeOver(HandOvers.Drafts(count: count, read: read), look)
        }
    }

    /// Reports the event that asks the host to take over what waits in its own places.
    package func requestCollect() throws(QueueError) { try engine.changing { () throws(QueueError) in engine.collection.request() } }

    /// Forgets the ids of the open hand-over, in steps.
    package func end(_ look: HandOver) throws(QueueError) {
        while try engine.changing({ () throws(QueueError) in try engine.handOvers.end(look) }) {
            // Let threads that wait for the lock run first.
            usleep(100)
        }
    }

    /// Forgets drafts that could not be kept, in steps: those with this id, or (nil) all of the source.
    package func forget(_ source: String, id: String?) throws(QueueError) {
        try HandOverRule.check(source: source)
        var found = 0
        while true {
            let (count, isLast) = try engine.changing { () throws(QueueError) in try engine.handOvers.forget(source, id: id) }
            found += count
            guard !isLast else { break }
            usleep(100)
        }
        guard found > 0 || id == nil else { throw QueueError(.notFound, "nothing with this id was refused") }
    }
}
