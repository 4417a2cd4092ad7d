@testable import MsgQueue

/// A message in the simulated store.
struct SimulatedMessage {
    let sequence: Int64
    let id: String
    let conversation: Name
    var body: [UInt8] = []
    var metadata: [(key: String, value: String)] = []
    /// Milliseconds since 1970.
    var createdAt: Int64 = 0
    var progress = Progress()
    var notBefore: Int64 = 0
    var expiresAt: Int64 = 0
    var unmeteredOnly = false
    var replaceKey: String?
    var priority: Int32 = 0
    /// The attempt whose beginning is stored, but not its end.
    var interrupted: (number: UInt32, startedAt: Int64)?
    /// Its last attempt that was transmitted was interrupted by a crash.
    var wasInterrupted = false

    init(sequence: Int64, id: String, conversation: Name) {
        self.sequence = sequence
        self.id = id
        self.conversation = conversation
    }

    /// Only a retry can defer it.
    var isPlain: Bool { notBefore == 0 && !unmeteredOnly }

    /// The row as the engine's store would return it, without its body.
    var row: Row {
        var row = Row(
            sequence: sequence, id: id, conversation: conversation, createdAt: createdAt, notBefore: notBefore, expiresAt: expiresAt,
            unmeteredOnly: unmeteredOnly, progress: progress, bodySize: Int64(body.count))
        row.priority = Int64(priority)
        return row
    }

    var head: Head { row.head }
}
