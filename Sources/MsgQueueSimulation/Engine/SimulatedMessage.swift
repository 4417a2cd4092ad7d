import MsgQueue

/// A message in the simulated store.
package struct SimulatedMessage {
    package let sequence: Int64
    package let id: String
    package let conversation: Name
    package var body: [UInt8] = []
    package var metadata: [(key: String, value: String)] = []
    /// Milliseconds since 1970.
    package var createdAt: Int64 = 0
    package var progress = Progress()
    package var notBefore: Int64 = 0
    package var expiresAt: Int64 = 0
    package var unmeteredOnly = false
    package internal(set) var replaceKey: String?
    package var priority: Int32 = 0
    /// The attempt whose beginning is stored, but not its end.
    package var interrupted: (number: UInt32, startedAt: Int64)?
    /// Its last attempt that was transmitted was interrupted by a crash.
    var wasInterrupted = false

    init(sequence: Int64, id: String, conversation: Name) {
        self.sequence = sequence
        self.id = id
        self.conversation = conversation
    }

    /// Only a retry can defer it.
    package var isPlain: Bool { notBefore == 0 && !unmeteredOnly }

    /// The row as the engine's store would return it, without its body.
    package var row: Row {
        var row = Row(
            sequence: sequence, id: id, conversation: conversation, createdAt: createdAt, notBefore: notBefore, expiresAt: expiresAt,
            unmeteredOnly: unmeteredOnly, progress: progress, bodySize: Int64(body.count))
        row.priority = Int64(priority)
        return row
    }

    package var head: Head { row.head }
}
