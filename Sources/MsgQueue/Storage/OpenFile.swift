import CSQLite

/// A file that SQLite has open: the database or its log. Valid only while the connection's lock is held.
struct OpenFile {
    let file: UnsafeMutablePointer<sqlite3_file>
    let methods: UnsafePointer<sqlite3_io_methods>

    /// SQLite writes less than 128 KiB at a time.
    private static let zeros = [UInt8](repeating: 0, count: 1 << 16)

    /// `which`: `SQLITE_FCNTL_FILE_POINTER` or `SQLITE_FCNTL_JOURNAL_POINTER`. nil: SQLite does not have it open.
    init?(_ database: OpaquePointer, _ which: Int32) {
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_file_control(database, "main", which, &file) == SQLITE_OK, let file, let methods = file.pointee.pMethods else {
            return nil
        }
        (self.file, self.methods) = (file, methods)
    }

    /// nil: it cannot be read.
    var size: Int64? {
        var size: sqlite3_int64 = 0
        guard let read = methods.pointee.xFileSize, read(file, &size) == SQLITE_OK else { return nil }
        return size
    }

    /// The system's error of the last read or write that failed; nil: none.
    var lastError: Int32? {
        var code: Int32 = 0
        guard let control = methods.pointee.xFileControl, control(file, SQLITE_FCNTL_LAST_ERRNO, &code) == SQLITE_OK else { return nil }
        return code == 0 ? nil : code
    }

    func readBeyondEnd() {
        var byte: UInt8 = 0
        _ = methods.pointee.xRead?(file, &byte, 1, 1 << 50)
    }

    /// Flushes the file. Returns SQLite's code.
    func flush() -> Int32 { methods.pointee.xSync.map { $0(file, SQLITE_SYNC_NORMAL) } ?? SQLITE_IOERR }

    func truncate(to size: Int64) -> Bool { methods.pointee.xTruncate.map { $0(file, size) == SQLITE_OK } ?? false }

    /// Writes zeros to the file. Nothing of them stays in the buffer.
    func writeZeros(at start: Int64, count: Int64) -> Bool {
        guard let write = methods.pointee.xWrite else { return false }
        var offset = start
        while offset < start + count {
            let length = min(Int64(Self.zeros.count), start + count - offset)
            let code = Self.zeros.withUnsafeBytes { write(file, $0.baseAddress, Int32(length), offset) }
            guard code == SQLITE_OK else { return false }
            offset += length
        }
        // Asking for the size writes what is still buffered.
        return size != nil
    }
}
