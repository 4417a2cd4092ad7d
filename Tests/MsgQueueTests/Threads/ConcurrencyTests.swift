import Glibc
import Testing

@testable import MsgQueue

@Suite struct ConcurrencyTests {
    private let directory = TemporaryDirectory()

    @Test func Q12_Q8_eight_threads_enqueue_while_a_drain_runs() async throws {
        let transport = RecordingTransport()
        var options = MessageQueue.Options(mode: .manual)
        options.maxInFlight = 4
        options.attemptTimeout = .seconds(600)
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        let each = 60
        let ids = try await withThrowingTaskGroup(of: [String].self) { group in
            for thread in 0..<8 {
                group.addTask {
                    try await onThread {
                        try (0..<each).map { try queue.enqueue("\(thread)/\($0)", conversation: "c\(thread % 3)") }
                    }
                }
            }
            group.addTask {
                for _ in 0..<5 { try await queue.drain() }
                return []
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(ids).count == 8 * each)
        try await queue.drain()
        #expect(try queue.counts().sent == 8 * Int64(each))
        let texts = transport.texts
        #expect(Set(texts).count == texts.count && texts.count == 8 * each, "each exactly once")
        #expect(transport.overlaps == 0)
        #expect(transport.mostAtOnce <= 4)
        // Messages of one thread in its order, messages of one conversation in the order of the store.
        for thread in 0..<8 {
            let own = texts.filter { $0.hasPrefix("\(thread)/") }
            #expect(own == (0..<each).map { "\(thread)/\($0)" })
        }
        for lane in 0..<3 {
            let stored = try queue.list(MessageQueue.Filter(conversation: "c\(lane)", statuses: .all, limit: 1000)).map(\.text)
            #expect(transport.deliveries.filter { $0.conversation == "c\(lane)" }.map(\.text) == stored)
        }
        try await queue.close()
    }

    @Test func X6_concurrent_calls_leave_each_message_with_a_status() async throws {
        let transport = RecordingTransport { delivery in
            switch delivery.token.rawValue % 7 {
            case 0: .retry(.server)
            case 1: .reject()
            default: .sent
            }
        }
        var options = MessageQueue.Options(mode: .auto, backoff: .ladder([.zero, .milliseconds(1)]), maxInFlight: 3)
        options.attemptTimeout = .seconds(600)
        options.onDemandTimeout = .seconds(600)
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        let log = EventLog(queue.events)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    try await onThread {
                        var random = SeededGenerator(UInt64(thread) + 1)
                        var ids: [String] = []
                        for _ in 0..<80 { try Self.act(queue, &ids, &random) }
                    }
                }
            }
            try await group.waitForAll()
        }
        try queue.setConnectivity(.online)
        #expect(await eventually { (try? queue.counts()).map { $0.queued + $0.sending == 0 } ?? false })
        let counts = try queue.counts()
        let left = counts.sent + counts.failed + counts.read + counts.delivered
        #expect(try queue.list(MessageQueue.Filter(statuses: .all, limit: 1000)).count == left)
        #expect(transport.overlaps == 0)
        try await queue.close()
        #expect(await eventually { log.hasEnded })
        for change in log.changes() {
            if let from = change.from { #expect(StatusRule.allows(from, change.to), "\(from) to \(change.to)") }
        }
    }

    private static func act(_ queue: MessageQueue, _ ids: inout [String], _ random: inout SeededGenerator) throws {
        do {
            switch random.int(0...9) {
            case 0..<5: ids.append(try queue.enqueue("\(ids.count)", conversation: "c\(random.int(0...4))"))
            case 5: if !ids.isEmpty { try queue.edit(random.pick(ids), body: "edited") }
            case 6: if !ids.isEmpty { try random.chance(50) ? queue.retry(random.pick(ids)) : queue.sendNow(random.pick(ids)) }
            case 7: if !ids.isEmpty, random.chance(30) { try queue.delete(random.pick(ids)) }
            case 8: try queue.setConnectivity(random.pick([.online, .online, .unknown, .offline]))
            default: _ = try queue.list(MessageQueue.Filter(statuses: .all, limit: 20))
            }
        } catch {
            // Another thread was faster: a clear error.
            guard [.busy, .conflict, .notFound].contains(error.code) else { throw error }
        }
    }

    /// In a separate process, so that threads and files of other tests do not count.
    @Test func two_hundred_openings_leak_no_threads_or_descriptors() async {
        await #expect(processExitsWith: .success) {
            let directory = TemporaryDirectory()
            let transport = RecordingTransport()
            func cycle(_ round: Int) async throws {
                let queue = try MessageQueue(path: directory.store) { await transport.send($0) }
                let log = EventLog(queue.events)
                let id = try queue.enqueue("\(round)")
                guard await eventually({ (try? queue.message(id: id).status) == .sent }) else {
                    throw Violation("round \(round) was not sent")
                }
                try await queue.close()
                guard await eventually({ log.hasEnded }) else { throw Violation("the events of round \(round) do not end") }
            }
            for round in 0..<20 { try await cycle(round) }
            let before = (ProcessTable.threads, ProcessTable.descriptors)
            for round in 20..<220 { try await cycle(round) }
            // Threads need a moment to end.
            let isFlat = await eventually { ProcessTable.threads <= before.0 && ProcessTable.descriptors <= before.1 }
            guard isFlat else {
                throw Violation("\(before) became \(ProcessTable.threads) threads, \(ProcessTable.descriptors) descriptors")
            }
        }
    }
}
