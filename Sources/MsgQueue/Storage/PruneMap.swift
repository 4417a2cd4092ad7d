/// Where messages lie that may be pruned: of each stretch of the order the time of the oldest of them, so that a history in which nothing is
/// due is not read. Known of what was looked at in this session, and never later than the true time.
struct PruneMap {
    /// Sequences in one stretch: so many rows one look reads at most.
    static let stretch: Int64 = 4_000

    /// Sequences to look at: those behind `after`, up to `through`.
    struct Look: Equatable {
        let after: Int64
        let through: Int64
        /// For the first time in this session.
        let isFirst: Bool
    }

    /// Up to here every stretch was looked at.
    private var scannedThrough: Int64 = 0
    private var oldest: [Int64: Int64] = [:]
    private var last: Look?

    private static func stretch(of sequence: Int64) -> Int64 { (max(sequence, 1) - 1) / stretch }

    /// Where to look next; nil: nothing is due. `hasExcess`: there are more than are kept, of whatever age. `newest`: the last sequence.
    mutating func next(hasExcess: Bool, keepSince: Int64?, newest: Int64) -> Look? {
        let known: Int64? =
            if hasExcess { oldest.keys.min() } else if let keepSince { oldest.filter { $0.value < keepSince }.keys.min() } else { nil }
        if let known {
            let after = known * Self.stretch
            last = Look(after: after, through: min(after.addingClamped(Self.stretch), scannedThrough), isFirst: false)
        } else if scannedThrough < newest, hasExcess || keepSince != nil {
            let end = (scannedThrough - scannedThrough % Self.stretch).addingClamped(Self.stretch)
            last = Look(after: scannedThrough, through: min(end, newest), isFirst: true)
        } else {
            last = nil
        }
        return last
    }

    /// What was not looked at yet begins behind this sequence: there is nothing before it.
    mutating func skip(to sequence: Int64) { scannedThrough = max(scannedThrough, sequence) }

    /// The look is done, and `time` is that of the oldest that is left; nil: none is left.
    mutating func looked(_ look: Look, oldest time: Int64?) {
        let key = Self.stretch(of: look.through)
        if look.isFirst {
            scannedThrough = look.through
            if let time { oldest[key] = min(oldest[key] ?? Int64.max, time) }
        } else {
            oldest[key] = time
        }
    }

    /// A message may be pruned from now on.
    mutating func note(_ sequence: Int64, at time: Int64) {
        guard sequence <= scannedThrough else { return }
        let key = Self.stretch(of: sequence)
        oldest[key] = min(oldest[key] ?? Int64.max, time)
    }

    /// What the last look removed is there again.
    mutating func undo() {
        guard let look = last else { return }
        last = nil
        // A first look that did not come to its end is repeated anyway.
        guard scannedThrough > look.after else { return }
        oldest[Self.stretch(of: look.through)] = Int64.min
    }
}
