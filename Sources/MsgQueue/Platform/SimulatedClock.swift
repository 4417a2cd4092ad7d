/// The clocks and the randomness of a queue that was opened for a test. They stand still until a call waits or moves them, so the same
/// calls have the same results each time. What the wall clock shows counts as right.
package final class SimulatedClock: @unchecked Sendable {
    /// Where the monotonic clock begins, in milliseconds since a simulated boot.
    package static let firstMono: Int64 = 86_400_000

    private let mutex = Mutex()
    private var moment: Moment
    private var random: RandomBits
    /// Each opening is a boot of its own, so that times of an earlier opening count by the wall clock.
    private let boot: Int64

    /// `start` is the wall clock's time, in milliseconds since 1970; `mono` that of the monotonic clock.
    package init(start: Int64, mono: Int64 = SimulatedClock.firstMono, seed: UInt64) {
        moment = Moment(wall: start, mono: mono)
        random = RandomBits(seed: seed)
        boot = Int64.random(in: 1...Int64.max)
    }

    private init(_ moment: Moment, _ random: RandomBits, boot: Int64) { (self.moment, self.random, self.boot) = (moment, random, boot) }

    /// A clock of the same boot that moves by itself from now on.
    func copy() -> SimulatedClock { mutex.withLock { SimulatedClock(moment, random, boot: boot) } }

    package var now: Moment { mutex.withLock { moment } }

    /// Moves both clocks to this time of the monotonic clock, unless it has passed.
    package func move(to mono: Int64) {
        mutex.withLock {
            let step = mono.subtractingClamped(moment.mono)
            guard step > 0 else { return }
            moment = Moment(wall: moment.wall.addingClamped(step), mono: mono)
        }
    }

    /// Sets the wall clock to this time.
    package func set(wall: Int64) { mutex.withLock { moment = Moment(wall: wall, mono: moment.mono) } }

    package var ports: Ports {
        var ports = Ports(
            wall: { [self] in now.wall }, mono: { [self] in now.mono }, boot: { [boot] in boot },
            random: { [self] in mutex.withLock { random.next() } })
        ports.simulated = self
        return ports
    }
}
