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
            guard element < elements[parent] else { break }
            elements[child] = elements[parent]
            child = parent
        }
        elements[child] = element
    }

    @discardableResult
    package mutating func removeFirst() -> Element? {
        guard let smallest = elements.first else { return nil }
        let last = elements.removeLast()
        guard !elements.isEmpty else { return smallest }
        var parent = 0
        while true {
            var child = 2 * parent + 1
            guard child < elements.count else { break }
            if child + 1 < elements.count, elements[child + 1] < elements[child] { child += 1 }
            guard elements[child] < last else { break }
            elements[parent] = elements[child]
            parent = child
        }
        elements[parent] = last
        return smallest
    }
}
