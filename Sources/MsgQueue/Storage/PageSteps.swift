/// A page of messages that is read in steps, between which other calls may run. Each message is read as a whole.
package struct PageSteps {
    /// A step ends after bodies of so many bytes, and after so many rows: about two milliseconds.
    private static let (bytes, rows) = (1 << 20, 512)

    /// Selects the messages that are not read yet.
    private var filter: Filter
    /// Their places; nil: not known.
    private var places: ArraySlice<TimePlace>?
    /// `Store.commits` when the places were read.
    private var commits = 0
    /// A place without its message says nothing about the index.
    private var mayDiffer = false
    /// Messages were left out, so that others follow to make the page full.
    private var isShort = false
    private let isSelected: Bool

    /// `places`: those of the page, if the filter alone does not select them.
    package init(_ filter: Filter, at places: [TimePlace]? = nil) {
        (self.filter, self.places, mayDiffer, isSelected) = (filter, places.map { $0[...] }, places != nil, places != nil)
    }

    /// Whether all has been read.
    package var isComplete: Bool { places?.isEmpty ?? false }

    /// Reads the next rows. `sending`: the messages being sent, which are stored as queued. A damaged row contains only what can be read of it,
    /// and is also passed to `damaged`.
    package mutating func step(
        _ store: Store, sending: Set<Int64>, damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Row] {
        if let rows = try next(store, sending, damaged) { return rows }
        try store.repairPageIndex(filter)
        (places, mayDiffer) = (nil, true)
        return try next(store, sending, damaged) ?? []
    }

    /// Returns nil when an index has an entry for a message that is gone or has another status although nothing changed meanwhile.
    private mutating func next(
        _ store: Store, _ sending: Set<Int64>, _ damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Row]? {
        if places == nil {
            guard let found = try store.places(filter, sending, mayDiffer: mayDiffer) else { return nil }
            (places, commits) = (found[...], store.commits)
        }
        guard let places, !places.isEmpty else { return [] }
        let part = places.prefix(Self.rows)
        guard
            let (rows, read) = try store.rows(
                part, filter, sending: sending, mayDiffer: mayDiffer || commits != store.commits, bytes: Self.bytes, damaged: damaged)
        else { return nil }
        if let last = part.prefix(read).last { (filter.after, filter.afterTime) = (last.sequence, last.time) }
        filter.limit -= rows.count
        isShort = isShort || rows.count < read
        self.places = places.dropFirst(read)
        if isShort, read == places.count, !isSelected { (self.places, isShort) = (nil, false) }
        return rows
    }
}

/// Reading pages.
extension Store {
    /// Returns a page of messages in order, by one step after another.
    package func page(
        _ filter: Filter, sending sequences: Set<Int64>, damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Row] {
        var (page, rows) = (PageSteps(filter), [Row]())
        repeat { rows += try page.step(self, sending: sequences, damaged: damaged) } while !page.isComplete
        return rows
    }

    /// Returns the sequences of a page.
    func sequences(_ filter: Filter, sending: Set<Int64>) throws(QueueError) -> [Int64] {
        try PageQuery(filter, sending, self).sequences()
    }

    fileprivate func repairPageIndex(_ filter: Filter) throws(QueueError) {
        let index = filter.isByFailure ? "list of failures" : "index of the history"
        Log.warning("\(path): the \(index) is damaged and is rebuilt from the messages")
        try repairs.run { () throws(QueueError) in if filter.isByFailure { try failures.rebuild() } else { try history.rebuild() } }
    }

    /// Returns the places of a page; nil: the index by time does not agree with the messages, unless `mayDiffer`.
    fileprivate func places(_ filter: Filter, _ sending: Set<Int64>, mayDiffer: Bool) throws(QueueError) -> [TimePlace]? {
        let query = PageQuery(filter, sending, self)
        if filter.order == .time { return try query.placesByTime(mayDiffer: mayDiffer) }
        return try query.sequences().map { TimePlace(0, $0) }
    }

    /// Returns the rows at some places, and how many places were read: until the bodies have `bytes` bytes. nil: a message is gone or has
    /// another status, unless `mayDiffer`.
    func rows(
        _ places: ArraySlice<TimePlace>, _ filter: Filter, sending: Set<Int64>, mayDiffer: Bool, bytes: Int, damaged: (QueueError) -> Void
    ) throws(QueueError) -> (rows: [Row], read: Int)? {
        var (rows, read, size): ([Row], Int, Int) = ([], 0, 0)
        let part: MessageTable.Part = filter.withoutBodies ? .start : .whole
        for place in places where size < bytes {
            read += 1
            let sequence = place.sequence
            do throws(QueueError) {
                let row = try messages.row(at: sequence, part)
                if let row, sending.contains(sequence) || filter.statuses.contains(row.progress.status) {
                    size += row.body.count
                    rows.append(row)
                } else if !mayDiffer {
                    return nil
                }
            } catch {
                guard error.code == .corrupt else { throw error }
                damaged(error)
                // It is listed with its id, so that the host can delete it.
                guard var outline = try messages.row(at: sequence, .outline) else { continue }
                outline.damage = error.detail
                // The next page begins after its place in the index.
                if place.time != 0 { outline.timeAt = place.time }
                rows.append(outline)
            }
        }
        return (rows, read)
    }
}
