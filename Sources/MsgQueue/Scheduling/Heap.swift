/// A binary min-heap. Stale entries stay in it; the caller recognises and drops them when they become the first.
package struct Heap<Element: Comparable> {
    /// In the order of the heap.
    private(set) var elements: [Element] = []

    package init() {}

    package var first: Element? { elements.first }
    package var count: Int { elements.count }

    package mutating func removeAll() { elements.removeAll(keepingCapacity: true) }

    /// Removes the elements that do not satisfy the condition.
    package mutating func keep(where condition: (Element) -> Bool) {
        let kept = elements.filter(condition)
        elements.removeAll(keepingCapacity: true)
        for element in kept { insert(element) }
    }

    package mutating func insert(contentsOf other: Heap) { for element in other.elements { insert(element) } }

    package mutating func insert(_ element: Element) {
        elements.append(element)
        var child = elements.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard elements[child] < elements[parent] else { break }
            elements.swapAt(child, parent)
            child = parent
        }
    }

    @discardableResult
    package mutating func removeFirst() -> Element? {
        guard let smallest = elements.first else { return nil }
        let last = elements.removeLast()
        guard !elements.isEmpty else { return smallest }
        elements[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < elements.count && elements[child] < elements[least] {
                least = child
            }
            guard least != parent else { return smallest }
            elements.swapAt(parent, least)
            parent = least
        }
    }
}
