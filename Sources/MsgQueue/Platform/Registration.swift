/// A host's function with its context, released exactly once: when it was replaced or the queue is closed, and its last call has
/// returned. The counting is done under the engine's lock; the release runs outside it.
package final class Registration<Function>: @unchecked Sendable {
    package let function: Function
    /// Whether its last call kept the thread until the answer was there.
    var blocks = false
    private let release: (@Sendable () -> Void)?
    private var running = 0
    private var isRetired = false
    private var isReleased = false

    package init(_ function: Function, release: (@Sendable () -> Void)? = nil) {
        self.function = function
        self.release = release
    }

    /// In a forked child: the same function without the calls that are under way in the parent.
    func copy() -> Registration { Registration(function, release: release) }

    func enter() { running += 1 }

    /// The release, when it is due now.
    func leave() -> (@Sendable () -> Void)? {
        running -= 1
        return due()
    }

    /// The release, when it is due now.
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
