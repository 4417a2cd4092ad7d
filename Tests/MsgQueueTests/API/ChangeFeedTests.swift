import Testing

@testable import MsgQueue

/// The changes that a queue keeps.
@Suite struct ChangeFeedTests {
    private let directory = TemporaryDirectory()

    private var options: MessageQueue.Options {
        var options = MessageQueue.Options(mode: .manual)
        (options.direct, options.keepChanges) = (false, 100)
        return options
    }

    private func told(_ changes: [MessageQueue.Change]) -> [String] {
        changes.map { "\($0.id) \($0.kind == .status ? "\($0.status)" : "\($0.kind)")" }
    }

    @Test func T7_changes_are_read_from_a_token_across_restarts() async throws {
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        let empty = try queue.changes()
        #expect(empty.changes.isEmpty && empty.next == empty.oldest && empty.next.description.utf8.count == 49)
        try queue.enqueue("hello", conversation: "ana", id: "a")
        try await queue.drain()
        let first = try queue.changes(limit: 2)
        #expect(told(first.changes) == ["a queued", "a sending"] && first.changes.allSatisfy { $0.conversation == "ana" })
        #expect(first.next == first.changes.last?.token)
        try await queue.close()
        var closed = MessageQueue.Options(mode: .manual)
        closed.readOnly = true
        let again = try MessageQueue(path: directory.store, options: closed)
        #expect(try told(again.changes(after: first.next).changes) == ["a sent"])
        #expect(try told(again.changes(after: empty.next).changes) == ["a queued", "a sending", "a sent"])
        var seen: [MessageQueue.Change] = []
        for try await change in again.changes(following: first.changes.first?.token) { seen.append(change) }
        #expect(told(seen) == ["a sending", "a sent"])
        try await again.close()
    }

    @Test func T7_a_failure_has_its_kind_and_code() async throws {
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .reject(.rejected, code: 422) }
        try queue.enqueue("hello", id: "a")
        try await queue.drain()
        let last = try #require(try queue.changes().changes.last)
        #expect(last.kind == .status && last.status == .failed && last.failureKind == .rejected && last.code == 422)
        try await queue.close()
    }

    @Test func T7_a_token_of_another_history_conflicts() async throws {
        let queue = try MessageQueue(path: directory.store, options: options)
        let foreign = try #require(MessageQueue.ChangeToken("a" + String(repeating: "0", count: 48)))
        let error = #expect(throws: MessageQueue.Error.self) { try queue.changes(after: foreign) }
        #expect(error?.code == .conflict)
        for limit in [0, 1001, -1] { #expect(throws: MessageQueue.Error.self) { try queue.changes(limit: limit) } }
        for text in ["", "a", String(repeating: "x", count: 49), String(repeating: "a", count: 50)] {
            #expect(MessageQueue.ChangeToken(text) == nil)
        }
        try await queue.close()
    }

    @Test func T7_without_the_option_there_are_no_changes() async throws {
        let queue = try MessageQueue(path: directory.store, options: .init(mode: .manual))
        let error = #expect(throws: MessageQueue.Error.self) { try queue.changes() }
        #expect(error?.code == .invalid)
        try await queue.close()
    }

    @Test func T7_a_sequence_waits_for_changes_until_the_queue_is_closed() async throws {
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        let task = Task {
            var seen: [MessageQueue.Change] = []
            for try await change in queue.changes(following: nil) { seen.append(change) }
            return seen
        }
        for number in 0..<20 { try queue.enqueue("hello", id: "m\(number)") }
        try await queue.drain()
        let last = try queue.changes(after: nil, limit: 1000).next
        let waiting = Task { try await queue.changes(following: last).first { _ in true } }
        try queue.enqueue("hello", id: "last")
        #expect(try await waiting.value?.id == "last")
        let all = try queue.changes(after: nil, limit: 1000).changes
        var follower: [MessageQueue.Change] = []
        for try await change in queue.changes(following: nil) {
            follower.append(change)
            if follower.count == all.count { break }
        }
        #expect(follower == all && all.count == 61)
        try await queue.close()
        // What it had not read when the queue was closed is left out.
        let seen = try await task.value
        #expect(seen == Array(all.prefix(seen.count)))
    }

    @Test func T7_sequences_that_end_with_a_close_at_any_moment_go_on_without_a_gap() async throws {
        var options = options
        options.keepChanges = 10_000
        var followers = [(token: MessageQueue.ChangeToken?, ids: [String])](repeating: (nil, []), count: 4)
        var random = RandomBits(seed: 11)
        for round in 0..<40 {
            let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
            let tasks = followers.map { follower in
                Task {
                    var (token, ids) = follower
                    for try await change in queue.changes(following: token) {
                        token = change.token
                        ids.append("\(change.id) \(change.status)")
                    }
                    return (token, ids)
                }
            }
            let drain = Task { try await queue.drain() }
            let count = Int(random.next() % 9)
            for number in 0..<count { try queue.enqueue("hello", conversation: "\(number % 3)", id: "\(round)-\(number)") }
            try await Task.sleep(for: .microseconds(Int(random.next() % 3_000)))
            try await queue.close()
            _ = try? await drain.value
            for (index, task) in tasks.enumerated() { followers[index] = try await task.value }
        }
        let queue = try MessageQueue(path: directory.store, options: options)
        let all = try queue.changes(limit: 1000).changes
        for follower in followers {
            let rest = try queue.changes(after: follower.token, limit: 1000).changes
            #expect(follower.ids + rest.map { "\($0.id) \($0.status)" } == all.map { "\($0.id) \($0.status)" })
        }
        #expect(followers.contains { !$0.ids.isEmpty } && all.count > 100)
        try await queue.close()
    }

    @Test func T7_a_store_of_layout_3_without_the_table_of_hand_overs_gets_it() async throws {
        let queue = try MessageQueue(path: directory.store, options: .init(mode: .manual))
        try queue.enqueue("hello", id: "a")
        try await queue.close()
        do {
            let plain = try PlainDatabase(directory.store)
            try plain.rows("PRAGMA journal_mode = DELETE")
            try plain.rows("DROP TABLE handed_over")
            try plain.rows("PRAGMA journal_mode = WAL")
        }
        #expect(try Engine.check(directory.store).isSound)
        let again = try MessageQueue(path: directory.store, options: .init(mode: .manual))
        #expect(try again.handedOver(source: "orders").entries.isEmpty && again.message(id: "a").status == .queued)
        try await again.close()
    }
}

/// The form of changes in the table, and of tokens.
@Suite struct ChangeRowsTests {
    @Test func T7_what_was_written_is_read() throws {
        var random = SeededGenerator(7)
        // UUIDs, and what is nearly one.
        let ids = [
            "", "0192ffff-0000-7abc-8000-0123456789ab", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff",
            "0192FFFF-0000-7abc-8000-0123456789ab", "0192ffff00000-7abc-8000-0123456789ab", "0192ffff-0000-7abc-8000-0123456789a",
            "0192ffff-0000-7abc-8000-0123456789\u{e9}", "0192fffg-0000-7abc-8000-0123456789ab",
        ]
        for _ in 0..<400 {
            var rows = ChangeRows()
            var changes: [ChangeRows.Change] = []
            let names = ["", "ana", "b\u{e9}n", "be\u{301}n"].map { Name($0) }
            for _ in 0..<random.int(1...20) {
                let change = ChangeRows.Change(
                    kind: random.pick(StoredChange.Kind.allCases), status: random.pick(MessageStatus.allCases),
                    failure: random.pick(FailureKind.allCases), code: random.pick([0, 1, -1, 503, Int32.max, Int32.min]),
                    id: random.pick(ids) + String(repeating: "i", count: random.pick([0, 0, 5, 300])), conversation: random.pick(names))
                rows.append(change)
                changes.append(change)
            }
            #expect(rows.count == Int64(changes.count))
            var reader = ChangeReader(rows.bytes)
            for change in changes {
                let next = reader.next()
                let read = try #require(next).change
                #expect(read.kind == change.kind && read.status == change.status && read.failure == change.failure)
                #expect(read.code == change.code && read.id == change.id && read.conversation == change.conversation)
            }
            #expect(reader.isAtEnd)
            // A damaged row is nil, and no trap.
            var damaged = rows.bytes
            damaged[random.int(0...damaged.count - 1)] ^= UInt8(1 << random.int(0...7))
            var other = ChangeReader(Array(damaged.prefix(random.int(0...damaged.count))))
            while !other.isAtEnd { if other.next() == nil { break } }
        }
    }

    /// Earlier builds wrote every id as a text.
    @Test func T7_a_uuid_that_was_written_as_a_text_is_read() {
        let uuid = "0192ffff-0000-7abc-8000-0123456789ab"
        let bytes = [UInt8(MessageStatus.sent.rawValue) << 3, 0, 0, 36] + Array(uuid.utf8) + [3] + Array("ana".utf8)
        var reader = ChangeReader(bytes)
        let change = reader.next()?.change
        #expect(change?.id == uuid && change?.conversation == "ana" && change?.status == .sent && reader.isAtEnd)
    }

    /// An attempt says why its message failed after the change of the status was noted.
    @Test func T7_the_last_change_is_amended() throws {
        for (first, second) in [(0, 503), (503, 0), (Int32.max, 1), (1, Int32.min)] as [(Int32, Int32)] {
            var rows = ChangeRows()
            let uuid = "0192ffff-0000-7abc-8000-0123456789ab"
            rows.append(ChangeRows.Change(kind: .status, status: .sending, id: "a", conversation: "ana"), of: 1)
            rows.append(ChangeRows.Change(kind: .status, status: .queued, code: first, id: uuid, conversation: "ben"), of: 2)
            rows.amend(1, .server, code: 7) { _ in true }
            rows.amend(1, .failed)
            rows.amend(2, .offline, code: 8) { $0 != .status }
            rows.amend(2, .server, code: second) { $0 == .status }
            rows.amend(2, .failed)
            rows.amend(2, .rejected) { $0 == .status }
            rows.append(ChangeRows.Change(kind: .deleted, status: .failed, id: uuid, conversation: "ben"), of: 3)
            var reader = ChangeReader(rows.bytes)
            let read = [reader.next(), reader.next(), reader.next()].compactMap { $0?.change }
            #expect(reader.isAtEnd && read.map(\.id) == ["a", uuid, uuid] && read.map(\.code) == [0, second, 0])
            #expect(read.map(\.failure) == [.none, .rejected, .none] && read.map(\.status) == [.sending, .failed, .failed])
            #expect(read.map(\.conversation) == ["ana", "ben", "ben"])
        }
    }

    @Test func T7_the_text_of_a_token_is_its_value() throws {
        for token in [
            ChangeToken(epoch: -1, position: 1, check: UInt64.max, isBefore: true),
            ChangeToken(epoch: Int64.min, position: Int64.max, check: 0, isBefore: false),
        ] { #expect(try ChangeToken(text: token.text) == token) }
    }
}
