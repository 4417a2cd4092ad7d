/// The state of a queue as a whole at one moment.
public struct QueueState: Sendable, Equatable {
    public let network: Network
    public let isInBackground: Bool
    public let mode: Mode
    /// The queue is paused. Conversations that are paused by themselves count in `pausedConversations`.
    public let isPaused: Bool
    public let pausedConversations: Int
    /// A drain is under way.
    public let isDraining: Bool
    /// Attempts under way.
    public let inFlight: Int
    public let hasTransport: Bool
    /// The prompt that stands, as its event told it; nil: there is none.
    public let prompt: Prompt?
    /// When that prompt expires, milliseconds since 1970.
    public let promptExpiresAt: Int64?
    /// What the last storage event said; nil: nothing was wrong, or the store has recovered.
    public let storage: QueueError.Code?
    /// The store refuses writes now.
    public let hasStorageTrouble: Bool
    /// Why nothing is being sent now. `.done`: nothing is queued, and nothing is in the way. What stops the whole queue is told
    /// also when nothing is queued.
    public let reason: Explanation.Reason
    /// Until when, milliseconds since 1970; 0: not known.
    public let until: Int64
    /// One sentence for a person.
    public let text: String

    public var connectivity: Connectivity { network.connectivity }
    public var link: Link { network.link }
    public var isMetered: Bool { network.metered }
}
