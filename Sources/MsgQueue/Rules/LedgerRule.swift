/// Which attempts of a message the ledger keeps, and how much of their texts. The numbers of the others are missing, so that the gap is seen.
enum LedgerRule {
    /// The room that attempts have in the store's files.
    enum Room: Equatable {
        case ample
        /// The files are larger than their limit by more than `shortened`, or the disk is full: texts are cut.
        case little
        /// By more than `least`: only what the state of the message depends on is kept.
        case none
    }

    /// So many of the first attempts of a message are kept, and so many of the last ones.
    static let (first, last): (Int64, Int64) = (4, 60)
    /// With `Room.none` the header's bound leaves 256 KiB, and 1 KiB for each unsent message, for outcomes and one attempt of each.
    private static let (shortened, least): (Int64, Int64) = (512 << 10, 768 << 10)

    /// Returns the room in files that are larger than their limit by `excess` bytes.
    static func room(excess: Int64, isDiskFull: Bool) -> Room {
        excess > least ? .none : excess > shortened || isDiskFull ? .little : .ample
    }

    /// Returns the text as it is kept.
    static func text(_ text: String, _ room: Room) -> String { LogText.prefix(text, bytes: room == .ample ? 511 : 63) }

    /// Returns the numbers of the attempts that are removed when the attempt `newest` is written; nil: none. The last interrupted one always
    /// stays, and the last one that did not end as offline, which `Failure.before` shows.
    static func removed(before newest: Int64, _ room: Room) -> ClosedRange<Int64>? {
        let (first, last) = room == .none ? (0, 1) : (first, last)
        return newest - last > first ? first + 1...newest - last : nil
    }

    /// Whether the attempts before a success are kept.
    static func keepsAttempts(_ room: Room) -> Bool { room != .none }
}
