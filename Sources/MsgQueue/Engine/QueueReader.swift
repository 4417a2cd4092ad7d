/// The calls that read. Nothing here performs a step of the core, and only the feed of changes may write. Under the engine's lock.
final class QueueReader {
    let context: EngineContext
    let options: Options
    let ports: Ports
    let store: Store
    let writes: PendingWrites
    let events: EventDelivery
    let health: StoreHealth
    let drains: Drains
    let waits: Waits

    init(_ parts: EngineParts) {
        (context, options, ports, store) = (parts.context, parts.context.options, parts.context.ports, parts.context.store)
        writes = parts.writes
        (events, health, drains, waits) = (parts.events, parts.health, parts.drains, parts.waits)
    }

    func message(id: String) throws(QueueError) -> Message {
        guard let row = try store.messages.find(id, .whole) else {
            throw QueueError(.notFound, "message not found: \(id)")
        }
        return try message(row)
    }

    /// The messages of a page that is read in steps.
    struct List {
        var messages: [Message] = []
        /// The rows of the last messages, which have no explanation yet.
        var unexplained: ArraySlice<Row> = []
    }

    /// Returns a page, in one step.
    func list(_ filter: Filter) throws(QueueError) -> [Message] {
        var (page, list): (PageSteps?, List) = (nil, List())
        while try step(&page, filter, &list) {}
        return list.messages
    }

    /// Adds the next messages of a page to `list`. `page`: nil before the first step. Returns false when the page is complete.
    func step(_ page: inout PageSteps?, _ filter: Filter, _ list: inout List) throws(QueueError) -> Bool {
        var steps: PageSteps
        if let page { steps = page } else { steps = filter.waitingFor == nil ? PageSteps(filter) : try pausedPage(filter) }
        if list.unexplained.isEmpty {
            try add(try steps.step(store.pages, sending: writes.sendingSequences, damaged: report), filter, &list)
        }
        page = steps
        return try addReasons(&list) || !steps.isComplete
    }

    /// Adds the messages of a complete page, then explains the next of them. Returns false when nothing is left to do.
    func step(_ page: WaitingPage, _ filter: Filter, _ list: inout List) throws(QueueError) -> Bool {
        if list.messages.isEmpty { try add(page.rows, filter, &list) }
        return try addReasons(&list)
    }

    /// Adds the messages of these rows.
    private func add(_ rows: [Row], _ filter: Filter, _ list: inout List) throws(QueueError) {
        for row in rows { list.messages.append(try message(row, withBody: !filter.withoutBodies)) }
        if filter.withReasons { list.unexplained = rows[...] }
    }

    /// Converts a row to a message, with the status `sending` if it is in flight.
    func message(_ row: Row, withBody: Bool = true) throws(QueueError) -> Message {
        let flight = context.core.scheduler.flight(of: row.sequence, in: row.conversation)
        let isSending = flight != nil || writes.sendingSequences.contains(row.sequence)
        let (progress, now) = (row.progress, context.ports.moment)
        var failure: Failure?
        if let damage = row.damage {
            failure = .damaged(damage, at: row.createdAt)
        } else if progress.isDamaged {
            failure = .damaged("the record of its attempts is damaged", at: row.createdAt)
        } else if !isSending, progress.sentAt == 0, let attempt = try store.attempts.last(of: row.sequence) {
            failure = Failure(attempt, attempts: progress.attempts)
        }
        let failureBefore: Failure? =
            row.damage != nil || progress.isDamaged || progress.sentAt != 0
            ? nil : try Failure.before(failure, isSending: isSending) { () throws(QueueError) in try store.attempts.list(of: row) }
        return Message(
            id: row.id, conversation: row.conversation.text, sender: row.sender, body: withBody ? row.body : nil,
            bodySize: row.damage != nil ? 0 : row.hasWholeBody ? row.body.count : Int(clamping: row.bodySize),
            preview: Preview.make(row.body), pairs: row.damage == nil ? try row.metadata() : [],
            status: isSending ? .sending : (row.damage == nil ? progress.status : .failed),
            sequence: row.sequence, createdAt: row.createdAt, time: row.time, editedAt: row.editedAt, notBefore: row.start(now),
            expiresAt: row.expiry(now), nextAttemptAt: progress.nextAttempt(now, boot: context.core.opening.boot),
            lastAttemptAt: flight?.startedAt.wall ?? progress.lastAttemptAt,
            sentAt: progress.sentAt, deliveredAt: row.isReceived ? row.createdAt : progress.deliveredAt, readAt: progress.readAt,
            attempts: flight?.number ?? progress.attempts, retriesUsed: UInt32(clamping: progress.retriesUsed),
            unmeteredOnly: row.unmeteredOnly, priority: Row.valid(priority: row.priority), failure: failure,
            failureBefore: failureBefore)
    }

    /// Returns the attempts of one message, oldest first.
    func attempts(_ id: String) throws(QueueError) -> [Attempt] {
        guard let row = try store.messages.find(id, .none) else {
            throw QueueError(.notFound, "message not found: \(id)")
        }
        var lines = try store.attempts.list(of: row)
        if let flight = context.core.scheduler.flight(of: row.sequence, in: row.conversation) {
            lines.append(
                Attempt(
                    number: flight.number, startedAt: flight.startedAt.wall, duration: nil, result: .underWay, kind: .none, code: 0,
                    text: "", arrival: .perhaps))
        }
        return lines
    }

    func counts(_ conversation: String?) throws(QueueError) -> Counts {
        guard let name = conversation.map({ Name($0) }) else { return writes.counts }
        return writes.withSending(try store.counts.counts(of: name), name)
    }

    /// A page of conversations that is read in steps: about two milliseconds each.
    struct Conversations {
        fileprivate var rest: ConversationList.Page
        fileprivate let limit: Int
        fileprivate(set) var found: [Conversation] = []
        /// One whose newest message goes between two steps could come twice.
        fileprivate var names: Set<String> = []

        init(_ page: ConversationList.Page, limit: Int) { (rest, self.limit) = (page, limit) }
    }

    /// Adds the next conversations, newest first by their newest messages by time. Returns false when the page is complete.
    func step(_ page: inout Conversations) throws(QueueError) -> Bool {
        let most = min(page.limit - page.found.count, 128)
        let outlines = try store.conversations.page(page.rest, limit: most, damaged: report)
        for outline in outlines where page.names.insert(outline.name.text).inserted { page.found.append(try conversation(outline)) }
        guard let last = outlines.last?.last, outlines.count == most else { return false }
        page.rest =
            if case .byTime = page.rest { .byTime(before: TimePlace(last.time, last.sequence)) } else { .bySequence(before: last.sequence) }
        return page.found.count < page.limit
    }

    func conversation(_ name: Name) throws(QueueError) -> Conversation {
        guard let outline = try store.conversations.outline(of: name, damaged: report) else {
            throw QueueError(.notFound, "the conversation has no messages: \(name.text)")
        }
        return try conversation(outline)
    }

    private func conversation(_ outline: ConversationList.Outline) throws(QueueError) -> Conversation {
        Conversation(
            name: outline.name.text, counts: writes.withSending(outline.counts, outline.name),
            last: try message(outline.last, withBody: false), title: outline.title,
            isPaused: context.core.scheduler.gate.pauses.isPaused(byName: outline.name))
    }

    /// Tells of a damaged row that was found.
    func report(_ error: QueueError) {
        Log.error("\(store.path): \(error.detail)")
        events.emit(.storage(error))
    }

    var storePath: String { store.path }

    func statistics() throws(QueueError) -> (Statistics, Counts) {
        var statistics = context.core.statistics.snapshot(ports.moment)
        (statistics.fileBytes, statistics.freeBytes) = try store.space.fileSizes()
        statistics.oldestQueuedAt =
            try store.queue.queued(after: 0, limit: 1).first.flatMap { found throws(QueueError) in
                try store.messages.createdAt(found.head.sequence)
            } ?? 0
        return (statistics, writes.counts)
    }
}
