import Testing

@testable import MsgQueue

@Suite struct BackupTests {
    private func filled() throws -> StoreBench {
        let bench = try StoreBench()
        for number in 0..<50 { try bench.add(number % 2 == 0 ? "ana" : "ben", [UInt8](repeating: UInt8(number), count: number * 60)) }
        let row = try #require(try bench.row(3, .none))
        var progress = row.progress
        progress.status = .sent
        try bench.transaction { try $0.update(row, to: progress) }
        return bench
    }

    @Test func X12_a_copy_of_a_store_in_use_is_an_ordinary_file() throws {
        let bench = try filled()
        let copy = bench.directory.file("copy.db")
        try bench.store.backup(to: copy)
        let plain = try PlainDatabase(copy)
        #expect(try plain.rows("PRAGMA integrity_check") == [["ok"]])
        #expect(try plain.rows("PRAGMA journal_mode") == [["delete"]])
        #expect(try plain.number("SELECT count(*) FROM message") == 50)
        #expect(try plain.number("SELECT sum(body_size) FROM message") == 60 * 49 * 50 / 2)
        #expect(bench.directory.names == ["copy.db", "outbox.db", "outbox.db-wal"])
    }

    @Test func X12_a_copy_opens_as_a_store_and_both_go_on() throws {
        let bench = try filled()
        let path = bench.directory.file("copy.db")
        try bench.store.backup(to: path)
        try bench.add("after")
        let copy = try Store(path: path, options: Options())
        defer { copy.close(clean: true) }
        #expect(copy.totals.queued == 49)
        #expect(copy.totals.sent == 1)
        #expect(try copy.row(at: 50, .whole)?.body.count == 49 * 60)
        #expect(try copy.counts(of: "ana") == bench.store.counts(of: "ana"))
        #expect(bench.store.totals.queued == 50)
    }

    @Test func X12_an_existing_file_is_never_overwritten() throws {
        let bench = try filled()
        let path = bench.directory.file("copy.db")
        try bench.store.backup(to: path)
        let before = try FileBytes.read(path)
        #expect(refusal { try bench.store.backup(to: path) } == .conflict)
        #expect(refusal { try bench.store.backup(to: bench.directory.store) } == .conflict)
        #expect(try FileBytes.read(path) == before)
        #expect(refusal { try bench.store.backup(to: bench.directory.file("nowhere/copy.db")) } == .invalid)
        #expect(bench.directory.names == ["copy.db", "outbox.db", "outbox.db-wal"])
    }
}
