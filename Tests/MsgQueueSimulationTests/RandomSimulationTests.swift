import Glibc
import Testing

@testable import MsgQueue
@testable import MsgQueueSimulation

/// Random queues with random networks, receivers and crashes. `MSGQUEUE_SEED=17` repeats one run, `MSGQUEUE_SEEDS` sets their number.
@Suite struct RandomSimulationTests {
    /// The seed or the number of seeds in the environment, or so many.
    static func seeds(usually count: Int) -> [UInt64] {
        number("MSGQUEUE_SEED").map { [UInt64($0)] } ?? Array(1...UInt64(max(1, number("MSGQUEUE_SEEDS") ?? count)))
    }

    private static func number(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }

    @Test(arguments: seeds(usually: 60))
    func X10_any_network_receiver_and_crash_loses_nothing_and_keeps_the_order(seed: UInt64) throws {
        let run = try RandomScript(seed: seed).play()
        Self.check(run, seed)
        if seed % 10 == 0 { #expect(try RandomScript(seed: seed).play() == run, "the same seed gives the same run") }
    }
}

extension RandomSimulationTests {
    /// What holds for every run.
    static func check(_ run: RandomScript.Run, _ seed: UInt64) {
        let (report, script) = (run.report, RandomScript(seed: seed))
        #expect(report.lost.isEmpty, "seed \(seed)")
        // A message that is sent by hand, or retried after it failed, leaves its place.
        if !script.hasCalls { checkOrder(run, seed) }
        if !script.hasCalls, !script.hasTimes { #expect(report.overtaking.isEmpty, "seed \(seed)") }
        #expect(report.counts.queued == 0 && report.counts.sending == 0, "seed \(seed): the failures ended long enough before")
        // Every request is answered before any time-out.
        let areAnswered = report.attempts.allSatisfy { attempt in attempt.endedAt.map { $0 - attempt.startedAt < .seconds(2) } ?? false }
        if report.crashes == 0, areAnswered { #expect(report.sentTwice.isEmpty, "seed \(seed)") }
        for (id, status) in report.statuses where status == .sent {
            #expect(report.attempts.contains { $0.id == id && $0.isAccepted }, "seed \(seed): \(id) was never accepted")
        }
        checkAttempts(report, seed)
        checkBatches(run, seed)
        checkRate(report, seed)
    }

    /// In each conversation no attempt begins while an earlier message waits whose time not before has come.
    private static func checkOrder(_ run: RandomScript.Run, _ seed: UInt64) {
        for attempts in Dictionary(grouping: run.report.attempts, by: \.conversation).values {
            for (place, attempt) in attempts.enumerated() {
                guard let message = run.messages[attempt.id] else { continue }
                let overtaken = attempts[place...].first { later in
                    guard let other = run.messages[later.id], other.sequence < message.sequence else { return false }
                    // One that replaces another takes its place; one of the same batch was sent before.
                    return other.enqueuedAt <= attempt.startedAt && other.notBefore <= attempt.startedAt
                        && !attempts[..<place].contains { $0.id == later.id && $0.startedAt == attempt.startedAt }
                }
                #expect(overtaken == nil, "seed \(seed): \(attempt.id) at \(attempt.startedAt) before \(overtaken?.id ?? "")")
            }
        }
    }

    /// A message whose success the queue has seen in time is not sent again, and no attempt has the number of an earlier one that counts.
    private static func checkAttempts(_ report: Simulation.Report, _ seed: UInt64) {
        var sent: Set<String> = []
        var numbers: [String: Set<Int>] = [:]
        for attempt in report.attempts.sorted(by: { $0.startedAt < $1.startedAt }) {
            let isInTime = attempt.endedAt.map { $0 - attempt.startedAt < .seconds(2) } ?? false
            #expect(!sent.contains(attempt.id), "seed \(seed): \(attempt.id) was sent again at \(attempt.startedAt)")
            if isInTime, attempt.outcome == .sent { sent.insert(attempt.id) }
            let isNew = numbers[attempt.id]?.contains(attempt.number) != true
            #expect(isNew, "seed \(seed): \(attempt.id) has two attempts \(attempt.number)")
            if attempt.outcome != .offline, attempt.outcome != .skipped { numbers[attempt.id, default: []].insert(attempt.number) }
        }
    }

    /// No call has more messages than the transport takes, and a message whose last attempt a crash interrupted is alone in its next call.
    private static func checkBatches(_ run: RandomScript.Run, _ seed: UInt64) {
        let most = RandomScript(seed: seed).batches?.maxMessages ?? 1
        for call in run.calls {
            #expect(call.ids.count <= most, "seed \(seed): a call at \(call.time)")
            if call.ids.count > 1 { #expect(call.interrupted.isEmpty, "seed \(seed): messages that were interrupted, at \(call.time)") }
        }
    }

    /// F3: no window has more attempts than the rate permits, across crashes, too.
    private static func checkRate(_ report: Simulation.Report, _ seed: UInt64) {
        let options = RandomScript(seed: seed).options
        guard let rate = options.ratePerSecond else { return }
        // Of all windows that end with an attempt, the worst begins with the one of the smallest `number - rate * time`.
        var lowest = Double.infinity
        for (number, attempt) in report.attempts.enumerated() {
            let value = Double(number) - rate * (attempt.startedAt / .seconds(1))
            lowest = min(lowest, value)
            #expect(value - lowest + 1 <= Double(options.rateBurst) + 1e-6, "seed \(seed): attempt \(number) at \(attempt.startedAt)")
        }
    }
}

/// An hour of random events, then a day without failures.
struct RandomScript {
    enum Crashes { case none, random }

    struct Run: Equatable {
        let report: Simulation.Report
        /// Those that were enqueued, by id.
        let messages: [String: Enqueued]
        /// The calls of a batch transport.
        let calls: [Call]
    }

    struct Call: Equatable {
        let ids: [String]
        /// Those of them whose last attempt was interrupted.
        let interrupted: [String]
        let time: VirtualTime
    }

    struct Enqueued: Equatable {
        let sequence: Int64
        let enqueuedAt: VirtualTime
        var notBefore = VirtualTime.zero
    }

    /// Collects what was enqueued and what the transport got.
    private final class Journal {
        var messages: [String: Enqueued] = [:]
        var calls: [Call] = []
        var rejected: Set<String> = []
        /// When the script paused and resumed the queue last.
        var (pausedAt, resumedAt) = (VirtualTime.zero, VirtualTime.zero)
        /// When the last attempt began that was or will be refused as unauthorized.
        var unauthorizedAt = VirtualTime.zero

        func wasInterrupted(_ id: String, _ engine: Engine) -> Bool {
            guard let sequence = messages[id]?.sequence else { return false }
            let (context, store) = (engine.context, engine.context.store)
            return context.lock.withLock {
                guard let row = try? store.messages.row(at: sequence, .none) else { return false }
                return (try? store.attempts.wasInterrupted(row)) ?? false
            }
        }
    }

    let seed: UInt64
    var crashes = Crashes.random
    var keepsChanges = false

    private func options(_ random: inout SeededGenerator) -> MessageQueue.Options {
        var options = MessageQueue.Options(mode: [.auto, .auto, .ask, .manual].randomElement(using: &random) ?? .auto)
        options.direct = .random(using: &random)
        options.maxInFlight = [1, 1, 3, 8].randomElement(using: &random) ?? 1
        options.maxRetries = [1, 5, 1_000].randomElement(using: &random) ?? 5
        let backoffs: [MessageQueue.Backoff] = [
            .automatic, .ladder([.milliseconds(1), .milliseconds(20), .milliseconds(300)]),
            .exponential(base: .milliseconds(500), factor: 2, cap: .seconds(600)),
        ]
        options.backoff = backoffs.randomElement(using: &random) ?? .automatic
        options.jitter = [0, 0.5, 1].randomElement(using: &random) ?? 0
        options.attemptTimeout = .seconds([2, 30].randomElement(using: &random) ?? 30)
        options.holdInterrupted = .random(using: &random)
        options.exhausted = Bool.random(using: &random) ? .discard : .keep
        options.pauseOnUnauthorized = .random(using: &random)
        options.limitMessages = [nil, nil, 2, 10].randomElement(using: &random) ?? nil
        options.onFull = seed % 6 == 5 ? .refuse : .dropOldest
        options.expiry = [nil, nil, .seconds(600)].randomElement(using: &random) ?? nil
        var pacing = SeededGenerator(seed: seed &+ 40_000)
        if Int.random(in: 0..<3, using: &pacing) == 0 {
            options.ratePerSecond = [0.01, 0.5, 10].randomElement(using: &pacing) ?? 1
            options.rateBurst = [1, 4].randomElement(using: &pacing) ?? 1
            options.rampUp = [nil, .seconds(60)].randomElement(using: &pacing) ?? nil
        }
        if keepsChanges { options.keepChanges = 1_000_000 }
        return options
    }

    /// The limits of a batch transport; nil: a transport for single messages. Its own generator, so that a seed without batches does what
    /// it did before.
    fileprivate var batches: MessageQueue.BatchOptions? {
        var batching = SeededGenerator(seed: seed &+ 50_000)
        guard Int.random(in: 0..<5, using: &batching) < 2 else { return nil }
        var options = MessageQueue.BatchOptions()
        options.maxMessages = [1, 2, 5, 100].randomElement(using: &batching) ?? 100
        options.maxBytes = [1, 4, 1 << 20].randomElement(using: &batching) ?? 1 << 20
        options.linger = [.zero, .zero, .milliseconds(300)].randomElement(using: &batching) ?? .zero
        options.singleConversation = .random(using: &batching)
        return options
    }

    var options: MessageQueue.Options {
        var random = SeededGenerator(seed: seed)
        return options(&random)
    }

    /// `prepare` is called before anything happens.
    func play(_ prepare: (Simulation) -> Void = { _ in }) throws -> Run {
        var random = SeededGenerator(seed: seed)
        let journal = Journal()
        let simulation = try Simulation(seed: seed, options: options(&random))
        prepare(simulation)
        func send(_ delivery: MessageQueue.Delivery, _ time: VirtualTime, _ simulation: Simulation) -> Simulation.Reply {
            // A receiver that refused a message refuses it again, also if a crash lost its answer.
            if journal.rejected.contains(delivery.id) { return .answer(.reject(), after: .milliseconds(30)) }
            guard time < .seconds(3_600) else { return .answer(.sent, after: .milliseconds(30)) }
            let latency = Duration.milliseconds(Int64.random(in: 0...3_000, using: &simulation.random))
            switch Int.random(in: 0..<20, using: &simulation.random) {
            case 0..<12: return .answer(.sent, after: latency)
            case 12: return .answer(.retry(.network), after: latency)
            case 13: return .answer(.http(503, retryAfter: "3"), after: latency)
            case 14: return .answer(.http(429), after: latency)
            case 15: return .answer(.offline, after: latency)
            case 16:
                journal.rejected.insert(delivery.id)
                return .answer(.reject(), after: latency)
            case 17:
                journal.unauthorizedAt = time
                if renews { renew(simulation, journal, at: time + latency / 2) }
                return .answer(.http(401), after: latency)
            default: return .noAnswer(accepted: delivery.attempt % 2 == 0)
            }
        }
        if let batches {
            try simulation.setBatchTransport(
                { [unowned simulation] deliveries, time in
                    let ids = deliveries.map(\.id)
                    let interrupted = try? simulation.calling { engine in ids.filter { journal.wasInterrupted($0, engine) } }
                    journal.calls.append(Call(ids: ids, interrupted: interrupted ?? [], time: time))
                    // It stops a conversation at the first message that is not sent and was not refused.
                    var stopped: Set<String> = []
                    return deliveries.map { delivery in
                        guard !stopped.contains(delivery.conversation) else {
                            return .answer(.skipped, after: .milliseconds(Int64.random(in: 0...3_000, using: &simulation.random)))
                        }
                        if time < .seconds(3_600), Int.random(in: 0..<20, using: &simulation.random) == 0 {
                            stopped.insert(delivery.conversation)
                            return .answer(.skipped, after: .milliseconds(30))
                        }
                        let reply = send(delivery, time, simulation)
                        if reply.outcome != .sent, reply.outcome != .reject() { stopped.insert(delivery.conversation) }
                        return reply
                    }
                }, options: batches)
        } else {
            simulation.transport = { [unowned simulation] delivery, time in send(delivery, time, simulation) }
        }
        func moment() -> VirtualTime { .milliseconds(Int64.random(in: 0...3_600_000, using: &random)) }
        for number in 0..<Int.random(in: 1...60, using: &random) {
            let lane = "c\(Int.random(in: 0..<4, using: &random))"
            let key = [nil, nil, "k"].randomElement(using: &random) ?? nil
            simulation.at(moment()) { try enqueue(MessageQueue.Draft("m\(number)", conversation: lane, replaceKey: key), $0, journal) }
        }
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            simulation.setConnectivity(Bool.random(using: &random) ? .offline : .online, at: moment())
        }
        if seed % 5 == 2 { for isAway in [true, false, true, false] { simulation.at(moment()) { $0.setBackground(isAway) } } }
        for _ in 0..<Int.random(in: 0...4, using: &random) { simulation.at(moment()) { try $0.drain() } }
        for _ in 0..<Int.random(in: 0...2, using: &random) {
            simulation.at(moment()) {
                $0.pause()
                journal.pausedAt = $0.time
            }
            simulation.at(moment()) { $0.resume() }
        }
        addCalls(to: simulation)
        addTimes(to: simulation, journal)
        for _ in 0..<(crashes == .random ? Int.random(in: 0...4, using: &random) : 0) {
            simulation.crash(at: .write(.random(in: 1...150, using: &random), isOnDisk: .random(using: &random)))
        }
        if crashes == .random, Bool.random(using: &random) { simulation.crash(at: .time(moment())) }
        try simulation.run(until: .seconds(3_600))
        simulation.setConnectivity(.online)
        simulation.setBackground(false)
        simulation.resume()
        // A day; in most seeds it ends with the second hour in which nothing was left to send.
        var hoursLeft = 2
        for hour in 2...30 where hoursLeft > 0 || seed % 5 == 0 {
            if simulation.options.mode != .auto { try simulation.drain() }
            try simulation.run(until: .seconds(3_600 * hour))
            let counts = simulation.report.counts
            if counts.queued == 0, counts.sending == 0 { hoursLeft -= 1 }
        }
        return Run(report: simulation.report, messages: journal.messages, calls: journal.calls)
    }

    private var renews: Bool { seed % 4 == 2 }

    /// A person renews the credentials while attempts with the old ones are in flight. Their answers, all within 3 s, pause nothing.
    private func renew(_ simulation: Simulation, _ journal: Journal, at time: VirtualTime) {
        simulation.at(time) {
            $0.resume()
            journal.resumedAt = $0.time
        }
        simulation.at(time + .seconds(4)) { simulation in
            guard journal.resumedAt == time, journal.pausedAt < time, journal.unauthorizedAt < time else { return }
            let isPaused = try simulation.calling { engine throws(QueueError) in try engine.state().isPaused }
            #expect(!isPaused, "seed \(seed): an answer from before \(time) paused the queue")
        }
    }

    var hasTimes: Bool { seed % 4 == 3 }

    /// In a quarter of the seeds messages with a time not before are enqueued while offline, half of them in the background. After that
    /// others keep the transport busy, and more messages of the same conversation follow.
    private func addTimes(to simulation: Simulation, _ journal: Journal) {
        guard hasTimes else { return }
        var random = SeededGenerator(seed: seed &+ 80_000)
        for number in 0..<10 {
            let begin = Duration.milliseconds(Int64.random(in: 0...3_500_000, using: &random))
            let notBefore = begin + .milliseconds(Int64.random(in: 100...5_000, using: &random))
            let lane = "c\(Int.random(in: 0..<4, using: &random))"
            simulation.setConnectivity(.offline, at: begin)
            simulation.at(begin) { try enqueue(MessageQueue.Draft("t\(number)", conversation: lane), $0, journal, notBefore: notBefore) }
            simulation.setConnectivity(.online, at: begin + .milliseconds(1))
            if Bool.random(using: &random) {
                simulation.at(begin) { $0.setBackground(true) }
                simulation.at(begin + .seconds(15)) { $0.setBackground(false) }
            }
            for other in 0..<Int.random(in: 2...8, using: &random) {
                let name = other % 2 == 1 ? lane : "d\(other)"
                let time = begin + .milliseconds(Int64.random(in: 1...200, using: &random))
                simulation.at(time) { try enqueue(MessageQueue.Draft("t\(number)-\(other)", conversation: name), $0, journal) }
            }
        }
    }

    var hasCalls: Bool { seed % 3 == 0 }

    /// In a third of the seeds a person retries, sends, deletes and clears. With a generator of its own, so that the other seeds do what they
    /// did before.
    private func addCalls(to simulation: Simulation) {
        guard hasCalls else { return }
        var random = SeededGenerator(seed: seed &+ 60_000)
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            let (call, id) = (Int.random(in: 0..<6, using: &random), "m\(Int.random(in: 0..<30, using: &random))")
            let lane = "c\(Int.random(in: 0..<4, using: &random))"
            simulation.at(.milliseconds(Int64.random(in: 0...3_600_000, using: &random))) { simulation in
                do throws(QueueError) {
                    switch call {
                    case 0: try simulation.retryAll()
                    case 1: try simulation.retry(id)
                    case 2: try simulation.sendNow(id)
                    case 3: try simulation.delete(id)
                    case 4: try simulation.clear(conversation: lane)
                    default: try simulation.drain(includeFailed: true)
                    }
                } catch {
                    // The message may be in another state, and the process may have ended.
                    guard [.notFound, .conflict, .busy, .noTransport, .unknown, .storage].contains(error.code) else { throw error }
                }
            }
        }
    }

    /// Enqueues under the id that the body says; again after an error, as a host does that crashed during the call.
    private func enqueue(
        _ draft: MessageQueue.Draft, _ simulation: Simulation, _ journal: Journal, notBefore: VirtualTime = .zero
    ) throws {
        var draft = draft
        let id = String(decoding: draft.body, as: UTF8.self)
        draft.id = id
        if notBefore != .zero { draft.notBefore = simulation.wallTime + (notBefore - simulation.time) }
        while simulation.status(of: id) == nil {
            do throws(QueueError) { try simulation.enqueue(draft) } catch {
                // Failed messages and those being sent are not dropped. A refused write stored nothing.
                if error.code == .full || error.code == .storage { return }
                guard error.code == .unknown else { throw error }
            }
        }
        // Its id is taken, also in a full queue. The store may refuse what must be written before, and the process may end then.
        do throws(QueueError) {
            try simulation.enqueue(draft)
            Issue.record("seed \(seed): \(id) was enqueued twice")
        } catch { #expect([.duplicate, .storage, .unknown].contains(error.code), "seed \(seed): \(id) again: \(error)") }
        let sequence = try simulation.calling { engine throws(QueueError) in try engine.message(id: id).sequence }
        journal.messages[id] = Enqueued(sequence: sequence, enqueuedAt: simulation.time, notBefore: notBefore)
    }
}
