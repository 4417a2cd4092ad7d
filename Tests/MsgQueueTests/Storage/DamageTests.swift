import Testing

@testable import MsgQueue

/// Damaged rows are detected by their checksums.
@Suite struct DamageTests {
    private func damaged(_ sql: String, size: Int = 100) throws -> StoreBench {
        let bench = try StoreBench()
        let body = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        for _ in 0..<3 { try bench.add("ana", body, metadata: [("k", "value")]) }
        bench.close()
        do {
            let plain = try PlainDatabase(bench.directory.store)
            try plain.rows(sql)
        }
        try bench.reopen()
        return bench
    }

    @Test(arguments: [
        "UPDATE message SET body = CAST(x'61' || substr(body, 2) AS BLOB) WHERE seq = 2",
        "UPDATE message SET body = substr(body, 2) WHERE seq = 2",
        "UPDATE message SET body = x'' WHERE seq = 2", "UPDATE message SET body = NULL WHERE seq = 2",
        "UPDATE message SET body_size = body_size + 1 WHERE seq = 2", "UPDATE message SET id = 'x' || substr(id, 2) WHERE seq = 2",
        "UPDATE message SET conversation = 'amy' WHERE seq = 2", "UPDATE message SET created_at = created_at + 1 WHERE seq = 2",
        "UPDATE message SET edited_at = 1 WHERE seq = 2", "UPDATE message SET not_before = 1 WHERE seq = 2",
        "UPDATE message SET expires_at = 1 WHERE seq = 2", "UPDATE message SET unmetered_only = 1 WHERE seq = 2",
        "UPDATE message SET metadata = '{\"k\":\"Value\"}' WHERE seq = 2", "UPDATE message SET metadata = NULL WHERE seq = 2",
        "UPDATE message SET attempts = 1 WHERE seq = 2", "UPDATE message SET retries_used = 1 WHERE seq = 2",
        "UPDATE message SET due_at = 1 WHERE seq = 2", "UPDATE message SET due_delay = 1 WHERE seq = 2",
        "UPDATE message SET due_boot = 1 WHERE seq = 2", "UPDATE message SET due_uptime = 1 WHERE seq = 2",
        "UPDATE message SET last_attempt_at = 1 WHERE seq = 2", "UPDATE message SET sent_at = 1 WHERE seq = 2",
        "UPDATE message SET sent_duration = 1 WHERE seq = 2", "UPDATE message SET sent_code = 1 WHERE seq = 2",
        "UPDATE message SET flags = 1 WHERE seq = 2", "UPDATE message SET flags = 2 WHERE seq = 2",
        "UPDATE message SET status = 2 WHERE seq = 2", "UPDATE message SET status = 1 WHERE seq = 2",
        "UPDATE message SET status = 99 WHERE seq = 2", "UPDATE message SET attempts = -1 WHERE seq = 2",
        "UPDATE message SET attempts = 1 << 40 WHERE seq = 2", "UPDATE message SET sent_code = 1 << 40 WHERE seq = 2",
        "UPDATE message SET state_hash = state_hash + 1 WHERE seq = 2", "UPDATE message SET content_hash = content_hash + 1 WHERE seq = 2",
    ])
    func Q12_a_changed_row_is_detected_and_the_others_are_read(sql: String) throws {
        let bench = try damaged(sql)
        #expect(refusal { _ = try bench.row(2) } == .corrupt)
        for sequence in [Int64(1), 3] { #expect(try bench.row(sequence)?.body.count == 100) }
    }

    @Test(arguments: [
        "UPDATE large_body SET body = CAST(substr(body, 1, 2500) || x'61' || substr(body, 2502) AS BLOB) WHERE seq = 2",
        "DELETE FROM large_body WHERE seq = 2", "UPDATE large_body SET body = CAST(body || x'61' AS BLOB) WHERE seq = 2",
    ])
    func Q12_a_changed_large_body_is_detected(sql: String) throws {
        let bench = try damaged(sql, size: 5_000)
        #expect(refusal { _ = try bench.row(2) } == .corrupt)
        for sequence in [Int64(1), 3] { #expect(try bench.row(sequence)?.body.count == 5_000) }
    }

    @Test func Q12_a_damaged_message_can_be_set_aside_and_removed() throws {
        let bench = try damaged("UPDATE message SET body = x'00' WHERE seq = 2")
        try bench.transaction { try $0.outcomes.markDamaged(2) }
        #expect(try bench.store.queue.queued(after: 0, limit: 9).map(\.head.sequence) == [1, 3])
        #expect(bench.store.counts.totals.queued == 2)
        #expect(bench.store.counts.totals.failed == 1)
        let row = try #require(try bench.store.messages.row(at: 2, .outline))
        try bench.transaction { try $0.messages.delete(row) }
        #expect(bench.store.counts.totals.failed == 0)
        #expect(try bench.row(2) == nil)
    }

    @Test func Q12_a_flipped_bit_in_the_file_is_detected() throws {
        let bench = try StoreBench()
        let marker = Array("the body that is about to be damaged".utf8)
        try bench.add("ana", Array("another".utf8))
        try bench.add("ana", marker)
        bench.close()
        var bytes = try FileBytes.read(bench.directory.store)
        let place = try #require(FileBytes.find(marker, in: bytes))
        bytes[place + 5] ^= 0x04
        try FileBytes.write(bytes, to: bench.directory.store)
        try bench.reopen()
        #expect(refusal { _ = try bench.row(2) } == .corrupt)
        #expect(try bench.row(1)?.body == Array("another".utf8))
    }

    @Test(arguments: [
        (\StoreState.sequenceCeiling, Int64.max), (\.sequenceCeiling, -1), (\.sequenceCeiling, MessageID.sequenceCeiling + 1),
        (\.foldedThrough, Int64.min), (\.foldedThrough, 4), (\.timedFrom, Int64.min), (\.timedFrom, 5), (\.timedFrom, Int64.max),
    ])
    func Q12_impossible_numbers_in_the_table_state_are_rebuilt(number: WritableKeyPath<StoreState, Int64> & Sendable, value: Int64) throws {
        let bench = try StoreBench()
        for _ in 0..<3 { try bench.add("ana", [1]) }
        bench.close()
        var state = StoreState()
        (state.sequenceCeiling, state.foldedThrough, state.totals.queued, state.totals.unsentBytes) = (3, 3, 3, 3)
        state[keyPath: number] = value
        do { try PlainDatabase(bench.directory.store).rows(state.update) }
        try bench.reopen()
        #expect(bench.store.repair?.contains("the table state") == true)
        #expect(bench.store.counts.totals.queued == 3)
        #expect(try bench.add("ana", [2]).sequence > 3)
        for newestFirst in [true, false] {
            var filter = Filter()
            (filter.order, filter.afterTime, filter.newestFirst) = (.time, newestFirst ? bench.now + 1 : 1, newestFirst)
            #expect(try bench.store.pages.page(filter, sending: []) { _ in }.count == 4)
        }
    }

    @Test func Q12_all_possible_numbers_in_the_table_state_are_kept() throws {
        let bench = try StoreBench()
        for _ in 0..<3 { try bench.add("ana", [1]) }
        bench.close()
        var state = StoreState()
        (state.sequenceCeiling, state.foldedThrough, state.totals.queued, state.totals.unsentBytes) = (3, 3, 3, 3)
        state.timedFrom = 4
        do { try PlainDatabase(bench.directory.store).rows(state.update) }
        try bench.reopen()
        #expect(bench.store.repair == nil)
        #expect(bench.store.state.timedFrom == 4)
    }

    /// Changes values to ones of another type, which another connection cannot write: the table is declared without types meanwhile.
    private func changeTypes(_ path: String, _ update: String) throws {
        let plain = try PlainDatabase(path)
        let table = try #require(try plain.rows("SELECT sql FROM sqlite_schema WHERE name = 'message'").first?.first ?? nil)
        let version = try plain.number("PRAGMA schema_version")
        func declare(_ sql: String, version: Int64) throws {
            let text = sql.replacing("'", with: "''")
            try plain.rows("PRAGMA writable_schema = 1")
            try plain.rows("UPDATE sqlite_schema SET sql = '\(text)' WHERE name = 'message'")
            try plain.rows("PRAGMA schema_version = \(version)")
        }
        let free = table.replacing("NOT NULL", with: "").replacing(") STRICT", with: ")").replacing(" INTEGER ", with: " ANY ")
        try declare(free.replacing("seq ANY", with: "seq INTEGER"), version: version + 1)
        do { try PlainDatabase(path).rows(update) }
        try declare(table, version: version)
    }

    @Test(arguments: [
        "id = CAST(id AS BLOB)", "attempts = NULL", "due_at = NULL", "content_hash = 0.5",
        "state_hash = NULL", "priority = NULL", "metadata = CAST(metadata AS BLOB)", "body = CAST(body AS TEXT)", "time_at = NULL",
    ])
    func Q12_a_value_of_another_type_is_damage_of_its_message_only(change: String) throws {
        let bench = try StoreBench()
        for _ in 0..<3 { try bench.add("ana", Array("hello".utf8), metadata: [("k", "value")]) }
        bench.close()
        try changeTypes(bench.directory.store, "UPDATE message SET \(change) WHERE seq = 2")
        try bench.reopen()
        #expect(refusal { _ = try bench.row(2) } == .corrupt)
        try bench.transaction { try $0.outcomes.markDamaged(2) }
        #expect(bench.store.counts.totals.queued == 2)
        #expect(bench.store.counts.totals.failed == 1)
        #expect(try bench.store.queue.queued(after: 0, limit: 9).map(\.head.sequence) == [1, 3])
        let row = try #require(try bench.store.messages.row(at: 2, .outline))
        try bench.transaction { try $0.messages.deleteAsked(row, now: 1) }
        #expect(try bench.row(2) == nil)
        #expect(bench.store.counts.totals.failed == 0)
    }

    @Test(arguments: ["id = CAST(id AS BLOB)", "conversation = CAST(conversation AS BLOB)", "indexed = NULL", "attempts = NULL"])
    func Q12_the_rebuild_restores_the_types_of_values(change: String) throws {
        let bench = try StoreBench()
        for _ in 0..<3 { try bench.add("ana", Array("hello".utf8)) }
        bench.close()
        try changeTypes(bench.directory.store, "UPDATE message SET \(change) WHERE seq = 2")
        try bench.reopen()
        #expect(bench.store.rebuildIndexes())
        #expect(try bench.row(2)?.conversation == "ana")
        #expect(try bench.store.differences() == [])
        #expect(try bench.rows("PRAGMA integrity_check") == [["ok"]])
    }
}
