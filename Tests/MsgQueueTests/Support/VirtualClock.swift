import Glibc

@testable import MsgQueue

/// The clocks of an engine, set by the test.
final class VirtualClock: @unchecked Sendable {
    /// The year 2001: an earlier time is wrong.
    static let earliest: Int64 = 1_000_000_000_000
    private let mutex = Mutex()
    private var moment: Moment
    private var asleep: Int64 = 0
    private var boot: Int64 = 1
    private let firstMono: Int64
    private var random = SeededGenerator(99)
    private var milliseconds: Int64 = 0

    init() {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        // Far ahead of the system's clock, which the engine's threads use to sleep, so that they never wake up.
        firstMono = Int64(time.tv_sec) * 1000 + 100 * Options.day
        moment = Moment(wall: 1_700_000_000_000, mono: firstMono)
    }

    var wall: Int64 { mutex.withLock { moment.wall } }

    /// By how much each reading of the monotonic clock advances it.
    var step: Int64 {
        get { mutex.withLock { milliseconds } }
        set { mutex.withLock { milliseconds = newValue } }
    }

    private func mono() -> Int64 {
        mutex.withLock {
            moment.mono += milliseconds
            return moment.mono
        }
    }

    func advance(_ milliseconds: Int64) {
        mutex.withLock {
            moment.wall += milliseconds
            moment.mono += milliseconds
        }
    }

    /// Shifts the wall clock.
    func shiftWall(_ milliseconds: Int64) { mutex.withLock { moment.wall += milliseconds } }

    func setWall(_ wall: Int64) { mutex.withLock { moment.wall = wall } }

    /// Suspends the machine.
    func sleep(_ milliseconds: Int64) {
        advance(milliseconds)
        mutex.withLock { asleep += milliseconds }
    }

    /// Reboots the machine. `milliseconds` is the difference of the wall clock, which may have been set meanwhile.
    func reboot(after milliseconds: Int64) {
        mutex.withLock {
            moment.wall += milliseconds
            moment.mono = firstMono
            asleep = 0
            boot += 1
        }
    }

    var ports: Ports {
        Ports(
            wall: { [self] in mutex.withLock { moment.wall } }, mono: { [self] in mono() },
            asleep: { [self] in mutex.withLock { asleep } }, boot: { [self] in mutex.withLock { boot } },
            random: { [self] in mutex.withLock { random.next() } }, earliest: Self.earliest)
    }
}
