@testable import MsgQueue

/// What a simulation shows of its engine.
extension EngineSimulation {
    var entries: [(at: Int64, entry: JournalEntry)] { journal.entries }
    func note(_ entry: JournalEntry) { journal.note(entry) }

    var scheduler: Scheduler {
        get { locked { context.core.scheduler } }
        set { locked { context.core.scheduler = newValue } }
    }
    var core: Core {
        get { locked { context.core } }
        set { locked { context.core = newValue } }
    }
    var hasStart: Bool { locked { context.hasStart } }
    /// When the scheduler waits for a time (monotonic); nil: it waits for an input.
    var deadline: Int64? { locked { engine.driver.stepAt == Int64.max ? nil : engine.driver.stepAt } }
    /// The attempts without an outcome, oldest first.
    var flights: [Flight] { scheduler.flights.values.filter { !$0.isEnded }.sorted { $0.token < $1.token } }
    var inFlight: [Int64] { flights.map(\.sequence) }
    /// The highest sequence that was assigned.
    var lastSequence: Int64 { locked { context.store.state.lastSequence } }
    /// The counts of all messages; those in flight count as queued.
    var counts: Counts { locked { context.store.counts.totals } }
    /// The sequences of messages that must not be replaced or dropped.
    var heldSequences: Set<Int64> { locked { engine.writes.heldSequences } }
    /// Whether another message with this id is refused.
    func remembers(_ id: String) -> Bool {
        locked { ((try? context.store.recentIDs.isReceived(id, since: context.rememberedSince)) ?? nil) != nil }
    }
    /// The sequences of messages that count as `sending`.
    var sendingSequences: Set<Int64> { locked { engine.writes.sendingSequences } }
    /// Until when nothing is written after a refused write (monotonic).
    var storageUntil: Int64 { scheduler.gate.storageRetryAt }
    /// The sequences in the order in which their attempts were started.
    var starts: [Int64] { journal.entries.compactMap { if case .started(let sequence, _, _) = $0.entry { sequence } else { nil } } }
    var reports: [Report] { journal.entries.compactMap { if case .drainFinished(let report) = $0.entry { report } else { nil } } }
    /// The queued messages, in order.
    var queued: [Int64] {
        queued(after: 0, limit: 1_000_000).map(\.head.sequence)
    }

    /// When the attempts started (monotonic).
    var startTimes: [Int64] { journal.entries.compactMap { if case .started = $0.entry { $0.at } else { nil } } }

    func count(_ entry: JournalEntry) -> Int { journal.entries.count { $0.entry == entry } }

    func status(_ sequence: Int64) -> MessageStatus? { try? engine.message(id: id(sequence)).status }

    func queued(after sequence: Int64, limit: Int) -> [(conversation: Name, head: Head)] {
        (try? locked { () throws(QueueError) in try context.store.queue.queued(after: sequence, limit: limit) }) ?? []
    }

    func row(_ sequence: Int64) -> Row? { locked { (try? context.store.messages.row(at: sequence, .none)) ?? nil } }

    /// Fails messages that have expired, as the engine's timer does.
    func expireOverdue() { locked { engine.maintenance.run(engine.writes, engine.transactions) } }

    /// When something is due without a call (monotonic); nil: never.
    var nextDue: Int64? { process.nextDue }

    /// The last entries of the journal as text.
    func tail(_ lines: Int = 40) -> String { entries.suffix(lines).map { "  \($0.at) \($0.entry)" }.joined(separator: "\n") }

    func head(_ sequence: Int64) -> Head? { row(sequence)?.head }

    /// Why a message is not sent yet.
    func explain(_ sequence: Int64) -> Explainer<QueueIndex>.Answer? {
        guard let row = row(sequence) else { return nil }
        return locked {
            try? Explainer(context.core.scheduler, context.store.queue, sending: engine.writes.sendingSequences, now).explain(row)
        }
    }

    func wait(of sequence: Int64) -> Wait? { explain(sequence)?.wait }

    /// The text of the explanation.
    func text(of sequence: Int64) -> String? { try? engine.explain(id(sequence)).text }

    /// Messages with an attempt that is stored without its end.
    var interrupted: [Int64] {
        get throws { try locked { () throws(QueueError) in try context.store.attempts.interrupted().map(\.sequence) } }
    }

    /// Attempts that have ended but whose calls have not returned.
    var hanging: [Flight] { scheduler.flights.values.filter { $0.isEnded && $0.isRunning }.sorted { $0.token < $1.token } }
}
