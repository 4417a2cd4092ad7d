import Glibc

/// How far the log went: the file `path-tail`, one record of 64 bytes that is written after each flush of the log and is not flushed
/// itself. A log that is shorter than it says has lost its end, of which nothing in the log itself tells.
///
/// Before a log that was copied into the database is overwritten, the record is flushed with the number 0: from then on a log that is
/// damaged or gone is no loss.
struct SideRecord: Equatable {
    /// Of the state that the log began with, and of the database before it.
    var generation: Int64
    var base: Int64
    /// From the log's header.
    var salts: UInt64
    /// Frames that are durable; 0: everything is in the database.
    var frames: Int64
    /// The last sequence number that was given out.
    var lastSequence: Int64

    private static let mark: UInt64 = 0x6d73_6771_7461_696c  // "msgqtail"
    private static let version: UInt64 = 1
    static let size = 64

    private typealias Words = (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)

    /// Written after each flush, so without an allocation.
    func withBytes<T>(_ body: (UnsafeRawBufferPointer) -> T) -> T {
        var words: Words = (
            Self.mark.littleEndian, Self.version.littleEndian, UInt64(bitPattern: generation).littleEndian,
            UInt64(bitPattern: base).littleEndian, salts.littleEndian, UInt64(bitPattern: frames).littleEndian,
            UInt64(bitPattern: lastSequence).littleEndian, 0
        )
        words.7 = withUnsafeBytes(of: words) { Self.checksum($0) }.littleEndian
        return withUnsafeBytes(of: words, body)
    }

    init(generation: Int64, base: Int64, salts: UInt64, frames: Int64, lastSequence: Int64) {
        self.generation = generation
        self.base = base
        self.salts = salts
        self.frames = frames
        self.lastSequence = lastSequence
    }

    /// nil: it is not what was written.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= Self.size else { return nil }
        let words = (0..<8).map { index in
            bytes.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self)) }
        }
        guard words[0] == Self.mark, words[1] == Self.version, words[7] == bytes.withUnsafeBytes({ Self.checksum($0) }) else { return nil }
        generation = Int64(bitPattern: words[2])
        base = Int64(bitPattern: words[3])
        salts = words[4]
        frames = Int64(bitPattern: words[5])
        lastSequence = Int64(bitPattern: words[6])
        guard frames >= 0, (0...MessageID.sequenceCeiling).contains(lastSequence) else { return nil }
    }

    /// Of all but the last eight bytes.
    private static func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        Checksum.hash(UnsafeRawBufferPointer(rebasing: bytes[..<(size - 8)]), seed: mark)
    }

    /// The record beside a store; nil: there is none, or it is damaged.
    static func read(of path: String) throws(QueueError) -> SideRecord? {
        let file = StorePath.tail(of: path)
        guard try Posix.status(file) != nil else { return nil }
        let descriptor = try Posix.open(file, O_RDONLY)
        defer { close(descriptor) }
        return SideRecord(try Posix.read(descriptor, at: 0, count: size, file))
    }
}

/// The side record's file while the store is open.
final class SideFile {
    private let path: String
    private var descriptor: Int32 = -1

    init(of path: String) { self.path = StorePath.tail(of: path) }

    deinit { if descriptor >= 0 { close(descriptor) } }

    var isOpen: Bool { descriptor >= 0 }

    func open() throws(QueueError) {
        let opened = Posix.aboveStandard(Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600))
        guard opened >= 0 else { throw Posix.error(errno, path) }
        descriptor = opened
    }

    /// `durable`: it survives a power cut when this returns.
    func write(_ record: SideRecord, durable: Bool) throws(QueueError) {
        guard isOpen else { return }
        let result = record.withBytes { bytes -> Result<Void, QueueError> in
            do throws(QueueError) { return .success(try Posix.write(descriptor, at: 0, bytes, path)) } catch { return .failure(error) }
        }
        try result.get()
        if durable { try Posix.sync(descriptor, path) }
    }

    /// After a clean close: a closed store is one file.
    func remove() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
        unlink(path)
    }
}
