/// Reads untrusted bytes. A read beyond their end returns nil.
struct ByteReader {
    private let bytes: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

    var count: Int { bytes.count }

    /// Reads a number in native byte order.
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

    /// Returns the bytes from an offset on; none if it is beyond the end.
    func from(_ offset: Int) -> ByteReader { ByteReader(bytes.dropFirst(max(offset, 0))) }

    /// The text up to the first NUL byte.
    var text: String { String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
}
