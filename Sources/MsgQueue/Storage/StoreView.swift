import CSQLite
import Glibc

/// A read-only view of a store's files: the database with its log applied. Pages come from the complete commits of the log or from the
/// database; writes stay in memory. Nothing on disk is changed, created or removed.
///
/// SQLite accesses it through a VFS with one file. Opening, checking, salvaging and reading a store use it.
final class StoreView: @unchecked Sendable {
    let path: String
    let log: LogImage?
    /// The open database file; borrowed.
    let database: Int32
    private let logDescriptor: Int32
    let pageSize: Int64
    /// The frame with the newest content of each page, by page number.
    private var frames: [UInt32: Int] = [:]
    /// The pages written through this view, by the index of the page from 0.
    private var written: [Int64: [UInt8]] = [:]
    private var size: Int64
    private var number = 0
    /// The first error of a read. SQLite reports some read errors as damage.
    private(set) var readError: QueueError?

    /// `database` is borrowed and must stay open. `ignoringLog`: presents the database file alone. `pageSize`: for a database whose header
    /// is damaged.
    init(path: String, database: Int32, ignoringLog: Bool = false, pageSize given: Int64? = nil) throws(QueueError) {
        self.path = path
        self.database = database
        let name = StorePath.log(of: path)
        let isThere = ignoringLog ? false : try Posix.status(name) != nil
        logDescriptor = isThere ? try Posix.open(name, O_RDONLY) : -1
        do throws(QueueError) {
            log = isThere ? try LogImage(logDescriptor, path: name) : nil
            size = Int64(try Posix.status(database, path).st_size)
        } catch {
            if logDescriptor >= 0 { close(logDescriptor) }
            throw error
        }
        pageSize = log?.header.map { Int64($0.pageSize) } ?? given ?? Self.pageSize(database, path)
        if let log, let last = log.commits.last {
            for (index, page) in log.frames.enumerated() { frames[page] = index }
            size = Int64(last.pages) * pageSize
        }
    }

    deinit { if logDescriptor >= 0 { close(logDescriptor) } }

    /// Returns the page size in the database's header, or 4096 if that is invalid.
    private static func pageSize(_ database: Int32, _ path: String) -> Int64 {
        guard let bytes = try? Posix.read(database, at: 16, count: 2, path), bytes.count == 2 else { return 4096 }
        let size = Int64(bytes[0]) << 8 | Int64(bytes[1])
        return size >= 512 && size & (size - 1) == 0 ? size : 4096
    }

    /// Reads a page from the file itself, without the log.
    func rawPage(_ page: UInt32) throws(QueueError) -> [UInt8] {
        try Posix.read(database, at: (Int64(page) - 1) * pageSize, count: Int(pageSize), path)
    }

    /// Replaces the content of a page in this view.
    func replace(page: UInt32, with bytes: [UInt8]) {
        guard page >= 1, Int64(bytes.count) == pageSize else { return }
        written[Int64(page) - 1] = bytes
        size = max(size, Int64(page) * pageSize)
    }

    /// Returns the versions of a page in the log, oldest first.
    func versions(of page: UInt32) throws(QueueError) -> [(frame: Int, bytes: [UInt8])] {
        guard let log else { return [] }
        var found: [(frame: Int, bytes: [UInt8])] = []
        for (index, number) in log.frames.enumerated() where number == page {
            found.append((index, try Posix.read(logDescriptor, at: log.offset(ofFrame: index), count: Int(pageSize), log.path)))
        }
        return found
    }

    /// Returns the first 100 bytes of the database with the log applied.
    func header() throws(QueueError) -> [UInt8] {
        guard let log, let frame = frames[1] else { return try Posix.read(database, at: 0, count: 100, path) }
        return try Posix.read(logDescriptor, at: log.offset(ofFrame: frame), count: 100, log.path)
    }

    /// Reads a page with the log applied; it is shorter when the file is.
    func page(_ page: UInt32) throws(QueueError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(pageSize))
        let result = bytes.withUnsafeMutableBytes { buffer -> Result<Int, QueueError> in
            do throws(QueueError) { return .success(try read(buffer, at: (Int64(page) - 1) * pageSize)) } catch { return .failure(error) }
        }
        bytes.removeLast(bytes.count - (try result.get()))
        return bytes
    }

    // MARK: The file for SQLite

    fileprivate func read(_ target: UnsafeMutableRawBufferPointer, at start: Int64) throws(QueueError) -> Int {
        var done = 0
        while done < target.count {
            let place = start + Int64(done)
            guard place < size else { break }
            let (page, inside) = place.quotientAndRemainder(dividingBy: pageSize)
            let count = min(target.count - done, Int(pageSize - inside))
            let part = UnsafeMutableRawBufferPointer(rebasing: target[done..<done + count])
            if let bytes = written[page] {
                bytes.withUnsafeBytes { part.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[Int(inside)..<Int(inside) + count])) }
            } else if let log, let frame = frames[UInt32(clamping: page + 1)] {
                guard try Posix.read(logDescriptor, at: log.offset(ofFrame: frame) + inside, into: part, log.path) == count else {
                    throw QueueError(.storage, "\(log.path) was truncated while it was read")
                }
            } else if try Posix.read(database, at: place, into: part, path) < count {
                break
            }
            done += count
        }
        // SQLite would open a log of its own if the header selected one.
        for offset in 18...19 where start <= Int64(offset) && Int64(offset) < start + Int64(done) {
            let index = offset - Int(start)
            if target[index] == 2 { target[index] = 1 }
        }
        return done
    }

    fileprivate func write(_ source: UnsafeRawBufferPointer, at start: Int64) -> Bool {
        guard start % pageSize == 0, Int64(source.count) == pageSize else { return false }
        written[start / pageSize] = Array(source)
        size = max(size, start + pageSize)
        return true
    }

    fileprivate func truncate(_ length: Int64) {
        size = min(size, length)
        for page in written.keys where page * pageSize >= length { written[page] = nil }
    }

    fileprivate var fileSize: Int64 { size }

    /// The number of pages of the database. A damaged log can claim any number.
    var pages: Int64 { size / pageSize }

    /// The numbers of the pages that are in the files, in order.
    func storedPages() throws(QueueError) -> [UInt32] {
        let inFile = UInt32(clamping: min(size, Int64(try Posix.status(database, path).st_size)) / pageSize)
        return (inFile > 0 ? Array(1...inFile) : []) + frames.keys.filter { $0 > inFile && Int64($0) <= pages }.sorted()
    }

    // MARK: The VFS

    static let vfsName = "msgqueue-view"

    private static let registry = Mutex()
    nonisolated(unsafe) private static var views: [Int: StoreView] = [:]
    nonisolated(unsafe) private static var count = 0

    /// Registers the view and returns the name under which SQLite can open it until `retire`.
    func publish() throws(QueueError) -> String {
        guard Self.isRegistered else { throw QueueError(.internal, "registering the VFS for reading stores failed") }
        return Self.registry.withLock {
            Self.count += 1
            number = Self.count
            Self.views[number] = self
            return "/view-\(number)"
        }
    }

    func retire() { Self.registry.withLock { _ = Self.views.removeValue(forKey: number) } }

    private static func named(_ name: UnsafePointer<CChar>?) -> StoreView? {
        guard let name else { return nil }
        let text = String(cString: name)
        guard text.hasPrefix("/view-"), let number = Int(text.dropFirst(6)) else { return nil }
        return registry.withLock { views[number] }
    }

    /// The structure that SQLite allocates for an open file.
    private struct File {
        var base: sqlite3_file
        var view: Unmanaged<StoreView>?
    }

    private static func view(_ file: UnsafeMutablePointer<sqlite3_file>?) -> StoreView? {
        guard let file else { return nil }
        return UnsafeMutableRawPointer(file).assumingMemoryBound(to: File.self).pointee.view?.takeUnretainedValue()
    }

    nonisolated(unsafe) private static let methods: UnsafeMutablePointer<sqlite3_io_methods> = {
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        var io = sqlite3_io_methods()
        io.iVersion = 1
        io.xClose = { file in
            guard let file else { return SQLITE_OK }
            let own = UnsafeMutableRawPointer(file).assumingMemoryBound(to: File.self)
            own.pointee.view?.release()
            own.pointee.view = nil
            return SQLITE_OK
        }
        io.xRead = { file, target, amount, offset in
            guard let view = StoreView.view(file), let target, amount >= 0 else { return SQLITE_IOERR }
            let buffer = UnsafeMutableRawBufferPointer(start: target, count: Int(amount))
            do throws(QueueError) {
                let count = try view.read(buffer, at: offset)
                guard count < buffer.count else { return SQLITE_OK }
                for index in count..<buffer.count { buffer[index] = 0 }
                return SQLITE_IOERR | (2 << 8)  // SQLITE_IOERR_SHORT_READ
            } catch {
                if view.readError == nil { view.readError = error }
                return SQLITE_IOERR | (1 << 8)  // SQLITE_IOERR_READ
            }
        }
        io.xWrite = { file, source, amount, offset in
            guard let view = StoreView.view(file), let source, amount >= 0 else { return SQLITE_IOERR }
            let isWritten = view.write(UnsafeRawBufferPointer(start: source, count: Int(amount)), at: offset)
            return isWritten ? SQLITE_OK : SQLITE_IOERR | (3 << 8)  // SQLITE_IOERR_WRITE
        }
        io.xTruncate = { file, size in
            StoreView.view(file)?.truncate(size)
            return SQLITE_OK
        }
        io.xSync = { _, _ in SQLITE_OK }
        io.xFileSize = { file, size in
            size?.pointee = StoreView.view(file)?.fileSize ?? 0
            return SQLITE_OK
        }
        io.xLock = { _, _ in SQLITE_OK }
        io.xUnlock = { _, _ in SQLITE_OK }
        io.xCheckReservedLock = { _, answer in
            answer?.pointee = 0
            return SQLITE_OK
        }
        io.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        io.xSectorSize = { _ in 4096 }
        io.xDeviceCharacteristics = { _ in 0 }
        methods.initialize(to: io)
        return methods
    }()

    private static let isRegistered: Bool = {
        ForkGuard.protect(registry)
        guard let system = sqlite3_vfs_find(nil) else { return false }
        let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        var own = sqlite3_vfs()
        own.iVersion = 1
        own.szOsFile = Int32(MemoryLayout<File>.stride)
        own.mxPathname = 64
        own.zName = UnsafePointer(strdup(vfsName))
        own.xOpen = { _, name, file, flags, outFlags in
            guard let file else { return SQLITE_CANTOPEN }
            let own = UnsafeMutableRawPointer(file).assumingMemoryBound(to: File.self)
            own.initialize(to: File(base: sqlite3_file(), view: nil))
            // Only a main database: journals and temporary tables are kept in memory.
            guard flags & SQLITE_OPEN_MAIN_DB != 0, let view = StoreView.named(name) else { return SQLITE_CANTOPEN }
            own.pointee.view = Unmanaged.passRetained(view)
            own.pointee.base.pMethods = UnsafePointer(StoreView.methods)
            outFlags?.pointee = flags
            return SQLITE_OK
        }
        own.xDelete = { _, _, _ in SQLITE_OK }
        own.xAccess = { _, _, _, answer in
            answer?.pointee = 0
            return SQLITE_OK
        }
        own.xFullPathname = { _, name, size, target in
            guard let name, let target, strlen(name) < Int(size) else { return SQLITE_CANTOPEN }
            strcpy(target, name)
            return SQLITE_OK
        }
        own.xRandomness = system.pointee.xRandomness
        own.xSleep = system.pointee.xSleep
        own.xCurrentTime = system.pointee.xCurrentTime
        own.xGetLastError = { _, _, _ in 0 }
        vfs.initialize(to: own)
        return sqlite3_vfs_register(vfs, 0) == SQLITE_OK
    }()
}
