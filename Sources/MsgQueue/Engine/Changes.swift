/// The calls that change stored messages. Under the engine's lock.
final class Changes {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let transactions: Transactions
    private let writes: PendingWrites
    private let waits: Waits
    private let room: RoomMaker
    private let failed: FailedMessages

    init(_ parts: EngineParts) {
        (context, store, events) = (parts.context, parts.context.store, parts.events)
        (transactions, writes, waits) = (parts.transactions, parts.writes, parts.waits)
        room = RoomMaker(parts)
        failed = FailedMessages(parts)
    }

    func setTitle(_ title: String, of conversation: Name) throws(QueueError) {
        let counts = try store.counts(of: conversation)
        guard title.isEmpty || counts.unsent + counts.history > 0 else {
            throw QueueError(.notFound, "the conversation has no messages")
        }
        let isReplaced = try store.hasTitle(conversation)
        // A title must not take the room that is reserved for outcomes and deletions.
        try transactions.run(durable: true, room: title.isEmpty ? .kept : .inLog) { () throws(QueueError) in
            try store.setTitle(title, of: conversation)
        }
        if isReplaced { store.scrub() }
        events.countsChanged()
    }

    // MARK: One message

    /// Finds the message with this id and checks that its status allows the action.
    private func find(_ id: String, _ action: UserAction?, _ part: Store.Part) throws(QueueError) -> Row {
        guard let row = try store.find(id, part), !context.core.scheduler.isBeingRemoved(row.sequence, row.conversation) else {
            throw QueueError(.notFound, "message not found: \(id)")
        }
        guard let action else { return row }
        let status = writes.sendingSequences.contains(row.sequence) ? .sending : row.progress.status
        try StatusRule.check(action, on: status)
        return row
    }

    /// Changes a received message. Its status stays.
    func update(_ id: String, _ change: MessageChange) throws(QueueError) {
        let row = try find(id, nil, .whole)
        try ChangeRule.checkIsReceived(row)
        try ChangeRule.check(change, isOf: row)
        let growth = change.growth(of: row)
        try room.checkFile(for: growth)
        // As a recorded message, more text has no part in the space that is reserved for sending.
        if growth > 0 { try store.reserveSpace(for: growth) }
        try transactions.run(durable: true, room: growth > 0 ? .inLog : .kept) { () throws(QueueError) in
            try store.replaceContent(of: row, by: change, now: context.ports.wall())
        }
        store.scrub()
        events.emit(.edited(id: row.id, conversation: row.conversation.text))
    }

    /// Changes a queued or failed message.
    func edit(_ id: String, _ change: MessageChange, ifEdited: Int64) throws(QueueError) {
        let row = try find(id, .edit, .whole)
        try ChangeRule.check(change, isOf: row)
        try ChangeRule.check(ifEdited: ifEdited, row)
        try DraftRule.checkRoom(for: 0, bytes: Int64(change.body.count) - row.bodySize, in: store.totals, context.options)
        try room.checkFile(for: change.growth(of: row))
        try transactions.run(durable: true) { () throws(QueueError) in
            try store.replaceContent(of: row, by: change, now: context.ports.wall())
            if row.progress.perhapsArrived {
                // An earlier attempt may have delivered the old body, not this one.
                var edited = row
                edited.bodySize = Int64(change.body.count)
                var progress = row.progress
                progress.perhapsArrived = false
                try store.update(edited, to: progress)
            }
        }
        context.core.scheduler.edited(row.sequence, row.conversation, bodySize: Int64(change.body.count))
        store.scrub()
        events.emit(.edited(id: row.id, conversation: row.conversation.text))
        events.countsChanged()
    }

    func delete(_ id: String) throws(QueueError) {
        // Found without checking its checksums, so that a damaged message can be deleted.
        let row = try find(id, .delete, .outline)
        try transactions.run(durable: true) { () throws(QueueError) in
            try store.deleteAsked(row, now: context.ports.wall())
        }
        store.scrub()
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
        let now = context.ports.moment
        guard let resolution = try context.core.force(row, hand, now) else { return }
        try transactions.run(durable: true) { () throws(QueueError) in try store.end(row, resolution) }
        writes.perform(context.core.endedUnreachable(row, resolution, now))
    }

    // MARK: Many messages

    /// Deletes the unsent messages of one conversation or of all. A message in flight is deleted when its attempt ends, unless the attempt
    /// succeeds.
    func clear(_ conversation: String?) throws(QueueError) {
        let name = conversation.map { Name($0) }
        // An outcome that is written later would bring its message back.
        try writes.requireSaved()
        let flights = context.core.scheduler.flights.values.filter {
            !$0.isEnded && (name == nil || $0.conversation == name)
        }
        do throws(QueueError) { try clear(name, flights, isTried: true) } catch {
            guard error.isFull else { throw error }
            // On a full disk a few at a time need less room in the write-ahead log, which is checkpointed in between. If this fails, some
            // of the messages may already be deleted.
            defer { clearedInPart(name) }
            while try deleting({ (note) throws(QueueError) in try store.deleteUnsent(of: name, atMost: 4, note) }) > 0 {}
            try clear(name, flights, isTried: false)
        }
        for flight in flights { context.core.markCleared(flight.token) }
        store.scrub()
        context.core.scheduler.cleared(name, context.ports.moment)
        refreshBlocks(name)
        events.emit(.cleared(conversation: conversation))
        events.countsChanged()
    }

    /// Tells the scheduler that some of the messages are gone.
    private func clearedInPart(_ name: Name?) {
        context.core.scheduler.forgetBacklog(context.ports.moment)
        refreshBlocks(name)
        store.scrub()
        events.countsChanged()
    }

    private func refreshBlocks(_ name: Name?) {
        for conversation in name.map({ [$0] }) ?? context.core.scheduler.blockedConversations { writes.refreshBlock(conversation) }
    }

    private func clear(_ name: Name?, _ flights: [Flight], isTried: Bool) throws(QueueError) {
        try deleting(room: isTried ? .inLog : .kept, isTried: isTried) { (note) throws(QueueError) in
            for flight in flights {
                guard let row = context.core.rowsInFlight[flight.token] else { continue }
                var progress = row.progress
                progress.doomed = true
                try store.update(row, to: progress)
            }
            return try store.deleteUnsent(of: name, note)
        }
    }

    /// Runs a transaction that deletes messages and passes them to `note`, for the calls that wait for their outcomes.
    @discardableResult
    private func deleting(
        room: Transactions.Room = .kept, isTried: Bool = false, _ body: ((Row) -> Void) throws(QueueError) -> Int
    ) throws(QueueError) -> Int {
        var gone: [(id: String, conversation: String)] = []
        let count = try transactions.run(durable: true, room: room, isTried: isTried) { () throws(QueueError) in
            gone = []
            return try body { row in
                if gone.count == 2 * EndedMessages.ceiling { gone.removeFirst(EndedMessages.ceiling) }
                gone.append((row.id, row.conversation.text))
            }
        }
        waits.noteDeleted(gone)
        return count
    }

    // MARK: Retrying all

    /// Puts the next messages back. Returns false if there are no more.
    func putBack(_ search: inout FailedMessages.Search) throws(QueueError) -> Bool {
        guard try context.core.putsBack() else { return false }
        return try failed.putBack(&search, round: context.core.round(random: context.ports.random()))
    }
}
