/// What the store notes in the feed, inside the caller's transaction.
extension ChangeFeed {
    /// Notes that a message has this status now, after it had the other one. A success may have been written together with its receipt.
    func noteStatus(
        of row: Row, from: MessageStatus, _ status: MessageStatus, _ attempt: Attempt? = nil
    ) throws(QueueError) {
        if StatusRule.isReceipt(status), !StatusRule.allows(from, status) { try note(.status, .sent, of: row) }
        try note(.status, status, of: row, attempt?.kind ?? .none, code: attempt?.code ?? 0)
    }

    /// Notes the result of an attempt, or of a request that ended without one. A failure without an attempt is that of a skipped message.
    func noteEnd(of row: Row, _ resolution: Resolution) throws(QueueError) {
        let status = resolution.progress.status
        try noteStatus(of: row, from: .sending, status, resolution.attempt)
        if status == .failed, resolution.attempt == nil { amend(row.sequence, .unknown, code: 0) }
    }

    /// Notes that a message is gone.
    func noteGone(_ row: Row, _ kind: StoredChange.Kind, _ attempt: Attempt? = nil) throws(QueueError) {
        try note(kind, row.progress.status, of: row, attempt?.kind ?? .none, code: attempt?.code ?? 0)
    }

    /// Notes the beginning of an attempt that the open transaction contains.
    func noteSending(_ row: Row) throws(QueueError) { try note(.status, .sending, of: row) }
}
