/// The state of the whole queue.
package struct QueueState: Sendable, Equatable {
    package let network: Network
    package let isInBackground: Bool
    package let mode: Mode
    /// The whole queue is paused. Single paused conversations count in `pausedConversations`.
    package let isPaused: Bool
    package let pausedConversations: Int
    /// A drain is running.
    package let isDraining: Bool
    /// The number of attempts in flight.
    package let inFlight: Int
    package let hasTransport: Bool
    /// The open prompt, as in its event; nil: none is open.
    package let prompt: Prompt?
    /// When that prompt expires, milliseconds since 1970.
    package let promptExpiresAt: Int64?
    /// The code of the last storage event; nil: there was no error, or the store works again.
    package let storage: QueueError.Code?
    /// The store rejects writes now.
    package let hasStorageTrouble: Bool
    /// Why nothing is being sent now. `.done`: nothing is queued, and nothing prevents sending. Reasons that stop the whole queue are
    /// reported even if nothing is queued.
    package let reason: Explanation.Reason
    /// When the reason ends, in milliseconds since 1970; 0: unknown.
    package let until: Int64
    /// One or two sentences for users.
    package let text: String
    /// Why there is no connection, as the host or the last attempt says; "": unknown, or there is one.
    package let offlineReason: String
    /// The version of SQLite, as "3.40.1".
    package let sqliteVersion: String

    package var connectivity: Connectivity { network.connectivity }
    package var link: Link { network.link }
    package var isMetered: Bool { network.metered }
}
