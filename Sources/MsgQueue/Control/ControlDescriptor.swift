import CPlatform
import Glibc

/// A descriptor of a control socket. In a forked child all of them are closed: otherwise clients would not see that the owner has ended.
final class ControlDescriptor: @unchecked Sendable {
    private static let registry: Mutex = {
        let lock = Mutex()
        ForkGuard.protect(lock, reset: { ControlDescriptor.closeInChild() })
        return lock
    }()
    nonisolated(unsafe) private static var open: Set<Int32> = []

    let number: Int32

    /// Makes a descriptor by `make`, which returns -1 and sets `errno` on failure and must not wait. nil: it failed.
    init?(_ make: () -> Int32) {
        let made = Self.registry.withLock {
            let made = Posix.aboveStandard(make())
            if made >= 0 { Self.open.insert(made) }
            return made
        }
        guard made >= 0 else { return nil }
        number = made
    }

    deinit {
        Self.registry.withLock {
            // In a forked child it is closed already, and another file may have the number.
            if Self.open.remove(number) != nil { Glibc.close(number) }
        }
    }

    /// Runs in a forked child, with the registry's mutex held.
    private static func closeInChild() {
        for descriptor in open { Glibc.close(descriptor) }
        open = []
    }
}
