import CSQLite
import Testing

@testable import MsgQueue

@Suite struct PruneMapTests {
    /// Compares with a plain list of times in random order: every due message is found, and none is left at the end.
    @Test(arguments: 1...50)
    func H2_every_due_message_is_found(seed: UInt64) {
        var random = SeededGenerator(seed)
        var map = PruneMap()
        var times: [Int64: Int64] = [:]
        var newest: Int64 = 0
        for _ in 0..<300 {
            switch random.int(0...3) {
            case 0: newest += random.int64(0...9_000)
            case 1 where newest > 0:
                let sequence = random.int64(1...newest)
                let time = random.int64(0...1_000)
                guard times[sequence] == nil else { continue }
                times[sequence] = time
                map.add(sequence, at: time)
            default:
                let since = random.int64(0...1_000)
                for _ in 0..<10_000 {
                    guard let scan = map.next(hasExcess: false, keepSince: since, newest: newest) else { break }
                    #expect(scan.after < scan.through && scan.through <= newest)
                    let left = times.filter { !($0.key > scan.after && $0.key <= scan.through && $0.value < since) }
                    switch random.int(0...9) {
                    case 0: map.undo()
                    case 1:
                        map.finish(scan, oldest: oldest(left, scan))
                        map.undo()
                    default:
                        map.finish(scan, oldest: oldest(left, scan))
                        times = left
                    }
                }
                #expect(!times.values.contains { $0 < since }, "seed \(seed)")
                #expect(map.next(hasExcess: false, keepSince: since, newest: newest) == nil)
            }
        }
    }

    /// A damaged store may contain any sequence.
    @Test func H2_sequences_at_the_end_of_the_range_do_not_overflow() {
        var map = PruneMap()
        map.skip(to: Int64.max - 1)
        let first = map.next(hasExcess: false, keepSince: 10, newest: Int64.max)
        #expect(first == PruneMap.Scan(after: Int64.max - 1, through: Int64.max, isFirst: true))
        if let first { map.finish(first, oldest: 5) }
        let again = map.next(hasExcess: false, keepSince: 10, newest: Int64.max)
        #expect(again?.through == Int64.max && again?.isFirst == false)
    }

    private func oldest(_ times: [Int64: Int64], _ scan: PruneMap.Scan) -> Int64? {
        times.filter { $0.key > scan.after && $0.key <= scan.through }.values.min()
    }

    /// The history is read once in a session, not each time that the timer runs.
    @Test func H2_a_history_without_due_messages_is_read_once() throws {
        let bench = try StoreBench()
        let store = bench.store
        try bench.transaction { _ in
            for _ in 1...10_000 {
                let row = try bench.insert()
                var progress = row.progress
                (progress.status, progress.sentAt) = (.sent, 1_000)
                try bench.move(row, to: progress)
            }
        }
        #expect(try pagesOfPruning(store, keepSince: 500) > 100, "the first time the whole history is read")
        #expect(try pagesOfPruning(store, keepSince: 501) < 20)
        #expect(store.totals.sent == 10_000)
        #expect(try pagesOfPruning(store, keepSince: 1_001) > 100)
        #expect(store.totals.sent == 0)
    }

    /// Prunes the whole history. Returns the number of page accesses.
    private func pagesOfPruning(_ store: Store, keepSince: Int64) throws -> Int {
        let before = pages(store)
        for _ in 0..<10_000 {
            try store.begin()
            let step = try store.prune(keepCount: nil, keepSince: keepSince, forgetBefore: 0, now: 2_000, damaged: { _ in })
            try store.commit(durable: false)
            if step == .finished { break }
        }
        return pages(store) - before
    }

    private func pages(_ store: Store) -> Int {
        var (hits, misses, highest) = (Int32(0), Int32(0), Int32(0))
        sqlite3_db_status(store.database.handle, SQLITE_DBSTATUS_CACHE_HIT, &hits, &highest, 0)
        sqlite3_db_status(store.database.handle, SQLITE_DBSTATUS_CACHE_MISS, &misses, &highest, 0)
        return Int(hits) + Int(misses)
    }
}
