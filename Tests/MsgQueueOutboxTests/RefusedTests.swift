import CSQLite
import MsgQueue
import MsgQueueOutbox
import Testing

/// What the queue cannot send, or not keep.
@Suite struct RefusedTests {
    private let directory: Directory
    private let host: HostDatabase
    private let outbox: Outbox

    init() throws {
        directory = try Directory()
        host = try HostDatabase.made(directory)
        outbox = Outbox(connection: host.handle)
    }

    @Test func T5_a_message_over_a_limit_of_the_queue_is_failed_and_whole() async throws {
        let body = [UInt8](repeating: 1, count: 100)
        try outbox.put(MessageQueue.Draft(body, id: "large"))
        try outbox.put(MessageQueue.Draft("after", id: "after"))
        let queue = try directory.queue { $0.limitBody = 10 }
        #expect(try outbox.collect(into: queue) == 2)
        let message = try queue.message(id: "large")
        #expect(message.status == .failed && message.body == body && message.failure?.kind == .local)
        #expect(try queue.message(id: "after").status == .queued && host.waiting.isEmpty)
        try await queue.close()
    }

    @Test func T5_refused_rows_are_not_read_by_each_collection() async throws {
        let queue = try directory.queue()
        let steps = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        defer { steps.deallocate() }
        func collecting() throws -> Int {
            steps.pointee = 0
            sqlite3_progress_handler(
                host.handle, 1,
                { context in
                    context?.assumingMemoryBound(to: Int.self).pointee += 1
                    return 0
                }, steps)
            defer { sqlite3_progress_handler(host.handle, 0, nil, nil) }
            #expect(try outbox.collect(into: queue) == 0)
            return steps.pointee
        }
        let before = try collecting()
        try host.run(
            """
            WITH n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000)
              INSERT INTO msgq_outbox (id, conversation, time_ms, refused, body) SELECT 'r' || x, 'ana', 1, 'by hand', x'00' FROM n
            """)
        #expect(try collecting() < before + 200)
        #expect(try host.waiting.count == 2000)
        try await queue.close()
    }

    @Test func T5_a_message_that_the_queue_has_is_no_failure() async throws {
        let queue = try directory.queue()
        try queue.enqueue(MessageQueue.Draft("here", id: "a"))
        try outbox.put(MessageQueue.Draft("again", id: "a"))
        #expect(try outbox.collect(into: queue) == 1)
        #expect(try queue.message(id: "a").text == "here" && host.waiting.isEmpty)
        try await queue.close()
    }

    /// Rows are deleted by their numbers, which must not be used again.
    @Test func T5_a_table_whose_numbers_could_be_used_again_is_refused() async throws {
        try host.run("DROP TABLE msgq_outbox")
        try host.run(Outbox.schema.replacing(" AUTOINCREMENT", with: ""))
        try outbox.put(MessageQueue.Draft("x", id: "a"))
        let queue = try directory.queue()
        #expect(failure { try outbox.collect(into: queue) }?.code == .corrupt)
        #expect(try queue.ids.isEmpty && host.waiting == ["a"])
        try await queue.close()
    }

    /// The row would be collected again and again.
    @Test func T3_a_trigger_that_keeps_rows_makes_no_message_be_taken_twice() async throws {
        let queue = try directory.queue()
        try outbox.put(MessageQueue.Draft("hello", id: "a"))
        try host.run("CREATE TRIGGER keep BEFORE DELETE ON msgq_outbox BEGIN SELECT RAISE(IGNORE); END")
        for limit in [1, 100] {
            #expect(failure { try outbox.collect(into: queue, limit: limit) }?.code == .conflict)
            #expect(try queue.ids == ["a"] && host.waiting == ["a"])
        }
        try host.run("DROP TRIGGER keep")
        #expect(try outbox.collect(into: queue) == 0)
        #expect(try queue.ids == ["a"] && host.waiting.isEmpty)
        try await queue.close()
    }

    @Test func T5_a_trigger_that_keeps_a_refused_row_makes_no_collection_endless() async throws {
        let queue = try directory.queue()
        try outbox.put(MessageQueue.Draft("hello", id: "a"))
        try host.run("UPDATE msgq_outbox SET unmetered_only = 2")
        try host.run("CREATE TRIGGER keep BEFORE UPDATE ON msgq_outbox BEGIN SELECT RAISE(IGNORE); END")
        #expect(failure { try outbox.collect(into: queue) }?.code == .conflict)
        try host.run("DROP TRIGGER keep")
        #expect(try outbox.collect(into: queue) == 0)
        #expect(try queue.ids.isEmpty && host.waiting == ["a"])
        try await queue.close()
    }

    /// A table without constraints, in which anything may stand.
    @Test func T5_rows_written_by_hand_are_refused_with_a_reason_and_block_nothing() async throws {
        // Without a log, into which the largest row would be written a second time.
        try host.run("DROP TABLE msgq_outbox; PRAGMA journal_mode=DELETE")
        try host.run(
            Outbox.schema.replacing("id TEXT NOT NULL UNIQUE", with: "id TEXT").replacing(" NOT NULL", with: ""))
        let good = ["'id'", "'ana'", "x'41'", "NULL", "NULL", "NULL", "1700000000000", "0", "NULL", "0"]
        let bad: [(column: Int, value: String, reason: String)] = [
            (0, "NULL", "the id is no text"), (0, "x'41'", "the id is no text"), (0, "CAST(x'ff' AS TEXT)", "the id is no text"),
            (0, "CAST(zeroblob(70000) AS TEXT)", "the id is no text"), (0, "''", "the id must not be empty"),
            (0, "'a' || char(0)", "the id contains the control character"),
            (1, "NULL", "the conversation is no text"), (1, "x'00'", "the conversation is no text"),
            (1, "hex(zeroblob(200))", "the conversation has 400 bytes"),
            (2, "NULL", "the body is NULL"), (2, "'text'", "the body is no BLOB"), (2, "1.5", "the body is no BLOB"),
            (2, "zeroblob(314572800)", "the body has 314572800 bytes"),
            (3, "'k=v'", "the metadata is no BLOB"), (3, "x'6b'", "the metadata are not"), (3, "x'6b00'", "the metadata are not"),
            (3, "x'6b0076'", "the metadata are not"), (3, "x'ff007600'", "the metadata are not"),
            (3, "zeroblob(40000000)", "the metadata has"),
            (3, "x'6b0076006b007600'", "the metadata are not"), (3, "x'007600'", "a metadata key must not be empty"),
            (4, "'soon'", "not_before_ms"), (5, "1.5", "not_before_ms"), (6, "NULL", "not_before_ms"), (6, "x'01'", "not_before_ms"),
            (7, "NULL", "priority"), (7, "'high'", "priority"), (7, "-9223372036854775808", "the priority must be"),
            (9, "2", "unmetered_only is not 0 or 1"), (9, "-7", "unmetered_only is not 0 or 1"), (8, "x'6b'", "the replace_key"),
            (9, "'yes'", "priority or unmetered_only"),
        ]
        let columns = "id, conversation, body, metadata, not_before_ms, expires_at_ms, time_ms, priority, replace_key, unmetered_only"
        func insert(_ values: [String]) throws {
            try host.run("INSERT INTO msgq_outbox (\(columns)) VALUES (\(values.joined(separator: ", ")))")
        }
        for (number, (column, value, _)) in bad.enumerated() {
            var values = good
            values[0] = "'bad \(number)'"
            values[column] = value
            try insert(values)
        }
        try insert(good)
        // What the queue keeps as failed, or takes as it is.
        try insert(["'far'", "''", "x''", "x''", "-1", "9223372036854775807", "9223372036854775807", "2147483647", "''", "1"])

        let queue = try directory.queue()
        #expect(try outbox.collect(into: queue) == 2)
        #expect(try queue.ids == ["id", "far"])
        #expect(try queue.message(id: "far").status == .failed && queue.message(id: "id").status == .queued)
        let reasons = try host.rows("SELECT refused FROM msgq_outbox ORDER BY number").map { $0.first ?? nil }
        try #require(reasons.count == bad.count)
        for (reason, row) in zip(reasons, bad) {
            #expect(reason?.hasPrefix(row.reason) == true, "\(row.column) \(row.value): \(reason ?? "NULL")")
        }
        // They are not read again, and a repaired one is.
        #expect(try outbox.collect(into: queue) == 0)
        try host.run("UPDATE msgq_outbox SET body = x'42', refused = NULL WHERE refused LIKE 'the body is no BLOB' AND id = 'bad 11'")
        #expect(try outbox.collect(into: queue) == 1)
        #expect(try queue.message(id: "bad 11").text == "B")
        try await queue.close()
    }

    @Test func T5_a_table_with_more_rows_than_a_round_of_refused_ones_is_read_on() async throws {
        try host.run(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
            INSERT INTO msgq_outbox (id, conversation, body, time_ms) SELECT 'bad ' || i, '', 'text', 1 FROM n
            """)
        try outbox.put(MessageQueue.Draft("x", id: "good"))
        let queue = try directory.queue()
        #expect(try outbox.collect(into: queue) == 1)
        #expect(try queue.ids == ["good"])
        #expect(try host.column("SELECT count(*) FROM msgq_outbox WHERE refused IS NOT NULL") == ["1500"])
        try await queue.close()
    }
}
