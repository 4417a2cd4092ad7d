import Glibc
import Testing

@testable import MsgQueue

@Suite struct NewStoreTests {
    private func mode(_ path: String) throws -> mode_t {
        var status = stat()
        try #require(lstat(path, &status) == 0)
        return status.st_mode & 0o7777
    }

    @Test func X12_a_new_store_is_private_and_has_its_application_id() throws {
        let bench = try StoreBench()
        #expect(try mode(bench.directory.store) == 0o600)
        try bench.add("a", [1, 2, 3])
        #expect(try mode(bench.directory.store + "-wal") == 0o600)
        bench.close()
        let plain = try PlainDatabase(bench.directory.store)
        #expect(try plain.number("PRAGMA application_id") == 0x6d73_6771)
        #expect(try plain.number("PRAGMA user_version") == Schema.version)
        #expect(try plain.rows("PRAGMA integrity_check") == [["ok"]])
    }

    @Test func D1_the_stores_that_a_process_makes_differ_only_in_their_generation() throws {
        let directory = TemporaryDirectory()
        var images: [[UInt8]] = []
        var generations: Set<Int64> = []
        for number in 0..<4 {
            let path = "\(directory.path)/new-\(number).db"
            let image = try #require(try StoreCreation.create(path))
            let size = Int(StoreCreation.pageSizes[0])
            let pages = stride(from: 0, to: image.count, by: size).map { Array(image[$0..<$0 + size]) }
            let found = pages.compactMap { StoreState.read(page: $0) }.filter { $0.state != StoreState() && $0.isWhole }
            #expect(found.count == 1)
            generations.insert(try #require(found.first?.state.generation))
            let plain = try PlainDatabase(path)
            #expect(try plain.rows("PRAGMA integrity_check") == [["ok"]])
            images.append(image)
        }
        #expect(generations.count == 4)
        // Eight bytes of the generation, and eight of the checksum.
        for image in images.dropFirst() { #expect(zip(image, images[0]).count { $0 != $1 } <= 16) }
    }

    @Test func Q12_no_file_is_left_beside_the_store() throws {
        let bench = try StoreBench()
        try bench.add()
        #expect(
            bench.directory.names == ["outbox.db", "outbox.db-tail", "outbox.db-wal"], "no index of the log that others could truncate")
        bench.close()
        #expect(bench.directory.names == ["outbox.db"])
        try bench.reopen()
        bench.close()
        #expect(bench.directory.names == ["outbox.db"])
    }

    @Test func Q12_the_settings_of_SQLite_are_as_designed() throws {
        let bench = try StoreBench()
        let settings = [
            "journal_mode": "wal", "locking_mode": "exclusive", "synchronous": "1", "wal_autocheckpoint": "0", "mmap_size": "0",
            "temp_store": "2", "secure_delete": "1", "cell_size_check": "1",
        ]
        for (name, value) in settings { #expect(try bench.rows("PRAGMA \(name)") == [[value]], "\(name)") }
    }

    @Test func X12_the_schema_in_the_source_is_the_one_in_the_file() throws {
        let bench = try StoreBench()
        let objects = try bench.rows("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
        #expect(objects.map { $0[0] } == Schema.objects)
        let tables = try bench.rows(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT strict AND name NOT LIKE 'sqlite_%'")
        #expect(tables.isEmpty, "every table is strict")
    }

    @Test func F12_the_checksum_of_the_schema_is_that_of_a_new_store() throws {
        let bench = try StoreBench()
        let checksum = try StoreSurvey.schema(of: bench.store.database).checksum
        #expect(checksum == Schema.checksum)
    }

    /// A salvage of a store with a damaged schema looks for the tables in these pages.
    @Test(arguments: [
        (
            2048 as Int64, true,
            """
            state 3, message 4, message_named 5, message_ordered 6, message_waiting 7, message_expiring 8, message_failed 9, \
            message_failed_in 10, message_replace 11, message_conversation 12, large_body 13, in_flight 14, attempt 15, conversation 16, \
            conversation_recent 17, recent 18, recent_gone 19, history 20, history_in 21, recent_own 22, message_priority 23, \
            message_time 24, message_time_in 25, conversation_time 26, title 27, failure 28, failure_group 29, failure_group_in 30, \
            failure_count 31, message_deferred 32, message_due 33, handed_over 34
            """
        ),
        (
            2048, false,
            """
            state 2, message 3, message_named 5, message_ordered 6, message_waiting 7, message_expiring 8, message_failed 10, \
            message_failed_in 12, message_replace 13, message_conversation 14, large_body 15, in_flight 16, attempt 17, conversation 18, \
            conversation_recent 19, recent 20, recent_gone 21, history 23, history_in 24, recent_own 25, message_priority 26, \
            message_time 27, message_time_in 28, conversation_time 29, title 30, failure 32, failure_group 33, failure_group_in 34, \
            failure_count 35, message_deferred 36, message_due 37, handed_over 38
            """
        ),
        (
            4096, false,
            """
            state 2, message 3, message_named 4, message_ordered 5, message_waiting 6, message_expiring 7, message_failed 8, \
            message_failed_in 10, message_replace 12, message_conversation 13, large_body 14, in_flight 15, attempt 16, conversation 17, \
            conversation_recent 18, recent 19, recent_gone 20, history 21, history_in 22, recent_own 23, message_priority 24, \
            message_time 25, message_time_in 26, conversation_time 27, title 28, failure 29, failure_group 30, failure_group_in 31, \
            failure_count 32, message_deferred 34, message_due 35, handed_over 36
            """
        ),
    ])
    func D15_the_root_pages_of_new_stores_never_change(pageSize: Int64, vacuumsInSteps: Bool, expected: String) throws {
        let directory = TemporaryDirectory()
        let image = try StoreCreation.image(usesLog: false, pageSize: pageSize, vacuumsInSteps: vacuumsInSteps)
        try FileBytes.write(image, to: directory.store)
        let plain = try PlainDatabase(directory.store)
        #expect(try plain.number("PRAGMA page_size") == pageSize)
        #expect(try plain.number("PRAGMA auto_vacuum") == (vacuumsInSteps ? 2 : 0))
        let pages = try plain.rows("SELECT name || ' ' || rootpage FROM sqlite_schema WHERE rootpage > 0 ORDER BY rootpage")
        let found = pages.compactMap { $0[0] }.filter { !$0.hasPrefix("sqlite_") }.joined(separator: ", ")
        #expect(found == expected)
    }

    @Test func a_second_owner_in_the_same_process_is_refused_and_the_first_keeps_its_lock() throws {
        let bench = try StoreBench()
        try bench.add("a", [1])
        for path in [
            bench.directory.store, "\(bench.directory.path)/./outbox.db",
            "\(bench.directory.path)/../\(bench.directory.path.split(separator: "/").last!)/outbox.db",
        ] {
            #expect(refusal { _ = try Store(path: path, options: Options()) } == .locked, "\(path)")
        }
        try bench.add("a", [2])
        #expect(try bench.row(2)?.body == [2])
        bench.close()
        #expect(refusal { try bench.reopen() } == nil, "afterwards it may be opened again")
    }

    @Test func a_refused_store_is_not_changed() throws {
        let bench = try StoreBench()
        try bench.add()
        bench.close()
        do {
            let plain = try PlainDatabase(bench.directory.store)
            try plain.rows("PRAGMA user_version = \(Schema.version + 1)")
        }
        #expect(refusal { try bench.reopen() } == .tooNew)
        do {
            let plain = try PlainDatabase(bench.directory.store)
            #expect(try plain.number("PRAGMA user_version") == Schema.version + 1)
            try plain.rows("PRAGMA user_version = \(Schema.version)")
            try plain.rows("CREATE TABLE foreign_object(x)")
        }
        #expect(refusal { try bench.reopen() } == .corrupt)
        do {
            let plain = try PlainDatabase(bench.directory.store)
            try plain.rows("DROP TABLE foreign_object")
            try plain.rows("PRAGMA application_id = 1")
        }
        #expect(refusal { try bench.reopen() } == .corrupt)
        do {
            let plain = try PlainDatabase(bench.directory.store)
            try plain.rows("PRAGMA application_id = \(Schema.applicationID)")
        }
        try bench.reopen()
        #expect(try bench.row(1) != nil)
    }
}
