/// The end of a delay as it is stored: as wall time, and as time since the system's boot.
///
/// Within one boot the time since boot is exact, even if the wall clock is set. After a reboot only the wall time is usable.
package struct Due: Sendable, Equatable {
    /// Wall time; 0: there is no delay.
    package var at: Int64 = 0
    /// The whole delay.
    package var delay: Int64 = 0
    /// Identifies the boot; 0: unknown.
    package var boot: Int64 = 0
    /// The end as time since that boot.
    package var uptime: Int64 = 0

    package init(at: Int64 = 0, delay: Int64 = 0, boot: Int64 = 0, uptime: Int64 = 0) {
        (self.at, self.delay, self.boot, self.uptime) = (at, delay, boot, uptime)
    }

    /// Creates a delay that begins now.
    package init(after delay: Int64, _ now: Moment, boot: Int64) {
        self.init(at: now.wall.addingClamped(delay), delay: delay, boot: boot, uptime: now.mono.addingClamped(delay))
    }

    package var isNone: Bool { at == 0 }

    /// Returns the end as time since this boot.
    package func end(_ opening: Opening) -> Int64 {
        guard boot == 0 || boot != opening.boot || uptime <= 0 else { return uptime }
        let left = max(at.subtractingClamped(opening.moment.wall), 0)
        // If more is left than the whole delay, the clock was set back by an unknown time: the delay begins again.
        return opening.moment.mono.addingClamped(min(left, max(delay, 0)))
    }
}

/// When a queue was opened, and in which boot of the system.
package struct Opening: Sendable, Equatable {
    /// Identifies the boot; not 0.
    package var boot: Int64
    package var moment: Moment
    /// A wall clock that shows less is wrong.
    package var earliest: Int64 = 0

    /// The wall time; nil: the clock is wrong.
    func wall(_ now: Moment) -> Int64? { now.wall >= earliest ? now.wall : nil }
}
