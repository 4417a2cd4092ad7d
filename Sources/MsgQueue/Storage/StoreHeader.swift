/// The list of free pages (https://sqlite.org/fileformat2.html#the_freelist). A page that is listed twice would be used twice, and the
/// second use would overwrite messages.
enum FreePages {
    /// Throws when the list is damaged.
    static func check(_ view: StoreView) throws(QueueError) {
        let header = try view.header()
        guard header.count == 100 else { return }
        var (trunk, left) = (number(header, 32), number(header, 36))
        var used = Set<Int>()
        func use(_ page: Int) throws(QueueError) {
            guard page >= 2, page <= view.pages, used.insert(page).inserted, left > 0 else {
                throw QueueError(.corrupt, "\(view.path) is damaged: its list of free pages contains page \(page)")
            }
            left -= 1
        }
        while trunk != 0 {
            try use(trunk)
            let bytes = try view.page(UInt32(clamping: trunk))
            let count = bytes.count >= 8 ? number(bytes, 4) : Int.max
            guard count <= bytes.count / 4 - 2 else {
                throw QueueError(.corrupt, "\(view.path) is damaged: page \(trunk) of its list of free pages is invalid")
            }
            for index in 0..<count { try use(number(bytes, 8 + 4 * index)) }
            trunk = number(bytes, 0)
        }
        guard left == 0 else { throw QueueError(.corrupt, "\(view.path) is damaged: \(left) pages are missing in its list of free pages") }
    }

    private static func number(_ bytes: [UInt8], _ offset: Int) -> Int { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
}

/// The header of the database file.
enum StoreHeader {
    /// Returns the layout. `bytes`: the header with the log applied; `raw`: the header in the file. Throws when either is not of a store, or of
    /// a later version.
    static func check(with bytes: [UInt8], raw: [UInt8], _ path: String, _ own: Layout) throws(QueueError) -> Int64 {
        guard isDatabase(bytes) else {
            throw QueueError(.corrupt, "\(path) is not a message store, or its first page is damaged: it has no SQLite header")
        }
        // A header that a power failure damaged is in the log as well. A file of another program is never repaired.
        for header in [bytes, raw] where isDatabase(header) {
            guard number(header, 68) == Schema.applicationID else {
                throw QueueError(.corrupt, "\(path) is another program's database, not a message store")
            }
            try refuseDevelopment(header, path)
            guard number(header, 60) <= own.version else {
                throw QueueError(
                    .tooNew, "\(path) has layout \(number(header, 60)); this library supports layouts up to \(own.version)")
            }
        }
        let layout = number(bytes, 60)
        guard layout >= Layout.first else { throw QueueError(.corrupt, "\(path) has no layout number") }
        return layout
    }

    /// Throws when this is the header of a store of layout 1.
    static func refuseDevelopment(_ bytes: [UInt8], _ path: String) throws(QueueError) {
        guard isDatabase(bytes), number(bytes, 68) == Schema.applicationID, number(bytes, 60) == 1 else { return }
        throw QueueError(.corrupt, "\(path) has layout 1, written by a development version, which this library does not read")
    }

    private static func isDatabase(_ bytes: [UInt8]) -> Bool {
        bytes.count == 100 && bytes[..<StorePath.header.count] == StorePath.header[...]
    }

    private static func number(_ bytes: [UInt8], _ offset: Int) -> Int64 {
        bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int64($1) }
    }
}
