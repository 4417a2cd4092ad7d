import Glibc

/// The calls that record messages, and those that write receipts of many.
package struct HistoryCalls {
    private let engine: Engine

    package init(_ engine: Engine) { self.engine = engine }

    // MARK: Recording

    /// Stores a received message in the history. Repeating the call with the same id changes nothing.
    func record(_ given: BorrowedDraft) throws(QueueError) -> String {
        let draft = given.asRecorded
        try DraftRule.check(recorded: draft, engine.context.options)
        return try engine.changing { () throws(QueueError) in try engine.recording.record(draft) }
    }

    /// Stores messages in the history, in this order, all or none except those whose ids are not free. Those without a sender are one's own,
    /// of another device.
    package func record(_ given: DraftBatch) throws(QueueError) -> RecordedBatch {
        try engine.context.checkProcess()
        let drafts = given.map { $1.asRecorded }
        try drafts.prepare { index, draft throws(QueueError) in
            do throws(QueueError) { try DraftRule.check(recorded: draft, engine.context.options) } catch {
                throw error.ofDraft(index, of: drafts.count)
            }
        }
        return try engine.changing { () throws(QueueError) in try engine.recording.record(drafts) }
    }

    // MARK: Receipts

    /// Applies one receipt to several messages, in one transaction. Returns the error of each that it does not concern.
    package func mark(_ ids: [String], as receipt: MessageStatus) throws(QueueError) -> [QueueError?] {
        try StatusRule.check(receipt: receipt)
        for (index, id) in ids.enumerated() {
            do throws(QueueError) { try DraftRule.check(id: id) } catch { throw QueueError(error.code, "id \(index): \(error.detail)") }
        }
        return try engine.changing { () throws(QueueError) in try engine.receipts.mark(ids, as: receipt) }
    }

    /// Applies a receipt to a message and to those before it of the same side in its conversation, in the order by time, in steps. Returns how
    /// many were marked.
    package func mark(upTo id: String, as receipt: MessageStatus) throws(QueueError) -> Int64 {
        try DraftRule.check(id: id)
        var passage = try engine.changing { () throws(QueueError) in try engine.receipts.passage(upTo: id, as: receipt) }
        while try engine.changing({ () throws(QueueError) in try engine.receipts.step(&passage) }) {
            // Let threads that wait for the lock run first.
            usleep(100)
        }
        return passage.count
    }
}
