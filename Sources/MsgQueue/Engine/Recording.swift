/// Records messages in the history: received ones, and one's own that another device sent. Under the engine's lock.
final class Recording {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    private let maintenance: Maintenance
    private let transactions: Transactions
    private let room: RoomMaker
    private var idBits: RandomBits

    init(_ parts: EngineParts, _ idBits: RandomBits) {
        (context, store, events, health) = (parts.context, parts.context.store, parts.events, parts.health)
        (maintenance, transactions) = (parts.maintenance, parts.transactions)
        room = RoomMaker(parts)
        self.idBits = idBits
    }

    /// What becomes of the drafts of a batch.
    private struct Plan {
        var results: [RecordedBatch.Result] = []
        /// The number of messages to store, and the bytes of disk space that they need.
        var count = 0
        var space: Int64 = 0
    }

    /// Stores a received message. Repeating the call with the same id changes nothing.
    func record(_ draft: BorrowedDraft) throws(QueueError) -> String {
        let drafts = DraftBatch(draft)
        let plan = try plan(drafts)
        if let id = draft.id {
            switch plan.results.first {
            case .isThere, .wasReceived: return id
            case .isToSend: throw QueueError(.duplicate, "id \(id) belongs to a message that this queue sends")
            case .wasOwn: throw QueueError(.duplicate, "id \(id) belonged to a message that this queue sent or replaced")
            case .stored, nil: break
            }
        }
        let stored = try store(drafts, plan)
        var id = draft.id
        if id == nil { try stored?.forEachID { id = $1 } }
        guard let id else { throw QueueError(.internal, "record returned no id") }
        return id
    }

    /// Stores the drafts in this order, all in one transaction, except those whose ids are not free.
    func record(_ drafts: DraftBatch) throws(QueueError) -> RecordedBatch {
        let plan = try plan(drafts)
        try store(drafts, plan)
        return RecordedBatch(results: plan.results)
    }

    private func plan(_ drafts: DraftBatch) throws(QueueError) -> Plan {
        var plan = Plan()
        plan.results.reserveCapacity(drafts.count)
        var ids = RepeatedIDs(capacity: drafts.count)
        try drafts.forEach { _, draft throws(QueueError) in
            let result = try result(for: draft.id)
            plan.results.append(result)
            guard result == .stored else { return }
            plan.count += 1
            plan.space = plan.space.addingClamped(DiskSpace.needed(for: draft))
            if let id = draft.id, drafts.count > 1 { ids.note(id) }
        }
        guard ids.search() else { return plan }
        try drafts.forEach { index, draft throws(QueueError) in
            guard plan.results[index] == .stored, let id = draft.id, ids.isRepeated(id) else { return }
            plan.results[index] = .isThere
            plan.count -= 1
        }
        return plan
    }

    private func result(for id: String?) throws(QueueError) -> RecordedBatch.Result {
        guard let id else { return .stored }
        if let known = try store.messages.known(id) { return known == .recorded ? .isThere : .isToSend }
        guard let isReceived = try store.recentIDs.isReceived(id, since: context.rememberedSince) else { return .stored }
        return isReceived ? .wasReceived : .wasOwn
    }

    /// Stores what is to be stored, and reports it. nil: nothing is.
    @discardableResult
    private func store(_ drafts: DraftBatch, _ plan: Plan) throws(QueueError) -> StoredBatch? {
        guard plan.count > 0 else { return nil }
        try room.checkFile(for: plan.space)
        try store.log.reserveSpace(for: plan.space)
        let now = context.ports.moment
        var isRepeated = false
        let stored = try transactions.run(durable: true, room: .inLog) { () throws(QueueError) in
            // After the disk was found full a checkpoint has made space, but the reserve for these messages is lost.
            if isRepeated { try store.log.reserveSpace(for: plan.space) }
            isRepeated = true
            if plan.count >= MessageInsertion.bulkThreshold { try store.insertion.beginBulk() }
            let batch = StoredBatch(drafts, first: store.state.lastSequence + 1, now: now.wall, bits: idBits) {
                plan.results[$0] == .stored
            }
            try drafts.forEach { index, draft throws(QueueError) in
                if plan.results[index] == .stored { _ = try store.insertion.record(draft, now: now.wall, random: idBits.next()) }
            }
            try store.insertion.endBulk()
            return batch
        }
        announce(stored, plan.count, now)
        return stored
    }

    private func announce(_ stored: StoredBatch, _ count: Int, _ now: Moment) {
        var announced = 0
        do throws(QueueError) {
            try stored.forEach { message throws(QueueError) in
                if announced == 0 { events.log(EventText.recorded(count, message.id, message.draft.conversation)) }
                let progress = StatusRule.recorded(isOwn: message.draft.sender == nil, now: now.wall)
                events.appeared(message, as: progress.status, at: now.wall)
                announced += 1
            }
        } catch {
            // The caller changed the drafts during the call.
            Log.error("\(store.path): \(error.detail)")
            events.emit(.resync(lostEvents: Int64(count - announced)))
        }
        do throws(QueueError) { try store.foldIfDue() } catch { health.report(error) }
        maintenance.historyGrew()
        events.countsChanged()
    }
}
