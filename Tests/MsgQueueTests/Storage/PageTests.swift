import Testing

@testable import MsgQueue

@Suite struct PageTests {
    /// Makes a store of some hundred messages in all statuses, some being sent, the newest not folded yet.
    private func filled(_ random: inout SeededGenerator, _ names: [Name]) throws -> (bench: StoreBench, sending: Set<Int64>) {
        let bench = try StoreBench()
        var sending = Set<Int64>()
        for round in 0..<12 {
            try bench.transaction { _ in
                for _ in 0..<20 {
                    let row = try bench.insert(random.pick(names), random.bytes(random.pick([0, 5, 2_000])))
                    var progress = row.progress
                    progress.status = random.pick([.queued, .queued, .queued, .sent, .delivered, .read, .failed])
                    if progress.status != .queued { try bench.move(row, to: progress) }
                    if progress.status == .queued, random.chance(10) { sending.insert(row.sequence) }
                }
            }
            if round < 9 { try bench.store.foldNow() }
        }
        return (bench, sending)
    }

    private func status(_ row: Row, _ sending: Set<Int64>) -> MessageStatus {
        sending.contains(row.sequence) ? .sending : row.progress.status
    }

    private func all(_ bench: StoreBench) throws -> [Row] {
        try bench.rows("SELECT seq FROM message ORDER BY seq").compactMap { try bench.row(Int64($0[0] ?? "") ?? 0, .none) }
    }

    private func page(_ bench: StoreBench, _ filter: Filter, _ sending: Set<Int64>) throws -> [Row] {
        try bench.store.pages.page(filter, sending: sending) { Issue.record("damaged: \($0)") }
    }

    @Test(arguments: 1...4)
    func Q5_H3_pages_in_both_directions_cover_the_whole_list(seed: UInt64) throws {
        var random = SeededGenerator(seed)
        let names: [Name] = ["ana", "ben", "cem"]
        let (bench, sending) = try filled(&random, names)
        let everything = try all(bench)
        for _ in 0..<40 {
            var statuses = StatusSet(rawValue: UInt32(random.int(1...63)))
            if random.chance(30) { statuses = random.pick([.unsent, .all, StatusSet(.queued), StatusSet(.sending), StatusSet(.failed)]) }
            var filter = Filter(
                conversation: random.chance(50) ? random.pick(names).text : nil, statuses: statuses, limit: random.int(1...60),
                newestFirst: random.chance(50), withoutBodies: random.chance(50))
            var expected = everything.filter { row in
                statuses.contains(status(row, sending)) && (filter.conversation.map { Name($0) == row.conversation } ?? true)
            }.map(\.sequence)
            if filter.newestFirst { expected.reverse() }
            var found: [Int64] = []
            for _ in 0...expected.count {
                let rows = try page(bench, filter, sending)
                #expect(rows.count <= filter.limit)
                found += rows.map(\.sequence)
                guard rows.count == filter.limit, let last = rows.last else { break }
                filter.after = last.sequence
            }
            #expect(found == expected, "seed \(seed), statuses \(statuses.rawValue), \(filter)")
        }
    }

    @Test func Q5_a_page_without_bodies_has_previews() throws {
        let bench = try StoreBench()
        let long = (0..<10_000).map { UInt8(truncatingIfNeeded: $0) }
        try bench.add("ana", long)
        try bench.add("ana", [1, 2, 3])
        let rows = try page(bench, Filter(withoutBodies: true), [])
        #expect(rows.map(\.bodySize) == [10_000, 3])
        #expect(rows[0].body.count < long.count && long.starts(with: rows[0].body))
        #expect(rows[0].body.count >= Preview.characters * 25, "enough for a preview")
        #expect(try page(bench, Filter(), []).map(\.body.count) == [10_000, 3])
    }

    @Test func H3_a_cursor_stays_valid_while_messages_change() throws {
        let bench = try StoreBench()
        for _ in 0..<30 { try bench.add("ana") }
        var seen: [Int64] = []
        var filter = Filter(limit: 7)
        for round in 0..<20 {
            let rows = try page(bench, filter, [])
            seen += rows.map(\.sequence)
            guard let last = rows.last else { break }
            filter.after = last.sequence
            // A message of an earlier page is removed, another is added.
            let row = try #require(try bench.row(last.sequence, .none))
            try bench.transaction { try $0.messages.delete(row) }
            if round < 3 { try bench.add("ana") }
            if round == 1 { try bench.store.foldNow() }
        }
        #expect(seen == Array(1...33))
    }

    @Test func Q5_a_damaged_message_is_left_out_and_reported() throws {
        let bench = try StoreBench()
        for _ in 0..<3 { try bench.add("ana", [1]) }
        bench.close()
        do { try PlainDatabase(bench.directory.store).rows("UPDATE message SET body = x'02' WHERE seq = 2") }
        try bench.reopen()
        var errors: [QueueError] = []
        let rows = try bench.store.pages.page(Filter(), sending: []) { errors.append($0) }
        // Left out, or shown as damaged: never as if it were whole.
        #expect(rows.filter { $0.sequence == 2 }.allSatisfy { $0.damage != nil })
        let whole: [Int64] = rows.map(\.sequence).filter { $0 != 2 }
        #expect(whole == [1, 3])
        #expect(errors.map(\.code) == [.corrupt])
    }

    // MARK: Steps

    private func addLarge(_ bench: StoreBench, _ count: Int) throws {
        for number in 0..<count { try bench.add("a", [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 300_000)) }
    }

    /// The rows of each step of a page. `between` is called after each step.
    private func steps(_ bench: StoreBench, _ filter: Filter, between: (Int) throws -> Void = { _ in }) throws -> [[Row]] {
        var (page, steps) = (PageSteps(filter), [[Row]]())
        repeat {
            steps.append(try page.step(bench.store.pages, sending: []) { Issue.record("damaged: \($0)") })
            try between(steps.count)
        } while !page.isComplete
        return steps
    }

    @Test func F9_a_step_of_a_page_ends_after_a_mebibyte_of_bodies_or_512_rows() throws {
        let bench = try StoreBench()
        try addLarge(bench, 20)
        #expect(try steps(bench, Filter(limit: 1000)).map(\.count) == [4, 4, 4, 4, 4])
        #expect(try steps(bench, Filter(limit: 1000, withoutBodies: true)).map(\.count) == [20])
        for _ in 0..<600 { try bench.add() }
        #expect(try steps(bench, Filter(after: 20, limit: 600)).map(\.count) == [512, 88])
    }

    @Test(arguments: [ListOrder.sequence, .time])
    func F9_a_row_that_goes_between_two_steps_is_left_out_and_the_page_is_full(order: ListOrder) throws {
        let bench = try StoreBench()
        try addLarge(bench, 12)
        let found = try steps(bench, Filter(limit: 11, order: order)) { step in
            guard step == 1 else { return }
            try bench.transaction { store in
                if let row = try store.messages.row(at: 6, .outline) { try store.messages.delete(row) }
                if let row = try store.messages.row(at: 7, .none) {
                    var progress = row.progress
                    progress.status = .failed
                    try store.messages.update(row, to: progress)
                }
                if let row = try store.messages.row(at: 9, .none) {
                    try ([1, 2] as [UInt8]).withUnsafeBytes {
                        try store.messages.replaceContent(of: row, by: MessageChange(body: $0), now: 7)
                    }
                }
            }
        }
        #expect(found.flatMap { $0 }.map(\.sequence) == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12])
        // The body is that of the row.
        #expect(found.flatMap { $0 }.first { $0.sequence == 9 }?.body == [1, 2])
    }

    @Test func F9_a_page_without_bodies_reads_only_the_start_of_large_bodies() throws {
        let bench = try StoreBench()
        try addLarge(bench, 5)
        try bench.reopen()
        var rows: [Row] = []
        let pages = try DatabaseWork.pages(bench.store) { rows = try steps(bench, Filter(withoutBodies: true)).flatMap { $0 } }
        #expect(rows.map(\.body.count) == Array(repeating: Preview.bytes + 1, count: 5))
        #expect(rows.allSatisfy { !$0.hasWholeBody && $0.bodySize == 300_000 })
        #expect(pages < 40, "\(pages)")
    }
}
