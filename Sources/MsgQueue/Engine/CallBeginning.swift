import CPlatform

/// When a call of the transport began. The thread that calls notes it last, without a lock: all that could make the thread wait, such as
/// the release of the engine's lock and the copies of the bodies, comes before.
final class CallBeginning: @unchecked Sendable {
    private let value: UnsafeMutablePointer<Int64>

    init() {
        value = .allocate(capacity: 1)
        value.initialize(to: .min)
    }

    deinit { value.deallocate() }

    func note(_ now: Int64) { platform_atomic_store(value, now) }

    /// Monotonic; nil: it has not begun.
    var time: Int64? {
        let noted = platform_atomic_load(value)
        return noted == .min ? nil : noted
    }
}
