import Glibc

/// Injectable clocks and randomness.
package struct Ports: Sendable {
    /// Milliseconds since 1970.
    package var wall: @Sendable () -> Int64
    /// Milliseconds since boot, including the time in system suspend. This clock cannot be set. The engine's threads wait by the system's
    /// clock of this kind.
    package var mono: @Sendable () -> Int64
    /// The part of `mono` in system suspend, in milliseconds.
    package var asleep: @Sendable () -> Int64 = { 0 }
    /// A hash that identifies the boot from which `mono` counts; not 0.
    package var boot: @Sendable () -> Int64
    package var random: @Sendable () -> UInt64
    /// A wall clock that shows less is wrong: nothing expires or is pruned by it.
    package var earliest: Int64 = 0
    /// The clock of a queue that was opened with one of its own: what waits moves it. nil: the system's.
    package var simulated: SimulatedClock?
    /// Whether there is something to wait for beside a simulated clock: other threads, or the host's event loop.
    package var hasDescriptors = true

    package static let system = Ports(
        wall: { milliseconds(CLOCK_REALTIME) }, mono: { milliseconds(CLOCK_BOOTTIME) },
        asleep: { milliseconds(CLOCK_BOOTTIME) - milliseconds(CLOCK_MONOTONIC) }, boot: { Boot.current },
        random: { UInt64.random(in: 0...UInt64.max) }, earliest: LibraryVersion.notBefore)

    static func milliseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Nanoseconds of the clock that stops in system suspend, to measure short times.
    static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
    }

    /// The processor time of this thread.
    static func processorNanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
    }

    var moment: Moment { Moment(wall: wall(), mono: mono()) }

    /// A random number in 0..<1.
    var fraction: Double { Double(random() >> 11) / Double(1 << 53) }
}
