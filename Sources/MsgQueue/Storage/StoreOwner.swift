import Glibc

/// Which stores this process has open: POSIX locks do not keep a process from itself.
enum StoreOwner {
    private static let lock: Mutex = {
        let lock = Mutex()
        ForkGuard.protect(lock)
        return lock
    }()
    nonisolated(unsafe) private static var open: Set<FileIdentity> = []

    /// False when this process has the file open already.
    static func claim(_ file: FileIdentity) -> Bool {
        lock.withLock { open.insert(file).inserted }
    }

    static func release(_ file: FileIdentity) {
        lock.withLock { _ = open.remove(file) }
    }

    /// The process that holds a lock on the file, as the kernel tells it; nil: not known.
    static func process(locking file: FileIdentity) -> Int? {
        guard let table = fopen("/proc/locks", "re") else { return nil }
        defer { fclose(table) }
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, Int32(line.count), table) != nil {
            // 1: POSIX  ADVISORY  WRITE 4711 fe:01:131090 1073741824 1073742335
            let text = line.withUnsafeBufferPointer { buffer in
                String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            }
            let words = text.split(separator: " ")
            guard words.count >= 6, words[1] != "->", let inode = words[5].split(separator: ":").last, UInt(inode) == file.inode,
                let process = Int(words[4]), process > 0
            else { continue }
            return process
        }
        return nil
    }
}
