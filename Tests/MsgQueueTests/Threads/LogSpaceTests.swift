import Glibc
import Testing

@testable import MsgQueue

/// The log keeps its size while the store is open, and no deleted text.
@Suite struct LogSpaceTests {
    private let secret = Array("the secret that nobody must find again".utf8)

    private func log(_ bench: StoreBench) throws -> [UInt8] { try FileBytes.read(bench.directory.store + "-wal") }

    /// Adds messages until the log was checkpointed so many times.
    private func fill(_ bench: StoreBench, checkpoints: Int) throws {
        var (left, last) = (checkpoints, bench.logFrames)
        while left > 0 {
            try bench.add("others", [UInt8](repeating: 1, count: 900))
            let frames = bench.logFrames
            if frames < last { left -= 1 }
            last = frames
        }
    }

    @Test func W1_the_log_is_extended_ahead_and_keeps_its_size() throws {
        let bench = try StoreBench()
        for _ in 0..<20 { try bench.add() }
        #expect(try log(bench).count < LogSpace.shortest, "a short log is not extended")
        while bench.logFrames < 130 { try bench.add("others", [UInt8](repeating: 1, count: 900)) }
        let first = try log(bench).count
        #expect(first >= 512 << 10, "\(first)")
        try fill(bench, checkpoints: 1)
        let full = try log(bench).count
        #expect(full >= Int(LogSpace.target) && full <= Int(LogSpace.limit))
        try fill(bench, checkpoints: 2)
        #expect(try log(bench).count == full)
        try bench.transaction { _ in
            for _ in 0..<12 { _ = try bench.insert("large", [UInt8](repeating: 2, count: 1 << 20)) }
        }
        #expect(try log(bench).count <= Int(LogSpace.limit), "the space of a large transaction is released")
        bench.close()
        #expect(bench.directory.names == ["outbox.db"])
    }

    @Test func F8_a_commit_leaves_the_checkpoint_of_a_long_log_to_the_timer_for_a_while() throws {
        let bench = try StoreBench()
        while !bench.store.log.isLong { try bench.add("others", [UInt8](repeating: 1, count: 900)) }
        let frames = bench.logFrames
        try bench.add("others", [1])
        #expect(bench.logFrames > frames)
        try fill(bench, checkpoints: 1)
        #expect(!bench.store.log.isLong, "nobody did it, so a commit did")
        #expect(try log(bench).count <= Int(LogSpace.limit))
        bench.close()
    }

    @Test func F8_the_timer_thread_runs_the_checkpoint_of_a_long_log() async throws {
        let directory = TemporaryDirectory()
        var options = Options()
        options.mode = .manual
        let engine = try Engine.open(path: directory.store, options: options)
        let (lock, store) = (engine.context.lock, engine.context.store)
        var (checkpoints, last) = (0, Int32(0))
        // The thread may have run it before this test looks.
        while checkpoints < 3, !lock.withLock({ store.log.isLong }) {
            try [UInt8](repeating: 1, count: 900).withUnsafeBytes { body in
                let draft = BorrowedDraft(
                    id: nil, conversation: "others", body: body, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false)
                _ = try engine.enqueue(DraftBatch(count: 1) { places in places.map { _ in draft } })
            }
            let frames = lock.withLock { store.database.log?.frames ?? 0 }
            if frames < last { checkpoints += 1 }
            last = frames
        }
        #expect(await eventually { lock.withLock { !store.log.isLong } })
        _ = try engine.close(timeout: 5_000)
    }

    @Test func R4_deleted_text_is_overwritten_in_the_whole_log() throws {
        let bench = try StoreBench()
        try bench.add("others", [0])
        try fill(bench, checkpoints: 1)
        for _ in 0..<200 { try bench.add("others", [UInt8](repeating: 1, count: 900)) }
        let row = try bench.add("a", secret)
        try fill(bench, checkpoints: 1)
        #expect(FileBytes.find(secret, in: try log(bench)) != nil, "it is in the frames of the log before")
        try bench.transaction { try $0.messages.delete(row) }
        bench.store.log.scrub()
        #expect(FileBytes.find(secret, in: try log(bench)) == nil)
        #expect(FileBytes.find(secret, in: try FileBytes.read(bench.directory.store)) == nil)
    }

    @Test func R4_text_of_a_transaction_that_was_rolled_back_is_overwritten() throws {
        struct Refusal: Error {}
        let bench = try StoreBench()
        let row = try bench.add("a", [1])
        #expect(throws: Refusal.self) {
            try bench.transaction { _ in
                // More than SQLite keeps in memory.
                for _ in 0..<12_000 { _ = try bench.insert("b", secret + [UInt8](repeating: 1, count: 900)) }
                throw Refusal()
            }
        }
        #expect(FileBytes.find(secret, in: try log(bench)) != nil, "SQLite has written a part of it")
        try bench.transaction { try $0.messages.delete(row) }
        bench.store.log.scrub()
        #expect(FileBytes.find(secret, in: try log(bench)) == nil)
        #expect(try log(bench).count <= Int(LogSpace.limit))
    }

    /// Vacuums until no page is free, and makes the file as short as the database.
    private func vacuum(_ bench: StoreBench) throws {
        #expect(bench.store.space.canVacuumInSteps)
        while try bench.store.space.sizes().free > 0 { try bench.transaction { try $0.space.vacuumStep(pages: 16) } }
        bench.store.log.shortenFile()
    }

    @Test(arguments: [true, false])
    func R4_F7_deleted_text_is_not_left_by_the_steps_of_a_vacuum(isDeletedBefore: Bool) throws {
        let bench = try StoreBench()
        let own = secret + [UInt8](repeating: 2, count: 800)
        let filler = [UInt8](repeating: 1, count: own.count)
        // Live pages at the end of the file are moved to the free pages before them.
        let order = isDeletedBefore ? [own, filler] : [filler, own]
        let rows = try bench.transaction { _ in
            try order.map { body in try (0..<300).map { _ in try bench.insert("a", body) } }
        }
        #expect(bench.store.log.checkpoint())
        let size = try FileBytes.read(bench.directory.store).count
        try bench.transaction { store in for row in rows[0] { try store.messages.delete(row) } }
        try vacuum(bench)
        #expect(try FileBytes.read(bench.directory.store).count < size * 2 / 3)
        if !isDeletedBefore {
            for row in rows[1] { #expect(try bench.row(row.sequence)?.body == own) }
            try bench.transaction { store in for row in rows[1] { try store.messages.delete(row) } }
        }
        bench.store.log.scrub()
        #expect(FileBytes.find(secret, in: try log(bench)) == nil)
        #expect(FileBytes.find(secret, in: try FileBytes.read(bench.directory.store)) == nil)
        try bench.reopen()
        #expect(try bench.rows("PRAGMA integrity_check") == [["ok"]])
        #expect(bench.store.counts.totals.queued == (isDeletedBefore ? 300 : 0))
        bench.close()
    }

    @Test func F7_a_crash_between_the_steps_of_a_vacuum_loses_nothing() throws {
        let bench = try StoreBench()
        let rows = try bench.transaction { _ in try (0..<600).map { _ in try bench.insert("a", [UInt8](repeating: 1, count: 900)) } }
        try bench.transaction { store in for row in rows[..<400] { try store.messages.delete(row) } }
        for _ in 0..<6 {
            try bench.transaction { try $0.space.vacuumStep(pages: 16) }
            try bench.reopen(clean: false)
            #expect(bench.store.loss == nil && bench.store.counts.totals.queued == 200)
            for row in rows[400...] { #expect(try bench.row(row.sequence)?.body.count == 900) }
        }
        bench.close()
        let report = try StoreCheck.run(bench.directory.store)
        #expect(report.isSound && report.whole == 200)
    }

    @Test(arguments: [700, 300])
    func F7_a_store_of_version_0_1_vacuums_in_steps_after_a_close_that_finds_half_of_it_free(deleted: Int) throws {
        let bench = try StoreBench(vacuumsInSteps: false)
        let rows = try bench.transaction { _ in try (0..<900).map { _ in try bench.insert("a", [UInt8](repeating: 1, count: 900)) } }
        try bench.transaction { store in for row in rows[..<deleted] { try store.messages.delete(row) } }
        #expect(!bench.store.space.canVacuumInSteps)
        try bench.reopen()
        #expect(bench.store.space.canVacuumInSteps == (deleted == 700))
        #expect(bench.store.counts.totals.queued == Int64(900 - deleted))
        for row in rows[deleted...] { #expect(try bench.row(row.sequence)?.body.count == 900) }
        #expect(try bench.rows("PRAGMA integrity_check") == [["ok"]])
    }

    @Test func D6_a_session_that_only_cleared_nothing_leaves_a_store_that_opens() throws {
        let bench = try StoreBench()
        try bench.add("a", [1])
        try bench.reopen()
        bench.store.log.scrub()
        bench.close(clean: false)
        try bench.reopen()
        #expect(bench.store.counts.totals.queued == 1 && bench.store.loss == nil)
    }

    @Test(arguments: [0, 1, 40])
    func D6_a_store_whose_log_was_overwritten_opens_after_a_crash(more: Int) throws {
        let bench = try StoreBench()
        for number in 0..<20 { try bench.add("a", [UInt8(number)]) }
        let row = try #require(try bench.row(3))
        try bench.transaction { try $0.messages.delete(row) }
        bench.store.log.scrub()
        #expect(try log(bench).prefix(32).allSatisfy { $0 == 0 })
        for number in 0..<more { try bench.add("b", [UInt8(number)]) }
        bench.close(clean: false)
        let report = try MessageQueue.check(path: bench.directory.store)
        #expect(report.isSound && report.whole == UInt64(19 + more), "\(report.text)")
        try bench.reopen()
        #expect(bench.store.loss == nil)
        #expect(bench.store.counts.totals.queued == Int64(19 + more))
        for number in 0..<more { #expect(try bench.row(Int64(21 + number))?.body == [UInt8(number)]) }
    }
}
