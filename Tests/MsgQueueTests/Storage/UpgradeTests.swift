import Foundation
import Testing

@testable import MsgQueue

/// Upgrades of a store: from layouts 2 and 3, of what the first builds of layout 2 lack, and to the next layout, for which these tests have one of their own. The
/// power fails during the checkpoint that brings the upgrade from the log into the database.
@Suite struct UpgradeTests {
    /// The layout that follows the present one.
    private static let next = Layout(
        version: Layout.current.version + 1, objects: (Schema.objects + ["later", "later_time"]).sorted(),
        upgrades: [
            Layout.current.version: Layout.Upgrade(
                statements: [
                    "ALTER TABLE message ADD COLUMN happened_at INTEGER NOT NULL DEFAULT 0", "ALTER TABLE attempt ADD COLUMN place TEXT",
                    "CREATE TABLE later(seq INTEGER PRIMARY KEY, time INTEGER NOT NULL) STRICT", "CREATE INDEX later_time ON later(time)",
                ], objects: ["later", "later_time"])
        ])

    /// `layout2`, `layout3`: stores that builds of these layouts wrote.
    enum Kind: CaseIterable, Sendable { case nextLayout, layout3, layout2, layout2WithoutTables }

    private static let missing = ["DROP TABLE history", "DROP TABLE history_in", "DROP TABLE recent_own", "DROP INDEX message_priority"]

    /// A store before and after an upgrade, and the pages that its first checkpoint writes.
    private final class Scene {
        let bench: StoreBench
        let layout: Layout
        private(set) var expected: [Int64: Row] = [:]
        private(set) var counts = Counts()
        /// The database before the checkpoint.
        private(set) var before: [UInt8] = []
        private(set) var pages: [(number: Int, bytes: [UInt8])] = []
        private(set) var log: [UInt8] = []
        private(set) var record: [UInt8] = []
        var path: String { bench.directory.store }

        init(_ kind: Kind, clean: Bool) throws {
            layout = kind == .nextLayout ? UpgradeTests.next : .current
            bench = try StoreBench()
            if kind == .nextLayout { try fill() } else { try useFixture(kind) }
            if clean, kind == .nextLayout { try closeCleanly() }
            if !clean, kind != .nextLayout { try leaveOpen(isOf2: kind != .layout3) }
            before = try applied()
            let upgraded = try Store(path: path, options: Options(), layout)
            upgraded.close(clean: false)
            (log, record) = (try FileBytes.read(path + "-wal"), try FileBytes.read(path + "-tail"))
            pages = try newest()
        }

        private func fill() throws {
            var rows: [Row] = []
            for number in 0..<24 {
                let body = [UInt8](repeating: UInt8(number), count: number % 6 == 0 ? 3_000 : 30 * number)
                rows.append(try bench.add(Name("c\(number % 3)"), body, id: number % 4 == 0 ? "named-\(number)" : nil))
            }
            try bench.transaction { store in
                for row in rows where row.sequence % 3 != 0 {
                    guard let old = try store.messages.row(at: row.sequence, .whole) else { continue }
                    var progress = old.progress
                    (progress.status, progress.attempts, progress.sentAt) = row.sequence % 3 == 1 ? (.sent, 1, 7) : (.failed, 2, 0)
                    try bench.move(old, to: progress)
                }
                try store.counts.fold()
            }
            for row in rows { expected[row.sequence] = try bench.row(row.sequence) }
            counts = bench.store.counts.totals
            // A clean close would write to the tables of the history.
            bench.close(clean: false)
        }

        private func useFixture(_ kind: Kind) throws {
            bench.close()
            for name in bench.directory.names { try FileManager.default.removeItem(atPath: bench.directory.file(name)) }
            try FileBytes.write(try FileBytes.read(UpgradeTests.fixture(kind == .layout3 ? 3 : 2)), to: path)
            if kind == .layout2WithoutTables {
                let plain = try PlainDatabase(path)
                for sql in UpgradeTests.missing { try plain.rows(sql) }
            }
            let store = try Store(path: path, options: UpgradeTests.readOnly)
            for sequence in 1...store.state.lastSequence { expected[sequence] = try store.messages.row(at: sequence, .whole) }
            counts = store.counts.totals
            store.close(clean: false)
        }

        /// Marks the store as in use, without a log.
        private func leaveOpen(isOf2: Bool) throws {
            let plain = try PlainDatabase(path)
            var state = try closedState(of: plain)
            (state.mark, state.totals) = (.open, Counts())
            guard isOf2 else {
                try plain.rows(state.update)
                return
            }
            // Without the columns that layout 2 does not have.
            let additions = "timed_from, clock_boot, clock_offset, clock_from,\n  clock_through, clock_by,"
            let update = state.update.replacingOccurrences(of: additions, with: "")
            try plain.rows(update.replacingOccurrences(of: ", 0, 0, 0, 0, 0, 0, ''", with: ", ''"))
        }

        private func closedState(of plain: PlainDatabase) throws -> StoreState {
            let text = try plain.rows("SELECT sequence_ceiling, folded_through, generation, log_base FROM state")
            let numbers = text[0].compactMap { $0.flatMap { Int64($0) } }
            var state = StoreState()
            (state.sequenceCeiling, state.foldedThrough, state.generation, state.logBase) = (numbers[0], numbers[1], numbers[2], numbers[3])
            return state
        }

        /// Brings the log into the database and marks it as closed, without the upgrade of an opening.
        private func closeCleanly() throws {
            try FileBytes.write(try applied(), to: path)
            try FileManager.default.removeItem(atPath: path + "-wal")
            try FileManager.default.removeItem(atPath: path + "-tail")
            let plain = try PlainDatabase(path)
            var state = try closedState(of: plain)
            (state.mark, state.totals) = (.closed, counts)
            try plain.rows(state.update)
        }

        /// Returns the database with its log.
        private func applied() throws -> [UInt8] {
            var database = try FileBytes.read(path)
            guard access(path + "-wal", F_OK) == 0 else { return database }
            for page in try newest() { Self.put(page.bytes, page.number, &database) }
            return database
        }

        /// Returns the newest content of each page in the log.
        private func newest() throws -> [(number: Int, bytes: [UInt8])] {
            let bytes = try FileBytes.read(path + "-wal")
            let descriptor = open(path + "-wal", O_RDONLY)
            defer { close(descriptor) }
            let image = try LogImage(descriptor, path: path + "-wal")
            let size = try #require(image.header).pageSize
            var found: [Int: [UInt8]] = [:]
            for (index, number) in image.frames.enumerated() {
                let start = Int(image.offset(ofFrame: index))
                found[Int(number)] = Array(bytes[start..<start + size])
            }
            return found.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        }

        private static func put(_ bytes: [UInt8], _ number: Int, _ database: inout [UInt8]) {
            let start = (number - 1) * bytes.count
            if database.count < start + bytes.count { database += [UInt8](repeating: 0, count: start + bytes.count - database.count) }
            database.replaceSubrange(start..<start + bytes.count, with: bytes)
        }

        /// Those of the pages on which it depends how the others are read: the first one, which has the header, the other pages of the schema,
        /// and the one of `state`.
        func criticalPages() throws -> [Int] {
            let first = try #require(pages.first { $0.number == 1 }).bytes
            func number(_ offset: Int, _ size: Int) -> Int { first[offset..<offset + size].reduce(0) { $0 << 8 | Int($1) } }
            var critical: Set = [1]
            if first[100] == 5 {
                critical.insert(number(108, 4))
                for cell in 0..<number(103, 2) { critical.insert(number(number(112 + 2 * cell, 2), 4)) }
            }
            let plain = try PlainDatabase(path)
            critical.insert(Int(try plain.number("SELECT rootpage FROM sqlite_schema WHERE name = 'state'")))
            return pages.map(\.number).filter(critical.contains)
        }

        /// Writes the image of a power failure: the given pages of the checkpoint are on the disk, whole or `torn`: only some of their
        /// sectors, or others with random bytes.
        func writeImage(_ subset: Set<Int>, torn random: SeededGenerator?) throws {
            for name in bench.directory.names { try FileManager.default.removeItem(atPath: bench.directory.file(name)) }
            var database = before
            for page in pages where subset.contains(page.number) { Self.put(page.bytes, page.number, &database) }
            if var random {
                for page in pages where random.chance(50) {
                    let start = (page.number - 1) * page.bytes.count
                    guard start + page.bytes.count <= database.count else { continue }
                    for sector in stride(from: 0, to: page.bytes.count, by: 512) {
                        let range = start + sector..<start + sector + 512
                        if random.chance(50) { database.replaceSubrange(range, with: page.bytes[sector..<sector + 512]) }
                        if random.chance(5) { database.replaceSubrange(range, with: random.bytes(512)) }
                    }
                }
            }
            try FileBytes.write(database, to: path)
            try FileBytes.write(log, to: path + "-wal")
            try FileBytes.write(record, to: path + "-tail")
        }

        func files() throws -> [String: [UInt8]] {
            Dictionary(uniqueKeysWithValues: try bench.directory.names.map { ($0, try FileBytes.read(bench.directory.file($0))) })
        }

        func check(_ store: Store) throws {
            #expect(store.counts.totals == counts)
            for (sequence, row) in expected {
                let found = try store.messages.row(at: sequence, .whole)
                #expect(found?.id == row.id && found?.body == row.body && found?.progress.status == row.progress.status)
            }
        }
    }

    /// A store of an earlier layout.
    static func fixture(_ layout: Int) -> String {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("fixtures/layout\(layout).db").path
    }

    fileprivate static var readOnly: Options {
        var options = Options()
        options.readOnly = true
        return options
    }

    /// The check, a salvage, an older library and the opening read an image.
    private func examine(_ scene: Scene, _ what: String, salvages: Bool) throws {
        let files = try scene.files()
        let report = try StoreCheck.run(scene.path, scene.layout)
        let messages = Int64(scene.expected.count)
        #expect(report.isSound && report.whole == messages, "\(what): \(report.text)")
        if salvages {
            let salvaged = scene.bench.directory.file("salvaged.db")
            #expect(try StoreSalvage.run(from: scene.path, to: salvaged, scene.layout).whole == messages, "\(what)")
            let copy = try Store(path: salvaged, options: Self.readOnly)
            try scene.check(copy)
            copy.close(clean: false)
            try FileManager.default.removeItem(atPath: salvaged)
        }
        if scene.layout.version > Layout.current.version {
            #expect(refusal { _ = try Store(path: scene.path, options: Options()) } == .tooNew, "\(what)")
        }
        #expect(try scene.files() == files, "\(what)")
        var options = Options()
        options.refuseLostTail = true
        let store = try Store(path: scene.path, options: options, scene.layout)
        #expect(store.loss == nil && store.repair == nil, "\(what): \(store.repair ?? "")")
        try scene.check(store)
        #expect(try store.differences() == [])
        store.close(clean: true)
        let plain = try PlainDatabase(scene.path)
        #expect(try plain.number("PRAGMA user_version") == scene.layout.version, "\(what)")
        #expect(try plain.rows("PRAGMA integrity_check") == [["ok"]], "\(what)")
    }

    private static func subsets(of numbers: [Int]) -> [Set<Int>] {
        (0..<1 << numbers.count).map { mask in Set(numbers.indices.filter { mask >> $0 & 1 == 1 }.map { numbers[$0] }) }
    }

    @Test(arguments: Kind.allCases, [true, false])
    func D17_a_power_cut_in_the_first_checkpoint_after_an_upgrade_loses_nothing(kind: Kind, clean: Bool) throws {
        let scene = try Scene(kind, clean: clean)
        #expect(scene.pages.count >= 3 && scene.pages.contains { $0.number == 1 })
        let isSoak = ProcessInfo.processInfo.environment["MSGQ_SOAK"] != nil
        let numbers = scene.pages.map(\.number)
        try scene.writeImage(Set(numbers), torn: nil)
        let critical = try scene.criticalPages()
        #expect((2...6).contains(critical.count))
        let rest = Set(numbers).subtracting(critical)
        // Every subset of the critical pages, with none or (torn) some of the rest; with --soak with both, and all. Then each page alone, all but each, and some at random.
        var random = SeededGenerator(17)
        func some() -> Set<Int> { Set(numbers.filter { rest.contains($0) && random.chance(50) }) }
        var images: [(subset: Set<Int>, isTorn: Bool)] = []
        for (index, subset) in Self.subsets(of: critical).enumerated() {
            guard isSoak else {
                images.append(index % 2 == 0 ? (subset, false) : (subset.union(some()), true))
                continue
            }
            images += [(subset, false), (subset, true), (subset.union(some()), false), (subset.union(some()), true)]
            images += [(subset.union(rest), false), (subset.union(rest), true)]
        }
        var subsets = [Set(numbers)] + numbers.map { [$0] } + numbers.map { Set(numbers).subtracting([$0]) }
        if isSoak, numbers.count <= 9 { subsets += Self.subsets(of: numbers) }
        subsets += (0..<(isSoak ? 400 : 6)).map { _ in Set(numbers.filter { _ in random.chance(50) }) }
        for (index, subset) in subsets.enumerated() { images += isSoak ? [(subset, false), (subset, true)] : [(subset, index % 2 == 0)] }
        for (index, (subset, isTorn)) in images.enumerated() {
            try scene.writeImage(subset, torn: isTorn ? SeededGenerator(UInt64(index)) : nil)
            let what = "image \(index), pages \(subset.sorted()) of \(numbers)\(isTorn ? ", torn" : "")"
            try examine(scene, what, salvages: isSoak || index % 4 == 0)
        }
    }

    @Test func D17_an_upgrade_adds_columns_tables_and_the_number_of_the_layout() throws {
        let scene = try Scene(.nextLayout, clean: true)
        try scene.writeImage([], torn: nil)
        let store = try Store(path: scene.path, options: Options(), scene.layout)
        #expect(try PlainDatabase.rows("SELECT count(*), sum(happened_at) FROM message", store.database.handle) == [["24", "0"]])
        store.close(clean: true)
        // The layout of a closed store is known, too.
        #expect(try StoreCheck.run(scene.path, scene.layout).isSound)
        #expect(refusal { _ = try StoreCheck.run(scene.path) } == .tooNew)
    }

    @Test(arguments: [true, false])
    func D3_the_log_of_the_upgrade_of_another_store_is_refused(clean: Bool) throws {
        let (scene, other) = (try Scene(.nextLayout, clean: clean), try Scene(.layout2, clean: true))
        try scene.writeImage([], torn: nil)
        try FileBytes.write(other.log, to: scene.path + "-wal")
        let files = try scene.files()
        #expect(refusal { _ = try Store(path: scene.path, options: Options(), scene.layout) } == .corrupt)
        #expect(try scene.files() == files)
        let report = try StoreCheck.run(scene.path, scene.layout)
        #expect(report.whole == 24 && !report.isSound)
    }

    private enum Example: Int, Columns {
        case seq, happenedAt, place

        static let names = columnNames()
        static let added: [Example: (layout: Int64, value: String)] = [.happenedAt: (3, "0"), .place: (4, "NULL")]
    }

    @Test func D17_columns_that_a_store_does_not_have_yet_are_replaced() {
        #expect(Example.list(ofLayout: 2) == "seq, 0, NULL")
        #expect(Example.list(ofLayout: 3) == "seq, happened_at, NULL")
        #expect(Example.list(ofLayout: 4) == "seq, happened_at, place")
    }
}
