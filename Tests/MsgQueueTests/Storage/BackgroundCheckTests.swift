import Foundation
import Testing

@testable import MsgQueue

/// The check of a store after its system stopped while it was in use. Stores of more than 2 MiB are checked after the opening, in steps.
@Suite struct BackgroundCheckTests {
    /// Changes a closed store to what a power failure leaves after the log was checkpointed.
    private func markUnchecked(_ path: String, boot: String = "another boot") throws {
        let database = try Database(building: path, lengthLimit: Store.lengthLimit)
        var state = try #require(try StoreState.read(database, ofLayout: Layout.current.version))
        state.mark = .open
        state.bootID = boot
        try database.begin()
        try state.write(database)
        try database.commit(durable: false)
        database.close()
        let side = SideFile(of: path)
        try side.open()
        try side.write(
            SideRecord(
                generation: state.generation, base: state.logBase, salts: 0, frames: 0, lastSequence: state.sequenceCeiling), durable: true)
    }

    /// Makes a closed store of more than 2 MiB; some bodies are large, some ids are given.
    private func filled(_ count: Int = 3_000) throws -> StoreBench {
        let bench = try StoreBench()
        try bench.transaction { _ in
            for number in 1...count {
                let body = Array("body \(number) ".utf8) + [UInt8](repeating: 0x78, count: number % 50 == 0 ? 5_000 : 900)
                _ = try bench.insert(Name("c\(number % 7)"), body, id: number % 3 == 0 ? "named-\(number)" : nil)
            }
        }
        bench.close()
        return bench
    }

    private func change(_ path: String, _ body: (inout [UInt8]) throws -> Void) throws {
        var bytes = try FileBytes.read(path)
        try body(&bytes)
        try FileBytes.write(bytes, to: path)
    }

    /// Returns the page of an object, as a range of bytes of the file.
    private func rootPage(_ object: String, _ path: String) throws -> Range<Int> {
        let plain = try PlainDatabase(path)
        let size = Int(try plain.number("PRAGMA page_size"))
        let page = Int(try plain.number("SELECT rootpage FROM sqlite_schema WHERE name = '\(object)'")) - 1
        return page * size..<(page + 1) * size
    }

    /// Opens the store as a queue, waits for the end of the check, and returns the storage events.
    private func eventsOfCheck(_ path: String, _ body: (MessageQueue) throws -> Void = { _ in }) async throws -> [String] {
        let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual))
        let log = EventLog(queue.events)
        try body(queue)
        let engine = queue.engine
        #expect(await eventually(within: 120) { engine.context.lock.withLock { !engine.context.store.checks.isDue } })
        try await queue.close()
        #expect(await eventually { log.hasEnded })
        return log.events.compactMap { if case .storage(let trouble?) = $0 { "\(trouble)" } else { nil } }
    }

    @Test func D10_a_sound_store_is_checked_once_after_a_power_failure() async throws {
        let bench = try filled()
        try markUnchecked(bench.directory.store)
        let events = try await eventsOfCheck(bench.directory.store) { queue in try queue.enqueue("new") }
        #expect(events.isEmpty)
        try bench.reopen()
        #expect(!bench.store.checks.isDue)
    }

    /// Entries with the same conversation, expiry and priority need no more work than others.
    @Test func F8_D10_no_step_reads_equal_entries_from_their_start() throws {
        var work: [Int] = []
        for isEqual in [false, true] {
            let bench = try StoreBench()
            try bench.transaction { store in
                for number in 1...15_000 {
                    let row = try bench.insert(isEqual ? "ana" : Name("c\(number)"), expiresAt: isEqual ? 1 : Int64(number))
                    guard number % 2 == 0 else { continue }
                    var progress = row.progress
                    progress.status = .failed
                    try store.messages.update(row, to: progress)
                }
            }
            bench.close()
            try markUnchecked(bench.directory.store)
            try bench.reopen()
            var end = StoreChecks.Step.unfinished
            work.append(try DatabaseWork.count(bench.store) { while bench.store.checks.isDue { end = try bench.store.checks.step() } })
            #expect(end == .sound)
        }
        #expect(work[1] < 2 * work[0], "\(work)")
    }

    @Test func D10_a_check_that_was_interrupted_is_repeated_by_the_next_opening() throws {
        for clean in [false, true] {
            let bench = try filled()
            try markUnchecked(bench.directory.store)
            try bench.reopen()
            #expect(bench.store.checks.isDue)
            try bench.add("ana", [1])
            #expect(try bench.store.checks.step() == .unfinished)
            try bench.reopen(clean: clean)
            #expect(bench.store.checks.isDue)
            while bench.store.checks.isDue {
                let step = try bench.store.checks.step()
                #expect(step == (bench.store.checks.isDue ? .unfinished : .sound))
            }
            try bench.add("ana", [1])
            try bench.reopen(clean: false)
            #expect(!bench.store.checks.isDue)
        }
    }

    @Test func D10_damage_that_only_the_check_finds_is_told_and_never_shown() async throws {
        let bench = try filled()
        let path = bench.directory.store
        try change(path) { bytes in
            for text in ["body 100 ", "body 7 "] {
                let place = try #require(FileBytes.find(Array(text.utf8), in: bytes))
                bytes[place] ^= 0x20
            }
        }
        try markUnchecked(path)
        let events = try await eventsOfCheck(path) { queue in
            let messages = try queue.list(MessageQueue.Filter(limit: 1_000, withoutBodies: true))
            #expect(messages.filter { $0.preview.hasPrefix("Body") }.isEmpty)
            #expect(Set(messages.filter { $0.status == .failed }.map(\.sequence)) == [7, 100])
        }
        #expect(events.contains { $0.contains("2 messages damaged; damaged sequences: 7, 100") }, "\(events)")
        // It is told again by each opening.
        try markUnchecked(path, boot: StoreState.unchecked)
        let again = try await eventsOfCheck(path)
        #expect(again.contains { $0.contains("2 messages damaged") }, "\(again)")
    }

    @Test func D10_a_page_that_cannot_be_read_is_told_and_the_other_messages_are_sent() async throws {
        let bench = try filled()
        let path = bench.directory.store
        try change(path) { bytes in
            let place = try #require(FileBytes.find(Array("body 1501 ".utf8), in: bytes)) / 2048 * 2048
            bytes.replaceSubrange(place..<place + 2048, with: [UInt8](repeating: 0, count: 2048))
        }
        try markUnchecked(path)
        let events = try await eventsOfCheck(path) { queue in try queue.enqueue("new") }
        #expect(events.contains { $0.contains("cannot all be read") }, "\(events)")
        let report = try MessageQueue.check(path: path)
        #expect(!report.isSound && report.whole > 2_900, "\(report.text)")
    }

    /// Only queued messages are in the indexes that are compared with the counts.
    @Test(arguments: [true, false])
    func D10_messages_that_are_missing_are_told(isQueued: Bool) async throws {
        let bench = try filled()
        let path = bench.directory.store
        if !isQueued {
            try bench.reopen()
            try bench.transaction { store in
                for sequence in Int64(11)...13 {
                    let row = try #require(try store.messages.row(at: sequence, .none))
                    var progress = row.progress
                    progress.status = .sent
                    try store.messages.update(row, to: progress)
                }
            }
            bench.close()
        }
        do { try PlainDatabase(path).rows("DELETE FROM message WHERE seq BETWEEN 11 AND 13") }
        try markUnchecked(path)
        let events = try await eventsOfCheck(path)
        let text = isQueued ? "3 messages that the counts contained are missing" : "there are 2997 messages, but the counts show 3000"
        #expect(events.contains { $0.contains(text) }, "\(events)")
    }

    @Test(arguments: ["message_named", "message_conversation", "conversation_recent"])
    func D10_a_damaged_index_is_told(index: String) async throws {
        let bench = try filled()
        let path = bench.directory.store
        let page = try rootPage(index, path)
        try change(path) { bytes in bytes[page.lowerBound] = 0x55 }
        try markUnchecked(path)
        let events = try await eventsOfCheck(path)
        #expect(events.contains { $0.contains("the index \(index) is damaged") }, "\(events)")
        let report = try MessageQueue.check(path: path)
        #expect(!report.isSound && report.whole == 3_000, "\(report.text)")
    }

    @Test func D10_a_page_that_is_free_twice_is_refused() throws {
        let bench = try filled()
        let path = bench.directory.store
        try bench.reopen()
        try bench.transaction { store in
            for sequence in Int64(1)...600 {
                let row = try #require(try store.messages.row(at: sequence, .none))
                try store.messages.delete(row)
            }
        }
        bench.close()
        try change(path) { bytes in
            func number(_ offset: Int) -> Int { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
            let trunk = (number(32) - 1) * 2048
            #expect(number(trunk + 4) > 2)
            bytes.replaceSubrange(trunk + 8..<trunk + 12, with: bytes[trunk + 12..<trunk + 16])
        }
        try markUnchecked(path)
        #expect(refusal { _ = try Store(path: path, options: Options()) } == .corrupt)
    }

    @Test(arguments: 1...4)
    func D10_changes_between_the_steps_are_not_reported_as_damage(seed: UInt64) throws {
        let bench = try filled()
        try markUnchecked(bench.directory.store)
        try bench.reopen()
        var random = SeededGenerator(seed)
        while bench.store.checks.isDue {
            let step = try bench.store.checks.step()
            #expect(step == (bench.store.checks.isDue ? .unfinished : .sound))
            for _ in 0..<10 {
                let sequence = Int64(random.next() % 3_000) + 1
                guard let row = try bench.row(sequence, .none) else { continue }
                let isRolledBack = random.chance(30)
                do {
                    try bench.transaction { store in
                        try store.messages.delete(row)
                        _ = try bench.insert("new", [1, 2, 3])
                        if isRolledBack { throw QueueError(.busy, "rolled back") }
                    }
                } catch let error as QueueError where error.code == .busy {}
            }
        }
    }

    @Test(
        arguments: [
            "UPDATE conversation SET last_seq = last_seq - 7, proof = proof - 203 WHERE name = 'c3'",
            "UPDATE conversation SET queued = queued + 1, proof = proof + 3 WHERE name = 'c3'",
            "UPDATE message SET indexed = 0 WHERE seq = 1000", "INSERT INTO history VALUES(2, 1000)",
            "INSERT INTO history_in VALUES('c1', 2, 1000)", "INSERT INTO large_body VALUES(100000, x'00')",
            "INSERT INTO attempt VALUES(100000, 1, 1, 1, 2, 1, 0, 0, '')", "INSERT INTO recent_own VALUES(-1, 1, 1, 1)",
        ])
    func D10_what_differs_from_the_messages_is_told_and_rebuilt(change: String) async throws {
        let bench = try filled()
        let path = bench.directory.store
        do { try PlainDatabase(path).rows(change) }
        #expect(try !MessageQueue.check(path: path).isSound)
        try markUnchecked(path)
        let events = try await eventsOfCheck(path) { queue in try queue.enqueue("new") }
        #expect(events.contains { $0.contains("rebuilt a damaged index") }, "\(events)")
        let report = try MessageQueue.check(path: path)
        #expect(report.isSound, "\(report.text)")
    }

    /// Each message that is added, sent or removed is in a conversation that takes many steps to count.
    @Test func D10_long_conversations_are_counted_while_they_change() throws {
        for differs in [false, true] {
            let bench = try StoreBench()
            try bench.transaction { _ in for _ in 0..<20_000 { _ = try bench.insert("ana", [1, 2]) } }
            bench.close()
            if differs {
                try PlainDatabase(bench.directory.store).rows("UPDATE conversation SET sent = sent + 1, proof = proof + 5")
            }
            try markUnchecked(bench.directory.store)
            try bench.reopen()
            var random = SeededGenerator(7)
            var end = StoreChecks.Step.unfinished
            while bench.store.checks.isDue {
                end = try bench.store.checks.step()
                let isRolledBack = random.chance(30)
                let row = try bench.row(random.int64(1...20_000), .none)
                do {
                    try bench.transaction { store in
                        _ = try bench.insert("ana", [1, 2, 3])
                        if let row, row.progress.status == .queued {
                            var progress = row.progress
                            progress.status = random.chance(50) ? .failed : .sent
                            try store.messages.update(row, to: progress)
                        } else if let row {
                            try store.messages.delete(row)
                        }
                        if isRolledBack { throw QueueError(.busy, "rolled back") }
                    }
                } catch let error as QueueError where error.code == .busy {}
            }
            let text = "there are 20000 messages, but the counts show 20001; the counts do not agree with the messages"
            #expect(end == (differs ? .damaged(text, differs: true) : .sound))
        }
    }
}
