import Testing

@testable import MsgQueue

/// The index of the history, compared with the messages themselves.
@Suite struct HistoryIndexTests {
    fileprivate static let conversations: [Name] = ["a", "b", "c"]
    fileprivate static let statusSets: [StatusSet] =
        [
            [.sent], [.delivered], [.read], [.sent, .read], [.queued, .sent], [.failed, .delivered], [.queued, .failed],
            [.sent, .delivered, .read], [.queued, .sending, .sent], MessageStatus.allCases,
        ].map { (statuses: [MessageStatus]) in StatusSet(statuses.map { StatusSet($0) }) }

    /// A store to which random changes are made.
    private final class Scene {
        let bench: StoreBench
        var random: SeededGenerator
        var inFlight: [Int64] = []

        init(_ seed: UInt64) throws {
            bench = try StoreBench()
            random = SeededGenerator(seed)
        }

        func messages() throws -> [(sequence: Int64, conversation: Name, status: StoredStatus)] {
            try bench.rows("SELECT seq, conversation, status FROM message NOT INDEXED ORDER BY seq").map { row in
                let status = try #require(StoredStatus(rawValue: Int64(row[2] ?? "") ?? -1))
                return (Int64(row[0] ?? "") ?? 0, Name(row[1] ?? ""), status)
            }
        }

        func pick(_ statuses: [StoredStatus]) throws -> Row? {
            let fitting = try messages().filter { statuses.contains($0.status) && !inFlight.contains($0.sequence) }
            guard !fitting.isEmpty else { return nil }
            return try bench.row(fitting[random.int(0...fitting.count - 1)].sequence)
        }

        func begin(_ row: Row) throws {
            try bench.store.attempts.begin(attempt: row.progress.attempts + 1, of: row.sequence, at: bench.now)
            inFlight.append(row.sequence)
        }

        /// Ends an attempt: most are successes.
        func end(_ sequence: Int64) throws {
            inFlight.removeAll { $0 == sequence }
            guard let row = try bench.row(sequence) else { return }
            var progress = row.progress
            progress.attempts += 1
            let isSent = random.int(0...9) > 0
            progress.status = isSent ? .sent : .failed
            if isSent { progress.sentAt = bench.now }
            try bench.store.outcomes.end(row, Resolution(fate: isSent ? .sent : .failed, progress: progress))
        }

        func change() throws {
            let store = bench.store
            bench.now += 1_000
            switch random.int(0...11) {
            case 0...2: _ = try bench.insert(HistoryIndexTests.conversations[random.int(0...2)])
            case 3:
                if let row = try pick([.queued]) { try begin(row) }
            case 4...6:
                if let row = try pick([.queued]) {
                    try begin(row)
                    try end(row.sequence)
                }
            case 7:
                if let sequence = inFlight.first { try end(sequence) }
            case 8:
                guard let row = try pick([.sent, .delivered]) else { return }
                var progress = row.progress
                progress.status = row.progress.status == .sent && random.int(0...1) == 0 ? .delivered : .read
                try store.messages.update(row, to: progress)
            case 9:
                if let row = try pick(StoredStatus.allCases) { try store.messages.delete(row) }
            case 10: try store.counts.fold()
            default:
                _ = try store.pruning.prune(keepCount: 12, keepSince: nil, forgetBefore: 0, now: bench.now, damaged: { _ in })
            }
        }

        func checkPages(_ statuses: StatusSet, newestFirst: Bool, _ conversation: Name?) throws {
            let limit = random.int(1...7)
            let sending = Set(inFlight)
            let expected = try messages().filter { message in
                let status: MessageStatus = sending.contains(message.sequence) ? .sending : message.status.status
                return statuses.contains(status) && (conversation == nil || message.conversation == conversation)
            }.map(\.sequence)
            var found: [Int64] = []
            var filter = Filter(conversation: conversation?.text, statuses: statuses, limit: limit, newestFirst: newestFirst)
            while true {
                let page = try bench.store.pages.page(filter, sending: sending) { Issue.record("damaged: \($0.detail)") }
                found += page.map(\.sequence)
                guard let last = page.last, page.count == limit else { break }
                filter.after = last.sequence
            }
            #expect(found == (newestFirst ? expected.reversed() : expected), "\(statuses) \(conversation?.text ?? "-") \(limit)")
        }

        func check() throws {
            #expect(try bench.store.differences() == [])
            for statuses in HistoryIndexTests.statusSets {
                for conversation in [nil, HistoryIndexTests.conversations[random.int(0...2)]] {
                    try checkPages(statuses, newestFirst: random.int(0...1) == 0, conversation)
                }
            }
        }
    }

    private struct Undo: Error {}

    /// Changes a closed store as the sqlite3 shell does.
    private func change(_ bench: StoreBench, _ statements: [String]) throws {
        let plain = try PlainDatabase(bench.directory.store)
        for sql in statements { try plain.rows(sql) }
        try plain.rows("PRAGMA journal_mode=DELETE")
    }

    @Test(arguments: 1...12)
    func H3_pages_by_status_agree_with_the_messages(seed: UInt64) throws {
        let scene = try Scene(seed)
        for round in 0..<60 {
            let before = scene.inFlight
            do {
                try scene.bench.transaction { _ in
                    for _ in 0..<scene.random.int(1...40) { try scene.change() }
                    // Some transactions fail.
                    if scene.random.int(0...4) == 0 { throw Undo() }
                }
            } catch is Undo { scene.inFlight = before }
            try scene.check()
            if round % 20 == 19 {
                // The attempts in flight are interrupted, as after a crash.
                try scene.bench.reopen(clean: round % 40 == 39)
                for attempt in try scene.bench.store.attempts.interrupted() where scene.inFlight.contains(attempt.sequence) {
                    try scene.bench.transaction { try $0.attempts.removeInFlight(attempt.sequence) }
                }
                scene.inFlight = []
                try scene.check()
            }
        }
        try scene.bench.transaction { try $0.history.settle() }
        #expect(try scene.bench.rows("SELECT seq FROM in_flight").map { Int64($0[0] ?? "") } == scene.inFlight.sorted())
        try scene.check()
    }

    @Test func H3_an_older_store_gets_its_index_in_steps() throws {
        let scene = try Scene(7)
        // More than two steps.
        try scene.bench.transaction { _ in
            for number in 0..<2_500 {
                let row = try scene.bench.insert(HistoryIndexTests.conversations[number % 3])
                guard number % 5 != 0 else { continue }
                try scene.begin(row)
                try scene.end(row.sequence)
            }
        }
        scene.bench.close()
        try change(scene.bench, StoreBench.asLayout2 + ["recent_own", "history_in", "history"].map { "DROP TABLE \($0)" })
        try scene.bench.reopen()
        #expect(scene.bench.store.history.isIncomplete)
        try scene.check()
        var steps = 0
        while scene.bench.store.history.isIncomplete {
            try scene.bench.transaction { _ in
                for _ in 0..<5 { try scene.change() }
            }
            _ = try scene.bench.transaction {
                try $0.pruning.prune(keepCount: nil, keepSince: nil, forgetBefore: 0, now: scene.bench.now, damaged: { _ in })
            }
            steps += 1
            try scene.check()
            if steps == 1 {
                try scene.bench.reopen(clean: false)
                scene.inFlight = []
            }
            #expect(steps < 20)
        }
        #expect(steps > 2)
        try scene.bench.transaction { try $0.history.rebuild() }
        try scene.check()
    }

    @Test func H3_a_damaged_index_of_the_history_is_rebuilt() throws {
        let scene = try Scene(3)
        try scene.bench.transaction { _ in
            for _ in 0..<20 {
                let row = try scene.bench.insert("a")
                try scene.begin(row)
                try scene.end(row.sequence)
            }
        }
        scene.bench.close()
        try change(
            scene.bench,
            ["DELETE FROM history WHERE seq % 3 = 0", "INSERT INTO history_in VALUES('a', 3, 5), ('a', 4, 4711)"])
        try scene.bench.reopen()
        try scene.check()
        // While the queue is open the damage is found by the page that it concerns.
        _ = try scene.bench.rows("INSERT INTO history_in VALUES('a', 3, 5)")
        try scene.checkPages(StatusSet(.delivered), newestFirst: false, "a")
        try scene.check()
    }

    /// A record of an attempt that ended otherwise must not hide one that is in flight.
    @Test func X3_settling_keeps_the_record_of_an_attempt_in_flight() throws {
        let scene = try Scene(3)
        let rows = try scene.bench.transaction { store in
            let rows = try (0..<4).map { _ in try scene.bench.insert("a") }
            try store.counts.fold()
            return rows
        }
        try scene.bench.transaction { store in
            for row in rows { try scene.begin(row) }
            for row in rows[..<2] {
                scene.inFlight.removeAll { $0 == row.sequence }
                var progress = row.progress
                (progress.status, progress.attempts, progress.sentAt) = (.sent, 1, scene.bench.now)
                try store.outcomes.end(row, Resolution(fate: .sent, progress: progress))
            }
        }
        #expect(try scene.bench.store.attempts.interrupted().map(\.sequence) == rows[2...].map(\.sequence))
        _ = try scene.bench.rows("DELETE FROM in_flight WHERE seq = \(rows[0].sequence) OR seq = \(rows[2].sequence)")
        _ = try scene.bench.rows("INSERT INTO in_flight VALUES(\(rows[2].sequence), 1, 1)")
        try scene.bench.transaction { try $0.history.settle() }
        #expect(try scene.bench.store.attempts.interrupted().map(\.sequence) == rows[2...].map(\.sequence))
    }

    @Test func H3_a_check_reports_an_index_that_lacks_a_message() throws {
        let scene = try Scene(3)
        try scene.bench.transaction { store in
            let rows = try (0..<20).map { _ in try scene.bench.insert("a") }
            try store.counts.fold()
            for row in rows {
                try scene.begin(row)
                try scene.end(row.sequence)
            }
        }
        scene.bench.close()
        #expect(try StoreCheck.run(scene.bench.directory.store).isSound)
        try change(scene.bench, ["history", "history_in"].map { "DELETE FROM \($0) WHERE seq = 7 OR seq = 8" })
        let report = try StoreCheck.run(scene.bench.directory.store)
        #expect(!report.isSound && report.text.contains("the table history"), "\(report.text)")
    }
}
