@testable import MsgQueue

/// A copy of the messages of a store, for checks. As in the store, a message in flight has the status `queued`.
struct StoredMessages {
    private var messages: [Int64: SimulatedMessage] = [:]
    private var sequences: [String: Int64] = [:]
    /// The queued messages, in order of sequence; all, and by conversation.
    private(set) var queued: [Int64] = []
    private(set) var lanes: [Name: [Int64]] = [:]
    /// The failed messages of each conversation, in order of sequence.
    private var failed: [Name: [Int64]] = [:]

    subscript(sequence: Int64) -> SimulatedMessage? { messages[sequence] }
    subscript(id: String) -> SimulatedMessage? { sequences[id].flatMap { messages[$0] } }
    var all: some Collection<SimulatedMessage> { messages.values }

    func count(of conversation: Name) -> Int { lanes[conversation]?.count ?? 0 }

    func firstFailed(in conversation: Name) -> Int64? { failed[conversation]?.first }

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
        if let old { leaveOrder(old) }
        if let new { joinOrder(new) }
    }

    private mutating func joinOrder(_ message: SimulatedMessage) {
        switch message.progress.status {
        case .queued:
            Self.insert(message.sequence, into: &queued)
            Self.insert(message.sequence, into: &lanes[message.conversation, default: []])
        case .failed: Self.insert(message.sequence, into: &failed[message.conversation, default: []])
        default: break
        }
    }

    private mutating func leaveOrder(_ message: SimulatedMessage) {
        switch message.progress.status {
        case .queued:
            Self.remove(message.sequence, from: &queued)
            Self.remove(message.sequence, of: message.conversation, from: &lanes)
        case .failed: Self.remove(message.sequence, of: message.conversation, from: &failed)
        default: break
        }
    }

    private static func insert(_ sequence: Int64, into numbers: inout [Int64]) {
        numbers.insert(sequence, at: place(sequence, in: numbers))
    }

    private static func remove(_ sequence: Int64, from numbers: inout [Int64]) {
        numbers.remove(at: place(sequence, in: numbers))
    }

    private static func remove(_ sequence: Int64, of conversation: Name, from numbers: inout [Name: [Int64]]) {
        remove(sequence, from: &numbers[conversation, default: []])
        if numbers[conversation] == [] { numbers[conversation] = nil }
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
