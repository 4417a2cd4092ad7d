@testable import MsgQueue

/// What an engine did.
final class SimulationJournal: EventObserver, DecisionObserver, @unchecked Sendable {
    weak var owner: EngineSimulation?
    var entries: [(at: Int64, entry: JournalEntry)] = []
    private(set) var starts = 0
    var judge: PaceJudge
    /// What the transport must not have been called with.
    var violation: (any Error)?
    var clock: SimulatedClock

    /// Tokens of hanging calls, which were noted before, and how they return.
    var returns: [UInt64: Outcome] = [:]

    init(_ options: Options, _ clock: SimulatedClock) { (judge, self.clock) = (PaceJudge(options), clock) }

    func note(_ entry: JournalEntry) { entries.append((clock.now.mono, entry)) }

    /// The transport is called.
    func called(_ flights: [Flight]) {
        for flight in flights.sorted(by: { $0.token < $1.token }) { note(.started(flight.sequence, flight.conversation, flight.hand)) }
        starts += flights.count
        note(.called(flights.map(\.sequence)))
        owner?.called(flights)
        guard !judge.hasRamp else { return }
        do { try judge.calls(flights.count, clock.now) } catch { violation = error }
    }

    func begins(_ start: Core.Start) {
        owner?.observing { owner?.begins(start) }
        if let time = owner?.workTime(), time > 0 { clock.move(to: clock.now.mono + time) }
    }

    func records(_ fact: Fact) { owner?.observing { owner?.records(fact) } }

    func receive(_ event: Event, at: Int64) {
        owner?.observing { owner?.received(event) }
        switch event {
        case .drainFinished(let report): note(.drainFinished(report))
        case .prompt: note(.prompt)
        case .promptChanged(let prompt): note(.promptChanged(prompt.messages))
        case .promptWithdrawn: note(.promptWithdrawn)
        case .paused(let conversation, let isPaused, _): note(.paused(conversation.map { Name($0) }, isPaused))
        case .status(let change) where change.failure?.kind == .timeout:
            if let sequence = Int64(change.id.dropFirst().prefix { $0 != "-" }) { note(.timedOut(sequence)) }
        default: break
        }
    }

    func countsChanged() {}
}
