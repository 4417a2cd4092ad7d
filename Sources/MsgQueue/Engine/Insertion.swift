/// The insertion of enqueued messages, of several callers in one transaction. Under the engine's lock, except for `enqueue`, which takes it.
final class Insertion {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    private let maintenance: Maintenance
    private let transactions: Transactions
    private let writes: PendingWrites
    private let room: RoomMaker
    let gate = WriteGate()
    private var idBits: RandomBits

    init(_ parts: EngineParts, _ idBits: RandomBits) {
        (context, store, events, health) = (parts.context, parts.context.store, parts.events, parts.health)
        (maintenance, transactions, writes) = (parts.maintenance, parts.transactions, parts.writes)
        room = RoomMaker(parts)
        self.idBits = idBits
    }

    /// Stores the drafts, which are prepared, in this order, all or none. `runSteps` is called under the lock afterwards.
    func enqueue(_ drafts: DraftBatch, runSteps: () -> Void) throws(QueueError) -> StoredBatch {
        let command = WriteGate.Command(drafts)
        submit([command], runSteps)
        return try command.result.get()
    }

    /// Prepares and stores the drafts of several calls, in this order: of each call all or none.
    func enqueue(_ calls: [DraftBatch], runSteps: () -> Void) -> [Result<StoredBatch, QueueError>] {
        let commands = calls.map { WriteGate.Command($0) }
        let prepared = commands.filter { command in
            do throws(QueueError) { try command.drafts.prepare(context.options, wall: context.ports.wall()) } catch {
                command.result = .failure(error)
                return false
            }
            return true
        }
        if !prepared.isEmpty { submit(prepared, runSteps) }
        return commands.map(\.result)
    }

    /// Stores the drafts of a hand-over, which are prepared and of which no id is taken. Under the engine's lock.
    func takeOver(_ drafts: DraftBatch, _ addition: StoredBatch.Addition) throws(QueueError) {
        let command = WriteGate.Command(drafts, addition)
        insert([command])
        if case .failure(let error) = command.result { throw error }
    }

    private func submit(_ commands: [WriteGate.Command], _ runSteps: () -> Void) {
        gate.submit(commands) { collect in
            context.lock.lock()
            defer { context.lock.unlock() }
            let commands = collect()
            run(commands)
            runSteps()
        }
    }

    /// Runs the commands of several callers in one transaction.
    private func run(_ commands: [WriteGate.Command]) {
        guard context.phase == .open else {
            for command in commands { command.result = .failure(context.closedError) }
            return
        }
        insert(commands)
        // A single failed read of a page may not be damage: try again.
        let again = commands.filter { if case .failure(let error) = $0.result { error.code == .corrupt } else { false } }
        guard !again.isEmpty else { return }
        store.dropPageCache()
        insert(again)
        for command in again { if case .failure(let error) = command.result { command.result = .failure(store.withoutReadError(error)) } }
    }

    /// A message that was removed for a new one.
    private struct Removed {
        let row: Row
        /// The number of messages that the transaction inserted before the new one.
        let by: Int
        /// The queue was full; otherwise it was replaced by the new one.
        var isDropped = false
    }

    /// What a transaction changed. The commands know the messages that they inserted.
    private struct Changed {
        var inserted = 0
        var removed: [Removed] = []
    }

    private func insert(_ commands: [WriteGate.Command]) {
        // Commands that were refused after a part of them was written, and the transaction is repeated without them.
        var refused: [Int: QueueError] = [:]
        var isRepeated = true
        while isRepeated {
            let before = refused.count
            insert(commands, &refused)
            isRepeated = refused.count > before
        }
    }

    private func insert(_ commands: [WriteGate.Command], _ refused: inout [Int: QueueError]) {
        let now = maintenance.clock.observe()
        let refusedBefore = refused.count
        var changed = Changed()
        let space = commands.reduce(Int64(0)) { $0.addingClamped($1.drafts.needs.space) }
        let isBulk = commands.reduce(0) { $0 + $1.drafts.count } >= MessageInsertion.bulkThreshold
        do throws(QueueError) {
            try context.checkWritable()
            try store.log.reserveSpace(for: space)
            var isRepeated = false
            try transactions.run(durable: true, room: .inLog) { () throws(QueueError) in
                // After the disk was found full a checkpoint has made space, but the reserve for these messages is lost.
                if isRepeated { try store.log.reserveSpace(for: space) }
                isRepeated = true
                changed = Changed()
                if isBulk { try store.insertion.beginBulk() }
                for (index, command) in commands.enumerated() {
                    if let error = refused[index] {
                        command.result = .failure(error)
                        continue
                    }
                    let victims: RoomMaker.Victims?
                    do throws(QueueError) {
                        // A message that is stored is reported also by a full queue.
                        if command.addition == nil { try command.drafts.checkDuplicates(in: store, since: context.rememberedSince) }
                        victims = try room.victims(for: command.drafts)
                    } catch {
                        // Rejected before anything of it was written; the other commands continue.
                        guard [.duplicate, .full].contains(error.code) else { throw error }
                        command.result = .failure(error)
                        continue
                    }
                    if let victims {
                        do throws(QueueError) {
                            let by = changed.inserted
                            changed.removed += try room.drop(victims).map { Removed(row: $0, by: by, isDropped: true) }
                        } catch {
                            if error.code == .full { refused[index] = error }
                            throw error
                        }
                    }
                    var batch = StoredBatch(
                        command.drafts, first: store.state.lastSequence + 1, now: now.wall, bits: idBits,
                        failures: command.addition?.failures)
                    try command.drafts.forEach { place, draft throws(QueueError) in
                        if let failure = command.addition?.failures[place] {
                            try insertFailed(draft, failure, now)
                        } else if let taken = try insert(draft, &changed, now) {
                            batch.took(place: taken, place)
                        }
                        changed.inserted += 1
                    }
                    try command.addition?.write()
                    command.result = .success(batch)
                }
                try store.insertion.endBulk()
            }
        } catch {
            if refused.count > refusedBefore { return }
            // A refusal may rest on a message of this transaction, which is not stored.
            for command in commands { command.result = .failure(error) }
            return
        }
        announce(changed, commands, now)
        foldIfDue()
    }

    /// Stores one draft. Returns the sequence number of the queued message of its key whose place it took; nil: it was added.
    private func insert(_ draft: borrowing BorrowedDraft, _ changed: inout Changed, _ now: Moment) throws(QueueError) -> Int64? {
        let times = times(draft, now)
        let old = try removeReplaced(by: draft, &changed, now)
        let row =
            if let old {
                try store.messages.replace(old, by: draft, times, now: now.wall, random: idBits.next())
            } else {
                try store.insertion.insert(draft, times: times, now: now.wall, random: idBits.next())
            }
        if maintenance.clock.isUnknown(expiry: row.expiresAt, now) { try store.messages.ignoreExpiry(of: row) }
        return old?.sequence
    }

    /// Stores a draft that is refused for good as a failed message.
    private func insertFailed(_ draft: borrowing BorrowedDraft, _ error: QueueError, _ now: Moment) throws(QueueError) {
        let row = try store.insertion.insert(draft, times: times(draft, now), now: now.wall, random: idBits.next())
        try store.insertion.settleBulk(from: row.sequence)
        let (progress, attempt) = HandOverRule.refused(error, now: now.wall)
        try store.messages.update(row, to: progress, .asLast)
        try store.outcomes.write(attempt, of: row.sequence)
    }

    /// Removes the queued messages of the draft's key, except the one whose place it takes, which is returned.
    private func removeReplaced(
        by draft: borrowing BorrowedDraft, _ changed: inout Changed, _ now: Moment
    ) throws(QueueError) -> Row? {
        guard let key = draft.replaceKey else { return nil }
        let replaced = try room.replaceable(key, draft.conversation)
        let by = changed.inserted
        changed.removed += replaced.rows.map { Removed(row: $0, by: by) }
        // In the order in which they are reported.
        for row in replaced.rows {
            if row.sequence == replaced.place {
                try store.feed?.noteGone(row, .replaced)
            } else {
                try store.messages.removeReplaced(row, now: now.wall)
            }
        }
        return replaced.rows.first { $0.sequence == replaced.place }
    }

    /// Writes the index entries of new messages if there are many. After an error the messages are stored all the same.
    private func foldIfDue() {
        do throws(QueueError) { try store.foldIfDue() } catch { health.report(error) }
    }

    /// Reports committed messages to the scheduler and to the host.
    private func announce(_ changed: Changed, _ commands: [WriteGate.Command], _ now: Moment) {
        guard changed.inserted > 0 else { return }
        let batches = commands.compactMap { try? $0.result.get() }
        let dropped = changed.removed.filter(\.isDropped)
        if let first = dropped.first { Log.warning("\(store.path): \(LogText.dropped(dropped.count, first: first.row.id))") }
        // Messages of this commit that were dropped for later ones of it.
        let gone = Set(dropped.map(\.row.sequence))
        var announced = 0
        do throws(QueueError) {
            try announce(batches, &announced, changed.removed[...], gone, now)
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
        _ batches: [StoredBatch], _ announced: inout Int, _ given: ArraySlice<Removed>, _ gone: Set<Int64>, _ now: Moment
    ) throws(QueueError) {
        // The messages of this commit that are not reported yet, by conversation: they are not ahead of the current one. Seldom needed.
        var unreported: [Name: Int64]?
        var removed = given
        for (number, batch) in batches.enumerated() {
            try batch.forEach { message throws(QueueError) in
                let draft = message.draft
                while let old = removed.first, old.by == announced {
                    writes.perform(
                        old.isDropped
                            ? context.core.dropped(old.row, now)
                            : context.core.replaced(old.row, by: message.id, at: message.sequence, now))
                    removed.removeFirst()
                }
                let times = times(draft, now)
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
        _ batches: ArraySlice<StoredBatch>, after first: Int, except gone: Set<Int64>
    ) throws(QueueError) -> [Name: Int64] {
        var counts: [Name: Int64] = [:]
        for (number, batch) in zip(batches.indices, batches) {
            try batch.forEach { message throws(QueueError) in
                guard number > batches.startIndex || message.index >= first else { return }
                guard !message.isInPlace, !gone.contains(message.sequence), batch.failure(at: message.index) == nil else { return }
                counts[message.draft.conversation, default: 0] += 1
            }
        }
        return counts
    }

    private func times(_ draft: borrowing BorrowedDraft, _ now: Moment) -> DraftTimes {
        DraftTimes(draft, life: context.options.expiry, now)
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
