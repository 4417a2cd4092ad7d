import CSQLite
import Glibc

/// Joins SQLite's writes to a file. SQLite writes the header and the page of each frame of the log separately, and in a checkpoint each page
/// of the database. This buffer collects consecutive writes and writes them together: to the log at the latest with the last frame of a
/// commit, so that a committed transaction is in the file when the commit returns; to both files before they are flushed, read there,
/// truncated, measured or closed.
///
/// It replaces the methods of the file that this connection has open; the file itself stays that of SQLite's own VFS.
struct WriteBuffer {
    /// SQLite's VFS writes less than 128 KiB at a time.
    private static let capacity = 1 << 16

    /// First, so that a pointer to the methods is a pointer to this structure.
    private var methods: sqlite3_io_methods
    private let system: UnsafePointer<sqlite3_io_methods>
    private let bytes: UnsafeMutableRawPointer
    /// The buffered bytes belong here in the file.
    private var start: Int64 = 0
    private var count = 0
    /// Where the last write ended; nil: unknown. Only a write that begins there is buffered.
    private var end: Int64?
    /// The page that is written next ends a commit.
    private var isCommit = false
    /// nil: this is not the log.
    private var log: LogFlush?

    /// Replaces the methods of the database's file and of the log's. Returns false when SQLite has no log open. `log`: how its log is flushed.
    static func install(_ database: OpaquePointer, log: LogFlush) -> Bool {
        install(database, SQLITE_FCNTL_FILE_POINTER, nil) && install(database, SQLITE_FCNTL_JOURNAL_POINTER, log)
    }

    private static func install(_ database: OpaquePointer, _ pointer: Int32, _ log: LogFlush?) -> Bool {
        guard let open = OpenFile(database, pointer) else { return false }
        var methods = open.methods.pointee
        methods.xClose = { file in WriteBuffer.close(file) }
        methods.xRead = { file, target, amount, offset in WriteBuffer.with(file) { $0.read($1, target, amount, offset) } }
        methods.xWrite = { file, source, amount, offset in WriteBuffer.with(file) { $0.write($1, source, amount, offset) } }
        methods.xTruncate = { file, size in
            WriteBuffer.flushed(file) { buffer, file in buffer.truncate(file, size) }
        }
        methods.xSync = { file, flags in WriteBuffer.flushed(file) { buffer, file in buffer.sync(file, flags) } }
        methods.xFileSize = { file, size in
            WriteBuffer.flushed(file) { buffer, file in buffer.system.pointee.xFileSize?(file, size) }
        }
        let own = UnsafeMutablePointer<WriteBuffer>.allocate(capacity: 1)
        own.initialize(
            to: WriteBuffer(methods: methods, system: open.methods, bytes: .allocate(byteCount: capacity, alignment: 4096), log: log))
        open.file.pointee.pMethods = UnsafeRawPointer(own).assumingMemoryBound(to: sqlite3_io_methods.self)
        return true
    }

    private init(
        methods: sqlite3_io_methods, system: UnsafePointer<sqlite3_io_methods>, bytes: UnsafeMutableRawPointer, log: LogFlush?
    ) {
        (self.methods, self.system, self.bytes, self.log) = (methods, system, bytes, log)
    }

    // MARK: The methods of the file

    private typealias File = UnsafeMutablePointer<sqlite3_file>

    private static func own(_ file: File) -> UnsafeMutablePointer<WriteBuffer>? {
        UnsafeMutableRawPointer(mutating: file.pointee.pMethods)?.assumingMemoryBound(to: WriteBuffer.self)
    }

    private static func with(_ file: File?, _ body: (inout WriteBuffer, File) -> Int32) -> Int32 {
        guard let file, let own = own(file) else { return SQLITE_IOERR }
        return body(&own.pointee, file)
    }

    /// Calls a method after the buffer was written.
    private static func flushed(_ file: File?, _ body: (inout WriteBuffer, File) -> Int32?) -> Int32 {
        with(file) { buffer, file in
            let code = buffer.flush(file)
            return code == SQLITE_OK ? body(&buffer, file) ?? SQLITE_IOERR : code
        }
    }

    /// Truncates the file. SQLite truncates the database after each checkpoint, mostly to the size that it has. That would only release the
    /// blocks that are reserved after its end.
    private mutating func truncate(_ file: File, _ size: Int64) -> Int32? {
        var present: sqlite3_int64 = 0
        if system.pointee.xFileSize?(file, &present) == SQLITE_OK, present == size { return SQLITE_OK }
        log?.isChanged = true
        return system.pointee.xTruncate?(file, size)
    }

    private mutating func sync(_ file: File, _ flags: Int32) -> Int32? {
        log != nil ? log?.run(end: end) : system.pointee.xSync?(file, flags)
    }

    private static func close(_ file: File?) -> Int32 {
        guard let file, let own = own(file) else { return SQLITE_IOERR }
        let code = own.pointee.flush(file)
        let system = own.pointee.system
        own.pointee.bytes.deallocate()
        own.deinitialize(count: 1)
        own.deallocate()
        file.pointee.pMethods = system
        let closed = system.pointee.xClose?(file) ?? SQLITE_IOERR
        return code == SQLITE_OK ? closed : code
    }

    private mutating func write(_ file: File, _ source: UnsafeRawPointer?, _ amount: Int32, _ offset: Int64) -> Int32 {
        guard let source, amount >= 0 else { return SQLITE_IOERR }
        let size = Int(amount)
        let endsCommit = isCommit
        // The fifth to eighth byte of a frame's header are not zero in the last frame of a commit.
        isCommit = size == LogImage.frameHeaderSize && source.loadUnaligned(fromByteOffset: 4, as: UInt32.self) != 0
        let isNext = offset == end
        end = offset + Int64(size)
        guard isNext, size <= Self.capacity else {
            let code = flush(file)
            return code == SQLITE_OK ? writeThrough(file, source, amount, offset) : code
        }
        if count + size > Self.capacity {
            let code = flush(file)
            guard code == SQLITE_OK else { return code }
        }
        if count == 0 { start = offset }
        memcpy(bytes + count, source, size)
        count += size
        return endsCommit ? flush(file) : SQLITE_OK
    }

    private mutating func read(_ file: File, _ target: UnsafeMutableRawPointer?, _ amount: Int32, _ offset: Int64) -> Int32 {
        guard let target, amount >= 0 else { return SQLITE_IOERR }
        let last = offset + Int64(amount)
        if count > 0, offset >= start, last <= start + Int64(count) {
            memcpy(target, bytes + Int(offset - start), Int(amount))
            return SQLITE_OK
        }
        if count > 0, offset < start + Int64(count), last > start {
            let code = flush(file)
            guard code == SQLITE_OK else { return code }
        }
        return system.pointee.xRead?(file, target, amount, offset) ?? SQLITE_IOERR
    }

    /// Writes what is buffered. After an error it is dropped: SQLite rolls the transaction back.
    private mutating func flush(_ file: File) -> Int32 {
        guard count > 0 else { return SQLITE_OK }
        let amount = Int32(count)
        count = 0
        let code = writeThrough(file, bytes, amount, start)
        if code != SQLITE_OK { end = nil }
        return code
    }

    /// Writes to the file. SQLite reports a full disk as SQLITE_FULL, but a quota and a limit of the size of files as an error of the disk,
    /// after which it would be unknown what was written. (The system's error must be asked here: SQLite loses that of a commit.)
    private mutating func writeThrough(_ file: File, _ source: UnsafeRawPointer, _ amount: Int32, _ offset: Int64) -> Int32 {
        log?.isChanged = true
        let code = system.pointee.xWrite?(file, source, amount, offset) ?? SQLITE_IOERR
        guard code & 0xff == SQLITE_IOERR else { return code }
        var error: Int32 = 0
        guard system.pointee.xFileControl?(file, SQLITE_FCNTL_LAST_ERRNO, &error) == SQLITE_OK else { return code }
        return Posix.isFull(error) ? SQLITE_FULL : code
    }
}

/// The flushes of the log: those that SQLite asks for, without the ones that make nothing durable.
///
/// SQLite would flush the directory with the first one, and ignore an error. `WriteAheadLog.watchFiles` has done it before.
struct LogFlush {
    /// Of the log, open for writing; borrowed.
    private let descriptor: Int32
    /// The log has no frame of an earlier log: this connection made the file, and nothing in it was flushed.
    private var isNew: Bool
    /// Something was written since the last successful flush.
    fileprivate(set) var isChanged = true

    init(_ descriptor: Int32, isNew: Bool) { (self.descriptor, self.isNew) = (descriptor, isNew) }

    /// Flushes the log, whose last write ended at `end`. Returns SQLite's code.
    fileprivate mutating func run(end: Int64?) -> Int32 {
        // A checkpoint flushes the log again after its last commit.
        guard isChanged else { return SQLITE_OK }
        // SQLite flushes the header before the first frame, because frames behind an earlier header could be taken for those of the earlier
        // log. In a new file there are none, and the flush of the first commit covers the header.
        let isHeader = isNew && end == Int64(LogImage.headerSize)
        isNew = false
        guard !isHeader else { return SQLITE_OK }
        guard Posix.flush(descriptor) else { return SQLITE_IOERR | (4 << 8) }  // SQLITE_IOERR_FSYNC
        isChanged = false
        return SQLITE_OK
    }
}
