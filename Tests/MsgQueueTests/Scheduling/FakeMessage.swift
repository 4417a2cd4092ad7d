@testable import MsgQueue

/// A message in the store of a simulation.
struct FakeMessage {
    let sequence: Int64
    let conversation: Name
    var progress = Progress()
    var notBefore: Int64 = 0
    var expiresAt: Int64 = 0
    var unmeteredOnly = false
    /// An attempt that is on disk and not ended there.
    var cut: (number: UInt32, startedAt: Int64)?

    init(sequence: Int64, conversation: Name) {
        self.sequence = sequence
        self.conversation = conversation
    }

    /// Nothing but its retries can keep it.
    var isPlain: Bool { notBefore == 0 && !unmeteredOnly }

    /// As the engine's store would read it.
    var row: Row {
        Row(
            sequence: sequence, id: "m\(sequence)", isNamed: true, conversation: conversation, sender: nil, createdAt: 0, editedAt: 0,
            metadataText: nil, notBefore: notBefore, expiresAt: expiresAt, unmeteredOnly: unmeteredOnly, progress: progress, bodySize: 0)
    }

    var head: Head { row.head }
}
