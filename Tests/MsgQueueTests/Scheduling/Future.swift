@testable import MsgQueue

/// A copy of a simulation in which a test tries what happens next. Its transport sends every message at once; attempts that were in flight
/// before stay unanswered.
final class Future: EngineSimulation {
    /// Messages whose attempts started in the copy.
    private(set) var started: [Int64] = []
    /// Messages that expired in the copy.
    private(set) var expired: [Int64] = []
    private let before: Set<UInt64>

    init(_ simulation: EngineSimulation) throws {
        before = Set(simulation.scheduler.flights.values.map(\.token))
        try super.init(copyOf: simulation)
    }

    override func called(_ flights: [Flight]) { started += flights.map(\.sequence) }

    override func records(_ fact: Fact) {
        if fact.changes.contains(where: { if case .expire = $0 { true } else { false } }) { expired.append(fact.sequence) }
    }

    // MARK: Time

    /// Runs everything that happens at the present moment.
    func rest() throws {
        for _ in 0..<1_000 {
            expireOverdue()
            try settle()
            guard let flight = flights.first(where: { !before.contains($0.token) }) else { return }
            try answer(flight, .sent)
        }
        throw Violation("the future never comes to rest")
    }

    /// Lets time pass until then (wall time), with every timer on the way. The wall clock is not set meanwhile.
    func run(until wall: Int64) throws {
        try rest()
        for _ in 0..<1_000 {
            guard let wait = nextDue.map({ max(1, $0 - now.mono) }), now.wall + wait < wall else { break }
            try pass(wait)
        }
        if now.wall < wall { try pass(wall - now.wall) }
    }

    private func pass(_ milliseconds: Int64) throws {
        advance(milliseconds)
        try rest()
    }

    // MARK: Events

    /// The connection returns and becomes stable.
    func connect() throws {
        goOnline()
        try run(until: now.wall + options.onlineDebounce)
    }

    func enterForeground() throws {
        setBackground(false)
        // The connection may not be stable yet.
        try run(until: now.wall + options.onlineDebounce)
    }

    func drainAll() throws {
        drain()
        try rest()
    }

    /// The next run of the queue: when connected and in the foreground, or by a drain.
    func runQueue() throws {
        let isWaiting = !scheduler.gate.network.isOnline || scheduler.gate.isInBackground
        if !scheduler.gate.network.isOnline { try connect() }
        if scheduler.gate.isInBackground { try enterForeground() }
        if !isWaiting { try drainAll() }
    }
}
