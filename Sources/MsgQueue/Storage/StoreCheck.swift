/// Finds all intact messages of a store and reports the damage.
package final class StoreCheck {
    private let store: InspectedStore
    private let rows: MessageRows
    private var findings: [String]
    private var whole = Set<Int64>()
    private var wholeUnfolded: Int64 = 0
    /// Sequence numbers of damaged rows, and those that are only in an index.
    private var suspects = Set<Int64>()
    /// Sequence numbers whose pages cannot be read.
    private var unreadable = Set<Int64>()
    /// Some page could not be read.
    private var isIncomplete = false
    /// The number of intact messages that `take` refused.
    private var excluded: Int64 = 0
    private var failure: QueueError?
    private(set) var loss: LostTail?

    /// The maximal number of sequence numbers to look up one by one.
    private static let probes: Int64 = 4_000_000
    /// The maximal number of sequence numbers in the text.
    private static let shown = 8

    /// Receives an intact row. Returns false to refuse it.
    typealias Taker = (Row) throws(QueueError) -> Bool

    init(_ store: InspectedStore) {
        self.store = store
        findings = store.findings
        rows = MessageRows(store.database, store.reader, layout: store.layout)
    }

    /// Checks the store at a path.
    package static func run(_ path: String) throws(QueueError) -> CheckReport { try run(path, .current) }

    static func run(_ path: String, _ layout: Layout) throws(QueueError) -> CheckReport {
        let store = try InspectedStore(path, layout)
        defer { store.close() }
        let check = StoreCheck(store)
        try check.collect { _ in true }
        return check.report()
    }

    /// No damage was found so far.
    var isSound: Bool { findings.isEmpty && !isIncomplete && suspects.isEmpty && excluded == 0 }

    /// Sequence numbers up to this one may have been assigned.
    var ceiling: Int64 {
        let assigned = max(store.lastAssigned, loss?.last ?? 0, store.state?.sequenceCeiling ?? 0)
        return min(max(assigned, lastKnown), MessageID.sequenceCeiling)
    }

    /// The highest sequence number of an existing message, intact or damaged.
    private var lastKnown: Int64 { max(whole.max() ?? 0, plausible(suspects).max() ?? 0) }

    func isWhole(_ sequence: Int64) -> Bool { whole.contains(sequence) }

    /// Adds another finding.
    func addFinding(_ finding: String) { findings.append(finding) }

    // MARK: Messages

    /// Passes every intact message to `take`, once each; in the order of their sequence numbers as far as the table is intact. Throws only
    /// what `take` throws.
    func collect(_ take: Taker) throws(QueueError) {
        defer { rows.close() }
        checkStructure()
        isIncomplete = !scan(from: 0, isBackward: false, take)
        if isIncomplete, failure == nil { _ = scan(from: Int64.max, isBackward: true, take) }
        if failure == nil, !isSound {
            collectIndexed()
            searchKnown(take)
            searchAll(take)
        }
        if let failure { throw failure }
        checkCounts()
        checkState()
        checkDerived()
        checkTitles()
        checkHandOvers()
        checkChanges()
        let (loss, finding) = store.loss(lastSequence: lastKnown)
        self.loss = loss
        if let finding { findings.append(finding) }
    }

    /// Reads rows until the end, an unreadable page, or a message that was read before. Returns false in the last two cases.
    private func scan(from start: Int64, isBackward: Bool, _ take: Taker) -> Bool {
        rows.scan(from: start, isBackward: isBackward) { found in
            switch found {
            case .damaged(let sequence):
                suspects.insert(sequence)
                return true
            case .whole(let row):
                guard !whole.contains(row.sequence) else { return false }
                return accept(row, take)
            }
        }
    }

    /// Passes an intact row to `take`. Returns false when `take` failed.
    private func accept(_ row: Row, _ take: Taker) -> Bool {
        suspects.remove(row.sequence)
        unreadable.remove(row.sequence)
        guard whole.insert(row.sequence).inserted else { return true }
        do throws(QueueError) {
            guard try take(row) else {
                excluded += 1
                return true
            }
        } catch {
            failure = error
            return false
        }
        if row.sequence > foldedThrough { wholeUnfolded += 1 }
        return true
    }

    private var foldedThrough: Int64 { store.state?.foldedThrough ?? 0 }

    /// Collects sequence numbers from the indexes and the other tables. Each is read from both ends. One that has a number twice is damaged,
    /// and may not come to an end.
    private func collectIndexed() {
        let (ordered, order): (SQL, SQL) =
            store.layout < Layout.withOrder ? ("message_queued", "seq") : ("message_ordered", "(not_before != 0)")
        for source in [
            "seq FROM message INDEXED BY message_conversation WHERE indexed = 1 ORDER BY conversation",
            "seq FROM message INDEXED BY \(ordered) WHERE indexed = 1 AND status = \(.queued) ORDER BY \(order)",
            "seq FROM message INDEXED BY message_waiting WHERE indexed = 1 AND status = \(.queued) ORDER BY conversation",
            "seq FROM message INDEXED BY message_failed WHERE status = \(.failed) ORDER BY seq",
            "seq FROM message INDEXED BY message_named WHERE named = 1 ORDER BY id",
            "seq FROM message INDEXED BY message_expiring WHERE expires_at != 0 AND status = \(.queued) ORDER BY expires_at",
            "seq FROM large_body ORDER BY seq", "seq FROM in_flight ORDER BY seq",
        ] as [SQL] {
            for direction in ["", " DESC"] {
                var isComplete = false
                do throws(QueueError) {
                    let statement = try Statement("SELECT \(source.text)\(direction)", store.database)
                    defer { statement.finalize() }
                    var found = Set<Int64>()
                    try statement.forEach { () throws(QueueError) in
                        let sequence = statement.int(0)
                        guard found.insert(sequence).inserted else { throw QueueError(.corrupt, "an index has a row twice") }
                        if !whole.contains(sequence) { suspects.insert(sequence) }
                        return true
                    }
                    isComplete = true
                } catch {}
                if isComplete { break }
            }
        }
    }

    /// Returns the numbers that may have been assigned: a damaged index can contain others.
    private func plausible(_ sequences: Set<Int64>) -> Set<Int64> {
        let exact = store.lastAssigned
        let last = exact > 0 ? exact : store.state?.sequenceCeiling ?? MessageID.sequenceCeiling
        return sequences.filter { (1...max(last, 1)).contains($0) }
    }

    private func searchKnown(_ take: Taker) {
        for sequence in suspects.sorted() where failure == nil { search(sequence, take) }
    }

    /// Looks up all sequence numbers that may have been assigned, to find rows that are in no index and that no scan reached.
    private func searchAll(_ take: Taker) {
        let lowest = min(whole.min() ?? 1, plausible(suspects).min() ?? Int64.max)
        let highest = min(ceiling.addingClamped(StateRow.sequenceBlock), MessageID.sequenceCeiling)
        var sequence = lowest <= Self.probes ? 1 : lowest - StateRow.sequenceBlock
        var left = Self.probes
        while sequence <= highest, left > 0, failure == nil {
            if !whole.contains(sequence), !suspects.contains(sequence) {
                left -= 1
                search(sequence, take)
            }
            sequence += 1
        }
    }

    private func search(_ sequence: Int64, _ take: Taker) {
        guard !whole.contains(sequence) else { return }
        switch rows.probe(sequence) {
        case .found(.whole(let row)):
            guard accept(row, take) else { return }
            // Rows that no scan reached may follow.
            _ = scan(from: sequence, isBackward: false, take)
        case .found(.damaged): suspects.insert(sequence)
        case .nothing: break
        case .unreadable:
            isIncomplete = true
            unreadable.insert(sequence)
        }
    }

    // MARK: Structure and counts

    private func checkStructure() {
        // A replaced schema does not match all pages.
        guard !store.isSchemaReplaced else { return }
        var found: [String] = []
        do throws(QueueError) {
            let statement = try store.database.statement("PRAGMA integrity_check(20)")
            try statement.forEach { () throws(QueueError) in
                found.append(statement.text(0))
                return true
            }
        } catch {
            found.append(error.detail)
        }
        guard found != ["ok"] else { return }
        let lines = found.joined(separator: "\n").split(separator: "\n").filter { !$0.hasPrefix("***") }
        let first = lines.first.map { String($0.prefix(120)) } ?? "the check returned nothing"
        findings.append("SQLite reports: \(first)\(lines.count > 1 ? ", and more" : "")")
    }

    /// Adds up the counts by conversation, which say how many messages there are if some cannot be read.
    private func checkCounts() {
        var sum = Counts()
        var isReadable = true
        do throws(QueueError) {
            let columns = ConversationColumn.list(ofLayout: store.layout)
            let statement = try Statement("SELECT \(columns) FROM conversation", store.database)
            defer { statement.finalize() }
            var names = Set<[UInt8]>()
            try statement.forEach { () throws(QueueError) in
                guard names.insert(statement.blob(ConversationColumn.name.position)).inserted else {
                    throw QueueError(.corrupt, "the table conversation has a name twice")
                }
                if let counts = store.reader.counts.checked(Fields(statement)) { sum += counts } else { isReadable = false }
                return true
            }
        } catch {
            isReadable = false
        }
        if !isReadable {
            findings.append("counts of conversations are damaged")
        } else if let state = store.state {
            expected = sum.queued &+ sum.failed &+ sum.history
            if isSound, state.mark == .closed, state.totals != sum { findings.append("the totals do not agree with the counts") }
        }
    }

    /// Compares the row of `state` with the messages.
    private func checkState() {
        guard isSound, let state = store.state, !state.agrees(last: lastKnown) else { return }
        findings.append("the table state does not agree with the messages")
    }

    /// Compares what the store derives from the messages. Damage elsewhere changes both.
    private func checkDerived() {
        guard isSound, let state = store.state else { return }
        do throws(QueueError) {
            findings += try DerivedCheck.compareTables(of: store.database, folded: state.foldedThrough, layout: store.layout).findings
        } catch {
            findings.append("the indexes and counts cannot be read: \(error.detail)")
        }
    }

    private func checkTitles() {
        guard store.hasTitles else { return }
        do throws(QueueError) {
            let damaged = try store.reader.titles.damaged()
            if damaged > 0 { findings.append("the titles of \(damaged) conversations are damaged") }
        } catch {
            findings.append("the titles cannot be read: \(error.detail)")
        }
    }

    private func checkHandOvers() {
        guard store.hasHandOvers else { return }
        do throws(QueueError) {
            let damaged = try store.reader.handOvers.damaged()
            if damaged > 0 { findings.append("damaged rows of the table handed_over: \(damaged)") }
        } catch {
            findings.append("the table handed_over cannot be read: \(error.detail)")
        }
    }

    private func checkChanges() {
        // A schema that was replaced has no feed.
        guard !store.isSchemaReplaced else { return }
        do throws(QueueError) {
            if try !ChangeFeed.isIntact(in: store.database) { findings.append("the feed of changes is damaged") }
        } catch {
            findings.append("the feed of changes cannot be read: \(error.detail)")
        }
    }

    /// The number of folded messages, by the counts; nil: unknown.
    private var expected: Int64?

    // MARK: The report

    /// The number of damaged messages. Unreadable ones are included if the counts, an index or the sequence number show that they existed.
    private var damaged: Int64 {
        let known = plausible(suspects)
        guard isIncomplete || !known.isEmpty else { return excluded }
        let last = max(store.lastAssigned, whole.max() ?? 0, known.max() ?? 0)
        let lost = unreadable.filter { $0 <= last && !known.contains($0) }
        let unfolded = Int64(known.count { $0 > foldedThrough } + lost.count { $0 > foldedThrough })
        let folded = Int64(known.count { $0 <= foldedThrough })
        if let expected {
            return excluded + unfolded + max(folded, min(expected &- (Int64(whole.count) - wholeUnfolded), Self.probes))
        }
        return excluded + unfolded + folded + Int64(lost.count { $0 <= foldedThrough })
    }

    func report() -> CheckReport {
        let damaged = damaged
        var missing: Int64 = 0
        if let first = loss?.first, let last = loss?.last, last >= first { missing = last - first + 1 }
        var sentences: [String] = []
        if isSound {
            sentences.append("\(Words.messages(Int64(whole.count))), no damage found")
        } else {
            var summary = "\(Words.messages(Int64(whole.count) - excluded)) whole, \(damaged) damaged, \(missing) missing"
            let known = plausible(suspects).sorted()
            if !known.isEmpty {
                let list = known.prefix(Self.shown).map { String($0) }.joined(separator: ", ")
                summary += "; damaged sequences: \(list)\(known.count > Self.shown ? ", …" : "")"
            }
            sentences.append(summary)
            sentences += findings
            if excluded > 0 { sentences.append("of several messages with the same id only one was copied") }
        }
        return CheckReport(
            isSound: isSound, whole: Int64(whole.count) - excluded, damaged: damaged, missing: missing, firstMissing: loss?.first,
            lastMissing: loss?.last, text: sentences.joined(separator: ". ") + ".")
    }
}
