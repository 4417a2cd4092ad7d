/// Finds the room for new messages: those that they replace, and those that are dropped for them. Under the engine's lock, inside a
/// transaction.
struct RoomMaker {
    private let context: EngineContext
    private let store: Store
    private let writes: PendingWrites

    init(_ parts: EngineParts) { (context, store, writes) = (parts.context, parts.context.store, parts.writes) }

    /// Messages to be dropped for new ones.
    struct Victims {
        fileprivate var rows: [Row] = []
        fileprivate let need: RoomRule.Room
        /// Messages that the new ones replace.
        fileprivate let replaced: Set<Int64>
    }

    private var options: Options { context.options }

    // MARK: Replacement

    /// Returns the messages that a new one of this key replaces, and the place that it takes. Damaged ones are left, and those
    /// that a call is deleting: a new message does not go with them.
    func replaceable(_ key: String, _ conversation: Name) throws(QueueError) -> (rows: [Row], place: Int64?) {
        let queued = try store.queue.queued(withKey: key, in: conversation)
        guard !queued.isEmpty else { return ([], nil) }
        let held = writes.heldSequences
        var rows: [Int64: Row] = [:]
        for sequence in queued {
            let isGoing = context.core.scheduler.gate.pauses.isBeingRemoved(sequence, conversation, isUnsent: true)
            guard !held.contains(sequence), !isGoing else { continue }
            rows[sequence] = try store.messages.replaceable(sequence, key, conversation)
        }
        let plan = ReplaceRule.plan(queued) { rows[$0] == nil }
        return (plan.replaced.compactMap { rows[$0] }, plan.place)
    }

    // MARK: Limits

    /// Returns the messages to drop for the drafts; nil: they fit. Throws `full` if they do not; nothing of them is written yet. `beside`:
    /// bytes that earlier messages of the transaction need.
    func victims(for drafts: DraftBatch, beside: Int64) throws(QueueError) -> Victims? {
        guard options.limitMessages > 0 || options.limitBytes > 0 || options.limitFileBytes > 0 else { return nil }
        let (need, replaced) = try need(of: drafts)
        let held = writes.heldSequences.union(replaced)
        let file = try fileUse(need, beside: beside)
        let decision = try RoomRule.decide(need, in: store.counts.totals, held: Int64(held.count), file: file, options)
        guard case .drop(let excess) = decision else { return nil }
        if store.insertion.bulk != nil { try store.insertion.settleBulk(from: Int64.max) }
        var (victims, left) = (Victims(need: need, replaced: replaced), excess)
        try forEachOldest(except: held) { row throws(QueueError) in
            guard !left.isDropped else { return false }
            left.drop(bytes: row.bodySize)
            victims.rows.append(row)
            return true
        }
        guard left.isDropped else { throw RoomRule.full(need, in: store.counts.totals, file: file, options) }
        return victims
    }

    /// Drops the messages, and more while the files are too large; if these are limited, nothing else was written by the transaction. Throws
    /// `full` if that does not help; the caller rolls back.
    func drop(_ victims: Victims) throws(QueueError) -> [Row] {
        var dropped = victims.rows
        for row in dropped { try store.messages.removeQueued(row) }
        guard options.limitFileBytes > 0 else { return dropped }
        var excess = try fileUse(victims.need) + victims.need.file - options.limitFileBytes
        // Pages are freed only when they are empty. When much more was dropped than is needed, the rest would be dropped in vain.
        let most = excess.addingClamped(excess) + Self.dropSlack
        var freed: Int64 = 0
        try forEachOldest(except: writes.heldSequences.union(victims.replaced)) { row throws(QueueError) in
            guard excess > 0, freed < most else { return false }
            try store.messages.removeQueued(row)
            freed += row.bodySize + Self.leastSpace
            dropped.append(row)
            excess = try fileUse(victims.need) + victims.need.file - options.limitFileBytes
            return true
        }
        guard excess <= 0 else {
            let use = try fileUse(victims.need)
            throw RoomRule.full(victims.need, in: store.counts.totals, file: use, options)
        }
        return dropped
    }

    private static let dropSlack: Int64 = 256 << 10
    /// The bytes that a message needs beside its body, at least.
    private static let leastSpace: Int64 = 100

    /// Throws `full` if the files have no room for so many bytes more.
    func checkFile(for bytes: Int64) throws(QueueError) {
        guard options.limitFileBytes > 0, bytes > 0 else { return }
        var strict = options
        strict.onFull = .refuse
        let need = RoomRule.Room(file: bytes)
        _ = try RoomRule.decide(need, in: store.counts.totals, held: 0, file: try fileUse(need), strict)
    }

    private func fileUse(_ need: RoomRule.Room, beside: Int64 = 0) throws(QueueError) -> Int64 {
        options.limitFileBytes > 0 ? try store.space.use(adding: need.file.addingClamped(beside)) : 0
    }

    /// Returns what the drafts need, without the messages that they replace.
    private func need(of drafts: DraftBatch) throws(QueueError) -> (RoomRule.Room, replaced: Set<Int64>) {
        guard drafts.needs.hasKeys else {
            return (RoomRule.Room(messages: Int64(drafts.count), bytes: drafts.needs.bytes, file: drafts.needs.space), [])
        }
        var need = RoomRule.Room(file: drafts.needs.space)
        var replaced = Set<Int64>()
        // The size of the last body of each key, which stays.
        var sizes: [KeyInConversation: Int64] = [:]
        try drafts.forEach { _, draft throws(QueueError) in
            guard let key = draft.replaceKey else {
                need.messages += 1
                need.bytes += Int64(draft.body.count)
                return
            }
            sizes[KeyInConversation(key: Name(key), conversation: draft.conversation)] = Int64(draft.body.count)
        }
        for (key, size) in sizes {
            let rows = try replaceable(key.key.text, key.conversation).rows
            need.messages += 1 - Int64(rows.count)
            need.bytes += rows.reduce(size) { $0 - $1.bodySize }
            replaced.formUnion(rows.lazy.map(\.sequence))
        }
        return (need, replaced)
    }

    private struct KeyInConversation: Hashable {
        let key: Name
        let conversation: Name
    }

    /// Calls `body` for each queued message that may be dropped, the oldest first, until it returns false. Damaged ones are left.
    private func forEachOldest(except held: Set<Int64>, _ body: (Row) throws(QueueError) -> Bool) throws(QueueError) {
        var last: Int64 = 0
        while true {
            let heads = try store.queue.queued(after: last, limit: 16)
            guard let end = heads.last else { return }
            for (_, head) in heads where !held.contains(head.sequence) {
                guard let row = try store.messages.removable(head.sequence) else { continue }
                guard try body(row) else { return }
            }
            last = end.head.sequence
        }
    }
}
