import Testing

@testable import MsgQueue

/// Compares the lists of columns with the tables: every column survives a write and a read.
@Suite struct RowCodecTests {
    /// A different value for every column, as the sqlite3 shell shows it.
    private static let values: [MessageColumn: String] = [
        .seq: "1", .status: "5", .id: "the id", .named: "1", .conversation: "the conversation", .createdAt: "101", .editedAt: "102",
        .metadata: #"{"k":"v"}"#, .notBefore: "103", .expiresAt: "104", .unmeteredOnly: "1", .attempts: "105", .retriesUsed: "106",
        .dueAt: "107", .dueDelay: "108", .dueBoot: "109", .dueUptime: "110", .lastAttemptAt: "111", .sentAt: "112",
        .sentDuration: "113", .sentCode: "114", .deliveredAt: "115", .readAt: "116", .flags: "\(33 + 117 << 8)", .bodySize: "8",
        .body: "the body", .priority: "118", .replaceKey: "the key", .timeAt: "119",
        .spanBoot: "120", .startUptime: "122", .expiryUptime: "121",
    ]

    private static var progress: Progress {
        var progress = Progress()
        progress.status = .failed
        progress.attempts = 105
        progress.retriesUsed = 106
        progress.dueAt = 107
        progress.dueDelay = 108
        progress.dueBoot = 109
        progress.dueUptime = 110
        progress.lastAttemptAt = 111
        progress.sentAt = 112
        progress.sentDuration = 113
        progress.sentCode = 114
        progress.deliveredAt = 115
        progress.readAt = 116
        (progress.doomed, progress.isRetriedByHand, progress.round) = (true, true, 117)
        return progress
    }

    private static func row(sender: String? = nil) -> Row {
        var row = Row(
            sequence: 1, id: "the id", isNamed: true, conversation: "the conversation", sender: sender, createdAt: 101, editedAt: 102,
            metadataText: #"{"k":"v"}"#, notBefore: 103, expiresAt: 104, unmeteredOnly: true, progress: progress, bodySize: 8,
            priority: 118, replaceKey: "the key", timeAt: 119, spanBoot: 120, startUptime: 122, expiryUptime: 121)
        if sender != nil { row.progress.status = .read }
        row.contentHash = Array("the body".utf8).withUnsafeBytes { row.hashOfContent($0) }
        row.stateHash = Row.hash(1, row.progress)
        return row
    }

    private func insert(_ row: Row, _ bench: StoreBench) throws {
        try bench.transaction { store in
            let statement = try store.database.statement(
                "INSERT INTO message(indexed, \(MessageColumn.self)) VALUES(1, \(parameters: MessageColumn.self))")
            row.progress.bind(to: Fields(statement))
            let isInserted = try Array("the body".utf8).withUnsafeBytes { try store.insertion.insert(row, $0, statement) }
            #expect(isInserted)
        }
    }

    /// Returns the rows of the tables, column by column.
    private func stored(_ bench: StoreBench) throws -> [MessageColumn: String] {
        var found: [MessageColumn: String] = [:]
        for column in MessageColumn.allCases {
            found[column] = try #require(try bench.rows("SELECT \(column.title) FROM message").first)[0]
        }
        return found
    }

    private func compare(_ read: Row, _ written: Row) {
        #expect(read.sequence == written.sequence)
        #expect(read.id == written.id)
        #expect(read.isNamed == written.isNamed)
        #expect(read.conversation == written.conversation)
        #expect(read.sender == written.sender)
        #expect(read.createdAt == written.createdAt)
        #expect(read.timeAt == written.timeAt && read.time == written.time)
        #expect(read.spanBoot == written.spanBoot && read.startUptime == written.startUptime && read.expiryUptime == written.expiryUptime)
        #expect(read.editedAt == written.editedAt)
        #expect(read.metadataText == written.metadataText)
        #expect(read.notBefore == written.notBefore)
        #expect(read.expiresAt == written.expiresAt)
        #expect(read.unmeteredOnly == written.unmeteredOnly)
        #expect(read.progress == written.progress)
        #expect(read.stateHash == written.stateHash)
        #expect(read.contentHash == written.contentHash)
        #expect(read.bodySize == written.bodySize)
        #expect(read.priority == written.priority)
        #expect(read.replaceKey == written.replaceKey)
    }

    @Test func the_lists_name_every_column_of_their_tables() throws {
        let bench = try StoreBench()
        func columns(_ table: String) throws -> Set<String> {
            Set(try bench.rows("SELECT name FROM pragma_table_info('\(table)')").compactMap { $0[0] })
        }
        #expect(try columns("message") == Set(MessageColumn.names).union(["indexed"]))
        #expect(try columns("conversation") == Set(ConversationColumn.names))
        #expect(try columns("attempt") == Set(AttemptColumn.names))
        #expect(Set(MessageColumn.names).isSuperset(of: HeadColumn.names + OutlineColumn.names))
        #expect(MessageColumn.createdAt.title == "created_at")
    }

    @Test(arguments: [nil, "the sender"])
    func every_column_of_a_message_survives_a_write_and_a_read(sender: String?) throws {
        let bench = try StoreBench()
        let row = Self.row(sender: sender)
        try insert(row, bench)
        var expected = Self.values
        (expected[.stateHash], expected[.contentHash]) = ("\(row.stateHash)", "\(row.contentHash)")
        if let sender { (expected[.sender], expected[.status]) = (sender, "7") }
        #expect(try stored(bench) == expected)
        let read = try #require(try bench.row(1))
        compare(read, row)
        #expect(read.body == Array("the body".utf8))
    }

    @Test func every_column_that_attempts_change_survives_an_update() throws {
        let bench = try StoreBench()
        let row = try bench.add("the conversation", Array("the body".utf8), id: "the id")
        let before = try stored(bench)
        for column in MessageColumn.progress { #expect(before[column] == "0", "\(column.title)") }
        try bench.transaction { try $0.messages.update(row, to: Self.progress) }
        var expected = before
        for column in MessageColumn.progress + [.status] { expected[column] = Self.values[column] }
        expected[.stateHash] = "\(Row.hash(1, Self.progress))"
        #expect(try stored(bench) == expected)
        #expect(try #require(try bench.row(1)).progress == Self.progress)
    }

    @Test func an_edit_changes_its_columns_and_no_others() throws {
        let bench = try StoreBench()
        try insert(Self.row(), bench)
        var expected = try stored(bench)
        let row = try #require(try bench.row(1))
        try bench.transaction { store in
            try Array("another".utf8).withUnsafeBytes { try store.messages.replaceContent(of: row, by: MessageChange(body: $0), now: 201) }
        }
        let found = try stored(bench)
        #expect(found[.contentHash] != expected[.contentHash])
        (expected[.editedAt], expected[.bodySize], expected[.body]) = ("201", "7", "another")
        expected[.contentHash] = found[.contentHash]
        #expect(found == expected)
        #expect(try bench.row(1)?.body == Array("another".utf8))
    }

    @Test func every_field_of_a_head_is_that_of_its_message() throws {
        let bench = try StoreBench()
        let row = try bench.transaction { _ in try bench.insert("ana", notBefore: 301, expiresAt: 302, unmeteredOnly: true) }
        var progress = Self.progress
        (progress.status, progress.waitsForNetwork) = (.queued, true)
        try bench.transaction { try $0.messages.update(row, to: progress) }
        for folded in [false, true] {
            if folded { try bench.store.foldNow() }
            let expected = try #require(try bench.row(1)).head
            #expect(expected.expiresAt == 302 && expected.round == 117 && expected.due.uptime == 110)
            let found = try #require(try bench.store.queue.queued(after: 0, limit: 9).first)
            #expect(found.conversation == "ana")
            #expect(found.head == expected)
            #expect(try bench.store.queue.queued(in: "ana", after: 0, limit: 9) == [expected])
        }
    }

    @Test func every_field_of_an_outline_is_that_of_its_message() throws {
        let bench = try StoreBench()
        try insert(Self.row(sender: "the sender"), bench)
        let outline = try #require(try bench.store.messages.row(at: 1, .outline))
        #expect(outline.sequence == 1)
        #expect(outline.id == "the id")
        #expect(outline.conversation == "the conversation")
        #expect(outline.sender == "the sender")
        #expect(outline.progress.status == .read)
        #expect(outline.bodySize == 8)
    }

    @Test func every_count_survives_a_write_and_a_read() throws {
        let bench = try StoreBench()
        let row = try bench.add("ana")
        try bench.store.foldNow()
        var delta = Counts()
        (delta.queued, delta.sent, delta.delivered, delta.read) = (401, 402, 403, 404)
        (delta.failed, delta.received, delta.unread, delta.unsentBytes) = (405, 406, 407, 408)
        try bench.transaction { $0.counts.count(row, delta) }
        let sql = #"SELECT queued, sent, delivered, "read", failed, received, unread, unsent_bytes, last_seq FROM conversation"#
        #expect(try bench.rows(sql) == [["402", "402", "403", "404", "405", "406", "407", "408", "1"]])
        var expected = delta
        expected.queued = 402
        #expect(try bench.store.counts.counts(of: "ana") == expected)
        #expect(try bench.store.counts.sum() == expected)
    }

    @Test func every_flag_has_its_own_bit() {
        let flags: [(WritableKeyPath<Progress, Bool>, Int64)] = [
            (\.doomed, 1), (\.perhapsArrived, 2), (\.waitsForNetwork, 4), (\.isDamaged, 8), (\.ignoresExpiry, 16), (\.isRetriedByHand, 32),
        ]
        for (flag, bit) in flags {
            var progress = Progress()
            progress[keyPath: flag] = true
            progress.round = .max
            #expect(RowFlags(progress).rawValue == bit + Int64(UInt32.max) << 8)
            var read = Progress()
            read.take(RowFlags(progress))
            #expect(read == progress)
        }
    }

    // MARK: Statuses

    @Test func statuses_have_the_numbers_of_the_layout() {
        let numbers: [(MessageStatus, isReceived: Bool, Int64?)] = [
            (.queued, false, 0), (.sending, false, nil), (.sent, false, 2), (.delivered, false, 3), (.read, false, 4), (.failed, false, 5),
            (.queued, true, nil), (.sending, true, nil), (.sent, true, nil), (.delivered, true, 6), (.read, true, 7), (.failed, true, nil),
        ]
        for (status, isReceived, number) in numbers {
            let stored = StoredStatus(status, isReceived: isReceived)
            #expect(stored?.rawValue == number)
            if let stored { #expect((stored.status, stored.isReceived) == (status, isReceived)) }
        }
        #expect(StoredStatus.allCases.map(\.rawValue) == [0, 2, 3, 4, 5, 6, 7])
    }

    @Test(arguments: [MessageStatus.queued, .sent, .delivered, .read, .failed])
    func a_forbidden_change_of_status_is_an_internal_error_and_changes_nothing(from: MessageStatus) throws {
        for to in MessageStatus.allCases {
            let bench = try StoreBench()
            let row = try bench.add()
            var progress = row.progress
            progress.status = from
            try bench.transaction { _ in try bench.move(row, to: progress) }
            let stored = try #require(try bench.row(1))
            let counts = bench.store.counts.totals
            progress.status = to
            let code = refusal { try bench.transaction { try $0.messages.update(stored, to: progress) } }
            let isAllowed = from == to || StatusRule.allowsInOneCommit(from, to)
            #expect(code == (isAllowed && to != .sending ? nil : .internal), "\(from) to \(to)")
            guard code != nil else { continue }
            #expect(try bench.row(1)?.progress == stored.progress)
            #expect(bench.store.counts.totals == counts)
        }
    }

    @Test func an_attempt_of_a_sent_message_is_an_internal_error() throws {
        let bench = try StoreBench()
        let row = try bench.add()
        var sent = row.progress
        (sent.status, sent.attempts, sent.sentAt) = (.sent, 1, 5)
        try bench.transaction { try $0.messages.update(row, to: sent) }
        let stored = try #require(try bench.row(1))
        let resolution = OutcomeRule.recover(number: 2, startedAt: 1, of: sent, holdInterrupted: false, maxRetries: 9)
        #expect(refusal { try bench.transaction { try $0.outcomes.end(stored, resolution) } } == .internal)
        #expect(try bench.row(1)?.progress == sent)
    }

    /// The row of an attempt in progress has no checksum.
    @Test func a_damaged_in_flight_row_does_not_send_a_message_again() throws {
        let bench = try EngineBench()
        let id = try bench.enqueue()
        try bench.poll()
        #expect(try bench.status(id) == .sent)
        bench.close()
        try PlainDatabase(bench.directory.store).rows("INSERT INTO in_flight(seq, number, started_at) VALUES(1, 2, 3)")
        try bench.reopen()
        try bench.pass(60_000)
        #expect(try bench.status(id) == .sent)
        #expect(bench.texts.count == 1)
    }

    @Test func a_message_is_found_by_its_id_in_every_projection() throws {
        let bench = try StoreBench()
        let named = try bench.add("ana", [1, 2], id: "mine")
        let own = try bench.add("ana", [3])
        for part in [MessageTable.Part.whole, .start, .none, .outline] {
            #expect(try bench.store.messages.find("mine", part)?.sequence == named.sequence)
            #expect(try bench.store.messages.find(own.id, part)?.sequence == own.sequence)
            #expect(try bench.store.messages.find("another", part) == nil)
        }
        #expect(try bench.store.messages.find("mine", .whole)?.body == [1, 2])
        #expect(try bench.store.messages.find("mine", .none)?.hasWholeBody == false)
        #expect(try bench.store.messages.contains(own.id))
        #expect(try !bench.store.messages.contains("another"))
    }
}
