/// A host's function and its context. The context is released exactly once: after the function was replaced or the queue was closed, and
/// its last call has returned. Calls are counted under the engine's lock; the release function runs outside it.
package final class Registration<Function>: @unchecked Sendable {
    package let function: Function
    /// It only starts something and runs no code of the host, so that any thread may call it.
    package let returnsAtOnce: Bool
    private let release: (@Sendable () -> Void)?
    private var running = 0
    private var isRetired = false
    private var isReleased = false

    package init(_ function: Function, returnsAtOnce: Bool = false, release: (@Sendable () -> Void)? = nil) {
        self.function = function
        self.returnsAtOnce = returnsAtOnce
        self.release = release
    }

    /// Returns a copy for a forked child, without the calls that are running in the parent.
    func copy() -> Registration { Registration(function, returnsAtOnce: returnsAtOnce, release: release) }

    func enter() { running += 1 }

    /// Ends a call. Returns the release function if it is due now.
    func leave() -> (@Sendable () -> Void)? {
        running -= 1
        return due()
    }

    /// Marks the function as replaced. Returns the release function if it is due now.
    func retire() -> (@Sendable () -> Void)? {
        isRetired = true
        return due()
    }

    private func due() -> (@Sendable () -> Void)? {
        guard isRetired, running == 0, !isReleased else { return nil }
        isReleased = true
        return release
    }
}

extension Registration where Function == Transport {
    /// A transport that sends one message in a call.
    package convenience init(
        _ send: @escaping TransportFunction, returnsAtOnce: Bool = false, release: (@Sendable () -> Void)? = nil
    ) {
        self.init(
            .single { delivery, begins in
                begins()
                return send(delivery)
            }, returnsAtOnce: returnsAtOnce, release: release)
    }

    /// A transport that sends several messages in a call.
    package convenience init(
        batches limits: BatchLimits, _ send: @escaping BatchTransportFunction, returnsAtOnce: Bool = false,
        release: (@Sendable () -> Void)? = nil
    ) {
        self.init(
            .batch(
                { deliveries, begins in
                    begins()
                    return send(deliveries)
                }, limits), returnsAtOnce: returnsAtOnce, release: release)
    }
}
