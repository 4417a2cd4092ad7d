/// A place in the order by time: the time, then the sequence number.
package struct TimePlace: Sendable, Equatable, Comparable {
    package var time: Int64
    package var sequence: Int64

    package init(_ time: Int64, _ sequence: Int64) { (self.time, self.sequence) = (time, sequence) }

    package static let start = TimePlace(Int64.min, 0)
    package static let end = TimePlace(Int64.max, Int64.max)

    /// The part of a time that is in the checksum of its conversation: all of it up to the end of the year 9999. The sum of a damaged
    /// store's times must not overflow.
    static let proofMask: Int64 = 1 << 48 - 1

    package static func < (left: TimePlace, right: TimePlace) -> Bool { (left.time, left.sequence) < (right.time, right.sequence) }
}

extension Filter {
    /// The place before a page by a time; nil: it begins at the end. Without a sequence number it begins at the time, in both directions.
    package var timePlace: TimePlace? {
        guard afterTime != 0 else { return nil }
        return TimePlace(afterTime, after == 0 && newestFirst ? Int64.max : after)
    }
}

/// How the order of the messages by time is stored.
///
/// Most messages have no time of their own, and their order by time is that of their sequence numbers: they need no index. From the first
/// message with another time on, all have an explicit time and index entries.
enum TimeOrder: Equatable {
    /// The order by time is that of the sequence numbers.
    case plain
    /// The message alone has index entries: the wall clock was set back a little.
    case displaced
    /// This message and all later ones have index entries.
    case timed

    /// Messages that are displaced for longer are `timed`, because pages read past those that are displaced.
    static let tolerance: Int64 = 10_000

    /// `latest`: the latest time of a plain message.
    static func place(given time: Int64, now: Int64, latest: Int64) -> TimeOrder {
        guard time == 0 || time == now else { return .timed }
        if now >= latest { return .plain }
        return latest.subtractingClamped(now) <= tolerance ? .displaced : .timed
    }
}
