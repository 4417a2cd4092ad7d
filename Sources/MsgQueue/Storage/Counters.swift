/// The numbers of messages by status, updated with every change instead of computed by a query.
///
/// A message that is being sent counts as queued here, as on disk. The engine, which knows the attempts in flight, adjusts the numbers.
struct Counters {
    private(set) var totals = Counts()
    /// The counts of unfolded rows, by conversation. The table `conversation` has the counts of folded rows.
    private(set) var unfolded: [Name: Counts] = [:]
    /// The changes of the current transaction, in order.
    private var journal: [Change] = []
    /// `unfolded` before the first fold of the current transaction, and the number of changes before that fold.
    private var beforeFold: (unfolded: [Name: Counts], changes: Int)?

    private struct Change {
        /// nil: the row is folded, and only `totals` changes.
        let conversation: Name?
        var delta: Counts
    }

    /// Whether an unfolded row belongs to the index of the history.
    var hasUnfoldedHistory: Bool { unfolded.values.contains { $0.history != 0 } }

    init(totals: Counts = Counts(), unfolded: [Name: Counts] = [:]) {
        self.totals = totals
        self.unfolded = unfolded
    }

    /// Applies a change. `unfolded`: the row is not folded, so the table `conversation` does not count it.
    mutating func add(_ delta: Counts, _ conversation: Name, unfolded isUnfolded: Bool) {
        let change = Change(conversation: isUnfolded ? conversation : nil, delta: delta)
        apply(change.delta, change.conversation)
        if change.conversation == nil, let last = journal.last, last.conversation == nil, beforeFold?.changes != journal.count {
            journal[journal.count - 1].delta += delta
        } else {
            journal.append(change)
        }
    }

    private mutating func apply(_ delta: Counts, _ conversation: Name?) {
        totals += delta
        if let conversation { unfolded[conversation, default: Counts()] += delta }
    }

    /// Clears `unfolded` after a fold has added it to the table `conversation`.
    mutating func clearUnfolded() {
        if beforeFold == nil { beforeFold = (unfolded, journal.count) }
        unfolded = [:]
    }

    mutating func commit() {
        journal.removeAll(keepingCapacity: true)
        beforeFold = nil
    }

    mutating func rollback() {
        if let (counts, changes) = beforeFold {
            // Changes after the fold are undone in `totals`; `unfolded` becomes what it was before the fold.
            for change in journal[changes...].reversed() { apply(change.delta.negated, change.conversation) }
            unfolded = counts
            journal.removeSubrange(changes...)
        }
        for change in journal.reversed() { apply(change.delta.negated, change.conversation) }
        commit()
    }
}
