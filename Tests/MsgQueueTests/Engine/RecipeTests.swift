import Testing

@testable import MsgQueue

/// The recipes with the options of its programs, over a real file in virtual time.
@Suite struct RecipeTests {
    private func goOffline(_ bench: EngineBench) throws { try bench.engine.setNetwork(Network(connectivity: .offline)) }
    private func goOnline(_ bench: EngineBench) throws { try bench.engine.setNetwork(Network(connectivity: .online)) }

    /// Advances by an hour, in steps of a minute.
    private func passAnHour(_ bench: EngineBench) throws {
        for _ in 0..<60 { try bench.pass(60_000) }
    }

    private func failures(_ bench: EngineBench) -> [Failure] {
        bench.events.compactMap { if case .discarded(_, _, let failure) = $0 { failure } else { nil } }
    }

    @Test func A12_each_recipe_has_its_options() throws {
        #expect(try Recipe.names() == Set(Recipe.allCases.map(\.rawValue)))
        for recipe in Recipe.allCases { try recipe.options().validate() }
    }

    // MARK: Manual

    @Test func A12_manual_messages_enqueued_offline_are_sent_only_by_a_drain() throws {
        let bench = try EngineBench(.manual)
        try goOffline(bench)
        let ids = try (0..<5).map { try bench.enqueue("\($0)") }
        #expect(try bench.engine.banner(nil) == "You're offline. 5 messages queued.")
        try goOnline(bench)
        try passAnHour(bench)
        #expect(bench.deliveries.isEmpty)
        bench.answer(.sent, .http(503), .sent, .http(400), .sent)
        try bench.drain()
        #expect(bench.texts == ["0", "1", "2", "3", "4"])
        #expect(try ids.map(bench.status) == [.sent, .failed, .sent, .failed, .sent])
        try passAnHour(bench)
        #expect(bench.deliveries.count == 5, "no automatic retry")
    }

    @Test func A12_ask_the_prompt_is_valid_for_ten_seconds() throws {
        let bench = try EngineBench(.ask)
        try goOffline(bench)
        for number in 0..<5 { try bench.enqueue("\(number)") }
        try goOnline(bench)
        try bench.pass(500)
        let prompts = bench.events.compactMap { if case .prompt(let prompt) = $0 { prompt } else { nil } }
        #expect(prompts.map(\.messages) == [5])
        #expect(prompts.map(\.timeout) == [10_000])
        try bench.pass(9_999)
        #expect(!bench.events.contains(.promptWithdrawn))
        try bench.pass(1)
        #expect(bench.events.contains(.promptWithdrawn))
        try passAnHour(bench)
        #expect(bench.deliveries.isEmpty)
        try bench.drain()
        #expect(bench.texts == ["0", "1", "2", "3", "4"])
    }

    // MARK: Retry

    @Test func A12_retry_ends_within_three_seconds() throws {
        let bench = try EngineBench(.retry)
        bench.answer(.http(503), .pending)
        let id = try bench.enqueue()
        try bench.poll()
        #expect(try bench.status(id) == .failed)
        try passAnHour(bench)
        #expect(bench.deliveries.count == 1, "no automatic retry")
        try bench.engine.retry(id)
        try bench.poll()
        try bench.pass(2_999)
        #expect(try bench.status(id) == .sending)
        try bench.pass(1)
        #expect(try bench.status(id) == .failed)
        #expect(try bench.engine.message(id: id).failure?.kind == .timeout)
        try bench.engine.retry(id)
        try bench.poll()
        #expect(try bench.status(id) == .sent)
        #expect(bench.deliveries.map(\.id) == [id, id, id])
    }

    /// With `offline` as a kind of failure, not as a verdict.
    @Test func A12_R10_a_retryable_failure_of_kind_offline_is_failed() throws {
        let bench = try EngineBench(.retry)
        bench.answer(by: { _ in .retry(.offline) })
        let ids = try (0..<3).map { try bench.enqueue("\($0)", Name("c\($0)")) }
        try bench.poll()
        for id in ids {
            let message = try bench.engine.message(id: id)
            #expect(message.status == .failed)
            #expect(message.failure?.kind == .offline && message.failure?.retryable == true)
            #expect(try bench.engine.attempts(id).map(\.arrival) == [.no])
        }
        try bench.engine.retry(ids[0])
        try bench.poll()
        #expect(bench.changes(of: ids[0]).map(\.to) == [.queued, .sending, .failed, .sending, .failed])
        bench.answer(by: { _ in .sent })
        #expect(try bench.engine.retryAll(nil) == 3)
        try bench.poll()
        #expect(try ids.map(bench.status) == [.sent, .sent, .sent])
    }

    @Test func A12_retry_with_the_verdict_offline_stays_queued() throws {
        let bench = try EngineBench(.retry)
        bench.answer(.offline)
        let id = try bench.enqueue()
        try bench.poll()
        #expect(try bench.status(id) == .queued)
        #expect(try bench.engine.message(id: id).attempts == 0)
    }

    // MARK: History

    @Test func A12_history_is_complete_after_a_hundred_years() throws {
        let bench = try EngineBench(.history)
        let ids = try (0..<200).map { try bench.enqueue("\($0)") }
        try bench.poll()
        bench.clock.advance(100 * 365 * Options.day)
        for _ in 0..<3 { try bench.reportClock() }
        try bench.reopen()
        try goOffline(bench)
        #expect(try bench.engine.list(Filter(statuses: .all, limit: 1000)).map(\.id) == ids)
    }

    // MARK: In the background

    /// Runs twelve messages with the background recipe and a receiver with that rule. Returns the times of the attempts by text, in
    /// milliseconds since the opening.
    private func runTwelve(
        writtenOffline: Bool, inOneConversation: Bool, onlineAt: Int64 = 0, _ rule: @escaping @Sendable (Delivery) -> Outcome
    ) throws -> (bench: EngineBench, times: [String: [Int64]]) {
        let bench = try EngineBench(.background)
        let (start, times) = (bench.clock.wall, Times())
        bench.answer(by: { [clock = bench.clock] in
            times.note($0.text, clock.wall - start)
            return rule($0)
        })
        if !writtenOffline { try goOnline(bench) }
        for number in 0..<12 { try bench.enqueue("\(number)", inOneConversation ? "notes" : Name("\(number)")) }
        try bench.pass(onlineAt)
        if writtenOffline { try goOnline(bench) }
        while bench.clock.wall < start + 200_000 { try bench.pass(100) }
        return (bench, times.all)
    }

    @Test(arguments: [true, false])
    func A12_background_twelve_messages_answered_503_are_discarded_by_165_seconds(inOneConversation: Bool) throws {
        let backlogs: [Int64?] = [nil, 0, 1_700, 4_400, 4_500, 4_900]
        for backlog in backlogs {
            let (writtenOffline, onlineAt) = (backlog != nil, backlog ?? 0)
            let (bench, times) = try runTwelve(
                writtenOffline: writtenOffline, inOneConversation: inOneConversation, onlineAt: onlineAt
            ) { _ in .http(503) }
            let first = try #require(times.values.joined().min())
            #expect(first == onlineAt + (writtenOffline ? 500 : 0))
            #expect(times.count == 12)
            for starts in times.values {
                #expect(starts.map { $0 - starts[0] } == [0, 5_000, 35_000, 155_000])
                #expect(starts.allSatisfy { $0 - first <= 165_000 })
            }
            let firsts = Dictionary(grouping: times.values.compactMap(\.first), by: \.self).sorted { $0.key < $1.key }.map(\.value.count)
            #expect(firsts == (writtenOffline ? [5, 5, 2] : [12]), "five at a time, or at once")
            #expect(failures(bench).map(\.attempts) == Array(repeating: 4, count: 12))
            #expect(failures(bench).allSatisfy { $0.kind == .server && $0.code == 503 })
            #expect(try bench.engine.list(Filter(statuses: .all)).isEmpty)
        }
    }

    @Test(arguments: [true, false])
    func A12_background_a_message_that_always_fails_delays_no_other(inOneConversation: Bool) throws {
        for writtenOffline in [true, false] {
            func run(poison: String) throws -> [String: [Int64]] {
                try runTwelve(writtenOffline: writtenOffline, inOneConversation: inOneConversation) {
                    $0.text == poison ? .http(503) : .sent
                }.times
            }
            let healthy = try run(poison: "none")
            #expect(healthy.count == 12 && healthy.values.allSatisfy { $0.count == 1 })
            for poison in ["0", "3", "11"] {
                let times = try run(poison: poison)
                #expect(times[poison]?.count == 4)
                for text in healthy.keys where text != poison { #expect(times[text] == healthy[text], "\(text) with \(poison)") }
            }
        }
    }

    @Test func A12_background_no_history_is_kept_and_401_is_discarded() throws {
        let bench = try EngineBench(.background)
        try goOnline(bench)
        bench.answer(.sent, .http(401), .sent)
        let ids = try (0..<3).map { try bench.enqueue("\($0)") }
        try bench.poll()
        try bench.pass(60_000)
        #expect(failures(bench).map(\.code) == [401])
        #expect(failures(bench).map(\.kind) == [.unauthorized])
        for _ in 0..<3 { try bench.reportClock() }
        #expect(try bench.engine.list(Filter(statuses: .all)).isEmpty)
        #expect(refusal { try bench.enqueue("again", id: ids[0]) } == .duplicate)
    }

    // MARK: Automatic

    @Test func A12_automatic_fails_after_five_retries_and_blocks_only_its_own_conversation() throws {
        let bench = try EngineBench(.automatic)
        bench.answer(by: { $0.text == "bad" ? .http(503) : .sent })
        try goOffline(bench)
        let bad = try bench.enqueue("bad", "ana")
        let behind = try bench.enqueue("behind", "ana")
        let others = try ["ben", "cem", "dan"].map { try bench.enqueue("hello", Name($0)) }
        try goOnline(bench)
        try bench.pass(500)
        let start = bench.clock.wall
        #expect(try others.map(bench.status) == [.sent, .sent, .sent])
        while bench.clock.wall < start + 154_500 { try bench.pass(500) }
        #expect(try bench.status(behind) == .queued)
        try bench.pass(500)
        #expect(try bench.status(bad) == .failed)
        #expect(try bench.status(behind) == .sent)
        #expect(try bench.engine.attempts(bad).map { $0.startedAt - start } == [0, 5_000, 15_000, 35_000, 75_000, 155_000])
        try passAnHour(bench)
        #expect(bench.deliveries.count { $0.text == "bad" } == 6)
    }
}

/// The times at which messages were sent, by their texts.
private final class Times: @unchecked Sendable {
    private let mutex = Mutex()
    private var noted: [String: [Int64]] = [:]

    func note(_ text: String, _ time: Int64) { mutex.withLock { noted[text, default: []].append(time) } }

    var all: [String: [Int64]] { mutex.withLock { noted } }
}
