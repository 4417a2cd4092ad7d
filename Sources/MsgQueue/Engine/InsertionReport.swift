/// What a transaction changed to insert messages. The commands know the messages that they inserted.
struct InsertionChanges {
    /// A message that was removed for a new one.
    struct Removed {
        let row: Row
        /// The number of messages that the transaction inserted before the new one.
        let by: Int
        /// The queue was full; otherwise it was replaced by the new one.
        var isDropped = false
    }

    var inserted = 0
    /// What the new messages need, in bytes (`DiskSpace.needed`).
    var space: Int64 = 0
    var removed: [Removed] = []
}

/// The report of inserted messages to the scheduler and to the host. Under the engine's lock.
struct InsertionReport {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    private let maintenance: Maintenance
    private let writes: PendingWrites

    init(_ parts: EngineParts) {
        (context, store, events, health) = (parts.context, parts.context.store, parts.events, parts.health)
        (maintenance, writes) = (parts.maintenance, parts.writes)
    }

    /// Reports the messages of the commands, which are committed.
    func make(_ changed: InsertionChanges, _ commands: ArraySlice<WriteGate.Command>) {
        guard changed.inserted > 0, let now = commands.last?.now else { return }
        let batches = commands.compactMap { command in (try? command.result.get()).map { ($0, command.now) } }
        let dropped = changed.removed.filter(\.isDropped)
        if let first = dropped.first { Log.warning("\(store.path): \(LogText.dropped(dropped.count, first: first.row.id))") }
        // Messages of this commit that were dropped for later ones of it.
        let gone = Set(dropped.map(\.row.sequence))
        var announced = 0
        do throws(QueueError) {
            try announce(batches, &announced, changed.removed[...], gone)
        } catch {
            // The caller changed the drafts during the call. The messages are read from the store instead.
            Log.error("\(store.path): \(error.detail)")
            context.core.scheduler.forgetBacklog(now)
            events.emit(.resync(lostEvents: Int64(changed.inserted - announced)))
        }
        events.countsChanged()
        context.core.statistics.enqueued(Int64(changed.inserted), now)
    }

    /// Adds the number of messages to `announced`.
    private func announce(
        _ batches: [(StoredBatch, Moment)], _ announced: inout Int, _ given: ArraySlice<InsertionChanges.Removed>, _ gone: Set<Int64>
    ) throws(QueueError) {
        // The messages of this commit that are not reported yet, by conversation: they are not ahead of the current one. Seldom needed.
        var unreported: [Name: Int64]?
        var removed = given
        for (number, (batch, now)) in batches.enumerated() {
            try batch.forEach { message throws(QueueError) in
                let draft = message.draft
                while let old = removed.first, old.by == announced {
                    writes.perform(
                        old.isDropped
                            ? context.core.dropped(old.row, now)
                            : context.core.replaced(old.row, by: message.id, at: message.sequence, now))
                    removed.removeFirst()
                }
                let times = DraftTimes(draft, life: context.options.expiry, now)
                let isUnknown = maintenance.clock.isUnknown(expiry: times.expiresAt, now)
                var head = Head(
                    sequence: message.sequence, notBefore: times.notBefore, expiresAt: isUnknown ? 0 : times.expiresAt,
                    unmeteredOnly: draft.unmeteredOnly, priority: draft.priority, bodySize: Int64(draft.body.count))
                head.bootTimes = times.bootTimes
                if let failure = batch.failure(at: message.index) {
                    announced += 1
                    events.noteStored(message)
                    return writes.perform(context.core.refused(message.id, draft.conversation, failure, now))
                }
                if gone.contains(message.sequence) {
                    // It is not in the store any more.
                } else if message.isInPlace {
                    let direct =
                        context.core.scheduler.goesDirect(draft.conversation, inPlaceOf: message.sequence)
                        ?? isFirst(message.sequence, in: draft.conversation)
                    context.core.scheduler.replaced(by: head, draft.conversation, goesDirect: direct, now)
                } else {
                    let (known, isEarly) = context.reading { core in
                        (core.scheduler.goesDirect(draft.conversation), core.scheduler.startsBeforeScan(draft.conversation, now))
                    }
                    if known == nil || isEarly, unreported == nil {
                        unreported = try count(batches[number...], after: message.index, except: gone)
                    }
                    let own = unreported?[draft.conversation] ?? 1
                    // The counts include messages that a call is deleting.
                    let isCleared = context.core.scheduler.gate.pauses.clearedThrough(draft.conversation) > 0
                    let first =
                        (known == nil || isEarly)
                        && (isCleared ? isFirst(message.sequence, in: draft.conversation) : isFirst(draft.conversation, of: own))
                    unreported?[draft.conversation, default: 1] -= 1
                    context.core.scheduler.enqueued(
                        head, draft.conversation, goesDirect: known ?? first, isFirst: first && isEarly, now)
                }
                if isUnknown {
                    maintenance.clock.enqueuedUnknownExpiry(now)
                } else if times.expiresAt != 0 {
                    maintenance.expires(at: times.expiresAt)
                }
                events.appeared(message, as: .queued, at: now.wall)
                announced += 1
            }
            if Log.isOn(.debug), let message = try batch.firstMessage() {
                let (name, size) = (message.draft.conversation, message.draft.body.count)
                events.log(EventText.enqueued(batch.count, message.id, name, bytes: size))
            }
        }
    }

    /// Counts the messages by conversation, from a position in the first batch on. Those that took the place of others are not counted.
    private func count(
        _ batches: ArraySlice<(StoredBatch, Moment)>, after first: Int, except gone: Set<Int64>
    ) throws(QueueError) -> [Name: Int64] {
        var counts: [Name: Int64] = [:]
        for (number, (batch, _)) in zip(batches.indices, batches) {
            try batch.forEach { message throws(QueueError) in
                guard number > batches.startIndex || message.index >= first else { return }
                guard !message.isInPlace, !gone.contains(message.sequence), batch.failure(at: message.index) == nil else { return }
                counts[message.draft.conversation, default: 0] += 1
            }
        }
        return counts
    }

    /// Whether no message of the conversation waits before this one. `own`: how many queued messages are this one and later ones of the
    /// same commit.
    private func isFirst(_ conversation: Name, of own: Int64) -> Bool {
        do throws(QueueError) {
            let sending = context.core.scheduler.flights.open.count { $0.conversation == conversation }
            return try store.counts.counts(of: conversation).queued - Int64(sending) <= own
        } catch {
            health.report(error)
            return false
        }
    }

    /// Whether no message of its conversation waits before this one.
    private func isFirst(_ sequence: Int64, in conversation: Name) -> Bool {
        do throws(QueueError) {
            let cleared = context.core.scheduler.gate.pauses.clearedThrough(conversation)
            return try !store.queue.hasQueued(in: conversation, after: cleared, before: sequence, sending: writes.sendingSequences)
        } catch {
            health.report(error)
            return false
        }
    }
}
