/// How a store continues when it is opened: from what the last session left, after upgrades and repairs.
extension Store {
    /// Continues from the state that the last owner left. `folded`: the counts of the folded rows, if they were added up before.
    func start(_ survey: StoreSurvey, _ layout: Layout, folded: Counts? = nil) throws(QueueError) {
        // Also for the commit of an upgrade.
        state.adopt(survey.state, isUnchecked: survey.needsCheck)
        if survey.logFrames > 0, !isReadOnly {
            try database.log?.prepareChange()
            if !log.checkpoint() { Log.warning("\(path): the log of the last session could not be checkpointed yet") }
        }
        try upgrade(survey, to: layout)
        // The last session may have ended while it deleted messages.
        log.hasRemovedText = survey.logFrames > 0 && !isReadOnly
        state.beginSequences(after: survey.loss)
        if survey.layout >= Layout.withTimes { try times.read() }
        if survey.state == nil {
            try rebuildState()
        } else if survey.needsIndexes {
            try reindex()
        }
        try counts.start(state.row.mark == .closed && state.row.totals.isPlausible ? state.row.totals : nil, folded: folded)
        guard counts.totals.isPlausible else {
            throw QueueError(.corrupt, "\(path) is damaged: its counts are out of range")
        }
        if survey.needsCheck { running.session = BackgroundCheck(through: state.lastSequence, counted: counts.messages) }
        log.statePage = survey.statePage
    }

    /// Adds what a store of an earlier layout or build lacks, in one transaction.
    private func upgrade(_ survey: StoreSurvey, to layout: Layout) throws(QueueError) {
        let statements = layout.statements(from: survey.layout)
        let hasHistory = try history.hasTables()
        if hasHistory { try history.read() }
        var lacksHandOvers = false
        if statements.isEmpty, layout.objects.contains("handed_over") { lacksHandOvers = try !handOvers.hasTable() }
        guard !statements.isEmpty || !hasHistory || lacksHandOvers || survey.lacksPriorityIndex else { return }
        try begin()
        if lacksHandOvers { try database.execute(Schema.handedOverTable) }
        if survey.lacksPriorityIndex { try database.execute(Schema.priorityIndex) }
        if !hasHistory { try history.create() }
        for sql in statements { try database.execute(sql) }
        if survey.layout < Layout.withTimes { try times.arrange() }
        if survey.layout < Layout.withFailures { try failures.rebuild() }
        state.requireWrite()
        try commit(durable: true)
    }

    /// Rebuilds the indexes after a statement found one that does not match the table. Returns false when that fails.
    package func rebuildIndexes() -> Bool {
        guard !isInTransaction, !isPoisoned else { return false }
        do throws(QueueError) {
            try reindex()
            return true
        } catch {
            rollback()
            Log.error("\(path): rebuilding the indexes failed: \(error.detail)")
            return false
        }
    }

    private func reindex() throws(QueueError) {
        addRepair("an index was damaged and was rebuilt from the messages")
        try begin()
        try indexes.rebuild()
        state.requireWrite()
        try commit(durable: true)
    }

    private func addRepair(_ text: String) { repair = repair.map { "\($0); \(text)" } ?? text }

    /// Rebuilds the row of `state`, which is damaged, the indexes and the counts from the messages.
    private func rebuildState() throws(QueueError) {
        addRepair("the table state was damaged and was rebuilt from the messages")
        let last = try recentIDs.highestSequence(known: max(try StoreSurvey.lastSequence(database).last, loss?.last ?? 0))
        state.reset(after: last)
        try begin()
        // The row may be missing.
        try database.execute(Schema.firstState)
        try indexes.rebuild()
        state.requireWrite()
        try commit(durable: true)
    }
}
