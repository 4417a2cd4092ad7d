/// Finds every message of a store, and says what is wrong with the rest.
package final class StoreCheck {
    private let remains: StoreRemains
    private let rows: MessageRows
    private var findings: [String]
    private var whole = Set<Int64>()
    private var wholeUnfolded: Int64 = 0
    /// Sequences of rows that are there and are not whole, or that an index knows.
    private var suspects = Set<Int64>()
    /// Sequences on pages that cannot be read.
    private var unreadable = Set<Int64>()
    /// Some page could not be read.
    private var isTorn = false
    private var counts: [Name: Counts] = [:]
    private var excluded: Int64 = 0
    private var failure: QueueError?
    private(set) var loss: LostTail?

    /// So many sequences are looked for one by one at most.
    private static let probes: Int64 = 4_000_000
    /// Sequences shown in the text at most.
    private static let shown = 8

    /// What a row that is whole is given to; false: it was not taken.
    typealias Taker = (Row) throws(QueueError) -> Bool

    init(_ remains: StoreRemains) {
        self.remains = remains
        findings = remains.findings
        rows = MessageRows(remains.database, remains.store, layout: remains.layout)
    }

    /// Checks the store at a path.
    package static func run(_ path: String) throws(QueueError) -> CheckReport {
        let remains = try StoreRemains(path)
        defer { remains.close() }
        let check = StoreCheck(remains)
        try check.collect { _ in true }
        return check.report()
    }

    /// Nothing is wrong so far.
    var isSound: Bool { findings.isEmpty && !isTorn && suspects.isEmpty && excluded == 0 }

    /// Sequences up to this one may have been given out.
    var ceiling: Int64 {
        let given = max(remains.lastGiven, loss?.last ?? 0, remains.state?.sequenceCeiling ?? 0)
        return min(max(given, lastKnown), MessageID.sequenceCeiling)
    }

    /// The highest sequence of a message that is there, whole or not.
    private var lastKnown: Int64 { max(whole.max() ?? 0, plausible(suspects).max() ?? 0) }

    func isWhole(_ sequence: Int64) -> Bool { whole.contains(sequence) }

    /// Something else that is wrong.
    func note(_ finding: String) { findings.append(finding) }

    // MARK: Messages

    /// Gives every message that is whole to `take`, each once; in the order of their sequences as far as the table is in order. Throws only
    /// what `take` throws.
    func collect(_ take: Taker) throws(QueueError) {
        defer { rows.close() }
        checkStructure()
        isTorn = !scan(from: 0, isBackward: false, take)
        if isTorn, failure == nil { _ = scan(from: Int64.max, isBackward: true, take) }
        if failure == nil, !isSound {
            collectIndexed()
            searchKnown(take)
            searchAll(take)
        }
        if let failure { throw failure }
        checkCounts()
        let (loss, finding) = remains.loss(lastSequence: lastKnown)
        self.loss = loss
        if let finding { findings.append(finding) }
    }

    /// Reads on until the end, until what cannot be read, or until a message that was read before.
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

    /// False: it must not go on.
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
        if row.sequence <= foldedThrough {
            counts[row.conversation, default: Counts()].add(
                row.progress.status, isReceived: row.isReceived, amount: 1, bytes: row.bodySize)
        } else {
            wholeUnfolded += 1
        }
        return true
    }

    private var foldedThrough: Int64 { remains.state?.foldedThrough ?? 0 }

    /// What the indexes and the other tables know of messages. Each is read from both ends.
    private func collectIndexed() {
        for source in [
            "seq FROM message INDEXED BY message_conversation WHERE indexed = 1 ORDER BY conversation",
            "seq FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = \(.queued) ORDER BY seq",
            "seq FROM message INDEXED BY message_waiting WHERE indexed = 1 AND status = \(.queued) ORDER BY conversation",
            "seq FROM message INDEXED BY message_failed WHERE status = \(.failed) ORDER BY seq",
            "seq FROM message INDEXED BY message_named WHERE named = 1 ORDER BY id",
            "seq FROM message INDEXED BY message_expiring WHERE expires_at != 0 AND status = \(.queued) ORDER BY expires_at",
            "seq FROM large_body ORDER BY seq", "seq FROM in_flight ORDER BY seq",
        ] as [SQL] {
            for direction in ["", " DESC"] {
                var isComplete = false
                do throws(QueueError) {
                    let statement = try Statement("SELECT \(source.text)\(direction)", remains.database)
                    defer { statement.finalize() }
                    try statement.forEach { () throws(QueueError) in
                        let sequence = statement.int(0)
                        if !whole.contains(sequence) { suspects.insert(sequence) }
                        return true
                    }
                    isComplete = true
                } catch {}
                if isComplete { break }
            }
        }
    }

    /// A damaged index knows sequences that never were.
    private func plausible(_ sequences: Set<Int64>) -> Set<Int64> {
        let exact = remains.lastGiven
        let last = exact > 0 ? exact : remains.state?.sequenceCeiling ?? MessageID.sequenceCeiling
        return sequences.filter { (1...max(last, 1)).contains($0) }
    }

    private func searchKnown(_ take: Taker) {
        for sequence in suspects.sorted() where failure == nil { search(sequence, take) }
    }

    /// Looks for every sequence that there may be: rows that are in no index yet, and rows that a scan does not come to.
    private func searchAll(_ take: Taker) {
        let lowest = min(whole.min() ?? 1, plausible(suspects).min() ?? Int64.max)
        let highest = min(ceiling.addingClamped(Store.sequenceBlock), MessageID.sequenceCeiling)
        var sequence = lowest <= Self.probes ? 1 : lowest - Store.sequenceBlock
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
            // It may be the first of many that no scan came to.
            _ = scan(from: sequence, isBackward: false, take)
        case .found(.damaged): suspects.insert(sequence)
        case .nothing: break
        case .unreadable:
            isTorn = true
            unreadable.insert(sequence)
        }
    }

    // MARK: What is beside the messages

    private func checkStructure() {
        // A schema from elsewhere does not fit all pages.
        guard !remains.isSchemaReplaced else { return }
        var found: [String] = []
        do throws(QueueError) {
            let statement = try remains.database.statement("PRAGMA integrity_check(20)")
            try statement.forEach { () throws(QueueError) in
                found.append(statement.text(0))
                return true
            }
        } catch {
            found.append(error.detail)
        }
        guard found != ["ok"] else { return }
        let lines = found.joined(separator: "\n").split(separator: "\n").filter { !$0.hasPrefix("***") }
        let first = lines.first.map { String($0.prefix(120)) } ?? "the check gave no answer"
        findings.append("SQLite reports: \(first)\(lines.count > 1 ? ", and more" : "")")
    }

    /// Compares the counts by conversation with the messages.
    private func checkCounts() {
        var stored: [Name: Counts] = [:]
        var isReadable = true
        do throws(QueueError) {
            let columns = ConversationColumn.list(ofLayout: remains.layout)
            let statement = try Statement("SELECT \(columns) FROM conversation", remains.database)
            defer { statement.finalize() }
            try statement.forEach { () throws(QueueError) in
                let fields = Fields<ConversationColumn>(statement)
                let counts = remains.layout < 2 ? Counts(fields) : remains.store.checkedCounts(fields)
                if let counts { stored[Name(fields.text(.name))] = counts } else { isReadable = false }
                return true
            }
        } catch {
            isReadable = false
        }
        if !isReadable {
            findings.append("counts of conversations are damaged")
        } else if remains.state != nil {
            expected = stored.values.reduce(0) { $0 &+ $1.queued &+ $1.failed &+ $1.history }
            if isSound, stored.filter({ $0.value != Counts() }) != counts { findings.append("the counts do not fit the messages") }
        }
    }
    /// Messages that are folded, by the counts; nil: not known.
    private var expected: Int64?

    // MARK: The report

    /// Messages that are not whole. What cannot be read counts as far as the counts, the indexes or its sequence say that it was there.
    private var damaged: Int64 {
        let known = plausible(suspects)
        guard isTorn || !known.isEmpty else { return excluded }
        let last = max(remains.lastGiven, whole.max() ?? 0, known.max() ?? 0)
        let torn = unreadable.filter { $0 <= last && !known.contains($0) }
        let unfolded = Int64(known.count { $0 > foldedThrough } + torn.count { $0 > foldedThrough })
        let folded = Int64(known.count { $0 <= foldedThrough })
        if let expected {
            return excluded + unfolded + max(folded, min(expected &- (Int64(whole.count) - wholeUnfolded), Self.probes))
        }
        return excluded + unfolded + folded + Int64(torn.count { $0 <= foldedThrough })
    }

    func report() -> CheckReport {
        let damaged = damaged
        let missing = loss.map { $0.last >= $0.first && $0.first > 0 ? $0.last - $0.first + 1 : 0 } ?? 0
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
            if excluded > 0 { sentences.append("of messages with the same id only one was taken") }
        }
        return CheckReport(
            isSound: isSound, whole: Int64(whole.count) - excluded, damaged: damaged, missing: missing, firstMissing: loss?.first ?? 0,
            lastMissing: loss?.last ?? 0, text: sentences.joined(separator: ". ") + ".")
    }
}
