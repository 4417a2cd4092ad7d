@testable import MsgQueue

/// One entry of a simulation's journal.
enum JournalEntry: Equatable, CustomStringConvertible {
    case enqueued(Int64, Name, direct: Bool)
    case replaced(Int64, by: Int64)
    case dropped(Int64)
    case started(Int64, Name, Hand)
    case ended(Int64, Resolution.Fate)
    case called([Int64])
    case timedOut(Int64)
    case skipped(Int64)
    case late(Int64)
    case expired(Int64)
    case deleted(Int64)
    case cleared(Name?)
    case forced(Int64, Hand)
    case unreachable(Int64, MessageStatus)
    case putBack(Int64)
    case network(Network)
    case transport(Bool)
    case drainStarted(batch: Int, timeout: Int64?)
    case drainJoined
    case drainFinished(Report)
    case prompt
    case promptChanged(Int64)
    case promptWithdrawn
    case storageBroken
    case storageWell
    case restarted
    case rebooted(Int64)
    case closing
    case paused(Name?, Bool)
    case background(Bool)
    case jumped(Int64)
    case waiting(until: Int64?)

    var description: String {
        switch self {
        case .enqueued(let sequence, let lane, let direct): "enqueued \(sequence) \(lane.text)\(direct ? " direct" : "")"
        case .replaced(let old, let new): "replaced \(old) by \(new)"
        case .dropped(let sequence): "dropped \(sequence)"
        case .started(let sequence, let lane, let hand): "started \(sequence) \(lane.text)\(hand == .none ? "" : " by \(hand)")"
        case .ended(let sequence, let fate): "ended \(sequence) \(fate)"
        case .called(let sequences): "called with \(sequences.map(String.init).joined(separator: " "))"
        case .timedOut(let sequence): "timed out \(sequence)"
        case .skipped(let sequence): "skipped \(sequence)"
        case .unreachable(let sequence, let status): "ended \(sequence) as \(status), without a connection"
        case .putBack(let sequence): "put back \(sequence)"
        case .late(let sequence): "late success \(sequence)"
        case .expired(let sequence): "expired \(sequence)"
        case .deleted(let sequence): "deleted \(sequence)"
        case .cleared(let lane): "cleared \(lane?.text ?? "all")"
        case .forced(let sequence, let hand): "forced \(sequence) \(hand)"
        case .network(let network): "network \(network.connectivity)\(network.metered ? " metered" : "")"
        case .transport(let present): "transport \(present)"
        case .drainStarted(let batch, let timeout): "drain batch \(batch) timeout \(timeout.map(String.init) ?? "none")"
        case .drainJoined: "drain joined"
        case .drainFinished(let report): "drain finished \(report.stop): \(report.sent) sent, \(report.remaining) remain"
        case .prompt: "prompt"
        case .promptChanged(let messages): "prompt for \(messages)"
        case .promptWithdrawn: "prompt withdrawn"
        case .storageBroken: "storage broken"
        case .storageWell: "storage well"
        case .restarted: "restarted"
        case .rebooted(let time): "rebooted after \(time)"
        case .paused(let lane, let isPaused): "\(isPaused ? "paused" : "resumed") \(lane?.text ?? "all")"
        case .background(let isInBackground): isInBackground ? "background" : "foreground"
        case .closing: "closing"
        case .jumped(let amount): "wall clock jumps \(amount)"
        case .waiting(let until): "waits until \(until.map(String.init) ?? "input")"
        }
    }
}
