import Glibc
import Testing

@testable import MsgQueue

/// The scheduler with a random host. A seed repeats its run and shows the given number of its last lines:
///
///     MSGQUEUE_SEED=17 MSGQUEUE_LINES=100 swift test --filter SchedulerRandomTests
///
/// `MSGQUEUE_SEEDS` and `MSGQUEUE_STEPS` set the numbers of runs and of steps.
@Suite struct SchedulerRandomTests {
    private static let seeds = number("MSGQUEUE_SEED").map { [UInt64($0)] } ?? Array(1...UInt64(number("MSGQUEUE_SEEDS") ?? 100))
    private static let steps = number("MSGQUEUE_STEPS") ?? 300
    private static let lines = number("MSGQUEUE_LINES") ?? 30

    private static func number(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }

    @Test(arguments: seeds)
    func A2_A6_Q8_every_promise_holds_for_any_sequence_of_events(seed: UInt64) throws {
        var host = try RandomHost(seed: seed, steps: Self.steps)
        guard let violation = host.run() else { return }
        Issue.record("seed \(seed): \(violation)\n\(host.setting)\n\(host.tail(Self.lines))")
    }

    /// In the background a message expires before the connection is stable; nothing wakes the scheduler then.
    @Test func X4_A11_an_expiry_in_the_background_is_no_missed_deadline() throws {
        var host = try RandomHost(seed: 2997, steps: 2_000)
        if let violation = host.run() { Issue.record("\(violation)\n\(host.setting)\n\(host.tail(Self.lines))") }
    }
}
