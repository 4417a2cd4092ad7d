import Glibc

/// What is done to a log that a crash left behind, before it is written to.
///
/// A flush may have failed before the crash. The kernel then drops the pages that it could not write, but still shows them, and another
/// flush of the same file says yes and writes nothing. What is appended behind such pages is lost with them by the next power cut. So the
/// whole commits are written once more, to a new file, which takes the old one's place.
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
            guard try new.finish(replacing: true) else { throw QueueError(.internal, "\(name) was not replaced") }
        } catch {
            guard error.isFull else { throw error }
            // Without room for a copy: the same bytes in the same place, which makes the pages dirty and so written.
            try copy(old, name, to: old, name, size)
            try Posix.sync(old, name)
        }
    }

    private static func copy(_ source: Int32, _ from: String, to target: Int32, _ to: String, _ size: Int64) throws(QueueError) {
        var offset: Int64 = 0
        while offset < size {
            let bytes = try Posix.read(source, at: offset, count: Int(min(size - offset, 1 << 20)), from)
            guard !bytes.isEmpty else { throw QueueError(.storage, "\(from) became shorter") }
            try Posix.write(target, at: offset, bytes, to)
            offset += Int64(bytes.count)
        }
    }
}
