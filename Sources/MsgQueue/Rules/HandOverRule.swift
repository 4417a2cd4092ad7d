/// What becomes of a draft that another place hands over. It cannot be refused as one of a caller is, because nobody would hear of it.
package enum HandOverRule {
    package enum Fate {
        /// It is a message to send.
        case queued
        /// It is kept as a failed message.
        case failed(QueueError)
        /// It is not kept. The source keeps it.
        case left(QueueError)
    }

    /// The limits of what is kept at all.
    package static let largest = {
        var options = Options()
        (options.limitBody, options.limitMetadata) = (Options.bodyCeiling, Options.metadataCeiling)
        return options
    }()

    static func check(source: String) throws(QueueError) {
        guard !source.isEmpty else { throw QueueError(.invalid, "the source must not be empty") }
        try DraftRule.check(name: source, "source")
    }

    /// `wall`: the time from which the draft's delay counts.
    package static func fate(of handed: HandedDraft, _ options: Options, wall: Int64) -> Fate {
        do throws(QueueError) {
            if let refusal = handed.refusal { throw refusal }
            try DraftRule.check(handed.draft, options, wall: wall)
            return .queued
        } catch {
            guard handed.isWhole else { return .left(error) }
            do throws(QueueError) { try DraftRule.check(kept(handed.draft, wall: wall), largest, wall: wall) } catch { return .left(error) }
            return .failed(error)
        }
    }

    /// Returns why the draft fits into no queue with these limits, not even into an empty one: also as a failed message it would fill the
    /// queue; nil: it does.
    static func neverFits(_ draft: borrowing BorrowedDraft, _ options: Options) -> QueueError? {
        let size = Int64(draft.body.count)
        for (limit, name) in [(options.limitBytes, "limit_bytes"), (options.limitFileBytes, "limit_file_bytes")]
        where limit > 0 && size > limit {
            return QueueError(.tooLarge, "the body has \(size) bytes; \(name) of the queue is \(limit)")
        }
        return nil
    }

    /// The draft as it is kept as a failed message: body, metadata, conversation and id are as they were given, and so are its other values
    /// as far as they are valid. It replaces no other message.
    package static func kept(_ given: BorrowedDraft, wall: Int64) -> BorrowedDraft {
        var draft = given
        draft.replaceKey = nil
        if !DraftRule.priorities.contains(draft.priority) { draft.priority = 0 }
        if !(0...DraftRule.lastTime).contains(draft.time) { draft.time = 0 }
        do throws(QueueError) { try DraftRule.checkTimes(draft, wall: wall) } catch {
            (draft.notBefore, draft.expiresAt, draft.delay, draft.expiry) = (0, 0, 0, 0)
        }
        return draft
    }

    /// Returns how a message that was refused is stored, and the entry of its ledger.
    static func refused(_ error: QueueError, now: Int64) -> (Progress, Attempt) {
        var progress = Progress()
        progress.status = .failed
        let attempt = Attempt(
            number: 1, startedAt: now, duration: 0, result: .rejected, kind: .local, code: 0, text: error.detail, arrival: .no)
        return (progress, attempt)
    }
}
