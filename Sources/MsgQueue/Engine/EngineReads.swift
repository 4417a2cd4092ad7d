/// The calls that read. All enter by `reading`.
extension Engine {
    package func message(id: String) throws(QueueError) -> Message {
        try DraftRule.check(id: id)
        return try reading { () throws(QueueError) in try reader.message(id: id) }
    }

    package func list(_ filter: Filter) throws(QueueError) -> [Message] {
        try FilterRule.check(filter)
        var (page, list): (PageSteps?, QueueReader.List) = (nil, QueueReader.List())
        guard filter.isByWait else {
            try run { () throws(QueueError) in try reader.step(&page, filter, &list) }
            return list.messages
        }
        var waiting = try reading { () throws(QueueError) in reader.waitingPage(filter) }
        try run { () throws(QueueError) in try reader.step(&waiting) }
        try run { () throws(QueueError) in try reader.step(waiting, filter, &list) }
        return list.messages
    }

    package func attempts(_ id: String) throws(QueueError) -> [Attempt] {
        try DraftRule.check(id: id)
        return try reading { () throws(QueueError) in try reader.attempts(id) }
    }

    package func explain(_ id: String) throws(QueueError) -> Explanation {
        try DraftRule.check(id: id)
        return try reading { () throws(QueueError) in try reader.explain(id) }
    }

    package func counts(_ conversation: String?) throws(QueueError) -> Counts {
        if let conversation { try DraftRule.check(conversation: conversation) }
        return try reading { () throws(QueueError) in try reader.counts(conversation) }
    }

    package func changes(after token: ChangeToken?, limit: Int) throws(QueueError) -> ChangePage {
        try FilterRule.check(limit: limit)
        return try reading { () throws(QueueError) in try reader.changes(after: token, limit: limit, transactions) }
    }

    package func conversations(before: Int64, limit: Int) throws(QueueError) -> [Conversation] {
        try FilterRule.check(limit: limit)
        guard before >= 0 else { throw QueueError(.invalid, "before must not be negative, got \(before)") }
        var page = QueueReader.Conversations(.bySequence(before: before), limit: limit)
        try run { () throws(QueueError) in try reader.step(&page) }
        return page.found
    }

    package func conversation(_ name: String) throws(QueueError) -> Conversation {
        try DraftRule.check(conversation: name)
        return try reading { () throws(QueueError) in try reader.conversation(Name(name)) }
    }

    /// Returns conversations in the order of their newest messages by time. `before`: the place of the last one of the page before.
    package func conversationsByTime(before: TimePlace?, limit: Int) throws(QueueError) -> [Conversation] {
        try FilterRule.check(limit: limit)
        if let before { try FilterRule.check(before) }
        var page = QueueReader.Conversations(.byTime(before: before), limit: limit)
        try run { () throws(QueueError) in try reader.step(&page) }
        return page.found
    }

    package func statistics() throws(QueueError) -> (Statistics, Counts) {
        try reading { () throws(QueueError) in try reader.statistics() }
    }

    /// Returns what happened in the last hour.
    package func minutes() throws(QueueError) -> [Minute] {
        try reading { () throws(QueueError) in context.core.statistics.minutes(context.ports.moment) }
    }

    /// The version of SQLite that the process uses.
    package static var sqliteVersion: String { SQLiteVersion.text }

    package func state() throws(QueueError) -> QueueState { try reading { () throws(QueueError) in try reader.state() } }

    package func banner(_ conversation: String?) throws(QueueError) -> String {
        if let conversation { try DraftRule.check(conversation: conversation) }
        return try reading { () throws(QueueError) in try reader.banner(conversation) }
    }

    /// Returns the content of a summary event.
    func summary() throws(QueueError) -> (Counts, Network) {
        try reading { () throws(QueueError) in (writes.counts, context.core.scheduler.gate.network) }
    }
}
