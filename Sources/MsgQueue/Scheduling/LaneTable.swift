/// The lanes by conversation. They are divided among several dictionaries: a dictionary that grows moves all of its values, which took 40
/// milliseconds at 100,000 lanes, and an input for all of them changes one part at a time.
struct LaneTable: Sequence {
    private typealias Part = [Name: Lane]

    /// The number of parts, a power of two.
    static let partCount = 64

    private var parts = [Part](repeating: [:], count: Self.partCount)
    /// By part: changes of its lanes that are not made yet. They count as made.
    private var changes = [LaneChanges?](repeating: nil, count: Self.partCount)
    private(set) var count = 0

    /// The place of a lane, until another one is added or removed.
    struct Index {
        fileprivate let part: Int
        fileprivate let place: Dictionary<Name, Lane>.Index
    }

    var isEmpty: Bool { count == 0 }

    /// The names of one part.
    func names(inPart part: Int) -> [Name] { parts.indices.contains(part) ? Array(parts[part].keys) : [] }

    /// The number of messages that the lanes know.
    var known: Int {
        zip(parts, changes).reduce(0) { sum, part in
            part.1?.isCleared == true ? sum : part.0.values.reduce(sum) { $0 + $1.known }
        }
    }

    /// The number of lanes in the largest part.
    var most: Int { parts.lazy.map(\.count).max() ?? 0 }

    /// The part of a conversation, by a hash that is cheaper than that of the dictionaries.
    private static func part(of name: Name) -> Int {
        var text = name.text
        let hash = text.withUTF8 { text in
            let bytes = UnsafeRawBufferPointer(text)
            var (hash, offset) = (UInt64(bytes.count), 0)
            func add(_ word: UInt64) { hash = (hash ^ word) &* 0x9e37_79b9_7f4a_7c15 }
            while offset &+ 8 <= bytes.count {
                add(bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
                hash ^= hash >> 29
                offset &+= 8
            }
            while offset < bytes.count {
                add(UInt64(bytes[offset]))
                offset &+= 1
            }
            return hash
        }
        return Int(truncatingIfNeeded: hash >> 40 & UInt64(partCount - 1))
    }

    subscript(name: Name) -> Lane? {
        @inline(__always) get {
            let part = Self.part(of: name)
            guard let changes = changes[part] else { return parts[part][name] }
            return parts[part][name].map { Self.changed($0, changes) }
        }
        _modify {
            let part = Self.part(of: name)
            makeChanges(in: part)
            let before = parts[part].count
            defer { count += parts[part].count - before }
            yield &parts[part][name]
        }
    }

    subscript(name: Name, default lane: @autoclosure () -> Lane) -> Lane {
        @inline(__always) get { self[name] ?? lane() }
        _modify {
            let part = Self.part(of: name)
            makeChanges(in: part)
            let before = parts[part].count
            defer { count += parts[part].count - before }
            yield &parts[part][name, default: lane()]
        }
    }

    subscript(index: Index) -> Lane {
        @inline(__always) get {
            let lane = parts[index.part].values[index.place]
            return changes[index.part].map { Self.changed(lane, $0) } ?? lane
        }
        _modify {
            makeChanges(in: index.part)
            yield &parts[index.part].values[index.place]
        }
    }

    func index(forKey name: Name) -> Index? {
        let part = Self.part(of: name)
        return parts[part].index(forKey: name).map { Index(part: part, place: $0) }
    }

    // MARK: All lanes

    /// Changes every lane. Each part of them is changed when one of it is changed next.
    mutating func changeAll(_ change: LaneChanges) {
        for part in parts.indices where !parts[part].isEmpty {
            var all = changes[part] ?? LaneChanges()
            all.add(change)
            changes[part] = all
        }
    }

    private static func changed(_ lane: Lane, _ changes: LaneChanges) -> Lane {
        var lane = lane
        changes.make(in: &lane)
        return lane
    }

    /// Changes the lanes in their places, without a search for each.
    @inline(__always)
    private mutating func makeChanges(in part: Int) {
        if let all = changes[part] { make(all, in: part) }
    }

    private mutating func make(_ all: LaneChanges, in part: Int) {
        changes[part] = nil
        var place = parts[part].startIndex
        while place != parts[part].endIndex {
            all.make(in: &parts[part].values[place])
            parts[part].formIndex(after: &place)
        }
    }

    /// The number of parts whose lanes are not changed yet.
    var unchangedParts: Int { changes.count { $0 != nil } }

    /// Replaces each lane; nil: it is removed.
    mutating func replaceAll(_ replacement: (Lane) -> Lane?) {
        for part in parts.indices {
            makeChanges(in: part)
            parts[part] = parts[part].compactMapValues(replacement)
        }
        count = parts.reduce(0) { $0 + $1.count }
    }

    /// Returns the first result that is not nil. Without optimisation this is much faster than the iterator.
    func first<Result>(_ result: (Name, Lane) -> Result?) -> Result? {
        for part in parts.indices where !parts[part].isEmpty {
            let changes = changes[part]
            for (name, lane) in parts[part] {
                if let found = result(name, changes.map { Self.changed(lane, $0) } ?? lane) { return found }
            }
        }
        return nil
    }

    func makeIterator() -> some IteratorProtocol<(key: Name, value: Lane)> {
        zip(parts, changes).lazy.flatMap { part, changes in
            part.lazy.map { name, lane in (key: name, value: changes.map { Self.changed(lane, $0) } ?? lane) }
        }.makeIterator()
    }
}
