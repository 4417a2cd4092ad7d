/// Performs the calls of clients with the engine.
struct ControlCalls: Sendable {
    let engine: Engine
    let limits: ControlLimits

    /// Performs a call that ends at once.
    func perform(_ call: ControlCall) throws(QueueError) -> JSONValue {
        switch call {
        case .list(let filter): return try page(filter)
        case .get(let id): return JSONValue(try engine.message(id: id))
        case .explain(let id): return JSONValue(try engine.explain(id))
        case .attempts(let id): return ["attempts": .array(try engine.attempts(id).map { JSONValue($0) })]
        case .counts(let conversation): return JSONValue(try engine.counts(conversation))
        case .conversations(let before, let limit):
            return Self.answer(try engine.conversations(before: before, limit: limit), limit)
        case .conversationsByTime(let before, let limit):
            return Self.answer(try engine.conversationsByTime(before: before, limit: limit), limit)
        case .setTitle(let title, let conversation): try engine.setTitle(title, of: conversation)
        case .conversation(let name): return JSONValue(try engine.conversation(name))
        case .minutes: return ["minutes": .array(try engine.minutes().map { JSONValue($0) })]
        case .failures(let limit): return ["groups": .array(try engine.failureGroups(limit: limit).map { JSONValue($0) })]
        case .waiting: return JSONValue(try engine.waiting())
        case .changes(let after, let limit):
            let token = try after.map { text throws(QueueError) in try ChangeToken(text: text) }
            return JSONValue(try engine.changes(after: token, limit: limit))
        case .stats: return JSONValue(try engine.statistics().0)
        case .statsText: return ["text": .string(try Metrics.prometheus(of: [engine]))]
        case .state: return JSONValue(try engine.state())
        case .banner(let conversation): return ["text": .string(try engine.banner(conversation))]
        case .retry(let id): try engine.retry(id)
        case .sendNow(let id): try engine.sendNow(id)
        case .edit(let id, let change, let time):
            try change.withBorrowed { change throws(QueueError) in try engine.edit(id, change, ifEdited: time) }
        case .update(let id, let change):
            try change.withBorrowed { change throws(QueueError) in try engine.update(id, change) }
        case .delete(let id): try engine.delete(id)
        case .pause(let conversation): try engine.pause(conversation)
        case .resume(let conversation): try engine.resume(conversation)
        case .enqueue(let draft): return ["message": JSONValue(try enqueue([draft]).first)]
        case .enqueueBatch(let drafts): return ["messages": .array(try enqueue(drafts).map { .string($0) })]
        case .record(let draft):
            let id = try draft.body.withBytes { body throws(QueueError) in
                try engine.record(draft.borrowed(body), sender: draft.sender ?? "")
            }
            return ["message": .string(id)]
        case .recordBatch(let drafts):
            return Self.answer(try lend(drafts) { batch throws(QueueError) in try HistoryCalls(engine).record(batch).errors })
        case .mark(let id, let status): try engine.mark(id, as: status)
        case .markBatch(let ids, let status): return Self.answer(try HistoryCalls(engine).mark(ids, as: status))
        case .setLifecycle(let isInBackground): try engine.setLifecycle(isInBackground: isInBackground)
        case .withdrawPrompt: try engine.withdrawPrompt()
        case .requestCollect: try HandOverCalls(engine).requestCollect()
        case .ping: break
        case .drain, .retryAll, .clear, .clearFailed, .deleteConversation, .markUpTo, .backup, .check, .subscribe, .unsubscribe:
            throw QueueError(.internal, "the call does not end at once")
        }
        return [:]
    }

    /// Performs a call that may take long, on a thread of its own.
    func performJob(_ call: ControlCall, isCancelled: () -> Bool) throws(QueueError) -> JSONValue {
        switch call {
        case .retryAll(let filter): return ["count": .integer(try engine.retryAll(filter))]
        case .clear(let conversation): try engine.clear(conversation)
        case .clearFailed(let filter): return ["count": .integer(try engine.clearFailed(filter))]
        case .deleteConversation(let conversation): return ["count": .integer(try engine.deleteConversation(conversation))]
        case .markUpTo(let id, let status): return ["count": .integer(try HistoryCalls(engine).mark(upTo: id, as: status))]
        case .backup(let path):
            guard path.utf8.first == 0x2f else { throw QueueError(.invalid, "backup: path must be absolute") }
            try LongReads(engine).backup(to: path, isCancelled: isCancelled)
        case .check: return JSONValue(try LongReads(engine).check(isCancelled: isCancelled))
        default: throw QueueError(.internal, "the call ends at once")
        }
        return [:]
    }

    static func isJob(_ call: ControlCall) -> Bool {
        switch call {
        case .retryAll, .clear, .clearFailed, .deleteConversation, .markUpTo, .backup, .check: true
        default: false
        }
    }

    /// Returns a page of conversations, and the sequence and time with which the next one begins.
    private static func answer(_ page: [Conversation], _ limit: Int) -> JSONValue {
        let last = page.count == limit ? page.last?.last : nil
        return .object([JSONValue.Member("conversations", .array(page.map { JSONValue($0) }))] + next(last, last?.time))
    }

    /// Returns the result of each part of a call that succeeded, as a word.
    private static func answer(_ errors: some Sequence<QueueError?>) -> JSONValue {
        ["results": .array(errors.map { .string($0.map { WireWords.word($0.code) } ?? "OK") })]
    }

    private static func next(_ last: Message?, _ time: Int64?) -> [JSONValue.Member] {
        [
            JSONValue.Member("next", last.map { .integer($0.sequence) } ?? .null),
            JSONValue.Member("next_time_ms", time.map { .integer($0) } ?? .null),
        ]
    }

    /// Returns a page of messages. With bodies it ends after a number of bytes, so that the answer has a limited size.
    private func page(_ filter: Filter) throws(QueueError) -> JSONValue {
        var filter = filter
        var isCut = false
        if !filter.withoutBodies {
            var outline = filter
            outline.withoutBodies = true
            var (count, size) = (0, 0)
            let sizes = try engine.list(outline).map(\.bodySize)
            for body in sizes {
                size += body
                guard count == 0 || size <= limits.pageBodies else { break }
                count += 1
            }
            isCut = count < sizes.count
            if isCut { filter.limit = max(count, 1) }
        }
        let messages = try engine.list(filter)
        let last = messages.count == filter.limit || isCut ? messages.last : nil
        let time = filter.isByWait ? (filter.waitingFor == .scheduled ? last?.notBefore : last?.nextAttemptAt) : last?.time
        return .object([JSONValue.Member("messages", .array(messages.map { JSONValue($0) }))] + Self.next(last, time))
    }

    /// Stores the messages in this order, all or none, and returns their ids.
    func enqueue(_ drafts: [ControlDraft]) throws(QueueError) -> [String] {
        try lend(drafts) { batch throws(QueueError) in try engine.enqueue(batch).ids() }
    }

    /// Calls `body` with the drafts for the engine.
    private func lend<T>(_ drafts: [ControlDraft], _ body: (DraftBatch) throws(QueueError) -> T) throws(QueueError) -> T {
        try drafts.flatMap(\.body).withBytes { bodies throws(QueueError) in
            var start = 0
            let borrowed = drafts.map { draft in
                defer { start += draft.body.count }
                return draft.borrowed(UnsafeRawBufferPointer(rebasing: bodies[start..<start + draft.body.count]))
            }
            return try body(DraftBatch(count: borrowed.count) { Array(borrowed[$0]) })
        }
    }
}

extension ControlDraft {
    /// Returns the draft for the engine.
    fileprivate func borrowed(_ body: UnsafeRawBufferPointer) -> BorrowedDraft {
        var draft = BorrowedDraft(
            id: id, conversation: Name(conversation), body: body, metadata: metadata.pairs,
            notBefore: notBefore, expiresAt: expiresAt, unmeteredOnly: unmeteredOnly,
            replaceKey: replaceKey, priority: priority, time: time)
        (draft.delay, draft.expiry) = (delay, expiry)
        draft.sender = sender
        return draft
    }
}

extension ControlChange {
    fileprivate func withBorrowed(_ make: (MessageChange) throws(QueueError) -> Void) throws(QueueError) {
        try body.withBytes { bytes throws(QueueError) in try make(MessageChange(body: bytes, metadata: metadata?.pairs, time: time)) }
    }
}

extension [JSONValue.Member] {
    /// The members as metadata.
    fileprivate var pairs: [(key: String, value: String)] { map { ($0.key, $0.value.string ?? "") } }
}
