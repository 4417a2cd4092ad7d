import Glibc

/// The durable length of the log: one record of 64 bytes in the file `path-tail`. It is written after each flush of the log and is not
/// flushed itself. A log that is shorter than its record has lost its end, which the log alone does not show.
///
/// Before a checkpointed log is overwritten, the record is flushed with 0 frames: from then on a damaged or missing log is no loss. A new
/// file, beside a new log, is not flushed: an empty one says the same.
struct SideRecord: Equatable {
    /// The generation that the log started with, and the one of the database that it was started for.
    var generation: Int64
    var base: Int64
    /// The salts in the log's header.
    var salts: UInt64
    /// The number of durable frames; 0: everything is in the database.
    var frames: Int64
    /// The last sequence number that was assigned.
    var lastSequence: Int64

    private static let magic: UInt64 = 0x6d73_6771_7461_696c  // "msgqtail"
    private static let version: UInt64 = 1
    static let size = 64

    private typealias Words = (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)

    /// Encodes the record. It allocates nothing, because it runs after each flush.
    func withBytes<T>(_ body: (UnsafeRawBufferPointer) -> T) -> T {
        var words: Words = (
            Self.magic.littleEndian, Self.version.littleEndian, UInt64(bitPattern: generation).littleEndian,
            UInt64(bitPattern: base).littleEndian, salts.littleEndian, UInt64(bitPattern: frames).littleEndian,
            UInt64(bitPattern: lastSequence).littleEndian, 0
        )
        words.7 = withUnsafeBytes(of: words) { Self.checksum($0) }.littleEndian
        return withUnsafeBytes(of: words, body)
    }
}

extension SideRecord {
    /// Decodes a record; nil: it is damaged.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= Self.size else { return nil }
        let words = (0..<8).map { index in
            bytes.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self)) }
        }
        guard words[0] == Self.magic, words[1] == Self.version, words[7] == bytes.withUnsafeBytes({ Self.checksum($0) }) else { return nil }
        generation = Int64(bitPattern: words[2])
        base = Int64(bitPattern: words[3])
        salts = words[4]
        frames = Int64(bitPattern: words[5])
        lastSequence = Int64(bitPattern: words[6])
        guard frames >= 0, (0...MessageID.sequenceCeiling).contains(lastSequence) else { return nil }
    }

    /// Returns the checksum of all but the last eight bytes.
    private static func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        Checksum.hash(UnsafeRawBufferPointer(rebasing: bytes[..<(size - 8)]), seed: magic)
    }

    /// What the file contains.
    enum Content {
        /// There is no file.
        case none
        /// The power failed before anything in it was durable: then no log was overwritten since the file was made.
        case empty
        case damaged
        case whole(SideRecord)
    }

    /// Reads the record of a store.
    static func read(of path: String) throws(QueueError) -> Content {
        let file = StorePath.tail(of: path)
        guard try Posix.status(file) != nil else { return .none }
        let descriptor = try Posix.open(file, O_RDONLY)
        defer { close(descriptor) }
        let bytes = try Posix.read(descriptor, at: 0, count: size, file)
        return bytes.isEmpty ? .empty : SideRecord(bytes).map { .whole($0) } ?? .damaged
    }
}

/// The open file of the side record.
final class SideFile {
    private let path: String
    private var descriptor: Int32 = -1

    init(of path: String) { self.path = StorePath.tail(of: path) }

    deinit { if descriptor >= 0 { close(descriptor) } }

    var isOpen: Bool { descriptor >= 0 }

    /// The file was made by `open`.
    private(set) var isNew = false
    /// What the file contained when it was opened.
    private var content: [UInt8] = []

    func open() throws(QueueError) {
        let isThere = try Posix.status(path) != nil
        let opened = Posix.aboveStandard(Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600))
        guard opened >= 0 else { throw Posix.error(errno, path) }
        descriptor = opened
        isNew = !isThere
        do throws(QueueError) { content = try Posix.read(descriptor, at: 0, count: SideRecord.size, path) } catch {
            undoOpen()
            throw error
        }
    }

    /// Closes the file and restores what was there before `open`. A file that cannot be removed or written stays: then it belongs to no log.
    func undoOpen() {
        guard descriptor >= 0 else { return }
        if isNew {
            Posix.remove(path)
        } else if content.count == SideRecord.size {
            do throws(QueueError) { try Posix.write(descriptor, at: 0, content, path) } catch {
                Log.warning("\(path) was not restored after an error: \(error.detail)")
            }
        }
        close(descriptor)
        descriptor = -1
    }

    /// Writes the record. `durable`: it survives a power failure when this returns. A write that failed may have left a part of the record, so
    /// it is tried twice. (A flush is repeated with its write, which makes the kernel write the page again.)
    func write(_ record: SideRecord, durable: Bool) throws(QueueError) {
        do throws(QueueError) { try writeOnce(record, durable) } catch {
            try writeOnce(record, durable)
        }
    }

    private func writeOnce(_ record: SideRecord, _ durable: Bool) throws(QueueError) {
        guard isOpen else { return }
        let result = record.withBytes { bytes -> Result<Void, QueueError> in
            do throws(QueueError) { return .success(try Posix.write(descriptor, at: 0, bytes, path)) } catch { return .failure(error) }
        }
        try result.get()
        if durable { try Posix.sync(descriptor, path) }
    }

    /// Removes the file after a clean close: a closed store is one file.
    func remove() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
        Posix.remove(path)
    }
}
