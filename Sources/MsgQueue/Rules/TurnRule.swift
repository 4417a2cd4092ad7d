/// Divides the attempts between the backlog, which was queued when sending began, and live messages, which were enqueued since; and within
/// each of the two between the message with the first rank and the oldest one.
///
/// Only attempts that both could have are divided. After any number n of them, the number of live ones is n times the share, rounded down.
package struct TurnRule: Sendable, Equatable {
    package enum Side: Sendable { case backlog, live }

    /// One of so many attempts of a side goes to its oldest message, whatever its rank.
    package static let oldestEvery = 8

    private static let whole = 1_000_000
    /// The share of live messages and what they have not used of it, in millionths.
    private let share: Int
    private var credit = 0
    /// The attempts of each side since its oldest message had one.
    private var overtaken = (backlog: 0, live: 0)

    /// `liveShare` is in 0...1.
    package init(liveShare: Double) { share = Int((liveShare * Double(Self.whole)).rounded()) }

    /// Which side has the next attempt; nil: neither has a message.
    package func side(hasBacklog: Bool, hasLive: Bool) -> Side? {
        guard hasBacklog, hasLive else { return hasBacklog ? .backlog : hasLive ? .live : nil }
        return credit + share >= Self.whole ? .live : .backlog
    }

    /// Whether the next attempt of the side goes to its oldest message.
    package func takesOldest(_ side: Side) -> Bool { self[side] >= Self.oldestEvery - 1 }

    /// Whether live messages wait for the whole backlog, or the backlog for all live messages.
    package var isExclusive: Bool { share == 0 || share == Self.whole }

    /// Notes an attempt. `isContested`: the other side had a message, too; `isOldest`: it was the oldest of its side.
    package mutating func started(_ side: Side, isContested: Bool, isOldest: Bool) {
        if isContested { credit += side == .live ? share - Self.whole : share }
        self[side] = isOldest ? 0 : self[side] + 1
    }

    private subscript(side: Side) -> Int {
        get { side == .live ? overtaken.live : overtaken.backlog }
        set { if side == .live { overtaken.live = newValue } else { overtaken.backlog = newValue } }
    }

    package static func == (left: TurnRule, right: TurnRule) -> Bool {
        (left.share, left.credit) == (right.share, right.credit) && left.overtaken == right.overtaken
    }
}
