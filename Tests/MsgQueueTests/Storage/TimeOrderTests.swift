import Foundation
import Testing

@testable import MsgQueue

/// The order of the messages by their own times: random calls, compared with a list that is sorted.
@Suite struct TimeOrderTests {
    private struct Known {
        var place: TimePlace
        let conversation: String
        var status: MessageStatus
        var isReceived = false
        var isPrunable: Bool { status == .sent || status == .read || status == .delivered && !isReceived }
    }

    private final class Model {
        var messages: [String: Known] = [:]

        func ids(in conversation: String?, _ statuses: StatusSet, newestFirst: Bool) -> [String] {
            let found = messages.filter {
                (conversation == nil || $0.value.conversation == conversation) && statuses.contains($0.value.status)
            }
            let sorted = found.sorted { $0.value.place < $1.value.place }.map(\.key)
            return newestFirst ? sorted.reversed() : sorted
        }

        /// Removes the oldest messages that exceed the limit.
        func prune(keeping limit: Int) {
            let found = messages.filter(\.value.isPrunable).sorted { $0.value.place < $1.value.place }
            for (id, _) in found.prefix(max(0, found.count - limit)) { messages[id] = nil }
        }
    }

    private static let conversations: [Name] = ["ana", "ben", "cem"]

    private func record(_ bench: EngineBench, _ conversation: Name, time: Int64) throws -> String {
        try Array("hello".utf8).withUnsafeBytes { body in
            let draft = BorrowedDraft(
                id: nil, conversation: conversation, body: body, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false, time: time)
            return try bench.engine.record(draft, sender: "eve")
        }
    }

    private func enqueue(_ bench: EngineBench, _ conversation: Name, time: Int64, count: Int) throws -> [String] {
        try Array("hello".utf8).withUnsafeBytes { body in
            let draft = BorrowedDraft(
                id: nil, conversation: conversation, body: body, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false, time: time)
            return try bench.engine.enqueue(DraftBatch(count: count) { places in places.map { _ in draft } }).ids()
        }
    }

    /// Reads all pages by time.
    private func pages(_ bench: EngineBench, _ conversation: String?, _ statuses: StatusSet, newestFirst: Bool, limit: Int) throws
        -> [Message]
    {
        var filter = Filter(conversation: conversation, statuses: statuses, limit: limit, newestFirst: newestFirst, order: .time)
        var found: [Message] = []
        while true {
            let page = try bench.engine.list(filter)
            found += page
            guard let last = page.last, page.count == limit else { return found }
            (filter.afterTime, filter.after) = (last.time, last.sequence)
        }
    }

    private func compare(_ bench: EngineBench, _ model: Model, _ random: inout SeededGenerator, _ what: String) throws {
        let conversation: String? = random.chance(50) ? random.pick(Self.conversations).text : nil
        let statuses: StatusSet =
            random.chance(50) ? .all : random.chance(50) ? [StatusSet(.queued)] : [StatusSet(.sent), StatusSet(.delivered)]
        let limit = random.pick([1, 3, 50])
        for newestFirst in [false, true] {
            let found = try pages(bench, conversation, statuses, newestFirst: newestFirst, limit: limit)
            let expected = model.ids(in: conversation, statuses, newestFirst: newestFirst)
            #expect(found.map(\.id) == expected, "\(what): \(conversation ?? "all"), newest first: \(newestFirst), limit \(limit)")
            for message in found { #expect(message.time == model.messages[message.id]?.place.time, "\(what)") }
        }
        // The conversations by their newest messages.
        var expected: [(name: String, place: TimePlace)] = []
        for name in Self.conversations.map(\.text) {
            if let newest = model.messages.values.filter({ $0.conversation == name }).map(\.place).max() { expected.append((name, newest)) }
        }
        expected.sort { $0.place > $1.place }
        var (found, before): ([Conversation], TimePlace?) = ([], nil)
        while let next = try bench.engine.conversationsByTime(before: before, limit: 1).first {
            found.append(next)
            before = TimePlace(next.last.time, next.last.sequence)
        }
        #expect(found.map(\.name) == expected.map(\.name), "\(what)")
        #expect(found.map(\.last.sequence) == expected.map(\.place.sequence), "\(what)")
        // By sequence the newest message by time is shown, and its sequence begins the next page.
        var (names, last): ([String], Int64) = ([], 0)
        while let next = try bench.engine.conversations(before: last, limit: 1).first {
            names.append(next.name)
            last = next.last.sequence
            #expect(last == expected.first { $0.name == next.name }?.place.sequence, "\(what)")
            guard names.count <= 3 else { break }
        }
        #expect(Set(names).count == names.count && names.count == expected.count, "\(what): \(names)")
    }

    @Test(arguments: 0..<(getenv("MSGQ_SOAK") == nil ? 12 : 240))
    func H10_H11_random_times_are_listed_as_in_a_sorted_list(seed: Int) throws {
        var random = SeededGenerator(UInt64(seed) &+ 4711)
        let keep: Int64? = seed % 3 == 0 ? 12 : nil
        let bench = try EngineBench {
            ($0.mode, $0.direct) = (.manual, false)
            $0.keepSent = keep
        }
        let model = Model()
        let usesTimes = seed % 4 != 1
        for step in 0..<120 {
            let conversation = random.pick(Self.conversations)
            let now = bench.clock.wall
            let time = usesTimes && random.chance(40) ? now - 50_000 + random.int64(0...99999) : 0
            switch random.int(0...99) {
            case 0..<30:
                // At the threshold of a bulk insertion.
                let ids = try enqueue(bench, conversation, time: time, count: random.chance(5) ? 70 : 1 + random.int(0...2))
                for id in ids {
                    let place = TimePlace(time == 0 ? now : time, try bench.engine.message(id: id).sequence)
                    model.messages[id] = Known(place: place, conversation: conversation.text, status: .queued)
                }
            case 30..<55:
                let id = try record(bench, conversation, time: time)
                let place = TimePlace(time == 0 ? now : time, try bench.engine.message(id: id).sequence)
                model.messages[id] = Known(place: place, conversation: conversation.text, status: .delivered, isReceived: true)
            case 55..<62:
                try bench.drain()
                for (id, known) in model.messages where known.status == .queued { model.messages[id]?.status = .sent }
            case 62..<70:
                guard let id = model.messages.filter(\.value.isReceived).keys.sorted().randomElement(using: &random) else { continue }
                try bench.engine.mark(id, as: .read)
                model.messages[id]?.status = .read
            case 70..<74:
                guard let id = model.messages.keys.sorted().randomElement(using: &random) else { continue }
                try bench.engine.delete(id)
                model.messages[id] = nil
            case 74..<83:
                for _ in 0..<random.int(1...4) {
                    let received = model.messages.filter(\.value.isReceived).keys.sorted()
                    guard let id = received.randomElement(using: &random) else { continue }
                    let created = try bench.engine.message(id: id).createdAt
                    // Also the time that it has without one of its own.
                    let time = random.chance(20) ? 0 : random.chance(20) ? created : now - 50_000 + random.int64(0...99999)
                    try Array("changed".utf8).withUnsafeBytes { try bench.engine.update(id, MessageChange(body: $0, time: time)) }
                    if time != 0 { model.messages[id]?.place.time = time }
                }
            case 83..<88: bench.clock.advance(random.int64(0...2999))
            case 88..<92: bench.clock.shiftWall(-random.int64(0...(random.chance(50) ? 2_000 : 60_000)))
            case 92..<95: try bench.reopen()
            default: try bench.pass(1_000)
            }
            if let keep {
                for _ in 0..<4 { try bench.pass(1_100) }
                model.prune(keeping: Int(keep))
            }
            if step % 4 == 0 { try compare(bench, model, &random, "seed \(seed), step \(step)") }
        }
        bench.close()
        let report = try StoreCheck.run(bench.directory.store)
        #expect(report.isSound, "\(report.text)")
        let salvaged = bench.directory.file("salvaged.db")
        #expect(try StoreSalvage.run(from: bench.directory.store, to: salvaged).isSound)
        #expect(try StoreCheck.run(salvaged).isSound)
        try FileBytes.write(try FileBytes.read(salvaged), to: bench.directory.store)
        try bench.reopen { $0.keepSent = nil }
        try compare(bench, model, &random, "seed \(seed), salvaged")
    }

    /// The messages before the first one with a time of its own are given one in steps, so that no page reads past many.
    @Test func H11_times_that_are_given_later_leave_no_long_runs_among_messages_without() throws {
        let bench = try StoreBench()
        for number in 0..<600 {
            bench.now += 1_000
            try bench.add(number % 3 == 0 ? "a" : "b", [1])
        }
        #expect(!bench.store.times.hasTimes)
        for sequence in Int64(1)...20 {
            let row = try #require(try bench.row(sequence))
            try bench.transaction { store in
                try [UInt8(2)].withUnsafeBytes {
                    try store.messages.replaceContent(of: row, by: MessageChange(body: $0, time: 5_000 + sequence), now: 7)
                }
            }
            #expect(bench.store.state.timedFrom == max(601 - sequence * 32, 19))
            #expect(try bench.store.differences() == [])
        }
        let filter = Filter(statuses: .all, limit: 1_000, order: .time)
        #expect(try bench.store.pages.page(filter, sending: [], damaged: { _ in }).map(\.sequence) == Array(1...600))
        try bench.reopen(clean: false)
        #expect(try bench.store.differences() == [])
        #expect(try bench.store.pages.page(filter, sending: [], damaged: { _ in }).map(\.sequence) == Array(1...600))
    }

    @Test func H11_a_time_that_is_not_stored_stays_as_it_was() throws {
        let bench = try StoreBench()
        for _ in 0..<40 {
            bench.now += 1_000
            try bench.add("a", [1])
        }
        let row = try #require(try bench.row(3))
        #expect(throws: QueueError.self) {
            try bench.transaction { store in
                try [UInt8(2)].withUnsafeBytes { try store.messages.replaceContent(of: row, by: MessageChange(body: $0, time: 5), now: 7) }
                throw QueueError(.storage, "a test")
            }
        }
        #expect(bench.store.state.timedFrom == nil)
        #expect(try bench.store.differences() == [])
        #expect(try bench.row(3)?.time == row.createdAt)
        try bench.add("a", [1])
        #expect(try bench.store.differences() == [])
    }

    @Test func H10_messages_of_an_older_layout_get_their_place_by_time() throws {
        let bench = try StoreBench()
        let times: [Int64] = [10, 20, 15, 15, 30, 5, 30, 31]
        for time in times {
            bench.now = 1_700_000_000_000 + time * 1_000_000
            try bench.add("a", [1])
        }
        // As layout 2 had them.
        try bench.transaction { store in
            try store.counts.fold()
            try store.database.execute("UPDATE message SET time_at = 0")
            try store.times.arrange()
        }
        try bench.reopen()
        #expect(try bench.store.differences() == [])
        let filter = Filter(conversation: "a", statuses: .all, order: .time)
        #expect(try bench.store.pages.page(filter, sending: [], damaged: { _ in }).map(\.sequence) == [6, 1, 3, 4, 2, 5, 7, 8])
    }
}
