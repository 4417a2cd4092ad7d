import CMsgQueue
import Glibc
import MsgQueue

/// The open queues by handle. A handle is a number and is never dereferenced, so that a closed handle can be distinguished from an invalid
/// one.
enum Handles {
    private static let lock: Mutex = {
        let lock = Mutex()
        ForkGuard.protect(lock)
        return lock
    }()
    nonisolated(unsafe) private static var engines: [UInt: Engine] = [:]
    nonisolated(unsafe) private static var count: UInt = 0

    /// "mq" in the upper 16 bits, where no user-space address is; the rest is a counter in steps of 16.
    private static let mark: UInt = 0x6d71 << 48

    static func add(_ engine: Engine) -> OpaquePointer? {
        lock.withLock {
            count += 1
            engines[count] = engine
            return OpaquePointer(bitPattern: mark | count << 4)
        }
    }

    /// Throws in a forked child before anything else is done: what Swift prepares when a type is first used may be locked there for ever, by
    /// a thread of the parent.
    static func engine(_ handle: OpaquePointer?) throws(QueueError) -> Engine {
        guard let handle else { throw QueueError(.invalid, "queue is NULL") }
        let number = UInt(bitPattern: handle)
        let engine = try lock.withLock { () throws(QueueError) in
            let index = (number ^ mark) >> 4
            guard number & 0xf == 0, number >> 48 == 0x6d71, index > 0, index <= count else {
                throw QueueError(.invalid, "invalid queue handle")
            }
            guard let engine = engines[index] else { throw QueueError(.closed, "the queue is closed") }
            return engine
        }
        try engine.checkProcess()
        return engine
    }

    /// The engine of a call that keeps the host's context. Without one the context is released.
    static func engine(_ handle: OpaquePointer?, for host: HostContext) throws(QueueError) -> Engine {
        do throws(QueueError) { return try engine(handle) } catch {
            host.releasing?()
            throw error
        }
    }

    static func remove(_ handle: OpaquePointer?) {
        let index = (UInt(bitPattern: handle) ^ mark) >> 4
        lock.withLock { _ = engines.removeValue(forKey: index) }
    }
}
