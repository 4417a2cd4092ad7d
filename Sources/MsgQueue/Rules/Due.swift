/// The end of a delay, as it is kept on disk: by the wall clock, and by the clock that counts from the system's boot.
///
/// Within one boot the second is exact, whatever is done to the wall clock. After a reboot only wall time is left.
package struct Due: Sendable, Equatable {
    /// Wall time; 0: there is no delay.
    package var at: Int64 = 0
    /// The whole delay.
    package var delay: Int64 = 0
    /// Names the boot; 0: not known.
    package var boot: Int64 = 0
    /// By the clock that counts from that boot.
    package var uptime: Int64 = 0

    package init(at: Int64 = 0, delay: Int64 = 0, boot: Int64 = 0, uptime: Int64 = 0) {
        (self.at, self.delay, self.boot, self.uptime) = (at, delay, boot, uptime)
    }

    /// A delay that begins now.
    package init(after delay: Int64, _ now: Moment, boot: Int64) {
        self.init(at: now.wall.addingClamped(delay), delay: delay, boot: boot, uptime: now.mono.addingClamped(delay))
    }

    package var isNone: Bool { at == 0 }

    /// When it ends, by the clock of this boot.
    package func end(_ opening: Opening) -> Int64 {
        guard boot == 0 || boot != opening.boot || uptime <= 0 else { return uptime }
        let left = max(at.subtractingClamped(opening.moment.wall), 0)
        // More is left than there ever was: the clock went back, and nobody knows how far. The whole delay begins again.
        return opening.moment.mono.addingClamped(min(left, max(delay, 0)))
    }
}

/// When a queue was opened, and in which boot of the system.
package struct Opening: Sendable, Equatable {
    /// Not 0.
    package var boot: Int64
    package var moment: Moment

    package init(boot: Int64, moment: Moment) {
        (self.boot, self.moment) = (boot, moment)
    }
}
