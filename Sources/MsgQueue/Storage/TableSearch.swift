/// Finds the tables of a store whose header or schema is damaged by the content of its pages
/// (https://sqlite.org/fileformat2.html#b_tree_pages).
///
/// The leaves of a table with a rowid are collected wherever they are, and get new inner pages. Of a table without rowid the root is
/// searched. Indexes are not needed to read the messages.
struct TableSearch {
    enum Table: String, CaseIterable {
        case state, message
        case largeBody = "large_body"
        case inFlight = "in_flight"
        case attempt, conversation, recent
        case recentOwn = "recent_own"
        case title
        case handedOver = "handed_over"

        var hasRowid: Bool { ![.attempt, .conversation, .recent, .title, .handedOver].contains(self) }

        /// Returns the table to which a record belongs, by the types of its columns.
        init?(_ types: [TablePage.Column], hasRowid: Bool) {
            func isNumbers(_ range: Range<Int>) -> Bool { types[range].allSatisfy { $0 == .integer || $0 == .byte || $0 == .bit } }
            switch (hasRowid, types.count) {
            case (true, 2) where types == [.null, .blob]: self = .largeBody
            case (true, 3) where types[0] == .null && isNumbers(1..<3): self = .inFlight
            case (true, 4) where types[0] == .null && isNumbers(1..<4): self = .recentOwn
            // A row that was written before a column was added ends before it.
            case (true, 20...26):
                guard types[0] == .null, types[4] == .text, isNumbers(1..<4), isNumbers(5..<types.count) else { return nil }
                self = .state
            case (true, 26...36):
                guard types[0] == .null, types[3] == .text, types[5] == .text, isNumbers(1..<3), isNumbers(10..<25) else { return nil }
                self = .message
            // The indexes by conversation have the sequence number twice; `history_in` has a status, which is one byte.
            case (false, 3) where types == [.text, .integer, .bit]: self = .recent
            case (false, 3) where types == [.text, .text, .integer]: self = .title
            case (false, 8) where [0, 2, 6].allSatisfy { types[$0] == .text } && isNumbers(3..<6): self = .handedOver
            case (false, 9) where types[8] == .text && isNumbers(0..<8): self = .attempt
            case (false, 10...13) where types[0] == .text && isNumbers(1..<types.count): self = .conversation
            default: return nil
            }
        }
    }

    private typealias Node = (page: UInt32, last: Int64)

    private var leaves: [Table: [Node]] = [:]
    /// The pages of tables without rowid, and the pages below each inner page.
    private var pages: [Table: [UInt32]] = [:]
    private var children: [UInt32: [UInt32]] = [:]
    /// The number of pages that can only belong to a store with this page size.
    private(set) var score = 0
    private(set) var findings = ["the header or the schema is damaged; the tables were searched by the content of the pages"]

    /// Reads all pages of the view.
    init(_ view: StoreView) throws(QueueError) {
        for number in try view.storedPages() where number >= 2 { add(number, TablePage(try view.page(number))) }
    }

    private mutating func add(_ number: UInt32, _ page: TablePage?) {
        guard let page else { return }
        if !page.children.isEmpty { children[number] = page.children }
        guard let table = page.cells.lazy.compactMap({ Table($0.types, hasRowid: page.hasRowid) }).first else { return }
        if page.isFilledFromEnd { score += 1 }
        guard table.hasRowid else { return pages[table, default: []].append(number) }
        // The rows of inner pages are in the leaves.
        guard let last = page.cells.map(\.rowid).max() else { return }
        leaves[table, default: []].append((number, last))
    }

    // MARK: The schema

    /// Adds a schema for the found tables to the view.
    mutating func install(in view: StoreView) throws(QueueError) {
        var writer = PageWriter(view, after: Int64(try view.storedPages().last ?? 1))
        var roots: [(table: Table, root: UInt32)] = []
        for table in Table.allCases {
            let root = table.hasRowid ? writer.addTree(over: leaves[table] ?? []) : largestTree(table)
            roots.append((table, root ?? writer.addPage([table.hasRowid ? 0x0d : 0x0a])))
        }
        let first = try StoreCreation.schemaPage(roots, pages: writer.last, pageSize: view.pageSize)
        view.replace(page: 1, with: first)
    }

    /// Returns the root of the tree with the most pages; nil: there is none.
    private mutating func largestTree(_ table: Table) -> UInt32? {
        let found = pages[table] ?? []
        let inner = Set(found.flatMap { children[$0] ?? [] })
        let roots = found.filter { !inner.contains($0) }
        if roots.count > 1 { findings.append("a part of the table \(table.rawValue) is lost") }
        return roots.map { (root: $0, size: size(of: $0)) }.max { $0.size < $1.size }?.root
    }

    private func size(of root: UInt32) -> Int {
        var seen: Set<UInt32> = []
        var left = [root]
        while let page = left.popLast() {
            if seen.insert(page).inserted { left += children[page] ?? [] }
        }
        return seen.count
    }
}

/// Appends pages to a view.
private struct PageWriter {
    private let view: StoreView
    private(set) var last: Int64
    private var size: Int { Int(view.pageSize) }

    init(_ view: StoreView, after last: Int64) { (self.view, self.last) = (view, last) }

    /// Appends a page without cells, or with the given bytes at its start.
    mutating func addPage(_ bytes: [UInt8]) -> UInt32 {
        var page = bytes + [UInt8](repeating: 0, count: size - bytes.count)
        if bytes.count == 1 { Self.put(UInt32(size), 2, at: 5, &page) }
        last += 1
        let number = UInt32(clamping: last)
        view.replace(page: number, with: page)
        return number
    }

    /// Adds inner pages over leaves and returns the root; nil: there are no leaves.
    mutating func addTree(over leaves: [(page: UInt32, last: Int64)]) -> UInt32? {
        var nodes = leaves.sorted { $0.last < $1.last }
        while nodes.count > 1 {
            var above: [(page: UInt32, last: Int64)] = []
            // A cell has at most 13 bytes, and a pointer of 2.
            let width = (size - 12) / 15
            for start in stride(from: 0, to: nodes.count, by: width) {
                let group = nodes[start..<min(start + width, nodes.count)]
                guard let end = group.last else { continue }
                above.append((addInner(group.dropLast(), rightmost: end.page), end.last))
            }
            nodes = above
        }
        return nodes.first?.page
    }

    private mutating func addInner(_ left: ArraySlice<(page: UInt32, last: Int64)>, rightmost: UInt32) -> UInt32 {
        var page = [UInt8](repeating: 0, count: size)
        page[0] = 0x05
        var (content, pointer) = (size, 12)
        for node in left {
            var cell = [UInt8](repeating: 0, count: 4)
            Self.put(node.page, 4, at: 0, &cell)
            cell += Self.varint(UInt64(bitPattern: node.last))
            content -= cell.count
            page.replaceSubrange(content..<content + cell.count, with: cell)
            Self.put(UInt32(content), 2, at: pointer, &page)
            pointer += 2
        }
        Self.put(UInt32(left.count), 2, at: 3, &page)
        Self.put(UInt32(content), 2, at: 5, &page)
        Self.put(rightmost, 4, at: 8, &page)
        return addPage(page)
    }

    private static func put(_ value: UInt32, _ count: Int, at offset: Int, _ bytes: inout [UInt8]) {
        for index in 0..<count { bytes[offset + index] = UInt8(truncatingIfNeeded: value >> UInt32(8 * (count - 1 - index))) }
    }

    private static func varint(_ value: UInt64) -> [UInt8] {
        // Sequence numbers have less than 57 bits.
        var bytes = [UInt8(value & 0x7f)]
        var left = value >> 7
        while left > 0, bytes.count < 8 {
            bytes.insert(UInt8(left & 0x7f) | 0x80, at: 0)
            left >>= 7
        }
        return bytes
    }
}

/// The cells of a page of a b-tree, as far as they are in the page.
struct TablePage {
    /// `bit`: 0 or 1; `byte`: another number of one byte.
    enum Column { case null, bit, byte, integer, real, text, blob }

    struct Cell {
        /// 0 in a page without rowids.
        let rowid: Int64
        let types: [Column]
        /// The offset of its end in the page.
        let end: Int
    }

    let hasRowid: Bool
    private(set) var cells: [Cell] = []
    /// Of an inner page without rowids.
    private(set) var children: [UInt32] = []
    /// A cell ends in the second half of the page. Cells are added from the end of a page.
    private(set) var isFilledFromEnd = false

    /// nil: it is no leaf and no page without rowids, or its cells are not all in the page.
    init?(_ page: [UInt8]) {
        guard page.count >= 512, [0x02, 0x0a, 0x0d].contains(page[0]) else { return nil }
        hasRowid = page[0] == 0x0d
        let isInner = page[0] == 0x02
        let start = isInner ? 12 : 8
        let count = Self.number(page, 3, 2)
        guard count > 0, start + 2 * count <= page.count else { return nil }
        for index in 0..<count {
            let offset = Self.number(page, start + 2 * index, 2)
            guard offset >= start + 2 * count, offset < page.count - 4 else { return nil }
            if isInner { children.append(UInt32(Self.number(page, offset, 4))) }
            guard let cell = cell(page, offset + (isInner ? 4 : 0)) else { continue }
            guard cell.end <= page.count else { return nil }
            if cell.end > page.count / 2 { isFilledFromEnd = true }
            cells.append(cell)
        }
        if isInner { children.append(UInt32(Self.number(page, 8, 4))) }
    }

    private func cell(_ page: [UInt8], _ offset: Int) -> Cell? {
        var position = offset
        guard let payload = TableLeaf.varint(page, &position), payload > 0 else { return nil }
        var rowid: Int64 = 0
        if hasRowid {
            guard let found = TableLeaf.varint(page, &position), (1...MessageID.sequenceCeiling).contains(found) else { return nil }
            rowid = found
        }
        let start = position
        guard let size = TableLeaf.varint(page, &position), size >= 1, size <= min(payload, 128), start + Int(size) <= page.count else {
            return nil
        }
        var types: [Column] = []
        while position < start + Int(size) {
            switch TableLeaf.varint(page, &position) {
            case 0: types.append(.null)
            case 1: types.append(.byte)
            case 2, 3, 4, 5, 6: types.append(.integer)
            case 8, 9: types.append(.bit)
            case 7: types.append(.real)
            case let type? where type >= 12: types.append(type % 2 == 0 ? .blob : .text)
            default: return nil
            }
        }
        guard position == start + Int(size) else { return nil }
        return Cell(rowid: rowid, types: types, end: start + localSize(of: payload, pageSize: page.count))
    }

    /// Returns how many bytes of a payload are in the page, with the number of the first overflow page.
    private func localSize(of payload: Int64, pageSize: Int) -> Int {
        let size = Int64(pageSize)
        let most = hasRowid ? size - 35 : (size - 12) * 64 / 255 - 23
        guard payload > most else { return Int(payload) }
        let least = (size - 12) * 32 / 255 - 23
        let split = least + (payload - least) % (size - 4)
        return Int(split <= most ? split : least) + 4
    }

    private static func number(_ bytes: [UInt8], _ offset: Int, _ count: Int) -> Int {
        bytes[offset..<offset + count].reduce(0) { $0 << 8 | Int($1) }
    }
}
