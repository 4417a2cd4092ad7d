import Testing

@testable import MsgQueue

/// F1: what was enqueued since sending began does not wait for the whole backlog.
@Suite struct LiveShareTests {
    private func simulation(
        _ share: Double = 0.5, _ mode: Mode = .auto, direct: Bool = true, backlog: Int = 600, over conversations: Int = 100
    ) throws -> Simulation {
        let simulation = try Simulation(mode, direct: direct) { $0.liveShare = share }
        simulation.preload((0..<backlog).map { Name("c\($0 % conversations)") })
        return simulation
    }

    /// Runs until this message starts; returns how many attempts of others started before it since the call.
    private func attemptsBefore(_ sequence: Int64, _ simulation: Simulation) throws -> Int {
        let before = simulation.starts.count
        while !simulation.inFlight.contains(sequence) {
            let first = try #require(simulation.inFlight.first)
            try simulation.answer(first, .sent)
            try simulation.settle()
        }
        return simulation.starts.count - before - 1
    }

    @Test(arguments: [true, false], [Mode.auto, .manual, .ask])
    func F1_a_message_for_an_idle_conversation_leaves_within_3_attempts(direct: Bool, mode: Mode) throws {
        let simulation = try simulation(0.5, mode, direct: direct, backlog: 600, over: 300)
        if mode != .auto { simulation.drain() }
        try simulation.settle()
        for round in 0..<20 {
            let live = try #require(simulation.enqueue(Name("live\(round)")).first)
            // The first of the three is in flight already.
            #expect(try attemptsBefore(live, simulation) <= 1)
        }
        try simulation.run()
        #expect(simulation.starts.count == 620)
        #expect(simulation.queued.isEmpty)
    }

    @Test func F1_a_share_of_0_is_the_order_of_enqueueing() throws {
        let simulation = try simulation(0)
        try simulation.settle()
        simulation.enqueue(["live", "c0", "live"])
        try simulation.run()
        #expect(simulation.starts == Array(1...603))
    }

    @Test func F1_with_a_share_of_1_the_backlog_waits() throws {
        let simulation = try simulation(1)
        try simulation.settle()
        simulation.enqueue(["live", "c0", "other", "live"])
        try simulation.run()
        // 602 is behind the backlog of its conversation.
        #expect(simulation.starts.prefix(4) == [1, 601, 603, 604])
        #expect(simulation.starts.filter { ($0 - 1) % 100 == 0 || $0 == 602 } == [1, 601, 101, 201, 301, 401, 501, 602])
    }

    @Test(arguments: [0.1, 0.25, 0.5, 0.75])
    func F1_live_messages_have_their_share_while_there_are_any(share: Double) throws {
        let simulation = try simulation(share, backlog: 600, over: 20)
        try simulation.settle()
        simulation.enqueue((0..<600).map { Name("l\($0 % 20)") })
        try simulation.run()
        let live = simulation.starts.dropFirst().prefix(300).count { $0 > 600 }
        #expect(abs(Double(live) - 300 * share) <= 1)
    }

    @Test func F1_a_live_message_stays_behind_the_backlog_of_its_conversation() throws {
        let simulation = try simulation(0.5)
        try simulation.settle()
        simulation.enqueue("c7")
        try simulation.run()
        let own = simulation.starts.filter { $0 % 100 == 8 || $0 == 601 }
        #expect(own == [8, 108, 208, 308, 408, 508, 601])
    }

    /// The conversation of the live message had a backlog, which was sent. The store was not read up to the live message.
    @Test(arguments: [true, false])
    func F1_a_conversation_whose_backlog_was_sent_is_live(direct: Bool) throws {
        let simulation = try Simulation(.auto, direct: direct)
        simulation.preload(["early"] + (0..<600).map { Name("c\($0 % 30)") })
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        let live = try #require(simulation.enqueue("early").first)
        #expect(try attemptsBefore(live, simulation) <= 2)
        try simulation.run()
        #expect(simulation.queued.isEmpty)
    }

    @Test func F1_what_is_behind_a_deleted_message_is_live() throws {
        let simulation = try Simulation(.auto)
        simulation.preload((0..<2_000).map { Name("c\($0 % 100)") } + ["late"])
        try simulation.settle()
        let live = try #require(simulation.enqueue("late").first)
        simulation.delete(2_001)
        #expect(try attemptsBefore(live, simulation) <= 2)
    }

    // MARK: When a backlog begins

    private enum Beginning: CaseIterable { case online, resume, resumeConversation, drain, foreground, transport, launch, hold, outage }

    /// A live message becomes part of the backlog when sending begins again. Then it waits behind a share of 0.
    @Test(arguments: Beginning.allCases)
    private func F1_a_backlog_is_what_was_queued_when_sending_began(beginning: Beginning) throws {
        let simulation = try Simulation(.auto, backoff: .ladder([60_000])) { $0.liveShare = 1 }
        simulation.preload(["a", "b", "c", "d", "e", "f"])
        try simulation.settle()
        simulation.enqueue("before")
        simulation.checker.isDisabled = true
        switch beginning {
        case .online:
            simulation.goOffline()
            simulation.goOnline()
            simulation.advance(500)
        case .resume:
            simulation.pause()
            simulation.resume()
        case .resumeConversation:
            simulation.pause("f")
            simulation.resume("f")
        case .drain: simulation.drain()
        case .foreground:
            simulation.setBackground(true)
            simulation.setBackground(false)
        case .transport:
            simulation.setTransport(false)
            simulation.setTransport(true)
        case .launch: simulation.restart()
        case .hold:
            simulation.scheduler.hold(until: simulation.now.mono + 5_000, simulation.now)
            simulation.advance(5_000)
        case .outage:
            // The live message fails, too.
            for sequence in [1, 7, 2] as [Int64] {
                try simulation.answer(sequence, .retry(.server))
                try simulation.settle()
            }
            simulation.enqueue("during")
            try simulation.answer(3, .sent)
        }
        try simulation.settle()
        // After a crash nobody knows which numbers were assigned.
        let last: Int64 = beginning == .launch ? simulation.lastSequence : beginning == .outage ? 8 : 7
        #expect(simulation.scheduler.lanes.ready.backlogThrough == last && last >= 7)
    }

    @Test func F1_a_failure_now_and_then_does_not_make_live_messages_a_backlog() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([60_000]))
        simulation.preload((0..<40).map { Name("c\($0)") })
        try simulation.settle()
        simulation.enqueue((0..<20).map { Name("l\($0)") })
        for number in 0..<40 {
            let first = try #require(simulation.inFlight.first)
            try simulation.answer(first, number % 3 == 2 ? .sent : .retry(.server))
            try simulation.settle()
        }
        #expect(simulation.scheduler.lanes.ready.backlogThrough == 40)
    }

    // MARK: Explanations

    @Test func F1_X1_an_explanation_says_which_part_goes_first() throws {
        for share in [0, 1] as [Double] {
            let simulation = try simulation(share)
            try simulation.settle()
            let live = try #require(simulation.enqueue("live").first)
            let (waiting, first): (Int64, Int64) = share == 0 ? (live, 2) : (2, live)
            let answer = try #require(simulation.explain(waiting))
            #expect(answer.wait.reason == .next && answer.holder == first)
            #expect(
                simulation.text(of: waiting) == (share == 0 ? "Messages that were queued before go first." : "Newer messages go first."))
            #expect(simulation.text(of: first) == "It is next.")
        }
    }

    /// The older of two live messages goes first although its conversation was not read when it was enqueued.
    @Test(arguments: [Mode.auto, .manual])
    func F1_of_live_messages_the_oldest_is_next_while_the_backlog_is_being_read(mode: Mode) throws {
        let simulation = try simulation(0.5, mode, direct: false, backlog: 40, over: 40)
        simulation.scheduler.lanes.reading.chunk = 1
        if mode != .auto { simulation.drain() }
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        // 41 is behind 2, which was not read yet.
        simulation.enqueue(["c1", "x", "y", "z"])
        try simulation.run()
        let place = try #require(simulation.starts.firstIndex(of: 2))
        let live = simulation.starts[place...].filter { $0 > 40 }
        #expect(live == live.sorted() && live.contains(41), "\(simulation.starts)")
    }
}
