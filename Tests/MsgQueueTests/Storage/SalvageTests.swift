import Foundation
import Testing

@testable import MsgQueue

/// Checking and salvaging sound and damaged stores.
@Suite struct SalvageTests {
    /// A store with messages of every kind, closed or as a crash leaves it.
    private final class Scene {
        let bench: StoreBench
        /// The expected messages, by id.
        var expected: [String: Row] = [:]
        var path: String { bench.directory.store }
        var target: String { bench.directory.file("salvaged.db") }

        init(
            _ count: Int, seed: UInt64 = 1, clean: Bool = true, folded: Bool = true, pageSize: Int64 = StoreCreation.pageSizes[0],
            largeBodies: Bool = false
        ) throws {
            bench = try StoreBench(pageSize: pageSize)
            var random = SeededGenerator(seed)
            var rows: [Row] = []
            for number in 1...count {
                let isLarge = random.chance(10)
                let body = random.bytes(largeBodies ? 3_000 : isLarge ? random.int(1_025...9_000) : random.int(0...400))
                rows.append(
                    try bench.add(
                        Name("c\(number % 7)"), body, id: number % 3 == 0 ? "named-\(number)" : nil,
                        metadata: number % 4 == 0 ? [("k", "v\(number)")] : []))
            }
            try bench.transaction { store in
                for row in rows {
                    guard let old = try store.messages.row(at: row.sequence, .whole) else { continue }
                    var progress = old.progress
                    switch row.sequence % 5 {
                    case 1:
                        (progress.status, progress.attempts, progress.sentAt, progress.lastAttemptAt) = (.sent, 1, 7, 6)
                    case 2:
                        (progress.status, progress.attempts) = (.failed, 2)
                        for number in [UInt32(1), 2] {
                            try store.outcomes.write(
                                Attempt(
                                    number: number, startedAt: 5, duration: 3, result: .rejected, kind: .rejected, code: 400, text: "no",
                                    arrival: .no), of: row.sequence)
                        }
                    case 3: (progress.status, progress.attempts, progress.sentAt, progress.readAt) = (.read, 1, 7, 9)
                    default: continue
                    }
                    try bench.move(old, to: progress)
                }
                if folded { try store.counts.fold() }
            }
            for row in rows { expected[row.id] = try bench.row(row.sequence) }
            bench.close(clean: clean)
        }

        /// Returns the files of the store with their content.
        func files() throws -> [String: [UInt8]] {
            var files: [String: [UInt8]] = [:]
            for name in bench.directory.names { files[name] = try FileBytes.read(bench.directory.file(name)) }
            return files
        }

        func change(_ name: String = "outbox.db", _ body: (inout [UInt8]) -> Void) throws {
            var bytes = try FileBytes.read(bench.directory.file(name))
            body(&bytes)
            try FileBytes.write(bytes, to: bench.directory.file(name))
        }

        /// Returns the messages of the salvaged store, each of which must be as it was written.
        func salvaged(ledgerToo: Bool = true) throws -> (ids: Set<String>, report: MessageQueue.CheckReport) {
            let before = try files()
            let report = try MessageQueue.salvage(from: path, to: target)
            defer { unlink(target) }
            for (name, bytes) in before { #expect(try FileBytes.read(bench.directory.file(name)) == bytes) }
            #expect(bench.directory.names == (before.keys + ["salvaged.db"]).sorted())
            let after = try MessageQueue.check(path: target)
            #expect(after.isSound, "\(after.text)")
            #expect(after.whole == report.whole)
            let store = try Store(path: target, options: Options())
            defer { store.close(clean: true) }
            var ids = Set<String>()
            for (id, expected) in expected {
                guard let sequence = try store.messages.sequence(of: id) else { continue }
                let row = try #require(try store.messages.row(at: sequence, .whole))
                #expect(Same(row) == Same(expected))
                let attempts = try store.attempts.list(of: row).filter { $0.result == .rejected }.map(\.number)
                #expect(attempts == (row.progress.status == .failed ? [1, 2] : []) || !ledgerToo)
                ids.insert(id)
            }
            #expect(ids.count == report.whole)
            #expect(store.state.nextSequence > Int64(expected.count))
            return (ids, report)
        }
    }

    /// The fields of a row that a user can see.
    private struct Same: Equatable {
        let sequence: Int64
        let id: String
        let conversation: Name
        let body: [UInt8]
        let metadata: String?
        let status: MessageStatus
        let hashes: [Int64]

        init(_ row: Row) {
            (sequence, id, conversation) = (row.sequence, row.id, row.conversation)
            (body, metadata, status) = (row.body, row.metadataText, row.progress.status)
            hashes = [row.stateHash, row.contentHash, row.createdAt, Int64(row.progress.attempts), row.progress.readAt]
        }
    }

    @Test(arguments: [(true, true), (false, true), (false, false)])
    func D15_a_sound_store_is_reported_as_sound_and_copied_completely(clean: Bool, folded: Bool) throws {
        let scene = try Scene(120, clean: clean, folded: folded)
        let before = try scene.files()
        let report = try MessageQueue.check(path: scene.path)
        #expect(report.isSound, "\(report.text)")
        #expect((report.whole, report.damaged, report.missing) == (120, 0, 0))
        #expect(report.text == "120 messages, no damage found.")
        #expect(try scene.files() == before)
        let (ids, salvage) = try scene.salvaged()
        #expect(ids == Set(scene.expected.keys))
        #expect(salvage == report)
    }

    /// Returns the messages that can be read by id from a store that was not checked before.
    private func readable(_ path: String, _ ids: some Sequence<String>) -> Set<String> {
        guard let store = try? InspectedStore(path) else { return [] }
        defer { store.close() }
        var found = Set<String>()
        for id in ids {
            guard let sequence = try? store.reader.messages.sequence(of: id), let row = try? store.reader.messages.row(at: sequence, .whole)
            else {
                continue
            }
            if row.id == id { found.insert(id) }
        }
        return found
    }

    @Test func D15_random_damage_loses_only_the_damaged_messages() throws {
        let seed = UInt64(ProcessInfo.processInfo.environment["MSGQ_SEED"] ?? "") ?? 20_261_122
        let rounds = ProcessInfo.processInfo.environment["MSGQ_SOAK"] != nil ? 2_000 : 60
        print("seed \(seed)")
        var random = SeededGenerator(seed)
        var (lost, readableCount, refused) = (0, 0, 0)
        for shape in [(clean: true, folded: true), (clean: false, folded: true), (clean: true, folded: false)] {
            let scene = try Scene(300, seed: seed, clean: shape.clean, folded: shape.folded)
            let original = try FileBytes.read(scene.path)
            for round in 0..<rounds / 3 {
                try FileBytes.write(original, to: scene.path)
                try scene.change { bytes in
                    for _ in 0..<random.int(1...5) {
                        let page = random.int(0...bytes.count / 4096 - 1) * 4096
                        switch random.int(0...3) {
                        case 0: for index in page..<page + 4096 { bytes[index] = 0 }
                        case 1: bytes.replaceSubrange(page..<page + 4096, with: random.bytes(4096))
                        case 2: bytes[page + random.int(0...4095)] ^= UInt8(1 << random.int(0...7))
                        default:
                            let from = random.int(0...bytes.count / 4096 - 1) * 4096
                            bytes.replaceSubrange(page..<page + 4096, with: Array(bytes[from..<from + 4096]))
                        }
                    }
                }
                let wanted = readable(scene.path, scene.expected.keys)
                do {
                    let (ids, report) = try scene.salvaged(ledgerToo: false)
                    let left = wanted.subtracting(ids)
                    #expect(left.isEmpty, "seed \(seed), round \(round): \(left.count) were left behind")
                    #expect(!report.isSound || ids.count == scene.expected.count)
                    #expect(try MessageQueue.check(path: scene.path).whole == report.whole)
                    lost += scene.expected.count - ids.count
                    readableCount += wanted.count
                } catch let error as QueueError {
                    #expect([.corrupt, .tooNew].contains(error.code), "\(error)")
                    #expect(wanted.isEmpty)
                    refused += 1
                }
            }
        }
        print("\(rounds) stores: \(refused) refused, \(lost) messages lost, \(readableCount) readable by id")
        #expect(refused <= rounds / 10)
    }

    /// Stores of version 0.1 have pages of 4096 bytes.
    @Test(arguments: StoreCreation.pageSizes)
    func D15_a_damaged_header_or_schema_is_replaced_by_the_standard_one(pageSize: Int64) throws {
        let scene = try Scene(60, pageSize: pageSize)
        for range in [0..<100, 0..<4096] {
            try scene.change { bytes in for index in range { bytes[index] = 0xa5 } }
            let (ids, report) = try scene.salvaged()
            #expect(ids == Set(scene.expected.keys))
            #expect(!report.isSound)
        }
    }

    /// VACUUM, which the close of a store that has become much smaller runs, moves the tables to other pages.
    @Test(arguments: StoreCreation.pageSizes)
    func D15_tables_are_found_after_a_vacuum_without_the_first_page(pageSize: Int64) throws {
        let scene = try Scene(400, seed: 3, pageSize: pageSize, largeBodies: pageSize == 4096)
        try scene.bench.reopen()
        // The second one is stored as numbers.
        let gone = ["gone", MessageID.make(sequence: 3, now: 1_700_000_000_000, random: 4711)]
        try scene.bench.transaction { store in
            for id in gone { try store.recentIDs.add(id, of: 3, isReceived: false, now: 1_700_000_000_000) }
        }
        scene.bench.close()
        do {
            let plain = try PlainDatabase(scene.path)
            let before = try plain.rows("SELECT name, rootpage FROM sqlite_schema ORDER BY name")
            try plain.rows("VACUUM")
            try plain.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            #expect(try plain.rows("SELECT name, rootpage FROM sqlite_schema ORDER BY name") != before)
        }
        #expect(try MessageQueue.check(path: scene.path).isSound)
        for range in [0..<16, 0..<Int(pageSize)] {
            try scene.change { bytes in for index in range { bytes[index] = 0 } }
            let (ids, report) = try scene.salvaged()
            #expect(ids == Set(scene.expected.keys), "\(report.text)")
            #expect(!report.isSound && !report.text.contains("lost"), "\(report.text)")
        }
        try MessageQueue.salvage(from: scene.path, to: scene.target)
        let store = try Store(path: scene.target, options: Options())
        defer { store.close(clean: true) }
        for id in gone { #expect(try store.recentIDs.isReceived(id, since: 0) == false) }
    }

    /// The last commit of the log empties the first page and says that the database has four thousand million pages.
    @Test func D15_a_log_that_claims_too_many_pages_does_not_delay_a_salvage() throws {
        let scene = try Scene(60, clean: false)
        try scene.change("outbox.db-wal") { log in
            func number(_ offset: Int) -> UInt32 { log[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) } }
            func put(_ value: UInt32, _ offset: Int) {
                for index in 0..<4 { log[offset + index] = UInt8(truncatingIfNeeded: value >> UInt32(24 - 8 * index)) }
            }
            let (header, frameHeader, page) = (32, 24, Int(StoreCreation.pageSizes[0]))
            var (frame, next) = (0, header)
            while next + frameHeader + page <= log.count, number(next + 8) == number(16), number(next) != 0 {
                (frame, next) = (next, next + frameHeader + page)
            }
            put(1, frame)
            put(.max, frame + 4)
            for offset in frame + frameHeader..<next { log[offset] = 0 }
            let before = frame == header ? 24 : frame - page - frameHeader + 16
            var (first, second) = (number(before), number(before + 4))
            let isBigEndian = number(0) & 1 == 1
            for offset in Array(stride(from: frame, to: frame + 8, by: 8)) + Array(stride(from: frame + frameHeader, to: next, by: 8)) {
                let (left, right) = (number(offset), number(offset + 4))
                first = first &+ (isBigEndian ? left : left.byteSwapped) &+ second
                second = second &+ (isBigEndian ? right : right.byteSwapped) &+ first
            }
            put(first, frame + 16)
            put(second, frame + 20)
        }
        try scene.change { database in for index in 0..<4096 { database[index] = 0 } }
        let report = try MessageQueue.salvage(from: scene.path, to: scene.target)
        #expect(report.whole > 0)
        #expect(!report.isSound)
    }

    @Test func D15_a_log_of_another_database_is_ignored_and_reported() throws {
        let scene = try Scene(30)
        let other = try StoreBench()
        for _ in 0..<9 { try other.add("x", [1, 2, 3]) }
        other.close(clean: false)
        try FileManager.default.copyItem(atPath: other.directory.file("outbox.db-wal"), toPath: scene.path + "-wal")
        #expect(refusal { _ = try Store(path: scene.path, options: Options()) } == .corrupt)
        let (ids, report) = try scene.salvaged()
        #expect(ids == Set(scene.expected.keys))
        #expect(!report.isSound)
        #expect(report.text.contains("does not belong"))
    }

    @Test func D15_the_content_of_a_lost_log_is_reported_and_its_sequences_are_not_used_again() throws {
        let running = TemporaryDirectory()
        let crashed = TemporaryDirectory()
        let queue = try MessageQueue(path: running.store, options: MessageQueue.Options(mode: .manual))
        for number in 1...20 { try queue.enqueue("message \(number)") }
        for name in running.names { try FileManager.default.copyItem(atPath: running.file(name), toPath: crashed.file(name)) }
        try queue.syncClose()
        let log = crashed.file("outbox.db-wal")
        let bytes = try FileBytes.read(log)
        truncate(log, bytes.count / 2)
        let report = try MessageQueue.check(path: crashed.store)
        #expect((1..<20).contains(report.whole))
        #expect((report.firstMissing, report.lastMissing) == (Int64(report.whole) + 1, 20))
        #expect(report.missing == 20 - report.whole)
        #expect(!report.isSound)
        #expect(try MessageQueue.salvage(from: crashed.store, to: crashed.file("new.db")) == report)
        let salvaged = try MessageQueue(path: crashed.file("new.db"), options: MessageQueue.Options(mode: .manual))
        #expect(try salvaged.counts().queued == report.whole)
        let id = try salvaged.enqueue("later")
        #expect(try salvaged.message(id: id).sequence > 20)
        try salvaged.syncClose()
        // Without the log their number is not known.
        unlink(log)
        unlink(crashed.file("outbox.db-tail"))
        let blind = try MessageQueue.check(path: crashed.store)
        #expect((blind.firstMissing, blind.lastMissing, blind.missing) == (Int64(blind.whole) + 1, nil, 0))
        #expect(!blind.isSound)
    }

    @Test func D15_interrupted_attempts_are_unknown_and_removed_ids_are_remembered() throws {
        let scene = try Scene(10)
        try scene.bench.reopen()
        try scene.bench.transaction { store in
            try store.attempts.begin(attempt: 1, of: 4, at: 99)
            try store.recentIDs.add("gone", of: 1, isReceived: false, now: Int64.max / 2)
        }
        scene.bench.close(clean: false)
        try MessageQueue.salvage(from: scene.path, to: scene.target)
        let queue = try MessageQueue(path: scene.target, options: MessageQueue.Options(mode: .manual))
        defer { _ = try? queue.syncClose() }
        let id = try #require(scene.expected.first { $0.value.sequence == 4 }?.key)
        #expect(try queue.message(id: id).status == .queued)
        #expect(try queue.attempts(id).map(\.outcome) == [.unknown])
        #expect(refusal { _ = try queue.enqueue("x", id: "gone") } == .duplicate)
    }

    /// Inserts pages above the leaf of a table, each of which leads to the page below it many times.
    private func multiply(_ table: String, in path: String) throws {
        let root = try Int(PlainDatabase(path).number("SELECT rootpage FROM sqlite_schema WHERE name = '\(table)'"))
        var bytes = try FileBytes.read(path)
        let size = Int(StoreCreation.pageSizes[0])
        let start = (root - 1) * size
        func number(_ value: Int, bytes: Int) -> [UInt8] {
            (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
        }
        #expect(bytes[start] == 0x0d)
        bytes += bytes[start..<start + size]
        var child = bytes.count / size
        func inner() -> [UInt8] {
            let count = 30
            let cells = (1...count).map { number(child, bytes: 4) + [UInt8($0)] }.reversed().flatMap { $0 }
            let places = (1...count).flatMap { number(size - 5 * $0, bytes: 2) }
            let header = [0x05, 0, 0] + number(count, bytes: 2) + number(size - 5 * count, bytes: 2) + [0] + number(child, bytes: 4)
            let gap = [UInt8](repeating: 0, count: size - header.count - places.count - cells.count)
            return header + places + gap + cells
        }
        for _ in 0..<14 {
            bytes += inner()
            child = bytes.count / size
        }
        bytes.replaceSubrange(start..<start + size, with: inner())
        bytes.replaceSubrange(28..<32, with: number(bytes.count / size, bytes: 4))
        try FileBytes.write(bytes, to: path)
    }

    @Test(.timeLimit(.minutes(1)), arguments: ["message", "in_flight"], [false, true])
    func D15_pages_that_lead_to_the_same_rows_again_are_read_once(table: String, areRowsDamaged: Bool) throws {
        let bench = try StoreBench()
        for _ in 0..<4 { try bench.add("ana", [1]) }
        try bench.transaction { store in for number in 1...4 { try store.attempts.begin(attempt: 1, of: Int64(number), at: 1) } }
        bench.close()
        let path = bench.directory.store
        if areRowsDamaged { try PlainDatabase(path).rows("UPDATE message SET state_hash = state_hash + 1") }
        try multiply(table, in: path)
        for report in [
            try MessageQueue.check(path: path), try MessageQueue.salvage(from: path, to: bench.directory.file("salvaged.db")),
        ] {
            #expect(!report.isSound)
            #expect(report.whole == (areRowsDamaged ? 0 : 4))
            #expect(report.damaged == (areRowsDamaged ? 4 : 0))
        }
    }

    /// The id looks like a generated one with the highest sequence number.
    private static let foreignID = "01a21a90-e0d6-7067-bfff-ffffffc00000"

    @Test func D15_a_removed_id_of_the_host_uses_up_no_sequence_numbers() throws {
        let scene = try Scene(10)
        try scene.bench.reopen()
        try scene.bench.transaction { try $0.recentIDs.add(Self.foreignID, of: 3, isReceived: true, now: Int64.max / 2) }
        scene.bench.close()
        try MessageQueue.salvage(from: scene.path, to: scene.target)
        let queue = try MessageQueue(path: scene.target, options: MessageQueue.Options(mode: .manual))
        try queue.enqueue("more")
        try queue.syncClose()
        let plain = try PlainDatabase(scene.target)
        #expect(try plain.number("SELECT max(seq) FROM message") < 3 * StateRow.sequenceBlock)
        #expect(try plain.rows("SELECT id FROM recent") == [[Self.foreignID]])
    }

    @Test func Q12_a_removed_id_of_the_host_does_not_prevent_the_repair_of_the_table_state() throws {
        let bench = try StoreBench()
        for _ in 0..<3 { try bench.add() }
        try bench.transaction { try $0.recentIDs.add(Self.foreignID, of: 3, isReceived: true, now: Int64.max / 2) }
        bench.close()
        do { try PlainDatabase(bench.directory.store).rows("UPDATE state SET checksum = checksum + 1") }
        try bench.reopen()
        #expect(try bench.add().sequence < 3 * StateRow.sequenceBlock)
    }

    @Test func D15_a_file_that_is_not_a_store_is_refused_and_no_file_is_created() throws {
        let directory = TemporaryDirectory()
        let names = ["empty", "text", "noise", "other"]
        _ = FileManager.default.createFile(atPath: directory.file("empty"), contents: Data())
        let text = String(repeating: "no store ", count: 9_000)
        _ = FileManager.default.createFile(atPath: directory.file("text"), contents: Data(text.utf8))
        var random = SeededGenerator(7)
        _ = FileManager.default.createFile(atPath: directory.file("noise"), contents: Data(random.bytes(200_000)))
        _ = FileManager.default.createFile(atPath: directory.file("other"), contents: nil)
        do { try PlainDatabase(directory.file("other")).rows("CREATE TABLE message(seq INTEGER PRIMARY KEY, body)") }
        for name in names {
            chmod(directory.file(name), 0o600)
            #expect(refusal { _ = try MessageQueue.check(path: directory.file(name)) } == .corrupt, "\(name)")
            #expect(refusal { _ = try MessageQueue.salvage(from: directory.file(name), to: directory.file("new")) } == .corrupt, "\(name)")
        }
        #expect(refusal { _ = try MessageQueue.check(path: directory.file("none")) } == .invalid)
        #expect(refusal { _ = try MessageQueue.salvage(from: directory.file("none"), to: directory.file("new")) } == .invalid)
        #expect(directory.names == names.sorted())
    }

    @Test func D15_a_store_in_use_is_locked_and_an_existing_target_is_a_conflict() throws {
        let scene = try Scene(3)
        #expect(refusal { _ = try MessageQueue.salvage(from: scene.path, to: scene.path) } == .conflict)
        try scene.bench.reopen()
        #expect(refusal { _ = try MessageQueue.check(path: scene.path) } == .locked)
        #expect(refusal { _ = try MessageQueue.salvage(from: scene.path, to: scene.target) } == .locked)
        #expect(!scene.bench.directory.names.contains("salvaged.db"))
    }
}
