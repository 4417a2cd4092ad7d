import Glibc

@testable import MsgQueue

/// Both clocks of an engine, moved by hand.
final class VirtualClock: @unchecked Sendable {
    private let mutex = Mutex()
    private var moment: Moment
    private var random = SeededGenerator(99)

    init() {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        // Far ahead of the system's own, by which the engine's threads sleep: what is due here never wakes them.
        moment = Moment(wall: 1_700_000_000_000, mono: Int64(time.tv_sec) * 1000 + 100 * Options.day)
    }

    var wall: Int64 { mutex.withLock { moment.wall } }

    func advance(_ milliseconds: Int64) {
        mutex.withLock {
            moment.wall += milliseconds
            moment.mono += milliseconds
        }
    }

    /// Somebody sets the wall clock, or the machine sleeps: only the wall clock goes on then.
    func shiftWall(_ milliseconds: Int64) { mutex.withLock { moment.wall += milliseconds } }

    var ports: Ports {
        Ports(
            wall: { [self] in mutex.withLock { moment.wall } }, mono: { [self] in mutex.withLock { moment.mono } },
            random: { [self] in mutex.withLock { random.next() } })
    }
}
