import Testing

@testable import MsgQueue

@Suite struct RoomRuleTests {
    private typealias Room = RoomRule.Room

    private struct Line: Sendable {
        var need: RoomRule.Room
        /// Limits of messages, bytes and file bytes; 0: none.
        var limits: RoomRule.Room
        var queued: Int64 = 0
        var failed: Int64 = 0
        var bytes: Int64 = 0
        var held: Int64 = 0
        var file: Int64 = 0
        /// What is dropped; nil: the queue is full.
        var dropped: RoomRule.Room?
    }

    private static let none = RoomRule.Room()

    private static let table = [
        Line(need: .init(messages: 1, bytes: 9, file: 900), limits: none, queued: 1 << 40, dropped: none),
        Line(need: .init(messages: 1), limits: .init(messages: 5), queued: 4, dropped: none),
        Line(need: .init(messages: 1), limits: .init(messages: 5), queued: 3, failed: 2, dropped: .init(messages: 1)),
        // A replacement needs no place.
        Line(need: .init(messages: 0, bytes: 0), limits: .init(messages: 5), queued: 9, dropped: none),
        Line(need: .init(messages: -3), limits: .init(messages: 5), queued: 9, dropped: none),
        // A queue that is over its limit comes down to it.
        Line(need: .init(messages: 1), limits: .init(messages: 5), queued: 9, dropped: .init(messages: 5)),
        // What is being sent or failed is not dropped.
        Line(need: .init(messages: 1), limits: .init(messages: 2), queued: 2, held: 2, dropped: nil),
        Line(need: .init(messages: 1), limits: .init(messages: 2), failed: 2, dropped: nil),
        Line(need: .init(messages: 2), limits: .init(messages: 3), queued: 2, failed: 1, held: 1, dropped: nil),
        Line(need: .init(messages: 2), limits: .init(messages: 3), queued: 2, failed: 1, dropped: .init(messages: 2)),
        // More than the limit.
        Line(need: .init(messages: 6), limits: .init(messages: 5), queued: 5, dropped: nil),
        Line(need: .init(messages: 1, bytes: 101), limits: .init(bytes: 100), queued: 5, bytes: 50, dropped: nil),
        Line(need: .init(messages: 1, file: 101), limits: .init(file: 100), queued: 5, dropped: nil),
        Line(need: .init(messages: 1, bytes: 60), limits: .init(bytes: 100), queued: 5, bytes: 50, dropped: .init(bytes: 10)),
        Line(need: .init(messages: 1, bytes: 0), limits: .init(bytes: 100), queued: 5, bytes: 200, dropped: none),
        Line(need: .init(messages: 1, file: 60), limits: .init(file: 100), queued: 5, file: 50, dropped: .init(file: 10)),
        Line(
            need: .init(messages: 1, bytes: 6, file: 60), limits: .init(messages: 5, bytes: 9, file: 100), queued: 5, bytes: 8, file: 50,
            dropped: .init(messages: 1, bytes: 5, file: 10)),
    ]

    @Test(arguments: table.indices)
    func F6_what_exceeds_the_limits_is_dropped_or_refused(index: Int) throws {
        let line = Self.table[index]
        var options = Options()
        (options.limitMessages, options.limitBytes, options.limitFileBytes) = (line.limits.messages, line.limits.bytes, line.limits.file)
        var counts = Counts()
        (counts.queued, counts.failed, counts.unsentBytes) = (line.queued, line.failed, line.bytes)
        for onFull in OnFull.allCases {
            options.onFull = onFull
            let code = refusal {
                let decision = try RoomRule.decide(line.need, in: counts, held: line.held, file: line.file, options)
                #expect(decision == (line.dropped == Self.none ? .fits : .drop(line.dropped ?? Self.none)))
            }
            let fits = line.dropped == Self.none || line.dropped != nil && onFull == .dropOldest
            #expect(code == (fits ? nil : .full), "\(onFull)")
        }
    }

    @Test func F6_room_is_free_when_enough_was_dropped() {
        var left = Room(messages: 2, bytes: 100)
        left.drop(bytes: 90)
        #expect(!left.isDropped)
        left.drop(bytes: 5)
        #expect(!left.isDropped)
        left.drop(bytes: 5)
        #expect(left.isDropped && left.isFreed)
        #expect(!Room(file: 1).isFreed && Room(file: 1).isDropped)
    }
}
