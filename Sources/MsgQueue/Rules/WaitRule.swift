/// When a call that waits for the outcome of a message goes on waiting: while the message is being sent, and before its first attempt while it
/// will be sent without anyone's help. Everything else is an outcome, or a reason for which nothing is sent now.
package enum WaitRule {
    /// `hasOutcome`: an attempt of the message has ended, and no further one was requested by hand. `holder`: what the message waits for that
    /// goes first in its conversation.
    package static func continues(_ wait: Wait, hasOutcome: Bool, holder: Wait?) -> Bool {
        if wait.reason == .sending || wait.reason == .expired { return true }
        guard !hasOutcome else { return false }
        switch wait.reason {
        case .next, .rate: return true
        case .retrying: return wait.isSkipped
        case .behind:
            // The attempt of the other one may have ended before its call has returned.
            return holder.map { [.done, .failed].contains($0.reason) || continues($0, hasOutcome: false, holder: nil) } ?? false
        default: return false
        }
    }
}
