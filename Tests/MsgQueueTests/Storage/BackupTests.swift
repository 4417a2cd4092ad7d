import Testing

@testable import MsgQueue

@Suite struct BackupTests {
    private func filled() throws -> StoreBench {
        let bench = try StoreBench()
        for number in 0..<50 { try bench.add(number % 2 == 0 ? "ana" : "ben", [UInt8](repeating: UInt8(number), count: number * 60)) }
        let row = try #require(try bench.row(3, .none))
        var progress = row.progress
        progress.status = .sent
        try bench.transaction { try $0.messages.update(row, to: progress) }
        return bench
    }

    @Test func X12_a_copy_of_an_open_store_is_an_ordinary_file() throws {
        let bench = try filled()
        let copy = bench.directory.file("copy.db")
        try bench.copy(to: copy)
        let plain = try PlainDatabase(copy)
        #expect(try plain.rows("PRAGMA integrity_check") == [["ok"]])
        #expect(try plain.rows("PRAGMA journal_mode") == [["delete"]])
        #expect(try plain.number("SELECT count(*) FROM message") == 50)
        #expect(try plain.number("SELECT sum(body_size) FROM message") == 60 * 49 * 50 / 2)
        #expect(bench.directory.names == ["copy.db", "outbox.db", "outbox.db-tail", "outbox.db-wal"])
    }

    @Test func X12_a_copy_opens_as_a_store_and_both_stay_usable() throws {
        let bench = try filled()
        let path = bench.directory.file("copy.db")
        try bench.copy(to: path)
        try bench.add("after")
        let copy = try Store(path: path, options: Options())
        defer { copy.close(clean: true) }
        #expect(copy.counts.totals.queued == 49)
        #expect(copy.counts.totals.sent == 1)
        #expect(try copy.messages.row(at: 50, .whole)?.body.count == 49 * 60)
        #expect(try copy.counts.counts(of: "ana") == bench.store.counts.counts(of: "ana"))
        #expect(bench.store.counts.totals.queued == 50)
    }

    @Test func X12_an_existing_file_is_never_overwritten() throws {
        let bench = try filled()
        let path = bench.directory.file("copy.db")
        try bench.copy(to: path)
        let before = try FileBytes.read(path)
        #expect(refusal { try bench.copy(to: path) } == .conflict)
        #expect(refusal { try bench.copy(to: bench.directory.store) } == .conflict)
        #expect(try FileBytes.read(path) == before)
        #expect(refusal { try bench.copy(to: bench.directory.file("nowhere/copy.db")) } == .invalid)
        #expect(bench.directory.names == ["copy.db", "outbox.db", "outbox.db-tail", "outbox.db-wal"])
    }

    /// A step is under the lock of the queue.
    @Test func F9_a_step_of_a_backup_copies_at_most_128_pages() throws {
        let bench = try StoreBench()
        for number in 0..<20 { try bench.add("ana", [UInt8](repeating: UInt8(number), count: 200_000)) }
        let path = bench.directory.file("copy.db")
        let copy = try bench.store.copy(to: path)
        var steps = 1
        while try copy.step() { steps += 1 }
        try copy.finish()
        let pages = try PlainDatabase(path).number("PRAGMA page_count")
        #expect(pages > 1_500 && Int64(steps) >= pages / 128)
    }

    @Test func X12_changes_between_two_steps_are_in_the_copy() throws {
        let bench = try StoreBench()
        for number in 0..<40 { try bench.add("ana", [UInt8](repeating: UInt8(number), count: 200_000)) }
        let path = bench.directory.file("copy.db")
        let copy = try bench.store.copy(to: path)
        #expect(try copy.step(), "there is more than one step")
        let first = try #require(try bench.row(1, .none))
        var progress = first.progress
        progress.status = .sent
        try bench.transaction { try $0.messages.update(first, to: progress) }
        try bench.add("ben", [UInt8](repeating: 9, count: 100_000))
        var steps = 1
        while try copy.step() { steps += 1 }
        try copy.finish()
        #expect(steps >= 3)
        let opened = try Store(path: path, options: Options())
        defer { opened.close(clean: true) }
        #expect(opened.counts.totals.queued == 40)
        #expect(opened.counts.totals.sent == 1)
        for sequence in 1...41 { _ = try #require(try opened.messages.row(at: Int64(sequence), .whole), "\(sequence)") }
    }

    @Test func X12_an_aborted_copy_leaves_no_file() throws {
        let bench = try StoreBench()
        for _ in 0..<20 { try bench.add("ana", [UInt8](repeating: 1, count: 200_000)) }
        let copy = try bench.store.copy(to: bench.directory.file("copy.db"))
        #expect(try copy.step())
        copy.abandon()
        #expect(refusal { _ = try copy.step() } == .closed)
        #expect(bench.directory.names == ["outbox.db", "outbox.db-tail", "outbox.db-wal"])
        bench.close()
        try bench.reopen()
        #expect(bench.store.counts.totals.queued == 20)
    }
}
