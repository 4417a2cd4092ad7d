/// The drain in progress, and those that were requested meanwhile.
package struct DrainQueue {
    package internal(set) var session: Session?
    /// Requested drains of another scope; they begin one after another when the current one has ended.
    var pending: [Session] = []
    /// The number of drains so far.
    private(set) var count = 0
    /// The batch of a drain that was requested without one.
    private let defaultBatch: Int

    init(_ options: Options) { defaultBatch = options.runLimit }

    /// One drain, from its request to its report.
    package struct Session: Sendable {
        package let number: Int
        /// The conversation to drain; nil: all.
        package let conversation: Name?
        /// The latest of those who wait for it; nil: none.
        package internal(set) var deadline: Int64?
        /// The most attempts.
        package let batch: Int
        /// It also sends what was `failed` when it began.
        package let includesFailed: Bool
        /// Failed messages up to this sequence were put back; nil: there is nothing more to put back.
        var putBackThrough: Int64?
        package internal(set) var started = 0
        package internal(set) var report = Report()
        var stop: Report.Stop?
        var hasBatchLeft: Bool { started < batch }
        var isOpen: Bool { stop == nil && hasBatchLeft }

        package func serves(_ conversation: Name) -> Bool { self.conversation == nil || self.conversation == conversation }

        init(number: Int, conversation: Name?, deadline: Int64?, batch: Int, includesFailed: Bool) {
            (self.number, self.conversation, self.deadline, self.batch) = (number, conversation, deadline, batch)
            self.includesFailed = includesFailed
            putBackThrough = includesFailed ? 0 : nil
        }

        /// Whether it includes a drain of `scope`. One with the failed messages and one without are never the same.
        func covers(_ scope: Name?, includesFailed: Bool) -> Bool {
            self.includesFailed == includesFailed && (conversation == nil || conversation == scope)
        }

        /// Another one waits for it, until `later`; nil: without a timeout.
        mutating func extend(to later: Int64?) { deadline = deadline.flatMap { old in later.map { max(old, $0) } } }
    }

    /// Requests a drain of one conversation or (nil) of all. `batch`: 0: as the option says. It joins a drain that includes it; otherwise it begins when the current one
    /// has ended. Returns the number of the drain, and whether it begins now.
    mutating func request(_ conversation: Name?, batch: Int, deadline: Int64?, includesFailed: Bool) -> (number: Int, begins: Bool) {
        if let current = session, current.covers(conversation, includesFailed: includesFailed) {
            session?.extend(to: deadline)
            return (current.number, false)
        }
        if let place = pending.firstIndex(where: { $0.covers(conversation, includesFailed: includesFailed) }) {
            pending[place].extend(to: deadline)
            return (pending[place].number, false)
        }
        count += 1
        pending.append(
            Session(
                number: count, conversation: conversation, deadline: deadline, batch: batch == 0 ? defaultBatch : batch,
                includesFailed: includesFailed))
        return (count, session == nil && beginNext())
    }

    /// Begins the next drain that was requested; false: there is none.
    mutating func beginNext() -> Bool {
        guard !pending.isEmpty else { return false }
        session = pending.removeFirst()
        return true
    }

    /// Notes that the current drain put failed messages back: `count` up to the sequence `through`; nil: there are no more.
    package mutating func putBack(_ count: Int64, through: Int64?) {
        session?.putBackThrough = through
        session?.report.putBack += count
    }

    /// The store refused to put failed messages back: the current drain ends.
    package mutating func putBackFailed() {
        session?.putBackThrough = nil
        session?.stop = .storage
    }

    /// Changes the report of the current drain, if the conversation belongs to it.
    mutating func count(_ conversation: Name, _ change: (inout Report) -> Void) {
        guard var current = session, current.serves(conversation) else { return }
        change(&current.report)
        session = current
    }
}
