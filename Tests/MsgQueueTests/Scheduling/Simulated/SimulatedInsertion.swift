@testable import MsgQueue

/// Enqueueing, with replaced and dropped messages.
extension SimulatedEngine {
    /// A message to enqueue.
    struct Entry {
        var conversation: Name
        var key: String?
        var id: (_ sequence: Int64) -> String = { "m\($0)" }
        var change: (inout SimulatedMessage) -> Void = { _ in }

        /// The size of the body.
        var size: Int64 {
            var message = SimulatedMessage(sequence: 0, id: "", conversation: conversation)
            change(&message)
            return Int64(message.body.count)
        }
    }

    /// A message that was enqueued.
    struct Enqueued {
        let message: SimulatedMessage
        let isInPlace: Bool
        /// The queued messages that it replaced, and those that were dropped for the messages of its commit before it was stored.
        let replaced: [SimulatedMessage]
        let dropped: [SimulatedMessage]
        /// It is sent directly.
        fileprivate(set) var isDirect = false
    }

    /// Enqueues messages in one commit. Throws `full`. Returns nil if nothing was changed.
    func enqueue(_ entries: [Entry]) throws(QueueError) -> [Enqueued]? {
        removing = []
        guard isReady() else { return nil }
        var dropped = try victims(for: entries)
        for message in dropped { store.delete(message.sequence) }
        var stored: [Enqueued] = []
        for entry in entries {
            stored.append(insert(entry, dropped))
            dropped = []
        }
        removing = stored.flatMap { ($0.replaced + $0.dropped).map(\.id) }
        guard commit() else { return nil }
        return announce(stored)
    }

    func enqueue(
        _ conversations: [Name], key: String? = nil, _ change: @escaping (inout SimulatedMessage) -> Void
    ) throws(QueueError) -> [Enqueued]? {
        try enqueue(
            conversations.map { conversation in
                // A message has an id of its own also in the place of another.
                keyed += key == nil ? 0 : 1
                let suffix = key == nil ? "" : "-\(keyed)"
                return Entry(conversation: conversation, key: key, id: { "m\($0)\(suffix)" }, change: change)
            })
    }

    /// The sequences of messages that must not be replaced or dropped.
    var heldSequences: Set<Int64> { sendingSequences.union(unsaved.map(\.sequence)) }

    private func plan(_ entry: Entry) -> ReplaceRule.Plan {
        guard let key = entry.key else { return ReplaceRule.Plan() }
        let held = heldSequences
        return ReplaceRule.plan(store.queued(withKey: key, in: entry.conversation), isSending: held.contains)
    }

    private func insert(_ entry: Entry, _ dropped: [SimulatedMessage]) -> Enqueued {
        let plan = plan(entry)
        let replaced = plan.replaced.compactMap { store[$0] }
        for old in replaced where old.sequence != plan.place { store.removeReplaced(old) }
        let change: (inout SimulatedMessage) -> Void = { message in
            entry.change(&message)
            message.replaceKey = entry.key
        }
        guard let old = replaced.first(where: { $0.sequence == plan.place }) else {
            let message = store.insert(entry.conversation, id: entry.id, change)
            return Enqueued(message: message, isInPlace: false, replaced: replaced, dropped: dropped)
        }
        return Enqueued(message: store.replace(old, id: entry.id, change), isInPlace: true, replaced: replaced, dropped: dropped)
    }

    /// Returns the messages to drop for the new ones.
    private func victims(for entries: [Entry]) throws(QueueError) -> [SimulatedMessage] {
        guard options.limitMessages > 0 || options.limitBytes > 0 else { return [] }
        let (need, replaced) = need(of: entries)
        let held = heldSequences.union(replaced)
        let decision = try RoomRule.decide(need, in: store.totals, held: Int64(held.count), file: 0, options)
        guard case .drop(let excess) = decision else { return [] }
        var (victims, left): ([SimulatedMessage], RoomRule.Room) = ([], excess)
        for sequence in store.queued where !left.isDropped && !held.contains(sequence) {
            guard let message = store[sequence] else { continue }
            left.drop(bytes: Int64(message.body.count))
            victims.append(message)
        }
        guard left.isDropped else { throw RoomRule.full(need, excess, in: store.totals, file: 0, options) }
        return victims
    }

    private func need(of entries: [Entry]) -> (RoomRule.Room, replaced: Set<Int64>) {
        var need = RoomRule.Room()
        var replaced = Set<Int64>()
        var last: [String: Entry] = [:]
        for entry in entries {
            if let key = entry.key {
                last["\(entry.conversation.text)\n\(key)"] = entry
            } else {
                need.messages += 1
                need.bytes += entry.size
            }
        }
        for entry in last.values {
            let old = plan(entry).replaced.compactMap { store[$0] }
            need.messages += 1 - Int64(old.count)
            need.bytes += old.reduce(entry.size) { $0 - Int64($1.body.count) }
            replaced.formUnion(old.map(\.sequence))
        }
        return (need, replaced)
    }

    // MARK: After the commit

    private func announce(_ stored: [Enqueued]) -> [Enqueued] {
        var ahead: [Name: Int] = [:]
        for entry in stored where !entry.isInPlace { ahead[entry.message.conversation, default: 0] += 1 }
        return stored.map { given in
            var entry = given
            let message = entry.message
            for old in entry.dropped { handle(core.dropped(old.row, now)) }
            for old in entry.replaced { handle(core.replaced(old.row, by: message.id, at: message.sequence, now)) }
            if entry.isInPlace {
                entry.isDirect = scheduler.goesDirect(message.conversation, inPlaceOf: message.sequence) ?? isFirst(message)
                scheduler.replaced(by: message.head, message.conversation, goesDirect: entry.isDirect, now)
            } else {
                let own = ahead[message.conversation] ?? 1
                let isFirst = isFirst(message, of: own)
                entry.isDirect = scheduler.goesDirect(message.conversation) ?? isFirst
                let isEarly = scheduler.startsBeforeScan(message.conversation, now)
                ahead[message.conversation] = own - 1
                scheduler.enqueued(
                    message.head, message.conversation, goesDirect: entry.isDirect, isFirst: isFirst && isEarly, now)
            }
            expect(expiry: message.expiresAt)
            return entry
        }
    }

    private func isFirst(_ message: SimulatedMessage, of own: Int) -> Bool {
        let sending = scheduler.flights.values.count { !$0.isEnded && $0.conversation == message.conversation }
        return store.count(of: message.conversation) - sending <= own
    }

    private func isFirst(_ message: SimulatedMessage) -> Bool {
        let sending = sendingSequences
        return !(store.lanes[message.conversation] ?? []).contains { $0 < message.sequence && !sending.contains($0) }
    }
}
