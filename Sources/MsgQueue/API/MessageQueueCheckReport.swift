extension MessageQueue {
    /// What `check` and `salvage` found in a store.
    public struct CheckReport: Sendable, Hashable, Encodable {
        /// No damage was found.
        public let isSound: Bool
        /// The number of undamaged messages, of every status.
        public let whole: Int
        /// The number of messages that are damaged or cannot be read.
        public let damaged: Int
        /// The number of messages that were in a lost log, as far as it is known.
        public let missing: Int
        /// The sequence of the first missing message; nil: none is missing.
        public let firstMissing: Int64?
        /// The sequence of the last missing message; nil: none is missing, or their number is unknown.
        public let lastMissing: Int64?
        /// The findings in sentences, for users.
        public let text: String
    }
}

extension MessageQueue.CheckReport {
    package init(_ report: MsgQueue.CheckReport) {
        self.init(
            isSound: report.isSound, whole: Int(report.whole), damaged: Int(report.damaged), missing: Int(report.missing),
            firstMissing: report.firstMissing,
            lastMissing: report.lastMissing, text: report.text)
    }
}
