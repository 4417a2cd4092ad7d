/// The calls that change stored messages. Under the engine's lock.
final class Changes {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let transactions: Transactions
    private let writes: PendingWrites
    private let room: RoomMaker
    private let failed: FailedMessages

    init(_ parts: EngineParts) {
        (context, store, events) = (parts.context, parts.context.store, parts.events)
        (transactions, writes) = (parts.transactions, parts.writes)
        room = RoomMaker(parts)
        failed = FailedMessages(parts)
    }

    func setTitle(_ title: String, of conversation: Name) throws(QueueError) {
        let counts = try store.counts.counts(of: conversation)
        guard title.isEmpty || counts.unsent + counts.history > 0 else {
            throw QueueError(.notFound, "the conversation has no messages")
        }
        let isReplaced = try store.titles.contains(conversation)
        // A title must not take the room that is reserved for outcomes and deletions.
        try transactions.run(durable: true, room: title.isEmpty ? .kept : .inLog) { () throws(QueueError) in
            try store.titles.set(title, of: conversation)
        }
        if isReplaced { store.log.scrub() }
        events.countsChanged()
    }

    // MARK: One message

    /// Finds the message with this id and checks that its status allows the action.
    private func find(_ id: String, _ action: UserAction?, _ part: MessageTable.Part) throws(QueueError) -> Row {
        guard let row = try store.messages.find(id, part), !writes.isBeingRemoved(row) else {
            throw QueueError(.notFound, "message not found: \(id)")
        }
        guard let action else { return row }
        let status = writes.sendingSequences.contains(row.sequence) ? .sending : row.progress.status
        try StatusRule.check(action, on: status)
        guard writes.isExpiring(row.sequence) else { return row }
        try writes.requireSaved()
        return try find(id, action, part)
    }

    /// Changes a received message. Its status stays.
    func update(_ id: String, _ change: MessageChange) throws(QueueError) {
        let row = try find(id, nil, .whole)
        try ChangeRule.checkIsReceived(row)
        try ChangeRule.check(change, isOf: row)
        let growth = change.growth(of: row)
        try room.checkFile(for: growth)
        try replacing(growth) { () throws(QueueError) in
            try store.messages.replaceContent(of: row, by: change, now: context.ports.wall())
        }
        store.log.scrub()
        events.emit(.edited(id: row.id, conversation: row.conversation.text))
    }

    /// Changes a queued or failed message.
    func edit(_ id: String, _ change: MessageChange, ifEdited: Int64) throws(QueueError) {
        let row = try find(id, .edit, .whole)
        try ChangeRule.check(change, isOf: row)
        try ChangeRule.check(ifEdited: ifEdited, row)
        try DraftRule.checkRoom(for: 0, bytes: Int64(change.body.count) - row.bodySize, in: store.counts.totals, context.options)
        let growth = change.growth(of: row)
        try room.checkFile(for: growth)
        try replacing(growth) { () throws(QueueError) in
            try store.messages.replaceContent(of: row, by: change, now: context.ports.wall())
            if row.progress.perhapsArrived {
                // An earlier attempt may have delivered the old body, not this one.
                var edited = row
                edited.bodySize = Int64(change.body.count)
                var progress = row.progress
                progress.perhapsArrived = false
                try store.messages.update(edited, to: progress)
            }
        }
        context.core.scheduler.edited(row.sequence, row.conversation, bodySize: Int64(change.body.count))
        store.log.scrub()
        events.emit(.edited(id: row.id, conversation: row.conversation.text))
        events.countsChanged()
    }

    /// Replaces the content of a message by one that is so many bytes longer. Like a new message, more text has no part in the space that is
    /// reserved for sending and deleting.
    private func replacing(_ growth: Int64, _ body: () throws(QueueError) -> Void) throws(QueueError) {
        guard growth > 0 else { return try transactions.run(durable: true, body) }
        try store.log.reserveSpace(for: growth)
        try transactions.run(durable: true, room: .inLog, body)
    }

    func delete(_ id: String) throws(QueueError) {
        // Found without checking its checksums, so that a damaged message can be deleted.
        let row = try find(id, .delete, .outline)
        try transactions.run(durable: true) { () throws(QueueError) in
            try store.messages.deleteAsked(row, now: context.ports.wall())
        }
        store.log.scrub()
        writes.refreshBlock(row.conversation)
        context.core.scheduler.removed(row.sequence, row.conversation, context.ports.moment)
        events.emit(.deleted(id: id, conversation: row.conversation.text))
        events.countsChanged()
    }

    func retry(_ id: String) throws(QueueError) { try force(id, .retry, .retry) }

    func sendNow(_ id: String) throws(QueueError) { try force(id, .sendNow, .sendNow) }

    private func force(_ id: String, _ action: UserAction, _ hand: Hand) throws(QueueError) {
        // A damaged message is not sent: the caller learns it here, not by a failure that follows.
        let row = try find(id, action, .whole)
        _ = try row.metadata()
        if action == .retry { try DraftRule.check(bodySize: Int(clamping: row.bodySize), context.options) }
        let now = context.ports.moment
        guard let resolution = try context.core.force(row, hand, now) else { return }
        try transactions.run(durable: true) { () throws(QueueError) in try store.outcomes.end(row, resolution) }
        writes.perform(context.core.endedUnreachable(row, resolution, now))
    }

    // MARK: Retrying all

    /// Puts the next messages back. Returns false if there are no more.
    func putBack(_ search: inout FailedMessages.Search) throws(QueueError) -> Bool {
        guard try context.core.putsBack() else { return false }
        return try failed.putBack(&search, round: context.core.round(random: context.ports.random()))
    }
}
