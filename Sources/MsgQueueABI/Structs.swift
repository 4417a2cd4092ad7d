import CMsgQueue
import Glibc
import MsgQueue

/// Reading and writing the transparent structs, whose first field tells the size that the caller knows.
enum Structs {
    /// No version will grow beyond this; a larger size is a struct that was not initialised.
    private static let ceiling = 1 << 16

    /// The size that a struct of the caller says it has, which can be, with nothing but zero in what is not known here.
    static func check(_ pointer: UnsafeRawPointer, of known: Int, _ name: StaticString) throws(QueueError) -> Int {
        let size = Int(pointer.loadUnaligned(as: UInt32.self))
        guard size >= known, size <= ceiling else {
            throw QueueError(.invalid, "struct_size of \(name) is \(size), not \(known): initialise it with its INIT macro")
        }
        for offset in known..<size where pointer.load(fromByteOffset: offset, as: UInt8.self) != 0 {
            throw QueueError(.invalid, "\(name) has fields that this version does not know")
        }
        return size
    }

    /// A struct of the caller. `flags` are where its `bool` fields lie: any byte but 0 is true, which Swift would not stand.
    static func read<T>(_ pointer: UnsafePointer<T>, _ name: StaticString, flags: [PartialKeyPath<T>] = []) throws(QueueError) -> T {
        let known = MemoryLayout<T>.stride
        let source = UnsafeRawPointer(pointer)
        _ = try check(source, of: known, name)
        return withUnsafeTemporaryAllocation(byteCount: known, alignment: MemoryLayout<T>.alignment) { copy in
            copy.copyMemory(from: UnsafeRawBufferPointer(start: source, count: known))
            for flag in flags {
                guard let offset = MemoryLayout<T>.offset(of: flag) else { continue }
                copy[offset] = copy[offset] == 0 ? 0 : 1
            }
            return copy.load(as: T.self)
        }
    }

    /// Writes a struct that was checked, and leaves the caller's `struct_size`.
    static func write<T>(_ value: T, to pointer: UnsafeMutablePointer<T>) {
        let size = UnsafeRawPointer(pointer).loadUnaligned(as: UInt32.self)
        pointer.initialize(to: value)
        UnsafeMutableRawPointer(pointer).storeBytes(of: size, as: UInt32.self)
    }
}

/// A char array inside a struct, to its NUL or its end. It is a receiver's raw text: what is not UTF-8 in it is replaced.
func text<T, Field>(_ value: borrowing T, at field: KeyPath<T, Field>) -> String {
    withUnsafeBytes(of: value) { bytes in
        let offset = MemoryLayout<T>.offset(of: field) ?? 0
        return String(decoding: bytes[offset..<offset + MemoryLayout<Field>.size].prefix { $0 != 0 }, as: UTF8.self)
    }
}
