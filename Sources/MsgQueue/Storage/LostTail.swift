/// The lost end of a store's log.
package struct LostTail: Sendable, Equatable {
    /// The first lost sequence number; nil: none is lost, only changes are. And the last; nil: unknown.
    package let first: Int64?
    package let last: Int64?
    package let text: String
}

/// Decides whether a log belongs to a database: each log starts with a new generation and names the previous one as its base, which the
/// database must have.
struct LogBinding {
    /// From the database file itself; nil: unreadable, for example because the power failed during a checkpoint.
    private(set) var rawGeneration: Int64?
    private(set) var isRawOpen: Bool?
    /// Generation and base in the log's first commit; nil: it did not write them.
    private(set) var first: (generation: Int64, base: Int64)?
    private var generations: Set<Int64> = []

    init() {}

    /// `page`: that of the table `state`, with the log applied.
    init(_ view: StoreView, page: UInt32) throws(QueueError) {
        if let raw = try Self.rawState(view, page) {
            rawGeneration = raw.generation
            isRawOpen = raw.mark == .open
        }
        guard let log = view.log, let commit = log.commits.first else { return }
        for version in try view.versions(of: page) {
            guard let found = StoreState.read(page: version.bytes), found.isWhole else { continue }
            if version.frame < commit.frames { first = (found.state.generation, found.state.logBase) }
            generations.insert(found.state.generation)
        }
    }

    /// Returns the row of `state` in the database file itself. Beside a log, one that does not match its checksum may be written in part.
    private static func rawState(_ view: StoreView, _ page: UInt32) throws(QueueError) -> StoreState? {
        let raw = StoreState.read(page: try view.rawPage(page))
        guard let log = view.log, !log.isEmpty else { return raw?.state }
        if let raw { return raw.isWhole ? raw.state : nil }
        // The database of another log may have the table on another page, by its own schema.
        let alone = try StoreView(path: view.path, database: view.database, ignoringLog: true)
        do throws(QueueError) {
            let database = try Database(view: alone, lengthLimit: Store.lengthLimit)
            defer { database.close() }
            let found = StoreState.read(page: try alone.rawPage(try StoreSurvey.statePage(database)))
            return found.flatMap { $0.isWhole ? $0.state : nil }
        } catch {
            if let unread = alone.readError { throw unread }
            return nil
        }
    }

    /// Throws when the log does not belong to the database.
    func check(_ log: LogImage, _ path: String) throws(QueueError) {
        guard let rawGeneration else { return }
        guard let first, first.base == rawGeneration || generations.contains(rawGeneration) else { throw Self.foreign(log, path) }
    }

    private static func foreign(_ log: LogImage, _ path: String) -> QueueError {
        QueueError(
            .corrupt,
            """
            \(log.path) does not belong to \(path): it was written for another database, or for another state of this one. Nothing was \
            changed. Copy all of these files first. To open \(path) as it is, move \(log.path) and \(StorePath.tail(of: path)) away; to keep \
            what the log holds, put the database back that it was written for
            """)
    }

    /// Whether a side record was written for this database.
    func matches(_ record: SideRecord) -> Bool {
        guard let rawGeneration else { return false }
        // The record may still be that of the previous log, after a checkpoint whose record was not written yet.
        return record.generation == rawGeneration || record.base == rawGeneration || generations.contains(record.generation)
            || record.generation == first?.base
    }
}

extension LostTail {
    /// Returns what a log has lost, by its side record; nil: nothing is missing.
    static func find(
        _ view: StoreView, _ binding: LogBinding, wasOpen: Bool, lastSequence: Int64,
        record read: () throws(QueueError) -> SideRecord.Content
    ) throws(QueueError) -> LostTail? {
        let isNeeded = wasOpen || view.log.map { !$0.isEmpty } ?? false
        if !isNeeded {
            if let log = view.log, log.size > 0 { try checkUnfinished(log, try read(), binding, of: view.path) }
            return nil
        }
        let name = StorePath.log(of: view.path)
        let content = try read()
        guard case .whole(let record) = content, binding.matches(record) else {
            guard wasOpen, view.log == nil || binding.rawGeneration != nil else { return nil }
            guard view.log == nil else {
                if case .empty = content { return nil }
                return LostTail(
                    first: lastSequence + 1, last: nil,
                    text: """
                        \(StorePath.tail(of: view.path)) is missing or damaged: it is unknown whether \(name) is complete. Messages after \
                        sequence \(lastSequence) and changes that were only in the log may be lost
                        """)
            }
            return LostTail(
                first: lastSequence + 1, last: nil,
                text: """
                    \(name) is missing: the queue was not closed when \(view.path) was copied, or the log was removed. Messages after \
                    sequence \(lastSequence) and changes that were only in the log are lost
                    """)
        }
        let salts = view.log?.header?.salts
        let found = view.log.map { Int64($0.frames.count) } ?? 0
        guard record.frames > 0, salts == nil || salts == record.salts, found < record.frames else { return nil }
        let what = view.log == nil ? "is missing" : "is damaged"
        guard record.lastSequence > lastSequence else {
            return LostTail(
                first: nil, last: nil,
                text:
                    "\(name) \(what): \(found) of \(record.frames) pages are intact. No message is missing, but changes to messages are lost"
            )
        }
        return LostTail(
            first: lastSequence + 1, last: record.lastSequence,
            text: """
                \(name) \(what): \(found) of \(record.frames) pages are intact. Messages with the sequences \(lastSequence + 1) to \
                \(record.lastSequence) are missing
                """)
    }

    /// Throws when a log without a complete commit, beside a closed store, belongs to another store or is damaged.
    ///
    /// Otherwise the power failed when the log was started, perhaps before the record was durable. Then nothing is lost, because a change is
    /// reported as durable, and the record counts its pages, only after the database was marked as in use.
    private static func checkUnfinished(
        _ log: LogImage, _ content: SideRecord.Content, _ binding: LogBinding, of path: String
    ) throws(QueueError) {
        switch content {
        case .empty, .damaged: return
        case .whole(let record) where binding.matches(record) && (record.base != binding.rawGeneration || record.frames == 0): return
        case .none, .whole:
            throw QueueError(
                .corrupt,
                """
                \(log.path) has no complete transaction of \(path), which was closed cleanly: it belongs to another store or is damaged. \
                Nothing was changed; if the log is not needed, move it away
                """)
        }
    }
}
