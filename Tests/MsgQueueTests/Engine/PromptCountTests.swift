import Glibc
import Testing

@testable import MsgQueue

/// What a prompt asks about is what a drain sends: the count by sums, the rule for single messages and the drain agree.
@Suite struct PromptCountTests {
    /// A queue in mode ask whose host does anything.
    private final class Scene {
        let bench: EngineBench
        var random: SeededGenerator
        let isStrict: Bool
        let asksForFailed: Bool
        static let conversations: [Name] = ["ana", "ben", "cleo", "dan", "eva"]

        init(_ seed: UInt64) throws {
            var random = SeededGenerator(seed)
            let (isStrict, asksForFailed) = (random.chance(70), random.chance(50))
            let (blocks, retries, direct, batch) = (random.chance(40), random.chance(60), random.chance(40), random.chance(20))
            let isLimited = random.chance(20)
            bench = try EngineBench { options in
                (options.mode, options.direct, options.strictOrder, options.promptForFailed) = (.ask, direct, isStrict, asksForFailed)
                (options.onlineDebounce, options.promptTimeout, options.initialConnectivity) = (0, Options.day, .offline)
                options.finalFailure = blocks ? .block : .stepAside
                options.backoff = retries ? .ladder([2_000, 60_000]) : .ladder([])
                options.drainBatch = batch ? 7 : 0
                (options.limitMessages, options.onFull) = (isLimited ? 20 : 0, .dropOldest)
            }
            (self.random, self.isStrict, self.asksForFailed) = (random, isStrict, asksForFailed)
        }

        func enqueue() throws {
            let (kind, wall) = (random.int(0...99), bench.clock.wall)
            let text = String(repeating: "x", count: random.int(1...20))
            _ = try bench.enqueue(
                text, random.pick(Self.conversations), notBefore: kind < 20 ? wall + Int64(random.int(1...6_000)) : 0,
                expiresAt: (20..<30).contains(kind) ? wall + Int64(random.int(100...9_000)) : 0, unmeteredOnly: (25..<40).contains(kind))
        }

        /// Enqueues a message that replaces the queued one of its key.
        func replace() throws {
            let text = String(repeating: "y", count: random.int(1...20))
            let later = random.chance(30) ? bench.clock.wall + Int64(random.int(1...6_000)) : 0
            let conversation = random.pick(Self.conversations)
            try Array(text.utf8).withUnsafeBytes { body in
                let draft = BorrowedDraft(
                    id: nil, conversation: conversation, body: body, metadata: [], notBefore: later, expiresAt: 0,
                    unmeteredOnly: random.chance(20), replaceKey: "key")
                _ = try bench.engine.enqueue(DraftBatch(draft))
            }
        }

        func some(_ statuses: StatusSet) throws -> String? {
            let found = try bench.engine.list(Filter(statuses: statuses, limit: 200))
            return found.isEmpty ? nil : found[random.int(0...(found.count - 1))].id
        }

        func go(online: Bool) throws {
            try bench.engine.setNetwork(
                Network(connectivity: online ? .online : .offline, link: .wifi, metered: online && random.chance(30)))
            try bench.poll()
        }

        func act() throws {
            switch random.int(0...15) {
            case 0...3: try enqueue()
            case 4: try bench.engine.pause(random.pick(Self.conversations).text)
            case 5: try bench.engine.resume(random.pick(Self.conversations).text)
            case 6: if let id = try some([StatusSet(.queued), StatusSet(.failed)]) { try bench.engine.delete(id) }
            case 7:
                guard let id = try some(StatusSet(.queued)) else { break }
                let fails = random.chance(50)
                bench.answer { _ in fails ? .retry() : .sent }
                try? bench.engine.sendNow(id)
                try bench.poll()
                bench.answer { _ in .sent }
            case 8: try bench.pass(Int64(random.int(1...3_000)))
            case 9:
                if let id = try some(StatusSet(.queued)) {
                    try? Array("longer".utf8).withUnsafeBytes { try bench.engine.edit(id, MessageChange(body: $0)) }
                }
            case 10: if random.chance(30) { try bench.engine.clear(random.pick(Self.conversations).text) }
            case 11: try replace()
            case 12: if let id = try some(StatusSet(.failed)) { try? bench.engine.retry(id) }
            case 13: if random.chance(30) { _ = try bench.engine.retryAll(random.chance(50) ? nil : random.pick(Self.conversations).text) }
            case 14: if random.chance(30) { _ = try bench.engine.clearFailed(random.pick(Self.conversations).text) }
            default: try bench.engine.setNetwork(Network(connectivity: .online, link: .wifi, metered: random.chance(50)))
            }
            try bench.poll()
        }

        /// Waits for two counts, because what the first finds may be due at once.
        func settle() throws {
            try bench.pass(PromptState.interval)
            try bench.reportClock()
            try bench.pass(PromptState.interval)
        }

        /// Makes messages fail, wait for a retry, and be known to the scheduler.
        func prepare() throws {
            let seed = random.next()
            bench.answer { delivery in
                var random = SeededGenerator(seed &+ UInt64(delivery.token))
                return random.pick([.sent, .retry(), .reject(), .skipped])
            }
            for _ in 0..<random.int(5...25) { try enqueue() }
            for _ in 0..<3 {
                try go(online: true)
                if random.chance(60) { try bench.drain(batch: random.int(0...6)) }
                for _ in 0..<random.int(0...4) { try act() }
                try go(online: false)
                try bench.pass(Int64(random.int(1...2_000)))
            }
            if random.chance(30) { try bench.reopen() }
            bench.answer { _ in .sent }
            for _ in 0..<random.int(0...12) { try enqueue() }
            // Those that have expired fail.
            try bench.reportClock()
        }

        /// What a yes would send by the rule for single messages, and what it can be at most.
        func expected() throws -> [DrainForecast.Unsent] {
            var messages = try bench.withStore { store in
                let queued = try store.queue.queued(after: 0, limit: .max).map { DrainForecast.Unsent($0.conversation, $0.head) }
                guard asksForFailed else { return queued }
                let failed = try store.queue.failedHeads(after: 0, limit: .max)
                return queued + failed.map { DrainForecast.Unsent($0.conversation, $0.head, isFailed: true) }
            }
            messages.sort { $0.head.sequence < $1.head.sequence }
            let scheduler = bench.engine.context.core.scheduler
            var reach = DrainForecast.Reach()
            let forecast = DrainForecast(scheduler, bench.clock.ports.moment)
            guard !forecast.sendsNothing else { return [] }
            return forecast.sentByYes(messages, &reach)
        }

        /// Returns the number of messages that the prompt asks about.
        @discardableResult
        func check(_ what: String, mayBeWithdrawn: Bool) throws -> Int64 {
            let (asked, expected) = (try bench.engine.state().prompt, try expected())
            guard let asked else {
                if !mayBeWithdrawn { #expect(expected.isEmpty, "\(what): no prompt for \(expected.count) messages") }
                return 0
            }
            let batch = bench.engine.context.options.drainBatch == 0 ? Int.max : bench.engine.context.options.drainBatch
            let failed = expected.count(where: \.isFailed)
            let messages = min(expected.count - failed, batch)
            // The first of each: a message that replaced another has its place.
            let first = [expected.first { !$0.isFailed }, expected.first(where: \.isFailed)].compactMap { $0?.head.sequence }
            let oldest = try bench.withStore { store in try first.compactMap { try store.messages.createdAt($0) }.min() }
            let right = Prompt(
                messages: Int64(messages), failed: Int64(min(failed, batch - messages)),
                bytes: expected.reduce(0) { $0 + $1.head.bodySize }, oldestAt: oldest ?? 0,
                conversations: Int64(Set(expected.map(\.conversation)).count), timeout: Options.day)
            #expect(asked == right, "\(what)")
            return asked.messages + asked.failed
        }
    }

    /// `MSGQUEUE_SEED` repeats one run, `MSGQUEUE_SEEDS` sets their number.
    private static let seeds: ClosedRange<UInt64> = {
        func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }
        return number("MSGQUEUE_SEED").map { $0...$0 } ?? 1...(number("MSGQUEUE_SEEDS") ?? 40)
    }()

    @Test(arguments: seeds)
    func Q22_the_count_is_what_a_drain_sends(seed: UInt64) throws {
        let scene = try Scene(seed)
        try scene.prepare()
        try scene.go(online: true)
        try scene.bench.pass(1)
        let wasRaised = try scene.bench.engine.state().prompt != nil
        try scene.settle()
        try scene.check("seed \(seed)", mayBeWithdrawn: wasRaised)
        for step in 0..<20 where try scene.bench.engine.state().prompt != nil {
            try scene.act()
            try scene.settle()
            try scene.check("seed \(seed), step \(step)", mayBeWithdrawn: true)
        }
        guard try scene.bench.engine.state().prompt != nil else { return }
        let before = try scene.check("seed \(seed), at the end", mayBeWithdrawn: false)
        let first = scene.bench.deliveries.count
        try scene.bench.engine.drain(batch: 0, timeout: nil, includesFailed: scene.asksForFailed) { _ in }
        try scene.bench.poll()
        let report = scene.bench.events.lazy.compactMap { if case .drainFinished(let report) = $0 { report } else { nil } }.last
        // Retries that are due do not count against the batch.
        let isExact = scene.bench.engine.context.options.drainBatch == 0
        let sent = try #require(report?.sent)
        #expect(isExact ? sent == before : sent >= before, "seed \(seed): \(sent) of \(before)")
        #expect(Int64(scene.bench.deliveries.count - first) >= before)
    }

    /// A retry that starts by itself does not when a message before it waits for a yes. Of a long conversation not all are in the index.
    @Test(arguments: [1, 2, 300, 1_500], [1_000, 60_000])
    func Q22_a_retry_behind_messages_that_wait_for_a_yes_is_sent_by_it(before: Int, delay: Int64) throws {
        let bench = try EngineBench { options in
            (options.mode, options.direct, options.initialConnectivity, options.onlineDebounce) = (.ask, false, .offline, 0)
            options.backoff = .ladder([delay])
        }
        for number in 0..<before { try bench.enqueue("\(number)", "ana") }
        let id = try bench.enqueue("retried", "ana")
        try bench.enqueue("behind", "ana")
        try bench.enqueue("beside", "ben")
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.poll()
        #expect(try bench.engine.state().prompt?.messages == Int64(before) + 3)
        bench.answer(.retry())
        try bench.engine.sendNow(id)
        for time in [0, 1_500, 250, 250] as [Int64] { try bench.pass(time) }
        #expect(try bench.deliveries.count == 1 && bench.status(id) == .queued)
        let state = try bench.engine.state()
        #expect(state.prompt?.messages == Int64(before) + (delay == 1_000 ? 3 : 1))
        #expect(state.prompt?.conversations == 2 && state.reason == .person)
        try bench.drain()
        #expect(Int64(bench.deliveries.count - 1) == state.prompt?.messages)
    }

    @Test func Q22_the_count_follows_the_queue_while_retry_all_waits_for_a_retry() throws {
        let bench = try EngineBench { options in
            (options.mode, options.direct, options.initialConnectivity, options.onlineDebounce) = (.ask, false, .offline, 0)
            options.backoff = .ladder([60_000])
        }
        let retried = try bench.enqueue("retried", "ana")
        let failed = try bench.enqueue("failed", "ana")
        try bench.enqueue("beside", "ben")
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.poll()
        bench.answer(.reject(), .retry())
        for id in [failed, retried] {
            try bench.engine.sendNow(id)
            try bench.poll()
        }
        #expect(try bench.engine.retryAll(nil) == 1)
        for _ in 0..<2 { try bench.pass(250) }
        #expect(try bench.status(failed) == .queued && bench.deliveries.count == 2)
        #expect(try bench.engine.state().prompt?.messages == 1)
        try bench.enqueue("another", "ben")
        for _ in 0..<2 { try bench.pass(250) }
        #expect(try bench.engine.state().prompt?.messages == 2)
    }

    /// In the background no timer ends that delay.
    @Test func Q22_the_count_changes_when_a_skipped_message_no_longer_waits() throws {
        let bench = try EngineBench { options in
            (options.mode, options.direct, options.initialConnectivity, options.onlineDebounce) = (.ask, false, .offline, 0)
            options.backoff = .ladder([1_000])
        }
        try bench.enqueue("beside", "ben")
        try bench.enqueue("retried", "ana")
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.poll()
        #expect(try bench.engine.state().prompt?.messages == 2)
        bench.answer { $0.attempt == 1 ? .retry() : .skipped }
        try bench.engine.drain("ana", batch: 0, timeout: nil, includesFailed: false) { _ in }
        try bench.poll()
        try bench.enqueue("behind", "ana")
        try bench.pass(1_000)
        #expect(bench.deliveries.count == 2)
        try bench.engine.setLifecycle(isInBackground: true)
        try bench.pass(250)
        #expect(try bench.engine.state().prompt?.messages == 1)
        try bench.pass(1_500)
        #expect(try bench.engine.state().prompt?.messages == 2 && bench.deliveries.count == 2)
    }

    /// The call that reports the connection raises the prompt, even if its thread is interrupted at each read.
    @Test func Q20_Q22_a_short_queue_is_counted_in_one_step() throws {
        let bench = try EngineBench { ($0.mode, $0.direct, $0.initialConnectivity, $0.onlineDebounce) = (.ask, false, .offline, 0) }
        try bench.enqueue("1", "ana")
        try bench.enqueue("22", "ben")
        try DatabaseWork.slowed(bench.engine.context.store) {
            try bench.engine.setNetwork(Network(connectivity: .online))
            let prompt = try bench.engine.state().prompt
            #expect(prompt?.messages == 2 && prompt?.bytes == 3 && prompt?.conversations == 2)
        }
    }

    @Test func Q22_the_count_changes_when_a_failed_message_is_due() throws {
        let bench = try EngineBench { options in
            (options.mode, options.direct, options.initialConnectivity, options.onlineDebounce) = (.ask, false, .offline, 0)
            options.promptForFailed = true
        }
        try bench.enqueue("beside", "ben")
        let id = try bench.enqueue("later", "ana", notBefore: bench.clock.wall + 2_000)
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.poll()
        bench.answer(.reject())
        try bench.engine.sendNow(id)
        try bench.pass(250)
        let before = try bench.engine.state().prompt
        #expect(try bench.status(id) == .failed && before?.messages == 1 && before?.failed == 0)
        try bench.pass(2_000)
        #expect(try bench.engine.state().prompt?.failed == 1)
    }

    @Test func Q22_the_count_follows_the_queue_and_its_expiry_does_not_move() throws {
        let bench = try EngineBench { ($0.mode, $0.direct, $0.initialConnectivity, $0.onlineDebounce) = (.ask, false, .offline, 0) }
        for number in 1...3 { try bench.enqueue("x", "ana", id: "m\(number)") }
        try bench.enqueue("later", "ana", notBefore: bench.clock.wall + 2_000)
        try bench.enqueue("paused", "ben")
        try bench.engine.pause("ben")
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.poll()
        func changes() -> [Int64] { bench.events.compactMap { if case .promptChanged(let prompt) = $0 { prompt.messages } else { nil } } }
        let state = try bench.engine.state()
        #expect(state.prompt?.messages == 3 && state.prompt?.conversations == 1 && state.prompt?.bytes == 3)
        // Ten changes within a moment are one event, a quarter of a second later.
        for _ in 0..<10 { try bench.enqueue("y", "ana") }
        try bench.poll()
        #expect(changes().isEmpty)
        try bench.pass(250)
        #expect(changes() == [13])
        try bench.engine.resume("ben")
        try bench.pass(250)
        try bench.engine.delete("m1")
        try bench.pass(250)
        #expect(changes() == [13, 14, 13])
        // The scheduled message is due.
        try bench.pass(1_250)
        #expect(changes() == [13, 14, 13, 14])
        let now = try bench.engine.state()
        #expect(now.prompt?.messages == 14 && now.promptExpiresAt == state.promptExpiresAt)
        #expect(bench.events.count { if case .prompt = $0 { true } else { false } } == 1)
        try bench.engine.clear(nil)
        try bench.pass(250)
        #expect(try bench.engine.state().prompt == nil)
        #expect(bench.events.contains(.promptWithdrawn) && changes().count == 4)
    }

    /// A drain passes 1,024 messages of a conversation that wait for a time; the next one blocks those behind it.
    @Test(arguments: zip([1_024, 1_024, 1_025, 1_400], [true, false, false, true]))
    func Q22_what_many_scheduled_messages_block_is_not_counted(scheduled: Int, isUnmetered: Bool) throws {
        let bench = try EngineBench { ($0.mode, $0.direct, $0.initialConnectivity, $0.onlineDebounce) = (.ask, false, .offline, 0) }
        let later = bench.clock.wall + 5_000
        try Array("hello".utf8).withUnsafeBytes { body in
            let drafts = (0..<scheduled + scheduled / 6).map { number in
                let isPlain = number % 7 == 6
                return BorrowedDraft(
                    id: nil, conversation: "ana", body: body, metadata: [], notBefore: isPlain || isUnmetered ? 0 : later, expiresAt: 0,
                    unmeteredOnly: !isPlain && isUnmetered)
            }
            _ = try bench.engine.enqueue(DraftBatch(count: drafts.count) { places in places.map { drafts[$0] } })
        }
        try bench.enqueue("behind all", "ana")
        try bench.enqueue("beside", "ben")
        try bench.engine.setNetwork(Network(connectivity: .online, metered: isUnmetered))
        for _ in 0..<1_000 where try bench.engine.state().prompt == nil { try bench.reportClock() }
        let asked = try #require(try bench.engine.state().prompt?.messages)
        #expect(asked == Int64(scheduled <= 1_024 ? scheduled / 6 + 2 : 1_024 / 6 + 1))
        try bench.drain()
        let report = bench.events.lazy.compactMap { if case .drainFinished(let report) = $0 { report } else { nil } }.last
        #expect(report?.sent == asked && report?.stop == .waiting)
    }

    /// The table of conversations is read page by page.
    @Test func Q22_many_conversations_are_counted() throws {
        let bench = try EngineBench { ($0.mode, $0.direct, $0.initialConnectivity, $0.onlineDebounce) = (.ask, false, .offline, 0) }
        try Array("hello".utf8).withUnsafeBytes { body in
            let drafts = (0..<4_500).map { number in
                BorrowedDraft(
                    id: nil, conversation: Name("c\(number)"), body: body, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false)
            }
            _ = try bench.engine.enqueue(DraftBatch(count: drafts.count) { places in places.map { drafts[$0] } })
        }
        try bench.enqueue("not folded", "new")
        try bench.engine.setNetwork(Network(connectivity: .online))
        for _ in 0..<1_000 where try bench.engine.state().prompt == nil { try bench.reportClock() }
        let prompt = try bench.engine.state().prompt
        #expect(prompt?.messages == 4_501 && prompt?.conversations == 4_501)
    }

    /// In instructions of SQLite: a hundred times as many messages cost no more.
    @Test func Q22_a_count_takes_no_longer_with_many_messages() throws {
        var work: [Int] = []
        for count in [300, 30_000] {
            let bench = try EngineBench { ($0.mode, $0.direct, $0.initialConnectivity, $0.onlineDebounce) = (.ask, false, .offline, 0) }
            try fill(bench, count)
            try bench.engine.pause("ben")
            try bench.engine.setNetwork(Network(connectivity: .online, metered: true))
            try bench.poll()
            #expect(try bench.engine.state().prompt?.messages == Int64(count / 3), "a third is paused, a third is scheduled or waits")
            try bench.engine.resume("ben")
            bench.clock.advance(250)
            let (context, driver) = (bench.engine.context, bench.engine.driver)
            // On a slow machine a count has several steps.
            work.append(
                DatabaseWork.count(context.store) {
                    for _ in 0..<1_000 where context.core.prompt?.messages != Int64(count * 2 / 3) {
                        context.lock.withLock { driver.runDueSteps() }
                    }
                })
            #expect(try bench.engine.state().prompt?.messages == Int64(count * 2 / 3))
        }
        #expect(work[1] < 2 * work[0], "\(work)")
    }

    private func fill(_ bench: EngineBench, _ count: Int) throws {
        try Array("hello".utf8).withUnsafeBytes { body in
            func draft(_ number: Int) -> BorrowedDraft {
                let conversation: Name = number % 3 == 0 ? "ana" : number % 3 == 1 ? "ben" : Name("c\(number % 90)")
                return BorrowedDraft(
                    id: nil, conversation: conversation, body: body, metadata: [],
                    notBefore: number % 6 == 2 ? bench.clock.wall + Int64(100_000 + number) : 0, expiresAt: 0,
                    unmeteredOnly: number % 6 == 5)
            }
            var next = 0
            while next < count {
                let (first, size) = (next, min(1_000, count - next))
                _ = try bench.engine.enqueue(DraftBatch(count: size) { places in places.map { draft(first + Int($0)) } })
                next += size
            }
        }
    }
}
