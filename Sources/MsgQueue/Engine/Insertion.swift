/// The insertion of enqueued messages, of several callers in one transaction. Under the engine's lock, except for `enqueue`, which takes it.
final class Insertion {
    private let context: EngineContext
    private let store: Store
    private let health: StoreHealth
    private let maintenance: Maintenance
    private let transactions: Transactions
    private let room: RoomMaker
    private let report: InsertionReport
    let gate = WriteGate()
    private var idBits: RandomBits

    init(_ parts: EngineParts, _ idBits: RandomBits) {
        (context, store, health) = (parts.context, parts.context.store, parts.health)
        (maintenance, transactions) = (parts.maintenance, parts.transactions)
        (room, report) = (RoomMaker(parts), InsertionReport(parts))
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
        var commands = [command]
        insert(&commands) { [] }
        if case .failure(let error) = command.result { throw error }
    }

    private func submit(_ commands: [WriteGate.Command], _ runSteps: () -> Void) {
        gate.submit(commands) { collect in
            context.lock.lock()
            defer { context.lock.unlock() }
            run(collect)
            runSteps()
        }
    }

    /// Runs the commands of several callers, in one transaction unless the files have no room for all of them beside each other.
    private func run(_ collect: () -> [WriteGate.Command]) {
        var commands = collect()
        guard context.phase == .open else { return fail(commands[...], context.closedError) }
        insert(&commands, mayYield: true, collect)
        // A single failed read of a page may not be damage: try again.
        var again = commands.filter { if case .failure(let error) = $0.result { error.code == .corrupt } else { false } }
        guard !again.isEmpty, context.phase == .open else { return }
        store.dropPageCache()
        insert(&again) { [] }
        for command in again { if case .failure(let error) = command.result { command.result = .failure(store.withoutReadError(error)) } }
    }

    /// `others`: returns commands that have arrived meanwhile, which are added to `commands`. If `mayYield`, callers that wait for the lock run
    /// between two transactions.
    private func insert(_ commands: inout [WriteGate.Command], mayYield: Bool = false, _ others: () -> [WriteGate.Command]) {
        // By position: commands that were refused after a part of them was written. The transaction is repeated without them.
        var refused: [Int: QueueError] = [:]
        var done = 0
        while done < commands.count {
            done = insert(&commands, from: done, others, &refused)
            guard mayYield, done < commands.count else { continue }
            context.lock.yield()
            guard context.phase == .open else { return fail(commands[done...], context.closedError) }
        }
    }

    /// Runs the commands from a position on in one transaction, except those for which there is no room in it. Returns the position after the
    /// last one that was run; `first` if the transaction must be repeated.
    private func insert(
        _ commands: inout [WriteGate.Command], from first: Int, _ others: () -> [WriteGate.Command], _ refused: inout [Int: QueueError]
    ) -> Int {
        let refusedBefore = refused.count
        var changed = InsertionChanges()
        var end = commands.count
        do throws(QueueError) {
            try context.checkWritable()
            try reserveSpace(for: commands[first...])
            var isRepeated = false
            try transactions.run(durable: true, room: .inLog) { () throws(QueueError) in
                end = commands.count
                // After the disk was found full a checkpoint has made space, but the reserve for these messages is lost.
                if isRepeated { try reserveSpace(for: commands[first...]) }
                isRepeated = true
                changed = InsertionChanges()
                var done = first
                while done < end {
                    done = try insert(commands[done..<end], &changed, &refused)
                    guard done == end else { return end = done }
                    commands += others()
                    end = commands.count
                    if done < end { try reserveSpace(for: commands[done...]) }
                }
            }
        } catch {
            if refused.count > refusedBefore { return first }
            // A refusal may rest on a message of this transaction, which is not stored.
            fail(commands[first..<end], error)
            return end
        }
        report.make(changed, commands[first..<end])
        foldIfDue()
        return end
    }

    private func fail(_ commands: ArraySlice<WriteGate.Command>, _ error: QueueError) {
        for command in commands { command.result = .failure(error) }
    }

    private func reserveSpace(for commands: ArraySlice<WriteGate.Command>) throws(QueueError) {
        try store.log.reserveSpace(for: commands.reduce(0) { $0.addingClamped($1.drafts.needs.space) })
    }

    /// Inserts the drafts of the commands, in the open transaction. Returns the position after the last command that was run. One for which
    /// the files have no room beside those before it gets a transaction of its own, before which the log may become shorter.
    private func insert(
        _ commands: ArraySlice<WriteGate.Command>, _ changed: inout InsertionChanges, _ refused: inout [Int: QueueError]
    ) throws(QueueError) -> Int {
        let now = maintenance.clock.observe()
        if commands.reduce(0, { $0 + $1.drafts.count }) >= MessageInsertion.bulkThreshold { try store.insertion.beginBulk() }
        var done = commands.startIndex
        for (index, command) in zip(commands.indices, commands) {
            let mayWait = changed.space > 0 && context.options.limitFileBytes > 0
            command.now = now
            done = index + 1
            if let error = refused[index] {
                command.result = .failure(error)
                continue
            }
            let victims: RoomMaker.Victims?
            do throws(QueueError) {
                // A message that is stored is reported also by a full queue.
                if command.addition == nil { try command.drafts.checkDuplicates(in: store, since: context.rememberedSince) }
                victims = try room.victims(for: command.drafts, beside: changed.space)
            } catch {
                if mayWait, error.code == .full {
                    done = index
                    break
                }
                // Rejected before anything of it was written; the other commands continue.
                guard [.duplicate, .full].contains(error.code) else { throw error }
                command.result = .failure(error)
                continue
            }
            if let victims {
                if mayWait {
                    done = index
                    break
                }
                do throws(QueueError) {
                    let by = changed.inserted
                    changed.removed += try room.drop(victims).map { InsertionChanges.Removed(row: $0, by: by, isDropped: true) }
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
            changed.space = changed.space.addingClamped(command.drafts.needs.space)
        }
        try store.insertion.endBulk()
        return done
    }

    /// Stores one draft. Returns the sequence number of the queued message of its key whose place it took; nil: it was added.
    private func insert(_ draft: borrowing BorrowedDraft, _ changed: inout InsertionChanges, _ now: Moment) throws(QueueError) -> Int64? {
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
        by draft: borrowing BorrowedDraft, _ changed: inout InsertionChanges, _ now: Moment
    ) throws(QueueError) -> Row? {
        guard let key = draft.replaceKey else { return nil }
        let replaced = try room.replaceable(key, draft.conversation)
        let by = changed.inserted
        changed.removed += replaced.rows.map { InsertionChanges.Removed(row: $0, by: by) }
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

    private func times(_ draft: borrowing BorrowedDraft, _ now: Moment) -> DraftTimes {
        DraftTimes(draft, life: context.options.expiry, now)
    }
}
