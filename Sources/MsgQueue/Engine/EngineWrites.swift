/// What callers change.
extension Engine {
    // MARK: Messages in

    /// Stores the drafts in this order, all or none; gives their ids.
    package func enqueue(_ drafts: UnsafeBufferPointer<BorrowedDraft>) throws(QueueError) -> [String] {
        try checkProcess()
        for draft in drafts { try DraftRule.check(draft, options) }
        let command = WriteGate.Command(drafts)
        gate.submit(command) { collect in
            lock.lock()
            defer { lock.unlock() }
            let commands = collect()
            run(commands)
            settle()
        }
        return try command.result.get()
    }

    /// Runs what several callers wait for, in one transaction.
    private func run(_ commands: [WriteGate.Command]) {
        guard phase == .open else {
            for command in commands { command.result = .failure(ending) }
            return
        }
        insert(commands)
        // A page that could not be read once is no damage.
        let again = commands.filter { if case .failure(let error) = $0.result { error.code == .corrupt } else { false } }
        guard !again.isEmpty else { return }
        store.forgetPages()
        insert(again)
    }

    /// A message that was inserted, and where its draft is: a batch may have a million of them.
    private struct Inserted {
        let sequence: Int64
        let expiresAt: Int64
        let command: Int
        let draft: Int
    }

    private func insert(_ commands: [WriteGate.Command]) {
        let now = ports.moment
        var inserted: [Inserted] = []
        do throws(QueueError) {
            try checkWritable()
            try takeRoom(for: commands)
            try transaction(durable: true, room: .inLog) { () throws(QueueError) in
                inserted.removeAll(keepingCapacity: true)
                for (index, command) in commands.enumerated() {
                    do throws(QueueError) {
                        try checkRoom(command.drafts)
                        try checkDuplicates(command.drafts)
                    } catch {
                        // Refused before anything of it was written; the others go on.
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
            }
        } catch {
            for command in commands {
                if case .failure(let refusal) = command.result, refusal.code != .internal { continue }
                command.result = .failure(error)
            }
            return
        }
        announce(inserted, commands, now)
        do throws(QueueError) { try store.foldIfMany() } catch { storageTrouble(error) }
    }

    /// Room on the disk for all of them, so that they can be sent when it is full.
    private func takeRoom(for commands: [WriteGate.Command]) throws(QueueError) {
        var (messages, bytes) = (0, Int64(0))
        for command in commands {
            messages += command.drafts.count
            for draft in command.drafts { bytes += Int64(draft.body.count) }
        }
        try store.takeRoom(messages: messages, bytes: bytes)
    }

    private func checkRoom(_ drafts: UnsafeBufferPointer<BorrowedDraft>) throws(QueueError) {
        guard options.limitMessages > 0 || options.limitBytes > 0 else { return }
        let bytes = drafts.reduce(Int64(0)) { $0 + Int64($1.body.count) }
        try DraftRule.checkRoom(for: Int64(drafts.count), bytes: bytes, in: store.totals, options)
    }

    private func checkDuplicates(_ drafts: UnsafeBufferPointer<BorrowedDraft>) throws(QueueError) {
        var seen = Set<Name>()
        for draft in drafts {
            guard let id = draft.id else { continue }
            if drafts.count > 1, !seen.insert(Name(id)).inserted {
                throw QueueError(.duplicate, "the id \(id) occurs twice in the batch")
            }
            if try store.contains(id) {
                throw QueueError(.duplicate, "the id \(id) is in the store already")
            }
            if try store.remembered(id, since: rememberedSince) != nil {
                throw QueueError(.duplicate, "the id \(id) was sent not long ago")
            }
        }
    }

    /// Tells scheduler and host of messages that are on disk.
    private func announce(_ inserted: [Inserted], _ commands: [WriteGate.Command], _ now: Moment) {
        guard !inserted.isEmpty else { return }
        // Of this commit, not told yet: they do not stand before a message.
        var ahead: [Name: Int64] = [:]
        if inserted.count > 1 { for place in inserted { ahead[commands[place.command].drafts[place.draft].conversation, default: 0] += 1 } }
        for place in inserted {
            let draft = commands[place.command].drafts[place.draft]
            let direct = core.scheduler.goesDirect(draft.conversation) ?? isFirst(draft.conversation, of: ahead[draft.conversation] ?? 1)
            ahead[draft.conversation, default: 1] -= 1
            let head = Head(
                sequence: place.sequence, notBefore: draft.notBefore, expiresAt: place.expiresAt, unmeteredOnly: draft.unmeteredOnly)
            core.scheduler.enqueued(head, draft.conversation, goesDirect: direct, now)
            if place.expiresAt != 0 { nextExpiry = min(nextExpiry, place.expiresAt) }
            guard handler != nil, case .success(let ids) = commands[place.command].result else { continue }
            emit(
                .status(
                    StatusChange(
                        id: ids[place.draft], conversation: draft.conversation.text, from: nil, to: .queued, attempt: 0, failure: nil,
                        at: now.wall)))
        }
        countsChanged()
        core.statistics.enqueued(Int64(inserted.count), now)
    }

    /// A draft's own expiry, or the queue's.
    private func expiry(_ draft: borrowing BorrowedDraft, _ now: Int64) -> Int64 {
        guard draft.expiresAt == 0, options.expiry > 0 else { return draft.expiresAt }
        return max(now, draft.notBefore).subtractingClamped(-options.expiry)
    }

    /// Whether nothing of its conversation waits before a message; `own`: so many queued ones are it and those behind it.
    private func isFirst(_ conversation: Name, of own: Int64) -> Bool {
        do throws(QueueError) {
            let sending = core.scheduler.flights.values.count { !$0.isEnded && $0.conversation == conversation }
            return try store.counts(of: conversation).queued - Int64(sending) <= own
        } catch {
            storageTrouble(error)
            return false
        }
    }

    // MARK: One message

    /// The message with this id, as a person may change it.
    private func find(_ id: String, _ action: PersonalAction?, _ part: Store.Part) throws(QueueError) -> Row {
        guard let row = try store.find(id, part) else {
            throw QueueError(.notFound, "there is no message \(id)")
        }
        guard let action else { return row }
        let status = sendingPlaces.contains(row.sequence) ? .sending : row.progress.status
        try StatusRule.check(action, on: status)
        return row
    }

    package func edit(_ id: String, body: UnsafeRawBufferPointer) throws(QueueError) {
        try DraftRule.check(id: id)
        try DraftRule.check(bodySize: body.count, options)
        try changing { () throws(QueueError) in
            let row = try find(id, .edit, .whole)
            try DraftRule.checkRoom(for: 0, bytes: Int64(body.count) - row.bodySize, in: store.totals, options)
            try transaction(durable: true) { () throws(QueueError) in
                try store.replaceBody(of: row, body, now: ports.wall())
                if row.progress.perhapsArrived {
                    // What perhaps arrived is not this.
                    var progress = row.progress
                    progress.perhapsArrived = false
                    try store.update(row, to: progress)
                }
            }
            countsChanged()
        }
    }

    package func delete(_ id: String) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in
            // Found without a look at its checksums: a damaged message can be removed, too.
            let row = try find(id, .delete, .outline)
            try transaction(durable: true) { () throws(QueueError) in
                try store.fitCounts(to: row, .whole)
                try store.delete(row)
                if !row.progress.status.isUnsent { try store.remember(id, isReceived: row.isReceived, now: ports.wall()) }
            }
            store.scrub()
            refreshBlock(row.conversation)
            core.scheduler.removed(row.sequence, row.conversation, ports.moment)
            emit(.deleted(id: id, conversation: row.conversation.text))
            countsChanged()
        }
    }

    package func retry(_ id: String) throws(QueueError) { try force(id, .retry, .retry) }

    package func sendNow(_ id: String) throws(QueueError) { try force(id, .sendNow, .sendNow) }

    private func force(_ id: String, _ action: PersonalAction, _ hand: Hand) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in
            let row = try find(id, action, .none)
            let now = ports.moment
            guard let resolution = try core.force(row, hand, now) else { return }
            try transaction(durable: true) { () throws(QueueError) in try store.end(row, resolution) }
            perform(core.endedUnreachable(row, resolution, now))
        }
    }

    package func mark(_ id: String, as receipt: MessageStatus) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in
            let row = try find(id, nil, .whole)
            let status = sendingPlaces.contains(row.sequence) ? .sending : row.progress.status
            let earliest = row.isReceived ? row.createdAt : row.progress.sentAt
            let now = ports.wall()
            guard let progress = try StatusRule.receipt(receipt, on: status, of: row.progress, earliest: earliest, now: now) else { return }
            try transaction(durable: true) { () throws(QueueError) in try store.update(row, to: progress) }
            if row.isReceived { pruneIfMany() }
            countsChanged()
            emit(
                .status(
                    StatusChange(
                        id: row.id, conversation: row.conversation.text, from: status, to: progress.status, attempt: 0, failure: nil,
                        at: now)))
        }
    }

    // MARK: Many messages

    /// Removes what is unsent of one conversation or of all; what is being sent goes when its attempt ends, unless that succeeds.
    package func clear(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        let name = conversation.map { Name($0) }
        try changing { () throws(QueueError) in
            // An outcome that is not on disk yet would bring its message back.
            if !unsaved.isEmpty { saveUnsaved() }
            if !unsaved.isEmpty, let storageTrouble { throw storageTrouble }
            let flights = core.scheduler.flights.values.filter {
                !$0.isEnded && (name == nil || $0.conversation == name)
            }
            do throws(QueueError) { try clear(name, flights, isTried: true) } catch {
                guard error.isFull else { throw error }
                // Few at a time need less of the log, which is copied in between. An error may leave some of them removed.
                defer { countsChanged() }
                while try transaction(durable: true, { () throws(QueueError) in try store.deleteUnsent(of: name, atMost: 4) }) > 0 {}
                try clear(name, flights, isTried: false)
            }
            for flight in flights { core.doom(flight.token) }
            store.scrub()
            core.scheduler.cleared(name, ports.moment)
            for conversation in name.map({ [$0] }) ?? core.scheduler.blockedConversations { refreshBlock(conversation) }
            emit(.cleared(conversation: conversation))
            countsChanged()
        }
    }

    private func clear(_ name: Name?, _ flights: [Flight], isTried: Bool) throws(QueueError) {
        try transaction(durable: true, room: isTried ? .inLog : .kept, isTried: isTried) { () throws(QueueError) in
            for flight in flights {
                guard let row = core.flying[flight.token] else { continue }
                var progress = row.progress
                progress.doomed = true
                try store.update(row, to: progress)
            }
            _ = try store.deleteUnsent(of: name)
        }
    }
}
