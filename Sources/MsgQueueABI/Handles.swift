import CMsgQueue
import Glibc
import MsgQueue

/// The queues that are open, by handle. A handle is a number, never followed as a pointer: a closed one is told from one that never was.
enum Handles {
    private static let lock: Mutex = {
        let lock = Mutex()
        ForkGuard.protect(lock)
        return lock
    }()
    nonisolated(unsafe) private static var engines: [UInt: Engine] = [:]
    nonisolated(unsafe) private static var count: UInt = 0

    /// "mq", where no address of a program lies, and room for a count in steps of 16.
    private static let mark: UInt = 0x6d71 << 48

    static func add(_ engine: Engine) -> OpaquePointer? {
        lock.withLock {
            count += 1
            engines[count] = engine
            return OpaquePointer(bitPattern: mark | count << 4)
        }
    }

    static func engine(_ handle: OpaquePointer?) throws(QueueError) -> Engine {
        guard let handle else { throw QueueError(.invalid, "the queue is NULL") }
        let number = UInt(bitPattern: handle)
        return try lock.withLock { () throws(QueueError) in
            let index = (number ^ mark) >> 4
            guard number & 0xf == 0, number >> 48 == 0x6d71, index > 0, index <= count else {
                throw QueueError(.invalid, "this is not a queue's handle")
            }
            guard let engine = engines[index] else { throw QueueError(.closed, "the queue is closed") }
            return engine
        }
    }

    static func remove(_ handle: OpaquePointer?) {
        let index = (UInt(bitPattern: handle) ^ mark) >> 4
        lock.withLock { _ = engines.removeValue(forKey: index) }
    }
}
