/// The time of the oldest prunable message in each range of sequence numbers, so that pruning reads only ranges in which something is due.
/// Only ranges that were scanned in this session have an entry. An entry may be earlier than the true time, but never later.
struct PruneMap {
    /// Sequence numbers in one range, and so the maximal number of rows that one scan reads.
    static let rangeLength: Int64 = 4_000

    /// Sequence numbers to scan: those after `after`, up to and including `through`.
    struct Scan: Equatable {
        let after: Int64
        let through: Int64
        /// The first scan of these rows in this session.
        let isFirst: Bool
    }

    /// All rows up to this sequence number were scanned.
    private var scannedThrough: Int64 = 0
    /// By the index of the range.
    private var oldest: [Int64: Int64] = [:]
    private var last: Scan?

    private static func range(of sequence: Int64) -> Int64 { (max(sequence, 1) - 1) / rangeLength }

    /// Returns what to scan next; nil: nothing is due. `hasExcess`: there are more messages than the limit keeps, whatever their age.
    /// `newest`: the last sequence number.
    mutating func next(hasExcess: Bool, keepSince: Int64?, newest: Int64) -> Scan? {
        let known: Int64? =
            if hasExcess { oldest.keys.min() } else if let keepSince { oldest.filter { $0.value < keepSince }.keys.min() } else { nil }
        if let known {
            let after = known * Self.rangeLength
            last = Scan(after: after, through: min(after.addingClamped(Self.rangeLength), scannedThrough), isFirst: false)
        } else if scannedThrough < newest, hasExcess || keepSince != nil {
            let end = (scannedThrough - scannedThrough % Self.rangeLength).addingClamped(Self.rangeLength)
            last = Scan(after: scannedThrough, through: min(end, newest), isFirst: true)
        } else {
            last = nil
        }
        return last
    }

    /// Marks everything up to `sequence` as scanned, because there are no messages in between.
    mutating func skip(to sequence: Int64) { scannedThrough = max(scannedThrough, sequence) }

    /// Records the result of a scan. `time`: of the oldest prunable message that is left; nil: none is left.
    mutating func finish(_ scan: Scan, oldest time: Int64?) {
        let key = Self.range(of: scan.through)
        if scan.isFirst {
            scannedThrough = scan.through
            if let time { oldest[key] = min(oldest[key] ?? Int64.max, time) }
        } else {
            oldest[key] = time
        }
    }

    /// Records a message that became prunable at `time`.
    mutating func add(_ sequence: Int64, at time: Int64) {
        guard sequence <= scannedThrough else { return }
        let key = Self.range(of: sequence)
        oldest[key] = min(oldest[key] ?? Int64.max, time)
    }

    /// Corrects the map after a rollback, which restored what the last scan removed.
    mutating func undo() {
        guard let scan = last else { return }
        last = nil
        // A first scan that was not finished is repeated anyway.
        guard scannedThrough > scan.after else { return }
        oldest[Self.range(of: scan.through)] = Int64.min
    }
}
