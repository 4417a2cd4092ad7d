@testable import MsgQueue

/// A copy of a simulation in which a test tries what happens next. Its transport sends every message at once; attempts that were in flight
/// before stay unanswered.
final class Future: SimulationObserver {
    let engine: SimulatedEngine
    /// Messages whose attempts started in the copy.
    private(set) var started: [Int64] = []
    /// Messages that expired in the copy.
    private(set) var expired: [Int64] = []
    private let before: Set<UInt64>

    init(_ simulation: Simulation) {
        engine = simulation.engine.copy()
        before = Set(simulation.scheduler.flights.values.map(\.token))
        engine.answersInCall = false
        engine.observer = self
    }

    func starts(_ message: SimulatedMessage, _ conversation: Name, _ hand: Hand) { started.append(message.sequence) }

    func expires(_ message: SimulatedMessage) { expired.append(message.sequence) }

    var now: Moment { engine.now }

    // MARK: Time

    /// Runs everything that happens at the present moment.
    func settle() throws {
        for _ in 0..<1_000 {
            try engine.expireOverdue()
            try engine.runDueSteps()
            guard let flight = engine.flights.first(where: { !before.contains($0.token) }) else { return }
            try engine.end(flight, .sent)
        }
        throw Violation("the future never comes to rest")
    }

    /// Lets time pass until then (wall time), with every timer on the way. The wall clock is not set meanwhile.
    func run(until wall: Int64) throws {
        try settle()
        for _ in 0..<1_000 {
            let timers = [engine.deadline.map { $0 - now.mono }, engine.nextExpiry == Int64.max ? nil : engine.nextExpiry - now.wall]
            guard let wait = timers.compactMap({ $0.map { max(1, $0) } }).min(), now.wall + wait < wall else { break }
            try pass(wait)
        }
        if now.wall < wall { try pass(wall - now.wall) }
    }

    private func pass(_ milliseconds: Int64) throws {
        engine.now.mono += milliseconds
        engine.now.wall += milliseconds
        try settle()
    }

    // MARK: Events

    /// The connection returns and becomes stable.
    func connect() throws {
        engine.scheduler.networkChanged(Network(connectivity: .online, link: .other, metered: false), now)
        try run(until: now.wall + engine.options.onlineDebounce)
    }

    func enterForeground() throws {
        engine.scheduler.lifecycleChanged(isInBackground: false, now)
        // The connection may not be stable yet.
        try run(until: now.wall + engine.options.onlineDebounce)
    }

    func drain() throws {
        _ = engine.scheduler.drain(batch: 0, timeout: nil, now)
        try settle()
    }

    /// The next run of the queue: when connected and in the foreground, or by a drain.
    func runQueue() throws {
        let isWaiting = !engine.scheduler.network.isOnline || engine.scheduler.isInBackground
        if !engine.scheduler.network.isOnline { try connect() }
        if engine.scheduler.isInBackground { try enterForeground() }
        if !isWaiting { try drain() }
    }
}
