@testable import MsgQueue

/// A message of a simulation: what is enqueued, or what the store has.
struct SimulatedMessage {
    let sequence: Int64
    let id: String
    let conversation: Name
    var body: [UInt8] = []
    var progress = Progress()
    /// Milliseconds since 1970.
    var notBefore: Int64 = 0
    var expiresAt: Int64 = 0
    var unmeteredOnly = false
    var replaceKey: String?
    var priority: Int32 = 0

    init(sequence: Int64, id: String, conversation: Name) {
        self.sequence = sequence
        self.id = id
        self.conversation = conversation
    }

    /// A row with its body.
    init(_ row: Row) {
        self.init(sequence: row.sequence, id: row.id, conversation: row.conversation)
        (body, progress, notBefore, expiresAt) = (row.body, row.progress, row.notBefore, row.expiresAt)
        (unmeteredOnly, replaceKey, priority) = (row.unmeteredOnly, row.replaceKey, Row.valid(priority: row.priority))
    }

    /// Only a retry can defer it.
    var isPlain: Bool { notBefore == 0 && !unmeteredOnly }
}
