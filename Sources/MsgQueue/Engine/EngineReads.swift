import Glibc

/// The calls that read. All except `backup` enter by `reading`.
extension Engine {
    package func message(id: String) throws(QueueError) -> Message {
        try DraftRule.check(id: id)
        return try reading { () throws(QueueError) in try reader.message(id: id) }
    }

    package func list(_ filter: Filter) throws(QueueError) -> [Message] {
        try FilterRule.check(filter)
        return try reading { () throws(QueueError) in try reader.list(filter) }
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

    package func conversations(before: Int64, limit: Int) throws(QueueError) -> [Conversation] {
        guard (1...1000).contains(limit) else { throw QueueError(.invalid, "limit must be 1 to 1000, got \(limit)") }
        guard before >= 0 else { throw QueueError(.invalid, "before must not be negative, got \(before)") }
        return try reading { () throws(QueueError) in try reader.conversations(.bySequence(before: before), limit: limit) }
    }

    /// Returns conversations in the order of their newest messages by time. `before`: the place of the last one of the page before.
    package func conversationsByTime(before: TimePlace?, limit: Int) throws(QueueError) -> [Conversation] {
        guard (1...1000).contains(limit) else { throw QueueError(.invalid, "limit must be 1 to 1000, got \(limit)") }
        if let before { try FilterRule.check(before) }
        return try reading { () throws(QueueError) in try reader.conversations(.byTime(before: before), limit: limit) }
    }

    package func statistics() throws(QueueError) -> (Statistics, Counts) {
        try reading { () throws(QueueError) in try reader.statistics() }
    }

    /// Returns the statistics and counts under the store's path.
    package func metrics() throws(QueueError) -> Metrics {
        try reading { () throws(QueueError) in
            let (statistics, counts) = try reader.statistics()
            return Metrics(name: reader.storePath, statistics: statistics, counts: counts)
        }
    }

    /// Returns the metrics of these queues in the Prometheus text format.
    package static func prometheus(_ engines: [Engine]) throws(QueueError) -> String {
        guard Set(engines.map(ObjectIdentifier.init)).count == engines.count else {
            throw QueueError(.invalid, "a queue occurs twice")
        }
        var metrics: [Metrics] = []
        for engine in engines { metrics.append(try engine.metrics()) }
        return Metrics.prometheus(metrics)
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
        try reading { () throws(QueueError) in (writes.counts, context.core.scheduler.network) }
    }

    /// Reads every message and compares it with its checksum, and compares what is derived from them, in small steps with the queue in
    /// use.
    /// Throws `closed` when `isCancelled` returns true.
    func checkInUse(isCancelled: () -> Bool) throws(QueueError) -> CheckReport {
        try reading { () throws(QueueError) in try context.store.requestCheck() }
        defer { context.lock.withLock { context.store.requestedCheck = nil } }
        while true {
            guard !isCancelled() else { throw QueueError(.closed, "the check was cancelled") }
            if let report = try reading({ () throws(QueueError) in try context.store.requestedCheckStep() }) { return report }
            // Let threads that wait for the lock run first.
            usleep(500)
        }
    }

    /// Copies the store in small steps and releases the lock between them, so that other calls wait for one step at most. Throws `closed`
    /// when `isCancelled` returns true.
    package func backup(to path: String, isCancelled: () -> Bool = { false }) throws(QueueError) {
        let copy = try input { () throws(QueueError) in try backups.begin(to: path) }
        do throws(QueueError) {
            while try input({ () throws(QueueError) in try backups.takeStep(of: copy) }) {
                guard !isCancelled() else { throw QueueError(.closed, "the copy was cancelled") }
                // Let threads that wait for the lock run first.
                usleep(100)
            }
            try copy.finish()
        } catch {
            context.lock.withLock { backups.abandon(copy) }
            throw error
        }
    }
}
