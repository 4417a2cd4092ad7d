@testable import MsgQueue

/// Observes each step of a simulated engine before it is performed. A thrown error ends the run.
protocol SimulationObserver: AnyObject {
    func willStep()
    func starts(_ message: SimulatedMessage, _ conversation: Name, _ hand: Hand) throws
    /// The transport is called with these messages, in this order.
    func calls(_ messages: [SimulatedMessage]) throws
    func timesOut(_ flight: Flight) throws
    /// The transport skipped the message.
    func skips(_ sequence: Int64)
    func ends(_ message: SimulatedMessage, _ resolution: Resolution) throws
    func expires(_ message: SimulatedMessage) throws
    /// A request for this message ends without an attempt.
    func endsUnreachable(_ sequence: Int64, _ hand: Hand) throws
    func endedUnreachable(_ sequence: Int64, _ resolution: Resolution)
    func finishes(_ report: Report) throws
    /// The next requested drain begins.
    func beginsNextDrain()
    func raisesPrompt() throws
    func changesPrompt(_ prompt: Prompt) throws
    func withdrawsPrompt() throws
    /// Queued messages were read, of one conversation or (nil) of all.
    func reads(_ conversation: Name?, after sequence: Int64, rows: Int)
    func waits(until: Int64?) throws
    func storeRecovered()
    func pauses()
}

extension SimulationObserver {
    func willStep() {}
    func starts(_ message: SimulatedMessage, _ conversation: Name, _ hand: Hand) {}
    func calls(_ messages: [SimulatedMessage]) {}
    func timesOut(_ flight: Flight) {}
    func skips(_ sequence: Int64) {}
    func ends(_ message: SimulatedMessage, _ resolution: Resolution) {}
    func expires(_ message: SimulatedMessage) {}
    func endsUnreachable(_ sequence: Int64, _ hand: Hand) {}
    func endedUnreachable(_ sequence: Int64, _ resolution: Resolution) {}
    func finishes(_ report: Report) {}
    func beginsNextDrain() {}
    func raisesPrompt() {}
    func changesPrompt(_ prompt: Prompt) {}
    func withdrawsPrompt() {}
    func reads(_ conversation: Name?, after sequence: Int64, rows: Int) {}
    func waits(until: Int64?) {}
    func storeRecovered() {}
    func pauses() {}
}
