/// The history: others' messages recorded, conversations listed, old ones pruned, expired ones told.
extension Engine {
    /// Puts somebody else's message into the history; a second time changes nothing.
    package func record(_ given: BorrowedDraft, sender: String) throws(QueueError) -> String {
        var draft = given
        (draft.notBefore, draft.expiresAt, draft.unmeteredOnly) = (0, 0, false)
        try DraftRule.check(draft, options)
        guard !sender.isEmpty else { throw QueueError(.invalid, "the sender is empty") }
        try DraftRule.check(conversation: sender)
        return try changing { () throws(QueueError) in
            if let id = draft.id, let known = try store.find(id, .none) {
                guard known.isReceived else {
                    throw QueueError(.duplicate, "the id \(id) is one of our own messages")
                }
                return id
            }
            if let id = draft.id, let isReceived = try store.remembered(id, since: rememberedSince) {
                guard isReceived else { throw QueueError(.duplicate, "the id \(id) was one of our own messages") }
                return id
            }
            let now = ports.moment
            try store.takeRoom(messages: 1, bytes: Int64(draft.body.count))
            let row = try transaction(durable: true, room: .inLog) { () throws(QueueError) in
                try store.insert(draft, sender: sender, now: now.wall, random: idBits.next())
            }
            countsChanged()
            return row.id
        }
    }

    /// Ids that were sent since then are still refused.
    var rememberedSince: Int64 { ports.wall().subtractingClamped(options.rememberIDs) }

    /// Conversations, the one with the newest message first; the next page: `before` = the last one's newest sequence.
    package func conversations(before: Int64, limit: Int) throws(QueueError) -> [Conversation] {
        guard (1...1000).contains(limit) else { throw QueueError(.invalid, "a page has 1 to 1000 conversations, not \(limit)") }
        guard before >= 0 else { throw QueueError(.invalid, "a sequence is not negative") }
        return try locked { () throws(QueueError) in
            let outlines = try store.conversations(before: before, limit: limit) { error in
                Log.error("\(store.path): \(error.detail)")
                emit(.storage(error))
            }
            var page: [Conversation] = []
            for outline in outlines {
                page.append(
                    Conversation(
                        name: outline.name.text, counts: withSending(outline.counts, outline.name),
                        last: try message(outline.last, withBody: false)))
            }
            return page
        }
    }

    // MARK: In the background

    /// Milliseconds between looks at the history when nothing else asks for one.
    private static let maintenanceEvery: Int64 = 60_000
    /// Between looks at history that was not looked at yet, so that callers have the disk in between.
    private static let lookPause: Int64 = 20

    /// One short step of what can wait: expiry, pruning. Called by the timer, under the lock.
    func maintain() {
        let now = ports.moment
        guard now.mono >= maintenanceAt || now.wall >= nextExpiry else { return }
        guard mayMaintain, now.mono >= max(core.scheduler.storageUntil, maintenanceRestsUntil) else { return }
        do throws(QueueError) {
            if now.wall >= nextExpiry { try expireAll(now) }
            guard now.mono >= maintenanceAt else { return }
            let before = store.totals
            var damage: [QueueError] = []
            let step = try transaction(durable: false) { () throws(QueueError) -> Store.PruneStep in
                damage = []
                return try store.prune(
                    keepCount: options.keepSent, keepSince: options.keepSentFor.map { now.wall.subtractingClamped($0) },
                    forgetBefore: rememberedSince, now: now.wall, damaged: { damage.append($0) })
            }
            for error in damage {
                Log.error("\(store.path): \(error.detail)")
                emit(.storage(error))
            }
            switch step {
            case .finished: maintenanceAt = now.mono + Self.maintenanceEvery
            case .hasMore: maintenanceAt = now.mono
            case .isLooking: maintenanceAt = now.mono + Self.lookPause
            }
            if store.totals != before { countsChanged() }
        } catch {
            maintenanceAt = now.mono + Self.maintenanceEvery
            maintenanceRestsUntil = maintenanceAt
            storageTrouble(error)
        }
    }

    /// After the history has grown: what is beyond its limit goes at the timer's next look.
    func pruneIfMany() {
        guard let keep = options.keepSent, store.totals.prunable > keep else { return }
        maintenanceAt = min(maintenanceAt, ports.mono())
    }

    /// What the store did not take yet comes first: its rows are not what they will be.
    var mayMaintain: Bool { unsaved.isEmpty && phase == .open && !store.isPoisoned && !options.readOnly }

    /// When the timer must look at what can wait, in monotonic time; at least once a minute, because the wall clock may jump.
    var maintenanceDeadline: Int64 {
        guard mayMaintain else { return Int64.max }
        var due = min(maintenanceAt, comparisonDeadline)
        if nextExpiry != Int64.max {
            let now = ports.moment
            due = min(due, now.mono + min(max(nextExpiry.subtractingClamped(now.wall), 0), 60_000))
        }
        return max(due, core.scheduler.storageUntil, maintenanceRestsUntil)
    }

    /// Messages whose time ran out fail when it does, wherever they stand.
    private func expireAll(_ now: Moment) throws(QueueError) {
        // What is being sent is looked at when its attempt ends.
        for (conversation, sequence) in try store.expired(at: now.wall, limit: 64) {
            try withRow(sequence, conversation, now) { core.expired($0, sequence, conversation, now) }
        }
        guard commitFacts() else { return }
        // More of them than one step takes: at once again.
        let hasMore = try !store.expired(at: now.wall, limit: 1).isEmpty
        nextExpiry = hasMore ? now.wall : try store.nextExpiry(after: now.wall) ?? Int64.max
    }

    // MARK: Statistics

    package func statistics() throws(QueueError) -> (Statistics, Counts) {
        try locked { () throws(QueueError) in (core.statistics.snapshot(ports.moment), counts) }
    }

    // MARK: Pauses

    /// Nothing starts until `resume`: in one conversation, or (nil) at all. Not kept over a restart.
    package func pause(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        try changing { () throws(QueueError) in
            guard core.scheduler.pause(conversation.map { Name($0) }, ports.moment) else { return }
            emit(.paused(conversation: conversation, isPaused: true, kind: .none))
        }
    }

    package func resume(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        try changing { () throws(QueueError) in
            guard core.resume(conversation.map { Name($0) }, ports.moment) else { return }
            emit(.paused(conversation: conversation, isPaused: false, kind: .none))
        }
    }

    package func setLifecycle(isInBackground: Bool) throws(QueueError) {
        try locked { () throws(QueueError) in core.scheduler.lifecycleChanged(isInBackground: isInBackground, ports.moment) }
    }

    // MARK: Blocks

    /// Where a failure for good holds its conversation: who does now.
    func refreshBlock(_ conversation: Name) {
        guard options.finalFailure == .block else { return }
        do throws(QueueError) {
            core.scheduler.block(conversation, at: try store.firstFailed(in: conversation), ports.moment)
        } catch {
            storageTrouble(error)
        }
    }
}
