import Foundation
import Testing

@testable import MsgQueue

/// What the store derives from the messages, compared with the messages after random calls.
@Suite struct DerivedTests {
    private static var seeds: ClosedRange<UInt64> {
        let environment = ProcessInfo.processInfo.environment
        if let seed = environment["MSGQUEUE_SEED"].flatMap({ UInt64($0) }) { return seed...seed }
        return 1...(environment["MSGQ_SOAK"] != nil ? 300 : 3)
    }

    @Test(arguments: seeds)
    func D10_H4_what_is_derived_agrees_with_the_messages_after_any_calls(seed: UInt64) throws {
        let host = try Host(seed)
        for _ in 0..<150 {
            let call = try host.callAnything()
            try host.compare("seed \(seed), after \(call)")
            if Failure.hasRecorded { return }
        }
        try host.compareCopy("seed \(seed)")
        host.bench.close()
        let report = try StoreCheck.run(host.bench.directory.store)
        #expect(report.isSound, "seed \(seed): \(report.text)")
        try host.bench.reopen()
        #expect(host.bench.engine.context.store.repair == nil)
        try host.compare("seed \(seed), after the close")
    }

    /// Stops a test at its first failure.
    private enum Failure { nonisolated(unsafe) static var hasRecorded = false }

    /// Makes random calls.
    private final class Host {
        let bench: EngineBench
        private var random: SeededGenerator
        private var named = 0
        private let usesTimes: Bool

        init(_ seed: UInt64) throws {
            Failure.hasRecorded = false
            var random = SeededGenerator(seed)
            bench = try EngineBench { options in
                options.mode = .manual
                options.direct = false
                options.keepSent = random.chance(80) ? random.int64(0...30) : nil
                options.keepSentFor = random.chance(50) ? random.int64(0...20) * 60_000 : nil
                options.limitMessages = random.chance(50) ? random.int64(20...60) : 0
                options.onFull = random.chance(70) ? .dropOldest : .refuse
                options.exhausted = random.chance(30) ? .discard : .keep
                options.refused = random.chance(30) ? .discard : .keep
                options.finalFailure = random.chance(20) ? .block : .stepAside
                options.maxInFlight = random.int(1...3)
                options.maxRetries = random.int(0...2)
                options.backoff = .ladder([1_000, 2_000])
                options.rememberIDs = random.chance(50) ? 0 : Options.week
            }
            usesTimes = random.chance(60)
            self.random = random
            try bench.engine.setNetwork(Network(connectivity: .online))
            let answers = SharedGenerator(seed)
            bench.answer { _ in answers.outcome() }
        }

        private var store: Store { bench.engine.context.store }
        private var conversation: Name { Name("c\(random.int(0...5))") }
        private var kind: FailureKind { random.pick([.none, .server, .rejected, .network]) }
        private var code: Int32? { random.chance(50) ? nil : Int32(random.int(500...502)) }

        private func anyID(_ statuses: [MessageStatus] = MessageStatus.allCases) throws -> String? {
            let ids = try bench.engine.list(Filter(statuses: StatusSet(statuses.map { StatusSet($0) }), limit: 1_000)).map(\.id)
            return ids.isEmpty ? nil : random.pick(ids)
        }

        private func draft(_ body: UnsafeRawBufferPointer) -> BorrowedDraft {
            named += 1
            return BorrowedDraft(
                id: random.chance(40) ? "m\(named)" : nil, conversation: conversation,
                body: UnsafeRawBufferPointer(rebasing: body.prefix(random.chance(20) ? random.int(1...3_000) : random.int(0...20))),
                metadata: [], notBefore: random.chance(10) ? bench.clock.wall + random.int64(1...100_000) : 0,
                expiresAt: random.chance(10) ? bench.clock.wall + random.int64(1...100_000) : 0,
                unmeteredOnly: false, replaceKey: random.chance(20) ? "k\(random.int(0...2))" : nil,
                priority: random.chance(10) ? 1 : 0,
                time: usesTimes && random.chance(20) ? bench.clock.wall - 500_000 + random.int64(0...600_000) : 0)
        }

        private func change(_ body: UnsafeRawBufferPointer) -> MessageChange {
            MessageChange(
                body: UnsafeRawBufferPointer(rebasing: body.prefix(random.int(0...3_000))),
                metadata: random.chance(50) ? [("key", "value")] : nil)
        }

        private func updated(_ body: UnsafeRawBufferPointer) -> MessageChange {
            var change = change(body)
            if usesTimes, random.chance(60) { change.time = bench.clock.wall - 500_000 + random.int64(0...600_000) }
            return change
        }

        /// Makes one call, which may fail. Returns its name.
        func callAnything() throws -> String {
            let bytes = [UInt8](repeating: 0x78, count: 3_000)
            var name = ""
            do {
                try bytes.withUnsafeBytes { body in
                    switch random.int(0...17) {
                    case 0...2:
                        name = "enqueue"
                        for _ in 0..<random.int(1...12) { _ = try bench.engine.enqueue(DraftBatch(draft(body))) }
                    case 3:
                        name = "batch"
                        let drafts = (0..<random.int(2...100)).map { _ in draft(body) }
                        _ = try bench.engine.enqueue(DraftBatch(count: drafts.count) { places in places.map { drafts[$0] } })
                    case 4:
                        name = "record"
                        for _ in 0..<random.int(1...8) {
                            var draft = draft(body)
                            (draft.replaceKey, draft.priority, draft.expiresAt) = (nil, 0, 0)
                            let id = try bench.engine.record(draft, sender: "Ana")
                            if random.chance(60) { try bench.engine.mark(id, as: .read) }
                        }
                    case 5...7:
                        name = "drain"
                        try bench.drain(batch: random.chance(50) ? random.int(1...30) : 0)
                    case 8:
                        name = "delete"
                        for _ in 0..<random.int(1...5) { if let id = try anyID() { try bench.engine.delete(id) } }
                    case 9:
                        name = "edit"
                        if let id = try anyID([.queued, .failed]) {
                            try bench.engine.edit(id, change(body))
                        }
                        for _ in 0..<random.int(0...20) {
                            guard let id = try anyID([.delivered, .read]) else { break }
                            name = "update"
                            do { try bench.engine.update(id, updated(body)) } catch let error as QueueError where error.code == .conflict {}
                        }
                    case 10:
                        name = "mark"
                        for _ in 0..<random.int(1...5) {
                            if let id = try anyID([.sent, .delivered]) {
                                try bench.engine.mark(id, as: random.chance(50) ? .delivered : .read)
                            }
                        }
                    case 16:
                        name = "record batch"
                        let drafts = (0..<random.int(1...100)).map { _ in
                            var draft = draft(body)
                            draft.sender = random.chance(60) ? "Ana" : nil
                            return draft
                        }
                        let batch = DraftBatch(count: drafts.count) { places in places.map { drafts[$0] } }
                        _ = try HistoryCalls(bench.engine).record(batch)
                    case 17:
                        name = "receipts"
                        let receipt: MessageStatus = random.chance(50) ? .delivered : .read
                        if random.chance(50) {
                            let ids = try (0..<random.int(1...20)).compactMap { _ in try anyID() }
                            _ = try HistoryCalls(bench.engine).mark(ids, as: receipt)
                        } else if let id = try anyID([.sent, .delivered, .read]) {
                            _ = try HistoryCalls(bench.engine).mark(upTo: id, as: receipt)
                        }
                    case 11:
                        name = "clear"
                        if random.chance(30) { _ = try bench.engine.clearFailed(.failed(nil, kind, code)) }
                        try bench.engine.clear(random.chance(80) ? "nobody" : random.chance(70) ? conversation.text : nil)
                    case 12:
                        name = "retry"
                        if random.chance(50) {
                            _ = try bench.engine.retryAll(.failed(random.chance(70) ? nil : conversation.text, kind, code))
                        } else if let id = try anyID([.failed]) {
                            try bench.engine.retry(id)
                        }
                        try bench.poll()
                    case 13:
                        name = "time"
                        if random.chance(10) { bench.clock.shiftWall(-random.int64(1...(random.chance(50) ? 5_000 : 60_000))) }
                        bench.clock.advance(random.int64(1...200_000))
                        try bench.reportClock()
                    case 14:
                        name = "prune"
                        bench.clock.advance(60_000)
                        for _ in 0..<random.int(1...4) { try bench.reportClock() }
                    default:
                        name = "reopen"
                        guard random.chance(30) else { return }
                        try bench.reopen()
                        #expect(store.repair == nil)
                        try bench.engine.setNetwork(Network(connectivity: .online))
                    }
                }
            } catch let error as QueueError {
                #expect(![.internal, .corrupt, .storage, .unknown].contains(error.code), "\(name): \(error)")
            }
            return name
        }

        // MARK: Comparing

        func compare(_ comment: String) throws {
            try bench.engine.context.lock.withLock {
                #expect(!store.isInTransaction)
                let differences = try Derivation.differences(of: store)
                #expect(differences == [], "\(comment)")
                Failure.hasRecorded = Failure.hasRecorded || !differences.isEmpty
            }
            // Full pages, and all of the conversations.
            let expected = try Derivation.conversations(of: store)
            let limit = random.int(1...4)
            var (found, before): ([String], Int64) = ([], 0)
            while true {
                let page = try bench.engine.conversations(before: before, limit: limit)
                found += page.map(\.name)
                guard page.count == limit, let last = page.last else { break }
                before = last.last.sequence
            }
            #expect(found == expected, "\(comment)")
            Failure.hasRecorded = Failure.hasRecorded || found != expected
        }

        /// Compares the same in a copy of the files of the open store, as a crash leaves them.
        func compareCopy(_ comment: String) throws {
            let directory = TemporaryDirectory()
            for suffix in ["", "-wal", "-tail"] {
                let path = bench.directory.store + suffix
                if access(path, F_OK) == 0 { try FileBytes.write(try FileBytes.read(path), to: directory.store + suffix) }
            }
            let report = try StoreCheck.run(directory.store)
            #expect(report.isSound, "\(comment): \(report.text)")
            let copy = try Store(path: directory.store, options: Options())
            #expect(copy.repair == nil, "\(comment)")
            #expect(try Derivation.differences(of: copy) == [], "\(comment), after a crash")
            copy.close(clean: true)
        }
    }

    /// Answers attempts at random.
    private final class SharedGenerator: @unchecked Sendable {
        private let mutex = Mutex()
        private var random: SeededGenerator

        init(_ seed: UInt64) { random = SeededGenerator(seed &+ 1_000) }

        func outcome() -> Outcome {
            mutex.withLock {
                switch random.int(0...9) {
                case 0...6: .sent
                case 7: .retry(.network)
                case 8: .reject(random.chance(50) ? .server : .rejected, code: Int32(random.int(500...502)))
                default: .skipped
                }
            }
        }
    }
}

/// What the store keeps in memory is compared with SQL of its own; the rest by the library's list (`Derived`), whose parts the C tests damage.
private enum Derivation {
    /// Returns where the store differs.
    static func differences(of store: Store) throws -> [String] {
        func rows(_ sql: String) throws -> [[String]] {
            try PlainDatabase.rows(sql, store.database.handle).map { $0.map { $0 ?? "NULL" } }
        }
        var differences = try store.differences()
        let structure = try rows("PRAGMA integrity_check")
        if structure != [["ok"]] { differences.append("structure: \(structure)") }
        let counts =
            "total(status = 0), total(status = 2), total(status = 3), total(status = 4), total(status = 5), "
            + "total(status IN (6, 7)), total(status = 6), total(CASE WHEN status IN (0, 5) THEN body_size ELSE 0 END)"
        let totals = store.counts.totals
        let expected = try rows("SELECT \(counts) FROM message NOT INDEXED")[0].map { Int64(Double($0) ?? -1) }
        let known = [
            totals.queued, totals.sent, totals.delivered, totals.read, totals.failed, totals.received, totals.unread, totals.unsentBytes,
        ]
        if known != expected { differences.append("totals: \(known), expected \(expected)") }
        let unfolded = try store.counts.unfolded()
        if store.counts.counters.unfolded.filter({ $0.value != Counts() }) != unfolded { differences.append("counts of unfolded messages") }
        return differences
    }

    /// Returns the conversations in the order of their newest messages, newest first.
    static func conversations(of store: Store) throws -> [String] {
        try PlainDatabase.rows(
            "SELECT conversation FROM message NOT INDEXED GROUP BY conversation ORDER BY max(seq) DESC", store.database.handle
        ).map { $0[0] ?? "" }
    }
}
