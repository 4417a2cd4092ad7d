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

    var head: Head {
        Head(
            sequence: sequence, due: progress.due, waitsForNetwork: progress.waitsForNetwork, notBefore: notBefore,
            expiresAt: progress.ignoresExpiry ? 0 : expiresAt, unmeteredOnly: unmeteredOnly, round: progress.round)
    }
}
