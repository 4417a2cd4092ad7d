import Glibc

/// A file that records are appended to, each followed by fdatasync. It keeps no order by conversation, no ids and no state.
class FileContender: Contender {
    private let descriptor: Int32
    private let lock = Lock()

    required init(directory: String) throws {
        descriptor = open("\(directory)/raw.log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure("open: \(String(cString: strerror(errno)))") }
    }

    func put(_ body: [UInt8]) throws { try append(body) }

    func put(_ bodies: [[UInt8]]) throws { try append(Array(bodies.joined())) }

    private func append(_ bytes: [UInt8]) throws {
        try lock.whileHeld {
            var done = 0
            while done < bytes.count {
                let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress.map { $0 + done }, $0.count - done) }
                guard count > 0 else { throw Failure("write: \(String(cString: strerror(errno)))") }
                done += count
            }
            guard fdatasync(descriptor) == 0 else { throw Failure("fdatasync: \(String(cString: strerror(errno)))") }
        }
    }

    func drain(count: Int) throws -> Bool { false }

    func close() throws {
        guard Glibc.close(descriptor) == 0 else { throw Failure("close: \(String(cString: strerror(errno)))") }
    }
}

/// The same file with group commit: one thread appends and flushes the records of all waiting threads.
final class GroupFileContender: FileContender {
    private let round = Round()

    override func put(_ body: [UInt8]) throws { try round.join(body) { try super.put($0) } }
}
