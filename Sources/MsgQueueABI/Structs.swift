import CMsgQueue
import Glibc
import MsgQueue

/// Reading and writing transparent structs, whose first field is the size that the caller knows.
enum Structs {
    /// No version will be larger; a larger size means that the struct was not initialised.
    static let ceiling = 1 << 16

    /// The smallest size: `struct_size` and the first field.
    private static let smallest = 8

    /// Returns and checks the caller's `struct_size`. An older version is smaller and ends between two fields: every size is a multiple of
    /// the alignment. A newer version is larger; its unknown fields must be zero.
    @discardableResult
    static func check<T>(
        _ pointer: UnsafeRawPointer, _ type: T.Type, _ name: StaticString, minimum: Int? = nil
    ) throws(QueueError) -> Int {
        let (known, least) = (MemoryLayout<T>.stride, minimum ?? smallest)
        let size = Int(pointer.loadUnaligned(as: UInt32.self))
        guard size >= least, size <= ceiling, size % MemoryLayout<T>.alignment == 0 else {
            throw QueueError(
                .invalid, "invalid struct_size of \(name): \(size) instead of \(known); initialise the struct with its INIT macro")
        }
        guard size > known else { return size }
        for offset in known..<size where pointer.load(fromByteOffset: offset, as: UInt8.self) != 0 {
            throw QueueError(.invalid, "\(name) sets fields that this version of the library does not know")
        }
        return size
    }

    /// Reads a struct of the caller, laid over the defaults. `flags` are its `bool` fields: in C every byte except 0 is true, which is
    /// undefined behaviour for a Swift `Bool`.
    static func read<T>(
        _ pointer: UnsafePointer<T>, _ name: StaticString, over defaults: T, minimum: Int? = nil, flags: [PartialKeyPath<T>] = []
    ) throws(QueueError) -> T {
        let source = UnsafeRawPointer(pointer)
        return copy(source, count: try check(source, T.self, name, minimum: minimum), over: defaults, flags: flags)
    }

    /// Reads the part of a struct that fits into `count` bytes, laid over the defaults.
    static func copy<T>(_ source: UnsafeRawPointer, count size: Int, over defaults: T, flags: [PartialKeyPath<T>] = []) -> T {
        let known = MemoryLayout<T>.stride
        return withUnsafeTemporaryAllocation(byteCount: known, alignment: MemoryLayout<T>.alignment) { copy in
            withUnsafeBytes(of: defaults) { copy.copyMemory(from: $0) }
            copy.copyMemory(from: UnsafeRawBufferPointer(start: source, count: min(size, known)))
            for flag in flags {
                guard let offset = MemoryLayout<T>.offset(of: flag) else { continue }
                copy[offset] = copy[offset] == 0 ? 0 : 1
            }
            return copy.load(as: T.self)
        }
    }

    /// Writes the part of a struct that fits into `count` bytes; bytes beyond the struct become zero.
    static func fill<T>(_ target: UnsafeMutableRawPointer, count: Int, with value: T) {
        withUnsafeBytes(of: value) { bytes in
            let known = min(bytes.count, count)
            if let source = bytes.baseAddress { target.copyMemory(from: source, byteCount: known) }
            if count > known { memset(target + known, 0, count - known) }
        }
    }

    /// Writes the part of a checked struct that the caller knows, and leaves the caller's `struct_size`.
    static func write<T>(_ value: T, to pointer: UnsafeMutablePointer<T>) {
        let target = UnsafeMutableRawPointer(pointer)
        let size = min(Int(target.loadUnaligned(as: UInt32.self)), MemoryLayout<T>.stride)
        let first = MemoryLayout<UInt32>.size
        guard size > first else { return }
        withUnsafeBytes(of: value) { bytes in
            guard let source = bytes.baseAddress else { return }
            (target + first).copyMemory(from: source + first, byteCount: min(size, bytes.count) - first)
        }
    }
}

/// Returns a char array in a struct as a text, to its NUL or its end. It may be raw text of a receiver: invalid UTF-8 is replaced.
func text<T, Field>(_ value: borrowing T, at field: KeyPath<T, Field>) -> String {
    withUnsafeBytes(of: value) { bytes in
        let offset = MemoryLayout<T>.offset(of: field) ?? 0
        return String(decoding: bytes[offset..<offset + MemoryLayout<Field>.size].prefix { $0 != 0 }, as: UTF8.self)
    }
}
