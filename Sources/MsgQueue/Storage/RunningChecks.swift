/// The checks that run in steps while the store is in use. They follow its changes, and the transaction.
final class RunningChecks {
    /// nil: not started in this session.
    var comparison: QueuedComparison?
    /// The check of the session; nil: not needed, or complete.
    var session: BackgroundCheck?
    /// The one that a call has requested.
    var requested: BackgroundCheck?
    private var atBegin: (comparison: QueuedComparison?, session: BackgroundCheck?, requested: BackgroundCheck?)?

    func begin() { atBegin = (comparison, session, requested) }

    func rollback() { if let atBegin { (comparison, session, requested) = atBegin } }

    /// Notes a change of the counts of a folded message.
    func changed(_ row: Row, by delta: Counts) {
        comparison?.changed(row.sequence, row.conversation, by: delta.queued)
        session?.changed(row.sequence, row.conversation, by: delta)
        requested?.changed(row.sequence, row.conversation, by: delta)
    }

    /// Notes that a message was removed.
    func removed(_ row: Row) {
        session?.removed(row)
        requested?.removed(row)
    }

    /// Notes that the indexes and the counts were rebuilt from the messages.
    func rebuilt() {
        comparison?.finish()
        session?.rebuilt()
        requested?.rebuilt()
    }
}
