/// The state of a queue as a whole at one moment.
package struct QueueState: Sendable, Equatable {
    package let network: Network
    package let isInBackground: Bool
    package let mode: Mode
    /// The queue is paused. Conversations that are paused by themselves count in `pausedConversations`.
    package let isPaused: Bool
    package let pausedConversations: Int
    /// A drain is under way.
    package let isDraining: Bool
    /// Attempts under way.
    package let inFlight: Int
    package let hasTransport: Bool
    /// The prompt that stands, as its event told it; nil: there is none.
    package let prompt: Prompt?
    /// When that prompt expires, milliseconds since 1970.
    package let promptExpiresAt: Int64?
    /// What the last storage event said; nil: nothing was wrong, or the store has recovered.
    package let storage: QueueError.Code?
    /// The store refuses writes now.
    package let hasStorageTrouble: Bool
    /// Why nothing is being sent now. `.done`: nothing is queued, and nothing is in the way. What stops the whole queue is told
    /// also when nothing is queued.
    package let reason: Explanation.Reason
    /// Until when, milliseconds since 1970; 0: not known.
    package let until: Int64
    /// One sentence for a person.
    package let text: String

    package var connectivity: Connectivity { network.connectivity }
    package var link: Link { network.link }
    package var isMetered: Bool { network.metered }
}
