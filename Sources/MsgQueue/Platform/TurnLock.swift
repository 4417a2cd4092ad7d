import Glibc

/// A time, and the processor time of the thread, in nanoseconds. On a busy machine the time contains that of other programs.
package struct HoldTime {
    package private(set) var elapsed: UInt64 = 0
    package private(set) var ofProcessor: UInt64 = 0

    static var now: HoldTime { HoldTime(elapsed: Ports.nanoseconds(), ofProcessor: Ports.processorNanoseconds()) }

    mutating func lengthen(to end: HoldTime, since start: HoldTime) {
        elapsed = max(elapsed, end.elapsed &- start.elapsed)
        ofProcessor = max(ofProcessor, end.ofProcessor &- start.ofProcessor)
    }
}

/// The engine's lock, shared by callers and by the engine's own threads. Callers wait in the order of their arrival. When both wait, callers
/// and engine threads take turns. An engine thread that has been signalled and has not woken up yet delays others only after `mostPasses` of
/// them have taken the free lock before it.
final class TurnLock: @unchecked Sendable {
    enum Side { case caller, engine }

    /// Guards the state; held for moments only.
    private let state = Mutex()
    private var isHeld = false
    /// The side that has the lock, or had it last.
    private var side = Side.engine
    /// Callers that wait, in the order of their arrival.
    private var callers: [Semaphore] = []
    private var engineThreads = 0
    /// One of them has been signalled, and has not woken up yet.
    private var isEngineWaking = false
    /// For which threads of the engine the free lock is reserved.
    private var reservation = Reservation.none
    private enum Reservation { case none, engine, waitingEngine }
    private let engineCondition = Condition()
    /// How often other threads took the free lock while an engine thread waited, since one that had waited had the lock last.
    private var passes = 0
    private static let mostPasses = 4
    /// For measurements, in nanoseconds: since when the lock is held, and the longest times until now; nil: not measured.
    private var holds: (since: HoldTime?, longest: HoldTime)?
    /// The thread that holds the lock, in debug builds; 0: none.
    private var owner: pthread_t = 0

    /// Asserts that the calling thread holds the lock.
    func assertHeld() { assert(owner == pthread_self(), "the lock is not held by this thread") }

    /// Notes the thread that has the lock from now on.
    private func noteOwner(_ thread: @autoclosure () -> pthread_t) {
        #if DEBUG
            owner = thread()
        #endif
        if holds != nil { holds?.since = .now }
    }

    /// Returns the longest time for which one thread held the lock since the last call, and the most processor time that one used meanwhile,
    /// and measures from now on.
    func takeLongestHold() -> HoldTime {
        state.lock()
        defer { state.unlock() }
        // Another thread may hold it, since a time that is not known at first.
        defer { holds = (holds?.since, HoldTime()) }
        return holds?.longest ?? HoldTime()
    }

    /// The numbers of callers and of engine threads that wait.
    var waiting: (callers: Int, engineThreads: Int) {
        state.lock()
        defer { state.unlock() }
        return (callers.count, engineThreads)
    }

    private func noteHold() {
        if let since = holds?.since { holds?.longest.lengthen(to: .now, since: since) }
    }

    func lock() {
        state.lock()
        guard isHeld || !callers.isEmpty || reservation != .none else {
            (isHeld, side) = (true, .caller)
            if engineThreads > 0 { passes += 1 }
            noteOwner(pthread_self())
            return state.unlock()
        }
        let turn = Semaphore()
        callers.append(turn)
        state.unlock()
        turn.wait()
        // The thread that handed the lock over may be about to wait for a condition, which this thread must not signal before.
        state.lock()
        noteOwner(pthread_self())
        state.unlock()
    }

    /// Takes the lock on a thread of the engine, or after a callback.
    func lockForEngine() {
        state.lock()
        lockForEngineLocked()
        state.unlock()
    }

    private func lockForEngineLocked() {
        var hasWaited = false
        while isHeld || !mayBeTaken(byEngineThatWaited: hasWaited) {
            engineThreads += 1
            engineCondition.wait(state)
            engineThreads -= 1
            (hasWaited, isEngineWaking) = (true, false)
        }
        passes = hasWaited || engineThreads == 0 ? 0 : passes + 1
        (isHeld, side, reservation) = (true, .engine, .none)
        noteOwner(pthread_self())
    }

    private func mayBeTaken(byEngineThatWaited hasWaited: Bool) -> Bool {
        switch reservation {
        case .none: callers.isEmpty
        case .engine: true
        case .waitingEngine: hasWaited
        }
    }

    func unlock() {
        state.lock()
        release()
        state.unlock()
    }

    private func release() {
        noteHold()
        noteOwner(0)
        if !callers.isEmpty, side == .engine || engineThreads == 0 {
            side = .caller
            callers.removeFirst().post()
            return
        }
        isHeld = false
        guard engineThreads > 0 else { return }
        if passes >= Self.mostPasses { reservation = .waitingEngine } else if !callers.isEmpty { reservation = .engine }
        if !isEngineWaking {
            isEngineWaking = true
            engineCondition.signal()
        }
    }

    /// Lets callers that wait run, on a thread of the engine or after a callback.
    func yield() {
        state.lock()
        if !callers.isEmpty || engineThreads > 0 {
            // As for an engine thread, whoever holds it: callers have the next turn.
            side = .engine
            release()
            lockForEngineLocked()
        } else if holds != nil {
            // Nobody waits who could be held.
            noteHold()
            holds?.since = .now
        }
        state.unlock()
    }

    func withLock<T, E: Error>(_ body: () throws(E) -> T) throws(E) -> T {
        lock()
        defer { unlock() }
        return try body()
    }

    /// Waits for the condition, with the lock released meanwhile.
    @discardableResult
    func wait(_ condition: Condition, until deadline: Int64? = nil) -> Bool {
        state.lock()
        release()
        let isInTime = condition.wait(state, until: deadline)
        lockForEngineLocked()
        state.unlock()
        return isInTime
    }

    /// Initialises the lock again, in a forked child, which has one thread.
    func reset() {
        state.reset()
        engineCondition.reset()
        (isHeld, side, callers, engineThreads, isEngineWaking, reservation, passes) = (false, .engine, [], 0, false, .none, 0)
    }
}
