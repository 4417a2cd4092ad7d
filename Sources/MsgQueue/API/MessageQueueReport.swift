extension MessageQueue {
    /// The results of a drain.
    public struct Report: Sendable, Hashable, Encodable {
        /// Why the drain stopped.
        public let stop: Stop
        /// Messages that were sent.
        public let sent: Int
        /// Messages that became `failed`.
        public let failed: Int
        /// Messages that were deleted after their failure.
        public let discarded: Int
        /// Messages that were queued or being sent at the end.
        public let remaining: Int
        /// Messages that were `failed` at the end. A drain sends those that were `failed` when it began only if it includes them.
        public let remainingFailed: Int
        /// Messages that were `failed` and that the drain put back to `queued`.
        public let putBack: Int

        /// Creates a report. The parameters are the properties of the same names.
        public init(
            stop: Stop, sent: Int = 0, failed: Int = 0, discarded: Int = 0, remaining: Int = 0, remainingFailed: Int = 0, putBack: Int = 0
        ) {
            self.stop = stop
            self.sent = sent
            self.failed = failed
            self.discarded = discarded
            self.remaining = remaining
            self.remainingFailed = remainingFailed
            self.putBack = putBack
        }
    }
}

extension MessageQueue.Report {
    package init(_ report: MsgQueue.Report) {
        self.init(
            stop: report.stop, sent: Int(report.sent), failed: Int(report.failed), discarded: Int(report.discarded),
            remaining: Int(report.remaining), remainingFailed: Int(report.remainingFailed), putBack: Int(report.putBack))
    }
}
