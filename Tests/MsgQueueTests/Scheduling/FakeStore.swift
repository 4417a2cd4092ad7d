@testable import MsgQueue

/// The store of a simulation: as on disk, where a message that is being sent counts as queued.
struct FakeStore {
    private var messages: [Int64: FakeMessage] = [:]
    private var order: [Int64] = []
    private(set) var lanes: [Name: [Int64]] = [:]
    private var nextSequence: Int64 = 1
    private(set) var enqueued = 0
    var lastSequence: Int64 { nextSequence - 1 }
    /// A receiver asked the whole queue to wait.
    var hold: Due?

    subscript(sequence: Int64) -> FakeMessage? { messages[sequence] }

    var all: some Collection<FakeMessage> { messages.values }
    /// In order.
    var queued: [Int64] { order }

    mutating func insert(_ conversation: Name, _ change: (inout FakeMessage) -> Void = { _ in }) -> FakeMessage {
        var message = FakeMessage(sequence: nextSequence, conversation: conversation)
        change(&message)
        nextSequence += 1
        enqueued += 1
        messages[message.sequence] = message
        order.append(message.sequence)
        lanes[conversation, default: []].append(message.sequence)
        return message
    }

    mutating func update(_ sequence: Int64, _ change: (inout FakeMessage) -> Void) {
        guard var message = messages[sequence] else { return }
        let wasQueued = message.progress.status == .queued
        change(&message)
        messages[sequence] = message
        let isQueued = message.progress.status == .queued
        if wasQueued, !isQueued { leaveOrder(message) }
        if !wasQueued, isQueued { joinOrder(message) }
    }

    mutating func delete(_ sequence: Int64) {
        guard let message = messages.removeValue(forKey: sequence) else { return }
        if message.progress.status == .queued { leaveOrder(message) }
    }

    /// As the engine's store writes it.
    mutating func apply(_ change: Change) {
        switch change {
        case .requeue(let row, let progress): update(row.sequence) { $0.progress = progress }
        case .beginAttempt(let sequence, let number, let startedAt): update(sequence) { $0.cut = (number, startedAt) }
        case .endAttempt(let row, let resolution):
            switch resolution.fate {
            case .discarded, .deleted: delete(row.sequence)
            case .sent, .queued, .failed:
                update(row.sequence) { message in
                    message.cut = nil
                    message.progress = resolution.progress
                }
            }
        case .hold(let due): hold = due
        case .expire(let sequence, let progress, _):
            if self[sequence]?.progress.status == .queued { update(sequence) { $0.progress = progress } }
        case .endUnreachable(let row, let resolution):
            if self[row.sequence]?.progress == row.progress { update(row.sequence) { $0.progress = resolution.progress } }
        case .markDamaged, .recover: break
        }
    }

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

    // MARK: Order

    private mutating func joinOrder(_ message: FakeMessage) {
        order.insert(message.sequence, at: Self.place(message.sequence, in: order))
        var lane = lanes[message.conversation] ?? []
        lane.insert(message.sequence, at: Self.place(message.sequence, in: lane))
        lanes[message.conversation] = lane
    }

    private mutating func leaveOrder(_ message: FakeMessage) {
        order.remove(at: Self.place(message.sequence, in: order))
        var lane = lanes.removeValue(forKey: message.conversation) ?? []
        lane.remove(at: Self.place(message.sequence, in: lane))
        if !lane.isEmpty { lanes[message.conversation] = lane }
    }

    /// The first place whose number is not below this one.
    private static func place(_ sequence: Int64, in numbers: [Int64]) -> Int {
        var (low, high) = (0, numbers.count)
        while low < high {
            let middle = (low + high) / 2
            if numbers[middle] < sequence { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
