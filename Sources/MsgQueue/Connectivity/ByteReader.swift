/// Bytes from outside. Every question is answered with nil when it reaches beyond them.
struct ByteReader {
    private let bytes: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

    var count: Int { bytes.count }

    /// A number in the machine's own order.
    func number<T: FixedWidthInteger>(at offset: Int, _ type: T.Type) -> T? {
        guard let part = part(offset, MemoryLayout<T>.size) else { return nil }
        var value: T = 0
        withUnsafeMutableBytes(of: &value) { $0.copyBytes(from: part.bytes) }
        return value
    }

    func part(_ offset: Int, _ length: Int) -> ByteReader? {
        guard offset >= 0, length >= 0, offset <= count, length <= count - offset else { return nil }
        let start = bytes.startIndex + offset
        return ByteReader(bytes[start..<start + length])
    }

    /// What is left behind the offset; nothing, when it lies beyond the end.
    func from(_ offset: Int) -> ByteReader { ByteReader(bytes.dropFirst(max(offset, 0))) }

    /// Up to the first NUL.
    var text: String { String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
}
