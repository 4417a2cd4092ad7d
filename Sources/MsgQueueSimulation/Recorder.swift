import MsgQueue

/// Collects the data of a simulation's report. Used by one thread.
final class Recorder: EventObserver, @unchecked Sendable {
    private(set) var attempts: [Simulation.Attempt] = []
    private(set) var accepted: [String: [String]] = [:]
    private(set) var sentTwice: [String] = []
    private(set) var drains: [MessageQueue.Report] = []
    private(set) var prompts = 0
    private(set) var crashes = 0
    /// The ids of enqueued messages, in order.
    private var enqueued: [String] = []
    private var timesAccepted: [String: Int] = [:]
    /// The places of the messages in the order, as far as they are known.
    private var sequences: [String: Int64] = [:]
    /// The ids of messages removed by a call or by the options.
    private var removed: Set<String> = []

    func enqueued(_ id: String, _ sequence: Int64) {
        enqueued.append(id)
        sequences[id] = sequence
    }

    func removed(_ ids: Set<String>) { removed.formUnion(ids) }

    /// Notes the place of a message that was enqueued by a process that ended before it answered.
    func found(_ id: String, _ sequence: Int64) { sequences[id] = sequence }

    func isKnown(_ id: String) -> Bool { sequences[id] != nil }

    func processEnded() { crashes += 1 }

    /// The ids of the messages in these places.
    func ids(at places: Set<Int64>) -> [String] { places.isEmpty ? [] : sequences.filter { places.contains($0.value) }.map(\.key) }

    /// Adds an attempt and returns its index, for `ended`.
    func began(_ delivery: Delivery, at time: VirtualTime, isAccepted: Bool) -> Int {
        let (id, conversation) = (delivery.id, delivery.conversation)
        attempts.append(
            Simulation.Attempt(
                id: id, conversation: conversation, number: Int(delivery.attempt), startedAt: time, isAccepted: isAccepted))
        if isAccepted {
            timesAccepted[id, default: 0] += 1
            switch timesAccepted[id] {
            case 1: accepted[conversation, default: []].append(id)
            case 2: sentTwice.append(id)
            default: break
            }
        }
        return attempts.count - 1
    }

    func ended(_ place: Int, at time: VirtualTime, _ outcome: MessageQueue.Outcome) {
        attempts[place].endedAt = time
        attempts[place].outcome = outcome
    }

    /// The messages that the receiver took before an earlier message of the same conversation, in the order of arrival.
    var overtaking: [String] {
        accepted.sorted { $0.key < $1.key }.flatMap { _, ids in
            var first = Int64.max
            var found: [String] = []
            for id in ids.reversed() {
                let sequence = sequences[id] ?? 0
                if sequence > first { found.append(id) }
                first = min(first, sequence)
            }
            return found.reversed()
        }
    }

    func lost(_ isStored: (String) -> Bool) -> [String] {
        enqueued.filter { !isStored($0) && timesAccepted[$0] == nil && !removed.contains($0) }
    }

    // MARK: Observing the engine

    func receive(_ event: Event, at: Int64) {
        switch event {
        case .discarded(let id, _, _), .deleted(let id, _), .replaced(let id, _, _): removed.insert(id)
        case .drainFinished(let report): drains.append(MessageQueue.Report(report))
        case .prompt: prompts += 1
        default: break
        }
    }

    func countsChanged() {}
}
