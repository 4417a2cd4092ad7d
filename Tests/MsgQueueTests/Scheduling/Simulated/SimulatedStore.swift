@testable import MsgQueue

/// The store of a simulation. As in the real store, a message in flight has the status `queued`.
///
/// Changes belong to one transaction until `commit` or `rollback`.
struct SimulatedStore {
    private var messages: [Int64: SimulatedMessage] = [:]
    private var sequences: [String: Int64] = [:]
    private var order: [Int64] = []
    private(set) var lanes: [Name: [Int64]] = [:]
    /// The counts of all messages.
    private(set) var totals = Counts()
    private var nextSequence: Int64 = 1
    /// A receiver's request that the whole queue wait.
    private(set) var hold: Due?

    /// Ids of replaced messages, which are refused as duplicates.
    private(set) var known: Set<String> = []

    /// The previous values of the messages changed by the open transaction, oldest first.
    private var replaced: [(sequence: Int64, message: SimulatedMessage?)] = []
    private var before: (nextSequence: Int64, hold: Due?, known: Set<String>)?

    init() {}

    var lastSequence: Int64 { nextSequence - 1 }

    subscript(sequence: Int64) -> SimulatedMessage? { messages[sequence] }

    subscript(id: String) -> SimulatedMessage? { sequences[id].flatMap { messages[$0] } }

    var all: some Collection<SimulatedMessage> { messages.values }
    /// In order of sequence.
    var queued: [Int64] { order }

    func firstFailed(in conversation: Name) -> Int64? {
        messages.values.filter { $0.conversation == conversation && $0.progress.status == .failed }.map(\.sequence).min()
    }

    func count(of conversation: Name) -> Int { lanes[conversation]?.count ?? 0 }

    func queued(after sequence: Int64, limit: Int) -> [(conversation: Name, head: Head)] {
        let rows = order[Self.place(sequence + 1, in: order)...].prefix(limit).compactMap { messages[$0] }
        return rows.map { ($0.conversation, $0.head) }
    }

    func queued(in conversation: Name, after sequence: Int64, limit: Int) -> [Head] {
        let lane = lanes[conversation] ?? []
        return lane[Self.place(sequence + 1, in: lane)...].prefix(limit).compactMap { messages[$0]?.head }
    }

    var hasPriorities: Bool { order.contains { messages[$0]?.priority != 0 } }

    func conversationsQueued(after name: Name?, limit: Int) -> [Name] {
        let after = lanes.keys.filter { other in name.map { $0.text.utf8.lexicographicallyPrecedes(other.text.utf8) } ?? true }
        return Array(after.sorted { $0.text.utf8.lexicographicallyPrecedes($1.text.utf8) }.prefix(limit))
    }

    /// The queued messages of this key, in order.
    func queued(withKey key: String, in conversation: Name) -> [Int64] {
        (lanes[conversation] ?? []).filter { messages[$0]?.replaceKey == key }
    }

    // MARK: Changes

    /// Inserts a message. `id` returns its id, by default one made of the sequence.
    mutating func insert(
        _ conversation: Name, id: (_ sequence: Int64) -> String = { "m\($0)" }, _ change: (inout SimulatedMessage) -> Void = { _ in }
    ) -> SimulatedMessage {
        begin()
        var message = SimulatedMessage(sequence: nextSequence, id: id(nextSequence), conversation: conversation)
        change(&message)
        nextSequence += 1
        set(message.sequence, message)
        return message
    }

    /// Puts a new message into the place of a queued one.
    mutating func replace(
        _ old: SimulatedMessage, id: (_ sequence: Int64) -> String, _ change: (inout SimulatedMessage) -> Void
    ) -> SimulatedMessage {
        begin()
        var message = SimulatedMessage(sequence: old.sequence, id: id(old.sequence), conversation: old.conversation)
        change(&message)
        known.insert(old.id)
        set(message.sequence, message)
        return message
    }

    mutating func removeReplaced(_ old: SimulatedMessage) {
        delete(old.sequence)
        known.insert(old.id)
    }

    mutating func update(_ sequence: Int64, _ change: (inout SimulatedMessage) -> Void) {
        guard var message = messages[sequence] else { return }
        change(&message)
        set(sequence, message)
    }

    mutating func delete(_ sequence: Int64) { set(sequence, nil) }

    /// Applies a change like the engine's store.
    mutating func apply(_ change: StoreChange) {
        switch change {
        case .requeue(let row, let progress): update(row.sequence) { $0.progress = progress }
        case .beginAttempt(let sequence, let number, let startedAt): update(sequence) { $0.interrupted = (number, startedAt) }
        case .endAttempt(let row, let resolution): end(row.sequence, resolution)
        case .revokeAttempt(let sequence): update(sequence) { $0.interrupted = nil }
        case .hold(let due):
            begin()
            hold = due
        case .expire(let sequence, let progress, _):
            if self[sequence]?.progress.status == .queued { update(sequence) { $0.progress = progress } }
        case .endUnreachable(let row, let resolution):
            if self[row.sequence]?.progress == row.progress { update(row.sequence) { $0.progress = resolution.progress } }
        case .markDamaged, .recover: break
        }
    }

    mutating func end(_ sequence: Int64, _ resolution: Resolution) {
        switch resolution.fate {
        case .discarded, .deleted: delete(sequence)
        case .sent, .queued, .failed:
            update(sequence) { message in
                message.interrupted = nil
                message.progress = resolution.progress
                if let attempt = resolution.attempt, attempt.number == resolution.progress.attempts {
                    message.wasInterrupted = attempt.result == .unknown
                }
            }
        }
    }

    // MARK: Transactions

    var isInTransaction: Bool { before != nil }

    private mutating func begin() {
        if before == nil { before = (nextSequence, hold, known) }
    }

    mutating func commit() {
        replaced.removeAll(keepingCapacity: true)
        before = nil
    }

    mutating func rollback() {
        guard let before else { return }
        let undone = replaced
        for (sequence, message) in undone.reversed() { set(sequence, message) }
        (nextSequence, hold, known) = before
        commit()
    }

    private mutating func set(_ sequence: Int64, _ new: SimulatedMessage?) {
        begin()
        let old = messages[sequence]
        replaced.append((sequence, old))
        messages[sequence] = new
        if let old { totals.add(old.progress.status, amount: -1, bytes: -Int64(old.body.count)) }
        if let new { totals.add(new.progress.status, amount: 1, bytes: Int64(new.body.count)) }
        if let old, new?.id != old.id { sequences[old.id] = nil }
        if let new, old?.id != new.id { sequences[new.id] = sequence }
        let (wasQueued, isQueued) = (old?.progress.status == .queued, new?.progress.status == .queued)
        if wasQueued, !isQueued, let old { leaveOrder(old) }
        if !wasQueued, isQueued, let new { joinOrder(new) }
    }

    // MARK: Order

    private mutating func joinOrder(_ message: SimulatedMessage) {
        order.insert(message.sequence, at: Self.place(message.sequence, in: order))
        var lane = lanes.removeValue(forKey: message.conversation) ?? []
        lane.insert(message.sequence, at: Self.place(message.sequence, in: lane))
        lanes[message.conversation] = lane
    }

    private mutating func leaveOrder(_ message: SimulatedMessage) {
        order.remove(at: Self.place(message.sequence, in: order))
        var lane = lanes.removeValue(forKey: message.conversation) ?? []
        lane.remove(at: Self.place(message.sequence, in: lane))
        if !lane.isEmpty { lanes[message.conversation] = lane }
    }

    /// Returns the first index whose number is at least `sequence`.
    private static func place(_ sequence: Int64, in numbers: [Int64]) -> Int {
        var (low, high) = (0, numbers.count)
        while low < high {
            let middle = (low + high) / 2
            if numbers[middle] < sequence { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension SimulatedStore: QueuedMessages {}
