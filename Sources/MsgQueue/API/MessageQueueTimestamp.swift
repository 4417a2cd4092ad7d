extension MessageQueue {
    /// A moment in Coordinated Universal Time, with a resolution of one millisecond.
    ///
    /// For Foundation's `Date` convert by seconds: `Date(timeIntervalSince1970: moment.secondsSince1970)`. See <doc:Times>.
    public struct Timestamp: Sendable, Hashable, Comparable, CustomStringConvertible {
        /// Whole milliseconds since 1970-01-01 00:00 UTC.
        public let millisecondsSince1970: Int64

        /// Creates the time that is so many milliseconds after 1970-01-01 UTC.
        public init(millisecondsSince1970: Int64) { self.millisecondsSince1970 = millisecondsSince1970 }

        /// Rounds to the nearest millisecond. A value beyond the range becomes the first or the last moment of it, and NaN becomes 1970.
        public init(secondsSince1970 seconds: Double) {
            let milliseconds = (seconds * 1000).rounded()
            let beyond = milliseconds.isNaN ? 0 : milliseconds > 0 ? Int64.max : Int64.min
            self.init(millisecondsSince1970: Int64(exactly: milliseconds) ?? beyond)
        }

        /// The current time of the system's clock.
        public static var now: Timestamp { Timestamp(millisecondsSince1970: Ports.system.wall()) }

        /// Seconds since 1970-01-01 00:00 UTC.
        public var secondsSince1970: Double { Double(millisecondsSince1970) / 1000 }

        /// Whether the left time is before the right one.
        public static func < (left: Timestamp, right: Timestamp) -> Bool { left.millisecondsSince1970 < right.millisecondsSince1970 }

        /// The result stays within the range.
        public static func + (moment: Timestamp, span: Duration) -> Timestamp {
            Timestamp(millisecondsSince1970: moment.millisecondsSince1970.addingClamped(span.milliseconds))
        }

        /// The result stays within the range.
        public static func - (moment: Timestamp, span: Duration) -> Timestamp {
            Timestamp(millisecondsSince1970: moment.millisecondsSince1970.subtractingClamped(span.milliseconds))
        }

        /// The time from `earlier` to `later`; negative when `later` is before `earlier`.
        public static func - (later: Timestamp, earlier: Timestamp) -> Duration {
            .milliseconds(later.millisecondsSince1970.subtractingClamped(earlier.millisecondsSince1970))
        }

        /// A text for people: "Just now", "5m ago", "2h ago", "3d ago", then the day in UTC as "2024-03-09". A moment after `now` is
        /// "Just now".
        public func relative(to now: Timestamp = .now) -> String {
            Words.relativeTime(millisecondsSince1970, now: now.millisecondsSince1970)
        }

        /// For logs: "2024-03-09T07:30:00.250Z".
        public var description: String { Words.instant(millisecondsSince1970) }
    }
}

extension MessageQueue.Timestamp {
    /// A time of the engine.
    package init(_ milliseconds: Int64) { self.init(millisecondsSince1970: milliseconds) }

    /// The time of a message for the engine, in which 0 means that none is given: 1970 itself becomes -1, which the engine refuses.
    var given: Int64 { millisecondsSince1970 == 0 ? -1 : millisecondsSince1970 }

    /// A time of the engine, in which 0 means that there is none.
    package init?(orNil milliseconds: Int64) {
        guard milliseconds != 0 else { return nil }
        self.init(millisecondsSince1970: milliseconds)
    }
}

extension Duration {
    /// Whole milliseconds, rounded away from zero, within the range of the type.
    package var milliseconds: Int64 {
        guard self < .milliseconds(Int64.max) else { return Int64.max }
        guard self > .milliseconds(Int64.min) else { return Int64.min }
        let (seconds, attoseconds) = components
        let perMillisecond: Int64 = 1_000_000_000_000_000
        let part = attoseconds / perMillisecond
        let rest = (attoseconds % perMillisecond).signum()
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        guard !overflow else { return seconds > 0 ? Int64.max : Int64.min }
        return product.addingClamped(part).addingClamped(rest)
    }
}
