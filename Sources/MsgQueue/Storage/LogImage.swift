import Glibc

/// The content of a write-ahead log file, up to its last complete commit. It is read without SQLite, and the file is not changed.
///
/// The format is SQLite's (https://sqlite.org/fileformat2.html#walformat): a header of 32 bytes with two salts, then frames, each a
/// header of 24 bytes and a page. The checksum of a frame covers all frames before it, so the valid frames are always a prefix.
struct LogImage {
    /// The header of the log: the first 32 bytes of the file.
    struct Header: Equatable {
        let pageSize: Int
        let salts: UInt64
        fileprivate let isBigEndian: Bool
        fileprivate let sums: (UInt32, UInt32)

        static func == (left: Header, right: Header) -> Bool { left.pageSize == right.pageSize && left.salts == right.salts }
    }

    struct Commit {
        /// The number of frames up to and including the last one of the commit.
        let frames: Int
        /// The number of pages of the database after the commit.
        let pages: UInt32
    }

    let path: String
    let size: Int64
    /// nil: it is incomplete or damaged.
    let header: Header?
    /// The page number of each frame, up to the last commit.
    private(set) var frames: [UInt32] = []
    private(set) var commits: [Commit] = []

    static let headerSize = 32
    static let frameHeaderSize = 24

    var isEmpty: Bool { commits.isEmpty }
    /// The number of bytes up to the end of the last complete commit.
    var validSize: Int64 { header.map { Int64(Self.headerSize) + Int64(frames.count) * Int64(frameSize($0)) } ?? 0 }

    private func frameSize(_ header: Header) -> Int { Self.frameHeaderSize + header.pageSize }

    /// Returns the offset in the file of a frame's page.
    func offset(ofFrame index: Int) -> Int64 {
        guard let header else { return 0 }
        return Int64(Self.headerSize) + Int64(index) * Int64(frameSize(header)) + Int64(Self.frameHeaderSize)
    }

    init(_ descriptor: Int32, path: String) throws(QueueError) {
        self.path = path
        size = Int64(try Posix.status(descriptor, path).st_size)
        let start = try Posix.read(descriptor, at: 0, count: Self.headerSize, path)
        header = Self.parse(start)
        if let header { try readFrames(descriptor, header) }
    }

    private static func parse(_ bytes: [UInt8]) -> Header? {
        guard bytes.count == headerSize else { return nil }
        let magic = number(bytes, 0)
        guard magic & ~1 == 0x377f_0682, number(bytes, 4) == 3_007_000 else { return nil }
        let pageSize = Int(number(bytes, 8))
        guard pageSize >= 512, pageSize <= 65_536, pageSize & (pageSize - 1) == 0 else { return nil }
        var sums: (UInt32, UInt32) = (0, 0)
        bytes.withUnsafeBytes { add(UnsafeRawBufferPointer(rebasing: $0[..<24]), &sums, isBigEndian: magic & 1 == 1) }
        guard sums.0 == number(bytes, 24), sums.1 == number(bytes, 28) else { return nil }
        return Header(
            pageSize: pageSize, salts: UInt64(number(bytes, 16)) << 32 | UInt64(number(bytes, 20)), isBigEndian: magic & 1 == 1, sums: sums)
    }

    /// Reads the salts from a log's header; nil: the header is not valid.
    static func salts(_ descriptor: Int32, path: String) throws(QueueError) -> UInt64? {
        parse(try Posix.read(descriptor, at: 0, count: headerSize, path))?.salts
    }

    private mutating func readFrames(_ descriptor: Int32, _ header: Header) throws(QueueError) {
        let length = frameSize(header)
        let perRead = max(1, (1 << 18) / length)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: perRead * length, alignment: 8)
        defer { buffer.deallocate() }
        var sums = header.sums
        var offset = Int64(Self.headerSize)
        var seen: [UInt32] = []
        while true {
            let count = try Posix.read(descriptor, at: offset, into: buffer, path) / length
            for index in 0..<count {
                let frame = UnsafeRawBufferPointer(rebasing: buffer[index * length..<(index + 1) * length])
                let page = Self.number(frame, 0)
                guard page != 0, UInt64(Self.number(frame, 8)) << 32 | UInt64(Self.number(frame, 12)) == header.salts else { return }
                Self.add(UnsafeRawBufferPointer(rebasing: frame[..<8]), &sums, isBigEndian: header.isBigEndian)
                Self.add(UnsafeRawBufferPointer(rebasing: frame[Self.frameHeaderSize...]), &sums, isBigEndian: header.isBigEndian)
                guard sums.0 == Self.number(frame, 16), sums.1 == Self.number(frame, 20) else { return }
                seen.append(page)
                let pages = Self.number(frame, 4)
                if pages != 0 {
                    commits.append(Commit(frames: seen.count, pages: pages))
                    frames.append(contentsOf: seen[frames.count...])
                }
            }
            guard count == perRead else { return }
            offset += Int64(count * length)
        }
    }

    private static func number(_ bytes: [UInt8], _ offset: Int) -> UInt32 { bytes.withUnsafeBytes { number($0, offset) } }

    private static func number(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    /// Adds bytes to a checksum of the log, as SQLite computes it.
    private static func add(_ bytes: UnsafeRawBufferPointer, _ sums: inout (UInt32, UInt32), isBigEndian: Bool) {
        var (first, second) = sums
        var offset = 0
        while offset &+ 8 <= bytes.count {
            let left = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
            let right = bytes.loadUnaligned(fromByteOffset: offset &+ 4, as: UInt32.self)
            first = first &+ (isBigEndian ? UInt32(bigEndian: left) : UInt32(littleEndian: left)) &+ second
            second = second &+ (isBigEndian ? UInt32(bigEndian: right) : UInt32(littleEndian: right)) &+ first
            offset &+= 8
        }
        sums = (first, second)
    }
}
