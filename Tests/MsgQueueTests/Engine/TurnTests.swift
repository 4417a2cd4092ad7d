import Testing

@testable import MsgQueue

/// What concerns many messages or conversations is done in parts, between which other calls have their turn.
@Suite struct TurnTests {
    @Test(arguments: [false, true]) func F9_outcomes_of_a_batch_are_committed_in_parts(durable: Bool) throws {
        let bench = try EngineBench { ($0.mode, $0.direct, $0.durableOutcomes) = (.manual, false, durable) }
        var limits = BatchLimits()
        limits.maxMessages = 200
        try bench.engine.setTransport(Registration(.batch({ deliveries, _ in deliveries.map { _ in .sent } }, limits)))
        for number in 0..<200 { try bench.enqueue("hello", Name("c\(number)")) }
        let before = try bench.withStore { $0.commits }
        try bench.drain()
        #expect(try bench.engine.counts(nil).sent == 200)
        // One for the beginnings, and those of the outcomes.
        #expect(try bench.withStore { $0.commits } - before == (durable ? 3 : 5))
    }

    /// So that the lock is released in between. With durable outcomes up to 128 share a flush.
    @Test(arguments: [false, true]) func F9_a_batch_begins_after_the_commit_of_the_outcomes_before_it(durable: Bool) throws {
        let bench = try EngineBench { ($0.mode, $0.direct, $0.durableOutcomes) = (.manual, false, durable) }
        try bench.engine.setHandler(nil)
        var limits = BatchLimits()
        limits.maxMessages = 100
        try bench.engine.setTransport(Registration(.batch({ deliveries, _ in deliveries.map { _ in .sent } }, limits)))
        for number in 0..<200 { try bench.enqueue("hello", Name("c\(number)")) }
        let before = try bench.withStore { $0.commits }
        try bench.drain()
        #expect(try bench.engine.counts(nil).sent == 200)
        // Of each batch one for the beginnings, and two for the outcomes.
        #expect(try bench.withStore { $0.commits } - before == (durable ? 3 : 6))
    }

    /// The lock is released between two parts of the outcomes: a close meanwhile handles the rest.
    @Test func F9_outcomes_that_wait_for_their_turn_survive_a_close() throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        var limits = BatchLimits()
        limits.maxMessages = 1_000
        try bench.engine.setTransport(Registration(.batch({ deliveries, _ in deliveries.map { _ in .sent } }, limits)))
        for number in 0..<300 { try bench.enqueue("hello", Name("c\(number)")) }
        try bench.drain()
        try bench.reopen()
        #expect(try bench.engine.counts(nil).sent == 300)
    }

    /// An explanation may need many messages before it.
    @Test(arguments: [0, 2] as [Int64]) func F9_the_explanations_of_a_page_are_made_in_steps(time: Int64) throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        for number in 0..<20 { try bench.enqueue("hello", Name("c\(number % 4)")) }
        let filter = Filter(withReasons: true)
        var (page, list, steps) = (PageSteps?.none, QueueReader.List(), 1)
        bench.clock.step = time
        while try bench.engine.reading({ () throws(QueueError) in try bench.engine.reader.step(&page, filter, &list) }) { steps += 1 }
        bench.clock.step = 0
        // Each reading of the clock takes two milliseconds, and a step three.
        #expect(time == 0 ? steps == 1 : steps >= 10)
        #expect(list.messages.map(\.explanation) == (try list.messages.map { try bench.engine.explain($0.id) }))
        #expect(try bench.engine.list(filter).map(\.explanation) == list.messages.map(\.explanation))
    }

    @Test(arguments: [false, true]) func F9_a_page_of_conversations_is_read_128_at_a_time(isByTime: Bool) throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        for number in 0..<300 {
            bench.clock.advance(1)
            try bench.enqueue("hello", Name("c\(number)"))
        }
        bench.clock.advance(1)
        try bench.enqueue("newest", "c0", id: "newest")
        var page = QueueReader.Conversations(isByTime ? .byTime(before: nil) : .bySequence(before: 0), limit: 301)
        var counts: [Int] = []
        var hasMore = true
        while hasMore {
            hasMore = try bench.engine.reading { () throws(QueueError) in try bench.engine.reader.step(&page) }
            counts.append(page.found.count)
            // The first one becomes the last one, and one that is not read yet the first.
            if counts.count == 1 { try bench.engine.delete("newest") }
            if counts.count == 2 { try bench.enqueue("later", "c5") }
        }
        #expect(counts == [128, 256, 299])
        #expect(page.found.map(\.name) == ["c0"] + (1..<300).reversed().filter { $0 != 5 }.map { "c\($0)" })
        #expect(try bench.engine.conversations(before: 0, limit: 1_000).count == 300)
    }

    @Test func F9_a_step_of_retry_all_puts_at_most_128_messages_back() throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        bench.answer(by: { _ in .reject() })
        for _ in 0..<300 { try bench.enqueue() }
        try bench.drain()
        try bench.engine.pause(nil)
        var search = FailedMessages.Search(.failed(nil))
        var steps: [Int64] = []
        var hasMore = true
        while hasMore {
            let before = search.count
            hasMore = try bench.engine.changing { () throws(QueueError) in try bench.engine.changes.putBack(&search) }
            steps.append(search.count - before)
        }
        #expect(steps == [128, 128, 44])
        #expect(try bench.engine.counts(nil).queued == 300)
    }

    /// In a turn of its own, before the commit of a later step has to do it.
    @Test func F9_a_log_of_2_MiB_is_checkpointed_between_two_steps_of_a_call() throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        bench.answer(by: { _ in .reject() })
        for _ in 0..<200 { try bench.enqueue() }
        try bench.drain()
        try bench.engine.pause(nil)
        let text = String(repeating: "x", count: 60_000)
        while try bench.withStore({ !$0.log.isLongBetweenSteps }) { try bench.enqueue(text) }
        #expect(try bench.withStore { !$0.log.isLong })
        let frames = try bench.withStore { $0.database.log?.frames ?? 0 }
        #expect(try bench.engine.retryAll(nil) == 200)
        #expect(try bench.withStore { !$0.log.isLongBetweenSteps && ($0.database.log?.frames ?? 0) < frames / 2 })
        #expect(try bench.engine.counts(nil).failed == 0)
    }

    private func scheduler(lanes: Int, perStep: Int) throws -> (simulation: EngineSimulation, count: Int) {
        let simulation = try EngineSimulation(.auto, maxInFlight: 1)
        simulation.preload((0..<lanes).map { Name("c\($0)") })
        simulation.answersInCall = true
        try simulation.settle()
        simulation.scheduler.lanes.perStep = perStep
        return (simulation, simulation.scheduler.lanes.count)
    }

    /// The steps before anything starts or is read.
    private func steps(_ simulation: EngineSimulation) -> Int {
        var steps = 0
        while simulation.scheduler.next(simulation.now, queued: 100) == .schedule {
            simulation.scheduler.scheduleMore(simulation.now)
            steps += 1
        }
        return steps
    }

    @Test func F9_an_input_for_all_conversations_schedules_a_part_of_them_at_a_time() throws {
        for input in 0..<5 {
            let (simulation, count) = try scheduler(lanes: 95, perStep: 10)
            #expect(count == 95)
            let now = simulation.now
            switch input {
            case 0: simulation.scheduler.transportChanged(present: true, now)
            case 1: simulation.scheduler.networkChanged(Network(connectivity: .online), now)
            case 2: simulation.scheduler.clockSet(now)
            case 3:
                _ = simulation.scheduler.pause(nil)
                _ = simulation.scheduler.resume(nil, now)
            default:
                simulation.scheduler.lifecycleChanged(isInBackground: true, now)
                simulation.scheduler.lifecycleChanged(isInBackground: false, now)
            }
            // The input itself schedules the first part.
            #expect(steps(simulation) == 9, "input \(input)")
        }
    }

    /// Neither the lanes nor the entries of what was to start.
    @Test func F9_an_input_for_all_conversations_examines_only_a_part_of_them() throws {
        let (simulation, count) = try scheduler(lanes: 250, perStep: 5)
        #expect(count == 250)
        let now = simulation.now
        simulation.scheduler.networkChanged(Network(connectivity: .offline), now)
        #expect(simulation.scheduler.lanes.byName.unchangedParts >= LaneTable.partCount - 5)
        #expect(steps(simulation) == 49)
        #expect(simulation.scheduler.lanes.byName.unchangedParts == 0)
        simulation.scheduler.beginClear(of: nil, through: 2_000, now)
        #expect(simulation.scheduler.lanes.byName.unchangedParts >= LaneTable.partCount - 5)
    }

    @Test func F9_entries_of_lists_that_were_replaced_are_freed_in_parts() {
        var dropped = DroppedEntries()
        func heap(_ count: Int64) -> Heap<LaneIndex.Ticket> {
            var heap = Heap<LaneIndex.Ticket>()
            for number in 0..<count { heap.insert(LaneIndex.Ticket(key: number, conversation: "c")) }
            return heap
        }
        var (few, many, names) = (heap(10), heap(1_000), [Name](repeating: "c", count: 700))
        dropped.take(&few)
        #expect(dropped.isEmpty && few.count == 0)
        dropped.take(&many)
        dropped.take(&names)
        #expect(many.count == 0 && names.isEmpty)
        var parts = 0
        while !dropped.isEmpty {
            dropped.free(500)
            parts += 1
        }
        #expect(parts == 4)
    }
}
