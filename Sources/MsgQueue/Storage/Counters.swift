/// How many messages there are, kept with every change instead of counted.
///
/// `sending` is not known here: on disk such a message counts as queued, and the engine, which knows what is under way, moves it over.
struct Counters {
    private(set) var totals = Counts()
    /// Of the rows that are not folded yet, by conversation; those of the others are in the table `conversation`.
    private(set) var unfolded: [Name: Counts] = [:]
    /// What this transaction changed, in order.
    private var journal: [Change] = []
    /// The counts before the transaction's first fold, and how many changes had been made by then.
    private var beforeFold: (unfolded: [Name: Counts], changes: Int)?

    private struct Change {
        /// nil: a folded row, which only the totals know here.
        let conversation: Name?
        let delta: Counts
    }

    init(totals: Counts = Counts(), unfolded: [Name: Counts] = [:]) {
        self.totals = totals
        self.unfolded = unfolded
    }

    /// Counts a change; `unfolded`: the row is not in the table's counts.
    mutating func add(_ delta: Counts, _ conversation: Name, unfolded isUnfolded: Bool) {
        let change = Change(conversation: isUnfolded ? conversation : nil, delta: delta)
        apply(change.delta, change.conversation)
        journal.append(change)
    }

    private mutating func apply(_ delta: Counts, _ conversation: Name?) {
        totals += delta
        if let conversation { unfolded[conversation, default: Counts()] += delta }
    }

    /// The fold moved everything into the table.
    mutating func folded() {
        if beforeFold == nil { beforeFold = (unfolded, journal.count) }
        unfolded = [:]
    }

    mutating func commit() {
        journal.removeAll(keepingCapacity: true)
        beforeFold = nil
    }

    mutating func rollback() {
        if let (counts, changes) = beforeFold {
            // Later changes are undone in the totals; by conversation, the counts as of the fold take their place.
            for change in journal[changes...].reversed() { apply(change.delta.negated, change.conversation) }
            unfolded = counts
            journal.removeSubrange(changes...)
        }
        for change in journal.reversed() { apply(change.delta.negated, change.conversation) }
        commit()
    }
}
