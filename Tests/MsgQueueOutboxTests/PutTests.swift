import CSQLite
import Glibc
import MsgQueue
import MsgQueueOutbox
import Testing

/// Messages in the host's transaction.
@Suite struct PutTests {
    private let directory: Directory
    private let host: HostDatabase
    private let outbox: Outbox

    init() throws {
        directory = try Directory()
        host = try HostDatabase.made(directory)
        outbox = Outbox(connection: host.handle)
    }

    @Test func T1_a_message_exists_exactly_when_the_transaction_commits() async throws {
        try host.order(["a", "b"], outbox)
        try host.run("BEGIN IMMEDIATE; INSERT INTO orders VALUES ('rolled back')")
        try outbox.put(MessageQueue.Draft("x", id: "rolled back"))
        try host.run("ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT one")
        try outbox.put(MessageQueue.Draft("x", id: "kept"))
        try host.run("SAVEPOINT two")
        try outbox.put(MessageQueue.Draft("x", id: "taken back"))
        try host.run("ROLLBACK TO two; RELEASE two; RELEASE one; COMMIT")
        // Without a transaction, a put is one of its own.
        let generated = try outbox.put(MessageQueue.Draft("x"))
        #expect(sqlite3_last_insert_rowid(host.handle) == 3, "the order that was rolled back")

        let queue = try directory.queue()
        #expect(try outbox.collect(into: queue) == 4)
        #expect(try queue.ids == ["a", "b", "kept", generated])
        #expect(try host.column("SELECT id FROM orders ORDER BY id") == ["a", "b"])
        #expect(try host.waiting.isEmpty)
        try await queue.close()
    }

    @Test func T1_a_second_put_of_an_id_answers_duplicate_and_leaves_the_transaction_usable() throws {
        try host.run("BEGIN IMMEDIATE")
        try outbox.put(MessageQueue.Draft("first", id: "a"))
        let error = failure { try outbox.put(MessageQueue.Draft("second", id: "a")) }
        #expect(error?.code == .duplicate && error?.databaseCode == nil)
        try outbox.put(MessageQueue.Draft("third", id: "b"))
        try host.run("INSERT INTO orders VALUES ('a'); COMMIT")
        #expect(try host.column("SELECT CAST(body AS TEXT) FROM msgq_outbox ORDER BY number") == ["first", "third"])
        #expect(try host.column("SELECT id FROM orders") == ["a"])
    }

    @Test func T1_the_last_row_of_the_host_stays_its_own_when_a_put_fails() throws {
        try host.run("INSERT INTO orders VALUES ('own')")
        let own = sqlite3_last_insert_rowid(host.handle)
        try host.run("CREATE TRIGGER refusal AFTER INSERT ON msgq_outbox BEGIN SELECT RAISE(ABORT, 'no'); END")
        #expect(failure { try outbox.put(MessageQueue.Draft("x")) }?.code == .conflict)
        #expect(sqlite3_last_insert_rowid(host.handle) == own)
    }

    /// The columns that programs in C and Python read, with their types.
    @Test func T1_a_row_has_the_columns_that_other_languages_read() throws {
        let before = MessageQueue.Timestamp.now
        let id = try outbox.put(
            MessageQueue.Draft(
                [0, 255], conversation: "ana", metadata: ["k": "v", "a": ""], notBefore: MessageQueue.Timestamp(millisecondsSince1970: 7),
                expiresAt: MessageQueue.Timestamp(millisecondsSince1970: 9), unmeteredOnly: true, replaceKey: "key", priority: -3,
                time: MessageQueue.Timestamp(millisecondsSince1970: 5)))
        #expect(id.count == 36 && id.dropFirst(14).first == "7")
        let named = "id, conversation, hex(body), hex(metadata), not_before_ms, expires_at_ms, time_ms, priority, replace_key"
        #expect(
            try host.rows("SELECT \(named), unmetered_only, refused FROM msgq_outbox") == [
                [id, "ana", "00FF", "610000" + "6B007600", "7", "9", "5", "-3", "key", "1", nil]
            ])
        #expect(
            try host.column("SELECT typeof(number) || typeof(id) || typeof(body) || typeof(time_ms) FROM msgq_outbox")
                == ["integertextblobinteger"])
        try outbox.put(MessageQueue.Draft("", id: "plain", delay: .seconds(60), expiry: .seconds(10)))
        let plain = try #require(
            try host.rows("SELECT hex(body), metadata, replace_key, unmetered_only, not_before_ms, expires_at_ms, time_ms FROM msgq_outbox")
                .last)
        #expect(plain[..<4] == ["", nil, nil, "0"])
        let times = plain[4...].compactMap { $0.flatMap { Int64($0) } }
        try #require(times.count == 3)
        #expect(times[2] >= before.millisecondsSince1970 && times[2] <= MessageQueue.Timestamp.now.millisecondsSince1970)
        #expect(times[0] == times[2] + 60_000 && times[1] == times[0] + 10_000)

        #expect(
            try host.column("SELECT name FROM pragma_table_info('msgq_outbox')") == [
                "number", "id", "conversation", "refused", "not_before_ms", "expires_at_ms", "time_ms", "priority", "replace_key",
                "unmetered_only", "metadata", "body",
            ])
        #expect(try host.column("SELECT name FROM pragma_table_info('msgq_outbox_store')") == ["version", "source", "collected"])
        // The schema changes nothing when it runs again.
        let store = try host.rows("SELECT * FROM msgq_outbox_store")
        try host.run(Outbox.schema)
        #expect(try host.rows("SELECT * FROM msgq_outbox_store") == store && store.count == 1)
        #expect(store.first?[1]?.count == 32)
    }

    @Test func T1_all_values_arrive_in_the_queue() async throws {
        let now = MessageQueue.Timestamp.now
        let draft = MessageQueue.Draft(
            [0, 255], conversation: "ana", metadata: ["k": "v", "é": "\u{1F600}"], id: "a", notBefore: now + .seconds(60),
            expiresAt: now + .seconds(90), unmeteredOnly: true, replaceKey: "key", priority: -3, time: now - .seconds(5))
        try outbox.put(draft)
        let queue = try directory.queue()
        #expect(try outbox.collect(into: queue) == 1)
        let message = try queue.message(id: "a")
        #expect(message.body == draft.body && message.metadata == draft.metadata && message.conversation == "ana")
        #expect(message.notBefore == draft.notBefore && message.expiresAt == draft.expiresAt && message.time == draft.time)
        #expect(message.unmeteredOnly && message.priority == -3)
        var newer = draft
        newer.id = "b"
        try outbox.put(newer)
        #expect(try outbox.collect(into: queue) == 1)
        #expect(try queue.ids == ["b"], "it replaces the message of its key")
        try await queue.close()
    }

    @Test func T1_a_lock_of_the_host_is_reported_unchanged() async throws {
        try host.order(["a"], outbox)
        let queue = try directory.queue()
        let other = try HostDatabase(directory.host, journal: nil)
        try other.run("BEGIN IMMEDIATE; INSERT INTO orders VALUES ('other')")
        for error in [failure { try outbox.put(MessageQueue.Draft("x")) }, failure { try outbox.collect(into: queue) }] {
            #expect(error?.code == .busy && error?.databaseCode == SQLITE_BUSY)
        }
        #expect(try host.waiting == ["a"] && sqlite3_get_autocommit(host.handle) == 1)
        // A transaction that has read before the other one wrote.
        try host.run("BEGIN")
        #expect(try host.rows("SELECT * FROM orders").count == 1)
        try other.run("COMMIT")
        #expect(failure { try outbox.put(MessageQueue.Draft("x")) }?.databaseCode == SQLITE_BUSY | (2 << 8))
        try host.run("ROLLBACK")
        #expect(try outbox.collect(into: queue) == 1)
        try await queue.close()
    }

    @Test func T1_what_no_queue_would_keep_is_refused_and_changes_nothing() throws {
        var drafts = [MessageQueue.Draft("x", id: ""), MessageQueue.Draft("x", id: "a\u{0}"), MessageQueue.Draft("x", id: "a\n")]
        drafts.append(MessageQueue.Draft("x", conversation: String(repeating: "c", count: 256)))
        drafts.append(MessageQueue.Draft("x", metadata: ["": "v"]))
        drafts.append(MessageQueue.Draft("x", metadata: ["k": "a\u{0}b"]))
        drafts.append(MessageQueue.Draft("x", priority: 101))
        drafts.append(MessageQueue.Draft("x", priority: .min))
        drafts.append(MessageQueue.Draft("x", delay: .seconds(-1)))
        drafts.append(MessageQueue.Draft("x", notBefore: .now, delay: .seconds(1)))
        drafts.append(MessageQueue.Draft("x", time: MessageQueue.Timestamp(millisecondsSince1970: .min)))
        for draft in drafts { #expect(failure { try outbox.put(draft) }?.code == .invalid, "\(draft)") }
        let metadata = ["k": String(repeating: "v", count: 17 << 20)]
        #expect(failure { try outbox.put(MessageQueue.Draft("x", metadata: metadata)) }?.code == .tooLarge)
        #expect(failure { try outbox.put(MessageQueue.Draft([UInt8](repeating: 0, count: 256 << 20 + 1))) }?.code == .tooLarge)
        #expect(try host.waiting.isEmpty)
    }

    @Test func T1_missing_foreign_and_newer_tables_are_clear_errors() async throws {
        let queue = try directory.queue()
        func codes(_ change: String) throws -> [MessageQueue.Error.Code?] {
            let path = "\(directory.path)/\(change.hashValue).db"
            let host = try HostDatabase(path)
            try host.run(change)
            let outbox = Outbox(connection: host.handle)
            let before = sqlite3_total_changes(host.handle)
            let errors = [failure { try outbox.put(MessageQueue.Draft("x")) }, failure { try outbox.collect(into: queue) }]
            #expect(sqlite3_total_changes(host.handle) == before + (errors[0] == nil ? 1 : 0))
            return errors.map { $0?.code }
        }
        #expect(try codes("SELECT 1") == [.notFound, .notFound])
        #expect(try codes("\(Outbox.schema); UPDATE msgq_outbox_store SET version = 2") == [.tooNew, .tooNew])
        #expect(try codes("\(Outbox.schema); UPDATE msgq_outbox_store SET version = 'x'") == [.corrupt, .corrupt])
        #expect(try codes("\(Outbox.schema); UPDATE msgq_outbox_store SET version = 0") == [.corrupt, .corrupt])
        #expect(try codes("\(Outbox.schema); DELETE FROM msgq_outbox_store") == [.corrupt, .corrupt])
        #expect(
            try codes("\(Outbox.schema); DROP INDEX msgq_outbox_waiting; ALTER TABLE msgq_outbox DROP COLUMN refused") == [nil, .corrupt])
        #expect(try codes("\(Outbox.schema); ALTER TABLE msgq_outbox DROP COLUMN priority") == [.corrupt, .corrupt])
        #expect(try codes("\(Outbox.schema); DROP TABLE msgq_outbox") == [.notFound, .notFound])
        #expect(try codes("CREATE TABLE msgq_outbox (x); CREATE TABLE msgq_outbox_store (y)") == [.corrupt, .corrupt])
        try await queue.close()
    }

    @Test func T1_a_table_that_changes_later_is_an_error_of_the_next_put() throws {
        try outbox.put(MessageQueue.Draft("x"))
        try host.run("UPDATE msgq_outbox_store SET version = 2")
        #expect(failure { try outbox.put(MessageQueue.Draft("x")) }?.code == .tooNew)
        try host.run("DROP TABLE msgq_outbox")
        #expect(failure { try outbox.put(MessageQueue.Draft("x")) }?.code == .notFound)
        try host.run("DROP TABLE msgq_outbox_store; \(Outbox.schema)")
        try outbox.put(MessageQueue.Draft("x", id: "again"))
        #expect(try host.waiting == ["again"])
    }

    @Test func T1_a_read_only_database_is_a_clear_error() async throws {
        try host.order(["a"], outbox)
        let reader = try HostDatabase(directory.host, journal: nil, flags: SQLITE_OPEN_READONLY)
        defer { withExtendedLifetime(reader) {} }
        let outbox = Outbox(connection: reader.handle)
        let queue = try directory.queue()
        for error in [failure { try outbox.put(MessageQueue.Draft("x")) }, failure { try outbox.collect(into: queue) }] {
            #expect(error?.code == .permission && error?.databaseCode == SQLITE_READONLY)
        }
        #expect(try host.waiting == ["a"] && queue.ids.isEmpty)
        try await queue.close()
    }

    @Test func T1_a_damaged_database_is_a_clear_error() async throws {
        let path = "\(directory.path)/noise.db"
        let noise = try #require(fopen(path, "w"))
        _ = (0..<4096).map { fputc(Int32($0 % 251), noise) }
        fclose(noise)
        let damaged = try HostDatabase(path, journal: nil)
        defer { withExtendedLifetime(damaged) {} }
        let outbox = Outbox(connection: damaged.handle)
        #expect(failure { try outbox.put(MessageQueue.Draft("x")) }?.databaseCode == SQLITE_NOTADB)
        #expect(failure { try outbox.put(MessageQueue.Draft("x")) }?.code == .corrupt)
    }
}
