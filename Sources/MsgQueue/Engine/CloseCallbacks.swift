/// The callbacks of a close: the ends of drains, and the releases. Used by one thread at a time. As in other callbacks, `close` is refused in
/// them.
final class CloseCallbacks: @unchecked Sendable {
    private let context: EngineContext
    private var drains: [@Sendable () -> Void]
    private var releases: [(@Sendable () -> Void)?]

    init(_ context: EngineContext, drains: [@Sendable () -> Void], releases: [(@Sendable () -> Void)?]) {
        (self.context, self.drains, self.releases) = (context, drains, releases)
    }

    func runDrains() {
        for drain in drains { ThreadContext.current.inCallback(of: context, drain) }
        drains = []
    }

    func runReleases() {
        for index in releases.indices {
            if let release = releases[index] { ThreadContext.current.inCallback(of: context, release) }
            releases[index] = nil
        }
    }
}
