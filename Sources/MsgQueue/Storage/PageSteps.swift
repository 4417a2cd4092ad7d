/// A page of messages that is read in steps, between which other calls may run. Each message is read as a whole.
struct PageSteps {
    /// A step ends after bodies of so many bytes, and after so many rows: about two milliseconds.
    private static let (bytes, rows) = (1 << 20, 512)

    /// Selects the messages that are not read yet.
    private var filter: Filter
    /// Their places; nil: not known.
    private var places: ArraySlice<TimePlace>?
    /// `StateRow.commits` when the places were read.
    private var commits = 0
    /// A place without its message says nothing about the index.
    private var mayDiffer = false
    /// Messages were left out, so that others follow to make the page full.
    private var isShort = false
    private let isSelected: Bool

    /// `places`: those of the page, if the filter alone does not select them.
    init(_ filter: Filter, at places: [TimePlace]? = nil) {
        (self.filter, self.places, mayDiffer, isSelected) = (filter, places.map { $0[...] }, places != nil, places != nil)
    }

    /// Whether all has been read.
    var isComplete: Bool { places?.isEmpty ?? false }

    /// Reads the next rows. `sending`: the messages being sent, which are stored as queued. A damaged row contains only what can be read of it,
    /// and is also passed to `damaged`.
    mutating func step(
        _ pages: MessagePages, sending: Set<Int64>, damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Row] {
        if let rows = try next(pages, sending, damaged) { return rows }
        try pages.repairIndex(filter)
        (places, mayDiffer) = (nil, true)
        return try next(pages, sending, damaged) ?? []
    }

    /// Returns nil when an index has an entry for a message that is gone or has another status although nothing changed meanwhile.
    private mutating func next(
        _ pages: MessagePages, _ sending: Set<Int64>, _ damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Row]? {
        if places == nil {
            guard let found = try pages.places(filter, sending, mayDiffer: mayDiffer) else { return nil }
            (places, commits) = (found[...], pages.state.commits)
        }
        guard let places, !places.isEmpty else { return [] }
        let part = places.prefix(Self.rows)
        guard
            let (rows, read) = try pages.rows(
                part, filter, sending: sending, mayDiffer: mayDiffer || commits != pages.state.commits, bytes: Self.bytes, damaged: damaged)
        else { return nil }
        if let last = part.prefix(read).last { (filter.after, filter.afterTime) = (last.sequence, last.time) }
        filter.limit -= rows.count
        isShort = isShort || rows.count < read
        self.places = places.dropFirst(read)
        if isShort, read == places.count, !isSelected { (self.places, isShort) = (nil, false) }
        return rows
    }
}
