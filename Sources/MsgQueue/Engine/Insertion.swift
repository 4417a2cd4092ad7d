/// The insertion of messages: enqueued ones, of several callers in one transaction, and recorded ones received from others. Under the
/// engine's lock, except for `enqueue`, which takes it.
final class Insertion {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    private let maintenance: Maintenance
    private let transactions: Transactions
    private let gate = WriteGate()
    private var idBits: RandomBits

    init(_ parts: EngineParts, _ idBits: RandomBits) {
        (context, store, events, health) = (parts.context, parts.context.store, parts.events, parts.health)
        (maintenance, transactions) = (parts.maintenance, parts.transactions)
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
    }

    private func insert(_ commands: [WriteGate.Command]) {
        let now = context.ports.moment
        var inserted: [Inserted] = []
        do throws(QueueError) {
            try context.checkWritable()
            try store.reserveSpace(for: commands.lazy.flatMap(\.drafts))
            var isRepeated = false
            try transactions.run(durable: true, room: .inLog) { () throws(QueueError) in
                // After the disk was found full a checkpoint has made space, but the reserve for these messages is lost.
                if isRepeated { try store.reserveSpace(for: commands.lazy.flatMap(\.drafts)) }
                isRepeated = true
                inserted.removeAll(keepingCapacity: true)
                if commands.reduce(0, { $0 + $1.drafts.count }) >= Store.bulkThreshold { try store.beginBulk() }
                for (index, command) in commands.enumerated() {
                    do throws(QueueError) {
                        try checkRoom(command.drafts)
                        try checkDuplicates(command.drafts)
                    } catch {
                        // Rejected before anything of it was written; the other commands continue.
                        guard [.duplicate, .full].contains(error.code) else { throw error }
                        command.result = .failure(error)
                        continue
                    }
                    var ids: [String] = []
                    ids.reserveCapacity(command.drafts.count)
                    for (place, draft) in command.drafts.enumerated() {
                        let row = try store.insert(
                            draft, expiresAt: expiry(draft, now.wall), now: now.wall, random: idBits.next())
                        inserted.append(Inserted(sequence: row.sequence, expiresAt: row.expiresAt, command: index, draft: place))
                        ids.append(row.id)
                    }
                    command.result = .success(ids)
                }
                try store.endBulk()
            }
        } catch {
            // A refusal may rest on a message of this transaction, which is not stored.
            for command in commands { command.result = .failure(error) }
            return
        }
        announce(inserted, commands, now)
        do throws(QueueError) { try store.foldIfDue() } catch { health.report(error) }
    }

    private func checkRoom(_ drafts: UnsafeBufferPointer<BorrowedDraft>) throws(QueueError) {
        guard context.options.limitMessages > 0 || context.options.limitBytes > 0 else { return }
        let bytes = drafts.reduce(Int64(0)) { $0 + Int64($1.body.count) }
        try DraftRule.checkRoom(for: Int64(drafts.count), bytes: bytes, in: store.totals, context.options)
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
    private func announce(_ inserted: [Inserted], _ commands: [WriteGate.Command], _ now: Moment) {
        guard !inserted.isEmpty else { return }
        // The messages of this commit that are not reported yet, by conversation: they are not ahead of the current one. Seldom needed.
        var unreported: [Name: Int64]?
        for (index, place) in inserted.enumerated() {
            let draft = commands[place.command].drafts[place.draft]
            let known = context.core.scheduler.goesDirect(draft.conversation)
            if known == nil, unreported == nil {
                unreported = inserted[index...].reduce(into: [:]) { $0[commands[$1.command].drafts[$1.draft].conversation, default: 0] += 1 }
            }
            let direct = known ?? isFirst(draft.conversation, of: unreported?[draft.conversation] ?? 1)
            unreported?[draft.conversation, default: 1] -= 1
            let head = Head(
                sequence: place.sequence, notBefore: draft.notBefore, expiresAt: place.expiresAt, unmeteredOnly: draft.unmeteredOnly)
            context.core.scheduler.enqueued(head, draft.conversation, goesDirect: direct, now)
            if place.expiresAt != 0 { maintenance.expires(at: place.expiresAt) }
            guard events.hasHandler, case .success(let ids) = commands[place.command].result else { continue }
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
        try store.reserveSpace(for: CollectionOfOne(draft))
        let row = try transactions.run(durable: true, room: .inLog) { () throws(QueueError) in
            try store.insert(draft, sender: sender, now: now.wall, random: idBits.next())
        }
        events.countsChanged()
        return row.id
    }
}
