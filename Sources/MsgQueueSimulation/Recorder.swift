import MsgQueue

/// Collects the data of a simulation's report.
final class Recorder: SimulationObserver {
    private(set) var attempts: [Simulation.Attempt] = []
    private(set) var accepted: [String: [String]] = [:]
    private(set) var sentTwice: [String] = []
    private(set) var drains: [MessageQueue.Report] = []
    private(set) var prompts = 0
    var crashes = 0
    /// The ids of enqueued messages, in order.
    private var enqueued: [String] = []
    private var timesAccepted: [String: Int] = [:]
    /// The sequences of the messages that the receiver took.
    private var sequences: [String: Int64] = [:]
    /// The ids of messages removed by a call or by the options.
    private var removed: Set<String> = []

    func enqueued(_ id: String) { enqueued.append(id) }

    func removed(_ id: String) { removed.insert(id) }

    /// Adds an attempt and returns its index, for `ended`.
    func began(_ start: Core.Start, at time: VirtualTime, isAccepted: Bool) -> Int {
        let (id, conversation) = (start.row.id, start.row.conversation.text)
        attempts.append(
            Simulation.Attempt(
                id: id, conversation: conversation, number: Int(start.flight.number), startedAt: time, isAccepted: isAccepted))
        if isAccepted {
            timesAccepted[id, default: 0] += 1
            sequences[id] = start.flight.sequence
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

    func ends(_ message: SimulatedMessage, _ resolution: Resolution) {
        if resolution.fate == .discarded || resolution.fate == .deleted { removed.insert(message.id) }
    }

    func finishes(_ report: Report) { drains.append(MessageQueue.Report(report)) }

    func raisesPrompt() { prompts += 1 }
}
