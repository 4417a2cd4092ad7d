/// The insertion of messages: enqueued ones, of several callers in one transaction, and recorded ones received from others. Under the
/// engine's lock, except for `enqueue`, which takes it.
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

    /// Stores the drafts in this order, all or none, and returns their ids. `runSteps` is called under the lock afterwards.
    func enqueue(_ drafts: UnsafeBufferPointer<BorrowedDraft>, runSteps: () -> Void) throws(QueueError) -> [String] {
        let command = WriteGate.Command(drafts)
        gate.submit(command) { collect in
            context.lock.lock()
            defer { context.lock.unlock() }
            let commands = collect()
            run(commands)
            runSteps()
        }
        return try command.result.get()
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
    }

    /// An inserted message and the index of its draft. Small, because a batch may have a million messages.
    private struct Inserted {
        let sequence: Int64
        let expiresAt: Int64
        let command: Int
        let draft: Int
        /// It took the place of another one.
        var isInPlace = false
    }

    /// A message that was removed for a new one.
    private struct Removed {
        let row: Row
        /// The index in `Changed.inserted` of the new one.
        let by: Int
        /// The queue was full; otherwise it was replaced by the new one.
        var isDropped = false
    }

    /// What a transaction changed, in order.
    private struct Changed {
        var inserted: [Inserted] = []
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
        let now = context.ports.moment
        let refusedBefore = refused.count
        var changed = Changed()
        do throws(QueueError) {
            try context.checkWritable()
            try store.reserveSpace(for: commands.lazy.flatMap(\.drafts))
            var isRepeated = false
            try transactions.run(durable: true, room: .inLog) { () throws(QueueError) in
                // After the disk was found full a checkpoint has made space, but the reserve for these messages is lost.
                if isRepeated { try store.reserveSpace(for: commands.lazy.flatMap(\.drafts)) }
                isRepeated = true
                changed = Changed()
                if commands.reduce(0, { $0 + $1.drafts.count }) >= Store.bulkThreshold { try store.beginBulk() }
                for (index, command) in commands.enumerated() {
                    if let error = refused[index] {
                        command.result = .failure(error)
                        continue
                    }
                    let victims: RoomMaker.Victims?
                    do throws(QueueError) {
                        victims = try room.victims(for: command.drafts)
                        try checkDuplicates(command.drafts)
                    } catch {
                        // Rejected before anything of it was written; the other commands continue.
                        guard [.duplicate, .full].contains(error.code) else { throw error }
                        command.result = .failure(error)
                        continue
                    }
                    if let victims {
                        do throws(QueueError) {
                            let by = changed.inserted.count
                            changed.removed += try room.drop(victims).map { Removed(row: $0, by: by, isDropped: true) }
                        } catch {
                            if error.code == .full { refused[index] = error }
                            throw error
                        }
                    }
                    var ids: [String] = []
                    ids.reserveCapacity(command.drafts.count)
                    for (place, draft) in command.drafts.enumerated() {
                        let (row, isInPlace) = try insert(draft, &changed, now)
                        changed.inserted.append(
                            Inserted(
                                sequence: row.sequence, expiresAt: row.expiresAt, command: index, draft: place, isInPlace: isInPlace))
                        ids.append(row.id)
                    }
                    command.result = .success(ids)
                }
                try store.endBulk()
            }
        } catch {
            if refused.count > refusedBefore { return }
            // A refusal may rest on a message of this transaction, which is not stored.
            for command in commands { command.result = .failure(error) }
            return
        }
        announce(changed, commands, now)
        do throws(QueueError) { try store.foldIfDue() } catch { health.report(error) }
    }

    /// Stores one draft, or puts it into the place of a queued message of its key.
    private func insert(
        _ draft: BorrowedDraft, _ changed: inout Changed, _ now: Moment
    ) throws(QueueError) -> (row: Row, isInPlace: Bool) {
        let expiresAt = expiry(draft, now.wall)
        guard let key = draft.replaceKey else {
            return (try store.insert(draft, expiresAt: expiresAt, now: now.wall, random: idBits.next()), false)
        }
        let replaced = try room.replaceable(key, draft.conversation)
        let by = changed.inserted.count
        changed.removed += replaced.rows.map { Removed(row: $0, by: by) }
        for row in replaced.rows where row.sequence != replaced.place { try store.removeReplaced(row, now: now.wall) }
        guard let old = replaced.rows.first(where: { $0.sequence == replaced.place }) else {
            return (try store.insert(draft, expiresAt: expiresAt, now: now.wall, random: idBits.next()), false)
        }
        return (try store.replace(old, by: draft, expiresAt: expiresAt, now: now.wall, random: idBits.next()), true)
    }

    private func checkDuplicates(_ drafts: UnsafeBufferPointer<BorrowedDraft>) throws(QueueError) {
        var seen = Set<Name>()
        for draft in drafts {
            guard let id = draft.id else { continue }
            if drafts.count > 1, !seen.insert(Name(id)).inserted {
                throw QueueError(.duplicate, "id \(id) occurs twice in the batch")
            }
            if try store.contains(id) {
                throw QueueError(.duplicate, "id \(id) is already in the store")
            }
            if try store.recentIsReceived(id, since: context.rememberedSince) != nil {
                throw QueueError(.duplicate, "id \(id) was sent recently and is still remembered")
            }
        }
    }

    /// Reports committed messages to the scheduler and to the host.
    private func announce(_ changed: Changed, _ commands: [WriteGate.Command], _ now: Moment) {
        let inserted = changed.inserted
        guard !inserted.isEmpty else { return }
        let dropped = changed.removed.filter(\.isDropped)
        if let first = dropped.first { Log.warning("\(store.path): \(LogText.dropped(dropped.count, first: first.row.id))") }
        // Messages of this commit that were dropped for later ones of it.
        let gone = Set(dropped.map(\.row.sequence))
        // The messages of this commit that are not reported yet, by conversation: they are not ahead of the current one. Seldom needed.
        var unreported: [Name: Int64]?
        var removed = changed.removed[...]
        for (index, place) in inserted.enumerated() {
            guard case .success(let ids) = commands[place.command].result else { continue }
            while let old = removed.first, old.by == index {
                writes.perform(
                    old.isDropped
                        ? context.core.dropped(old.row, now)
                        : context.core.replaced(old.row, by: ids[place.draft], at: place.sequence, now))
                removed.removeFirst()
            }
            let draft = commands[place.command].drafts[place.draft]
            let head = Head(
                sequence: place.sequence, notBefore: draft.notBefore, expiresAt: place.expiresAt, unmeteredOnly: draft.unmeteredOnly,
                priority: draft.priority)
            if gone.contains(place.sequence) {
                // It is not in the store any more.
            } else if place.isInPlace {
                let direct = context.core.scheduler.goesDirect(draft.conversation, inPlaceOf: place.sequence) ?? isFirst(place, draft)
                context.core.scheduler.replaced(by: head, draft.conversation, goesDirect: direct, now)
            } else {
                let known = context.core.scheduler.goesDirect(draft.conversation)
                let isEarly = context.core.scheduler.startsBeforeScan(draft.conversation, now)
                if known == nil || isEarly, unreported == nil {
                    unreported = inserted[index...].reduce(into: [:]) { counts, place in
                        guard !place.isInPlace, !gone.contains(place.sequence) else { return }
                        counts[commands[place.command].drafts[place.draft].conversation, default: 0] += 1
                    }
                }
                let own = unreported?[draft.conversation] ?? 1
                let first = (known == nil || isEarly) && isFirst(draft.conversation, of: own)
                unreported?[draft.conversation, default: 1] -= 1
                context.core.scheduler.enqueued(
                    head, draft.conversation, goesDirect: known ?? first, isFirst: first && isEarly, now)
            }
            if place.expiresAt != 0 { maintenance.expires(at: place.expiresAt) }
            guard events.hasHandler else { continue }
            events.emit(
                .status(
                    StatusChange(
                        id: ids[place.draft], conversation: draft.conversation.text, from: nil, to: .queued, attempt: 0, failure: nil,
                        at: now.wall)))
        }
        events.countsChanged()
        context.core.statistics.enqueued(Int64(inserted.count), now)
    }

    /// Returns the expiry of the draft, or the queue's default.
    private func expiry(_ draft: borrowing BorrowedDraft, _ now: Int64) -> Int64 {
        guard draft.expiresAt == 0, context.options.expiry > 0 else { return draft.expiresAt }
        return max(now, draft.notBefore).subtractingClamped(-context.options.expiry)
    }

    /// Whether no message of the conversation waits before this one. `own`: how many queued messages are this one and later ones of the
    /// same commit.
    private func isFirst(_ conversation: Name, of own: Int64) -> Bool {
        do throws(QueueError) {
            let sending = context.core.scheduler.flights.values.count { !$0.isEnded && $0.conversation == conversation }
            return try store.counts(of: conversation).queued - Int64(sending) <= own
        } catch {
            health.report(error)
            return false
        }
    }

    /// Whether no message of its conversation waits before this one, which took the place of another.
    private func isFirst(_ place: Inserted, _ draft: borrowing BorrowedDraft) -> Bool {
        do throws(QueueError) {
            return try !store.hasQueued(in: draft.conversation, before: place.sequence, sending: writes.sendingSequences)
        } catch {
            health.report(error)
            return false
        }
    }

    // MARK: Received messages

    /// Stores a received message in the history. Repeating the call with the same id changes nothing.
    func record(_ draft: BorrowedDraft, sender: String) throws(QueueError) -> String {
        if let id = draft.id, let known = try store.find(id, .none) {
            guard known.isReceived else {
                throw QueueError(.duplicate, "id \(id) belongs to a message that this queue sends")
            }
            return id
        }
        if let id = draft.id, let isReceived = try store.recentIsReceived(id, since: context.rememberedSince) {
            guard isReceived else { throw QueueError(.duplicate, "id \(id) belonged to a message that this queue sent") }
            return id
        }
        let now = context.ports.moment
        var draft = draft
        draft.replaceKey = nil
        try room.checkFile(for: Store.space(for: draft))
        try store.reserveSpace(for: CollectionOfOne(draft))
        let row = try transactions.run(durable: true, room: .inLog) { () throws(QueueError) in
            try store.insert(draft, sender: sender, now: now.wall, random: idBits.next())
        }
        events.countsChanged()
        return row.id
    }
}
