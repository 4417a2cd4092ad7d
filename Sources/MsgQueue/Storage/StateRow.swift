/// The row of the table `state` while the store is open, the sequence numbers and the clock. Follows the transaction.
final class StateRow {
    static let sequenceBlock: Int64 = 4096

    private let database: Database
    /// The store has files.
    private let hasFile: Bool
    /// Of the system that runs now.
    private let boot: String
    /// As the next commit writes it.
    private(set) var row = StoreState()
    private(set) var onDisk = StoreState()
    private(set) var nextSequence: Int64 = 1
    /// Values when the transaction began, for a rollback.
    private var atBegin: (next: Int64, row: StoreState)?
    /// The next commit must write the row, even if it is unchanged.
    private var mustWrite = false
    /// A check is needed, and has not been completed without findings.
    private var isUnchecked = false
    /// This session has changed the store, and the database file is marked as in use.
    private(set) var isMarked = false
    /// The generation of the first log of this session.
    let firstGeneration = Int64.random(in: 1...Int64.max)
    /// The number of commits that wrote something.
    private(set) var commits = 0
    /// What is known of the wall clock. Stored with the next change.
    var clock = ClockSteps()
    /// A wall clock that shows less is wrong.
    var earliest: Int64 = 0

    init(_ database: Database, hasFile: Bool, boot: String) { (self.database, self.hasFile, self.boot) = (database, hasFile, boot) }

    var foldedThrough: Int64 {
        get { row.foldedThrough }
        set { row.foldedThrough = newValue }
    }
    /// Messages from this one on have a `time_at`; nil: none must.
    var timedFrom: Int64? {
        get { row.timedFrom == 0 ? nil : row.timedFrom }
        set { row.timedFrom = newValue ?? 0 }
    }
    /// The number of rows that are not folded.
    var unfoldedRows: Int64 { nextSequence - 1 - foldedThrough }

    // MARK: Opening

    /// Continues from the row that the last owner left. nil: it is damaged.
    func adopt(_ found: StoreState?, isUnchecked: Bool) {
        if let found { (row, onDisk, clock) = (found, found, found.clock) }
        self.isUnchecked = isUnchecked
    }

    /// Begins the sequence numbers of this session. `loss`: the lost part of the log may have reserved some.
    func beginSequences(after loss: LostTail?) {
        if let loss {
            let last = max(row.sequenceCeiling, loss.last ?? 0).addingClamped(Self.sequenceBlock)
            row.sequenceCeiling = min(last, MessageID.sequenceCeiling)
        }
        nextSequence = row.sequenceCeiling + 1
    }

    /// Begins anew instead of a damaged row. No message has a higher sequence number than `last`.
    func reset(after last: Int64) {
        row = StoreState()
        row.mark = .open
        row.sequenceCeiling = min(last.addingClamped(Self.sequenceBlock), MessageID.sequenceCeiling)
        nextSequence = row.sequenceCeiling + 1
    }

    /// Notes that the check found no damage. The next commit stores it.
    func noteChecked() {
        isUnchecked = false
        if isMarked { row.bootID = boot }
    }

    // MARK: Transactions

    func begin() { atBegin = (nextSequence, row) }

    func rollback() { if let atBegin { (nextSequence, row) = atBegin } }

    /// The next commit writes the row, even if it is unchanged: to store `clock`, or because SQLite counts no rows for changes of the schema, of
    /// indexes or of the order of pages.
    func requireWrite() { mustWrite = true }

    /// Whether the transaction has changed something.
    var isChanged: Bool { database.hasChanges || row != onDisk || mustWrite }

    /// Writes the row if it changed. The first change of a session marks the store as open; the first commit of a log sets its generation.
    func write(isFirst: Bool) throws(QueueError) -> Bool {
        guard isChanged else { return false }
        row.clock = clock
        if isFirst {
            row.mark = .open
            row.bootID = isUnchecked ? StoreState.unchecked : boot
            row.totals = Counts()
            if nextSequence > row.sequenceCeiling { try reserveSequences() }
        }
        if hasFile, isFirst || database.log?.isFresh ?? true {
            row.logBase = onDisk.generation
            // The side record contains the first one already.
            row.generation = isFirst ? firstGeneration : Int64.random(in: 1...Int64.max)
        }
        guard row != onDisk || mustWrite else { return false }
        try row.write(database)
        return true
    }

    /// Notes the end of a commit that wrote the row.
    func noteWritten() { (onDisk, mustWrite) = (row, false) }

    func noteCommit() { commits &+= 1 }

    func noteMarked() { isMarked = true }

    /// Marks the store as closed in the next commit.
    func close(_ totals: Counts) {
        row.mark = .closed
        row.sequenceCeiling = nextSequence - 1
        row.totals = totals
        isMarked = true
    }

    // MARK: Sequence numbers

    /// No message has a higher sequence number.
    var lastSequence: Int64 { nextSequence - 1 }

    /// Returns the next sequence number. Numbers are reserved on disk in blocks, so that none is assigned twice, even after deletions.
    func takeSequence() throws(QueueError) -> Int64 {
        if nextSequence > row.sequenceCeiling { try reserveSequences() }
        defer { nextSequence += 1 }
        return nextSequence
    }

    /// Marks the sequence numbers up to this one as assigned.
    func markAssigned(through sequence: Int64) {
        nextSequence = max(nextSequence, sequence.addingClamped(1))
        row.sequenceCeiling = max(row.sequenceCeiling, sequence)
    }

    private func reserveSequences() throws(QueueError) {
        let ceiling = nextSequence + Self.sequenceBlock - 1
        guard ceiling <= MessageID.sequenceCeiling else { throw QueueError(.full, "the store has no sequence numbers left") }
        row.sequenceCeiling = ceiling
    }

    // MARK: Other values

    /// A wait of the whole queue that a receiver asked for. Set inside the caller's transaction.
    var hold: Due? {
        get { row.hold }
        set { row.hold = newValue }
    }

    /// The row for a copy of the store, which is closed and independent of the original.
    var copy: StoreState {
        var copy = onDisk
        copy.mark = .copied
        copy.bootID = ""
        copy.clock = ClockSteps()
        copy.totals = Counts()
        copy.logBase = 0
        copy.generation = Int64.random(in: 1...Int64.max)
        return copy
    }
}
