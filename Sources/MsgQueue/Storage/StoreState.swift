/// The only row of the table `state`. It has a checksum; a damaged row is rebuilt from the messages.
struct StoreState: Equatable {
    enum Mark: Int64 {
        /// In use, or its owner crashed: the log may contain changes.
        case open = 0
        /// Closed cleanly; the totals are valid.
        case closed
        /// A copy: closed cleanly, but the totals were not written.
        case copied
    }

    /// Sequence numbers up to this one may have been assigned.
    var sequenceCeiling: Int64 = 0
    var foldedThrough: Int64 = 0
    var mark = Mark.closed
    var bootID = ""
    var totals = Counts()
    /// A random number that is new for each log, and the previous one. They show which database a log belongs to.
    var generation: Int64 = 0
    var logBase: Int64 = 0
    /// A wait of the whole queue that a receiver asked for.
    var hold: Due?
    /// Messages from this one on have a `time_at`; 0: none must.
    var timedFrom: Int64 = 0
    var clock = ClockSteps()

    /// The value of `bootID` while a check that the crash of an earlier system requires is not complete.
    static let unchecked = "unchecked"
    var isUnchecked: Bool { bootID == Self.unchecked }

    /// Whether the numbers are possible in a store whose last message has this sequence number.
    func agrees(last: Int64) -> Bool { foldedThrough >= 0 && foldedThrough <= sequenceCeiling && last <= sequenceCeiling }

    /// Whether the sequence numbers are possible in any store. Computations with those of a damaged row that matches its checksum would
    /// overflow.
    private var isPossible: Bool {
        (0...MessageID.sequenceCeiling).contains(sequenceCeiling) && (0...sequenceCeiling).contains(foldedThrough)
            && (0...sequenceCeiling + 1).contains(timedFrom)
    }

    private var integers: [Int64] {
        let hold = hold ?? Due()
        return [
            sequenceCeiling, foldedThrough, mark.rawValue, totals.queued, totals.sent, totals.delivered, totals.read, totals.failed,
            totals.received, totals.unread, totals.unsentBytes, generation, logBase, hold.at, hold.delay, hold.boot, hold.uptime,
        ]
    }

    /// The columns that layout 3 added.
    private var additions: [Int64] { [timedFrom, clock.boot, clock.offset, clock.from, clock.through, clock.by] }

    private var checksum: Int64 {
        var checksum = Checksum()
        for number in integers { checksum.add(number) }
        checksum.add(bootID)
        // Rows that are older than these columns have none of them, and their checksums do not include them.
        if additions.contains(where: { $0 != 0 }) {
            for number in additions { checksum.add(number) }
        }
        return checksum.stored
    }

    // MARK: In the table

    /// nil: the row is missing or damaged, or its sequence numbers are impossible.
    static func read(_ database: Database, ofLayout layout: Int64) throws(QueueError) -> StoreState? {
        let additions =
            layout < Layout.withTimes ? "0, 0, 0, 0, 0, 0" : "timed_from, clock_boot, clock_offset, clock_from, clock_through, clock_by"
        let statement = try Statement(
            """
            SELECT sequence_ceiling, folded_through, is_clean, queued, sent, delivered, "read", failed, received, unread, unsent_bytes,
              generation, log_base, hold_until, hold_delay, hold_boot, hold_uptime, boot_id, checksum, \(additions) FROM state
            """, database)
        defer { statement.finalize() }
        let row = try statement.first { () throws(QueueError) in
            ((0..<17).map { statement.int($0) } + (19..<25).map { statement.int($0) }, statement.text(17), statement.int(18))
        }
        guard let (integers, bootID, checksum) = row, let state = StoreState(integers, bootID) else { return nil }
        return state.checksum == checksum && state.isPossible ? state : nil
    }

    private init?(_ integers: [Int64], _ bootID: String) {
        guard integers.count == 23, let mark = Mark(rawValue: integers[2]) else { return nil }
        sequenceCeiling = integers[0]
        foldedThrough = integers[1]
        self.mark = mark
        totals.queued = integers[3]
        totals.sent = integers[4]
        totals.delivered = integers[5]
        totals.read = integers[6]
        totals.failed = integers[7]
        totals.received = integers[8]
        totals.unread = integers[9]
        totals.unsentBytes = integers[10]
        generation = integers[11]
        logBase = integers[12]
        let wait = Due(at: integers[13], delay: integers[14], boot: integers[15], uptime: integers[16])
        hold = wait == Due() ? nil : wait
        timedFrom = integers[17]
        clock = ClockSteps(boot: integers[18], offset: integers[19], from: integers[20], through: integers[21], by: integers[22])
        self.bootID = bootID
    }

    init() {}

    func write(_ database: Database) throws(QueueError) {
        let statement = try database.statement(
            """
            UPDATE state SET sequence_ceiling = ?1, folded_through = ?2, is_clean = ?3, queued = ?4, sent = ?5, delivered = ?6, "read" = ?7,
              failed = ?8, received = ?9, unread = ?10, unsent_bytes = ?11, generation = ?12, log_base = ?13, hold_until = ?14,
              hold_delay = ?15, hold_boot = ?16, hold_uptime = ?17, boot_id = ?18, checksum = ?19, timed_from = ?20, clock_boot = ?21,
              clock_offset = ?22, clock_from = ?23, clock_through = ?24, clock_by = ?25 WHERE only = 1
            """)
        for (index, value) in integers.enumerated() { statement.bind(Int32(index + 1), value) }
        try statement.bind(18, bootID)
        statement.bind(19, checksum)
        for (index, value) in additions.enumerated() { statement.bind(Int32(index + 20), value) }
        try statement.run()
    }

    /// The same as SQL text, for a database without a `Store`. Sets an empty boot id.
    var update: String {
        """
        UPDATE state SET (sequence_ceiling, folded_through, is_clean, queued, sent, delivered, "read", failed, received, unread, unsent_bytes,
          generation, log_base, hold_until, hold_delay, hold_boot, hold_uptime, timed_from, clock_boot, clock_offset, clock_from,
          clock_through, clock_by, boot_id, checksum)
          = (\((integers + additions).map { String($0) }.joined(separator: ", ")), '', \(checksum)) WHERE only = 1
        """
    }

    // MARK: In a page

    /// Reads the row from a page of the file or of the log; nil: the page has no row of `state`. `isWhole`: the row matches its checksum.
    static func read(page: [UInt8]) -> (state: StoreState, isWhole: Bool)? {
        // In the table, boot_id stands before the totals.
        guard let record = TableLeaf.firstRecord(page), record.count >= 20, case .text(let bootID) = record[4],
            case .integer(let checksum) = record[19]
        else { return nil }
        let integers = (record[1...3] + record[5...18] + record[20..<min(record.count, 26)]).compactMap { value -> Int64? in
            if case .integer(let number) = value { number } else { nil }
        }
        // A row that was written before a column was added ends before it.
        let absent = [Int64](repeating: 0, count: max(23 - integers.count, 0))
        guard let state = StoreState(integers + absent, bootID) else { return nil }
        return (state, state.checksum == checksum)
    }

    /// Returns the page with its row marked as in use and otherwise unchanged; nil: the row is damaged, or cannot be changed in its place.
    static func markingOpen(_ page: [UInt8]) -> [UInt8]? {
        guard let (found, isWhole) = read(page: page), isWhole else { return nil }
        guard found.mark != .open else { return page }
        guard let fields = TableLeaf.firstFields(page), fields.count > 19 else { return nil }
        var (state, page) = (found, page)
        state.mark = .open
        switch fields[3].type {
        case 9: page[fields[3].header] = 8  // The types of the numbers 1 and 0, which have no bytes.
        case 1: page[fields[3].start] = 0
        default: return nil
        }
        return state.finish(page, fields)
    }

    /// Returns the page with another generation in its row and otherwise unchanged; nil: the page has no row that can be changed in its place.
    static func setting(generation: Int64, in page: [UInt8]) -> [UInt8]? {
        guard let (found, isWhole) = read(page: page), isWhole else { return nil }
        guard let fields = TableLeaf.firstFields(page), fields.count > 19, fields[13].type == 6 else { return nil }
        var (state, page) = (found, page)
        state.generation = generation
        Self.put(generation, at: fields[13].start, &page)
        return state.finish(page, fields)
    }

    /// Returns the page with the checksum of this state; nil: the page has another state.
    private func finish(_ page: [UInt8], _ fields: [TableLeaf.Field]) -> [UInt8]? {
        guard fields[19].type == 6 else { return nil }
        var page = page
        Self.put(checksum, at: fields[19].start, &page)
        guard let (result, isRight) = Self.read(page: page), isRight, result == self else { return nil }
        return page
    }

    private static func put(_ number: Int64, at start: Int, _ page: inout [UInt8]) {
        for index in 0..<8 { page[start + index] = UInt8(truncatingIfNeeded: number >> Int64(56 - 8 * index)) }
    }
}

/// Reads the first record of a leaf page of a table in SQLite's file format
/// (https://sqlite.org/fileformat2.html#b_tree_pages).
enum TableLeaf {
    enum Value: Equatable {
        case null
        case integer(Int64)
        case text(String)
        case other
    }

    /// A value of a record: the place of its type in the record's header, the type, and the place of the value.
    struct Field {
        let header: Int
        let type: Int64
        let start: Int
        let size: Int
    }

    static func firstRecord(_ page: [UInt8]) -> [Value]? { firstFields(page)?.map { value(of: $0, page) } }

    /// Returns where the values of the first record are, which are inside the page.
    static func firstFields(_ page: [UInt8]) -> [Field]? {
        guard page.count >= 512, page[0] == 0x0d, page[3] != 0 || page[4] != 0 else { return nil }
        var position = Int(page[8]) << 8 | Int(page[9])
        guard let payload = varint(page, &position), varint(page, &position) != nil, payload >= 0, payload <= page.count else { return nil }
        let start = position
        guard let headerSize = varint(page, &position), headerSize >= 1, headerSize <= payload,
            start + Int(headerSize) <= page.count, start + Int(payload) <= page.count
        else { return nil }
        var fields: [Field] = []
        var place = start + Int(headerSize)
        while position < start + Int(headerSize) {
            let header = position
            guard let type = varint(page, &position), type >= 0, let size = size(ofType: type), size <= start + Int(payload) - place else {
                return nil
            }
            fields.append(Field(header: header, type: type, start: place, size: size))
            place += size
        }
        return fields
    }

    private static func size(ofType type: Int64) -> Int? {
        switch type {
        case 0, 8, 9: 0
        case 1...4: Int(type)
        case 5: 6
        case 6, 7: 8
        case 12...: Int((type - 12) / 2)
        default: nil
        }
    }

    private static func value(of field: Field, _ page: [UInt8]) -> Value {
        let bytes = page[field.start..<field.start + field.size]
        switch field.type {
        case 0: return .null
        case 8: return .integer(0)
        case 9: return .integer(1)
        case 1...6:
            var number = UInt64(bitPattern: Int64(Int8(bitPattern: bytes[field.start])))
            for byte in bytes.dropFirst() { number = number << 8 | UInt64(byte) }
            return .integer(Int64(bitPattern: number))
        case 13... where field.type % 2 == 1: return .text(String(decoding: bytes, as: UTF8.self))
        default: return .other
        }
    }

    static func varint(_ bytes: [UInt8], _ position: inout Int) -> Int64? {
        var value: UInt64 = 0
        for index in 0..<9 {
            guard position < bytes.count else { return nil }
            let byte = bytes[position]
            position += 1
            if index == 8 { return Int64(bitPattern: value << 8 | UInt64(byte)) }
            value = value << 7 | UInt64(byte & 0x7f)
            if byte & 0x80 == 0 { return Int64(bitPattern: value) }
        }
        return nil
    }
}
