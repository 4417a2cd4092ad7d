import Glibc
import Testing

@testable import MsgQueue

/// The engine's lock, used by threads of a test instead of by callers and the engine.
struct TurnLockTests {
    /// What the threads share, guarded by the lock.
    private final class Shared: @unchecked Sendable {
        let lock = TurnLock()
        let condition = Condition()
        let answered = Semaphore()
        var requests = 0
        var answers = 0
        var lostSignals = 0
    }

    private static let rounds = 20_000

    /// The caller asks for the lock while the engine thread has it, and so receives it from a thread that begins to wait for the condition
    /// which the caller then signals.
    @Test func aSignalReachesAThreadThatHandedItsLockOverToWait() throws {
        let shared = Shared()
        let clock = Ports.system.mono
        let engine = try #require(
            EngineThread("test-engine") {
                shared.lock.lockForEngine()
                while shared.answers < Self.rounds {
                    guard shared.requests > 0 else {
                        let isInTime = shared.lock.wait(shared.condition, until: clock() + 2_000)
                        if !isInTime, shared.requests > 0 { shared.lostSignals += 1 }
                        continue
                    }
                    shared.requests -= 1
                    shared.answers += 1
                    shared.answered.post()
                }
                shared.lock.unlock()
            })
        for _ in 0..<Self.rounds {
            shared.lock.withLock {
                shared.requests += 1
                shared.condition.signal()
            }
            shared.answered.wait()
        }
        engine.join()
        #expect(shared.lostSignals == 0)
    }

    /// Each of two engine threads waits for its turn while a caller takes the lock all the time.
    @Test func aCallerInALoopDoesNotStopTheEngine() throws {
        let shared = Shared()
        let threads = try (0..<2).map { _ in
            try #require(
                EngineThread("test-engine") {
                    for _ in 0..<Self.rounds {
                        shared.lock.lockForEngine()
                        shared.answers += 1
                        shared.lock.unlock()
                    }
                })
        }
        while shared.lock.withLock({ shared.answers }) < Self.rounds * 2 {}
        for thread in threads { thread.join() }
    }

    /// A thread that takes the free lock again before the one that it woke does so a few times, and then waits for it.
    @Test func anEngineThreadInALoopDoesNotStopAnother() throws {
        let shared = Shared()
        for round in 1...200 {
            shared.lock.lockForEngine()
            let other = try #require(
                EngineThread("test-engine") {
                    shared.lock.lockForEngine()
                    shared.answers += 1
                    shared.lock.unlock()
                })
            while shared.lock.waiting.engineThreads == 0 { usleep(10) }
            for _ in 0..<6 { shared.lock.yield() }
            let answers = shared.answers
            shared.lock.unlock()
            other.join()
            #expect(answers == round)
        }
    }
}
