@testable import MsgQueue

/// A copy of the messages of a store, for checks. As in the store, a message in flight has the status `queued`.
struct StoredMessages {
    private var messages: [Int64: SimulatedMessage] = [:]
    private var sequences: [String: Int64] = [:]
    /// The queued messages, in order of sequence; all, and by conversation.
    private(set) var queued: [Int64] = []
    private(set) var lanes: [Name: [Int64]] = [:]

    subscript(sequence: Int64) -> SimulatedMessage? { messages[sequence] }
    subscript(id: String) -> SimulatedMessage? { sequences[id].flatMap { messages[$0] } }
    var all: some Collection<SimulatedMessage> { messages.values }

    func count(of conversation: Name) -> Int { lanes[conversation]?.count ?? 0 }

    func firstFailed(in conversation: Name) -> Int64? {
        messages.values.filter { $0.conversation == conversation && $0.progress.status == .failed }.map(\.sequence).min()
    }

    /// The counts of all messages.
    var totals: Counts {
        var counts = Counts()
        for message in messages.values { counts.add(message.progress.status, amount: 1, bytes: Int64(message.body.count)) }
        return counts
    }

    /// Takes what the store has in this place; nil: no message.
    mutating func set(_ sequence: Int64, _ new: SimulatedMessage?) {
        let old = messages[sequence]
        messages[sequence] = new
        if let old, new?.id != old.id { sequences[old.id] = nil }
        if let new { sequences[new.id] = sequence }
        let (wasQueued, isQueued) = (old?.progress.status == .queued, new?.progress.status == .queued)
        if wasQueued, !isQueued, let old { leaveOrder(old) }
        if !wasQueued, isQueued, let new { joinOrder(new) }
    }

    private mutating func joinOrder(_ message: SimulatedMessage) {
        queued.insert(message.sequence, at: Self.place(message.sequence, in: queued))
        var lane = lanes.removeValue(forKey: message.conversation) ?? []
        lane.insert(message.sequence, at: Self.place(message.sequence, in: lane))
        lanes[message.conversation] = lane
    }

    private mutating func leaveOrder(_ message: SimulatedMessage) {
        queued.remove(at: Self.place(message.sequence, in: queued))
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
