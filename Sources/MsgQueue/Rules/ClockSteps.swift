/// What is known of steps of the wall clock, so that ages are not measured across a step: a time that the clock showed before it is seen as
/// if it had been right by then.
package struct ClockSteps: Sendable, Equatable {
    /// A hash of the boot id; 0: nothing is known.
    package var boot: Int64 = 0
    /// The wall clock's difference from the boot clock, to about a second.
    package var offset: Int64 = 0
    /// The longest step that still matters: the first and the last time that the clock showed before it in that boot, and its length, which
    /// is negative if the clock was set back. A `by` of 0: there was none.
    package var from: Int64 = 0
    package var through: Int64 = 0
    package var by: Int64 = 0

    /// Smaller differences between the two clocks may be their drift.
    static let leastStep: Int64 = 60_000
    private static let precision: Int64 = 1_000

    /// Notes what the clocks show. Returns by how much the wall clock was set since the last time. `longestAge`: longer ages do
    /// not matter.
    package mutating func note(_ now: Moment, boot current: Int64, longestAge: Int64) -> Int64 {
        let shown = now.wall.subtractingClamped(now.mono)
        guard boot == current else {
            (boot, offset) = (current, shown)
            return 0
        }
        let step = shown.subtractingClamped(offset)
        guard step.magnitude >= UInt64(Self.precision) else { return 0 }
        // What an earlier step of this boot displaced is displaced by this one as well.
        let isOfThisBoot = from.addingClamped(by).subtractingClamped(offset).magnitude < UInt64(Self.leastStep)
        if by != 0, isOfThisBoot { by = by.addingClamped(step) }
        defer { offset = shown }
        guard step.magnitude >= UInt64(Self.leastStep) else { return step }
        let isOver = by == 0 || age(of: through, now) > longestAge
        if isOver || step.magnitude >= by.magnitude { (from, through, by) = (offset, now.wall.subtractingClamped(step), step) }
        return step
    }

    /// Returns what the clock would have shown then, had it been set by that time.
    package func corrected(_ time: Int64) -> Int64 { by != 0 && (from...max(from, through)).contains(time) ? time.addingClamped(by) : time }

    private func age(of time: Int64, _ now: Moment) -> Int64 { now.wall.subtractingClamped(corrected(time)) }
}

/// The times of a message that were given as durations in the present boot, as time since the boot: independent of changes of the wall
/// clock. 0: none.
package struct BootTimes: Sendable, Equatable {
    package var start: Int64 = 0
    package var expiry: Int64 = 0

    package init(start: Int64 = 0, expiry: Int64 = 0) { (self.start, self.expiry) = (start, expiry) }

    /// Returns a time as wall time. `given`: as it is stored; `uptime`: as time since the boot.
    static func wall(_ given: Int64, _ uptime: Int64, _ now: Moment) -> Int64 {
        guard given != 0, uptime != 0 else { return given }
        let wall = now.wall.addingClamped(uptime.subtractingClamped(now.mono))
        // The two clocks drift, and are truncated to milliseconds.
        return wall.subtractingClamped(given).magnitude < 1_000 ? given : max(wall, 1)
    }
}
