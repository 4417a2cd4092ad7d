extension MessageQueue {
    /// What `check` and `salvage` found in a store.
    public struct CheckReport: Sendable, Equatable {
        /// Nothing is wrong with the store.
        public let isSound: Bool
        /// Messages, of every status, that are as they were written.
        public let whole: Int
        /// Messages that are damaged or cannot be read.
        public let damaged: Int
        /// Messages that were in a lost log, as far as their number is known.
        public let missing: Int
        /// The sequence of the first missing message; nil: none is missing.
        public let firstMissing: Int64?
        /// The sequence of the last missing message; nil: none is missing, or it is not known how many are.
        public let lastMissing: Int64?
        /// The findings in sentences, for a person.
        public let text: String
    }
}

extension MessageQueue.CheckReport {
    package init(_ report: MsgQueue.CheckReport) {
        self.init(
            isSound: report.isSound, whole: Int(report.whole), damaged: Int(report.damaged), missing: Int(report.missing),
            firstMissing: report.firstMissing == 0 ? nil : report.firstMissing,
            lastMissing: report.lastMissing == 0 ? nil : report.lastMissing, text: report.text)
    }
}
