/// The checks of an open store: that of the session, one that a call has requested, and the comparison of indexes, which runs once a
/// session.
final class StoreChecks {
    private let database: Database
    private let state: StateRow
    private let history: HistoryIndex
    private let counts: ConversationCounts
    private let messages: MessageTable
    private let running: RunningChecks
    /// nil: the comparison of the indexes of queued messages has not ended.
    private var conversationCheck: DerivedCheck?

    init(_ messages: MessageTable, _ running: RunningChecks) {
        (database, state, history, counts) = (messages.database, messages.state, messages.history, messages.counts)
        (self.messages, self.running) = (messages, running)
    }

    /// The result of one step of the check. `differs`: what is derived from the messages must be rebuilt.
    enum Step: Equatable {
        case unfinished, sound
        case damaged(String, differs: Bool)
    }

    /// Whether the check of this session has not ended.
    var isDue: Bool { running.session != nil }

    /// Runs one step of the check. Throws when the files cannot be read.
    func step() throws(QueueError) -> Step {
        guard !database.isInTransaction, var check = running.session else { return .unfinished }
        try check.step(messages)
        running.session = check.isDone ? nil : check
        guard check.isDone else { return .unfinished }
        if let report = check.report { return .damaged(report, differs: check.needsRebuild) }
        state.noteChecked()
        return .sound
    }

    /// Begins a check of the messages up to the present one, which `requestedStep` runs.
    func request() throws(QueueError) {
        guard running.requested == nil else { throw QueueError(.busy, "the store is already being checked") }
        running.requested = BackgroundCheck(through: state.lastSequence, counted: counts.messages)
    }

    /// Runs one step of the requested check. Returns its report when it has ended.
    func requestedStep() throws(QueueError) -> CheckReport? {
        guard !database.isInTransaction, var check = running.requested else { return nil }
        try check.step(messages)
        running.requested = check
        return check.isDone ? check.checkReport : nil
    }

    /// Ends the requested check.
    func endRequest() { running.requested = nil }

    /// The number of index entries that one step of the comparison reads: about a millisecond.
    private static let comparisonStep: Int64 = 2_000

    /// Runs one step of the comparison of the indexes of queued messages and of the list of conversations, which runs once a session. Returns
    /// what differs.
    func compareIndexes() -> String? {
        guard !areIndexesCompared, !database.isInTransaction else { return nil }
        do throws(QueueError) {
            if running.comparison?.isDone ?? false { return try compareConversations() }
            var comparison =
                running.comparison
                ?? QueuedComparison(
                    through: state.foldedThrough, counted: counts.counters.unfolded.values.reduce(counts.totals.queued) { $0 &- $1.queued })
            let fits = try comparison.step(database, limit: Self.comparisonStep)
            running.comparison = comparison
            guard fits else { return "queued messages are missing from an index" }
            // In the same step, so that a small store is compared at once and wakes no idle host again.
            return comparison.isDone ? try compareConversations() : nil
        } catch {
            areIndexesCompared = true
            Log.warning("\(database.path): comparing the indexes failed: \(error.detail)")
            return error.code == .corrupt ? error.detail : nil
        }
    }

    /// The comparison of this session has ended.
    private(set) var areIndexesCompared = false

    /// Without the counts, which the background check compares.
    private func compareConversations() throws(QueueError) -> String? {
        if conversationCheck == nil {
            conversationCheck = try DerivedCheck(Derived.conversations(ofLayout: Layout.current.version), counts: false, of: database)
        }
        guard var check = conversationCheck else { return nil }
        let start = Ports.nanoseconds()
        func isTimeLeft() -> Bool { Ports.nanoseconds() &- start < 1_000_000 }
        let bounds = DerivedCheck.Bounds(folded: state.foldedThrough, historyAfter: history.start)
        repeat { try check.step(database, bounds, isTimeLeft) } while !check.isDone && isTimeLeft()
        conversationCheck = check
        guard check.isDone else { return nil }
        areIndexesCompared = true
        return check.findings.first
    }
}
