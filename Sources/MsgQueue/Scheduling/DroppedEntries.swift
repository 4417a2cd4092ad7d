/// Entries of the scheduler's lists that were replaced as a whole. They are freed in parts, because many take long.
struct DroppedEntries {
    /// How many are freed with each lane that is scheduled again: a lane may have some in each list.
    static let perLane = 8
    /// Lists with so few are emptied at once.
    private static let few = 256

    private var ready: [[ReadyList.Entry]] = []
    private var tickets: [[LaneIndex.Ticket]] = []
    private var names: [[Name]] = []

    var isEmpty: Bool { ready.isEmpty && tickets.isEmpty && names.isEmpty }

    mutating func take(_ heap: inout Heap<ReadyList.Entry>) { Self.take(&heap, &ready) }
    mutating func take(_ heap: inout Heap<LaneIndex.Ticket>) { Self.take(&heap, &tickets) }

    mutating func take(_ list: inout [Name]) {
        guard list.count > Self.few else { return list.removeAll(keepingCapacity: true) }
        names.append(list)
        list = []
    }

    private static func take<Entry>(_ heap: inout Heap<Entry>, _ lists: inout [[Entry]]) {
        guard heap.count > few else { return heap.removeAll() }
        lists.append(heap.elements)
        heap = Heap()
    }

    /// Frees so many.
    mutating func free(_ count: Int) {
        guard !isEmpty else { return }
        var left = count
        Self.free(&left, &ready)
        Self.free(&left, &tickets)
        Self.free(&left, &names)
    }

    private static func free<Entry>(_ left: inout Int, _ lists: inout [[Entry]]) {
        while left > 0, let last = lists.indices.last {
            let part = min(left, lists[last].count)
            lists[last].removeLast(part)
            left -= part
            if lists[last].isEmpty { lists.removeLast() }
        }
    }
}
