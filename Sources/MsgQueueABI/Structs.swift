import CMsgQueue
import Glibc
import MsgQueue

/// Reading and writing the transparent structs, whose first field tells the size that the caller knows.
enum Structs {
    /// No version will grow beyond this; a larger size is a struct that was not initialised.
    private static let ceiling = 1 << 16

    static func size(_ pointer: UnsafeRawPointer, of known: Int, _ name: StaticString) throws(QueueError) -> Int {
        let size = Int(pointer.loadUnaligned(as: UInt32.self))
        guard size >= known, size <= ceiling else {
            throw QueueError(.invalid, "struct_size of \(name) is \(size), not \(known): initialise it with its INIT macro")
        }
        return size
    }

    /// A struct of the caller. `flags` are where its `bool` fields lie: any byte but 0 is true, which Swift would not stand.
    static func read<T>(_ pointer: UnsafePointer<T>, _ name: StaticString, flags: [PartialKeyPath<T>] = []) throws(QueueError) -> T {
        let known = MemoryLayout<T>.stride
        let source = UnsafeRawPointer(pointer)
        let size = try size(source, of: known, name)
        for offset in known..<size where source.load(fromByteOffset: offset, as: UInt8.self) != 0 {
            throw QueueError(.invalid, "\(name) has fields that this version does not know")
        }
        return withUnsafeTemporaryAllocation(byteCount: known, alignment: MemoryLayout<T>.alignment) { copy in
            copy.copyMemory(from: UnsafeRawBufferPointer(start: source, count: known))
            for flag in flags {
                guard let offset = MemoryLayout<T>.offset(of: flag) else { continue }
                copy[offset] = copy[offset] == 0 ? 0 : 1
            }
            return copy.load(as: T.self)
        }
    }

    /// Writes as much as the caller knows, and leaves the caller's `struct_size`.
    static func write<T>(_ value: T, to pointer: UnsafeMutablePointer<T>, _ name: StaticString) throws(QueueError) {
        let size = try size(UnsafeRawPointer(pointer), of: MemoryLayout<T>.stride, name)
        let head = MemoryLayout<UInt32>.size
        withUnsafeBytes(of: value) { bytes in
            let count = min(size, bytes.count)
            (UnsafeMutableRawPointer(pointer) + head).copyMemory(from: bytes.baseAddress.unsafelyUnwrapped + head, byteCount: count - head)
        }
    }
}

/// A char array inside a struct.
func text<T, Field>(_ value: borrowing T, at field: KeyPath<T, Field>, _ name: StaticString) throws(QueueError) -> String {
    let bytes = withUnsafeBytes(of: value) { bytes in
        let offset = MemoryLayout<T>.offset(of: field) ?? 0
        return Array(bytes[offset..<offset + MemoryLayout<Field>.size].prefix { $0 != 0 })
    }
    guard let text = String(validating: bytes, as: UTF8.self) else { throw QueueError(.invalid, "\(name) is not UTF-8") }
    return text
}
