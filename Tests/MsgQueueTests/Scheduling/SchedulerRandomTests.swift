import Glibc
import Testing

@testable import MsgQueue

/// The scheduler under a random host. A seed repeats its run: `MSGQUEUE_SEED=17 swift test --filter SchedulerRandomTests`.
@Suite struct SchedulerRandomTests {
    private static let seeds: [UInt64] = getenv("MSGQUEUE_SEED").flatMap { UInt64(String(cString: $0)) }.map { [$0] } ?? Array(1...160)
    private static let steps = getenv("MSGQUEUE_STEPS").flatMap { Int(String(cString: $0)) } ?? 300

    @Test(arguments: seeds)
    func A2_A6_Q8_any_sequence_of_events_keeps_every_promise(seed: UInt64) {
        var host = RandomHost(seed: seed, steps: Self.steps)
        guard let violation = host.run() else { return }
        Issue.record("seed \(seed): \(violation)\n  \(host.setting)\n\(host.story)")
    }
}
