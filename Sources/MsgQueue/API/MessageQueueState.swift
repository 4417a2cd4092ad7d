extension MessageQueue {
    /// The state of the whole queue.
    public struct State: Sendable, Hashable, Encodable {
        /// The connectivity, as it was reported last.
        public let network: Network
        /// The program is in the background.
        public let isInBackground: Bool
        /// The mode of the options.
        public let mode: Mode
        /// The whole queue is paused. Single paused conversations count in `pausedConversations`.
        public let isPaused: Bool
        /// The number of conversations that are paused by name.
        public let pausedConversations: Int
        /// A drain is in progress.
        public let isDraining: Bool
        /// The number of attempts in flight.
        public let inFlight: Int
        /// A transport is set.
        public let hasTransport: Bool
        /// The prompt that is open; nil: none.
        public let prompt: Prompt?
        /// When that prompt expires.
        public let promptExpiresAt: Timestamp?
        /// The code of the last storage event; nil: there was no error, or the store works again.
        public let storage: Error.Code?
        /// Whether the store rejects writes now.
        public let hasStorageTrouble: Bool
        /// Why nothing is being sent now. `.done`: nothing is queued, and nothing prevents sending.
        public let reason: Explanation.Reason
        /// When the reason ends; nil: unknown.
        public let until: Timestamp?
        /// One or two sentences for users.
        public let text: String
        /// Why there is no connection: what ``MessageQueue/setConnectivity(_:link:isMetered:reason:)`` was told, otherwise the text of the
        /// last attempt if it ended as offline. nil: unknown.
        public let offlineReason: String?
        /// The version of SQLite that the library uses, as "3.40.1".
        public let sqliteVersion: String

        /// Whether there is a connection.
        public var connectivity: Connectivity { network.connectivity }
        /// The kind of the link.
        public var link: Link { network.link }
        /// Traffic on the link is charged by volume.
        public var isMetered: Bool { network.isMetered }
    }
}

extension MessageQueue {
    /// The version of SQLite that the library uses, as "3.40.1".
    public static var sqliteVersion: String { Engine.sqliteVersion }
}

extension MessageQueue.State {
    package init(_ state: QueueState) {
        self.init(
            network: .init(state.network), isInBackground: state.isInBackground, mode: state.mode, isPaused: state.isPaused,
            pausedConversations: state.pausedConversations, isDraining: state.isDraining, inFlight: state.inFlight,
            hasTransport: state.hasTransport, prompt: state.prompt.map(MessageQueue.Prompt.init),
            promptExpiresAt: state.promptExpiresAt.map { .init($0) }, storage: state.storage, hasStorageTrouble: state.hasStorageTrouble,
            reason: state.reason, until: .init(orNil: state.until), text: state.text,
            offlineReason: state.offlineReason.isEmpty ? nil : state.offlineReason, sqliteVersion: state.sqliteVersion)
    }
}
