import Testing

@testable import MsgQueue

@Suite struct HeapTests {
    @Test func the_smallest_element_comes_first() {
        var random = SeededGenerator(3)
        for _ in 0..<100 {
            var heap = Heap<Int>()
            var sorted: [Int] = []
            for _ in 0..<random.int(0...60) {
                if random.chance(70) {
                    let number = random.int(0...20)
                    heap.insert(number)
                    sorted.append(number)
                    sorted.sort()
                } else {
                    let removed = heap.removeFirst()
                    #expect(removed == sorted.first)
                    sorted = Array(sorted.dropFirst())
                }
                #expect(heap.first == sorted.first)
                #expect(heap.count == sorted.count)
            }
            var rest: [Int] = []
            while let number = heap.removeFirst() { rest.append(number) }
            #expect(rest == sorted)
        }
    }

    @Test func an_emptied_heap_is_empty() {
        var heap = Heap<Int>()
        for number in [3, 1, 2] { heap.insert(number) }
        heap.removeAll()
        #expect(heap.first == nil)
        let removed = heap.removeFirst()
        #expect(removed == nil)
    }
}
