/// The list of conversations.
final class ConversationList {
    private let database: Database
    private let state: StateRow
    private let times: TimeIndex
    private let counts: ConversationCounts
    private let messages: MessageTable
    private let pages: MessagePages
    private let titles: Titles
    private var pageEnds = PageEnds()

    init(_ messages: MessageTable, _ pages: MessagePages, _ titles: Titles) {
        (database, state, times, counts) = (messages.database, messages.state, messages.times, messages.counts)
        (self.messages, self.pages, self.titles) = (messages, pages, titles)
    }

    /// A conversation with its newest message by time.
    struct Outline {
        let name: Name
        let counts: Counts
        let last: Row
        let title: String?
    }

    /// The order of the conversations, and the last one before the page.
    enum Page {
        /// In the order of their highest sequence numbers, those before this one; 0: from the first.
        case bySequence(before: Int64)
        /// In the order of their newest messages by time, those before this place; nil: from the first.
        case byTime(before: TimePlace?)
    }

    /// Returns conversations with their newest messages by time, newest first. Only the last page has fewer than `limit`. A damaged newest
    /// message contains only what can be read of it, and is also passed to `damaged`.
    func page(_ page: Page, limit: Int, damaged: (QueueError) -> Void) throws(QueueError) -> [Outline] {
        try counts.write()
        var page = page
        if case .bySequence(let before) = page, before != 0 { page = .bySequence(before: try highestSequence(forNewest: before)) }
        if let outlines = try readConversations(page, limit, damaged) { return outlines }
        return try readConversations(page, limit, mayDiffer: true, damaged) ?? []
    }

    /// Returns one conversation; nil: it has no messages.
    func outline(of name: Name, damaged: (QueueError) -> Void) throws(QueueError) -> Outline? {
        let newest = Filter(
            conversation: name.text, statuses: .all, limit: 1, newestFirst: true, withoutBodies: true, order: .time)
        guard let last = try pages.page(newest, sending: [], damaged: damaged).first else { return nil }
        return Outline(name: name, counts: try counts.counts(of: name), last: last, title: try titles.title(of: name))
    }

    /// Returns the highest sequence number that the conversation had when a page named this message as its newest by time; after a
    /// restart the one that it has now, or that of the message if it is gone.
    private func highestSequence(forNewest sequence: Int64) throws(QueueError) -> Int64 {
        if let known = pageEnds[sequence] { return known }
        guard times.hasTimes else { return sequence }
        let fresh = try newestUnfolded()
        let statement = try database.statement(
            """
            SELECT ifnull(c.last_seq, 0), m.conversation FROM message AS m LEFT JOIN conversation AS c ON c.name = m.conversation
            WHERE m.seq = ?1
            """)
        statement.bind(1, sequence)
        let found = try statement.first { () throws(QueueError) in (statement.int(0), Name(statement.text(1))) }
        guard let found else { return sequence }
        return max(sequence, found.0, fresh[found.1]?.last ?? 0)
    }

    /// A conversation whose newest messages were found.
    private struct Candidate {
        let name: Name
        /// The newest message by time.
        let newest: TimePlace
        /// The message with the highest sequence number.
        let last: Int64
    }

    /// Returns nil when the table names a newest message that is gone, unless `mayDiffer`. The row of this conversation is then corrected.
    private func readConversations(
        _ page: Page, _ limit: Int, mayDiffer: Bool = false, _ damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Outline]? {
        let fresh = try newestUnfolded()
        var outlines: [Outline] = []
        var (page, isAtEnd, isCorrected) = (page, false, false)
        var end: Candidate?
        while outlines.count < limit, !isAtEnd {
            let found: [Candidate]
            switch page {
            case .bySequence(let end): found = try candidates(before: end == 0 ? Int64.max : end, limit - outlines.count, fresh)
            case .byTime(let end):
                found = try candidates(before: end ?? .end, limit - outlines.count, fresh)
            }
            isAtEnd = found.count < limit - outlines.count
            for candidate in found {
                if case .byTime = page { page = .byTime(before: candidate.newest) } else { page = .bySequence(before: candidate.last) }
                if let row = try newestRow(at: candidate.newest.sequence, damaged), row.conversation == candidate.name {
                    end = candidate
                    outlines.append(
                        Outline(
                            name: candidate.name, counts: try counts.counts(of: candidate.name), last: row,
                            title: try titles.title(of: candidate.name)))
                } else if !mayDiffer {
                    _ = try counts.recount(candidate.name)
                    isCorrected = true
                }
            }
        }
        if isCorrected { return nil }
        if case .bySequence = page, let end { pageEnds.note(end.newest.sequence, highest: end.last) }
        return outlines
    }

    /// Returns a message to be shown. A damaged one has only an outline.
    private func newestRow(at sequence: Int64, _ damaged: (QueueError) -> Void) throws(QueueError) -> Row? {
        do throws(QueueError) { return try messages.row(at: sequence, .start) } catch {
            guard error.code == .corrupt, var outline = try messages.row(at: sequence, .outline) else { throw error }
            damaged(error)
            outline.damage = error.detail
            return outline
        }
    }

    /// Returns the conversations with a lower highest sequence number, the highest first. `fresh`: those with unfolded rows.
    private func candidates(before end: Int64, _ limit: Int, _ fresh: [Name: Candidate]) throws(QueueError) -> [Candidate] {
        // Unfolded rows are not in the table `conversation` yet, and have higher sequence numbers than all folded ones.
        var found = Array(fresh.values.filter { $0.last < end }.sorted { $0.last > $1.last }.prefix(limit))
        let statement = try database.statement(
            """
            SELECT name, last_seq, last_time, time_seq FROM conversation INDEXED BY conversation_recent
            WHERE last_seq < ?1 AND last_seq > 0 ORDER BY last_seq DESC
            """)
        statement.bind(1, end)
        try statement.forEach { () throws(QueueError) in
            guard found.count < limit else { return false }
            let (name, last) = (Name(statement.text(0)), statement.int(1))
            let newest = statement.int(2) == 0 ? TimePlace(0, last) : TimePlace(statement.int(2), statement.int(3))
            if fresh[name] == nil { found.append(Candidate(name: name, newest: newest, last: last)) }
            return true
        }
        return found
    }

    /// Returns the conversations whose newest message by time is before a place, the newest first.
    private func candidates(before end: TimePlace, _ limit: Int, _ fresh: [Name: Candidate]) throws(QueueError) -> [Candidate] {
        var found = fresh.values.filter { $0.newest < end }
        let timed = try database.statement(
            """
            SELECT name, last_seq, last_time, time_seq FROM conversation INDEXED BY conversation_time
            WHERE last_time != 0 AND last_time = ?1 AND time_seq < ?2
            UNION ALL SELECT name, last_seq, last_time, time_seq FROM conversation INDEXED BY conversation_time
            WHERE last_time != 0 AND last_time < ?1 ORDER BY 3 DESC, 4 DESC
            """)
        timed.bind(1, end.time)
        timed.bind(2, end.sequence)
        var count = 0
        try timed.forEach { () throws(QueueError) in
            let (name, newest) = (Name(timed.text(0)), TimePlace(timed.int(2), timed.int(3)))
            guard fresh[name] == nil else { return true }
            found.append(Candidate(name: name, newest: newest, last: timed.int(1)))
            count += 1
            return count < limit
        }
        found += try plainCandidates(before: end, limit, fresh)
        return Array(found.sorted { $0.newest > $1.newest }.prefix(limit))
    }

    /// The same for the conversations without rows in the indexes by time: their order is that of their sequence numbers.
    private func plainCandidates(before end: TimePlace, _ limit: Int, _ fresh: [Name: Candidate]) throws(QueueError) -> [Candidate] {
        let statement = try database.statement(
            """
            SELECT c.name, c.last_seq, m.created_at FROM conversation AS c INDEXED BY conversation_recent
            LEFT JOIN message AS m ON m.seq = c.last_seq
            WHERE c.last_seq < ?1 AND c.last_seq > 0 AND c.last_time = 0 ORDER BY c.last_seq DESC
            """)
        statement.bind(1, end.time == Int64.max ? times.plainEnd : try times.firstPlain(from: end))
        var found: [Candidate] = []
        try statement.forEach { () throws(QueueError) in
            let (name, last) = (Name(statement.text(0)), statement.int(1))
            if fresh[name] == nil { found.append(Candidate(name: name, newest: TimePlace(statement.int(2), last), last: last)) }
            return found.count < limit
        }
        return found
    }

    /// Returns the conversations that have unfolded rows.
    private func newestUnfolded() throws(QueueError) -> [Name: Candidate] {
        guard state.unfoldedRows > 0 else { return [:] }
        let statement = try database.statement(
            "SELECT seq, conversation, created_at, time_at FROM message NOT INDEXED WHERE seq > ?1 ORDER BY seq")
        statement.bind(1, state.foldedThrough)
        var found: [Name: Candidate] = [:]
        try statement.forEach { () throws(QueueError) in
            let (sequence, name) = (statement.int(0), Name(statement.text(1)))
            let place = TimePlace(statement.int(3) == 0 ? statement.int(2) : statement.int(3), sequence)
            found[name] = Candidate(name: name, newest: max(found[name]?.newest ?? place, place), last: sequence)
            return true
        }
        guard times.hasTimes else { return found }
        let folded = try database.statement("SELECT last_seq, last_time, time_seq FROM conversation WHERE name = ?1")
        for (name, candidate) in found {
            try folded.bind(1, name.text)
            let stored = try folded.first { () throws(QueueError) in (last: folded.int(0), time: TimePlace(folded.int(1), folded.int(2))) }
            guard let stored else { continue }
            let plain = stored.time.time == 0 ? try times.place(of: stored.last)?.place : nil
            found[name] = Candidate(name: name, newest: max(candidate.newest, plain ?? stored.time), last: candidate.last)
        }
        return found
    }
}
