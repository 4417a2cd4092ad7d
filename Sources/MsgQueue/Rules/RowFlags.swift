/// The column `flags`: six bits of `Progress`, and the round in the bits from 8 on.
struct RowFlags: OptionSet, Sendable {
    let rawValue: Int64

    static let doomed = RowFlags(rawValue: 1)
    static let perhapsArrived = RowFlags(rawValue: 2)
    static let waitsForNetwork = RowFlags(rawValue: 4)
    static let isDamaged = RowFlags(rawValue: 8)
    static let ignoresExpiry = RowFlags(rawValue: 16)
    static let isRetriedByHand = RowFlags(rawValue: 32)

    init(rawValue: Int64) { self.rawValue = rawValue }

    init(_ progress: Progress) {
        let bits: Int64 =
            (progress.doomed ? 1 : 0) | (progress.perhapsArrived ? 2 : 0) | (progress.waitsForNetwork ? 4 : 0)
            | (progress.isDamaged ? 8 : 0) | (progress.ignoresExpiry ? 16 : 0) | (progress.isRetriedByHand ? 32 : 0)
        self.init(rawValue: bits | Int64(progress.round) << 8)
    }

    var round: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 8) }
}

extension Progress {
    mutating func take(_ flags: RowFlags) {
        doomed = flags.contains(.doomed)
        perhapsArrived = flags.contains(.perhapsArrived)
        waitsForNetwork = flags.contains(.waitsForNetwork)
        isDamaged = flags.contains(.isDamaged)
        ignoresExpiry = flags.contains(.ignoresExpiry)
        isRetriedByHand = flags.contains(.isRetriedByHand)
        round = flags.round
    }
}
