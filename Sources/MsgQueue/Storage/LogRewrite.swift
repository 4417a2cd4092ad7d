import Glibc

/// Rewrites a log that a crash left behind, before anything is appended to it.
///
/// A flush may have failed before the crash. The kernel then marks the pages that it could not write as clean but still returns them to
/// readers, and another flush of the file reports success without writing them. A power failure would lose these pages and everything
/// appended after them. Therefore the complete commits are copied to a new file, which replaces the old one.
enum LogRewrite {
    static func run(_ path: String, size: Int64) throws(QueueError) {
        let name = StorePath.log(of: path)
        let old = try Posix.open(name, O_RDWR)
        defer { close(old) }
        guard size > 0 else {
            guard ftruncate(old, 0) == 0 else { throw Posix.error(errno, name) }
            return
        }
        do throws(QueueError) {
            let new = try NewFile(for: name)
            try copy(old, name, to: new.descriptor, new.temporary, size)
            guard try new.finish(replacing: true) else { throw QueueError(.internal, "failed to replace \(name)") }
        } catch {
            guard error.isFull else { throw error }
            // No space for a copy: writing the same bytes in place makes the pages dirty, so that the flush writes them.
            try copy(old, name, to: old, name, size)
            try Posix.sync(old, name)
        }
    }

    private static func copy(_ source: Int32, _ from: String, to target: Int32, _ to: String, _ size: Int64) throws(QueueError) {
        var offset: Int64 = 0
        while offset < size {
            let bytes = try Posix.read(source, at: offset, count: Int(min(size - offset, 1 << 20)), from)
            guard !bytes.isEmpty else { throw QueueError(.storage, "\(from) was truncated while it was read") }
            try Posix.write(target, at: offset, bytes, to)
            offset += Int64(bytes.count)
        }
    }
}
