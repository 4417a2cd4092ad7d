/// The lanes by conversation. They are divided among several dictionaries: a dictionary that grows moves all of its values, which took 40
/// milliseconds at 100,000 lanes.
struct LaneTable: Sequence {
    private typealias Part = [Name: Lane]

    /// A power of two.
    private static let mostParts = 64

    private var parts = [Part](repeating: [:], count: mostParts)
    private(set) var count = 0

    /// The place of a lane, until another one is added or removed.
    struct Index {
        fileprivate let part: Int
        fileprivate let place: Dictionary<Name, Lane>.Index
    }

    var isEmpty: Bool { count == 0 }

    var keys: [Name] {
        var names: [Name] = []
        names.reserveCapacity(count)
        for part in parts { names.append(contentsOf: part.keys) }
        return names
    }

    /// The number of messages that the lanes know.
    var known: Int { parts.reduce(0) { sum, part in part.values.reduce(sum) { $0 + $1.known } } }

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
        return Int(truncatingIfNeeded: hash >> 40 & UInt64(mostParts - 1))
    }

    subscript(name: Name) -> Lane? {
        @inline(__always) get { parts[Self.part(of: name)][name] }
        _modify {
            let part = Self.part(of: name)
            let before = parts[part].count
            defer { count += parts[part].count - before }
            yield &parts[part][name]
        }
    }

    subscript(name: Name, default lane: @autoclosure () -> Lane) -> Lane {
        @inline(__always) get { self[name] ?? lane() }
        _modify {
            let part = Self.part(of: name)
            let before = parts[part].count
            defer { count += parts[part].count - before }
            yield &parts[part][name, default: lane()]
        }
    }

    subscript(index: Index) -> Lane {
        @inline(__always) get { parts[index.part].values[index.place] }
        _modify { yield &parts[index.part].values[index.place] }
    }

    func index(forKey name: Name) -> Index? {
        let part = Self.part(of: name)
        return parts[part].index(forKey: name).map { Index(part: part, place: $0) }
    }

    /// Changes every lane in its place, without a search for it.
    mutating func changeAll(_ change: (inout Lane) -> Void) {
        for part in parts.indices {
            var place = parts[part].startIndex
            while place != parts[part].endIndex {
                change(&parts[part].values[place])
                parts[part].formIndex(after: &place)
            }
        }
    }

    /// Replaces each lane; nil: it is removed.
    mutating func replaceAll(_ replacement: (Lane) -> Lane?) {
        for part in parts.indices { parts[part] = parts[part].compactMapValues(replacement) }
        count = parts.reduce(0) { $0 + $1.count }
    }

    /// Returns the first result that is not nil. Without optimisation this is much faster than the iterator.
    func first<Result>(_ result: (Name, Lane) -> Result?) -> Result? {
        for part in parts where !part.isEmpty {
            for (name, lane) in part {
                if let found = result(name, lane) { return found }
            }
        }
        return nil
    }

    func makeIterator() -> some IteratorProtocol<(key: Name, value: Lane)> { parts.joined().makeIterator() }
}
